"""Key frames: by most object proposals (A.3.1), or in the middle."""

import json

import pytest

from mmgen.data.compact.keyframes import (
    Span,
    clip_span,
    most_proposals,
    nearest,
    read_proposals,
)
from mmgen.errors import UserError


@pytest.mark.parametrize(
    ("counts", "frame"),
    [
        ({4: 1, 9: 3, 11: 2}, 9),
        # Of several the nearest to the middle (7), the earlier of two.
        ({3: 3, 6: 3, 11: 3}, 6),
        ({6: 3, 8: 3}, 6),
        ({5: 2, 12: 9, 2: 9}, 5),
        ({5: 0}, None),
        ({}, None),
    ],
)
def test_the_frame_with_the_most_proposals(counts, frame):
    assert most_proposals(Span(3, 11), counts) == frame


def test_the_middle_frame_that_there_is():
    assert nearest(Span(3, 11), lambda frame: True) == 7
    assert nearest(Span(3, 10), lambda frame: True) == 6
    assert nearest(Span(3, 11), {3, 10, 20}.__contains__) == 10
    assert nearest(Span(3, 11), {2, 12}.__contains__) is None


def test_real_detections_of_a_real_clip(real, real_data):
    clip = next(one for one in real[0].clips if one.narration_id == "P01_01_0")
    span = clip_span(clip, 30.0)
    # The frames that the sample says narration 0 has.
    assert span == Span(4, 101)
    path = real_data / "epic_frames_sample" / "P01_01_detections.jsonl"
    counts = read_proposals(path)
    assert len(counts) == 100
    assert sum(counts.values()) == 357
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    most = max(len(row["detections"]) for row in rows if row["frame"] >= 4)
    frame = most_proposals(span, counts)
    assert counts[frame] == most
    others = [f for f, count in counts.items() if count == most and 4 <= f <= 101]
    assert all(abs(frame - 52.5) <= abs(other - 52.5) for other in others)
    confident = read_proposals(path, threshold=0.5)
    assert sum(confident.values()) < 357
    assert set(confident) == set(counts)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"frame": 1}', "is no frame with detections"),
        ('{"frame": "1", "detections": []}', "expected a frame number"),
        ('{"frame": 1, "detections": [[1, 2, 3]]}', "expected a frame number and detections"),
        ("[1]", "is no frame with detections"),
        ("{", "is no JSON"),
        ('{"frame": 7, "detections": []}', "frame 7 comes twice"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, complaint):
    path = tmp_path / "detections.jsonl"
    path.write_text('{"frame": 7, "detections": []}\n' + line + "\n")
    with pytest.raises(UserError, match=complaint) as caught:
        read_proposals(path)
    assert "detections.jsonl:2" in str(caught.value)
