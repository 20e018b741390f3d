"""BERTScore (Zhang et al. 2020): how well the tokens of two texts match in an encoder's eyes.

Equal to `bert_score` 0.3.13 without idf weights and without rescaling: states of one layer, cosine
of every token with every other of the pair's texts, the best match of each token, mean over the
tokens without specials. A score belongs to its encoder and layer, so its name says them.
"""

import functools
import hashlib
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mmgen.errors import UserError
from mmgen.models.lm.clip import unit
from mmgen.models.lm.tensors import open_safetensors
from mmgen.models.text_encoder import TextEncoder, hidden_states, open_encoder

BEST_LAYERS = {
    "bert-base-uncased": 9,
    "bert-large-uncased": 18,
    "roberta-base": 10,
    "roberta-large": 17,
}
"""The layers that `bert_score` takes by default (its `model2layers`)."""

BATCH_SIZE = 64
SHORTEST = 8
"""Width of the narrowest batch; the others are twice as wide each, so that few programs serve."""


class BertScore(NamedTuple):
    """Scores of pairs: precision of the candidate, recall of the reference, their harmonic mean."""

    precision: Float[np.ndarray, " n"]
    recall: Float[np.ndarray, " n"]
    f1: Float[np.ndarray, " n"]


class Texts(NamedTuple):
    """Padded texts: ids, where there is a token, and where there is one that is no special."""

    tokens: Int[Array, "b t"]
    mask: Bool[Array, "b t"]
    counts: Bool[Array, "b t"]


def greedy_match(
    candidate: Float[Array, "b c k"], reference: Float[Array, "b r k"], ours: Texts, true: Texts
) -> tuple[Float[Array, " b"], Float[Array, " b"], Float[Array, " b"]]:
    """Precision, recall and F1 from the states of both texts; 0 where one of them is empty."""
    similar = jnp.einsum("bck,brk->bcr", unit(candidate), unit(reference))
    # As in bert_score padding is a match of similarity 0, and the specials are candidates too.
    similar = jnp.where(ours.mask[:, :, None] & true.mask[:, None, :], similar, 0.0)
    some = ours.counts.any(1) & true.counts.any(1)
    precision = jnp.where(some, _mean(similar.max(2), ours.counts), 0.0)
    recall = jnp.where(some, _mean(similar.max(1), true.counts), 0.0)
    total = precision + recall
    f1 = jnp.where(total == 0, 0.0, 2 * precision * recall / jnp.where(total == 0, 1.0, total))
    return precision, recall, f1


def _mean(values: Array, counts: Array) -> Array:
    return jnp.where(counts, values, 0.0).sum(1) / jnp.maximum(counts.sum(1), 1)


class BertScorer:
    """Scores pairs of texts with the states of an encoder's last loaded layer.

    Args:
      encoder: opened with as many layers as are wanted.
      batch_size: pairs per dispatch; the last batch is filled up.
    """

    def __init__(self, encoder: TextEncoder, batch_size: int = BATCH_SIZE):
        self._encoder, self._batch_size = encoder, batch_size
        config = encoder.config

        @jax.jit
        def score(params: Any, ours: Texts, true: Texts) -> tuple[Array, Array, Array]:
            candidate = hidden_states(params, config, ours.tokens, ours.mask)
            reference = hidden_states(params, config, true.tokens, true.mask)
            return greedy_match(candidate, reference, ours, true)

        self._score = functools.partial(score, encoder.params)

    def __call__(self, candidates: Sequence[str], references: Sequence[str]) -> BertScore:
        """Scores of every pair; equal pairs are scored once.

        Raises:
          ValueError: not as many candidates as references.
        """
        pairs = list(zip(candidates, references, strict=True))
        unique = list(dict.fromkeys(pairs))
        encoded = [self._encoder.encode(side) for side in zip(*unique, strict=True)]
        found = np.zeros((len(unique), 3), np.float64)
        longest = [max(map(len, both)) for both in zip(*encoded, strict=True)]
        order = np.argsort(longest, kind="stable")
        for start in range(0, len(order), self._batch_size):
            rows = order[start : start + self._batch_size].tolist()
            width = _width(longest[rows[-1]], self._encoder.config.longest)
            texts = [self._texts([side[row] for row in rows], width) for side in encoded]
            found[rows] = np.stack(self._score(*texts), axis=1)[: len(rows)]
        place = {pair: row for row, pair in enumerate(unique)}
        return BertScore(*found[[place[pair] for pair in pairs]].reshape(-1, 3).T)

    def _texts(self, ids: Sequence[Sequence[int]], width: int) -> Texts:
        tokens = np.full((self._batch_size, width), self._encoder.config.pad, np.int32)
        length = np.zeros(self._batch_size, np.int32)
        for row, text in enumerate(ids):
            tokens[row, : len(text)] = text
            length[row] = len(text)
        place = np.arange(width)
        # One special begins a text and one ends it.
        inside = (place > 0) & (place < length[:, None] - 1)
        return Texts(*map(jnp.asarray, (tokens, place < length[:, None], inside)))


def _width(length: int, longest: int) -> int:
    width = SHORTEST
    while width < length:
        width *= 2
    return min(width, longest)


def encoder_facts(folder: str, layer: int | None = None, name: str = "") -> dict[str, Any]:
    """What a run keeps of the encoder it is scored with, see `open_scorer`.

    Args:
      folder: of the encoder.
      layer: whose states are compared; None for the one that `bert_score` takes.
      name: what to call it; "" for the folder's own name.

    Returns:
      {"folder", "layer", "name" (of the metric), "sha256" (of the weights)}.

    Raises:
      UserError: no layer is known for that name, or the folder holds no weights.
    """
    path = pathlib.Path(folder).expanduser().absolute()
    name = name or path.name
    if layer is None and name not in BEST_LAYERS:
        raise UserError(
            f"which layer of {path} BERTScore should compare is not known: give the layer, such as "
            f"one of {BEST_LAYERS}."
        )
    layer = BEST_LAYERS[name] if layer is None else layer
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return {
        "folder": str(path),
        "layer": layer,
        "name": f"bertscore_{slug}_l{layer}",
        "sha256": _weights_sha256(path),
    }


def open_scorer(facts: Mapping[str, Any]) -> BertScorer:
    """The scorer of `encoder_facts`.

    Raises:
      UserError: the folder is gone or holds other weights now.
    """
    return _open(facts["folder"], facts["layer"], facts["sha256"])


@functools.lru_cache(maxsize=1)
def _open(folder: str, layer: int, sha256: str) -> BertScorer:
    encoder = open_encoder(folder, layer)
    if _weights_sha256(encoder.folder) != sha256:
        raise UserError(
            f"{folder} holds other weights than those that the run names: put them back, or score "
            "the run anew with its own setting."
        )
    return BertScorer(encoder)


def _weights_sha256(folder: pathlib.Path) -> str:
    digest = hashlib.sha256()
    for file in open_safetensors(folder).files:
        with file.open("rb") as handle:
            digest.update(hashlib.file_digest(handle, "sha256").digest())
    return digest.hexdigest()
