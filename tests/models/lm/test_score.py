"""Choices scored behind a shared prefix: what reading each text from the start gives."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.lm.tiny_lm import open_tiny, quick_programs
from models.tiny_models import QUICK

from mmgen.models.lm import llama
from mmgen.models.lm.score import Candidates, score, split_choices

ITEMS = [
    Candidates(np.arange(4, 12, dtype=np.int32), ((5,), (6, 7, 8), (5, 6), (30, 31, 4, 4))),
    Candidates(np.arange(9, 31, dtype=np.int32), ((9,), (10,), (11,), (12,))),
    Candidates(np.array([1], np.int32), ((9, 20, 21), (10,), (11,), (12,))),
    Candidates(np.arange(9, 31, dtype=np.int32), ((3, 3), (4, 4, 4, 4, 5))),
]


@pytest.fixture(scope="module", autouse=True)
def quick():
    with quick_programs():
        yield


@functools.partial(jax.jit, static_argnums=1, compiler_options=QUICK)
def all_logs(params, config, ids):
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1]), ids.shape)
    hidden, _ = llama.forward(params, config, llama.embed(params, ids), positions)
    return jax.nn.log_softmax(llama.logits(params, hidden))


def from_the_start(model, prefix, choice):
    """Log-probability of a choice by reading prefix and choice as one text."""
    ids = np.zeros((1, 32), np.int32)  # what comes later changes nothing
    ids[0, : len(prefix) + len(choice)] = [*prefix, *choice]
    logs = all_logs(model.params, model.config, ids)[0]
    return sum(float(logs[len(prefix) - 1 + i, token]) for i, token in enumerate(choice))


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_scores_equal_a_full_pass_over_every_choice(name, tmp_path):
    model = open_tiny(tmp_path, name)
    scored = dict(score(model, ITEMS, 2))
    for index, item in enumerate(ITEMS):
        wanted = [from_the_start(model, item.prefix, choice) for choice in item.choices]
        np.testing.assert_allclose(scored[index].sums, wanted, atol=1e-4)


def test_company_and_order_change_no_score(tmp_path):
    model = open_tiny(tmp_path)
    together = {index: one.sums for index, one in score(model, ITEMS, 4)}
    backwards = {index: one.sums for index, one in score(model, ITEMS[::-1], 4)}
    assert together == {len(ITEMS) - 1 - index: sums for index, sums in backwards.items()}
    alone = [next(score(model, [item], 4))[1].sums for item in ITEMS]
    assert alone == [together[index] for index in range(len(ITEMS))]


def test_a_choice_that_merges_with_the_prompt_moves_the_border_for_all():
    # "say t" + "hen" is one token "th" where the prompt ends; "say t" + "oo" is not.
    prompt, merged, plain = (1, 4, 22), (1, 4, 33, 7), (1, 4, 22, 17, 17)
    assert split_choices(prompt, [merged, plain]) == (2, ((33, 7), (22, 17, 17)))
    assert split_choices(prompt, [plain, (1, 4, 22, 9)]) == (3, ((17, 17), (9,)))
    # What choices share beyond the prompt still counts as theirs.
    assert split_choices(prompt, [(1, 4, 22, 9, 8), (1, 4, 22, 9, 7)])[1] == ((9, 8), (9, 7))
