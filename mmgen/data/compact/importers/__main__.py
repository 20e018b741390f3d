"""Command line of the importers of clip features; see the package."""

import argparse
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mmgen.data.compact.clip_features import ClipItem, write_clip_features
from mmgen.data.compact.importers import files, hdf5, rulstm
from mmgen.data.compact.keyframes import RULES, RULSTM_RATE
from mmgen.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Import features and print what was written; 2 after a UserError."""
    args = _parser().parse_args(argv)
    missing: list[str] = []
    facts: dict[str, Any] = {
        "modality": args.modality,
        "extractor": args.extractor,
        "trained_on": args.trained_on,
        "source_format": args.source,
    }
    if args.source == "rulstm":
        facts["frames"] = args.frame
    try:
        manifest = write_clip_features(args.out, _source(args, missing), facts, dtype=args.dtype)
    except UserError as error:
        print(f"mmgen: {error}", file=sys.stderr)
        return 2
    shape = " x ".join(map(str, manifest["shape"]))
    print(f"{args.out}: {manifest['clips']:,} clips, {shape} numbers each, {manifest['dtype']}")
    print(f"without a feature: {manifest['absent']:,}")
    if missing:
        print(f"not in the source: {len(missing):,} clips, the first is {missing[0]}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mmgen.data.compact.importers",
        description="Bring features of clips into a folder of clip features.",
    )
    commands = parser.add_subparsers(dest="source", required=True, metavar="SOURCE")
    path = pathlib.Path

    npz = commands.add_parser("npz", help="folder of one .npy or .npz file per narration id")
    npz.add_argument("folder", type=path)
    npz.add_argument("--array", help="array of the .npz files; the only one by default")

    h5 = commands.add_parser("hdf5", help="HDF5: a data set per narration id, or rows and ids")
    h5.add_argument("file", type=path)
    h5.add_argument("--features", help="data set of rows, or group of clips; the file by default")
    h5.add_argument("--ids", help="data set of narration ids, for rows")

    lmdb = commands.add_parser("rulstm", help="LMDB of features per frame, as RULSTM publishes")
    lmdb.add_argument("lmdb", type=path)
    lmdb.add_argument("--raw", required=True, type=path, help="folder of the csv with the clips")
    lmdb.add_argument("--frame", default="middle", choices=RULES, help="which frame is the clip's")
    lmdb.add_argument("--detections", type=path, help="folder of VIDEO_detections.jsonl")
    lmdb.add_argument("--threshold", type=float, default=0.0, help="lowest score of a proposal")
    lmdb.add_argument("--rate", type=float, default=RULSTM_RATE, help="frames per second")

    for command in (npz, h5, lmdb):
        command.add_argument("--modality", required=True, help="vision, audio, objects, tags, ...")
        command.add_argument("--out", required=True, type=path, help="folder to write")
        command.add_argument("--dtype", default="float16", choices=("float16", "float32"))
        command.add_argument("--extractor", default="not stated", help="model and its settings")
        command.add_argument("--trained-on", default="not stated", help="the extractor's data")
    return parser


def _source(args: argparse.Namespace, missing: list[str]) -> Iterator[ClipItem]:
    if args.source == "npz":
        return files.read_files(args.folder, args.array)
    if args.source == "hdf5":
        return hdf5.read_hdf5(args.file, args.features, args.ids)
    from mmgen.data.builders.compact import read_raw

    reader = rulstm.open_lmdb(args.lmdb)
    annotations, _ = read_raw(args.raw, strict=True)
    proposals = None
    if args.detections is not None:
        proposals = rulstm.proposals_of(args.detections, args.threshold)
    return rulstm.read_rulstm(
        reader,
        annotations.clips,
        rule=args.frame,
        missing=missing,
        proposals=proposals,
        rate=args.rate,
        where=str(args.lmdb),
    )


if __name__ == "__main__":
    sys.exit(main())
