"""Any server that speaks OpenAI's protocol: vLLM, SGLang, llama.cpp, hosted ones.

    model=server:http://localhost:8000/v1#NAME          the model that the server calls NAME
    model=server:http://localhost:8000/v1#NAME@REV      REV is recorded, the protocol has no place

The key is read from the environment (`MMGEN_API_KEY`, else `OPENAI_API_KEY`), sent to that address
alone, and neither logged nor stored; messages of a server that repeat it are blotted.

Choices are scored by `/completions` with `echo` for plain text, where the server offers it, and by
the most likely first tokens (`top_logprobs`) of a chat. There a choice gets the log-probability of
the likeliest token that it alone begins with; one that begins with none of them gets that of the
last one listed, an upper bound.
"""

import base64
import functools
import queue
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mmgen.errors import UserError
from mmgen.models.lm.score import split_choices
from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.backends.http_client import (
    JsonClient,
    NoReply,
    NotFound,
    Refused,
    Unreadable,
)
from mmgen.prompting.requests import Answer, Picture, Request, Text

TOP = 20
"""First tokens that a chat is asked for when choices are scored; the protocol's limit."""

IMAGE_TYPES = {
    b"\x89PNG": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
"""First bytes of an encoded picture -> its media type."""


class ServerBackend:
    """See the module; a `Backend`."""

    reads_images = True
    paints = False

    def __init__(self, client: JsonClient, model: str, revision: str, concurrency: int):
        self.identity: Mapping[str, Any] = {
            "backend": "server",
            "model": model,
            "revision": revision,
        }
        self.batch_size = concurrency
        self._client = client
        self._model = model
        self._not_found: list[NotFound] = []

    @functools.cached_property
    def scores_choices(self) -> bool:
        """Does the server give log-probabilities in one of the two ways? Asked once.

        Raises:
          UserError: the server cannot say so now, refuses the key, or does not know the model.
        """
        if self._echoes or self._lists_first_tokens:
            return True
        if len(self._not_found) == 2:
            raise self._not_found[-1]
        return False

    @functools.cached_property
    def _echoes(self) -> bool:
        return self._offers("/completions", _echo("a b", self._model), _echoed)

    @functools.cached_property
    def _lists_first_tokens(self) -> bool:
        chat = {
            "model": self._model,
            "messages": [{"role": "user", "content": "1 + 1 ="}],
            **_FIRST_TOKEN,
        }
        return self._offers("/chat/completions", chat, _first_tokens)

    def _offers(self, path: str, body: dict[str, Any], read: Any) -> bool:
        try:
            self._client.post(path, body, read)
        except (Refused, Unreadable):
            return False
        except NotFound as error:
            # Of one path alone: this server has the other one.
            self._not_found.append(error)
            return False
        except NoReply as error:
            # It would be recorded for ever that this server gives none.
            raise UserError(
                f"the server does not say now whether it gives log-probabilities ({error}); run "
                "the same command again when it is less busy."
            ) from None
        return True

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Answer]]:
        """See `Backend.answer`; `batch_size` requests are in flight at any time.

        Raises:
          UserError: the server is not there, or refuses the key or the model.
        """
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for index in range(len(requests)):
            waiting.put(index)
        done: queue.SimpleQueue[tuple[int, Answer | BaseException]] = queue.SimpleQueue()
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                try:
                    index = waiting.get_nowait()
                except queue.Empty:
                    return
                try:
                    done.put((index, self._one(requests[index], stop)))
                except BaseException as error:  # raised again where the answers are awaited
                    done.put((index, error))

        # Daemons, so that a stopped run does not wait for what is in flight.
        for _ in range(min(self.batch_size, len(requests))):
            threading.Thread(target=work, daemon=True).start()
        try:
            for _ in requests:
                index, answer = done.get()
                if isinstance(answer, BaseException):
                    raise answer
                yield index, answer
        finally:
            stop.set()

    def _one(self, request: Request, stop: threading.Event) -> Answer:
        if request.want == "image":
            return Answer(error="this server paints no pictures")
        try:
            if request.choices:
                return self._scored(request, stop)
            if request.raw:
                body = {"model": self._model, "prompt": request.text, **_sampling(request)}
                return self._client.post("/completions", body, _completion, stop)
            body = {"model": self._model, "messages": messages(request), **_sampling(request)}
            return self._client.post("/chat/completions", body, _chat_completion, stop)
        except (Refused, NoReply) as error:
            return Answer(error=str(error))

    def _scored(self, request: Request, stop: threading.Event) -> Answer:
        if not request.raw:
            if not self._lists_first_tokens:
                return Answer(
                    error="this server gives no log-probabilities in a chat; use scoring=generate"
                )
            body = {"model": self._model, "messages": messages(request), **_FIRST_TOKEN}
            first = self._client.post("/chat/completions", body, _first_tokens, stop)
            return _scores_of(request.choices, first)
        if not self._echoes:
            return Answer(error="this server does not echo log-probabilities; use scoring=generate")
        echoes = []
        for choice in request.choices:
            body = _echo(request.text + choice, self._model)
            echoes.append(self._client.post("/completions", body, _echoed, stop))
        # Tokens of one text are the same as long as they end at the same places.
        ends = [[end for end, _ in tokens] for tokens in echoes]
        shared, _ = split_choices([end for end in ends[0] if end <= len(request.text)], ends)
        scored = [[value for _, value in tokens[shared:]] for tokens in echoes]
        for choice, values in zip(request.choices, scored, strict=True):
            if not values or None in values:
                return Answer(error=f"the server gave no log-probability of {choice!r}")
        return Answer(
            scores=tuple(sum(v for v in values if v is not None) for values in scored),
            token_counts=tuple(map(len, scored)),
        )


def open_server(target: str, options: BackendOptions) -> ServerBackend:
    """The server at "URL#model" or "URL#model@revision"; asks it once whether it is there.

    Raises:
      UserError: no address or no model in `target`, or no server there.
    """
    address, _, name = target.partition("#")
    if not re.match(r"https?://[^/]+", address) or not name:
        raise UserError(
            f"model=server:{target} is no server; write server:http://HOST:PORT/v1#MODEL."
        )
    model, _, revision = name.partition("@")
    client = JsonClient(address.rstrip("/"), options.timeout, options.attempts)
    client.check()
    return ServerBackend(client, model, revision, options.batch_size or options.concurrency)


def messages(request: Request) -> list[dict[str, Any]]:
    """The conversation in the protocol's form; pictures as data URLs."""
    found: list[dict[str, Any]] = []
    if request.system:
        found.append({"role": "system", "content": request.system})
    for turn in request.turns:
        if all(isinstance(part, Text) for part in turn.parts):
            # Plain text, which servers without pictures understand, too.
            texts = [part.text for part in turn.parts if isinstance(part, Text)]
            found.append({"role": turn.role, "content": "".join(texts)})
        else:
            content = [
                {"type": "text", "text": part.text}
                if isinstance(part, Text)
                else {"type": "image_url", "image_url": {"url": data_url(part)}}
                for part in turn.parts
            ]
            found.append({"role": turn.role, "content": content})
    return found


def data_url(picture: Picture) -> str:
    """A picture as a data URL; UserError if it is of no type that servers read."""
    data = picture.read()
    kind = next((name for start, name in IMAGE_TYPES.items() if data.startswith(start)), None)
    if kind is None:
        raise UserError(
            f"the picture {picture.path or '(in memory)'} is no PNG, JPEG, GIF or WebP; convert it."
        )
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


_FIRST_TOKEN = {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": TOP}


def _sampling(request: Request) -> dict[str, Any]:
    decoding = request.decoding
    fields: dict[str, Any] = {
        "max_tokens": decoding.max_tokens,
        "temperature": decoding.temperature,
        "top_p": decoding.top_p,
        "seed": request.seed,
    }
    return fields | ({"stop": list(decoding.stop)} if decoding.stop else {})


def _echo(text: str, model: str) -> dict[str, Any]:
    # One new token, since servers refuse to generate none.
    return {
        "model": model,
        "prompt": text,
        "max_tokens": 1,
        "temperature": 0.0,
        "echo": True,
        "logprobs": 1,
    }


def _completion(reply: Any) -> Answer:
    return _text_answer(reply, reply["choices"][0]["text"])


def _chat_completion(reply: Any) -> Answer:
    return _text_answer(reply, reply["choices"][0]["message"]["content"])


def _text_answer(reply: Any, text: Any) -> Answer:
    if not isinstance(text, str) or not text:
        raise ValueError("the text of the reply is empty")
    usage = reply.get("usage") or {}
    return Answer(
        text=text,
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        generated_tokens=int(usage.get("completion_tokens") or 0),
    )


def _echoed(reply: Any) -> list[tuple[int, float | None]]:
    """(end in the text, log-probability) of every token but the new one; none for the first."""
    found = reply["choices"][0]["logprobs"]
    lengths = map(len, found["tokens"])
    starts = found["text_offset"]
    values = found["token_logprobs"]
    tokens = [
        (start + length, None if value is None else float(value))
        for start, length, value in zip(starts, lengths, values, strict=True)
    ]
    if len(tokens) < 2:
        raise ValueError("the prompt is not echoed")
    return tokens[:-1]


def _first_tokens(reply: Any) -> list[tuple[str, float]]:
    first = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    found = [(str(one["token"]), float(one["logprob"])) for one in first]
    if not found:
        raise ValueError("no first token is listed")
    return sorted(found, key=lambda one: -one[1])


def _scores_of(choices: Sequence[str], first: Sequence[tuple[str, float]]) -> Answer:
    """A score per choice from (token, log-probability), likeliest first."""
    values: dict[str, float] = {}
    for token, value in first:
        start = token.strip()
        begun = [choice for choice in choices if start and choice.strip().startswith(start)]
        if len(begun) > 1:
            return Answer(
                error=f"{' and '.join(begun)} begin with the same token {start!r}, so the first "
                "token does not tell them apart; use scoring=generate"
            )
        for choice in begun:
            values.setdefault(choice, value)
    if not values:
        return Answer(error=f"none of {', '.join(choices)} is among the {TOP} likeliest tokens")
    floor = first[-1][1]
    return Answer(
        scores=tuple(values.get(choice, floor) for choice in choices),
        token_counts=(1,) * len(choices),
    )
