"""What the CoBSAT paper says in words, counted again from its tables, and from our runs."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from mmgen.report.cobsat_cells import Accuracies, Key
from mmgen.report.tables import Cell, Column, Table

PROMPTS = {"": 1000, "none": 250, "finetuned": 250}
"""Training of a key -> prompts per task, for the error of published values."""


class Claim(NamedTuple):
    """ "B beats A on so many of ten tasks".

    Attributes:
      place: section of the paper.
      says: what it says.
      model, output: of the published claim.
      shots: number of demonstrations.
      first, second: (prompt type, training) of A and B.
    """

    place: str
    says: str
    model: str
    output: str
    shots: int
    first: tuple[str, str]
    second: tuple[str, str]


DEFAULT = ("default", "")
SEED, QWEN = ("SEED-LLaMA", "image"), ("Qwen-VL", "text")

CLAIMS = (
    Claim("6.1", "T-ICL surpasses T2I-ICL in 9 of 10", *SEED, 4, DEFAULT, ("caption", "")),
    Claim("6.1", "T-ICL similar to T2I-ICL", *SEED, 2, DEFAULT, ("caption", "")),
    Claim("6.1", "T-ICL significantly outperforms", *QWEN, 2, DEFAULT, ("caption", "")),
    Claim("6.1", "T-ICL significantly outperforms", *QWEN, 4, DEFAULT, ("caption", "")),
    Claim("6.2", "precise inputs consistently surpass", *SEED, 2, DEFAULT, ("exact", "")),
    Claim("6.2", "precise inputs consistently surpass", *SEED, 4, DEFAULT, ("exact", "")),
    Claim(
        "7.1",
        "fine-tuned surpasses in 9 of 10",
        *QWEN,
        2,
        ("default", "none"),
        ("default", "finetuned"),
    ),
    Claim(
        "7.1",
        "fine-tuned surpasses in 7 of 10",
        *QWEN,
        4,
        ("default", "none"),
        ("default", "finetuned"),
    ),
    Claim("7.2", "CoT similar", *SEED, 2, DEFAULT, ("cot", "")),
    Claim("7.2", "CoT improves all ten", *SEED, 4, DEFAULT, ("cot", "")),
    Claim("7.2", "no evidence that CoT helps", *QWEN, 2, DEFAULT, ("cot", "")),
    Claim("7.2", "no evidence that CoT helps", *QWEN, 4, DEFAULT, ("cot", "")),
    Claim("7.3", "instruction surpasses in 7 of 10", *SEED, 2, DEFAULT, ("instruct", "")),
    Claim("7.3", "instruction surpasses in all ten", *SEED, 4, DEFAULT, ("instruct", "")),
    Claim("7.3", "no comparable improvement", *QWEN, 2, DEFAULT, ("instruct", "")),
    Claim("7.3", "no comparable improvement", *QWEN, 4, DEFAULT, ("instruct", "")),
)


class Count(NamedTuple):
    """On how many tasks B beats A.

    Attributes:
      tasks: compared.
      better, worse: tasks.
      clearly_better, clearly_worse: those whose difference exceeds its binomial error (p < .05),
        None where that error is not known.
    """

    tasks: int
    better: int
    worse: int
    clearly_better: int | None
    clearly_worse: int | None


def count(found: Accuracies, first: Key, second: Key, prompts: int | None) -> Count | None:
    """Compare two cells task by task; None if one of them is not there.

    Args:
      prompts: independent ones per task, for the error of a difference of two proportions; None
        leaves out which differences are clear.
    """
    if first not in found or second not in found:
        return None
    tasks = [task for task in found[first] if task in found[second]]
    pairs = [(found[first][task], found[second][task]) for task in tasks]
    better, worse = sum(b > a for a, b in pairs), sum(b < a for a, b in pairs)
    if prompts is None:
        return Count(len(tasks), better, worse, None, None)
    clear = [(a, b) for a, b in pairs if abs(_z(a, b, prompts)) > 1.96]
    return Count(
        len(tasks), better, worse, sum(b > a for a, b in clear), sum(b < a for a, b in clear)
    )


def claims_table(found: Accuracies) -> Table:
    """Every claim, counted from the published tables and for each of our systems that has both."""
    columns = (
        *(Column(name) for name in ("section", "the paper says", "from", "model", "shots")),
        *(Column(name) for name in ("tasks", "better", "worse", "clearly better")),
        Column("clearly worse"),
    )
    rows: list[Sequence[Cell]] = []
    for claim in CLAIMS:
        for source, model, output in _systems(found, claim):
            first = Key(source, model, output, claim.first[0], claim.shots, claim.first[1])
            second = Key(source, model, output, claim.second[0], claim.shots, claim.second[1])
            # Ours see as many prompts as their limit says, the same ones in both cells.
            prompts = PROMPTS[claim.second[1]] if source == "published" else None
            one = count(found, first, second, prompts)
            if one is not None:
                rows.append([claim.place, claim.says, source, model, str(claim.shots), *one])
    note = (
        "clearly: the difference exceeds its binomial error, prompts taken as independent; for "
        "published values only, since our cells share their prompts."
    )
    return Table("the text's claims, counted", columns, rows, (note,) if rows else ())


def _systems(found: Accuracies, claim: Claim) -> list[tuple[str, str, str]]:
    """The published system that the claim is about, and every one of ours."""
    ours = sorted(
        {(key.source, key.model, key.output) for key in found if key.source != "published"}
    )
    return [("published", claim.model, claim.output), *ours]


def _z(first: float, second: float, prompts: int) -> float:
    pooled = (first + second) / 2
    error = math.sqrt(2 * pooled * (1 - pooled) / prompts)
    return (second - first) / error if error else 0.0
