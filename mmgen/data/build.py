"""Build a prepared data set.

python -m mmgen.data.build NAME --raw DIR --out DIR   build in DIR, by default `prepared`, where
                                                      runs look; --KEY=VALUE is a setting of NAME,
                                                      which may be package.module:function
python -m mmgen.data.build --list                     what can be built
python -m mmgen.data.build --check DIR                verify a built data set
"""

import argparse
import json
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from mmgen.data.builders import BUILDERS, find_builder
from mmgen.data.builders.request import BuildRequest
from mmgen.data.checks import shared_images, verify_dataset
from mmgen.data.columns import Dataset, open_dataset
from mmgen.data.compact import dataset as compact
from mmgen.data.folder import MANIFEST, PREPARED
from mmgen.data.macid import dataset as macid
from mmgen.errors import UserError
from mmgen.prompting.cobsat import dataset as cobsat
from mmgen.settings.command_line import fail

COUNTS = (
    ("examples", "examples"),
    ("images", "images"),
    ("captions", "captions"),
    ("tasks", "tasks"),
    ("per task, mean", "instances_per_task_mean"),
    ("median", "instances_per_task_median"),
    ("span, mean", "mean_span"),
    ("max", "max_span"),
    ("tokens, max", "max_tokens"),
)
"""Columns of the printed table: heading and key of the manifest's splits."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; --help shows the options")


def main(arguments: Sequence[str]) -> None:
    """Do what the command line asks for.

    Raises:
      UserError: whatever the user can mend.
    """
    options, settings = _parser().parse_known_args(arguments)
    options.set += [_bare(text) for text in settings]
    if options.list:
        print(listing())
    elif options.check is not None:
        dataset = open_prepared(options.check)
        if isinstance(dataset, Dataset):
            verify_dataset(dataset)
        else:
            KINDS[dataset.info["kind"]].verify(dataset)
        print(summary(dataset))
        print("every rule holds and every checksum is right")
    elif options.prompts_only:
        from mmgen.data.builders.cobsat import write_prompts

        print(write_prompts(_request(options)))
    elif options.name is None:
        raise UserError("give the NAME of a data set, --list or --check DIR; --help says more")
    else:
        print(summary(build(_request(options), tfds=options.tfds)))


Prepared = Dataset | compact.CompactDataset | cobsat.CobsatDataset | macid.MacidDataset
"""A data set of any kind."""


class Kind(NamedTuple):
    """What there is to do with a data set that is not of the masked-span kind.

    Attributes:
      open: from its folder.
      verify: every rule and checksum; UserError names what is not right.
      summary: as text.
    """

    open: Callable[[pathlib.Path], Any]
    verify: Callable[[Any], None]
    summary: Callable[[Any], str]


KINDS = {
    compact.KIND: Kind(compact.open_compact, compact.verify_compact, compact.summary),
    cobsat.KIND: Kind(cobsat.open_cobsat, cobsat.verify_cobsat, cobsat.summary),
    macid.KIND: Kind(macid.open_macid, macid.verify_macid, macid.summary),
}
"""`kind` of a manifest -> what reads it."""


def build(request: BuildRequest, *, tfds: bool = True) -> Prepared:
    """Build a data set, with its TFDS copy if `tfds` and its kind has one."""
    dataset = open_prepared(find_builder(request.name).build(request))
    if tfds and isinstance(dataset, Dataset):
        from mmgen.data.tfds_export import export_tfds

        export_tfds(dataset)
    return dataset


def open_prepared(path: pathlib.Path) -> Prepared:
    """Open a data set of any kind; UserError if there is none in `path`."""
    try:
        kind = json.loads((path / MANIFEST).read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        kind = None  # open_dataset says what is wrong
    return KINDS[kind].open(path) if kind in KINDS else open_dataset(path)


def listing() -> str:
    """What can be built, and from what."""
    lines = []
    for name, builder in BUILDERS.items():
        lines.append(f"{name:<14} {builder.summary}")
        if builder.needs:
            lines.append(f"{'':<14} needs: {builder.needs}")
    return "\n".join(lines)


def summary(dataset: Prepared) -> str:
    """Name, counts (the columns of the paper's Table 1) and fingerprint, as text."""
    if not isinstance(dataset, Dataset):
        return KINDS[dataset.info["kind"]].summary(dataset)
    info = dataset.info
    lines = [f"data set {info['name']} in {dataset.root}", ""]
    table = [["split", *(heading for heading, _ in COUNTS)]]
    for name in dataset.info["splits"]:
        facts = info["splits"][name]
        table.append([name, *(_number(facts[key]) for _, key in COUNTS)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        lines.append("  ".join(cells))
    vocabulary, store = info["vocabulary"], info["features"]
    novel = sum(pair["novel"] for pair in info["pairs"])
    lines += [
        "",
        f"vocabulary   {vocabulary['size']:,} tokens, {vocabulary['rows']:,} rows",
        f"pairs        {novel} novel, {len(info['pairs']) - novel} seen",
        "features     " + (f"{store['extractor']}" if store else "none: text-only runs"),
        f"licences     {'; '.join(info['licences'])}",
        f"fingerprint  {info['fingerprint']}",
    ]
    lines += [
        f"warning: {first} and {second} share {count:,} images"
        for (first, second), count in shared_images(dataset).items()
    ]
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _request(options: argparse.Namespace) -> BuildRequest:
    find_builder(options.name)
    if options.out is None and options.prompts_only:
        raise UserError("give the file for the prompts with --out")
    return BuildRequest(
        name=options.name,
        out=options.out or pathlib.Path(PREPARED),
        raw=options.raw,
        train_from=options.train_from,
        features=options.features,
        tokenizer=options.tokenizer,
        pairs=options.pairs,
        data_seed=options.data_seed,
        force=options.force,
        settings=dict(_setting(text) for text in options.set),
    )


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UserError(f"--set {text}: expected key=value")
    if value in ("True", "False"):
        return key, value == "True"
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def _bare(text: str) -> str:
    """`--target-dc=0.6` as a setting; UserError for anything else that is not an option."""
    if not text.startswith("--") or "=" not in text:
        raise UserError(f"unrecognized arguments: {text}; --help shows the options")
    key, _, value = text.removeprefix("--").partition("=")
    return f"{key.replace('-', '_')}={value}"


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m mmgen.data.build",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    folder = pathlib.Path
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="data set, see --list")
    add("--list", action="store_true", help="list what can be built")
    add("--check", type=folder, metavar="DIR", help="verify the data set in DIR")
    add("--raw", type=folder, metavar="DIR", help="folder of raw files")
    add("--out", type=folder, metavar="DIR", help="folder for prepared data sets (prepared)")
    add("--train-from", metavar="PART", help="released part that serves as training stream")
    add("--features", type=folder, metavar="DIR", help="feature store to attach")
    add("--tokenizer", metavar="PATH", help="vocab.txt of bert-base-uncased, or its folder")
    add("--pairs", type=folder, metavar="DIR", help="folder of the held-out concept pairs")
    add("--data-seed", "--seed", type=int, default=0, metavar="N", help="seed of worlds and splits")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="setting of the builder")
    add("--prompts-only", action="store_true", help="cobsat: write its prompts to the file --out")
    add("--force", action="store_true", help="replace a finished data set")
    add("--no-tfds", dest="tfds", action="store_false", help="leave the TFDS copy out")
    return parser


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as sentence:
        fail(sentence)
