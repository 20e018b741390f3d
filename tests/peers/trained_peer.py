"""A PyTorch peer trained by AdamW from given weights, dropout off: its losses as a JSON list.

    python tests/peers/trained_peer.py FILE.npz vlbert [--released] [--packed]

In an environment with torch and numpy. FILE holds `layout` and `weights` as make_fixture.py stores
them, `learning_rate`, and as `batch/FIELD` the batches, one update each, with a leading axis over
them. Sizes are those of the fixture, and everything is computed in float32.
"""

import argparse
import json

import numpy as np
import torch
from make_fixture import FEATURES, LXMERT_SIZES, POSITIONS, ROWS, VLBERT_SIZES
from torch_layers import masked_token_loss
from torch_lxmert import LXMERT
from torch_vlbert import VLBERT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("model", choices=("vlbert", "lxmert"))
    parser.add_argument("--released", action="store_true", help="the whole image is an object")
    parser.add_argument("--packed", action="store_true", help="VLBERT without gaps in a row")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # so small that threads would only wait for one another
    with np.load(arguments.file) as file:
        stored = dict(file)
    shared = {"rows": ROWS, "positions": POSITIONS, "features": FEATURES, "dropout": 0.0}
    if arguments.model == "vlbert":
        layout = {"whole_image_object": arguments.released, "packed": arguments.packed}
        model: torch.nn.Module = VLBERT(**VLBERT_SIZES, **shared, **layout)
    else:
        model = LXMERT(**LXMERT_SIZES, **shared, release=arguments.released)
    load(model, json.loads(str(stored["layout"])), stored["weights"])
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=float(stored["learning_rate"]), eps=1e-8, weight_decay=0.0
    )
    batches = {
        name.removeprefix("batch/"): torch.from_numpy(values)
        for name, values in stored.items()
        if name.startswith("batch/")
    }
    losses = []
    for step in range(len(batches["ids"])):
        batch = {name: values[step] for name, values in batches.items()}
        optimizer.zero_grad(set_to_none=True)
        loss = masked_token_loss(model(batch), batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps(losses))


def load(model: torch.nn.Module, layout: list, vector: np.ndarray) -> None:
    """Cuts the vector into the model's parameters, which must be those of the layout."""
    parameters = dict(model.named_parameters())
    assert [[name, list(p.shape)] for name, p in parameters.items()] == layout
    start = 0
    with torch.no_grad():
        for parameter in parameters.values():
            part = vector[start : start + parameter.numel()]
            parameter.copy_(torch.from_numpy(part.reshape(parameter.shape)))
            start += parameter.numel()


if __name__ == "__main__":
    main()
