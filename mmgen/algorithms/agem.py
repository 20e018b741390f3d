"""A-GEM: the stream's gradient may not point against the memory's."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from mmgen.algorithms.base import (
    Algorithm,
    Feed,
    PyTree,
    Scalars,
    apply_update,
    check_size,
    loss_and_grad,
    next_state,
    no_extras,
)
from mmgen.core.state import TrainState
from mmgen.memory.base import Memory
from mmgen.tasks.base import Task


def project(grads: PyTree, reference: PyTree) -> tuple[PyTree, Float[Array, ""]]:
    """`grads` without its part against `reference`, and whether it had one (1 or 0).

    With g.r < 0, g becomes g - (g.r / (r.r + 1e-12)) r, so that g.r is 0; else g is left alone.
    """
    dot = optax.tree.vdot(grads, reference)
    violated = dot < 0
    scale = dot / (optax.tree.vdot(reference, reference) + 1e-12)
    scale = jnp.where(violated, scale, 0.0)
    projected = jax.tree.map(lambda g, r: g - scale * r, grads, reference)
    return projected, violated.astype(jnp.float32)


def make_agem(
    task: Task,
    optimizer: optax.GradientTransformation,
    memory: Memory,
    reference_size: int = 80,
) -> Algorithm:
    """Average gradient episodic memory (Chaudhry et al. 2019; VisCOLL ocl/agem.py:43-55).

    Order: draw the reference batch (before the iteration), its gradient, forward and backward of
    the stream batch, projection, one update, insert. Memory constrains and is not trained on; an
    empty one gives a zero reference and no constraint. The projection is on raw gradients: what
    the optimizer makes of them may still conflict. The release inserts before its update, which
    changes no number, for nothing reads the memory in between.

    Cost: 2 forward, 2 backward, 1 update. `violation` is 1 when the gradient was projected; its
    mean over a run is the violation rate. Paper: 80 rows for COCO-shift, 64 for Flickr-shift;
    release: 64.

    Raises:
      UserError: `reference_size` is not positive.
    """
    check_size("reference_size", reference_size)

    def step(state: TrainState, feed: Feed, key: Key[Array, ""]) -> tuple[TrainState, Scalars]:
        stream_key, reference_key = jax.random.split(key)
        (reference_batch,) = feed.replay
        reference = loss_and_grad(task, state.params, reference_batch, reference_key)
        stream = loss_and_grad(task, state.params, feed.stream, stream_key)
        grads, violation = project(stream.grads, reference.grads)
        params, opt_state = apply_update(
            optimizer, state.params, state.opt_state, grads, stream.targets
        )
        replayed = tuple((slots, reference.aux["nll"]) for slots in feed.replay_slot)
        state = next_state(state, memory, feed, key, params, opt_state, stream, replayed)
        return state, {
            "loss": stream.loss,
            "loss_reference": reference.loss,
            "violation": violation,
        }

    return Algorithm(draws=(reference_size,), init=no_extras, step=step)
