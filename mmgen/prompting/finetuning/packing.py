"""Prompts with their answers as arrays: which positions are read, and which are learned."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from mmgen.algorithms.base import Feed
from mmgen.core.rng import numpy_generator
from mmgen.data.schema import IGNORE_ID, Batch
from mmgen.errors import UserError
from mmgen.models.lm.llama import NOWHERE
from mmgen.models.lm.llava import TEXT

ROUNDING = 16
"""Padded lengths are multiples of this."""


class Encoded(NamedTuple):
    """One example as tokens.

    Attributes:
      tokens: prompt and answer, with the token that ends the answer.
      start: length of the prompt: tokens from here on are learned.
      sources: of each token, see `llava.embed`; None for a model without images.
    """

    tokens: Sequence[int]
    start: int
    sources: Sequence[int] | None = None

    @property
    def answer_length(self) -> int:
        """Learned tokens."""
        return len(self.tokens) - self.start


class Shape(NamedTuple):
    """Padded lengths of a batch: of what is read, and of the answers."""

    text: int
    answer: int


def padded_shape(examples: Sequence[Encoded], max_length: int) -> Shape:
    """One shape for all examples, so that one program serves.

    Raises:
      UserError: there is no example, or one is longer than `max_length`: none is cut silently.
    """
    if not examples:
        raise UserError("there is nothing to train on; choose other tasks or another data set.")
    longest = max(len(example.tokens) for example in examples)
    if longest > max_length:
        raise UserError(
            f"the longest prompt with its answer has {longest} tokens, more than "
            f"config.finetune.max_length = {max_length} (or than the model reads); choose fewer "
            "shots, or raise it."
        )
    # The last token is only ever a target.
    text = -(-(longest - 1) // ROUNDING) * ROUNDING
    return Shape(min(text, max_length), max(example.answer_length for example in examples))


def pack(examples: Sequence[Encoded], rows: Sequence[int], shape: Shape) -> Batch:
    """A batch of those examples, padded on the right; `IGNORE_ID` is a row without one.

    Returns:
      `ids` int32[b] and `mask` bool[b]; `tokens`, `positions` and, with images, `sources`
      int32[b, t]; `target_positions`, `targets` int32[b, m] and `target_mask` bool[b, m]: the state
      at the position foretells the target.
    """
    count = len(rows)
    batch: Batch = {
        "ids": np.asarray(rows, np.int32),
        "mask": np.asarray(rows) != IGNORE_ID,
        "tokens": np.zeros((count, shape.text), np.int32),
        "positions": np.full((count, shape.text), NOWHERE, np.int32),
        "target_positions": np.zeros((count, shape.answer), np.int32),
        "targets": np.zeros((count, shape.answer), np.int32),
        "target_mask": np.zeros((count, shape.answer), np.bool_),
    }
    if examples[0].sources is not None:
        batch["sources"] = np.full((count, shape.text), TEXT, np.int32)
    for place, row in enumerate(rows):
        if row != IGNORE_ID:
            _fill(batch, place, examples[row])
    return batch


def _fill(batch: Batch, place: int, example: Encoded) -> None:
    read, learned = len(example.tokens) - 1, example.answer_length
    batch["tokens"][place, :read] = example.tokens[:-1]
    batch["positions"][place, :read] = np.arange(read)
    if example.sources is not None:
        batch["sources"][place, :read] = example.sources[:-1]
    batch["target_positions"][place, :learned] = np.arange(example.start - 1, read)
    batch["targets"][place, :learned] = example.tokens[example.start :]
    batch["target_mask"][place, :learned] = True


def training_order(examples: int, epochs: int, seed: int) -> Int[np.ndarray, " n"]:
    """Rows in the order in which they are read: every epoch another order of all of them."""
    orders = [
        numpy_generator(seed, "finetune/order", epoch).permutation(examples)
        for epoch in range(epochs)
    ]
    return np.concatenate(orders)


class PackedFeeds:
    """The feed of every step: consecutive rows of the order, and the frozen model beside them."""

    def __init__(
        self,
        examples: Sequence[Encoded],
        order: Int[np.ndarray, " n"],
        rows_per_step: int,
        shape: Shape,
        frozen: object = (),
    ):
        """Rows at the end of `order` that fill no step are left out.

        Args:
          frozen: arrays on the mesh that every step reads.
        """
        self._examples, self._shape, self._frozen = examples, shape, frozen
        self._rows = order[: len(order) // rows_per_step * rows_per_step].reshape(-1, rows_per_step)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, step: int) -> Feed:
        """The feed of iteration `step`, as numpy arrays."""
        return Feed(pack(self._examples, self._rows[step].tolist(), self._shape), side=self._frozen)
