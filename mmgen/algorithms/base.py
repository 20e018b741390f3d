"""The contract of a continual-learning algorithm, and the update that all of them share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Key

from mmgen.core.rng import stream_id
from mmgen.core.state import TrainState
from mmgen.data.schema import Batch
from mmgen.errors import UserError
from mmgen.memory.base import Memory
from mmgen.memory.plan import INSERT_STREAM
from mmgen.tasks.base import Task

PyTree = Any
Scalars = dict[str, Float[Array, ""]]
Replayed = tuple[tuple[Int[Array, " r"], Float[Array, "r m"]], ...]
"""Slots of replayed rows and their losses, per replay batch."""

INSERT = stream_id(INSERT_STREAM)


class Feed(NamedTuple):
    """What one iteration reads; all of it was decided before the iteration began.

    Attributes:
      stream: the stream batch.
      replay: one batch per entry of `Algorithm.draws`, drawn from the memory as it was after the
        previous iteration; rows beyond what the memory held have `mask == False`.
      insert_slot: int32[b], slot of each stream example, the memory's capacity to drop it.
      replay_slot: one int32[r] per replay batch, the slots its rows came from.
      side: what the memory policy must know of each stream example, arrays with a leading axis
        `b` (its task, its masked words), or `()` for a policy that looks at nothing. Without a
        memory: what every iteration reads and none changes, on the mesh already (a frozen model).
    """

    stream: Batch
    replay: tuple[Batch, ...] = ()
    insert_slot: Any = ()
    replay_slot: tuple[Int[Array, " r"], ...] = ()
    side: PyTree = ()


class Algorithm(NamedTuple):
    """An algorithm as pure functions, built by `make_<name>`, which validates its settings.

    Attributes:
      draws: rows that an iteration draws from memory, one number per replay batch, e.g. `(32,)`.
      init: `(params) -> extras`.
      step: `(state, feed, key) -> (state, scalars)`. Applies the inserts of `feed` to
        `state.memory` and adds one to `state.step`. `scalars` always holds `loss`.
      picks: one number per replay batch, how many of its rows a pass may read without the others;
        `()` if every pass reads whole batches.
    """

    draws: tuple[int, ...]
    init: Callable[[PyTree], PyTree]
    step: Callable[[TrainState, Feed, Key[Array, ""]], tuple[TrainState, Scalars]]
    picks: tuple[int, ...] = ()


def no_extras(params: PyTree) -> tuple[()]:
    """`Algorithm.init` of the algorithms that keep nothing of their own."""
    del params
    return ()


def check_size(name: str, size: int) -> None:
    """Refuses a number of rows that cannot be drawn.

    Raises:
      UserError: `size` is not positive; `name` is the key that holds it.
    """
    if size < 1:
        raise UserError(f"algorithm.{name} is {size}; it must be at least 1.")


class Gradient(NamedTuple):
    """One forward and one backward pass.

    Attributes:
      loss: mean loss over the targets, 0 if there is none.
      targets: number of targets over the global batch, the divisor of `loss`.
      grads: gradient of `loss`.
      aux: what `Task.loss` gives besides.
    """

    loss: Float[Array, ""]
    targets: Float[Array, ""]
    grads: PyTree
    aux: dict[str, Array]


def loss_and_grad(
    task: Task,
    params: PyTree,
    batch: Batch,
    key: Key[Array, ""],
    add: Callable[[dict[str, Array]], Float[Array, ""]] | None = None,
) -> Gradient:
    """The mean loss of a batch and its gradient (one forward, one backward pass).

    Args:
      add: what is added to the mean loss before the gradient is taken, from the `aux` of the same
        pass; the loss that is reported is without it.
    """

    def objective(params: PyTree) -> tuple[Float[Array, ""], Any]:
        (total, targets), aux = task.loss(params, batch, key)
        loss = total / jnp.maximum(targets, 1)
        return loss + add(aux) if add else loss, (loss, targets, aux)

    grads, (loss, targets, aux) = jax.grad(objective, has_aux=True)(params)
    return Gradient(loss, targets, grads, aux)


def apply_update(
    optimizer: optax.GradientTransformation,
    params: PyTree,
    opt_state: PyTree,
    grads: PyTree,
    count: Float[Array, ""],
) -> tuple[PyTree, PyTree]:
    """One optimizer update, undone if it was computed from no target at all.

    Zero gradients are not enough: momentum would still move the weights, and the count of updates
    would still advance, on the first iteration, when the memory is empty.

    Args:
      count: number of targets behind `grads` over the global batch, float32 scalar.
    """
    updates, new_opt_state = optimizer.update(grads, opt_state, params)
    new_params = optax.apply_updates(params, updates)
    keep = count > 0

    def choose(new: Array, old: Array) -> Array:
        return jnp.where(keep, new, old)

    return (
        jax.tree.map(choose, new_params, params),
        jax.tree.map(choose, new_opt_state, opt_state),
    )


def insert_stream(
    state: TrainState,
    memory: Memory | None,
    feed: Feed,
    key: Key[Array, ""] | None = None,
    nll: Float[Array, "b m"] | None = None,
    replayed: Replayed = (),
) -> PyTree:
    """`state.memory` after this iteration; `memory` is the policy (or None).

    A planned policy is told which slots to write (`feed.insert_slot`). One that is not planned
    first sees the losses of the replayed rows and then chooses slots itself, from `feed.side` and
    the stream batch's losses `nll`.
    """
    if memory is None:
        return state.memory
    ids, mask = feed.stream["ids"], feed.stream["mask"]
    if memory.planned:
        return memory.insert(state.memory, ids, mask, feed.insert_slot, feed.side)
    if key is None or nll is None:
        raise ValueError("this memory policy needs the step's key and the stream's losses")
    held = state.memory
    if memory.observe is not None:
        for slots, losses in replayed:
            held = memory.observe(held, slots, losses)
    side = (feed.side, nll)
    slots = memory.slots(held, jax.random.fold_in(key, INSERT), ids, mask, side)
    return memory.insert(held, ids, mask, slots, side)


def next_state(
    state: TrainState,
    memory: Memory | None,
    feed: Feed,
    key: Key[Array, ""],
    params: PyTree,
    opt_state: PyTree,
    stream: Gradient,
    replayed: Replayed = (),
    extras: PyTree | None = None,
) -> TrainState:
    """What every step ends with: the new weights, the batch inserted, one iteration more.

    Args:
      stream: the pass over the stream batch.
      replayed: slots and losses of the rows replayed.
      extras: the algorithm's own state, None to leave it alone.
    """
    return state.replace(
        step=state.step + 1,
        params=params,
        opt_state=opt_state,
        memory=insert_stream(state, memory, feed, key, stream.aux["nll"], replayed),
        extras=state.extras if extras is None else extras,
    )
