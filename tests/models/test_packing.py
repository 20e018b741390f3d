"""Packed encoders: the numbers of the padded batch, gradients and dropout included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.tiny_models import MODELS, quick_jit, randomise, tiny_batch

from mmgen.core.rng import stream_key
from mmgen.data.schema import ROOM_FIELDS
from mmgen.models.packing import every_slot, joined, object_slots, target_slots, text_slots
from mmgen.tasks.masked_span import make_masked_span_task

KEY = stream_key(0, "test")
MASKS = ("text_mask", "object_mask", "target_mask")


def with_room(batch, more=0):
    """The batch with the least room that it fits into, and so much more per example."""
    rows = len(batch["mask"])
    needed = [max(1, -(-int(batch[mask].sum()) // rows)) for mask in MASKS]
    shapes = zip(ROOM_FIELDS, needed, strict=True)
    return batch | {name: np.zeros((rows, room + more), np.bool_) for name, room in shapes}


def with_padded_row(batch):
    """Row 1 is no example: everything of it is zero."""
    batch = {name: values.copy() for name, values in batch.items()}
    for values in batch.values():
        values[1] = 0
    return batch


def loss_and_gradient(task, params, batch):
    """Mean loss, losses of the targets, and the gradient, dropout on."""

    def mean(params):
        (total, count), aux = task.loss(params, batch, KEY)
        return total / count, aux["nll"]

    return quick_jit(jax.value_and_grad(mean, has_aux=True))(params)


def weights(task, batch):
    shapes = jax.eval_shape(lambda: task.init(KEY, batch))
    return randomise(jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes))


@pytest.mark.parametrize(
    ("name", "settings", "prepare"),
    [
        ("vlbert", {}, with_padded_row),
        ("vlbert", {"whole_image_object": True, "box_geometry": True}, dict),
        ("vlbert", {"dtype": "bfloat16"}, dict),
        ("lxmert", {}, with_padded_row),
        ("lxmert", {"profile": "release", "object_mask": True}, dict),
    ],
)
def test_packed_and_padded_batches_have_the_same_loss_and_gradient(name, settings, prepare):
    batch = prepare(tiny_batch(rows=6))
    task = make_masked_span_task(MODELS[name](dropout=0.2, **settings))
    params = weights(task, batch)
    (loss, nll), gradient = loss_and_gradient(task, params, batch)
    tolerance = 3e-2 if "dtype" in settings else 1e-5
    packed = with_room(batch, 1)
    (own_loss, own_nll), own_gradient = loss_and_gradient(task, params, packed)
    np.testing.assert_allclose(own_loss, loss, rtol=tolerance)
    np.testing.assert_allclose(own_nll, nll, rtol=tolerance, atol=tolerance)
    for own, expected in zip(*map(jax.tree.leaves, (own_gradient, gradient)), strict=True):
        scale = max(1e-3, float(jnp.abs(expected).max()))
        np.testing.assert_allclose(own / scale, expected / scale, atol=3 * tolerance)


@pytest.mark.parametrize("field", ROOM_FIELDS)
@pytest.mark.parametrize("name", MODELS)
def test_a_batch_without_room_gives_nan_and_no_wrong_number(name, field):
    batch = with_room(tiny_batch(rows=6))
    task = make_masked_span_task(MODELS[name](dropout=0.0))
    params = weights(task, batch)
    cramped = batch | {field: batch[field][:, 1:]}
    assert batch[field].shape[1] > 1
    (loss, _), _ = loss_and_gradient(task, params, cramped)
    assert np.isnan(loss)


def test_a_model_that_attends_empty_slots_does_not_pack():
    batch = tiny_batch(rows=6)
    for name in MODELS:
        task = make_masked_span_task(MODELS[name](dropout=0.2, object_mask=False))
        params = weights(task, batch)
        (loss, _), _ = loss_and_gradient(task, params, batch)
        (own, _), _ = loss_and_gradient(task, params, with_room(batch))
        assert own == loss


def test_packing_and_unpacking_are_each_others_transpose():
    batch = with_room(tiny_batch(rows=5), 1)
    text, objects = text_slots(batch), object_slots(batch, batch["object_mask"], attend_empty=False)
    ends = every_slot(np.ones((5, 1), np.bool_), text)
    for slots in (text, objects, target_slots(batch, text), joined(text, objects, ends)):
        states = jax.random.normal(KEY, (*slots.mask.shape, 3))
        there = slots.pack(states)
        assert there.shape == (1, len(slots.packing.source), 3)
        back = slots.unpack(there)
        np.testing.assert_array_equal(back[slots.mask], states[slots.mask])
        other = jax.random.normal(stream_key(1, "test"), there.shape)
        (pulled,) = jax.vjp(slots.pack, states)[1](other)
        taken = slots.packing.taken[None, :, None]
        np.testing.assert_allclose(
            (pulled * states).sum(), (other * there * taken).sum(), rtol=1e-5
        )
        (pulled,) = jax.vjp(slots.unpack, there)[1](states)
        np.testing.assert_allclose(
            (pulled * there).sum(), (states * back)[slots.mask].sum(), rtol=1e-5
        )
        assert not np.asarray(pulled)[0, ~np.asarray(slots.packing.taken)].any()
