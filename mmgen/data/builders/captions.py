"""A user's own captions with labelled spans.

`--raw` holds one file per split, `train.jsonl`, `validation.jsonl`, `test.jsonl`, `novel.jsonl`
(each may end in .gz). A line is one labelled span:

    {"image_id": 7, "caption": "A brown dog runs", "span": [0, 3], "task": "dog"}

`span` is half-open over the caption's words as blanks separate them; `caption_id` (integer) is
optional. Without a validation or test file a tenth of the training images is cut out for each.
"""

import pathlib
from typing import Any, NamedTuple

from mmgen.data.builders.instances import (
    Instances,
    cut_by_image,
    make_instances,
    write_instances,
)
from mmgen.data.builders.rawfiles import find_raw, read_jsonl, require_raw, source_of
from mmgen.data.builders.request import BuildRequest
from mmgen.data.columns import SPLITS
from mmgen.data.tokenizer import SPECIALS, Vocabulary, load_wordpiece, world_vocabulary
from mmgen.errors import UserError

DEFAULTS = {
    # Name of the data set, also that of its folder.
    "name": "captions",
    # "wordpiece" (bert-base-uncased, or --tokenizer) or "words" (every word that occurs).
    "vocabulary": "wordpiece",
    # Share of the training images for a validation or test split that has no file.
    "cut": 0.1,
    # Stated in every output that the data set appears in.
    "licence": "not stated",
}


class Row(NamedTuple):
    """One line: words of the caption, half-open span of words, task, caption id, image id."""

    words: tuple[str, ...]
    start: int
    stop: int
    task: str
    caption: int
    image: int


def build_captions(request: BuildRequest) -> pathlib.Path:
    """Build a data set from the user's lines; returns its folder.

    Raises:
      UserError: with file and line for a row that breaks the format.
    """
    raw = request.raw_folder()
    choice = request.chosen(DEFAULTS)
    if request.pairs is not None or request.train_from is not None:
        raise UserError("--pairs and --train-from have no meaning for captions of your own")
    train = require_raw(raw, "train.jsonl", "train.jsonl.gz")
    paths = {"train": train}
    for name in SPLITS[1:]:
        path = find_raw(raw, f"{name}.jsonl", f"{name}.jsonl.gz")
        if path is not None:
            paths[name] = path
    numbers: dict[Any, int] = {}
    rows = {name: read_rows(path, numbers) for name, path in paths.items()}
    tasks = sorted({row.task for row in rows["train"]})
    for name, path in paths.items():
        for line, row in enumerate(rows[name], start=1):
            if row.task not in tasks:
                raise UserError(f"{path}:{line} has the task {row.task!r}, which train lacks")
    words = sorted({word for part in rows.values() for row in part for word in row.words})
    vocabulary, pieces = _pieces(choice["vocabulary"], words, request.tokenizer)
    index = {task: position for position, task in enumerate(tasks)}
    splits = {name: _instances(part, pieces, index) for name, part in rows.items()}
    info = {
        "builder": "mmgen.data.builders.captions:build_captions",
        "settings": choice,
        "tasks": tasks,
        "licences": [choice["licence"]],
        "sources": [source_of(path) for path in paths.values()],
        "paper_scale": False,
        "paper_size": 639_592,
    }
    return write_instances(
        request, choice["name"], _cut(splits, choice["cut"], request), vocabulary, info
    )


def read_rows(path: pathlib.Path, numbers: dict[Any, int]) -> list[Row]:
    """Lines of a split.

    Args:
      path: its file.
      numbers: (image, words) -> caption id of captions without one, filled here.

    Raises:
      UserError: file and line of a row that breaks the format.
    """
    rows = []
    captions: dict[int, tuple[int, tuple[str, ...]]] = {}
    for line, value in read_jsonl(path):
        where = f"{path}:{line}"
        try:
            image, text, task = value["image_id"], value["caption"], value["task"]
            start, stop = value["span"]
            words = tuple(text.lower().split())
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{where} needs image_id, caption, span [start, stop] and task ({error!r})"
            ) from error
        if not all(type(number) is int for number in (image, start, stop)):
            raise UserError(f"{where}: image_id and the span's ends must be integers")
        if not words:
            raise UserError(f"{where} has an empty caption")
        if not isinstance(task, str) or not task:
            raise UserError(f"{where}: the task must be a name")
        if not 0 <= start < stop <= len(words):
            raise UserError(
                f"{where}: the span [{start}, {stop}) lies outside its caption of "
                f"{len(words)} words"
            )
        caption = value.get("caption_id", numbers.setdefault((image, words), len(numbers)))
        if type(caption) is not int:
            raise UserError(f"{where}: caption_id must be an integer")
        if captions.setdefault(caption, (image, words)) != (image, words):
            raise UserError(f"{where}: caption_id {caption} is a duplicate of another caption's")
        rows.append(Row(words, start, stop, task, caption, image))
    if not rows:
        raise UserError(f"{path} is empty")
    return rows


def _pieces(
    kind: str, words: list[str], tokenizer: str | None
) -> tuple[Vocabulary, dict[str, list[int]]]:
    """The vocabulary, and every word's token ids."""
    if kind == "words":
        vocabulary = world_vocabulary([word for word in words if word not in SPECIALS])
        return vocabulary, {word: vocabulary.encode_words([word]) for word in words}
    if kind != "wordpiece":
        raise UserError(f"--set vocabulary={kind}: choose wordpiece or words")
    wordpiece = load_wordpiece(tokenizer, official=tokenizer is None)
    return wordpiece.vocabulary, dict(zip(words, wordpiece.encode(words), strict=True))


def _instances(rows: list[Row], pieces: dict[str, list[int]], tasks: dict[str, int]) -> Instances:
    made = []
    for row in rows:
        starts = [0]
        tokens: list[int] = []
        for word in row.words:
            tokens += pieces[word]
            starts.append(len(tokens))
        made.append(
            (tokens, starts[row.start], starts[row.stop], tasks[row.task], row.caption, row.image)
        )
    return make_instances(made)


def _cut(splits: dict[str, Instances], share: float, request: BuildRequest) -> dict[str, Instances]:
    missing = [name for name in ("validation", "test") if name not in splits]
    if not missing:
        return splits
    if not 0 < share < 0.5:
        raise UserError(f"--set cut={share}: expected a share between 0 and 0.5")
    shares = {"train": 1 - share * len(missing)} | dict.fromkeys(missing, share)
    parts = cut_by_image(
        splits["train"], shares, data_seed=request.data_seed, stream="split/captions"
    )
    return {name: (parts | splits | {"train": parts["train"]})[name] for name in SPLITS
            if name in parts or name in splits}  # fmt: skip
