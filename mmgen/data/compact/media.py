"""What extractors look at: the frame that stands for a clip, its sound, its narration."""

import pathlib
import string
import struct
from collections.abc import Callable, Mapping

import numpy as np
from jaxtyping import Float, UInt8

from mmgen.data.compact.epic_csv import Clip
from mmgen.data.compact.keyframes import clip_span, most_proposals, nearest
from mmgen.errors import UserError


class FrameReader:
    """The frame that stands for a clip, uint8[h, w, 3].

    Args:
      folder: of the frames.
      pattern: of their files, with `{video}` and `{frame}`, such as
        "{video}/frame_{frame:010d}.jpg"; `{participant}` is what a video's id begins with.
      rate: frames per second of their numbers.
      rule: "middle" or "proposals", see `keyframes`.
      proposals: video -> object proposals by frame, for "proposals".

    Raises:
      UserError: no folder, or a pattern that is none.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        pattern: str,
        rate: float,
        rule: str = "middle",
        proposals: Callable[[str], Mapping[int, int]] | None = None,
    ):
        _check("--pattern", folder, pattern, ("video", "frame", "participant"), ("video", "frame"))
        if rule not in ("middle", "proposals"):
            raise UserError(f"--frame {rule}: a picture of a clip is middle or proposals")
        if (rule == "proposals") != (proposals is not None):
            raise UserError("--frame proposals and --detections belong together")
        self._folder, self._pattern, self._rate = folder, pattern, rate
        self._proposals = proposals

    def path(self, clip: Clip) -> pathlib.Path | None:
        """File of the clip's frame; None if it is missing."""
        span = clip_span(clip, self._rate)
        if self._proposals is None:
            frame = nearest(span, lambda number: self._file(clip, number).is_file())
        else:
            frame = most_proposals(span, self._proposals(clip.video_id))
        if frame is None:
            return None
        path = self._file(clip, frame)
        return path if path.is_file() else None

    def _file(self, clip: Clip, frame: int) -> pathlib.Path:
        participant = clip.video_id.partition("_")[0]
        name = self._pattern.format(video=clip.video_id, frame=frame, participant=participant)
        return self._folder / name

    def __call__(self, clip: Clip) -> UInt8[np.ndarray, "h w 3"] | None:
        """The picture; UserError for a damaged file, None if it is missing."""
        from PIL import Image

        path = self.path(clip)
        if path is None:
            return None
        try:
            with Image.open(path) as image:
                return np.asarray(image.convert("RGB"))
        except (OSError, ValueError, SyntaxError) as error:
            raise UserError(f"{path} is no readable picture ({error})") from error


class SoundReader:
    """The sound of a clip from a .wav file of its own, mono float32 in [-1, 1].

    Args:
      folder: of the files.
      pattern: of their names, with `{clip}` (narration id) or `{video}` and `{number}`.
      rate: samples per second to give, resampled where the file has another.
    """

    def __init__(self, folder: pathlib.Path, pattern: str, rate: int):
        _check("--sound-pattern", folder, pattern, ("clip", "video", "number"), ())
        self._folder, self._pattern, self._rate = folder, pattern, rate

    def __call__(self, clip: Clip) -> Float[np.ndarray, " samples"] | None:
        """The samples; UserError for a damaged file, None if it is missing."""
        from scipy.io import wavfile
        from scipy.signal import resample_poly

        names = {"clip": clip.narration_id, "video": clip.video_id, "number": clip.number}
        path = self._folder / self._pattern.format(**names)
        if not path.is_file():
            return None
        try:
            rate, samples = wavfile.read(path)
        except (ValueError, EOFError, OSError, struct.error) as error:
            raise UserError(f"{path} is no readable .wav file ({error})") from error
        if samples.dtype.kind == "i":
            samples = samples / np.iinfo(samples.dtype).max
        elif samples.dtype.kind == "u":
            samples = samples / 127.5 - 1
        mono = samples.mean(axis=1) if samples.ndim == 2 else samples
        if rate != self._rate and len(mono):
            mono = resample_poly(mono, self._rate, rate)
        return np.asarray(mono, np.float32)


def narration(clip: Clip) -> str:
    """What is said."""
    return clip.narration


def _check(
    option: str,
    folder: pathlib.Path,
    pattern: str,
    known: tuple[str, ...],
    needed: tuple[str, ...],
) -> None:
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder of extracted media")
    try:
        names = [name for _, name, _, _ in string.Formatter().parse(pattern) if name is not None]
        pattern.format(**dict.fromkeys(known, 1))
    except (ValueError, KeyError, IndexError) as error:
        raise UserError(
            f"{option} {pattern!r} is none ({error!r}): use {{{'}, {'.join(known)}}}"
        ) from error
    for name in needed:
        if name not in names:
            raise UserError(f"{option} {pattern!r} lacks {{{name}}}")
