"""Searches hyper-parameters as the paper does: the start of the stream, the validation split.

    python -m mmgen.search --config=FILE[:args] --out DIR [--grid KEY=V1,V2,...] [--grid ...]
        [--share 0.1] [--split validation] [--seeds 3] [--metric validation/log_ppl]
        [--config.key=value ...] [--slurm]

Every point of the grid is trained on the first tenth of the stream with each seed, and scored on
the validation split; the test split is never read (VisCOLL paper, appendix B, which searches the
learning rates 2e-4, 1e-4 and 5e-5 with the vanilla method over 3 runs, and uses the best for all).
A trial is an ordinary run of mmgen.main in its own folder below DIR. The same command again goes on
where it was stopped, and repeats nothing that is finished.

DIR gets leaderboard.md, leaderboard.json and winner.py, a config file with the chosen values.
With --slurm it gets search.sbatch instead, an array job with one task per trial; the same command
without --slurm then gathers what the tasks have left.
"""

import argparse
import contextlib
import io
import itertools
import re
import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple

from mmgen.core.announce import announce
from mmgen.core.workdir import Workdir
from mmgen.errors import Diverged, UserError
from mmgen.report.leaderboard import Point, Result, leaderboard, ranked
from mmgen.report.tables import markdown, records
from mmgen.settings.command_line import fail, parse_config
from mmgen.settings.kinds import DEFAULT
from mmgen.settings.winner import winner_source

PAPER_GRID: dict[str, tuple[str, ...]] = {"optimizer.learning_rate": ("2e-4", "1e-4", "5e-5")}
PAPER_SHARE = 0.1
PAPER_SEEDS = 3

TESTS = ("test", "novel")
"""Splits that no choice may depend on."""

OWN_KEYS = {"stream.share": "--share", "evaluation.splits": "--split", "num_seeds": "--seeds"}
"""Keys that the search sets itself, and the option that says how; besides, `seed` is the first."""


class Search(NamedTuple):
    """What is searched.

    Attributes:
      config: `FILE[:arguments]`.
      overrides: `--config.key=value`, of every trial.
      grid: key -> its values, as text.
      share: part of the stream that is read, from its start.
      split: where trials are scored.
      seeds: runs per point of the grid.
      metric: key of the score that decides.
    """

    config: str
    overrides: tuple[str, ...]
    grid: dict[str, tuple[str, ...]]
    share: float
    split: str
    seeds: int
    metric: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """The searched config on the command line of `mmgen.main`."""
        return (f"--config={self.config}", *self.overrides)


class Trial(NamedTuple):
    """One run: a point of the grid, a seed, and the command line of `mmgen.main`."""

    point: Point
    seed: int
    arguments: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of its folder."""
        chosen = ",".join(f"{key.rsplit('.', 1)[-1]}={value}" for key, value in self.point)
        return re.sub(r"[^\w.,=+-]", "_", f"{chosen}-s{self.seed}")


def main(arguments: Sequence[str]) -> None:
    """Do what the command line asks for.

    Raises:
      UserError: whatever the user can mend, before the first trial as far as it can be known.
    """
    options, rest = _parser().parse_known_args(arguments)
    search = make_search(options, rest)
    trials = make_trials(search)
    out = Workdir(options.out)
    if options.slurm:
        out.write_text("search.sbatch", slurm_script(trials, options.out, arguments))
        print(f"{len(trials)} trials; submit them with: sbatch {out.file('search.sbatch')}")
        return
    diverged = run_trials(trials, out)
    if diverged is None:
        print(f"Stopped as asked; the same command continues: {out.root}")
        return
    print(write_results(search, trials, diverged, out))


def make_search(options: argparse.Namespace, rest: Sequence[str]) -> Search:
    """The search that a command line describes.

    Raises:
      UserError: no config or one of another kind, a grid that is none, the test split, or a number
        out of range.
    """
    config = next((a.removeprefix("--config=") for a in rest if a.startswith("--config=")), "")
    if not config:
        raise UserError("Give --config=FILE; `python -m mmgen.main --list` shows the experiments.")
    kind = parse_config((f"--config={config}",)).kind
    if kind != DEFAULT:
        raise UserError(
            f"--config={config} is of kind {kind}, and a search trains configs of kind {DEFAULT} "
            "only; give one of these."
        )
    overrides = tuple(a for a in rest if not a.startswith("--config="))
    for text in overrides:
        option = OWN_KEYS.get(text.removeprefix("--config.").partition("=")[0])
        if option:
            raise UserError(f"{text} is what {option} is for; use that.")
    if options.split in TESTS:
        raise UserError(
            f"--split={options.split} would let the search see what the result is measured on; "
            "give --split=validation."
        )
    metric = options.metric or f"{options.split}/log_ppl"
    if metric.partition("/")[0].removesuffix("_subset") in TESTS:
        raise UserError(
            f"--metric={metric} is measured on a split that no choice may depend on; give one of "
            f"{options.split}/, such as {options.split}/log_ppl."
        )
    if not 0 < options.share <= 1 or options.seeds < 1:
        raise UserError(
            f"--share={options.share} must lie above 0 and not above 1, and "
            f"--seeds={options.seeds} must be at least 1."
        )
    return Search(
        config=config,
        overrides=overrides,
        grid=_grid(options.grid) or PAPER_GRID,
        share=options.share,
        split=options.split,
        seeds=options.seeds,
        metric=metric,
    )


def make_trials(search: Search) -> list[Trial]:
    """Every point of the grid with every seed, each checked as `mmgen.main` would check it."""
    first = parse_config(search.arguments).seed
    own = (
        *search.arguments,
        f"--config.stream.share={search.share}",
        f"--config.evaluation.splits=({search.split!r},)",
        "--config.num_seeds=1",
    )
    trials = []
    for values in itertools.product(*search.grid.values()):
        point = tuple(zip(search.grid, values, strict=True))
        for seed in range(first, first + search.seeds):
            arguments = (*own, f"--config.seed={seed}", *_chosen(point))
            parse_config(arguments)
            trials.append(Trial(point, seed, arguments))
    return trials


def run_trials(trials: Sequence[Trial], out: Workdir) -> set[Trial] | None:
    """Runs what is not finished; returns the trials that diverged, None if it was stopped."""
    from mmgen.run import run

    diverged = set()
    for number, trial in enumerate(trials, 1):
        folder = Workdir(out.file(trial.name))
        announce(f"trial {number} of {len(trials)}: {trial.name}")
        try:
            # Asked of finished ones, too: it checks that they are still the same run.
            with contextlib.redirect_stdout(io.StringIO()):
                run(parse_config(trial.arguments), str(folder.root), shlex.join(trial.arguments))
        except Diverged as error:
            announce(f"{trial.name} diverged: {error}")
            diverged.add(trial)
            continue
        if not folder.is_done:
            return None
    return diverged


def write_results(
    search: Search, trials: Sequence[Trial], diverged: set[Trial], out: Workdir
) -> str:
    """Writes leaderboard.md, leaderboard.json and winner.py; returns what to print.

    Raises:
      UserError: the metric is unknown, or every point of the grid diverged.
    """
    results = [_result(trial, search.metric, trial in diverged, out) for trial in trials]
    best = ranked(results, search.metric)[0]
    if not best.values:
        raise UserError(f"Every point of the grid diverged: {', '.join(t.name for t in trials)}.")
    finished = next(trial for trial in trials if trial not in diverged)
    summary = Workdir(out.file(finished.name)).read_json("summary.json")
    facts = (
        f"{summary['dataset']}, fingerprint {summary['fingerprint'][:12]}, profile "
        f"{summary['profile']}, the first {search.share:.0%} of the stream, {summary['steps']:,} "
        f"iterations, {search.seeds} seed{'s' * (search.seeds > 1)}."
    )
    table = leaderboard(search.config, results, search.metric, facts)
    value = {
        "search": search._asdict(),
        "winner": dict(best.point),
        "leaderboard": records(table),
        "trials": [
            {"name": trial.name, "value": result.value, "arguments": trial.arguments}
            for trial, result in zip(trials, results, strict=True)
        ],
    }
    out.write_json("leaderboard.json", value)
    out.write_text("leaderboard.md", markdown(table))
    out.write_text("winner.py", _winner(search, best.point))
    return f"{markdown(table)}\nWinner: {out.file('winner.py')}"


def slurm_script(trials: Sequence[Trial], out: str, arguments: Sequence[str]) -> str:
    """An array job whose tasks are the trials; to be submitted where `mmgen.main` runs."""
    gather = shlex.join([a for a in arguments if a != "--slurm"])
    lines = [
        "#!/usr/bin/env bash",
        "# One task per trial of a search. Resources are the cluster's business: give them to",
        "# sbatch. MMGEN_PYTHON names an interpreter that has mmgen. Submit again what was cut",
        "# short: a trial goes on where it stopped. In the end gather the results with",
        f"#   python -m mmgen.search {gather}",
        "#SBATCH --job-name=mmgen-search",
        f"#SBATCH --array=0-{len(trials) - 1}",
        f"#SBATCH --output={out}/%a.log",
        "#SBATCH --open-mode=append",
        "#SBATCH --signal=B:TERM@120",
        "set -euo pipefail",
        'cd "$SLURM_SUBMIT_DIR"',
        'case "$SLURM_ARRAY_TASK_ID" in',
    ]
    python = '"${MMGEN_PYTHON:-.venv/bin/python}"'
    for number, trial in enumerate(trials):
        command = shlex.join([*trial.arguments, f"--workdir={out}/{trial.name}"])
        lines.append(f"{number}) exec {python} -m mmgen.main {command} ;;")
    return "\n".join([*lines, "esac"]) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m mmgen.search",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage="python -m mmgen.search --config=FILE[:args] --out DIR [options]",
    )
    parser.add_argument("--out", required=True, help="folder for trials and results")
    parser.add_argument("--grid", action="append", default=[], metavar="KEY=V1,V2,...")
    parser.add_argument("--share", type=float, default=PAPER_SHARE, help="of the stream")
    parser.add_argument("--split", default="validation", help="where trials are scored")
    parser.add_argument("--seeds", type=int, default=PAPER_SEEDS, help="runs per point")
    parser.add_argument("--metric", help="default: SPLIT/log_ppl")
    parser.add_argument("--slurm", action="store_true", help="write an array job, run nothing")
    return parser


def _grid(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    grid: dict[str, tuple[str, ...]] = {}
    for text in given:
        key, _, values = text.partition("=")
        key = key.removeprefix("config.")
        chosen = tuple(dict.fromkeys(filter(None, values.split(","))))
        if not chosen or key in grid:
            raise UserError(
                f"--grid={text} {'names a key twice' if chosen else 'has no values'}; give each "
                "key once, as in --grid optimizer.learning_rate=2e-4,1e-4."
            )
        own = OWN_KEYS | {"seed": "--seeds"}
        if key in own:
            raise UserError(f"--grid={text} is what {own[key]} is for; use that.")
        grid[key] = chosen
    return grid


def _chosen(point: Point) -> tuple[str, ...]:
    return tuple(f"--config.{key}={value}" for key, value in point)


def _result(trial: Trial, metric: str, diverged: bool, out: Workdir) -> Result:
    if diverged:
        return Result(trial.point, trial.seed, None)
    metrics = Workdir(out.file(trial.name)).read_json("summary.json")["metrics"]
    if metric not in metrics:
        raise UserError(
            f"--metric={metric} is not measured; a trial gives {', '.join(sorted(metrics))}."
        )
    return Result(trial.point, trial.seed, metrics[metric])


def _winner(search: Search, point: Point) -> str:
    values = ", ".join(f"{key} = {value}" for key, value in point)
    heading = f"{search.config} with {values}, the best by {search.metric} of a search"
    return winner_source(parse_config((*search.arguments, *_chosen(point))), heading)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        fail(error)
