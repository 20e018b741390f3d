"""Packing, the loss on answers alone, accumulation, the schedule, and how examples are read."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from models.tiny_models import quick_jit

from mmgen.algorithms.base import Feed
from mmgen.core.mesh import make_mesh, put_feed, put_replicated
from mmgen.core.optim import make_optimizer
from mmgen.core.state import TrainState
from mmgen.data.schema import IGNORE_ID
from mmgen.errors import UserError
from mmgen.models.lm import llama, lora
from mmgen.models.lm.config import from_hugging_face
from mmgen.prompting.finetuning.packing import (
    Encoded,
    PackedFeeds,
    pack,
    padded_shape,
    training_order,
)
from mmgen.prompting.finetuning.training import (
    Learner,
    answer_nll,
    example_losses,
    make_step,
    warm_up_cosine,
)

CONFIG = from_hugging_face(
    {
        "model_type": "llama",
        "vocab_size": 20,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 32,
    }
)
LEARNER = Learner(CONFIG, lora.LoraConfig(2, 4.0, 0.0, ("q_proj", "v_proj")))
EXAMPLES = [
    Encoded([1, 5, 6, 7, 8, 2], 3),
    Encoded([1, 9, 4, 2], 2),
    Encoded([1, 3, 3, 3, 11, 12, 13, 2], 4),
    Encoded([1, 15, 2], 2),
]
SHAPE = padded_shape(EXAMPLES, 32)


def random_tree(shapes, seed):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda s: 0.3 * rng.normal(size=s.shape).astype(np.float32), shapes)


@pytest.fixture(scope="module")
def frozen():
    return {"text": random_tree(llama.param_shapes(CONFIG), 0)}


@pytest.fixture(scope="module")
def adapters():
    return random_tree(lora.adapter_shapes(CONFIG, LEARNER.lora), 1)


def test_states_foretell_the_answers_tokens_and_nothing_else():
    batch = pack(EXAMPLES, [2, IGNORE_ID], SHAPE)
    assert SHAPE == (16, 4)
    assert batch["tokens"][0, :8].tolist() == [1, 3, 3, 3, 11, 12, 13, 0]
    assert batch["positions"][0, :8].tolist() == [0, 1, 2, 3, 4, 5, 6, llama.NOWHERE]
    assert batch["target_positions"][0].tolist() == [3, 4, 5, 6]
    assert batch["targets"][0].tolist() == [11, 12, 13, 2]
    assert batch["target_mask"][0].all() and not batch["target_mask"][1].any()
    assert batch["mask"].tolist() == [True, False]
    assert (batch["positions"][1] == llama.NOWHERE).all()


def test_a_prompt_that_is_too_long_is_refused_not_cut():
    with pytest.raises(UserError, match="8 tokens, more than"):
        padded_shape(EXAMPLES, 7)
    with pytest.raises(UserError, match="nothing to train on"):
        padded_shape([], 7)


def test_every_epoch_reads_every_example_in_another_order():
    order = training_order(8, 3, seed=1)
    epochs = order.reshape(3, 8)
    assert (np.sort(epochs) == np.arange(8)).all()
    assert (epochs[0] != epochs[1]).any()
    feeds = PackedFeeds(EXAMPLES * 2, order, 5, SHAPE)
    assert len(feeds) == 4
    np.testing.assert_array_equal(feeds[2].stream["ids"], order[10:15])


def test_nll_is_that_of_the_text_read_alone(frozen, adapters):
    batch = pack(EXAMPLES, [0, 1, 2, 3], SHAPE)
    nll = quick_jit(lambda f, a, b: answer_nll(LEARNER, f, a, b, None))(frozen, adapters, batch)

    def alone(tokens, start):
        ids = np.array([tokens[:-1]])
        hidden, _ = llama.forward(
            frozen["text"],
            CONFIG,
            llama.embed(frozen["text"], ids),
            np.arange(ids.shape[1])[None],
            adapter=lora.as_adapter(adapters, LEARNER.lora),
        )
        scores = jax.nn.log_softmax(llama.logits(frozen["text"], hidden)[0])
        return -np.array([scores[i - 1, tokens[i]] for i in range(start, len(tokens))])

    expected = alone(EXAMPLES[0].tokens, EXAMPLES[0].start)
    np.testing.assert_allclose(nll[0, :3], expected, atol=1e-5)
    assert (np.asarray(nll)[~batch["target_mask"]] == 0).all()
    means = example_losses(nll, batch)
    np.testing.assert_allclose(means[0], expected.mean(), atol=1e-5)


def make_state(adapters, optimizer):
    params = jax.tree.map(jnp.asarray, adapters)
    return TrainState(jnp.int32(0), params, jax.tree.map(jnp.asarray, optimizer.init(params)))


def test_accumulated_small_batches_are_one_large_one(frozen, adapters):
    optimizer = make_optimizer("adamw", 0.01)
    state, key = make_state(adapters, optimizer), jax.random.key(0)
    # A row without an example at the end: it must not count.
    feed = Feed(pack(EXAMPLES, [0, 1, 2, IGNORE_ID], SHAPE), side=frozen)
    results = [
        quick_jit(make_step(LEARNER, optimizer, size))(state, feed, key) for size in (1, 2, 4)
    ]
    for after, scalars in results[1:]:
        np.testing.assert_allclose(scalars["loss"], results[0][1]["loss"], rtol=1e-5)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5),
            after.params,
            results[0][0].params,
        )
    assert int(results[0][0].step) == 1


def test_a_frozen_model_on_the_mesh_is_not_moved(frozen):
    mesh = make_mesh(data=1)
    placed = jax.tree.map(lambda leaf: put_replicated(leaf, mesh), frozen)
    feed = put_feed(Feed(pack(EXAMPLES, [0], SHAPE), side=placed), mesh)
    leaves = zip(jax.tree.leaves(feed.side), jax.tree.leaves(placed), strict=True)
    assert all(mine is theirs for mine, theirs in leaves)


def test_the_rate_rises_then_falls_as_hugging_faces_does():
    rate = warm_up_cosine(2.0, steps=100, warm_up=0.1)
    peak = [float(rate(jnp.int32(step))) for step in (0, 5, 10, 55, 100)]
    np.testing.assert_allclose(peak, [0.0, 1.0, 2.0, 1.0, 0.0], atol=1e-6)
    assert float(warm_up_cosine(2.0, 100, 0.0)(jnp.int32(0))) == 2.0
    reference = optax.warmup_cosine_decay_schedule(0.0, 2.0, math.ceil(75 * 0.01), 75)
    ours = warm_up_cosine(2.0, 75, 0.01)
    for step in (0, 1, 2, 40, 74):
        assert float(ours(jnp.int32(step))) == pytest.approx(float(reference(step)), abs=1e-6)
