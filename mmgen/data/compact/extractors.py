"""Extractors over local Hugging Face checkpoints; needs torch, which mmgen does not install.

vision          image model's pooled output: ResNet-50 gives (2048,)
objects         DETR-type detector: states of the five objects it is surest of, (5, d)
tags            the same detector: which labels it finds, one number per label
audio           sound model's pooled output, or the mean over time
joint_vision, joint_text, joint_audio
                a model that embeds several modalities in one space (CLIP, CLAP, ImageBind)
"""

import hashlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from mmgen.data.columns import file_sha256
from mmgen.errors import UserError

KINDS = ("vision", "objects", "tags", "audio", "joint_vision", "joint_text", "joint_audio")
PICTURES = ("vision", "objects", "tags", "joint_vision")
SOUNDS = ("audio", "joint_audio")

OBJECTS = 5
"""Objects of a frame (section 4.2 of the paper)."""


class TorchExtractor:
    """One of `KINDS` over a checkpoint folder.

    Args:
      kind: one of `KINDS`.
      folder: with config.json, weights and processor of the checkpoint.
      device: of torch.
      threshold: lowest score of a found object; a frame without any has no feature.

    Attributes:
      facts: name, checksum and settings, for the manifest.
      rate: samples per second that a sound model wants, None for the others.

    Raises:
      UserError: torch is not installed, or the folder holds no such model.
    """

    def __init__(self, kind: str, folder: pathlib.Path, device: str, threshold: float = 0.5):
        if kind not in KINDS:
            raise UserError(f"extractor {kind!r} is none of {', '.join(KINDS)}")
        self._torch = _import_torch()
        self._kind, self._device, self._threshold = kind, device, threshold
        self._model, self._processor = _load(kind, folder)
        self._model.eval().to(device)
        self.facts: dict[str, Any] = {
            "extractor": f"{type(self._model).__name__}, {kind}",
            "weights_sha256": _checksum(folder),
        }
        if kind in ("objects", "tags"):
            self.facts["threshold"] = threshold
        self.rate: int | None = getattr(self._listener, "sampling_rate", None)

    def __call__(self, media: Sequence[Any]) -> list[np.ndarray | None]:
        """Features of pictures, sounds or texts; None for silence and for nothing found."""
        silent = [self._kind in SOUNDS and not np.any(one) for one in media]
        given = [one for one, quiet in zip(media, silent, strict=True) if not quiet]
        if not given:
            return [None] * len(media)
        with self._torch.inference_mode():
            inputs = self._inputs(given)
            found = iter(getattr(self, f"_{self._kind}")(inputs))
        return [None if quiet else next(found) for quiet in silent]

    def _inputs(self, media: Sequence[Any]) -> dict[str, Any]:
        if self._kind in PICTURES:
            made = self._processor(images=list(media), return_tensors="pt")
        elif self._kind in SOUNDS:
            made = self._listener(list(media), sampling_rate=self.rate, return_tensors="pt")
        else:
            made = self._processor(
                text=list(media), padding=True, truncation=True, return_tensors="pt"
            )
        return {name: value.to(self._device) for name, value in made.items()}

    @property
    def _listener(self) -> Any:
        """What prepares sounds: the processor, or its part for them."""
        return getattr(self._processor, "feature_extractor", self._processor)

    def _vision(self, inputs: dict[str, Any]) -> list[np.ndarray]:
        pooled = self._model(**inputs).pooler_output
        return _rows(pooled.flatten(1))

    def _objects(self, inputs: dict[str, Any]) -> list[np.ndarray | None]:
        output, scores = self._detect(inputs)
        best = scores.max(-1).values
        order = best.argsort(dim=1, descending=True, stable=True)[:, :OBJECTS]
        states = output.last_hidden_state
        chosen = states.gather(1, order[..., None].expand(-1, -1, states.shape[-1]))
        found = (best >= self._threshold).any(1).tolist()
        return [row if any_ else None for row, any_ in zip(_rows(chosen), found, strict=True)]

    def _tags(self, inputs: dict[str, Any]) -> list[np.ndarray | None]:
        _, scores = self._detect(inputs)
        labels = (scores >= self._threshold).any(1)
        return [row if row.any() else None for row in _rows(labels.float())]

    def _detect(self, inputs: dict[str, Any]) -> tuple[Any, Any]:
        output = self._model(**inputs)
        # The last class of a DETR is "no object".
        return output, output.logits.softmax(-1)[..., :-1]

    def _audio(self, inputs: dict[str, Any]) -> list[np.ndarray]:
        output = self._model(**inputs)
        pooled = getattr(output, "pooler_output", None)
        return _rows(output.last_hidden_state.mean(1) if pooled is None else pooled.flatten(1))

    def _joint_vision(self, inputs: dict[str, Any]) -> list[np.ndarray]:
        return _rows(_pooled(self._model.get_image_features(**inputs)))

    def _joint_text(self, inputs: dict[str, Any]) -> list[np.ndarray]:
        return _rows(_pooled(self._model.get_text_features(**inputs)))

    def _joint_audio(self, inputs: dict[str, Any]) -> list[np.ndarray]:
        return _rows(_pooled(self._model.get_audio_features(**inputs)))


def _pooled(output: Any) -> Any:
    """Embeddings; transformers 5 wraps them."""
    return getattr(output, "pooler_output", output)


def _rows(values: Any) -> list[np.ndarray]:
    return list(values.float().cpu().numpy())


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise UserError("extracting features needs torch: pip install torch") from error
    return torch


def _load(kind: str, folder: pathlib.Path) -> tuple[Any, Any]:
    import transformers

    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} is no checkpoint: config.json is missing")
    model = "AutoModelForObjectDetection" if kind in ("objects", "tags") else "AutoModel"
    processor = "AutoFeatureExtractor" if kind == "audio" else "AutoProcessor"
    if kind in ("vision", "objects", "tags"):
        processor = "AutoImageProcessor"
    try:
        loaded, prepares = (
            getattr(transformers, name).from_pretrained(folder, local_files_only=True)
            for name in (model, processor)
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"{folder} cannot be loaded as a model of kind {kind}: {reason}") from error
    return loaded, prepares


def _checksum(folder: pathlib.Path) -> str:
    """Hex SHA-256 over the checksums of configuration and weights."""
    files = sorted(
        path
        for path in folder.iterdir()
        if path.suffix in (".safetensors", ".bin") or path.name.endswith("config.json")
    )
    listed = "\n".join(f"{path.name} {file_sha256(path)}" for path in files)
    return hashlib.sha256(listed.encode()).hexdigest()
