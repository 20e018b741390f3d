"""Room for what exists of a batch: that it suffices, and that it is the cheapest."""

import itertools

import numpy as np
import pytest
from data.small_split import LARGE, ROWS, split, store
from data.test_pipeline import BATCH, DRAWS, make_plan_like, make_source
from hypothesis import given
from hypothesis import strategies as st

from mmgen.data.buckets import Bucket
from mmgen.data.room import OVERFLOW_COST, room_needed, with_room
from mmgen.data.schema import IGNORE_ID
from mmgen.memory.live import Drawn

__all__ = ["split", "store"]

SMALL_TO_LARGE = (Bucket(12, 2), Bucket(16, 4), LARGE)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_any_rows_that_a_pass_may_pick_fit(seed, pick):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 30, (20, 3))
    batches = [rng.integers(IGNORE_ID, 20, (2, 4)), rng.integers(IGNORE_ID, 20, (2, 6))]
    needed = room_needed(sizes, batches, (4, pick))
    for step, axis in itertools.product(range(2), range(3)):
        most = 1
        for rows, alone in ((batches[0][step], 4), (batches[1][step], pick)):
            own = [0 if row == IGNORE_ID else int(sizes[row, axis]) for row in rows]
            most = max(most, *(-(-sum(s) // alone) for s in itertools.combinations(own, alone)))
        assert needed[step, axis] == most


@pytest.mark.parametrize("seed", range(3))
def test_the_room_is_the_cheapest(seed):
    rng = np.random.default_rng(seed)
    needed = rng.integers([4, 2, 1], [8, 6, 5], (40, 3))
    padded = rng.integers(0, 3, 40)

    def cost(room):
        fits = (needed <= room).all(axis=1)
        overflow = (~fits).sum() + OVERFLOW_COST * (~fits).any()
        return fits.sum() * (1 + sum(room)) + overflow * (LARGE.positions + 8)

    found = with_room(SMALL_TO_LARGE, padded, needed, 8)
    rooms = itertools.product(range(4, 8), range(2, 6), range(1, 5))
    assert cost(found[0].room) == min(map(cost, rooms))
    room = found[0].room
    packed = tuple(bucket._replace(room=room) for bucket in SMALL_TO_LARGE[1:])
    everything = (needed <= room).all()
    assert found == (packed if everything else (*packed, LARGE))
    assert with_room(SMALL_TO_LARGE, padded, needed, 8, complete=False) == (*packed, LARGE)


def test_batches_without_padding_are_not_packed():
    needed = np.tile([LARGE.text, LARGE.objects, 3], (5, 1))
    assert with_room((LARGE,), np.zeros(5, int), needed, 3) == (LARGE,)


@pytest.mark.parametrize("picks", [(), (2, 1)])
def test_packed_feeds_have_room_for_what_they_hold(split, store, picks):
    plan = make_plan_like(ROWS // BATCH)
    source = make_source(split, store, plan=plan, least_saved=0.0, picks=picks)
    assert source.packs
    assert not make_source(split, store, plan=plan).packs
    seen = set()
    for step in range(len(source)):
        feed, bucket = source[step], source.buckets[source.bucket_index[step]]
        seen.add(bucket.room is not None)
        assert feed.stream["tokens"].shape[1] == bucket.text
        batches = (feed.stream, *feed.replay)
        for batch, alone in zip(batches, (BATCH, *(picks or DRAWS)), strict=True):
            assert ("text_room" in batch) == (bucket.room is not None)
            for kind, room in zip(("text", "object", "target"), bucket.room or (), strict=False):
                exist = np.sort(batch[f"{kind}_mask"].sum(axis=1))
                assert exist[-alone:].sum() <= alone * room
                assert batch[f"{kind}_room"].shape == (len(exist), room)
    assert True in seen


def test_rows_drawn_during_training_are_packed_where_they_fit(split, store):
    live = make_source(split, store, draws=DRAWS, least_saved=0.0)
    step = int(np.flatnonzero(live.bucket_index == 0)[0])
    lengths = np.argsort(np.diff(split.columns["token_start"]))
    for row, packs in ((lengths[0], True), (lengths[-1], False)):
        drawn = Drawn(*(tuple(np.full(k, fill, np.int32) for k in DRAWS) for fill in (row, 0)))
        feed = live.with_replay(step, drawn)
        for batch in (feed.stream, *feed.replay):
            assert ("text_room" in batch) == packs
