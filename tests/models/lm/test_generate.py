"""Generation: what Hugging Face writes, and the same whatever else is asked at the same time."""

import dataclasses
import functools
import pathlib
import random

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models.lm.tiny_lm import open_tiny, quick_programs

from mmgen.models.lm import generate as generation
from mmgen.models.lm.buckets import batches, bucket
from mmgen.models.lm.generate import Prompt, generate
from mmgen.models.lm.sampling import draws, sample

FIXTURE = pathlib.Path(__file__).parents[2] / "fixtures" / "lm.npz"


@pytest.fixture(scope="module", autouse=True)
def quick():
    with quick_programs():
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return open_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def prompts():
    """Prompts of one and of several buckets, greedy and drawn."""
    rng = np.random.default_rng(3)
    return [
        Prompt(
            rng.integers(3, 33, length).astype(np.int32),
            max_tokens=limit,
            temperature=temperature,
            top_p=0.8,
            seed=17 + length,
        )
        for length, limit, temperature in (
            (3, 16, 0.0),
            (9, 16, 1.5),
            (16, 5, 1.0),
            (17, 9, 0.7),
            (20, 1, 0.0),
            (4, 9, 1.0),
        )
    ]


def texts(model, prompts, rows):
    answers = dict(generate(model, prompts, rows))
    return [(answers[i].text, answers[i].tokens) for i in range(len(prompts))]


def endless(model):
    """The model without a token that ends texts, as the fixture was made."""
    return model._replace(config=dataclasses.replace(model.config, eos=()))


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_greedy_answers_are_hugging_faces(name, tmp_path):
    stored = np.load(FIXTURE)
    model = endless(open_tiny(tmp_path, name))
    wanted = stored[f"{name}/greedy"]
    # Beside a shorter prompt, so that padding differs.
    rows = [*stored["tokens"], stored["tokens"][0][:-7]]
    asked = [Prompt(row.astype(np.int32), wanted.shape[1]) for row in rows]
    answers = texts(model, asked, 4)
    for row, greedy in enumerate(wanted):
        assert answers[row] == (model.tokenizer.decode(greedy), len(greedy))


def test_company_order_and_batch_size_change_no_answer(model, prompts):
    model = endless(model)
    together = texts(model, prompts, 4)
    assert [count for _, count in together] == [p.max_tokens for p in prompts]
    order = list(range(len(prompts)))
    random.Random(1).shuffle(order)
    assert texts(model, [prompts[i] for i in order], 4) == [together[i] for i in order]
    assert [texts(model, [prompt], 4)[0] for prompt in prompts] == together
    assert texts(model, prompts, 1) == together


def test_another_seed_draws_another_answer(model, prompts):
    prompt = prompts[1]
    answers = texts(endless(model), [prompt._replace(seed=seed) for seed in range(4)], 4)
    assert len(set(answers)) == 4


def test_a_text_ends_at_a_stop_string(model, prompts):
    model = endless(model)
    whole, _ = texts(model, prompts[1:2], 4)[0]
    stop = whole[5:7]
    stopped = prompts[1]._replace(stop=("never", stop))
    text, tokens = texts(model, [stopped], 4)[0]
    assert text == whole[: whole.index(stop)]
    assert 0 < tokens < prompts[1].max_tokens


def test_an_answer_counts_the_tokens_that_ended_it(model, prompts):
    tokens = model.tokenizer.encode("the cat. the end", rendered=True)
    cut = functools.partial(generation._cut, model)
    # "th" is one token; ". " is complete with the eighth.
    stopping = prompts[0]._replace(stop=("zoo", ". "))
    assert tokens[:1] == [33]
    assert cut(stopping, tokens) == ("the cat", 8, True)
    assert cut(stopping, tokens[:7]) == ("the cat.", 7, False)
    assert cut(prompts[0], [*tokens, 2]) == ("the cat. the end", len(tokens) + 1, False)


def test_a_text_ends_at_the_end_token(model, prompts):
    whole, _ = texts(endless(model), prompts[1:2], 4)[0]
    end = model.tokenizer.encode(whole, rendered=True)[4]
    ending = model._replace(config=dataclasses.replace(model.config, eos=(2, end)))
    text, tokens = texts(ending, prompts[1:2], 4)[0]
    assert text == whole[: len(text)] and tokens <= 5
    assert model.tokenizer.decode([end]) not in text


def test_nothing_is_compiled_anew_for_lengths_of_one_bucket(model, prompts):
    model = endless(model)
    texts(model, prompts[:1], 4)
    counts = generation._read._cache_size(), generation._write._cache_size()
    for length in (2, 5, 16):
        ids = np.arange(3, 3 + length, dtype=np.int32)
        texts(model, [Prompt(ids, 11, temperature=1.0, top_p=0.5, seed=length)], 4)
    assert (generation._read._cache_size(), generation._write._cache_size()) == counts


def test_embeddings_in_place_of_tokens_give_the_same_answer(model, prompts):
    table = np.asarray(model.params["embedding"])
    embedded = [prompt._replace(inputs=table[prompt.inputs]) for prompt in prompts[:2]]
    assert texts(endless(model), embedded, 4) == texts(endless(model), prompts[:2], 4)


def test_draws_follow_the_nucleus():
    probabilities = np.array([0.05, 0.4, 0.0, 0.3, 0.2, 0.05], np.float32)
    count = 2000
    tokens = jax.jit(sample)(
        np.broadcast_to(np.log(np.maximum(probabilities, 1e-30)), (count, 6)),
        np.ones(count, np.float32),
        np.full(count, 0.75, np.float32),
        np.array([draws(seed, 1)[0] for seed in range(count)]),
    )
    shares = np.bincount(tokens, minlength=6) / count
    np.testing.assert_allclose(shares, np.array([0, 0.4, 0, 0.3, 0.2, 0]) / 0.9, atol=0.04)
    assert shares[0] == shares[2] == shares[5] == 0


@pytest.mark.parametrize(("top_p", "kept"), [(0.0, {1}), (0.41, {1, 3}), (1.0, {0, 1, 3, 4, 5})])
def test_every_draw_is_a_token_that_was_kept(top_p, kept):
    logits = np.log(np.array([0.05, 0.4, 1e-38, 0.3, 0.2, 0.05], np.float32))
    edges = np.array([2.0**-24, 1.0, *np.linspace(0.01, 1, 98)], np.float32)
    tokens = jax.jit(sample)(
        np.broadcast_to(logits, (100, 6)),
        np.ones(100, np.float32),
        np.full(100, top_p, np.float32),
        edges,
    )
    assert set(np.asarray(tokens).tolist()) == kept


@given(st.integers(1, 5000), st.sampled_from([1, 16]))
def test_buckets_hold_what_they_are_for_and_little_more(length, smallest):
    size = bucket(length, smallest)
    assert size >= length and bucket(size, smallest) == size
    assert size == smallest or size <= max(length * 1.5, length + 1)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 3), max_size=20), st.integers(1, 5))
def test_batches_hold_every_item_once_and_one_shape_each(shapes, rows):
    found = list(batches(shapes, lambda shape: shape, rows))
    assert sorted(row for batch in found for row in batch) == list(range(len(shapes)))
    assert all(len({shapes[row] for row in batch}) == 1 <= len(batch) <= rows for batch in found)
