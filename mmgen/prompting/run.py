"""One prompted run from config to report: generate, judge, score, each re-runnable alone.

config.json  answers/  judge/  evals/records.jsonl  summary.json  report.md  DONE
"""

import json
import time
from typing import Any

import jax
from ml_collections import ConfigDict

from mmgen.core import provenance
from mmgen.core.preemption import Interrupted, StopSignal
from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.evaluation.context import write_context
from mmgen.prompting.benchmark import Benchmark, Scores
from mmgen.prompting.benchmarks import make_benchmark
from mmgen.prompting.collect import Collected, collect
from mmgen.prompting.generate import as_facts
from mmgen.prompting.run_report import run_report
from mmgen.settings.identity import operational
from mmgen.settings.prompting import prompting_identity, prompting_workdir
from mmgen.settings.resolve_prompting import resolve, shard

RECORDS = "evals/records.jsonl"

INCOMPLETE = 1
"""Exit status of a run some of whose requests failed: the same command tries them again."""


def run(config: ConfigDict, workdir: str = "", command: str = "") -> int:
    """Asks, or goes on asking, what `config` describes, and prints the report.

    Args:
      config: recorded choices, not yet resolved.
      workdir: where answers and results go; by default a folder that the run's identity names.
      command: the command line, for the record.

    Returns:
      0 for a finished run and for one that was asked to stop, `INCOMPLETE` if requests failed.
    """
    if jax.process_count() > 1:
        raise UserError(
            "A prompted run has one process; use config.backend.mesh for the devices of a host, "
            "or one run per config.shard."
        )
    config = resolve(config)
    benchmark = make_benchmark(config)
    folder = Workdir(workdir or prompting_workdir(config, benchmark.dataset))
    with folder.lock():
        folder.claim(prompting_identity(config, benchmark.dataset), operational(config))
        if folder.is_done and not config.only:
            print(folder.file("report.md").read_text())
            print(f"This run is finished: {folder.root}")
            return 0
        start = time.perf_counter()
        try:
            with StopSignal() as stop, stop.breakable():
                found = collect(config, benchmark, folder)
        except Interrupted:
            print(f"Stopped as asked; the same command continues: {folder.root}")
            return 0
        return _conclude(config, benchmark, folder, found, time.perf_counter() - start, command)


def _conclude(
    config: ConfigDict,
    benchmark: Benchmark,
    folder: Workdir,
    found: Collected,
    wall_seconds: float,
    command: str,
) -> int:
    """Scores what there is and says how the run stands."""
    is_part = shard(config)[1] > 1 or config.only == "generate"
    if not is_part:
        scores = benchmark.score(found.replies, found.traits["model"])
        facts = summary(config, benchmark, found, scores, wall_seconds, command)
        write_results(folder, benchmark, facts, scores)
        print(folder.file("report.md").read_text())
    if found.failed:
        error = next(one.error for one in found.tallies.values() if one.error)
        print(
            f"{found.failed:,} requests failed and are counted apart ({error}); the same command "
            f"asks them again: {folder.root}"
        )
        return INCOMPLETE
    if not is_part and not found.lacking:
        folder.mark_done()
    print(f"{'Answers' if is_part else 'Results'}: {folder.root}")
    return 0


def write_results(
    folder: Workdir, benchmark: Benchmark, facts: dict[str, Any], scores: Scores
) -> None:
    """Write the records and their context, summary.json and report.md."""
    context = {
        "kind": "prompting",
        "benchmark": benchmark.name,
        "dataset": dict(benchmark.dataset),
        "measures": scores.measures,
        "part": scores.part,
        "cluster": scores.cluster,
    }
    write_context(folder.root, context)
    folder.write_lines(RECORDS, (json.dumps(one, ensure_ascii=False) for one in scores.records))
    folder.write_json("summary.json", facts)
    folder.write_text("report.md", run_report(facts, scores))


def summary(
    config: ConfigDict,
    benchmark: Benchmark,
    found: Collected,
    scores: Scores,
    wall_seconds: float,
    command: str,
) -> dict[str, Any]:
    """The contents of summary.json."""
    dataset = benchmark.dataset
    judge = found.traits.get("judge")
    return {
        "name": config.name,
        "kind": config.kind,
        "benchmark": benchmark.name,
        "dataset": dataset["name"],
        "fingerprint": dataset["fingerprint"],
        "world": dataset["world"],
        "model": dict(found.traits["model"].identity) | {"spec": config.model.spec},
        "judge": None if judge is None else dict(judge.identity) | {"spec": config.judge.spec},
        "seed": config.seed,
        "data_seed": config.data_seed,
        "cluster": benchmark.cluster,
        "metrics": scores.metrics,
        "stages": {name: as_facts(one) for name, one in found.tallies.items()},
        "wall_seconds": round(wall_seconds, 3),
        "device": provenance.device(),
        "versions": provenance.versions(*benchmark.metrics),
        "git": provenance.git_state(),
        "command": command,
        "parent": None,
        "licences": list(dataset["licences"]),
        "config": prompting_identity(config, dataset),
    }
