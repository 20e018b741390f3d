"""The accelerator check's results as text."""

from collections.abc import Sequence
from typing import Any

from mmgen.benchmark.record import table
from mmgen.benchmark.turns import turn_table

Found = dict[str, dict[str, Any]]


def report(found: Found) -> str:
    """What the stages have found, as far as they have come.

    Args:
      found: of each stage its outcome and what it has recorded.
    """
    parts = [
        _outcomes(found),
        _machine(found.get("sanity", {})),
        _pass(found.get("full_pass", {})),
        _clocks(found.get("bench", {})),
        _checks(found),
        _trained(found.get("loop", {})),
        _seeds(found.get("seeds", {})),
        _variants(found),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _outcomes(found: Found) -> str:
    rows = [[name, stage["seconds"], stage["outcome"]] for name, stage in found.items()]
    return table(["stage", "seconds", "outcome"], rows)


def _machine(stage: dict[str, Any]) -> str:
    if "facts" not in stage:
        return ""
    facts = "\n".join(f"{name}: {value}" for name, value in stage["facts"].items())
    peaks = [
        [name.removeprefix("peak_").replace("_", ", "), value / 1e12]
        for name, value in stage.items()
        if name.startswith("peak_")
    ]
    return f"{facts}\n\n{table(['matrix products', 'TFLOP/s'], peaks)}"


def _sizes(buckets: Sequence[Sequence[Any]]) -> str:
    """Text positions and object slots of each."""
    return ", ".join(f"{text} + {objects}" for text, objects, *_ in buckets)


def _pass(stage: dict[str, Any]) -> str:
    if "steps" not in stage:
        return ""
    head = (
        f"Full pass of ER-10k on VLBERT: {stage['instances']:,} instances in {stage['steps']:,} "
        f"iterations, {stage['regions']:,} regions, buckets {_sizes(stage['buckets'])}"
    )
    lines = [head]
    for name, seconds in stage.get("trials", {}).items():
        lines.append(f"  {name}: {1e3 * seconds:.3f} ms per iteration in a trial")
    for name, program in stage.get("programs", {}).items():
        lines.append(f"  {name}: compiled in {program['compile_seconds']:.1f} s")
    lines += [f"  {name}: {reason}" for name, reason in stage.get("failures", {}).items()]
    if "seconds_made" in stage:
        lines.append(
            f"  by {stage['way']}: {stage['steps_made']:,} iterations in "
            f"{stage['seconds_made']:.1f} s, {stage['step_ms']:.3f} ms each; "
            f"{stage['utilisation']:.1%} of the peak"
        )
        kind = "EXTRAPOLATED" if stage["extrapolated"] else "measured"
        lines.append(f"  the whole stream: {stage['whole_stream_seconds']:.1f} s ({kind})")
        lines.append(
            f"  loss {stage['loss_first']:.3f} -> {stage['loss_last']:.3f}, finite: "
            f"{stage['loss_is_finite']}; memory is the plan's: {stage['memory_is_the_plan']}"
        )
    return "\n".join(lines) + _profile(stage.get("profile"))


def _profile(profile: dict[str, Any] | None) -> str:
    if not profile:
        return ""
    if "missing" in profile:
        return f"\n  {profile['missing']}"
    rows = [[name, number, 1e3 * seconds] for name, number, seconds in profile["top"][:12]]
    head = (
        f"\n\nTrace of {1e3 * profile['wall_seconds']:.0f} ms: {profile['kernels']:,} kernels, "
        f"busy {1e3 * profile['busy_seconds']:.0f} ms\n"
    )
    return head + table(["kernel", "number", "ms"], rows)


CLOCK_COLUMNS = (
    ("host ms", "host_ms"),
    ("device ms", "device_ms"),
    ("examples/s", "device_examples_per_second"),
    ("host util.", "host_utilisation"),
    ("device util.", "device_utilisation"),
    ("first step s", "host_first_step_seconds"),
    ("MiB", "host_program_bytes"),
    ("packed", "room"),
    ("fed ms", "fed_ms"),
    ("data wait", "data_wait_share"),
)


def clock_table(stage: dict[str, Any]) -> str:
    """One line per case that was timed; then what was not, and why."""
    rows = []
    for case in stage.get("cases", ()):
        values = {**case, "host_program_bytes": case.get("host_program_bytes", 0) / 2**20}
        if case.get("room"):
            values["room"] = " + ".join(map(str, case["room"][:2]))
        rows.append([case["name"], *(values.get(key) for _, key in CLOCK_COLUMNS)])
    text = table(["case", *(title for title, _ in CLOCK_COLUMNS)], rows)
    reasons = [f"  {name}: {reason}" for name, reason in stage.get("failures", {}).items()]
    return "\n".join([text, *reasons])


def _clocks(stage: dict[str, Any]) -> str:
    if "peak" not in stage:
        return ""
    head = (
        f"Iterations in {stage['dtype']}, model size {stage['size']}, bucket "
        f"{_sizes([stage['bucket']])}; utilisation of {stage['peak'] / 1e12:.4g} TFLOP/s"
    )
    return f"{head}\n{clock_table(stage)}"


def _checks(found: Found) -> str:
    lines = []
    for check in found.get("numerics", {}).get("checks", ()):
        details = {k: v for k, v in check.items() if k not in ("name", "passed")}
        lines.append(f"{'pass' if check['passed'] else 'FAIL'}  {check['name']}  {details}")
    if "bit_equal" in found.get("determinism", {}):
        flags = found["determinism"]["flags"]
        lines.append(f"two runs bit-equal under {flags}: {found['determinism']['bit_equal']}")
    return "\n".join(lines)


def _trained(stage: dict[str, Any]) -> str:
    if "missing" in stage:
        return f"Training loop: {stage['missing']}"
    runs = stage.get("runs", ())
    if not runs:
        return ""
    columns = ("steps", "programs", "to_first_step_seconds", "train_seconds", "save_seconds")
    rows = [
        [run["name"], *(run.get(key) for key in columns), run["data_wait_share"], run["loss"]]
        for run in runs
    ]
    header = ["training loop", "steps", "programs", "first step s", "train s", "save s"]
    text = table([*header, "data wait", "loss"], rows)
    if "difference" in stage:
        verdict = "pass" if stage["passed"] else "FAIL"
        text += f"\n{verdict}  the runs agree to {stage['difference']:.1e} of their losses"
    return text


def _seeds(stage: dict[str, Any]) -> str:
    return turn_table(stage["seeds"]) if "seeds" in stage else ""


def _variants(found: Found) -> str:
    rows = []
    for name, stage in found.items():
        if name.startswith("speed_") and stage.get("cases"):
            case = stage["cases"][0]
            keys = ("host_ms", "device_ms", "host_first_step_seconds", "device_first_step_seconds")
            rows.append([name, *(case.get(key) for key in keys), stage["flags"][:60]])
    header = ["variant", "host ms", "device ms", "first step s", "first chunk s", "flags"]
    return table(header, rows) if rows else ""
