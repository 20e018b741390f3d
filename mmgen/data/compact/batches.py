"""Batches of CompAct: what a model sees of windows, and in which order training reads them.

Fields of a batch of `b` windows, numpy arrays:

    ids        int32[b]        row in the split, IGNORE_ID for a padded one
    mask       bool[b]         is this row a window?
    text       int32[b, t]     the three input narrations with [SEP] between them, [PAD] after
    target     int32[b, u]     task "utterance": tokens of the target, [EOS], [PAD] after
    label      int32[b]        tasks "verb" and "noun": label of the target's atom, -1 if unseen
    M          float32[b, 3, *shape]  features of modality M of the three input clips
    M_present  bool[b, 3]      whether each of them is there; where not, the feature is zero

The fourth clip is what is asked for: its features are never read.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from mmgen.algorithms.base import Feed
from mmgen.data.buckets import bucket_index, choose_buckets
from mmgen.data.compact.clip_features import FIELDS_OF_BATCH, ClipFeatures
from mmgen.data.compact.samples import Instance
from mmgen.data.compact.vocabulary import ATOMS, EOS, PAD, AtomLabels, CompactVocabulary
from mmgen.data.compact.windows import TARGET
from mmgen.data.pipeline import read_ahead
from mmgen.data.schema import IGNORE_ID, Batch
from mmgen.data.streams import iid_stream
from mmgen.errors import UserError

TASKS = ("utterance", *ATOMS)
"""What is predicted: the target's narration, its verb or its noun."""


class Widths(NamedTuple):
    """Padded shape of a batch.

    Attributes:
      text: positions of the input text.
      target: positions of the target with its [EOS]; 1 where there is none.
    """

    text: int
    target: int


@dataclasses.dataclass(frozen=True)
class Inputs:
    """What of a window goes into a batch.

    Attributes:
      vocabulary: of the train split.
      task: one of `TASKS`.
      labels: of the task's atom; None for "utterance".
      features: modality -> features of the clips.
      shuffled: modalities that each window takes from another window of its split (a control).
      dropped: modalities that are absent everywhere, as if no clip had them (a control).
    """

    vocabulary: CompactVocabulary
    task: str
    labels: AtomLabels | None = None
    features: Mapping[str, ClipFeatures] = dataclasses.field(default_factory=dict)
    shuffled: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse choices that do not fit together."""
        if self.task not in TASKS:
            raise UserError(f"task {self.task!r} is none of {', '.join(TASKS)}")
        if (self.labels is None) != (self.task == "utterance"):
            raise ValueError("labels belong to the tasks verb and noun")
        for name in self.features:
            if name in FIELDS_OF_BATCH:
                raise UserError(
                    f"a modality cannot be called {name!r}: build the data set with another name"
                )
        for name in (*self.shuffled, *self.dropped):
            if name not in self.features:
                known = ", ".join(self.features) or "none"
                raise UserError(f"modality {name!r} is not one of the run's modalities: {known}")


class EncodedSplit:
    """A split as arrays; see the module for the fields of `assemble`.

    Args:
      instances: the split.
      inputs: what goes into a batch.

    Raises:
      UserError: the features of a modality have no row for a clip.

    Attributes:
      text_length: int32[n], tokens of the input text.
      target_length: int32[n], tokens of the target with [EOS]; 1 for the tasks verb and noun.
    """

    def __init__(self, instances: Sequence[Instance], inputs: Inputs):
        if not instances:
            raise UserError("a split without instances cannot be read")
        self._inputs = inputs
        self._text = _padded([inputs.vocabulary.encode(one["src"]) for one in instances])
        self.text_length = _lengths(self._text)
        if inputs.labels is None:
            targets = [[*inputs.vocabulary.encode(one["trg"]), EOS] for one in instances]
            self._target = _padded(targets)
            self.target_length = _lengths(self._target)
        else:
            field = ATOMS[inputs.task]
            labels = [inputs.labels.encode(one[field]) for one in instances]
            self._target = np.array(labels, np.int32)
            self.target_length = np.ones(len(instances), np.int32)
        clips = [clip for one in instances for clip in one["narration_ids"][:TARGET]]
        self._rows = {
            name: self._clip_rows(name, store, clips) for name, store in inputs.features.items()
        }

    def _clip_rows(
        self, name: str, store: ClipFeatures, clips: Sequence[str]
    ) -> Int[np.ndarray, "n 3"]:
        rows = store.rows(clips)
        if (rows < 0).any():
            # The builder gives every clip of its windows a row, an absent one where it must.
            lacking = clips[int(np.argmax(rows < 0))]
            raise UserError(
                f"{store.path} lacks clip {lacking} of the data set: build the data set again"
            )
        rows = rows.reshape(-1, TARGET)
        if name in self._inputs.dropped:
            return np.full_like(rows, -1)
        # Instances stand by video: half a split away is another one.
        return np.roll(rows, len(rows) // 2, axis=0) if name in self._inputs.shuffled else rows

    def __len__(self) -> int:
        """Number of windows."""
        return len(self._text)

    @property
    def task(self) -> str:
        """What is predicted."""
        return self._inputs.task

    def present(self) -> dict[str, float]:
        """Share of the input clips that each modality has."""
        return {
            name: float(self._inputs.features[name].present[rows][rows >= 0].sum() / rows.size)
            for name, rows in self._rows.items()
        }

    def assemble(self, rows: Int[np.ndarray, " b"], widths: Widths) -> Batch:
        """The batch of some rows.

        Args:
          rows: rows of the split; IGNORE_ID gives a padded row.
          widths: padded shape; longer texts are not cut.

        Raises:
          ValueError: a text or target is longer than `widths`.
        """
        rows = np.asarray(rows, np.int32)
        mask = rows != IGNORE_ID
        known = np.where(mask, rows, 0)
        batch: Batch = {
            "ids": rows,
            "mask": mask,
            "text": _cut(self._text[known], mask, widths.text),
        }
        if self.task == "utterance":
            batch["target"] = _cut(self._target[known], mask, widths.target)
        else:
            batch["label"] = np.where(mask, self._target[known], -1).astype(np.int32)
        for name, clip_rows in self._rows.items():
            clips = np.where(mask[:, None], clip_rows[known], -1)
            batch[name], batch[f"{name}_present"] = self._inputs.features[name].gather(clips)
        return batch


def choose_widths(
    splits: Sequence[EncodedSplit], batch_size: int, most: int = 3
) -> tuple[Widths, ...]:
    """Padded shapes with few padded positions, from smallest to largest; the last holds every row.

    Args:
      splits: the splits to read.
      batch_size: rows of a global batch.
      most: shapes at most, each a compiled program.
    """
    text = np.concatenate([split.text_length for split in splits])
    target = np.concatenate([split.target_length for split in splits])
    return tuple(
        Widths(*shape[:2]) for shape in choose_buckets(text, target, most, batch=batch_size)
    )


class CompactSource:
    """The feeds of a run, a pure function of the step: shuffled epochs of a split.

    Every epoch reads each row once, in an order that (seed, epoch) decides; its last batch is
    padded. With several processes each assembles those rows that its devices hold.
    """

    def __init__(
        self,
        split: EncodedSplit,
        widths: Sequence[Widths],
        *,
        batch_size: int,
        num_steps: int,
        seed: int,
        local_rows: Callable[[int], Int[np.ndarray, " rows"]] = np.arange,
    ):
        """See `choose_widths` for `widths`.

        Args:
          split: the split to train on.
          widths: padded shapes, the last one holds every row.
          batch_size: rows of the global batch.
          num_steps: iterations in all.
          seed: of the order.
          local_rows: size of a global batch -> which of its rows are assembled here.
        """
        if batch_size < 1 or num_steps < 1:
            raise UserError(f"batch size {batch_size} and steps {num_steps} must be at least 1")
        self._split, self._widths = split, tuple(widths)
        self._batch_size, self._num_steps, self._seed = batch_size, num_steps, seed
        self._local = local_rows(batch_size)
        # Two epochs, for a thread that reads ahead of the one that reads.
        self._order = functools.lru_cache(maxsize=2)(self._shuffled)

    def __len__(self) -> int:
        """Number of iterations."""
        return self._num_steps

    @property
    def steps_per_epoch(self) -> int:
        """Iterations of an epoch."""
        return -(-len(self._split) // self._batch_size)

    def rows(self, step: int) -> Int[np.ndarray, " b"]:
        """Rows of the global batch of iteration `step`, IGNORE_ID beyond an epoch's last one."""
        epoch, position = divmod(step, self.steps_per_epoch)
        return self._order(epoch)[position]

    def _shuffled(self, epoch: int) -> Int[np.ndarray, "steps b"]:
        return _in_batches(iid_stream(len(self._split), self._seed, epoch), self._batch_size)

    def __getitem__(self, step: int) -> Feed:
        """What iteration `step` reads on this process.

        Raises:
          IndexError: `step` is not in [0, len(self)).
        """
        if not 0 <= step < len(self):
            raise IndexError(f"there is no iteration {step}, only {len(self)}")
        rows = self.rows(step)
        widths = _widths_of(self._split, rows, self._widths)
        return Feed(self._split.assemble(rows[self._local], widths))

    def read_ahead(self, start: int = 0) -> Iterator[Feed]:
        """Feeds from `start` to the last, see `mmgen.data.pipeline.read_ahead`."""
        return read_ahead(self, start)


def eval_batches(
    split: EncodedSplit,
    widths: Sequence[Widths],
    batch_size: int,
    *,
    rows: Int[np.ndarray, " n"] | None = None,
    local_rows: Callable[[int], Int[np.ndarray, " rows"]] = np.arange,
) -> Iterator[Batch]:
    """Batches of a split by length, the last one padded; they say their rows in `ids`.

    Args:
      split: the split.
      widths: padded shapes, the last one holds every row.
      batch_size: rows of the global batch.
      rows: rows to read; all by default.
      local_rows: as in `CompactSource`.
    """
    rows = np.arange(len(split)) if rows is None else np.asarray(rows)
    order = rows[np.lexsort((rows, split.target_length[rows], split.text_length[rows]))]
    mine = local_rows(batch_size)
    for batch in _in_batches(order, batch_size):
        yield split.assemble(batch[mine], _widths_of(split, batch, widths))


def example_batch(split: EncodedSplit, widths: Widths) -> Batch:
    """The first row of a split, for shapes."""
    return split.assemble(np.zeros(1, np.int32), widths)


def _in_batches(rows: Int[np.ndarray, " n"], size: int) -> Int[np.ndarray, "steps b"]:
    padded = np.full(-(-len(rows) // size) * size, IGNORE_ID, np.int32)
    padded[: len(rows)] = rows
    return padded.reshape(-1, size)


def _widths_of(
    split: EncodedSplit, rows: Int[np.ndarray, " b"], widths: Sequence[Widths]
) -> Widths:
    real = rows[rows != IGNORE_ID]
    longest = split.text_length[real].max(initial=0), split.target_length[real].max(initial=0)
    return widths[int(bucket_index(*longest, widths))]


def _padded(sequences: Sequence[Sequence[int]]) -> Int[np.ndarray, "n t"]:
    table = np.full((len(sequences), max(map(len, sequences))), PAD, np.int32)
    for row, sequence in enumerate(sequences):
        table[row, : len(sequence)] = sequence
    return table


def _lengths(table: Int[np.ndarray, "n t"]) -> Int[np.ndarray, " n"]:
    return (table != PAD).sum(axis=1).astype(np.int32)


def _cut(
    values: Int[np.ndarray, "b t"], mask: np.ndarray, width: int
) -> Int[np.ndarray, "b width"]:
    values = np.where(mask[:, None], values, PAD)
    if (values[:, width:] != PAD).any():
        raise ValueError(f"a text is longer than the padded width {width}")
    cut = np.full((len(values), width), PAD, np.int32)
    cut[:, : values.shape[1]] = values[:, :width]
    return cut
