"""BERT building blocks in plain PyTorch, written from the published description.

Nothing here is shared with mmgen: the peers exist to disagree if mmgen is wrong, and to be timed
against it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LAYER_NORM_EPS = 1e-12
MASK_VALUE = -10_000.0


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """[b, s] bool -> [b, 1, 1, s], 0 where a key exists and -10000 elsewhere."""
    return (~mask)[:, None, None, :].to(dtype) * MASK_VALUE


class Attention(nn.Module):
    """Query, key and value projections, attention, output layer, dropout, residual, norm."""

    def __init__(self, hidden: int, heads: int, dropout: float):
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.query = nn.Linear(hidden, hidden)
        self.key = nn.Linear(hidden, hidden)
        self.value = nn.Linear(hidden, hidden)
        self.dense = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPS)
        self.dropout = nn.Dropout(dropout)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        q = self.split(self.query(x))
        k = self.split(self.key(context))
        v = self.split(self.value(context))
        rate = self.rate if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype), dropout_p=rate)
        mixed = mixed.transpose(1, 2).flatten(2)
        return self.norm(x + self.dropout(self.dense(mixed)))


class FeedForward(nn.Module):
    """Dense, erf GELU, dense, dropout, residual, norm."""

    def __init__(self, hidden: int, mlp: int, dropout: float):
        super().__init__()
        self.up = nn.Linear(hidden, mlp)
        self.down = nn.Linear(mlp, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPS)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + self.dropout(self.down(F.gelu(self.up(x)))))


class Layer(nn.Module):
    """Self-attention and feed-forward."""

    def __init__(self, hidden: int, heads: int, mlp: int, dropout: float):
        super().__init__()
        self.attention = Attention(hidden, heads, dropout)
        self.mlp = FeedForward(hidden, mlp, dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return self.mlp(self.attention(x, x, mask))


class Head(nn.Module):
    """Dense, GELU, norm, decoder tied to the word table, bias."""

    def __init__(self, hidden: int, rows: int):
        super().__init__()
        self.dense = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPS)
        self.bias = nn.Parameter(torch.zeros(rows))

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        return F.linear(self.norm(F.gelu(self.dense(x))), table, self.bias)


def masked_token_loss(logits: Tensor, batch: dict[str, Tensor]) -> Tensor:
    """Mean negative log-likelihood over the masked tokens of logits [b, t, v]."""
    labels = torch.full(batch["tokens"].shape, -1, device=logits.device)
    real = batch["target_mask"] & batch["mask"][:, None]
    row, slot = real.nonzero(as_tuple=True)
    labels[row, batch["span_positions"][row, slot].long()] = batch["targets"][row, slot].long()
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1)
