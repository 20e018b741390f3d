"""Packed iterations are those of padded batches, whatever part of them a pass reads."""

import jax
import numpy as np
from models.tiny_models import quick_jit

from mmgen.benchmark.subjects import make_subject
from mmgen.benchmark.workload import host_store, make_workload
from mmgen.core.rng import stream_key
from mmgen.data.buckets import Bucket

STEPS = 10


def test_the_candidates_that_mir_picks_have_room():
    workload = make_workload(
        30, 4 * STEPS, feature_dim=8, pieces=30, word_rows=50, longest=21, most_objects=12
    )
    store = host_store(workload)

    def run(packs):
        subject = make_subject(
            workload,
            algorithm="mir",
            size="smoke",
            batch_size=4,
            capacity=20,
            buckets=(Bucket(24, 12),),
            store=store,
            packing="on" if packs else "off",
            settings={"candidates": 12, "replay_size": 3},
        )
        packed = [subject.buckets[index].room is not None for index in subject.feeds.bucket_index]
        assert any(packed) == packs
        state = quick_jit(subject.init)(stream_key(0, "init"))
        step = quick_jit(subject.algorithm.step)
        for number in range(STEPS):
            state, scalars = step(state, subject.feeds[number], stream_key(0, "step", number))
            assert np.isfinite(scalars["loss"])
        return state

    for own, expected in zip(*map(jax.tree.leaves, (run(True), run(False))), strict=True):
        np.testing.assert_allclose(own, expected, rtol=1e-3, atol=1e-4)
