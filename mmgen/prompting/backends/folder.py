"""Outputs made elsewhere, as answers: a file of lines, or a folder with a file per item.

    model=folder:PATH        PATH/answers.jsonl, lines {"item": ..., "text": ...}, and what else an
                             answer holds: "scores" (one per choice), "image" (a file beside)
    model=folder:PATH        PATH/<item>.txt and PATH/<item>.png|jpg|jpeg; "/" in an item is "_"
    model=folder:PATH        results/exps/<model>_<mode>/shot_<N>/<prompt type> of CoBSAT's release:
                             PATH/<item>.json with "description", PATH/<item>.jpg

`item` is the item's name within its stage; a line may hold both a text and scores, for a stage that
generates and one that scores. An item that is not there is an error, never an empty answer.
"""

import hashlib
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmgen.data.builders.rawfiles import read_jsonl
from mmgen.data.columns import file_sha256
from mmgen.errors import UserError
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.requests import Answer, Request

LINES = "answers.jsonl"
PICTURES = (".png", ".jpg", ".jpeg")


class FolderBackend:
    """See the module; a `Backend`."""

    reads_images = True
    paints = True
    batch_size = 64

    def __init__(self, root: pathlib.Path):
        self._root = root
        self._lines = _read_lines(root / LINES)
        self.scores_choices = any("scores" in line for line in self._lines.values())
        self.identity: Mapping[str, Any] = {"backend": "folder", "sha256": _checksum(root)}

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `Backend.answer`."""
        for index, request in enumerate(requests):
            line = self._lines.get(request.item)
            yield index, self._from_files(request) if line is None else self._from_line(line)

    def _from_line(self, line: Mapping[str, Any]) -> Answer:
        scores = line.get("scores")
        image = line.get("image")
        return Answer(
            text=line.get("text"),
            scores=None if scores is None else tuple(map(float, scores)),
            image=None if image is None else (self._root / image).read_bytes(),
        )

    def _from_files(self, request: Request) -> Answer:
        for stem in (request.item.replace("/", "_"), request.item):
            if request.want == "image":
                for ending in PICTURES:
                    path = self._root / f"{stem}{ending}"
                    if path.is_file():
                        return Answer(image=path.read_bytes())
            path = self._root / f"{stem}.txt"
            if request.want == "text" and path.is_file():
                return Answer(text=path.read_text(encoding="utf-8"))
        path = self._root / f"{request.item}.json"
        if request.want == "text" and path.is_file():
            return _described(path)
        return Answer(error=f"{self._root} holds no output for item {request.item}")


def open_folder(target: str, options: BackendOptions) -> FolderBackend:
    """The outputs in the folder `target`; UserError if it is none or holds none."""
    del options
    root = pathlib.Path(target).expanduser()
    if not root.is_dir():
        raise UserError(f"model=folder:{target}: there is no such folder.")
    return FolderBackend(root)


def _described(path: pathlib.Path) -> Answer:
    """The description in a result file of CoBSAT's release."""
    try:
        text = json.loads(path.read_text(encoding="utf-8"))["description"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Answer(error=f"{path} is no result of CoBSAT ({error!r})")
    return Answer(text=text) if isinstance(text, str) else Answer(error=f"{path}: no description")


def _read_lines(path: pathlib.Path) -> dict[str, dict[str, Any]]:
    lines: dict[str, dict[str, Any]] = {}
    if not path.is_file():
        return lines
    for number, line in read_jsonl(path):
        if not isinstance(line.get("item"), str):
            raise UserError(f"{path}:{number}: an output needs an 'item', the name of what it is.")
        lines[line["item"]] = line
    return lines


def _checksum(root: pathlib.Path) -> str:
    """SHA-256 over names and contents; other outputs are another model."""
    files = sorted(file for file in root.rglob("*") if file.is_file())
    if not files:
        raise UserError(f"model=folder:{root}: the folder is empty.")
    facts = [(str(file.relative_to(root)), file_sha256(file)) for file in files]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()
