"""Iterations of plain, well-written PyTorch, timed when asked: one line of JSON per request.

Run by `python -m mmgen.bench --peer` in an environment with torch and numpy. A line N on the input
makes N iterations; the answer holds their seconds, the last loss, and `lengths`, the positions of
the sequences of every pass so far. Nothing of mmgen is imported.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch_layers import masked_token_loss
from torch_lxmert import LXMERT
from torch_vlbert import VLBERT

SIZES = {
    "smoke": {"layers": 2, "hidden": 32, "heads": 2, "mlp": 64},
    "small": {"layers": 2, "hidden": 128, "heads": 4, "mlp": 512},
    "paper": {"layers": 6, "hidden": 384, "heads": 6, "mlp": 1536},
}
CROSSED = {
    "smoke": {"visual_layers": 1, "cross_layers": 2},
    "small": {"visual_layers": 1, "cross_layers": 2},
    "paper": {"layers": 9, "visual_layers": 5, "cross_layers": 5},
}
REPLAYED = 32
Batch = dict[str, Tensor]


class Learner:
    """A model, its optimizer, and the iterations of each algorithm."""

    def __init__(self, model: torch.nn.Module, dtype: str, compiled: bool):
        self.model = model
        # Fused: all parameters in one kernel, on CPU too.
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=1e-4, eps=1e-8, weight_decay=0.0, fused=True
        )
        self.autocast = dtype == "bfloat16"
        self.compiled = torch.compile(model) if compiled else model
        self.lengths: set[tuple[int, ...]] = set()

    def forward(self, batch: Batch) -> Tensor:
        self.lengths.add(self.model.lengths(batch))
        return self.compiled(batch)

    def loss(self, batch: Batch) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            logits = self.forward(batch)
        return masked_token_loss(logits.float(), batch)

    def backward(self, batch: Batch) -> Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        loss.backward()
        return loss.detach()

    def plain(self, stream: Batch, replay: Batch) -> Tensor:
        loss = self.backward(stream)
        self.optimizer.step()
        return loss

    def er(self, stream: Batch, replay: Batch) -> Tensor:
        self.plain(stream, replay)
        return self.plain(replay, replay)

    def agem(self, stream: Batch, replay: Batch) -> Tensor:
        self.backward(replay)
        reference = [p.grad for p in self.model.parameters() if p.grad is not None]
        loss = self.backward(stream)
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        inner = sum((g * r).sum() for g, r in zip(grads, reference, strict=True))
        if inner < 0:
            norm = sum((r * r).sum() for r in reference)
            torch._foreach_add_(grads, reference, alpha=-float(inner / norm))
        self.optimizer.step()
        return loss

    def mir(self, stream: Batch, replay: Batch) -> Tensor:
        before = self.scores(replay)
        self.plain(stream, replay)
        # The virtual step is the real one: same pass, same moments.
        chosen = (self.scores(replay) - before).topk(REPLAYED).indices
        return self.plain({name: values[chosen] for name, values in replay.items()}, replay)

    @torch.no_grad()
    def scores(self, batch: Batch) -> Tensor:
        """Mean loss of each row, dropout off."""
        self.model.eval()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            logits = self.forward(batch)
        self.model.train()
        rows = torch.arange(len(logits))[:, None]
        picked = logits[rows, batch["span_positions"].long()].float()
        nll = torch.nn.functional.cross_entropy(
            picked.flatten(0, 1), batch["targets"].long().flatten(), reduction="none"
        ).view(picked.shape[:2])
        mask = batch["target_mask"]
        return (nll * mask).sum(1) / mask.sum(1).clamp(min=1)


def read_examples(path: str) -> list[Batch]:
    """The stream batch and the replay batch; keys of the file are `PART/FIELD`."""
    with np.load(path) as file:
        parts: dict[str, Batch] = {"stream": {}, "replay": {}}
        for key, value in file.items():
            part, name = key.split("/")
            if value.dtype == np.float16:
                value = value.astype(np.float32)
            parts[part][name] = torch.from_numpy(value)
    return [parts["stream"], parts["replay"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", required=True)
    parser.add_argument("--model", choices=("vlbert", "lxmert"), required=True)
    parser.add_argument("--algorithm", choices=("plain", "er", "agem", "mir"), required=True)
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), required=True)
    parser.add_argument("--variant", choices=("eager", "compile"), required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--released", action="store_true", help="the whole image is an object")
    parser.add_argument("--packed", action="store_true", help="VLBERT without gaps in a row")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    stream, replay = read_examples(arguments.examples)
    sizes = {**SIZES[arguments.size], "rows": arguments.rows}
    sizes["features"] = stream["features"].shape[-1]
    if arguments.model == "lxmert":
        model: torch.nn.Module = LXMERT(
            **{**sizes, **CROSSED[arguments.size]}, release=arguments.released
        )
    else:
        model = VLBERT(**sizes, whole_image_object=arguments.released, packed=arguments.packed)
    learner = Learner(model.train(), arguments.dtype, arguments.variant == "compile")
    iterate: Callable[[Batch, Batch], Tensor] = getattr(learner, arguments.algorithm)
    print(json.dumps({"torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        for _ in range(int(line)):
            loss = iterate(stream, replay)
        seconds = time.perf_counter() - began
        answer = {"seconds": seconds, "loss": float(loss), "lengths": sorted(learner.lengths)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
