"""A model of your own: the mean of the words around and of the image, at each masked position.

python -m mmgen.main --config=configs/visCOLL_er10k.py \\
    --config.model.factory=examples.own_model:make
"""

import flax.linen as nn
import jax.numpy as jnp


class Bag(nn.Module):
    """`(batch, key) -> logits [b, m, v]`; the batch's fields are in mmgen/data/schema.py."""

    rows: int
    hidden: int

    @nn.compact
    def __call__(self, batch, key=None):
        """`key` would be that of dropout, None when predicting."""
        del key
        shown = batch["text_mask"]
        words = nn.Embed(self.rows, self.hidden)(batch["tokens"]) * shown[..., None]
        # Over the words that are there, or the padding would change the mean.
        mean = words.sum(1) / jnp.maximum(shown.sum(1, keepdims=True), 1)
        image = nn.Dense(self.hidden)(batch["image_feature"].astype(jnp.float32))
        place = nn.Embed(512, self.hidden)(batch["span_positions"])
        return nn.Dense(self.rows)(nn.gelu((mean + image)[:, None] + place))


def make(*, vocabulary_rows, hidden, **others):
    """Named arguments are keys of config.model, and feature_dim and profile."""
    del others
    return Bag(vocabulary_rows, hidden)
