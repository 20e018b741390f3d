"""Extract features of clips with local Hugging Face checkpoints; needs torch.

    python -m mmgen.data.compact.extract vision --model CHECKPOINT --raw RAW --frames FRAMES \\
        --out features/vision

Frames (`--frames`, `--pattern`) and sounds (`--sounds`) must have been cut from the videos before.
A run that was ended goes on with the same command; the folders of frames, sounds and detections may
have been moved together with that of `--out`, but not away from it. Clips without frame or sound
file are listed and left out; the builder of the data set masks them, and refuses too many.
"""

import argparse
import pathlib
import sys
from collections.abc import Sequence

from mmgen.data.builders.compact import read_raw
from mmgen.data.compact.epic_csv import Clip
from mmgen.data.compact.extraction import Extracted, Extractor, Read, extract
from mmgen.data.compact.extractors import KINDS, PICTURES, SOUNDS, TorchExtractor
from mmgen.data.compact.importers.rulstm import proposals_of
from mmgen.data.compact.keyframes import RULSTM_RATE
from mmgen.data.compact.media import FrameReader, SoundReader, narration
from mmgen.errors import UserError


def main(argv: Sequence[str] | None = None) -> int:
    """Extract and print what was written; 2 after a UserError."""
    args = _parser().parse_args(argv)
    try:
        extractor = TorchExtractor(args.kind, args.model, args.device, args.threshold)
        found = run(args, extractor, make_reader(args, extractor.rate))
    except UserError as error:
        print(f"mmgen: {error}", file=sys.stderr)
        return 2
    shape = " x ".join(map(str, found.manifest["shape"]))
    print(f"{args.out}: {found.manifest['clips']:,} clips, {shape} numbers each")
    print(f"without a feature: {found.manifest['absent']:,}; from before: {found.resumed:,}")
    if found.missing:
        print(f"missing media: {len(found.missing):,} clips, the first is {found.missing[0]}")
    return 0


def run(args: argparse.Namespace, extractor: Extractor, read: Read) -> Extracted:
    """Extract the features of the clips that `args` name."""
    facts = {"modality": args.modality or args.kind, "trained_on": args.trained_on}
    media = {}
    if args.kind in PICTURES:
        facts |= {"frame": args.frame, "frames_per_second": args.rate}
        media = {name: getattr(args, name) for name in ("frames", "pattern", "detections")}
    elif args.kind in SOUNDS:
        media = {name: getattr(args, name) for name in ("sounds", "sound_pattern")}
    return extract(
        chosen_clips(args.raw, args.videos),
        read,
        extractor,
        args.out,
        facts,
        media=media,
        batch_size=args.batch,
        dtype=args.dtype,
    )


def chosen_clips(raw: pathlib.Path, videos: Sequence[str]) -> list[Clip]:
    """Clips of the csv below `raw`, of some videos alone if they are named."""
    clips = [clip for clip in read_raw(raw, strict=True)[0].clips if clip.usable]
    known = {clip.video_id for clip in clips}
    for video in videos:
        if video not in known:
            raise UserError(f"--videos {video}: the csv below {raw} has no such video")
    return [clip for clip in clips if not videos or clip.video_id in videos]


def make_reader(args: argparse.Namespace, sound_rate: int | None) -> Read:
    """What reads the media of a clip for `args.kind`."""
    if args.kind in PICTURES:
        if args.frames is None:
            raise UserError(f"{args.kind} looks at frames: give their folder with --frames")
        proposals = None if args.detections is None else proposals_of(args.detections, 0.0)
        return FrameReader(args.frames, args.pattern, args.rate, args.frame, proposals)
    if args.kind in SOUNDS:
        if args.sounds is None or sound_rate is None:
            raise UserError(f"{args.kind} listens to .wav files: give their folder with --sounds")
        return SoundReader(args.sounds, args.sound_pattern, sound_rate)
    return narration


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mmgen.data.compact.extract",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add, path = parser.add_argument, pathlib.Path
    add("kind", choices=KINDS, help="what to extract, see mmgen/data/compact/extractors.py")
    add("--model", required=True, type=path, help="checkpoint folder")
    add("--raw", required=True, type=path, help="folder of the csv with the clips")
    add("--out", required=True, type=path, help="folder to write")
    add("--modality", help="name of the modality in the data set; the kind by default")
    add("--videos", nargs="+", default=(), help="some videos alone")
    add("--frames", type=path, help="folder of frames")
    add("--pattern", default="{video}/frame_{frame:010d}.jpg", help="of the frames' files")
    add("--rate", type=float, default=RULSTM_RATE, help="frames per second of their numbers")
    add("--frame", default="middle", choices=("middle", "proposals"), help="which frame of a clip")
    add("--detections", type=path, help="folder of VIDEO_detections.jsonl, for proposals")
    add("--sounds", type=path, help="folder of .wav files, one per clip")
    add("--sound-pattern", default="{clip}.wav", help="of the .wav files")
    add("--threshold", type=float, default=0.5, help="lowest score of a found object")
    add("--batch", type=int, default=16, help="clips per call of the model")
    add("--device", default="cpu", help="device of torch")
    add("--dtype", default="float16", choices=("float16", "float32"))
    add("--trained-on", default="not stated", help="the checkpoint's data")
    return parser


if __name__ == "__main__":
    sys.exit(main())
