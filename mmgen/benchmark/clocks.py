"""Stages of the accelerator check that time single iterations."""

from mmgen.benchmark.measure import device_facts, matmul_peak
from mmgen.benchmark.record import Record
from mmgen.benchmark.scales import Scale
from mmgen.benchmark.suite import Case, clock_cases

LARGE_CHUNK = 5


def sanity(record: Record, scale: Scale) -> None:
    """What the machine is, and how fast it multiplies."""
    record.add(facts=device_facts())
    for dtype, precision in (
        ("bfloat16", "default"),
        ("float32", "default"),
        ("float32", "highest"),
    ):
        rate = matmul_peak(dtype, scale.matmul_size, precision)
        record.add(**{f"peak_{dtype}_{precision}": rate})


def bench(record: Record, scale: Scale) -> None:
    """Algorithms and models at the published batch size, and one batch that fills the device."""
    chunk = min(scale.chunk, 50)
    cases = [
        Case(model, algorithm, scale.batch_size, chunk)
        for model in ("vlbert", "lxmert")
        for algorithm in ("er", "mir", "agem")
    ]
    replay = (("settings", {"replay_size": scale.large_batch}), ("capacity", 2 * scale.large_batch))
    # Second: if time runs out, this one is wanted more than the others.
    cases.insert(1, Case("vlbert", "er", scale.large_batch, LARGE_CHUNK, replay))
    clock_cases(record, scale, cases)


def speed(record: Record, scale: Scale) -> None:
    """ER on VLBERT alone: under other settings of the compiler, and its first step undisturbed."""
    record.add(facts=device_facts())
    case = Case("vlbert", "er", scale.batch_size, min(scale.chunk, 50))
    clock_cases(record, scale, [case], wait=False)
