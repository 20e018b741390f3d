"""A memory whose slots depend on the model is fed by the step itself."""

import jax
import numpy as np

from mmgen.algorithms.er import make_er
from mmgen.memory.balanced import make_balanced_forget


def words_of(batch):
    return np.where(batch["target_mask"], batch["targets"], -1).astype(np.int32)


def test_step_feeds_a_loss_driven_memory(toy):
    """Two iterations: it stores the stream's losses, then sees those of the replayed rows."""
    task = toy.task._replace(loss=lambda params, batch, key: toy.task.loss(params, batch))
    optimizer = toy.optimizer()
    memory = make_balanced_forget(toy.capacity, toy.vocabulary, toy.masked)
    er = make_er(task, optimizer, memory, 2)
    step = jax.jit(er.step)

    first = toy.feed([1, 2, -1], [[-1, -1]])
    first = first._replace(insert_slot=(), side=words_of(first.stream))
    state, _ = step(toy.state(er, optimizer, memory), first, jax.random.key(0))
    assert state.memory.ids.tolist() == [1, 2, -1, -1, -1, -1]
    stored = state.memory.payload
    nll = jax.jit(task.loss)(toy.params, first.stream, None)[1]["nll"]
    np.testing.assert_allclose(stored["best"][:2], nll[:2], rtol=1e-4, atol=1e-6)
    assert stored["words"][:2].tolist() == first.side[:2].tolist()
    assert stored["replayed"].sum() == 0

    second = toy.feed([3, 4, 5], [[2, 1]], replay_slot=[[1, 0]])
    second = second._replace(insert_slot=(), side=words_of(second.stream))
    state, scalars = step(state, second, jax.random.key(0))
    assert state.memory.ids.tolist() == [1, 2, 3, 4, 5, -1]
    tokens = second.replay[0]["target_mask"].sum()
    assert state.memory.payload["replayed"].sum() == tokens
    # Training on the rows of the first iteration lowered their loss, or it counts as forgetting.
    best = state.memory.payload["best"][:2]
    assert (best <= stored["best"][:2]).all() and (best < stored["best"][:2]).any()
    assert (state.memory.payload["forgetting"] >= 0).all()
    assert scalars["loss_replay"] > 0
