"""A prepared MACID data set on disk.

dataset.json       manifest, written last: without it the folder is unfinished
groups.csv         the published columns, further languages behind them; intruder from 1
annotations.csv    verbs, concepts and distance by id, where they are known
report.md          what it holds, beside what was published
captions.csv, distances.csv, variants/   what a world or a set of one's own was built from
"""

import hashlib
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mmgen.data.columns import file_sha256
from mmgen.data.folder import MANIFEST, FolderWriter, read_manifest
from mmgen.data.macid.groups import Group, read_groups, write_annotations, write_groups
from mmgen.data.macid.report import data_facts, data_tables
from mmgen.errors import UserError
from mmgen.report.tables import markdown

KIND = "macid"
GROUPS = "groups.csv"
ANNOTATIONS = "annotations.csv"
REPORT = "report.md"


class MacidDataset(NamedTuple):
    """An opened data set.

    Attributes:
      root: its folder.
      info: the manifest.
      groups: in the order of the file.
    """

    root: pathlib.Path
    info: dict[str, Any]
    groups: list[Group]


def open_macid(path: str | pathlib.Path) -> MacidDataset:
    """Open a prepared data set; UserError if there is none, or one of another kind."""
    root = pathlib.Path(path)
    info = read_manifest(root, KIND, "macid --raw DIR")
    annotations = root / ANNOTATIONS
    groups = read_groups(root / GROUPS, annotations=annotations if annotations.is_file() else None)
    return MacidDataset(root, info, groups)


class MacidWriter(FolderWriter):
    """Builds a data set; see `FolderWriter` for what happens to one that is not finished.

    Args:
      root: the data set's folder.
      info: the manifest but for what is counted here (`kind`, `facts`, `sha256`, `fingerprint`):
        name, builder, settings, data_seed, licences, sources, world.
      groups: of the data set.
      force: replace a finished data set of that name.
    """

    def __init__(
        self,
        root: str | pathlib.Path,
        info: dict[str, Any],
        groups: Sequence[Group],
        *,
        force: bool = False,
    ):
        super().__init__(root, force=force)
        self._info = dict(info, kind=KIND)
        self._groups = groups

    def complete(self) -> dict[str, Any]:
        """Write the groups and the report; the manifest with counts and checksums."""
        write_groups(self.folder / GROUPS, self._groups)
        if any(g.verbs or g.concepts or g.distance for g in self._groups):
            write_annotations(self.folder / ANNOTATIONS, self._groups)
        self._info["facts"] = {
            language: data_facts(self._groups, language) for language in self._groups[0].sentences
        }
        main = next(iter(self._info["facts"].values()))
        text = "\n".join(markdown(t) for t in data_tables(main, self._info["name"]))
        (self.folder / REPORT).write_text(text, encoding="utf-8")
        self._info["sha256"] = checksums(self.folder)
        self._info["fingerprint"] = fingerprint(self._info)
        return self._info


def checksums(folder: pathlib.Path) -> dict[str, str]:
    """Name -> hex SHA-256 of the files that decide numbers."""
    files = [folder / name for name in (GROUPS, ANNOTATIONS)]
    return {file.name: file_sha256(file) for file in files if file.is_file()}


def fingerprint(info: Mapping[str, Any]) -> str:
    """Hex SHA-256 of everything that decides a data set's numbers."""
    facts = {key: info[key] for key in ("name", "kind", "settings", "data_seed", "sha256")}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def verify_macid(dataset: MacidDataset) -> None:
    """Recompute every checksum; UserError names the file that is not right."""
    for name, expected in dataset.info["sha256"].items():
        file = dataset.root / name
        if not file.is_file() or file_sha256(file) != expected:
            raise UserError(f"{file} is not the file that was built: build the data set again")
    if fingerprint(dataset.info) != dataset.info["fingerprint"]:
        raise UserError(
            f"{dataset.root / MANIFEST} was changed after the build: build the data set again"
        )


def summary(dataset: MacidDataset) -> str:
    """Name, counts and fingerprint, then the report."""
    facts = next(iter(dataset.info["facts"].values()))
    lines = [
        f"data set {dataset.info['name']} in {dataset.root}",
        f"groups       {facts['groups']:,} of {facts['captions']:,} captions",
        f"languages    {', '.join(facts['languages'])}",
        f"licences     {'; '.join(dataset.info['licences'])}",
        f"fingerprint  {dataset.info['fingerprint']}",
        "",
    ]
    return "\n".join(lines) + (dataset.root / REPORT).read_text(encoding="utf-8")
