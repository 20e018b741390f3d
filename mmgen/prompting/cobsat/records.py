"""The prompt files of CoBSAT, re-generated bit for bit, and the splits for fine-tuning.

A record is an order of the texts' positions and one of the latents'. The recipe: seed Python's
generator, then for each record shuffle the first list in place, then the second, and keep copies,
so that each record starts from the order of the last (`gen_prompts.py` of the release).
"""

import itertools
import json
import pathlib
import random
from collections.abc import Sequence
from typing import NamedTuple

from mmgen.errors import UserError

SEED = 123
COUNT = 1000
LENGTH = 10

TEST_PROMPTS = 250
"""Of the 1,000 test records of fine-tuning the first 250 are used."""


class Record(NamedTuple):
    """Order of the texts and of the latents of one prompt, as positions."""

    texts: tuple[int, ...]
    latents: tuple[int, ...]


def make_records(
    positions: Sequence[int] = range(LENGTH), seed: int = SEED, count: int = COUNT
) -> list[Record]:
    """`count` records over `positions`; the published ones by default."""
    generator = random.Random(seed)
    texts, latents = list(positions), list(positions)
    records = []
    for _ in range(count):
        generator.shuffle(texts)
        generator.shuffle(latents)
        records.append(Record(tuple(texts), tuple(latents)))
    return records


def train_positions(length: int = LENGTH) -> range:
    """Positions of both lists that fine-tuning sees: the first half (section 7.1)."""
    return range(length // 2)


def heldout_positions(length: int = LENGTH) -> range:
    """Positions of both lists that fine-tuning never sees: the second half."""
    return range(length // 2, length)


def heldout_records(seed: int = SEED, length: int = LENGTH) -> list[Record]:
    """The 250 test records of fine-tuning."""
    return make_records(heldout_positions(length), seed)[:TEST_PROMPTS]


class Indices(NamedTuple):
    """A record read at a number of shots.

    Attributes:
      texts: of the demonstrations and, last, of the query.
      latent: what the demonstrations share.
      misleading: one other latent for each text; in the fine-tuning test at 4 shots the true one is
        among them, as released.
    """

    texts: tuple[int, ...]
    latent: int
    misleading: tuple[int, ...]


def read_record(record: Record, shots: int, *, wrap: bool = False) -> Indices:
    """Positions of a prompt with `shots` demonstrations.

    Args:
      wrap: take the latent's place modulo the length of the list, as the fine-tuning test does.

    Raises:
      UserError: the record is too short for so many demonstrations.
    """
    length = len(record.texts)
    place = (shots + 1) % length if wrap else shots + 1
    most = length - 1 if wrap else length - 2
    if not 0 <= shots <= most:
        raise UserError(
            f"shots={shots}: lists of {length} words allow 0 to {most} demonstrations, since "
            "no text and no latent occurs twice in a prompt."
        )
    return Indices(record.texts[: shots + 1], record.latents[place], record.latents[: shots + 1])


def train_indices(shots: int, length: int = LENGTH) -> list[Indices]:
    """Every ordered choice of training texts with every training latent: 300 at 2 shots, 600 at 4.

    Raises:
      UserError: there are fewer training texts than a prompt needs.
    """
    positions = train_positions(length)
    if not 0 <= shots < len(positions):
        raise UserError(
            f"shots={shots}: fine-tuning has {len(positions)} training texts, enough for 0 to "
            f"{len(positions) - 1} demonstrations."
        )
    return [
        Indices(texts, latent, ())
        for texts in itertools.permutations(positions, shots + 1)
        for latent in positions
    ]


MODES = ("default", "ft_test", "ft_train_all", "ft_train_leave_one_out")
"""Prompt files of the release, `prompts_list_<mode>.json`."""


def prompt_file(mode: str = "default", seed: int = SEED) -> str:
    """Text of a prompt file: the release's bytes for seed 123 (JSON, indent 4, no line end).

    Raises:
      UserError: unknown mode.
    """
    if mode not in MODES:
        raise UserError(f"--mode={mode}: CoBSAT's prompt files are {', '.join(MODES)}.")
    value: list[object]
    if mode == "ft_train_all":
        value = list(train_positions())
    else:
        # Leave-one-theme-out trains on the default records of the other themes.
        records = make_records(heldout_positions() if mode == "ft_test" else range(LENGTH), seed)
        value = [{"x_list": r.texts, "theta_list": r.latents} for r in records]
    return json.dumps(value, indent=4)


def read_prompt_file(path: pathlib.Path) -> list[Record]:
    """Records of a prompt file in the release's format.

    Raises:
      UserError: it is missing or damaged, or holds lists that are no permutations.
    """
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        records = [Record(tuple(row["x_list"]), tuple(row["theta_list"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is no prompt file of CoBSAT ({error!r}): get it again.") from None
    for number, record in enumerate(records):
        # Both lists are orders of the same positions, the release's rule.
        if len({frozenset(part) for part in record}) > 1 or any(
            len(set(part)) != len(part) for part in record
        ):
            raise UserError(f"{path}: record {number} holds no two orders of the same positions.")
    return records
