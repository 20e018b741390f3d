"""Instances in the JSON form of the three that the authors published."""

import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mmgen.data.builders.rawfiles import read_jsonl
from mmgen.data.compact.epic_csv import Clip
from mmgen.data.compact.text import joined_narration, joined_noun, joined_verb, source
from mmgen.data.compact.windows import TARGET

FIELDS = (
    "key",
    "video_id",
    "narration_ids",
    "src",
    "src1",
    "src2",
    "src3",
    "trg",
    "vis_src",
    "vis_trg",
    "narrations",
    "verbs",
    "verb_classes",
    "nouns",
    "noun_classes",
    "start_stop_timestamps",
    "start_stop_frames",
    "trgnoun",
    "trgverb",
)
"""Fields of an instance in the published order.

`src`, `src1` to `src3`, `trg`, `trgverb` and `trgnoun` are joined (`mmgen.data.compact.text`), all
other texts are as in the csv. `vis_src` and `vis_trg` name the clips of the features.
"""

Instance = dict[str, Any]


def make_instance(clips: Sequence[Clip]) -> Instance:
    """The instance of four clips."""
    inputs, target = clips[:TARGET], clips[TARGET]
    names = [f"{clip.video_id}:{clip.number}" for clip in clips]
    values = (
        f"{target.video_id}+{'_'.join(str(clip.number) for clip in clips)}",
        target.video_id,
        [clip.narration_id for clip in clips],
        source(inputs),
        *(joined_narration(clip) for clip in clips),
        " ".join(names[:TARGET]),
        names[TARGET],
        [clip.narration for clip in clips],
        [clip.verb for clip in clips],
        [clip.verb_class for clip in clips],
        [clip.noun for clip in clips],
        [clip.noun_class for clip in clips],
        [[clip.start_time, clip.stop_time] for clip in clips],
        [[clip.start_frame, clip.stop_frame] for clip in clips],
        joined_noun(target.noun),
        joined_verb(target.verb),
    )
    return dict(zip(FIELDS, values, strict=True))


def write_instances(path: pathlib.Path, instances: Iterable[Instance]) -> None:
    """Write one instance per line; the same instances give the same bytes."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in instances)


def read_instances(path: pathlib.Path) -> Iterator[Instance]:
    """Instances of a file; UserError with file and line for a damaged one."""
    return (instance for _, instance in read_jsonl(path))
