"""Every metric of a masked-span run again, from its records or its last checkpoint."""

from mmgen.core.workdir import Workdir
from mmgen.evaluation.context import read_context
from mmgen.evaluation.scores import Scores, score_run

METRICS = "evals/metrics.json"
"""Where the metrics go besides summary.json, which only a finished run has."""


def rescore(workdir: Workdir, *, from_checkpoint: bool) -> Scores:
    """Every metric of the run, written to `evals/metrics.json`, summary.json and report.md."""
    if from_checkpoint:
        from mmgen.run import load_run

        run = load_run(workdir.root)
        run.evaluate(run.params, run.step, True)
    scores = score_run(workdir.root, read_context(workdir.root))
    workdir.write_json(METRICS, scores)
    if workdir.file("summary.json").exists():
        from mmgen.report.run_table import run_report

        workdir.write_json("summary.json", workdir.read_json("summary.json") | {"metrics": scores})
        workdir.write_text("report.md", run_report(workdir.root))
    return scores
