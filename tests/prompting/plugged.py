"""Backends that tests plug in by import path: slow ones, and ones that fail now and then."""

import os
import time

from mmgen.prompting.backends import BackendOptions
from mmgen.prompting.backends.fakes import FakeBackend
from mmgen.prompting.requests import Answer


class Slow(FakeBackend):
    """Answers like fake:random, one after another, and notes what it was asked."""

    def answer(self, requests):
        for index, request in enumerate(requests):
            with open(os.environ["MMGEN_TEST_ASKED"], "a") as file:
                file.write(request.item + "\n")
            time.sleep(float(os.environ.get("MMGEN_TEST_PAUSE", "0")))
            yield index, self._one(request)


class Failing(FakeBackend):
    """Answers like fake:perfect but for the first `failures` requests, which fail."""

    failures = 0

    def answer(self, requests):
        for index, request in enumerate(requests):
            if Failing.failures:
                Failing.failures -= 1
                yield index, Answer(error="HTTP 500: out of luck")
            else:
                yield index, self._one(request)


def make_slow(target: str, options: BackendOptions) -> Slow:
    return Slow("random")


def make_failing(target: str, options: BackendOptions) -> Failing:
    return Failing("perfect")
