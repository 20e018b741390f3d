"""Command line of the feature importers; see the package."""

import argparse
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mmgen.data.features import FeatureItem, write_feature_store
from mmgen.data.importers import bottom_up, hdf5, npz
from mmgen.data.importers.boxes import CONVENTIONS, read_sizes
from mmgen.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Import features and print what was written; 2 after a UserError."""
    args = _parser().parse_args(argv)
    try:
        manifest = write_feature_store(args.out, *_source(args))
    except UserError as error:
        print(f"mmgen: {error}", file=sys.stderr)
        return 2
    boxes, dim = manifest["shapes"]["features"]
    images = manifest["shapes"]["image_ids"][0]
    print(
        f"{args.out}: {images:,} images, {boxes:,} boxes, {dim} numbers each, {manifest['dtype']}"
    )
    print(f"whole image: {manifest['whole_image']}")
    print(f"extractor: {manifest['extractor']}, trained on: {manifest['trained_on']}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mmgen.data.importers",
        description="Bring region features of images into mmgen's feature store.",
    )
    commands = parser.add_subparsers(dest="source", required=True, metavar="SOURCE")

    tsv = commands.add_parser("bottom_up", help="bottom-up-attention TSV files")
    tsv.add_argument("files", nargs="+", type=pathlib.Path)

    h5 = commands.add_parser("hdf5", help="HDF5 file of the released VisCOLL code")
    h5.add_argument("file", type=pathlib.Path)
    h5.add_argument("--map", required=True, type=pathlib.Path, help="JSON: row -> image id")
    h5.add_argument("--drop-whole", action="store_true", help="slot 0 is no object")

    folder = commands.add_parser("npz", help="folder of one .npz file per image")
    folder.add_argument("folder", type=pathlib.Path)

    for command in (h5, folder):
        command.add_argument("--boxes", required=True, choices=CONVENTIONS, help="their convention")
        command.add_argument("--sizes", type=pathlib.Path, help="JSON: image id -> width, height")
    for command in (tsv, h5, folder):
        command.add_argument("--out", required=True, type=pathlib.Path, help="folder to write")
        command.add_argument("--dtype", default="float16", choices=("float16", "float32"))
        command.add_argument("--extractor", default="not stated", help="model and its settings")
        command.add_argument("--trained-on", default="not stated", help="the extractor's data")
    return parser


def _source(args: argparse.Namespace) -> tuple[Iterator[FeatureItem], dict[str, Any]]:
    """Items and manifest facts of the chosen source."""
    facts: dict[str, Any] = {"extractor": args.extractor, "trained_on": args.trained_on}
    if args.source == "bottom_up":
        return bottom_up.read_bottom_up(args.files, args.dtype), bottom_up.FACTS | facts
    facts["box_convention"] = args.boxes
    sizes = read_sizes(args.sizes) if args.sizes else None
    if args.source == "npz":
        items = npz.read_npz(args.folder, boxes=args.boxes, dtype=args.dtype, sizes=sizes)
        return items, npz.FACTS | facts
    facts["objects"] = "slots 1 and up" if args.drop_whole else "all slots, the whole image too"
    items = hdf5.read_hdf5(
        args.file,
        args.map,
        boxes=args.boxes,
        dtype=args.dtype,
        sizes=sizes,
        drop_whole=args.drop_whole,
    )
    return items, hdf5.FACTS | facts


if __name__ == "__main__":
    sys.exit(main())
