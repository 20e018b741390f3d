"""Writes tests/fixtures/peers.npz: what the PyTorch peers compute from small random weights.

Run from the repository's root, in an environment with torch and numpy:

    python tests/peers/make_fixture.py

Everything is computed in float64 and stored as float32. Keys: `batch/FIELD`; for each of `vlbert`
and `lxmert` `MODEL/layout`, a JSON list of (parameter name, shape), and one vector in that order of
`MODEL/weights` and, for the profiles `release` and `paper`, of `MODEL/PROFILE/grads`, beside
`MODEL/PROFILE/loss`; and `vlbert/release/updated`, the weights after three updates of the release's
Adam on that batch.
"""

import json
import pathlib

import numpy as np
import torch
from torch_layers import masked_token_loss
from torch_lxmert import LXMERT
from torch_optim import ReleaseAdam
from torch_vlbert import VLBERT

TARGET = pathlib.Path(__file__).parents[1] / "fixtures" / "peers.npz"
ROWS, FEATURES, POSITIONS = 40, 12, 24
VLBERT_SIZES = {"layers": 2, "hidden": 16, "heads": 2, "mlp": 32}
LXMERT_SIZES = {
    "layers": 2,
    "visual_layers": 1,
    "cross_layers": 2,
    "hidden": 8,
    "heads": 2,
    "mlp": 16,
}
LEARNING_RATE, UPDATES = 1e-2, 3


def make_batch(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Five rows: text and objects of different lengths, one without objects, one padded row."""
    text, objects, masked = 10, 4, 3
    lengths = np.array([10, 7, 5, 9, 8])
    counts = np.array([4, 1, 0, 2, 3])
    spans = np.array([[2, 5], [3, 4], [2, 3], [5, 8], [2, 4]])
    tokens = rng.integers(5, ROWS, (5, text))
    text_mask = np.arange(text) < lengths[:, None]
    tokens = np.where(text_mask, tokens, 0)
    positions = spans[:, :1] + np.arange(masked)
    target_mask = positions < spans[:, 1:]
    positions = np.where(target_mask, positions, 0)
    targets = np.where(target_mask, np.take_along_axis(tokens, positions, 1), 0)
    row, slot = target_mask.nonzero()
    tokens[row, positions[row, slot]] = 4
    object_mask = np.arange(objects) < counts[:, None]
    features = rng.normal(size=(5, objects, FEATURES)) * object_mask[:, :, None]
    boxes = np.sort(rng.random((5, objects, 4)), -1) * object_mask[:, :, None]
    return {
        "ids": np.arange(5, dtype=np.int32),
        "mask": np.array([True, True, True, True, False]),
        "tokens": tokens.astype(np.int32),
        "text_mask": text_mask,
        "span_positions": positions.astype(np.int32),
        "targets": targets.astype(np.int32),
        "target_mask": target_mask,
        "features": features.astype(np.float32),
        "boxes": boxes.astype(np.float32),
        "object_mask": object_mask,
        "image_feature": rng.normal(size=(5, FEATURES)).astype(np.float32),
    }


def randomise(model: torch.nn.Module, rng: np.random.Generator) -> None:
    """Weights large enough for every part to matter, float32 values."""
    for name, parameter in model.named_parameters():
        values = 0.3 * rng.normal(size=tuple(parameter.shape))
        if "norm.weight" in name:
            values += 0.5 if name.startswith(("image_norm", "object_norm")) else 1.0
        parameter.data = torch.tensor(values.astype(np.float32), dtype=torch.float64)


def flat(tensors: list[torch.Tensor]) -> np.ndarray:
    return torch.cat([tensor.detach().flatten() for tensor in tensors]).numpy().astype(np.float32)


def layout(model: torch.nn.Module) -> str:
    return json.dumps([(name, list(p.shape)) for name, p in model.named_parameters()])


def as_tensors(batch: dict[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {
        name: torch.tensor(value, dtype=torch.float64 if value.dtype == np.float32 else None)
        for name, value in batch.items()
    }


def loss_and_gradients(
    model: torch.nn.Module, batch: dict[str, torch.Tensor]
) -> tuple[np.float32, np.ndarray]:
    model.zero_grad(set_to_none=True)
    loss = masked_token_loss(model(batch), batch)
    loss.backward()
    # The release's unread parameters have no gradient at all.
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    return np.float32(loss.item()), flat(grads)


def update(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> None:
    optimizer = ReleaseAdam(model.parameters(), lr=LEARNING_RATE)
    for _ in range(UPDATES):
        optimizer.zero_grad(set_to_none=True)
        masked_token_loss(model(batch), batch).backward()
        optimizer.step()


def main() -> None:
    rng = np.random.default_rng(0)
    arrays = make_batch(rng)
    batch = as_tensors(arrays)
    stored = {f"batch/{name}": value for name, value in arrays.items()}
    shared = {"rows": ROWS, "positions": POSITIONS, "features": FEATURES, "dropout": 0.0}

    def store(profile: str, model: torch.nn.Module, rows: dict[str, torch.Tensor]) -> None:
        loss, grads = loss_and_gradients(model, rows)
        stored.update({f"{profile}/loss": loss, f"{profile}/grads": grads})

    vlbert = VLBERT(**VLBERT_SIZES, **shared).double()
    randomise(vlbert, rng)
    stored["vlbert/layout"], stored["vlbert/weights"] = layout(vlbert), flat(vlbert.parameters())
    vlbert.whole_image_object = False
    store("vlbert/paper", vlbert, batch)
    vlbert.whole_image_object = True
    store("vlbert/release", vlbert, batch)
    update(vlbert, batch)
    stored["vlbert/release/updated"] = flat(vlbert.parameters())

    lxmert = LXMERT(**LXMERT_SIZES, **shared).double()
    randomise(lxmert, rng)
    stored["lxmert/layout"], stored["lxmert/weights"] = layout(lxmert), flat(lxmert.parameters())
    store("lxmert/release", lxmert, batch)
    lxmert.release = False
    for table in (lxmert.word, lxmert.position, lxmert.segment):
        table.padding_idx = None
    # Where an image has no object, adding -10000 to every key masks none; such rows are left out.
    has_objects = batch["object_mask"].any(1)
    store("lxmert/paper", lxmert, dict(batch, mask=batch["mask"] & has_objects))
    np.savez_compressed(TARGET, **stored)
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
