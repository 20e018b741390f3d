"""Every metric of a prompted run again, from its stored answers; nothing is asked."""

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.prompting.benchmarks import make_benchmark
from mmgen.prompting.collect import collect
from mmgen.prompting.run import summary, write_results
from mmgen.settings.identity import recorded_config

KEPT = ("wall_seconds", "device", "versions", "command")
"""Facts of summary.json that belong to the time of asking."""


def rescore(workdir: Workdir, *, from_checkpoint: bool) -> dict[str, float]:
    """Every metric of the run; writes the records, summary.json and report.md.

    Raises:
      UserError: nothing was asked yet, the data set is another one by now, or a checkpoint was
        asked for.
    """
    if from_checkpoint:
        raise UserError(
            "A prompted run has no checkpoint; delete its folder 'answers' to ask the model again."
        )
    record = workdir.read_json("config.json")
    config = recorded_config(record).copy_and_resolve_references().unlock()
    config.only = "score"
    benchmark = make_benchmark(config)
    expected = record["identity"]["dataset.fingerprint"]
    if benchmark.dataset["fingerprint"] != expected:
        raise UserError(
            f"{workdir.root} was asked about {benchmark.dataset['name']} with fingerprint "
            f"{expected[:12]}, but now it has {benchmark.dataset['fingerprint'][:12]}; give its "
            "folder by config.data_dir."
        )
    found = collect(config, benchmark, workdir)
    scores = benchmark.score(found.replies, found.traits["model"])
    facts = summary(config, benchmark, found, scores, 0.0, "")
    if workdir.file("summary.json").exists():
        before = workdir.read_json("summary.json")
        facts |= {key: before[key] for key in KEPT}
        for name, stage in facts["stages"].items():
            stage |= {k: v for k, v in before["stages"].get(name, {}).items() if k not in stage}
    write_results(workdir, benchmark, facts, scores)
    return scores.metrics
