"""Tables and figures of finished runs.

    python -m mmgen.report RUN_DIRS... --out DIR [--no-figures]
    python -m mmgen.report --audit-published

A RUN_DIR is a workdir or a folder that holds workdirs. DIR gets report.md with every table,
tables/ (CSV, JSON, LaTeX), figures/ (PNG, SVG) and runs.csv, one line per run and metric.
--audit-published needs no run: it tells which of the differences that the papers print exceed
their own error.
"""

import argparse
import sys
from collections.abc import Sequence

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.report import tables
from mmgen.report.aggregate import Missing, Run, group_runs, load
from mmgen.report.audit import audit
from mmgen.report.kinds import by_kind, reporter_of, tidy
from mmgen.report.published import papers
from mmgen.report.sources import run_table
from mmgen.settings.command_line import fail


def main(arguments: Sequence[str]) -> None:
    """Do what the command line asks for.

    Raises:
      UserError: there is no finished run, or runs that may not be averaged.
    """
    parser = argparse.ArgumentParser(
        "python -m mmgen.report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="*", help="workdirs, or folders that hold workdirs")
    parser.add_argument("--out", help="folder for the report")
    parser.add_argument("--no-figures", action="store_true", help="tables only")
    parser.add_argument(
        "--audit-published", action="store_true", help="test the published differences"
    )
    options = parser.parse_args(arguments)
    if options.audit_published:
        print("\n".join(tables.markdown(table) for table in audit(papers())))
        return
    if not options.runs or not options.out:
        raise UserError("Give RUN_DIRS and --out DIR, or --audit-published; --help tells more.")
    runs, missing = load(options.runs)
    if not runs:
        raise UserError(f"no finished run: {'; '.join(f'{m.path}: {m.reason}' for m in missing)}")
    text = write_report(runs, missing, options.out, figures=not options.no_figures)
    print(text)
    print(f"Report: {options.out}")


def write_report(
    runs: Sequence[Run], missing: Sequence[Missing], out: str, *, figures: bool
) -> str:
    """Write the report into `out`; returns its Markdown."""
    folder = Workdir(out)
    kinds, others = by_kind(runs)
    found: list[tables.Table] = []
    pictures: list[str] = []
    for kind, mine in kinds.items():
        reporter = reporter_of(kind)
        groups = group_runs(mine, reporter.cell_of, reporter.unusual)
        found += reporter.tables(groups)
        if figures:
            pictures += reporter.figures(groups, folder)
    found.append(run_table([run for mine in kinds.values() for run in mine], [*others, *missing]))
    for table in found:
        name = f"tables/{tables.file_name(table.title)}"
        folder.write_text(f"{name}.csv", tables.as_csv(table))
        folder.write_text(f"{name}.json", tables.as_json(table))
        folder.write_text(f"{name}.tex", tables.latex(table))
    folder.write_text("runs.csv", _tidy_csv(runs))
    text = "\n".join(["# Report", *(tables.markdown(table) for table in found), *pictures])
    folder.write_text("report.md", text)
    return text


def _tidy_csv(runs: Sequence[Run]) -> str:
    rows = tidy(runs)
    # Runs of different kinds have different facts.
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = tuple(tables.Column(name) for name in names)
    return tables.as_csv(
        tables.Table("", columns, [[row.get(name) for name in names] for row in rows])
    )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        fail(error)
