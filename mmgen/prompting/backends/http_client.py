"""JSON over HTTP with retries: what a busy, slow or broken server may do is survived or told."""

import email.message
import http.client
import json
import os
import random
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, TypeVar

from mmgen.errors import UserError

KEYS = ("MMGEN_API_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key, first found."""

FIRST_PAUSE = 0.5
"""Seconds before the second try, doubled with every further one."""

LONGEST_PAUSE = 60.0

PASSING = (408, 409, 425, 429)
"""Statuses below 500 of a request that may be answered later."""

LOCAL = ("localhost", "127.0.0.1", "::1")

SHOWN = 200
"""Characters of a server's message that are kept."""

Reply = TypeVar("Reply")


class Refused(Exception):
    """The server will not answer this request, now or later: it is malformed or too long."""


class NoReply(Exception):
    """The server gave no usable reply after all tries."""


class Unreadable(NoReply):
    """The server replied to the last try, but with something else than what was asked for."""


class NotFound(UserError):
    """The server knows no such model or path."""


class JsonClient:
    """Posts JSON to one server; safe to use from several threads.

    Args:
      address: "http://host:8000/v1".
      timeout: seconds that one try may take from start to end.
      attempts: tries of a request.
    """

    def __init__(self, address: str, timeout: float, attempts: int):
        self._address = address
        self._timeout = timeout
        self._attempts = max(1, attempts)
        self._key = next((os.environ[name] for name in KEYS if os.environ.get(name)), "")
        self._has_answered = False
        # A proxy of the environment is for the world outside.
        is_local = urllib.parse.urlsplit(address).hostname in LOCAL
        proxies = [urllib.request.ProxyHandler({})] if is_local else []
        self._opener = urllib.request.build_opener(_NoRedirects, *proxies)

    def check(self) -> None:
        """Ask for the list of models, to learn at once whether a server is there.

        Raises:
          UserError: nobody answers, or the key is refused.
        """
        request = urllib.request.Request(f"{self._address}/models", headers=self._headers())
        try:
            self._read(request)
        except urllib.error.HTTPError as error:
            self._stop_if_hopeless(error.code, "")
        except _BROKEN as error:
            raise UserError(
                f"no server answers at {self._address} ({_reason(error)}); start it, or mend the "
                "address."
            ) from None

    def post(
        self,
        path: str,
        body: dict[str, Any],
        read: Callable[[Any], Reply],
        stop: threading.Event | None = None,
    ) -> Reply:
        """What `read` makes of the reply to `body`.

        Tried again after 429 and 5xx but 501 (as late as the server asks for), a broken or
        timed-out connection, a reply that is no JSON or that `read` cannot use.

        Args:
          path: below the address, "/completions".
          read: takes the parsed reply; any LookupError, TypeError or ValueError means that the
            reply is unusable.
          stop: ends the waiting between tries.

        Raises:
          Refused: the request is at fault.
          Unreadable: no usable reply after all tries, and the last was none.
          NoReply: no reply after all tries.
          NotFound: the server knows no such model or path.
          UserError: the server refuses the key.
        """
        data = json.dumps(body).encode()
        problem, failure = "", NoReply
        for attempt in range(self._attempts):
            request = urllib.request.Request(self._address + path, data, self._headers())
            asked_for, failure = 0.0, NoReply
            try:
                reply = read(json.loads(self._read(request)))
            except urllib.error.HTTPError as error:
                problem = self._told(error)
                if error.code not in PASSING and (error.code < 500 or error.code == 501):
                    self._stop_if_hopeless(error.code, problem)
                    raise Refused(problem) from None
                asked_for = _retry_after(error.headers)
            except _BROKEN as error:
                problem = _reason(error)
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                problem, failure = f"unusable reply ({_reason(error)})", Unreadable
            else:
                self._has_answered = True
                return reply
            if attempt + 1 < self._attempts:
                pause = max(asked_for, FIRST_PAUSE * 2**attempt * random.uniform(0.75, 1.25))
                if (stop or threading.Event()).wait(min(pause, LONGEST_PAUSE)):
                    break
        raise failure(self._blot(f"{problem} (tried {attempt + 1} times)"))

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "User-Agent": "mmgen"}
        return headers | ({"Authorization": f"Bearer {self._key}"} if self._key else {})

    def _read(self, request: urllib.request.Request) -> bytes:
        """The body of the reply; the time limit holds for all of it, not for each packet."""
        deadline = time.monotonic() + self._timeout
        parts = []
        with self._opener.open(request, timeout=self._timeout) as response:
            while part := response.read1(1 << 16):
                parts.append(part)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"no whole reply within {self._timeout:g} s")
        return b"".join(parts)

    def _told(self, error: urllib.error.HTTPError) -> str:
        try:
            text = error.read(1 << 16).decode(errors="replace")
        except (OSError, http.client.HTTPException):
            text = ""
        try:
            found = json.loads(text)
            inner = found.get("error", found)
            text = str(inner.get("message", inner) if isinstance(inner, dict) else inner)
        except (ValueError, AttributeError):
            pass
        return self._blot(f"HTTP {error.code}: {' '.join(text.split())[:SHOWN]}")

    def _stop_if_hopeless(self, code: int, problem: str) -> None:
        """UserError for what no other request will be spared."""
        if code in (401, 403):
            names = " or ".join(KEYS)
            raise UserError(
                f"the server at {self._address} refuses the key (HTTP {code}); set {names} in the "
                "environment."
            )
        if code == 404 and problem and not self._has_answered:
            raise NotFound(
                f"the server at {self._address} does not know the model or the path ({problem}); "
                "look at what it serves under /models."
            )

    def _blot(self, text: str) -> str:
        return text.replace(self._key, "[key]") if self._key else text


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the key to another address."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        del req, fp, code, msg, headers, newurl


_BROKEN = (OSError, http.client.HTTPException)
"""A connection that fails, ends early or takes too long. (HTTPError is one, caught before.)"""


def _reason(error: BaseException) -> str:
    reason = getattr(error, "reason", None) or error
    if isinstance(reason, TimeoutError):
        return str(reason) or "timed out"
    return f"{type(error).__name__}: {reason}"[:SHOWN]


def _retry_after(headers: email.message.Message | None) -> float:
    """Seconds that a busy server asks for; 0 without, or for a date."""
    try:
        return max(0.0, float(headers["Retry-After"])) if headers else 0.0
    except (TypeError, ValueError):
        return 0.0
