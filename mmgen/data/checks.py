"""What must hold in every prepared data set, its counts and its fingerprint."""

import hashlib
import json
import pathlib
from typing import Any

import numpy as np
from jaxtyping import Bool

from mmgen.data.columns import COLUMNS, FLOAT_COLUMNS, Dataset, Split, file_sha256
from mmgen.errors import UserError


def check_dataset(dataset: Dataset) -> None:
    """Check every rule of the columns; UserError names split, row and rule of the first breach."""
    info = dataset.info
    if not info["splits"]:
        raise UserError(f"data set {info['name']} has no split")
    images = np.asarray(dataset.images)
    if len(np.unique(images)) != len(images):
        raise UserError(f"data set {info['name']}: images.npy names an image twice")
    store = dataset.features
    if store is not None and not np.array_equal(store.image_ids, images):
        raise UserError(
            f"data set {info['name']}: the feature store's image_ids differ from images.npy"
        )
    for name in info["splits"]:
        split = dataset.split(name)
        _check_layout(info["name"], split)
        _check_rows(info, split, images, len(dataset.vocabulary))


def _check_layout(dataset: str, split: Split) -> None:
    where = f"data set {dataset}, split {split.name}"
    missing = sorted(set(COLUMNS) - set(split.columns))
    if missing:
        raise UserError(f"{where}: column {missing[0]} is missing")
    count = len(split)
    if count == 0:
        raise UserError(f"{where}: there is no example")
    shapes = {
        "total": (len(split.columns["tokens"]),),
        "n+1": (count + 1,),
        "n": (count,),
        "n 2": (count, 2),
    }
    expected = COLUMNS | dict.fromkeys(FLOAT_COLUMNS, ("n", np.float32))
    for name, value in split.columns.items():
        if name not in expected:
            raise UserError(f"{where}: column {name} is unknown")
        axes, dtype = expected[name]
        if value.shape != shapes[axes] or value.dtype != dtype:
            raise UserError(
                f"{where}: column {name} is {value.dtype}{list(value.shape)}, expected "
                f"{np.dtype(dtype)}{list(shapes[axes])}"
            )


def _check_rows(info: dict[str, Any], split: Split, images: np.ndarray, vocabulary: int) -> None:
    c = split.columns
    lengths, span, tokens = split.lengths, np.asarray(c["span"]), np.asarray(c["tokens"])
    start = c["token_start"]

    def demand(good: Bool[np.ndarray, " n"] | np.bool_, rule: str) -> None:
        if not np.all(good):
            row = int(np.argmin(good))
            caption = f" (caption {c['caption'][row]})" if np.ndim(good) else ""
            raise UserError(
                f"data set {info['name']}, split {split.name}, row {row}{caption}: {rule}"
            )

    demand(np.bool_(start[0] == 0 and start[-1] == len(tokens)), "token_start does not fit tokens")
    demand(lengths > 0, "the caption is empty")
    demand(
        np.bool_(tokens.min() >= 0 and tokens.max() < vocabulary), "a token has no vocabulary row"
    )
    demand((span[:, 0] >= 0) & (span[:, 0] < span[:, 1]), "the span is empty")
    demand(span[:, 1] <= lengths, "the span ends outside its caption")
    demand((c["task"] >= 0) & (c["task"] < len(info["tasks"])), "the task is unknown")
    image = np.asarray(c["image"])
    demand((image >= 0) & (image < len(images)), "the image is not in images.npy")
    demand(images[image] == c["image_id"], "image and image_id name different images")
    pair, atoms = np.asarray(c["pair"]), np.asarray(c["pair_tokens"])
    demand((pair >= -1) & (pair < len(info["pairs"])), "the pair is unknown")
    inside = ((atoms >= span[:, :1]) & (atoms < span[:, 1:])).all(axis=1)
    demand(
        np.where(pair >= 0, inside, (atoms == -1).all(axis=1)), "pair_tokens are not in the span"
    )


def complete_manifest(info: dict[str, Any], folder: pathlib.Path) -> None:
    """Fill in a manifest's counts, checksums, features and fingerprint from the files."""
    manifest = folder / "features" / "manifest.json"
    info["features"] = json.loads(manifest.read_text("utf-8")) if manifest.is_file() else None
    for name, facts in info["splits"].items():
        files = {column: folder / "columns" / name / f"{column}.npy" for column in facts["sha256"]}
        columns = {column: np.load(file, mmap_mode="r") for column, file in files.items()}
        facts.update(split_counts(columns))
        facts["sha256"] = {column: file_sha256(file) for column, file in files.items()}
    info["fingerprint"] = fingerprint(info, folder)


def split_counts(columns: dict[str, np.ndarray]) -> dict[str, Any]:
    """Sizes of a split, the columns of the paper's Table 1.

    Instances per task are over the tasks that occur; spans count tokens.
    """
    span = np.asarray(columns["span"])
    width = span[:, 1] - span[:, 0]
    per_task = np.unique(columns["task"], return_counts=True)[1]
    return {
        "examples": len(span),
        "images": len(np.unique(columns["image_id"])),
        "captions": len(np.unique(columns["caption"])),
        "tasks": len(per_task),
        "mean_span": round(float(width.mean()), 4) if len(width) else 0.0,
        "max_span": int(width.max(initial=0)),
        "max_tokens": int(np.diff(columns["token_start"]).max(initial=0)),
        "instances_per_task_mean": round(float(per_task.mean()), 2) if len(per_task) else 0.0,
        "instances_per_task_median": float(np.median(per_task)) if len(per_task) else 0.0,
    }


def shared_images(dataset: Dataset) -> dict[tuple[str, str], int]:
    """Images that two splits have in common, by pair of split names; empty when they are apart."""
    ids = {
        name: np.unique(dataset.split(name).columns["image_id"]) for name in dataset.info["splits"]
    }
    names = list(ids)
    shared = {
        (a, b): len(np.intersect1d(ids[a], ids[b]))
        for index, a in enumerate(names)
        for b in names[index + 1 :]
    }
    return {key: count for key, count in shared.items() if count}


def verify_dataset(dataset: Dataset) -> None:
    """Check every rule and recompute every checksum.

    Raises:
      UserError: a rule is broken, or a file is not the one that was written.
    """
    for name, facts in dataset.info["splits"].items():
        for column, digest in facts["sha256"].items():
            file = dataset.root / "columns" / name / f"{column}.npy"
            if not file.is_file() or file_sha256(file) != digest:
                raise UserError(f"{file} is not the file that was built: build the data set again")
    if dataset.features is not None:
        dataset.features.verify()
    check_dataset(dataset)
    if fingerprint(dataset.info, dataset.root) != dataset.info["fingerprint"]:
        raise UserError(
            f"{dataset.root}: manifest, vocab.txt or images.npy were changed after the build: "
            "build the data set again"
        )


def fingerprint(info: dict[str, Any], folder: pathlib.Path) -> str:
    """Hex SHA-256 of everything that decides a data set's numbers, and of no place of a file.

    Name, settings, data seed, tasks, pairs, column hashes, vocabulary, image ids and the checksums
    of the feature store's manifest.
    """
    facts = {key: info[key] for key in ("name", "kind", "settings", "data_seed", "tasks", "pairs")}
    facts["columns"] = {name: split["sha256"] for name, split in info["splits"].items()}
    facts["vocabulary"] = [info["vocabulary"], file_sha256(folder / "vocab.txt")]
    facts["images"] = file_sha256(folder / "images.npy")
    facts["features"] = info["features"] and info["features"].get("sha256")
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
