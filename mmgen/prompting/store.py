"""Answers on disk: one line each, appended as they arrive, found again by their request's key.

    FOLDER/answers.jsonl      {"key": ..., "stage": ..., "item": ..., "text": ..., ...} per answer
    FOLDER/images/<key>.png   generated pictures, each written whole before its line
    FOLDER/backend.json       what gave the answers

A line is written by one system call, so whatever is killed when, at most the last line is torn; it
is cut away when the store is opened. An error is a line with "error" and nothing else that could be
read as an answer; a later answer with the same key takes its place.
"""

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mmgen.core.growing import GrowingFile
from mmgen.core.workdir import Workdir, differences
from mmgen.errors import UserError
from mmgen.prompting.benchmark import Traits
from mmgen.prompting.requests import Answer, Request, request_key

ANSWERS = "answers.jsonl"
BACKEND = "backend.json"
IMAGES = "images"

FLUSH_SECONDS = 30.0
"""A bucket gets the whole file again so often; a disk has each line at once."""


class Failure(NamedTuple):
    """The state of a request that has no answer yet.

    Attributes:
      times: how often it failed.
      last: time of the last failure, seconds since the epoch.
      error: what the last one said.
    """

    times: int
    last: float
    error: str


class AnswerStore:
    """The answers of one backend in a run's folder; open it under the folder's lock.

    Args:
      workdir: the run's folder.
      folder: where the store lies in it: "answers" or "judge".
      read_only: another run's store, which is left as it is.

    Raises:
      UserError: a line in the middle is no answer.
    """

    def __init__(self, workdir: Workdir, folder: str, *, read_only: bool = False):
        self._workdir = workdir
        self._folder = folder
        self._answers: dict[str, Answer] = {}
        self._failures: dict[str, Failure] = {}
        self._read(cut=not read_only)
        self._file = GrowingFile(workdir, f"{folder}/{ANSWERS}")
        self._flushed = time.monotonic()

    def __len__(self) -> int:
        """Number of answers, errors not counted."""
        return len(self._answers)

    def get(self, key: str) -> Answer | None:
        """The answer of a request; None if there is none or an error alone."""
        return self._answers.get(key)

    def failure(self, key: str) -> Failure | None:
        """How a request without an answer failed, None if it never did."""
        return self._failures.get(key)

    def add(self, key: str, stage: str, item: str, answer: Answer) -> None:
        """Append an answer or an error; it is on disk on return (in a bucket within half a minute).

        Raises:
          UserError: the disk is full, or the folder may not be written.
        """
        line: dict[str, Any] = {"key": key, "stage": stage, "item": item}
        if answer.error is not None:
            line |= {"error": answer.error, "time": round(time.time(), 3)}
        else:
            picture = answer.picture
            if picture is not None:
                self._workdir.write_bytes(self._image_name(key), picture.read())
                line["image"] = True
            line |= _fields(answer)
        self._file.append((json.dumps(line, ensure_ascii=False) + "\n").encode())
        self._keep(line)
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self._file.flush()
            self._flushed = time.monotonic()

    def replies(
        self, requests: Sequence[Request], identity: Mapping[str, Any]
    ) -> dict[str, Answer]:
        """Item -> answer, of those requests that have one."""
        found = ((r.item, self.get(request_key(r, identity))) for r in requests)
        return {item: answer for item, answer in found if answer is not None}

    def claim(self, traits: Traits) -> None:
        """Make this the store of the backend with these traits, for ever.

        Raises:
          UserError: it holds another one's answers; names what differs.
        """
        name = f"{self._folder}/{BACKEND}"
        ours = json.loads(json.dumps(traits._asdict()))
        if self._workdir.file(name).exists():
            differing = differences(self._workdir.read_json(name), ours)
            if differing:
                told = ", ".join(f"{key} ({old} there, {new} now)" for key, old, new in differing)
                raise UserError(
                    f"{self._workdir.file(self._folder)} holds answers of another model: {told}; "
                    "give another --workdir, or delete this one."
                )
        else:
            self._workdir.write_json(name, ours)

    def traits(self) -> Traits:
        """What gave the answers; UserError if nothing was asked yet."""
        if not self._workdir.file(f"{self._folder}/{BACKEND}").exists():
            raise UserError(
                f"{self._workdir.file(self._folder)} holds no answers yet; run without "
                "config.only first."
            )
        return Traits(**self._workdir.read_json(f"{self._folder}/{BACKEND}"))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _image_name(self, key: str) -> str:
        return f"{self._folder}/{IMAGES}/{key}.png"

    def _read(self, *, cut: bool) -> None:
        path = self._workdir.file(f"{self._folder}/{ANSWERS}")
        if not path.exists():
            return
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        for number, text in enumerate(data[:whole].splitlines(), start=1):
            try:
                line = json.loads(text)
                self._keep(line)
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f"{path}:{number} is no stored answer ({error!r}); delete that line, and the "
                    "same command asks for it again."
                ) from None
        if cut and whole < len(data):
            if self._workdir.is_local:
                os.truncate(path, whole)
            else:
                path.write_bytes(data[:whole])
        self._drop_lost_pictures()

    def _keep(self, line: Mapping[str, Any]) -> None:
        key = line["key"]
        if "error" in line:
            times = self._failures[key].times if key in self._failures else 0
            self._failures[key] = Failure(times + 1, line["time"], line["error"])
        else:
            self._answers[key] = self._answer(line)
            self._failures.pop(key, None)

    def _answer(self, line: Mapping[str, Any]) -> Answer:
        image = str(self._workdir.file(self._image_name(line["key"])))
        scores, counts = line.get("scores"), line.get("token_counts")
        return Answer(
            text=line.get("text"),
            scores=None if scores is None else tuple(scores),
            token_counts=None if counts is None else tuple(counts),
            prompt_tokens=line.get("prompt_tokens", 0),
            generated_tokens=line.get("generated_tokens", 0),
            seconds=line["seconds"],
            image_path=image if line.get("image") else None,
        )

    def _drop_lost_pictures(self) -> None:
        painted = [key for key, answer in self._answers.items() if answer.image_path]
        if not painted:
            return
        folder = self._workdir.file(f"{self._folder}/{IMAGES}")
        there = {file.name for file in folder.iterdir()} if folder.exists() else set()
        for key in painted:
            if f"{key}.png" not in there:
                del self._answers[key]


def _fields(answer: Answer) -> dict[str, Any]:
    """What a line holds of an answer besides its picture; what is not there is left out."""
    fields = {
        "text": answer.text,
        "scores": answer.scores,
        "token_counts": answer.token_counts,
        "prompt_tokens": answer.prompt_tokens or None,
        "generated_tokens": answer.generated_tokens or None,
        "seconds": round(answer.seconds, 4),
    }
    return {name: value for name, value in fields.items() if value is not None}


def take_over(
    store: AnswerStore, other: AnswerStore, wanted: Iterable[tuple[str, str, str]]
) -> int:
    """Copy answers that `other` has and `store` lacks; returns how many.

    Args:
      wanted: (key, stage, item) of the requests concerned.
    """
    taken = 0
    for key, stage, item in wanted:
        answer = other.get(key)
        if answer is not None and store.get(key) is None:
            store.add(key, stage, item, answer)
            taken += 1
    return taken
