"""VLBERT in plain PyTorch: text, objects and end token packed without gaps, as released, or not."""

import torch
from torch import Tensor, nn
from torch_layers import LAYER_NORM_EPS, Head, Layer, additive_mask


class VLBERT(nn.Module):
    """Logits [b, t, v] at every text position, as released.

    `whole_image_object`: box 0, the whole image, is one of the objects. `packed`: the encoder's
    sequence is as long as the longest row of the batch, as released; else every slot of text and
    objects has its position, and those that are empty are masked.
    """

    def __init__(
        self,
        rows: int = 30_600,
        layers: int = 6,
        hidden: int = 384,
        heads: int = 6,
        mlp: int = 1536,
        positions: int = 512,
        features: int = 2048,
        dropout: float = 0.1,
        whole_image_object: bool = True,
        packed: bool = True,
    ):
        super().__init__()
        self.whole_image_object = whole_image_object
        self.packed = packed
        self.word = nn.Embedding(rows, hidden)
        self.position = nn.Embedding(positions, hidden)
        self.segment = nn.Embedding(3, hidden)
        self.end_word = nn.Embedding(1, hidden)
        self.object_word = nn.Embedding(1, hidden)
        self.visual = nn.Linear(features, hidden)
        self.image_norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPS)
        self.object_norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPS)
        self.embedding_norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPS)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(Layer(hidden, heads, mlp, dropout) for _ in range(layers))
        self.head = Head(hidden, rows)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        x, valid = self.embed(batch)
        mask = additive_mask(valid, x.dtype)
        x = self.dropout(self.embedding_norm(x))
        for layer in self.layers:
            x = layer(x, mask)
        width = batch["tokens"].shape[1]
        # A packed row may be shorter than the text's padded width; what is added has no label.
        x = nn.functional.pad(x, (0, 0, 0, max(0, width - x.shape[1])))[:, :width]
        return self.head(x, self.word.weight)

    def valid(self, batch: dict[str, Tensor]) -> Tensor:
        """Which slots of text, objects and end exist, [b, s]."""
        text_mask, object_mask = batch["text_mask"], batch["object_mask"]
        end = torch.ones_like(text_mask[:, :1])
        whole = [object_mask.any(1, keepdim=True)] if self.whole_image_object else []
        return torch.cat([text_mask, *whole, object_mask, end], 1)

    def lengths(self, batch: dict[str, Tensor]) -> tuple[int]:
        """Positions of the encoder's sequence."""
        valid = self.valid(batch)
        return (int(valid.sum(1).max()) if self.packed else valid.shape[1],)

    def embed(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Embeddings [b, n, k], n as `lengths` says, and which of them exist."""
        image = self.visual(batch["image_feature"][:, None])
        objects = self.visual(batch["features"])
        if self.whole_image_object:
            objects = torch.cat([image, objects], 1)
        text = self.word(batch["tokens"].long()) + self.image_norm(image)
        objects = self.object_word.weight + self.object_norm(objects)
        end = self.end_word.weight.expand(len(text), 1, -1)
        x, valid = torch.cat([text, objects, end], 1), self.valid(batch)
        # Of every slot of the row above: text, object or end.
        kind = torch.ones(x.shape[1], dtype=torch.long, device=x.device)
        kind[: text.shape[1]], kind[-1] = 0, 2
        kind = kind.expand(len(x), -1)
        if self.packed:
            order = torch.argsort(~valid, dim=1, stable=True)[:, : self.lengths(batch)[0]]
            x = torch.take_along_dim(x, order[:, :, None], 1)
            valid, kind = (torch.take_along_dim(part, order, 1) for part in (valid, kind))
        slot = torch.arange(x.shape[1], device=x.device)[None]
        length = batch["text_mask"].sum(1, keepdim=True)
        position = torch.where(kind == 0, slot, length + kind - 1)
        segment = torch.where(kind == 0, 0, 2)
        return x + self.position(position) + self.segment(segment), valid
