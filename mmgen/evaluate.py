"""Computes every metric of a run again, from its saved predictions or from its last checkpoint.

    python -m mmgen.evaluate --workdir DIR [--from-checkpoint]

The metrics in summary.json and report.md are replaced; what was measured while training (time,
device, versions) stays.
"""

import argparse
import sys
from collections.abc import Sequence

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.evaluation.scores import Scores
from mmgen.report.tables import Column, Table, markdown
from mmgen.settings.command_line import fail
from mmgen.settings.kinds import kind_of, load


def main(arguments: Sequence[str]) -> None:
    """Do what the command line asks for.

    Raises:
      UserError: the folder is no workdir, or holds nothing to evaluate.
    """
    parser = argparse.ArgumentParser(
        "python -m mmgen.evaluate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workdir", required=True, help="folder of the run")
    parser.add_argument(
        "--from-checkpoint", action="store_true", help="predict again with the last checkpoint"
    )
    options = parser.parse_args(arguments)
    workdir = Workdir(options.workdir)
    if not workdir.file("config.json").exists():
        raise UserError(f"{options.workdir} is no workdir of a run: it has no config.json")
    with workdir.lock():
        kind = kind_of(workdir.read_json("config.json")["identity"])
        scores = load(kind.rescore)(workdir, from_checkpoint=options.from_checkpoint)
    print(markdown(score_table(scores)))


def score_table(scores: Scores) -> Table:
    """All metrics under their keys."""
    columns = (Column("metric"), Column("value", decimals=4))
    return Table("metrics", columns, [[key, value] for key, value in scores.items()])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        fail(error)
