"""Every metric of a CompAct run again, from its records or from its best checkpoint."""

from mmgen.compact.context import read_compact_context
from mmgen.compact.report import run_report
from mmgen.compact.scores import Scores, score_run
from mmgen.core.workdir import Workdir
from mmgen.evaluation.context import write_context
from mmgen.evaluation.rescore import METRICS


def rescore(workdir: Workdir, *, from_checkpoint: bool) -> Scores:
    """Every metric of the run, written to `evals/metrics.json`, summary.json and report.md."""
    if from_checkpoint:
        from mmgen.compact.run import evaluate_finally, load_run, run_context

        run = load_run(workdir.root)
        write_context(workdir.root, run_context(run.experiment))
        evaluate_finally(run.experiment, workdir, run.mesh, run.best)
    scores = score_run(workdir.root, read_compact_context(workdir.root))
    workdir.write_json(METRICS, scores)
    if workdir.file("summary.json").exists():
        workdir.write_json("summary.json", workdir.read_json("summary.json") | {"metrics": scores})
        workdir.write_text("report.md", run_report(workdir.root))
    return scores
