"""Joined texts, and the published instances field by field."""

import json

import pytest

from mmgen.data.compact.epic_csv import Clip
from mmgen.data.compact.samples import FIELDS, make_instance
from mmgen.data.compact.text import joined_narration, joined_noun, joined_verb
from mmgen.data.compact.windows import WindowRules, find_windows


def joined(narration, verb, *nouns):
    times, frames = ("00:00:00.10", "00:00:01.00"), (5, 50)
    return joined_narration(
        Clip("P_1", "P", 1, *times, *frames, narration, verb, 0, nouns[0], 0, nouns, False)
    )


@pytest.mark.parametrize(
    ("narration", "verb", "nouns", "expected"),
    [
        ("pick up chopping board", "pick-up", ["board:chopping"], "pick_up chopping_board"),
        ("scrape pepper into pan", "scrape-into", ["pepper", "pan"], "scrape pepper into pan"),
        ("put pan in drainer", "put-in", ["pan", "drainer"], "put pan in drainer"),
        ("put down spring onions", "put-down", ["onion:spring"], "put_down spring_onions"),
        ("wash curry leaves", "wash", ["leaf:curry"], "wash curry_leaves"),
        ("pick up pan from sink", "pick-up", ["pan", "sink"], "pick_up pan from sink"),
        ("put sun dried tomatoes", "put", ["tomato:sun:dried"], "put sun_dried_tomatoes"),
        ("take oil and olive oil", "take", ["oil", "oil:olive"], "take oil and olive_oil"),
        ("move lid of pan", "move", ["lid:pan"], "move lid of pan"),
    ],
)
def test_words_of_several_parts_are_joined_where_they_stand(narration, verb, nouns, expected):
    assert joined(narration, verb, *nouns) == expected


def test_target_words_are_joined():
    assert joined_verb("pick-up") == "pick_up"
    assert joined_noun("board:chopping") == "chopping_board"
    assert joined_noun("tomato:sun:dried") == "sun_dried_tomato"


def test_the_published_instances_come_out_field_by_field(real, real_data):
    annotations, table = real
    windows = find_windows(table, WindowRules())
    files = sorted((real_data / "compact_samples").glob("*.json"))
    assert len(files) == 3
    wanted = {path.stem: json.loads(path.read_text()) for path in files}
    ours = {}
    for clips in windows.clips.tolist():
        if table.clips[clips[0]].video_id in {name.partition("+")[0] for name in wanted}:
            instance = make_instance([annotations.clips[row] for row in clips])
            ours[instance["key"]] = instance
    for name, published in wanted.items():
        assert set(published) == set(FIELDS)
        for field, value in published.items():
            assert ours[name][field] == value, (name, field)
