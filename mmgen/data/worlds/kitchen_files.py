"""Files of `kitchen_world`: csv in EPIC-KITCHENS' columns, class lists, features of every clip."""

import csv
import gzip
import io
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from mmgen.core.rng import numpy_generator
from mmgen.data.compact.clip_features import write_clip_features
from mmgen.data.compact.text import noun_words
from mmgen.data.worlds.kitchen_sampling import KitchenWorld
from mmgen.data.worlds.kitchen_words import NOUNS, VERBS

FRAMES_PER_SECOND = 50

VIDEOS_PER_PARTICIPANT = 5

COLUMNS = (
    "narration_id",
    "participant_id",
    "video_id",
    "narration_timestamp",
    "start_timestamp",
    "stop_timestamp",
    "start_frame",
    "stop_frame",
    "narration",
    "verb",
    "verb_class",
    "noun",
    "noun_class",
    "all_nouns",
    "all_noun_classes",
)
"""Of the csv, in the official order."""

EXTRACTORS = {
    "vision": "code of the noun that comes next, plus noise",
    "audio": "code of the sound group that comes next, plus noise",
    "tags": "nouns in reach, one of them comes next",
}
"""Modality -> what its features are."""


def write_raw(folder: pathlib.Path, world: KitchenWorld) -> None:
    """Write a world as the builder reads real data: csv, class lists, features of all clips."""
    folder.mkdir()
    rows = list(csv_rows(world))
    write_csv(folder / "train.csv.gz", COLUMNS, rows)
    sizes = {"verb": world.settings.verbs, "noun": world.settings.nouns}
    for name, classes in (("verb", VERBS), ("noun", NOUNS)):
        records = [
            {"id": number, "key": forms[0], "instances": str(list(forms)), "category": "none"}
            for number, forms in enumerate(classes[: sizes[name]])
        ]
        write_csv(
            folder / f"{name}_classes.csv.gz", ("id", "key", "instances", "category"), records
        )
    clips = [row["narration_id"] for row in rows]
    present = {"audio": world.clips.has_audio, "tags": world.clips.has_tags}
    for modality, values in world.features._asdict().items():
        here = present.get(modality, np.ones(len(clips), bool))
        items = zip(clips, values, here, strict=True)
        write_clip_features(
            folder / "features" / modality,
            ((clip, value if one else None) for clip, value, one in items),
            {
                "modality": modality,
                "extractor": f"kitchen_world: {EXTRACTORS[modality]}",
                "trained_on": "nothing: the codes are drawn",
            },
        )


def csv_rows(world: KitchenWorld) -> Iterator[dict[str, Any]]:
    """Rows of the csv, video by video; a window of four is four rows that follow each other."""
    clips, settings = world.clips, world.settings
    rng = numpy_generator(settings.data_seed, "kitchen_world/times")
    shape = settings.videos, settings.clips_per_video
    # Clips overlap, as those of EPIC-KITCHENS do.
    starts = rng.integers(30, 150, size=shape).cumsum(axis=1).ravel()
    lengths = rng.integers(25, 200, size=shape).ravel()
    for clip in range(len(clips.noun)):
        video, number = divmod(clip, settings.clips_per_video)
        participant, recording = divmod(video, VIDEOS_PER_PARTICIPANT)
        name = f"K{participant + 1:02}_{recording + 101}"
        verb = VERBS[clips.verb[clip]][clips.verb_form[clip]]
        noun = NOUNS[clips.noun[clip]][clips.noun_form[clip]]
        start, stop = int(starts[clip]), int(starts[clip] + lengths[clip])
        noun_class = int(clips.noun[clip])
        yield {
            "narration_id": f"{name}_{number}",
            "participant_id": name.partition("_")[0],
            "video_id": name,
            "narration_timestamp": _time(start),
            "start_timestamp": _time(start),
            "stop_timestamp": _time(stop),
            "start_frame": start,
            "stop_frame": stop,
            "narration": " ".join([*verb.split("-"), *noun_words(noun)]),
            "verb": verb,
            "verb_class": int(clips.verb[clip]),
            "noun": noun,
            "noun_class": noun_class,
            "all_nouns": [noun],
            "all_noun_classes": [noun_class],
        }


def _time(frame: int) -> str:
    seconds, rest = divmod(frame, FRAMES_PER_SECOND)
    hundredths = rest * 100 // FRAMES_PER_SECOND
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{hundredths:02}"


def write_csv(path: pathlib.Path, columns: tuple[str, ...], rows: Iterable[dict[str, Any]]) -> None:
    """Write gzipped csv without the time and name that gzip would note."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        packed.write(text.getvalue().encode())
