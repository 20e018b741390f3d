"""AdamW of pytorch_transformers 1.2.0 without bias correction, as released VisCOLL runs it."""

from collections.abc import Callable, Iterable

import torch


class ReleaseAdam(torch.optim.Optimizer):
    """p -= lr * m / (sqrt(v) + eps), raw moments, no weight decay."""

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-4,
    ):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:
        for group in self.param_groups:
            live = [p for p in group["params"] if p.grad is not None]
            for p in live:
                if not self.state[p]:
                    self.state[p] = {"m": torch.zeros_like(p), "v": torch.zeros_like(p)}
            grads = [p.grad for p in live]
            m = [self.state[p]["m"] for p in live]
            v = [self.state[p]["v"] for p in live]
            beta1, beta2 = group["betas"]
            torch._foreach_lerp_(m, grads, 1 - beta1)
            torch._foreach_mul_(v, beta2)
            torch._foreach_addcmul_(v, grads, grads, 1 - beta2)
            denominators = torch._foreach_sqrt(v)
            torch._foreach_add_(denominators, group["eps"])
            torch._foreach_addcdiv_(live, m, denominators, -group["lr"])
