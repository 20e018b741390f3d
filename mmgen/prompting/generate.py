"""Asks a backend for the answers that a store lacks; can be stopped and repeated at any point."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mmgen.core.progress import Progress
from mmgen.prompting.requests import Answer, Backend, Request, request_key
from mmgen.prompting.store import AnswerStore

RETRY_SECONDS = 1.0
"""Pause after a request's first failure, doubled with every further one."""

LONGEST_PAUSE = 120.0


class Tally(NamedTuple):
    """How a stage stands.

    Attributes:
      requests: how many there are.
      answered: how many have an answer.
      failed: how many have failed, and have no answer.
      error: what one of the failures said, "" without any.
      seconds: time spent on asking in this run.
      tokens: generated in this run.
    """

    requests: int
    answered: int
    failed: int
    error: str
    seconds: float
    tokens: int


def ask(
    stage: str,
    requests: Sequence[Request],
    backend: Backend,
    store: AnswerStore,
    *,
    progress: bool = True,
    pause: Callable[[float], None] = time.sleep,
) -> Tally:
    """Asks for every answer that is missing, once; failures of earlier runs come last.

    A request that has failed k times is asked again not before 2^(k-1) seconds after its last
    failure. Each answer and each error is stored as it arrives.

    Args:
      stage: name of the stage, for the record.
      requests: all of the stage's; equal ones are asked once.
      backend: whom to ask.
      store: where answers are and go.
      progress: show how far it is.
      pause: waits so many seconds.
    """
    start = time.perf_counter()
    identity = backend.identity
    keyed = {request_key(request, identity): request for request in requests}
    fresh, failed = missing(keyed, store)
    shown = Progress(len(fresh) + len(failed), examples_per_step=1, enabled=progress)
    tokens = done = 0
    for keys in (fresh, failed):
        _wait_for(keys, store, pause)
        for index, answer in backend.answer([keyed[key] for key in keys]):
            key = keys[index]
            store.add(key, stage, keyed[key].item, checked(answer, keyed[key]))
            tokens += answer.generated_tokens
            done += 1
            shown.update(done)
    shown.close()
    return tally(keyed, store, seconds=time.perf_counter() - start, tokens=tokens)


def missing(keyed: Mapping[str, Request], store: AnswerStore) -> tuple[list[str], list[str]]:
    """Keys without an answer: those never asked, and those that failed, least often first."""
    lacking = [key for key in keyed if store.get(key) is None]
    fresh = [key for key in lacking if store.failure(key) is None]
    failures = {key: f.times for key in lacking if (f := store.failure(key)) is not None}
    return fresh, sorted(failures, key=failures.__getitem__)


def tally(
    keyed: Mapping[str, Request], store: AnswerStore, *, seconds: float = 0.0, tokens: int = 0
) -> Tally:
    """How the requests with these keys stand in a store."""
    failures = [f for key in keyed if (f := store.failure(key)) is not None]
    answered = sum(store.get(key) is not None for key in keyed)
    error = failures[0].error if failures else ""
    return Tally(len(keyed), answered, len(failures), error, seconds, tokens)


def checked(answer: Answer, request: Request) -> Answer:
    """`answer`, or the error that it is no answer to `request`.

    An empty text is an answer (of a model that stops at once); missing, too few or NaN scores, and
    no picture where one was asked for, are not.
    """
    if answer.error is not None:
        return Answer(error=answer.error or "unknown error", seconds=answer.seconds)
    if request.choices:
        scores = answer.scores or ()
        if len(scores) == len(request.choices) and not any(map(math.isnan, scores)):
            return answer
        return _no_answer(answer, f"{len(request.choices)} scores were asked for, got {scores}")
    if request.want == "image" and answer.picture is None:
        return _no_answer(answer, "no picture came back")
    if request.want == "text" and answer.text is None:
        return _no_answer(answer, "no text came back")
    return answer


def _no_answer(answer: Answer, error: str) -> Answer:
    return Answer(error=error, seconds=answer.seconds)


def _wait_for(keys: Sequence[str], store: AnswerStore, pause: Callable[[float], None]) -> None:
    """Wait until the last of these failures lies back long enough."""
    now = time.time()
    left = 0.0
    for key in keys:
        failure = store.failure(key)
        if failure is not None:
            due = failure.last + min(RETRY_SECONDS * 2 ** (failure.times - 1), LONGEST_PAUSE)
            left = max(left, due - now)
    if left > 0:
        pause(left)


def as_facts(one: Tally) -> dict[str, Any]:
    """A tally for summary.json."""
    facts: dict[str, Any] = {
        "requests": one.requests,
        "answered": one.answered,
        "failed": one.failed,
        "seconds": round(one.seconds, 3),
    }
    if one.error:
        facts["first_error"] = one.error
    if one.tokens:
        facts["tokens_per_second"] = round(one.tokens / max(one.seconds, 1e-9), 2)
    return facts
