"""Prediction records: one JSON line per evaluated item, from which every metric is computed.

A record of a masked-span task:

    {"id": row number in the split, "task": int, "image": source image id,
     "target": [token ids], "prediction": [token ids], "nll": [nats, 6 decimals],
     "pair": index into the data set's pairs or -1, "pair_nll": [atom, noun] or null,
     "optimum", "optimum_text_only", "memoriser", "composer": nats or null, built-in worlds only}

Files are `evals/SPLIT/STEP.jsonl` in the workdir, sorted by id, so that one model always leaves the
same bytes whatever the order of evaluation was.
"""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from types import TracebackType
from typing import Any

import numpy as np
from etils import epath
from jaxtyping import Bool, Float, Int

from mmgen.core.workdir import TEMPORARY, Workdir, write_error
from mmgen.data.columns import FLOAT_COLUMNS, Split
from mmgen.errors import Diverged, UserError

Record = dict[str, Any]

FOLDER = "evals"

AGAIN = "delete the file and run python -m mmgen.evaluate --from-checkpoint"
"""What helps against a damaged record file."""


@dataclass(frozen=True)
class PredictionTable:
    """Records as arrays; `m` is the longest span among them.

    Attributes:
      ids: row numbers in the split, ascending.
      task: index of the task.
      image: source image id, the cluster of the bootstrap.
      target: true token ids, 0 beyond the span.
      prediction: most probable token ids, 0 beyond the span.
      mask: True on the span's tokens.
      nll: negative log-likelihood of the true tokens, nats, 0 beyond the span.
      pair: index of the composition, -1 for none.
      pair_nll: nll of its atom (adjective or verb) and of its noun, NaN where there is none.
      floats: exact and oracle losses of the item where the data set knows them, NaN for null.
    """

    ids: Int[np.ndarray, " n"]
    task: Int[np.ndarray, " n"]
    image: Int[np.ndarray, " n"]
    target: Int[np.ndarray, "n m"]
    prediction: Int[np.ndarray, "n m"]
    mask: Bool[np.ndarray, "n m"]
    nll: Float[np.ndarray, "n m"]
    pair: Int[np.ndarray, " n"]
    pair_nll: Float[np.ndarray, "n 2"]
    floats: dict[str, Float[np.ndarray, " n"]]

    def __len__(self) -> int:
        """Number of items."""
        return len(self.ids)

    def select(self, keep: Bool[np.ndarray, " n"]) -> "PredictionTable":
        """The items where `keep` is True."""
        arrays = {
            field.name: getattr(self, field.name)[keep]
            for field in fields(self)
            if field.name != "floats"
        }
        return replace(self, **arrays, floats={k: v[keep] for k, v in self.floats.items()})


def record_path(workdir: epath.PathLike, split: str, step: int) -> epath.Path:
    """`WORKDIR/evals/SPLIT/STEP.jsonl`."""
    return epath.Path(workdir) / FOLDER / split / f"{step:08d}.jsonl"


def saved_evaluations(workdir: epath.PathLike) -> dict[str, list[int]]:
    """Steps that have a finished record file, ascending, by split."""
    folder = epath.Path(workdir) / FOLDER
    if not folder.exists():
        return {}
    found = {}
    for split in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        steps = sorted(int(file.stem) for file in split.glob("*.jsonl") if file.stem.isdigit())
        if steps:
            found[split.name] = steps
    return found


class RecordWriter:
    """Writes a record file: lines go to a partial file as they come, the end sorts and renames.

    A context manager; leaving it with an exception removes what was written. Only process 0 writes.

    Args:
      path: the final file.
      write: False to swallow the records, on the other processes of a run.
    """

    def __init__(self, path: epath.Path, write: bool = True):
        self._path = path
        # Named so that the workdir clears it away after a kill.
        self._partial = path.parent / f".{path.name}{TEMPORARY}partial"
        self._write = write
        self._file: Any = None

    def __enter__(self) -> "RecordWriter":
        """Open the partial file."""
        if self._write:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._partial.open("w")
            except OSError as error:
                raise write_error(error, self._path) from error
        return self

    def add(self, records: Iterable[Record]) -> None:
        """Append records, in any order."""
        if self._file is None:
            return
        try:
            self._file.writelines(encode_record(record) + "\n" for record in records)
            self._file.flush()
        except OSError as error:
            raise write_error(error, self._path) from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Sort by id and rename, or remove."""
        if self._file is None:
            return
        try:
            self._file.close()
            if error is None:
                write_records(self._path, read_records(self._partial))
        except OSError as failure:
            raise write_error(failure, self._path) from failure
        finally:
            self._partial.unlink(missing_ok=True)


def encode_record(record: Record) -> str:
    """One line of JSON without spaces, keys in the order they were given."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False)


def write_records(path: epath.Path, records: Iterable[Record]) -> None:
    """Write a record file as a whole object, sorted by id."""
    ordered = sorted(records, key=lambda record: record["id"])
    Workdir(path.parent).write_lines(path.name, map(encode_record, ordered))


def read_records(path: epath.PathLike) -> Iterator[Record]:
    """Records of a file, in file order.

    Raises:
      UserError: the file is missing, or a line is not a record.
    """
    path = epath.Path(path)
    if not path.exists():
        raise UserError(f"{path} does not exist: evaluate that step first")
    # Bytes, so that those that are no text are a matter of their line, too.
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                record = json.loads(line)
                record["id"], record["nll"], record["target"], record["prediction"]
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f"{path}:{number} is not a prediction record ({error!r}): {AGAIN}"
                ) from error
            yield record


def as_table(records: Iterable[Record]) -> PredictionTable:
    """Arrays of the records, ordered by id; duplicate ids are refused.

    Raises:
      ValueError: an id occurs twice.
    """
    rows = sorted(records, key=lambda record: record["id"])
    ids = np.array([row["id"] for row in rows], dtype=np.int64)
    if len(np.unique(ids)) != len(ids):
        raise ValueError("a prediction id occurs twice")
    length = np.array([len(row["target"]) for row in rows], dtype=np.int64)
    width = int(length.max(initial=1))
    mask = np.arange(width)[None, :] < length[:, None]

    def padded(field: str, dtype: type) -> np.ndarray:
        values: np.ndarray = np.zeros((len(rows), width), dtype=dtype)
        values[mask] = [value for row in rows for value in row[field]]
        return values

    def floats(field: str) -> np.ndarray:
        return np.array([_number(row.get(field)) for row in rows])

    pair_nll = np.array([row.get("pair_nll") or (math.nan, math.nan) for row in rows])
    return PredictionTable(
        ids,
        np.array([row["task"] for row in rows], dtype=np.int64),
        np.array([row["image"] for row in rows], dtype=np.int64),
        padded("target", np.int64),
        padded("prediction", np.int64),
        mask,
        padded("nll", np.float64),
        np.array([row.get("pair", -1) for row in rows], dtype=np.int64),
        pair_nll.reshape(len(rows), 2).astype(np.float64),
        {name: floats(name) for name in FLOAT_COLUMNS if any(name in row for row in rows)},
    )


def target_spans(
    split: Split, rows: Int[np.ndarray, " n"]
) -> tuple[Int[np.ndarray, "n m"], Bool[np.ndarray, "n m"]]:
    """True token ids of the rows' spans, 0 beyond the span, and where the span is."""
    span = np.asarray(split.columns["span"])[rows].astype(np.int64)
    length = span[:, 1] - span[:, 0]
    offset = np.arange(int(length.max(initial=1)))[None, :]
    mask = offset < length[:, None]
    start = np.asarray(split.columns["token_start"])[rows] + span[:, 0]
    index = np.where(mask, start[:, None] + offset, 0)
    return np.where(mask, np.asarray(split.columns["tokens"])[index], 0).astype(np.int64), mask


def make_records(
    split: Split,
    rows: Int[np.ndarray, " b"],
    nll: Float[np.ndarray, "b m"],
    prediction: Int[np.ndarray, "b m"],
) -> list[Record]:
    """Records of evaluated rows; `nll` and `prediction` start at the span's first token.

    Raises:
      Diverged: a loss is not finite.
    """
    columns = split.columns
    target, mask = target_spans(split, rows)
    width = target.shape[1]
    nll, prediction = nll[:, :width], prediction[:, :width]
    if not np.all(np.isfinite(nll), where=mask):
        bad = rows[~np.all(np.isfinite(nll) | ~mask, axis=1)]
        raise Diverged(
            f"the model's loss is not finite on rows {bad[:5].tolist()} of split {split.name}: "
            "lower optimizer.learning_rate or start again from an earlier checkpoint"
        )
    extra = [name for name in FLOAT_COLUMNS if name in columns]
    pair_nll = _pair_losses(split, rows, nll)
    records = []
    for i, row in enumerate(rows.tolist()):
        length = int(mask[i].sum())
        records.append(
            {
                "id": row,
                "task": int(columns["task"][row]),
                "image": int(columns["image_id"][row]),
                "target": target[i, :length].tolist(),
                "prediction": prediction[i, :length].tolist(),
                "nll": _rounded(nll[i, :length]),
                "pair": int(columns["pair"][row]),
                "pair_nll": pair_nll[i],
                **{name: _rounded(columns[name][row : row + 1])[0] for name in extra},
            }
        )
    return records


def _pair_losses(
    split: Split, rows: np.ndarray, nll: np.ndarray
) -> Sequence[list[float | None] | None]:
    """Losses at the two atoms; None where the row has no pair or an atom lies outside the span."""
    start, stop = np.asarray(split.columns["span"])[rows].T
    position = np.asarray(split.columns["pair_tokens"])[rows]
    inside = np.all((position >= start[:, None]) & (position < stop[:, None]), axis=1)
    inside &= np.asarray(split.columns["pair"])[rows] >= 0
    offset = np.where(inside[:, None], position - start[:, None], 0)
    losses = np.take_along_axis(nll, offset, axis=1)
    return [_rounded(losses[i]) if inside[i] else None for i in range(len(rows))]


def _rounded(values: np.ndarray) -> list[float | None]:
    """Python floats with 6 decimals; NaN becomes None (JSON has no NaN)."""
    return [
        round(value, 6) if math.isfinite(value) else None
        for value in np.asarray(values, dtype=np.float64).tolist()
    ]


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
