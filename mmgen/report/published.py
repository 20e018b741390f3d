"""Values printed in the papers, each of them once, in `published*.json`."""

import fnmatch
import functools
import importlib.resources
import json
from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]

FAMILIES = ("coco_shift", "flickr_shift")
"""Published data sets of VisCOLL; ours that begin with these names have the same sources."""


@functools.cache
def papers() -> Mapping[str, Mapping[str, Any]]:
    """Name of each paper -> lists of rows by table, units, remarks, and what cites it.

    Where a table's numbers come with their error, `deviations` of the paper says so by table and
    metric, see `mmgen.report.audit`.
    """
    files = importlib.resources.files("mmgen.report").iterdir()
    names = sorted(f.name for f in files if fnmatch.fnmatch(f.name, "published*.json"))
    found: dict[str, Mapping[str, Any]] = {}
    for name in names:
        text = importlib.resources.files("mmgen.report").joinpath(name).read_text("utf-8")
        found |= json.loads(text)
    return found


def published(paper: str) -> Mapping[str, Any]:
    """Everything published by `paper` ("viscoll", "macid", ...)."""
    return papers()[paper]


def find_row(paper: str, table: str, **keys: Any) -> Row | None:
    """The row of a published table with these values, or None."""
    for row in published(paper)[table]:
        if all(row.get(key) == value for key, value in keys.items()):
            return row
    return None


def family_of(dataset: str) -> str | None:
    """The published data set whose values may stand beside this one's; None for a world."""
    return next((family for family in FAMILIES if dataset.startswith(family)), None)
