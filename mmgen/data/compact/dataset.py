"""A prepared CompAct data set on disk.

dataset.json              manifest, written last: without it the folder is unfinished
instances/SPLIT.jsonl     one instance per line, see `mmgen.data.compact.samples.FIELDS`
verbs.json, nouns.json    class lists: [{"key": name, "strings": [...]}], the id is the position
features/MODALITY/        features of its clips, see `mmgen.data.compact.clip_features`; may lack
known/SPLIT.npy           float32[instances, columns], what a world knows of each; worlds only
report.md, report.json    what was built, beside what was published
figures/                  Figs. 4 and 8 of the paper, where matplotlib is installed
"""

import functools
import hashlib
import json
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from mmgen.data.columns import file_sha256, write_array
from mmgen.data.compact.classes import ClassList
from mmgen.data.compact.clip_features import FIELDS_OF_BATCH, ClipFeatures, copy_clips
from mmgen.data.compact.samples import FIELDS, Instance, read_instances, write_instances
from mmgen.data.compact.splits import SPLITS
from mmgen.data.feature_format import MANIFEST
from mmgen.data.folder import FolderWriter, read_manifest
from mmgen.errors import UserError

KIND = "compact"
EPIC = "EPIC_100_"
"""What the names of EPIC-KITCHENS' files begin with."""


class CompactDataset:
    """An opened data set.

    Attributes:
      root: its folder.
      info: the manifest `dataset.json`.
    """

    def __init__(self, root: pathlib.Path, info: dict[str, Any]):
        self.root = root
        self.info = info
        self._splits: dict[str, list[Instance]] = {}
        self._features: dict[str, ClipFeatures] = {}
        self._unseen: dict[str, Bool[np.ndarray, " n"]] = {}
        self._known: dict[str, dict[str, Float[np.ndarray, " n"]]] = {}

    def split(self, name: str) -> list[Instance]:
        """Instances of the split called `name`; UserError names the splits there are."""
        if name not in self.info["splits"]:
            raise UserError(
                f"data set {self.info['name']} has no split {name!r}, only "
                f"{', '.join(self.info['splits'])}"
            )
        if name not in self._splits:
            self._splits[name] = list(read_instances(_instances(self.root, name)))
        return self._splits[name]

    @functools.cached_property
    def verbs(self) -> ClassList:
        """Classes of verbs."""
        return _read_list(self.root / "verbs.json")

    @functools.cached_property
    def nouns(self) -> ClassList:
        """Classes of nouns."""
        return _read_list(self.root / "nouns.json")

    @property
    def modalities(self) -> tuple[str, ...]:
        """Modalities that there are features of."""
        return tuple(self.info.get("features", {}))

    def features(self, modality: str) -> ClipFeatures:
        """Features of the clips; UserError names the modalities there are."""
        if modality not in self.modalities:
            raise UserError(
                f"data set {self.info['name']} has no features called {modality!r}, only "
                f"{', '.join(self.modalities) or 'text'}: build it with --features, or train a "
                "system that does without"
            )
        if modality not in self._features:
            self._features[modality] = ClipFeatures.open(self.root / "features" / modality)
        return self._features[modality]

    def known(self, name: str) -> dict[str, Float[np.ndarray, " n"]]:
        """What a world knows of each instance of a split; empty for real data.

        kitchen_world: "WHO/SYSTEM/SCORE", see `mmgen.data.worlds.kitchen_scores`.
        """
        columns = self.info["splits"][name].get("known")
        if not columns:
            return {}
        if name not in self._known:
            values = np.load(_known(self.root, name), allow_pickle=False)
            self._known[name] = dict(zip(columns, values.T, strict=True))
        return self._known[name]

    def unseen(self, name: str) -> Bool[np.ndarray, " n"]:
        """Which instances of a split have a target compound that is no target of train.

        Compounds are strings or classes, as the split was made.
        """
        if name not in self._unseen:
            level = self.info["settings"]["compounds"]
            known = {target_compound(one, level) for one in self.split("train")}
            self._unseen[name] = np.array(
                [target_compound(one, level) not in known for one in self.split(name)], bool
            )
        return self._unseen[name]


def is_epic(info: Mapping[str, Any]) -> bool:
    """Whether a data set is EPIC-KITCHENS, beside which published values may stand.

    Told by the names of its sources, which every manifest has: a data set of one's own is read from
    files of other names, and a world from none.

    Args:
      info: the manifest, finished or not.
    """
    return bool(info["sources"]) and all(name.startswith(EPIC) for name in info["sources"])


def target_compound(instance: Instance, level: str) -> tuple:
    """(verb, noun) of an instance's target, as "string" or "class"."""
    keys = ("verbs", "nouns") if level == "string" else ("verb_classes", "noun_classes")
    return tuple(instance[key][-1] for key in keys)


def open_compact(path: str | pathlib.Path) -> CompactDataset:
    """Open a prepared data set; UserError if there is none, or one of another kind."""
    root = pathlib.Path(path)
    info = read_manifest(root, KIND, "compact")
    return CompactDataset(root, info)


class CompactWriter(FolderWriter):
    """Builds a data set; see `FolderWriter` for what happens to one that is not finished.

    Args:
      root: the data set's folder.
      info: the manifest but for what is counted here (`kind`, `splits`, `classes`, `features`,
        `fingerprint`): name, builder, settings, data_seed, licences, sources, paper_scale, world.
      force: replace a finished data set of that name.

    Attributes:
      info: the manifest so far.
    """

    def __init__(self, root: str | pathlib.Path, info: dict[str, Any], *, force: bool = False):
        super().__init__(root, force=force)
        self.info = dict(info, kind=KIND, splits={}, features={})

    def write_classes(self, verbs: ClassList, nouns: ClassList) -> None:
        """Write the class lists."""
        self.info["classes"] = {"verbs": len(verbs), "nouns": len(nouns)}
        for name, classes in (("verbs", verbs), ("nouns", nouns)):
            write_json(self.folder / f"{name}.json", _list_records(classes))

    def write_split(self, name: str, instances: Iterable[Instance]) -> None:
        """Write a split."""
        if name not in SPLITS:
            raise ValueError(f"split {name!r} is none of {SPLITS}")
        path = _instances(self.folder, name)
        path.parent.mkdir(exist_ok=True)
        write_instances(path, instances)
        self.info["splits"][name] = {}

    def write_known(self, name: str, columns: Mapping[str, Float[np.ndarray, " n"]]) -> None:
        """Write what a world knows of each instance of a split that is written."""
        path = _known(self.folder, name)
        path.parent.mkdir(exist_ok=True)
        write_array(path, np.stack(list(columns.values()), axis=1).astype(np.float32))
        self.info["splits"][name]["known"] = list(columns)

    def write_features(
        self,
        source: pathlib.Path,
        splits: Mapping[str, Iterable[Instance]],
        max_missing: float,
    ) -> None:
        """Take the features of the instances' clips from `source`, a folder per modality.

        Raises:
          UserError: there is none, one is damaged or of other videos, or lacks too many clips; two
            are of one modality, or it has the name of another field of a batch.
        """
        folders = sorted(path.parent for path in source.glob(f"*/{MANIFEST}"))
        if not folders:
            raise UserError(f"--features {source} has no folder with a {MANIFEST}")
        clips = dict.fromkeys(
            clip for split in splits.values() for one in split for clip in one["narration_ids"]
        )
        origins: dict[str, pathlib.Path] = {}
        for folder in folders:
            store = ClipFeatures.open(folder, verify=True)
            if store.modality in FIELDS_OF_BATCH:
                raise UserError(
                    f"{folder / MANIFEST}: a modality cannot be called {store.modality!r}, which "
                    "is another field of a batch: extract or import it under another name"
                )
            other = origins.setdefault(store.modality, folder)
            if other != folder:
                raise UserError(
                    f"{folder} and {other} both hold the modality {store.modality!r}: keep one of "
                    "them, or extract or import one under another name"
                )
            path = self.folder / "features" / store.modality
            manifest = copy_clips(store, list(clips), path, max_missing=max_missing)
            self.info["features"][store.modality] = manifest

    def complete(self) -> dict[str, Any]:
        """Counts and checksums; the manifest."""
        dataset = CompactDataset(self.folder, self.info)
        for name, facts in self.info["splits"].items():
            instances = dataset.split(name)
            facts["examples"] = len(instances)
            facts["videos"] = len({one["video_id"] for one in instances})
            facts["clips"] = len({clip for one in instances for clip in one["narration_ids"]})
            facts["sha256"] = file_sha256(_instances(self.folder, name))
            if "known" in facts:
                facts["known_sha256"] = file_sha256(_known(self.folder, name))
        self.info["fingerprint"] = fingerprint(self.info, self.folder)
        check_compact(dataset)
        return self.info


def check_compact(dataset: CompactDataset) -> None:
    """UserError for a split without instances, a missing field, or an instance in two splits."""
    places: dict[str, str] = {}
    for name in dataset.info["splits"]:
        where = f"data set {dataset.info['name']}, split {name}"
        if not dataset.split(name):
            raise UserError(f"{where}: there is no instance")
        for line, instance in enumerate(dataset.split(name), start=1):
            if tuple(instance) != FIELDS:
                raise UserError(f"{where}, line {line}: the fields are not those of an instance")
            other = places.setdefault(instance["key"], name)
            if other != name:
                raise UserError(f"{where}, line {line}: {instance['key']} is in {other}, too")


def verify_compact(dataset: CompactDataset) -> None:
    """Check every rule and recompute every checksum; UserError names the file that is not right."""
    files = {}
    for name, facts in dataset.info["splits"].items():
        files[_instances(dataset.root, name)] = facts["sha256"]
        if "known" in facts:
            files[_known(dataset.root, name)] = facts["known_sha256"]
    for file, digest in files.items():
        if not file.is_file() or file_sha256(file) != digest:
            raise UserError(f"{file} is not the file that was built: build the data set again")
    check_compact(dataset)
    for name in dataset.modalities:
        store = ClipFeatures.open(dataset.root / "features" / name, verify=True)
        if store.manifest != dataset.info["features"][name]:
            raise UserError(f"{store.path} is not what was built: build the data set again")
    if fingerprint(dataset.info, dataset.root) != dataset.info["fingerprint"]:
        raise UserError(
            f"{dataset.root}: the manifest or a class list was changed after the build: build the "
            "data set again"
        )


def fingerprint(info: Mapping[str, Any], folder: pathlib.Path) -> str:
    """Hex SHA-256 of everything that decides a data set's numbers."""
    facts = {key: info[key] for key in ("name", "kind", "settings", "data_seed", "classes")}
    facts["splits"] = {name: split["sha256"] for name, split in info["splits"].items()}
    facts["lists"] = [file_sha256(folder / f"{name}.json") for name in ("verbs", "nouns")]
    features = info.get("features")
    if features:
        facts["features"] = {name: manifest["sha256"] for name, manifest in features.items()}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def summary(dataset: CompactDataset) -> str:
    """Name, sizes and fingerprint, then the build report."""
    sizes = ", ".join(
        f"{name} {facts['examples']:,}" for name, facts in dataset.info["splits"].items()
    )
    lines = [
        f"data set {dataset.info['name']} in {dataset.root}",
        f"instances    {sizes}",
        f"features     {', '.join(dataset.modalities) or 'none: text-only runs'}",
        f"licences     {'; '.join(dataset.info['licences'])}",
        f"fingerprint  {dataset.info['fingerprint']}",
        "",
    ]
    return "\n".join(lines) + (dataset.root / "report.md").read_text(encoding="utf-8")


def write_json(path: pathlib.Path, value: Any) -> None:
    """Write `value` as indented JSON."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _instances(root: pathlib.Path, name: str) -> pathlib.Path:
    return root / "instances" / f"{name}.jsonl"


def _known(root: pathlib.Path, name: str) -> pathlib.Path:
    return root / "known" / f"{name}.npy"


def _list_records(classes: ClassList) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = [{"key": key, "strings": []} for key in classes.keys]
    for name, number in classes.class_of.items():
        records[number]["strings"].append(name)
    return records


def _read_list(path: pathlib.Path) -> ClassList:
    records = json.loads(path.read_text(encoding="utf-8"))
    names = {name: number for number, one in enumerate(records) for name in one["strings"]}
    return ClassList(tuple(one["key"] for one in records), names)
