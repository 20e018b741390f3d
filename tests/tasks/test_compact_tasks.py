"""CompAct's two tasks: what counts in the loss, what is predicted, and that they can be learned."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.tiny_crossmodal import CLASSES, tiny_compact_batch, tiny_crossmodal
from models.tiny_models import quick_jit, randomise, with_padded_rows

from mmgen.algorithms.base import Feed
from mmgen.algorithms.plain import make_plain
from mmgen.core.optim import make_optimizer
from mmgen.core.rng import stream_key
from mmgen.core.state import TrainState
from mmgen.tasks.atoms import make_atoms_task
from mmgen.tasks.next_utterance import make_next_utterance_task

KEY = stream_key(0, "test")
LENGTH = 4


def make(name, **settings):
    settings = {"layers": 1, "cross_layers": 1, "dropout": 0.0, **settings}
    if name == "utterance":
        return make_next_utterance_task(tiny_crossmodal("vl", **settings), LENGTH)
    return make_atoms_task(tiny_crossmodal("vl", classes=CLASSES, **settings))


@pytest.mark.parametrize("name", ["utterance", "noun"])
def test_one_batch_is_learned_by_heart(name):
    """Loss near its floor of zero, and the predictions are the targets."""
    task, batch = make(name, hidden=16), tiny_compact_batch()
    optimizer = make_optimizer("adamw", 1e-2, clip_norm=1.0)
    params = quick_jit(task.init)(KEY, batch)
    state = TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(params))
    step = quick_jit(make_plain(task, optimizer).step)
    losses = []
    for _ in range(120):
        state, scalars = step(state, Feed(stream=batch), KEY)
        losses.append(float(scalars["loss"]))
    assert losses[0] > 1
    assert losses[-1] < 0.05
    found = jax.device_get(quick_jit(task.predict)(state.params, batch))
    if name == "utterance":
        np.testing.assert_array_equal(found["tokens"], batch["target"])
        np.testing.assert_array_equal(found["count"], (batch["target"] != 0).sum(-1))
    else:
        np.testing.assert_array_equal(found["label"], batch["label"])
        assert (found["probability"] > 0.8).all()
    assert found["nll"].sum() / found["count"].sum() == pytest.approx(losses[-1], abs=0.02)


def weights(task, batch):
    """Parameters of some size, without compiling the initialisation."""
    shapes = jax.eval_shape(task.init, KEY, batch)
    return randomise(jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), shapes))


@pytest.mark.parametrize("name", ["utterance", "noun"])
def test_padded_rows_change_no_number(name):
    task, batch = make(name), tiny_compact_batch()
    params = weights(task, batch)
    loss = quick_jit(lambda batch: task.loss(params, batch, None)[0])
    np.testing.assert_allclose(loss(batch), loss(with_padded_rows(batch, 2)), rtol=1e-5)


def test_a_label_that_train_does_not_know_adds_nothing():
    task, batch = make("noun"), tiny_compact_batch()
    params = weights(task, batch)
    unseen = dict(batch, label=np.array([-1, *batch["label"][1:]], np.int32))
    loss = quick_jit(lambda batch: task.loss(params, batch, None))
    (total, count), aux = loss(unseen)
    assert count == 3
    np.testing.assert_allclose(total, loss(batch)[1]["nll"][1:].sum(), rtol=1e-5)
    assert aux["nll"][0] == 0
    found = quick_jit(task.predict)(params, unseen)
    np.testing.assert_array_equal(found["count"], [0, 1, 1, 1])
