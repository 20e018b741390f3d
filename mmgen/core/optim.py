"""Optimizers: standard AdamW, and the release's Adam without bias correction.

Every optimizer made here ends in a `DescentState`, which holds the one number that may change
from outside during a run: a factor on the learning rate (`mmgen.core.control`). It is an array in
the optimizer's state, so it is checkpointed with the rest and changing it compiles nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from mmgen.errors import UserError

PyTree = Any


class ReleaseAdamState(NamedTuple):
    """Moments of the release's Adam; without bias correction no count is needed."""

    mu: PyTree
    nu: PyTree


class DescentState(NamedTuple):
    """Number of updates made (read by schedules), and the factor on the learning rate."""

    updates: Int[Array, ""]
    scale: Float[Array, ""]


def make_optimizer(
    name: str,
    learning_rate: float | optax.Schedule,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    clip_norm: float = 0.0,
    frozen: Callable[[PyTree], PyTree] | None = None,
) -> optax.GradientTransformation:
    """An optimizer by name; its `update` needs the parameters and works under vmap.

    `adamw` is Loshchilov and Hutter's, bias-corrected: p -= lr (m^ / (sqrt(v^) + eps) + decay p).
    `adam_release` is AdamW of pytorch_transformers 1.2.0 with `correct_bias=False`, as the released
    VisCOLL runs it (train_mlm.py:41-42): p -= lr m / (sqrt(v) + eps), then p -= lr decay p.

    Args:
      clip_norm: the gradient's global norm is cut to this; 0 is no clipping.
      frozen: `params -> pytree` of numbers that multiply gradients and updates: 0 where nothing may
        move, 1 elsewhere; scalars or arrays that broadcast to the parameter.

    Raises:
      UserError: unknown name, or a setting out of range.
    """
    _validate(name, beta1, beta2, eps, weight_decay, clip_norm)
    release = name == "adam_release"
    adam = _release_adam(beta1, beta2, eps) if release else optax.scale_by_adam(beta1, beta2, eps)
    parts = [adam, _descend(learning_rate, weight_decay, release)]
    if clip_norm:
        parts.insert(0, optax.clip_by_global_norm(clip_norm))
    if frozen is not None:
        # Before clipping, so that frozen parameters have no part in the norm; and at the end,
        # because weight decay moves a parameter without any gradient.
        parts = [_multiply(frozen), *parts, _multiply(frozen)]
    return optax.chain(*parts)


def learning_rate_scale(opt_state: PyTree) -> float:
    """The factor on the learning rate in force; 1.0 if the optimizer has no `DescentState`."""
    for node in jax.tree.leaves(opt_state, is_leaf=_is_descent):
        if _is_descent(node):
            return float(jax.device_get(node.scale))
    return 1.0


def with_learning_rate_scale(opt_state: PyTree, scale: float) -> PyTree:
    """`opt_state` with another factor on the learning rate, placed as the old one was."""

    def replace(node: Any) -> Any:
        if not _is_descent(node):
            return node
        old = node.scale
        return node._replace(scale=jnp.full_like(old, scale, device=old.sharding))

    return jax.tree.map(replace, opt_state, is_leaf=_is_descent)


def _is_descent(node: Any) -> bool:
    return isinstance(node, DescentState)


def _validate(name, beta1, beta2, eps, weight_decay, clip_norm) -> None:
    if name not in ("adamw", "adam_release"):
        raise UserError(
            f'optimizer.name is "{name}"; the optimizers are "adamw" and "adam_release".'
        )
    for key, value in (("beta1", beta1), ("beta2", beta2)):
        if not 0 <= value < 1:
            raise UserError(f"optimizer.{key} is {value}; it must be in [0, 1).")
    for key, value in (("eps", eps), ("weight_decay", weight_decay), ("clip_norm", clip_norm)):
        if not value >= 0:
            raise UserError(f"optimizer.{key} is {value}; it must not be negative.")


def _release_adam(beta1: float, beta2: float, eps: float) -> optax.GradientTransformation:
    """m / (sqrt(v) + eps) with the raw moments, so that early directions exceed 1."""

    def init(params):
        zeros = jax.tree.map(jnp.zeros_like, params)
        return ReleaseAdamState(mu=zeros, nu=jax.tree.map(jnp.zeros_like, params))

    def update(grads, state, params=None):
        del params
        mu = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, state.mu, grads)
        nu = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, state.nu, grads)
        direction = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mu, nu)
        return direction, ReleaseAdamState(mu, nu)

    return optax.GradientTransformation(init, update)


def _descend(
    learning_rate: float | optax.Schedule, weight_decay: float, decay_after: bool
) -> optax.GradientTransformation:
    """From a direction to an update; `decay_after` decays the parameter already moved."""

    def init(params):
        del params
        return DescentState(updates=jnp.zeros((), jnp.int32), scale=jnp.ones((), jnp.float32))

    def update(direction, state, params):
        rate = learning_rate(state.updates) if callable(learning_rate) else learning_rate
        rate = rate * state.scale

        def move(d, p):
            if not weight_decay:
                return -rate * d
            if decay_after:
                return -rate * d - rate * weight_decay * (p - rate * d)
            return -rate * (d + weight_decay * p)

        updates = jax.tree.map(move, direction, params)
        return updates, state._replace(updates=optax.safe_increment(state.updates))

    return optax.GradientTransformation(init, update)


def _multiply(masks: Callable[[PyTree], PyTree]) -> optax.GradientTransformation:
    def update(updates, state, params):
        return jax.tree.map(lambda u, m: u * m, updates, masks(params)), state

    return optax.GradientTransformation(optax.init_empty_state, update)
