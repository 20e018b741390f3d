"""MACID from its csv, and groups of four from captions of one's own.

`macid`: `--raw` holds macid.csv (or any one csv file) in the published columns, and annotations.csv
where there is one. `push_world` without `--raw` is the built-in world; with it, `--raw` holds
captions.csv (caption, verb, concept, further languages as caption_en ...) and distances.csv (a
matrix of concepts), from which groups are built as the paper describes.
"""

import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mmgen.core.rng import numpy_generator
from mmgen.data.builders.rawfiles import find_raw, require_raw, source_of
from mmgen.data.builders.request import BuildRequest
from mmgen.data.builders.world import build_with
from mmgen.data.macid.dataset import ANNOTATIONS, MacidWriter
from mmgen.data.macid.groups import DEFAULT_LANGUAGE, DISTANCES, read_csv, read_groups
from mmgen.data.worlds import push_world
from mmgen.data.worlds.push_groups import Caption, build_groups
from mmgen.data.worlds.push_world import PushWorldSettings, write_out
from mmgen.errors import UserError

LICENCE = "MACID: see its page; sentences of its authors over clips of LSMDC"

MACID_DEFAULTS: dict[str, Any] = {
    # Name of the data set.
    "name": "macid",
    # What the column `intruder` counts from.
    "index_base": 1,
    # Stated in every output that the data set appears in.
    "licence": LICENCE,
}

OWN_DEFAULTS: dict[str, Any] = {
    "name": "own_groups",
    "groups": 100,
    "licence": "your own",
}
"""Settings of groups built from one's own captions."""


def build_macid(request: BuildRequest) -> pathlib.Path:
    """Build it from a csv; returns its folder.

    Raises:
      UserError: no file or several, or one that cannot be read without doubt.
    """
    raw = _only_raw(request)
    choice = request.chosen(MACID_DEFAULTS)
    path = find_raw(raw, "macid.csv", "MACID.csv")
    if path is None:
        files = sorted(set(raw.glob("*.csv")) - {raw / ANNOTATIONS})
        if len(files) != 1:
            raise UserError(f"{raw} holds {len(files)} csv files: name the one to read macid.csv")
        (path,) = files
    annotations = find_raw(raw, ANNOTATIONS)
    groups = read_groups(path, index_base=choice["index_base"], annotations=annotations)
    info = {
        "name": choice["name"],
        "builder": f"{__name__}:{build_macid.__name__}",
        "settings": {},
        "data_seed": 0,
        "licences": [choice["licence"]],
        "sources": [source_of(one) for one in (path, annotations) if one],
        "world": False,
    }
    root = request.out / choice["name"]
    with MacidWriter(root, info, groups, force=request.force):
        pass
    return root


def build_push_world(request: BuildRequest) -> pathlib.Path:
    """Build the world, or groups from one's own captions; returns the folder.

    Raises:
      UserError: a file is missing or damaged, or allows no such groups.
    """
    if request.raw is None:
        return build_with(request, PushWorldSettings, push_world.build_push_world)
    raw = _only_raw(request)
    choice = request.chosen(OWN_DEFAULTS)
    paths = [require_raw(raw, name) for name in ("captions.csv", "distances.csv")]
    concepts, similarity = read_similarities(paths[1])
    captions = read_captions(paths[0], concepts)
    generator = numpy_generator(request.data_seed, "push_world/own")
    drafts = build_groups(captions, similarity, choice["groups"], generator, exact_uses=False)
    info = {
        "name": choice["name"],
        "builder": f"{__name__}:{build_push_world.__name__}",
        "settings": {"groups": choice["groups"]},
        "data_seed": request.data_seed,
        "licences": [choice["licence"]],
        "sources": [source_of(path) for path in paths],
        "world": False,
    }
    root = request.out / choice["name"]
    groups = write_out(drafts, captions, concepts)
    with MacidWriter(root, info, groups, force=request.force):
        pass
    return root


def read_captions(path: pathlib.Path, concepts: Sequence[str]) -> list[Caption]:
    """Captions of a csv: caption, verb, concept, and caption_LANGUAGE; optionally object."""
    numbers = {name: number for number, name in enumerate(concepts)}
    captions: list[Caption] = []
    lines: dict[str, int] = {}
    for line, row in read_csv(path, ("caption", "verb", "concept")):
        where = f"{path}:{line}"
        if row["concept"] not in numbers:
            raise UserError(
                f"{where}: concept {row['concept']!r} is not in the matrix of distances."
            )
        texts = {DEFAULT_LANGUAGE: row["caption"]} | {
            key.removeprefix("caption_"): text
            for key, text in row.items()
            if key.startswith("caption_")
        }
        if not all([*texts.values(), row["verb"]]):
            raise UserError(f"{where}: a caption or its verb is missing.")
        if row["caption"] in lines:
            raise UserError(f"{where}: this caption stands in line {lines[row['caption']]}, too.")
        lines[row["caption"]] = line
        what = row.get("object", "")
        captions.append(Caption(texts, numbers[row["concept"]], row["verb"], what))
    return captions


def read_similarities(path: pathlib.Path) -> tuple[list[str], Callable[[int, int], str]]:
    """Concepts of a square matrix of distances, and the similarity of any two.

    Three different distances are high, medium and low similarity; of more, each third of the pairs.

    Raises:
      UserError: the matrix is not square and symmetric, or holds fewer than three distances.
    """
    rows = read_csv(path, ("concept",))
    names = [row["concept"] for _, row in rows]
    if list(rows[0][1])[1:] != names:
        raise UserError(f"{path}: columns and rows are not the same concepts in the same order.")
    try:
        matrix = np.array([[float(row[name]) for name in names] for _, row in rows])
    except ValueError as error:
        raise UserError(f"{path}: a distance is no number ({error}).") from None
    if not np.array_equal(matrix, matrix.T):
        raise UserError(f"{path}: the distances are not the same both ways.")
    pairs = list(itertools.permutations(range(len(names)), 2))
    values = np.array([matrix[pair] for pair in pairs])
    different = np.unique(values)
    if len(different) < len(DISTANCES):
        raise UserError(f"{path}: at least three different distances are needed.")
    if len(different) == len(DISTANCES):
        bounds = different[:2]
    else:
        bounds = np.quantile(values, [1 / 3, 2 / 3])
    classes: Mapping[tuple[int, int], str] = {
        pair: DISTANCES[int(np.searchsorted(bounds, value))]
        for pair, value in zip(pairs, values.tolist(), strict=True)
    }
    return names, lambda first, second: classes[first, second]


def _only_raw(request: BuildRequest) -> pathlib.Path:
    for option in ("train_from", "features", "tokenizer", "pairs"):
        if getattr(request, option) is not None:
            raise UserError(f"--{option.replace('_', '-')} has no meaning for {request.name}")
    return request.raw_folder()
