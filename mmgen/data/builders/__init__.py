"""The table of data sets that `python -m mmgen.data.build` can build."""

import importlib
import pathlib
from typing import NamedTuple

from mmgen.data.builders.request import BuildRequest
from mmgen.errors import UserError
from mmgen.settings.plug_ins import is_plug_in, plug_in


class Builder(NamedTuple):
    """One buildable data set.

    Attributes:
      target: "module:function"; the function maps a `BuildRequest` to the data set's folder.
      needs: what must lie in `--raw`; empty for worlds.
      summary: one line for `--list`.
    """

    target: str
    needs: str
    summary: str

    def build(self, request: BuildRequest) -> pathlib.Path:
        """Build the data set and return its folder."""
        module, _, function = self.target.partition(":")
        return getattr(importlib.import_module(module), function)(request)


BUILDERS: dict[str, Builder] = {
    "scene_world": Builder(
        "mmgen.data.builders.world:build_world",
        "",
        "built-in world with known optimum, in COCO-shift's format",
    ),
    "coco_shift": Builder(
        "mmgen.data.builders.released:build_coco_shift",
        "released streams, image maps, coco_nouns.txt",
        "COCO-shift from the released streams; --train-from=dev where train is missing",
    ),
    "flickr_shift": Builder(
        "mmgen.data.builders.released:build_flickr_shift",
        "released streams, flickr_tasks, flickr_vocab.txt",
        "Flickr-shift from the released streams; --train-from=val where train is missing",
    ),
    "coco_shift_rebuilt": Builder(
        "mmgen.data.builders.coco_shift:build_coco_shift_rebuilt",
        "captions_*2017.json, tags_*2017.jsonl.gz, coco_nouns.txt, maps or instances; --pairs",
        "COCO-shift from raw captions; --train-from=val where train2017 is missing",
    ),
    "flickr_shift_rebuilt": Builder(
        "mmgen.data.builders.flickr_shift:build_flickr_shift_rebuilt",
        "Sentences/, tags.jsonl.gz, flickr_vocab.txt, flickr_tasks, flickr_*_map.json",
        "Flickr-shift from Flickr30k Entities",
    ),
    "compact": Builder(
        "mmgen.data.builders.compact:build_compact",
        "EPIC_100_train.csv, EPIC_100_verb_classes.csv, EPIC_100_noun_classes.csv, or your own",
        "CompAct from EPIC-KITCHENS csv; --split=mcd|random|resplit|random_by_video",
    ),
    "kitchen_world": Builder(
        "mmgen.data.builders.world:build_kitchen",
        "",
        "built-in world with known optimum, in EPIC-KITCHENS' columns; --split, --target-dc",
    ),
    "cobsat": Builder(
        "mmgen.data.builders.cobsat:build_cobsat",
        "CoBSAT's datasets/ folder, whole or in part, or a theme of your own (theme.json)",
        "CoBSAT's images and captions; --prompts-only --seed=123 --out FILE writes its prompts",
    ),
    "shape_world": Builder(
        "mmgen.data.builders.cobsat:build_shape",
        "",
        "built-in world with known answers, drawn in CoBSAT's layout; --size=128 pixels",
    ),
    "macid": Builder(
        "mmgen.data.builders.macid:build_macid",
        "one csv: id, s1, v1, ..., s4, v4, intruder; --index-base=0 if the intruder counts from 0",
        "MACID from its csv, with a report of what it holds",
    ),
    "push_world": Builder(
        "mmgen.data.builders.macid:build_push_world",
        "nothing; or captions.csv (caption, verb, concept) and distances.csv of your own",
        "built-in world with known answers, in MACID's format; or groups of your own captions",
    ),
    "captions": Builder(
        "mmgen.data.builders.captions:build_captions",
        "train.jsonl and other splits: {image_id, caption, span, task} per line",
        "your own captions with labelled spans",
    ),
}
"""Name -> builder, in the order of `--list`."""


def find_builder(name: str) -> Builder:
    """The builder called `name`; UserError with the nearest name if there is none.

    One of the user's own is named by its import path, `package.module:function`.
    """
    if name in BUILDERS:
        return BUILDERS[name]
    if is_plug_in(name):
        plug_in("NAME", name)
        return Builder(name, "", "")
    import difflib

    near = difflib.get_close_matches(name, BUILDERS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(BUILDERS)}"
    raise UserError(f"no data set is called {name!r}: {hint}")
