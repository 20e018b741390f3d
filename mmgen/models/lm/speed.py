"""How fast a language model writes and scores on this machine.

    python -m mmgen.models.lm.speed jax-package:smollm2
    python -m mmgen.models.lm.speed /path/to/folder-or.gguf --rows=1,4 --dtype=bfloat16

Tokens/s of decoding by batch size, and seconds of scoring choices with their prefix read once,
against reading prefix and choice for every choice. Programs are compiled before they are timed.
"""

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from mmgen.core.mesh import make_mesh
from mmgen.errors import UserError
from mmgen.models.lm.generate import Prompt, generate
from mmgen.models.lm.model import LanguageModel, find_package, open_model
from mmgen.models.lm.score import Candidates, score

PACKAGE = "jax-package:"
CHOICES = 4


def main(argv: list[str] | None = None) -> int:
    """Measures and prints one JSON object."""
    arguments = _arguments(argv)
    try:
        name = arguments.model
        path = find_package(name.removeprefix(PACKAGE)) if name.startswith(PACKAGE) else name
        model = open_model(path, make_mesh(data=1), arguments.dtype)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    # Without an end every answer has the same length.
    model = model._replace(config=dataclasses.replace(model.config, eos=()))
    facts = {
        "model": model.name,
        "device": jax.devices()[0].device_kind,
        "dtype": arguments.dtype,
        **_writing(model, arguments),
        **_scoring(model, arguments),
    }
    print(json.dumps(facts, indent=1))
    return 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m mmgen.models.lm.speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("model", help="a folder, a .gguf file, or jax-package:NAME")
    add("--rows", default="1,16", help="batch sizes, separated by commas; ratios are to the first")
    add("--prompt", type=int, default=96, help="tokens of every prompt")
    add("--tokens", type=int, default=32, help="tokens of every answer, at least 2")
    add("--choice", type=int, default=4, help="tokens of each of four choices")
    add("--repeats", type=int, default=3, help="the median of so many")
    add("--dtype", default="float32", help="float32 or bfloat16")
    arguments = parser.parse_args(argv)
    if min(arguments.prompt, arguments.choice, arguments.repeats, arguments.tokens - 1) < 1:
        parser.error("--prompt, --choice and --repeats must be at least 1, --tokens at least 2")
    return arguments


def _writing(model: LanguageModel, arguments: argparse.Namespace) -> dict[str, object]:
    """Rates of decoding: what the tokens after the first take, which reading the prompt gives."""
    rates, whole = {}, {}
    for rows in map(int, arguments.rows.split(",")):
        prompts = [
            Prompt(ids, arguments.tokens) for ids in _random_ids(model, rows, arguments.prompt)
        ]
        first = [prompt._replace(max_tokens=1) for prompt in prompts]
        seconds = _seconds(arguments, generate, model, prompts, rows)
        reading = _seconds(arguments, generate, model, first, rows)
        rates[rows] = rows * (arguments.tokens - 1) / max(seconds - reading, 1e-9)
        whole[rows] = rows * arguments.tokens / seconds
    base = next(iter(rates.values()))
    return {
        "prompt_tokens": arguments.prompt,
        "generated_tokens": arguments.tokens,
        "decoding_tokens_per_second": {rows: round(rate, 1) for rows, rate in rates.items()},
        "decoding_ratio": {rows: round(rate / base, 2) for rows, rate in rates.items()},
        "tokens_per_second_with_reading": {rows: round(rate, 1) for rows, rate in whole.items()},
    }


def _scoring(model: LanguageModel, arguments: argparse.Namespace) -> dict[str, object]:
    """Seconds of one item with four choices."""
    (prefix,) = _random_ids(model, 1, arguments.prompt)
    choices = tuple(map(tuple, _random_ids(model, CHOICES, arguments.choice).tolist()))
    together = [Candidates(prefix, choices)]
    apart = [Candidates(np.append(prefix, choice[:-1]), (choice[-1:],)) for choice in choices]
    # One token of one choice: what reading the prompt alone takes.
    prompt = [Candidates(prefix, (choices[0][:1],))]
    timed = {"prompt_alone": (prompt, 1), "shared_prefix": (together, 1), "apart": (apart, CHOICES)}
    return {
        "choice_tokens": arguments.choice,
        "seconds_of_four_choices": {
            name: round(_seconds(arguments, score, model, items, rows), 4)
            for name, (items, rows) in timed.items()
        },
    }


def _random_ids(model: LanguageModel, rows: int, length: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.integers(0, model.config.vocab_size, (rows, length), dtype=np.int32)


def _seconds(arguments: argparse.Namespace, work: Callable[..., Iterable], *inputs: Any) -> float:
    """The median time of going through `work(*inputs)`, after a first time that compiles."""
    times = []
    for _ in range(arguments.repeats + 1):
        start = time.perf_counter()
        list(work(*inputs))
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


if __name__ == "__main__":
    sys.exit(main())
