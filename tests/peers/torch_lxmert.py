"""LXMERT in plain PyTorch: language, visual and cross-modal layers, with the parameters that the
release holds but never reads."""

import torch
from torch import Tensor, nn
from torch_layers import LAYER_NORM_EPS, Attention, Head, Layer, additive_mask


class CrossLayer(nn.Module):
    """One cross-attention module for both directions, then self-attention and feed-forward."""

    def __init__(self, hidden: int, heads: int, mlp: int, dropout: float):
        super().__init__()
        self.cross = Attention(hidden, heads, dropout)
        self.text = Layer(hidden, heads, mlp, dropout)
        self.visual = Layer(hidden, heads, mlp, dropout)

    def forward(
        self, text: Tensor, visual: Tensor, text_mask: Tensor, visual_mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        crossed_text = self.cross(text, visual, visual_mask)
        crossed_visual = self.cross(visual, text, text_mask)
        return self.text(crossed_text, text_mask), self.visual(crossed_visual, visual_mask)


class VisualEmbedding(nn.Module):
    """Mean of the normed feature and the normed box."""

    def __init__(self, features: int, hidden: int):
        super().__init__()
        self.feature = nn.Linear(features, hidden)
        self.feature_norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPS)
        self.box = nn.Linear(4, hidden)
        self.box_norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPS)

    def forward(self, features: Tensor, boxes: Tensor) -> Tensor:
        return (self.feature_norm(self.feature(features)) + self.box_norm(self.box(boxes))) / 2


class LXMERT(nn.Module):
    """Logits [b, t, v] at every text position, as released.

    `release`: attend every object slot, the whole image is one of them, and padding rows of the
    position and segment tables get no gradient.
    """

    def __init__(
        self,
        rows: int = 30_600,
        layers: int = 9,
        visual_layers: int = 5,
        cross_layers: int = 5,
        hidden: int = 384,
        heads: int = 6,
        mlp: int = 1536,
        positions: int = 512,
        features: int = 2048,
        dropout: float = 0.1,
        release: bool = True,
    ):
        super().__init__()
        self.release = release
        sizes = (hidden, heads, mlp, dropout)
        padding = 0 if release else None
        self.word = nn.Embedding(rows, hidden, padding_idx=padding)
        self.position = nn.Embedding(positions, hidden, padding_idx=padding)
        self.segment = nn.Embedding(3, hidden, padding_idx=padding)
        self.text_norm = nn.LayerNorm(hidden, eps=LAYER_NORM_EPS)
        self.visual = VisualEmbedding(features, hidden)
        self.dropout = nn.Dropout(dropout)
        self.language = nn.ModuleList(Layer(*sizes) for _ in range(layers))
        self.vision = nn.ModuleList(Layer(*sizes) for _ in range(visual_layers))
        self.cross = nn.ModuleList(CrossLayer(*sizes) for _ in range(cross_layers))
        self.pooler = nn.Linear(hidden, hidden)
        self.relation = nn.Linear(hidden, 2)
        self.head = Head(hidden, rows)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        tokens = batch["tokens"].long()
        place = torch.arange(tokens.shape[1], device=tokens.device)
        text = self.word(tokens) + self.position(place) + self.segment(torch.zeros_like(tokens))
        text = self.dropout(self.text_norm(text))
        features, boxes, valid = self.objects(batch)
        visual = self.dropout(self.visual(features, boxes))
        text_mask = additive_mask(batch["text_mask"], text.dtype)
        visual_mask = additive_mask(torch.ones_like(valid) if self.release else valid, text.dtype)
        for layer in self.language:
            text = layer(text, text_mask)
        for layer in self.vision:
            visual = layer(visual, visual_mask)
        for layer in self.cross:
            text, visual = layer(text, visual, text_mask, visual_mask)
        return self.head(text, self.word.weight)

    def lengths(self, batch: dict[str, Tensor]) -> tuple[int, int]:
        """Positions of the sequences of text and of objects."""
        return batch["tokens"].shape[1], batch["object_mask"].shape[1] + self.release

    def objects(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        features, boxes, valid = batch["features"], batch["boxes"], batch["object_mask"]
        if not self.release:
            return features, boxes, valid
        present = valid.any(1, keepdim=True)
        whole = torch.tensor([0.0, 0.0, 1.0, 1.0], dtype=boxes.dtype, device=boxes.device)
        image = batch["image_feature"][:, None] * present[:, :, None]
        return (
            torch.cat([image, features], 1),
            torch.cat([whole * present[:, :, None], boxes], 1),
            torch.cat([present, valid], 1),
        )
