"""A page of a prompted run's prompts, replies and judgements, pictures included.

    python -m mmgen.prompting.gallery WORKDIR [--out FILE] [--count 6] [--wrong]

The page is one HTML file that needs nothing else. Of every group of items (a task of CoBSAT) it
shows the first few; of a chain of thought both steps. --wrong shows those alone that were judged
wrong.
"""

import argparse
import base64
import html
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mmgen.core.workdir import Workdir
from mmgen.errors import UserError
from mmgen.prompting.benchmark import Benchmark, Stage
from mmgen.prompting.benchmarks import make_benchmark
from mmgen.prompting.collect import Collected, collect
from mmgen.prompting.requests import Answer, Picture, Request, Text
from mmgen.prompting.run import RECORDS
from mmgen.settings.command_line import fail
from mmgen.settings.identity import recorded_config

STYLE = (
    "body{font:14px sans-serif;max-width:70em;margin:2em auto}"
    "img{height:96px;vertical-align:middle;margin:2px}"
    "article{border:1px solid #ccc;margin:1em 0;padding:.5em 1em}"
    ".assistant{background:#eef;padding:.3em}.right{border-left:6px solid #2a2}"
    ".wrong{border-left:6px solid #c33}.judge{color:#555}pre{white-space:pre-wrap;display:inline}"
)


class Entry(NamedTuple):
    """One item of the page.

    Attributes:
      request: the last question to the model, which holds the conversation before it.
      reply: its answer; None is missing.
      judged: (name of a judge's question, its answer).
      record: the item's line of `evals/records.jsonl`, {} without one.
    """

    request: Request
    reply: Answer | None
    judged: tuple[tuple[str, Answer], ...]
    record: Mapping[str, Any]


def make_gallery(workdir: Workdir, *, count: int = 6, wrong: bool = False) -> str:
    """The page of a run.

    Args:
      count: items of each group.
      wrong: only items that were judged wrong.

    Raises:
      UserError: nothing was asked yet, or the data set is gone.
    """
    config = recorded_config(workdir.read_json("config.json"))
    config = config.copy_and_resolve_references().unlock()
    config.only = "score"
    benchmark = make_benchmark(config)
    found = collect(config, benchmark, workdir)
    chosen: dict[str, list[Entry]] = defaultdict(list)
    for entry in _entries(benchmark, found, _records(workdir)):
        group = chosen[entry.request.item.partition("/")[0]]
        if len(group) < count and not (wrong and entry.record.get("joint")):
            group.append(entry)
    title = f"{config.name}: {config.model.spec} on {benchmark.dataset['name']}"
    parts = [
        f"<h2>{html.escape(name)}</h2>{''.join(map(_article, group))}"
        for name, group in chosen.items()
        if group
    ]
    return (
        f"<!DOCTYPE html><html><head><meta charset='utf-8'><title>{html.escape(title)}</title>"
        f"<style>{STYLE}</style></head><body><h1>{html.escape(title)}</h1>{''.join(parts)}"
        "</body></html>\n"
    )


def _entries(
    benchmark: Benchmark, found: Collected, records: Mapping[str, Mapping[str, Any]]
) -> Iterable[Entry]:
    asked = [stage for stage in benchmark.stages if stage.role == "model"]
    judges = [stage.name for stage in benchmark.stages if stage.role == "judge"]
    for request in _requests(asked[-1], found):
        replies = ((name, found.replies.get(name, {}).get(request.item)) for name in judges)
        yield Entry(
            request,
            found.replies[asked[-1].name].get(request.item),
            tuple((name, answer) for name, answer in replies if answer is not None),
            # Several answers to one prompt share a record, under the prompt's own name.
            records.get(request.item) or records.get(request.item.rpartition("/")[0], {}),
        )


def _requests(stage: Stage, found: Collected) -> Sequence[Request]:
    return stage.requests(found.traits[stage.role], found.replies)


def _records(workdir: Workdir) -> dict[str, dict[str, Any]]:
    path = workdir.file(RECORDS)
    lines = path.read_text().splitlines() if path.exists() else []
    return {str(record["id"]): record for record in map(json.loads, lines)}


def _article(entry: Entry) -> str:
    record = entry.record
    verdict = "" if "joint" not in record else ("right" if record["joint"] else "wrong")
    parts = [f"<article class='{verdict}'><h3>{html.escape(entry.request.item)}</h3>"]
    if entry.request.system:
        parts.append(f"<p><i>{html.escape(entry.request.system)}</i></p>")
    parts += [
        f"<p class='{turn.role}'>{''.join(map(_part, turn.parts))}</p>"
        for turn in entry.request.turns
    ]
    parts.append(f"<p class='assistant'><b>{_reply(entry.reply)}</b></p>")
    parts += [
        f"<p class='judge'>{html.escape(name)}: {_reply(answer)}</p>"
        for name, answer in entry.judged
    ]
    shown = {key: record[key] for key in ("target", "seen") if key in record}
    if shown:
        parts.append(f"<p class='judge'>{html.escape(json.dumps(shown))}</p>")
    return "".join([*parts, "</article>"])


def _reply(answer: Answer | None) -> str:
    if answer is None:
        return "no answer"
    if answer.picture is not None:
        return _image(answer.picture)
    if answer.scores is not None:
        return html.escape(", ".join(f"{score:.2f}" for score in answer.scores))
    return f"<pre>{html.escape(answer.text or '')}</pre>"


def _part(part: Text | Picture) -> str:
    return f"<pre>{html.escape(part.text)}</pre>" if isinstance(part, Text) else _image(part)


def _image(picture: Picture) -> str:
    # Browsers look at the bytes, whatever kind of image the address says.
    return f"<img src='data:image/png;base64,{base64.b64encode(picture.read()).decode()}'>"


def main(arguments: Sequence[str]) -> None:
    """Do what the command line asks for; UserError if the folder is no prompted run."""
    parser = argparse.ArgumentParser(
        "python -m mmgen.prompting.gallery",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("workdir", help="folder of a prompted run")
    parser.add_argument("--out", help="the page; gallery.html in the folder by default")
    parser.add_argument("--count", type=int, default=6, help="items of each group")
    parser.add_argument("--wrong", action="store_true", help="only what was judged wrong")
    options = parser.parse_args(arguments)
    workdir = Workdir(options.workdir)
    if workdir.read_json("config.json")["identity"].get("kind") != "prompting":
        raise UserError(f"{options.workdir} is no prompted run: it has no prompts to show.")
    with workdir.lock():
        page = make_gallery(workdir, count=options.count, wrong=options.wrong)
    target = workdir.file("gallery.html")
    if options.out:
        target = Workdir(options.out).root
    Workdir(target.parent).write_text(target.name, page)
    print(f"Gallery: {target}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as sentence:
        fail(sentence)
