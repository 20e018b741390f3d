"""Reading csv files: every fault is one sentence with its place, or is skipped and counted."""

import gzip
import re

import pytest
from tiny_epic import COLUMNS, NOUNS, VERBS, clip_row, write_classes, write_csv, write_raw

from mmgen.data.builders.compact import read_raw
from mmgen.data.compact.classes import read_classes
from mmgen.data.compact.windows import ClipTable, WindowRules, find_windows
from mmgen.errors import UserError

GOOD = [clip_row("P01_01", n, "take", "cup") for n in range(6)]
OPEN = WindowRules(distinct="none", shared="none")


def changed(number, **fields):
    return [row | fields if n == number else row for n, row in enumerate(GOOD)]


FAULTS = {
    "start_timestamp": ({"start_timestamp": "12.5"}, "is not HH:MM:SS", "bad timestamps"),
    "stop before start": ({"stop_timestamp": "00:00:00.10"}, "is not before", "bad timestamps"),
    "frames": ({"stop_frame": "7"}, "is not before stop_frame 7", "bad frames"),
    "frame word": ({"stop_frame": "x"}, "stop_frame 'x' is no integer", "bad frames"),
    "verb class": ({"verb_class": "97"}, "verb_class 97 is not in", "unknown classes"),
    "noun class": ({"noun_class": "-1"}, "noun_class -1 is not in", "unknown classes"),
    "all classes": ({"all_noun_classes": "[99]"}, "all_noun_classes 99", "unknown classes"),
    "empty noun": ({"noun": ""}, "noun is empty", "empty nouns"),
    "empty nouns": ({"all_nouns": "[]"}, "all_nouns is empty", "empty nouns"),
    "no list": ({"all_nouns": "cup"}, "all_nouns is empty or no list", "empty nouns"),
    "other nouns": ({"all_nouns": "['tap']"}, "do not fit noun 'cup'", "empty nouns"),
    "narration": ({"narration": " "}, "narration is empty", "empty narrations or verbs"),
    "unknown": (
        {"narration": "take [UNK] cup"},
        r"holds '\[UNK\]', which means",
        "reserved words",
    ),
    "padding": ({"narration": "[PAD]"}, r"holds '\[PAD\]', which means", "reserved words"),
    "separator": ({"narration": "take . cup"}, r"holds '\.', which means", "reserved words"),
    "narration id": ({"narration_id": "P02_01_2"}, "is not video_id", "bad narration ids"),
    "twice": ({"narration_id": "P01_01_1"}, "stands in train.csv:3", "duplicate narration ids"),
}


@pytest.mark.parametrize(("fields", "complaint", "kind"), FAULTS.values(), ids=FAULTS)
def test_a_faulty_row_is_refused_or_skipped_and_counted(tmp_path, fields, complaint, kind):
    raw = write_raw(tmp_path / "raw", changed(2, **fields))
    with pytest.raises(UserError, match=complaint) as caught:
        read_raw(raw, strict=True)
    assert "train.csv:4: " in str(caught.value)
    assert "--strict=false" in str(caught.value)
    assert "\n" not in str(caught.value)
    annotations, _ = read_raw(raw, strict=False)
    assert annotations.skipped == {kind: 1}
    assert re.search(complaint, annotations.faults[kind])
    assert sum(clip.usable for clip in annotations.clips) == 5


def test_no_window_reaches_across_a_skipped_row(tmp_path):
    raw = write_raw(tmp_path / "raw", changed(2, noun=""))
    table = ClipTable(read_raw(raw, strict=False)[0].clips)
    assert len(find_windows(table, OPEN)) == 0
    whole = ClipTable(read_raw(write_raw(tmp_path / "whole", GOOD), strict=True)[0].clips)
    assert len(find_windows(whole, OPEN)) == 3


def windows_without(tmp_path, number, order, **fields):
    """Narration numbers of the windows that a skipped row leaves."""
    rows = [clip_row("P01_01", n, "take", "cup") for n in range(12)]
    rows[number] |= fields
    raw = write_raw(tmp_path / "raw", rows)
    table = ClipTable(read_raw(raw, strict=False)[0].clips)
    windows = find_windows(table, OPEN._replace(order=order))
    return [[table.clips[row].number for row in window] for window in windows.clips.tolist()]


UNPLACED = {
    "no frame": {"start_frame": "x"},
    "no number": {"narration_id": "P01_01-5"},
    "id of another video": {"narration_id": "P07_01_5"},
    "video of another id": {"video_id": "P07_01"},
    "neither": {"start_frame": "x", "narration_id": "P01_01-5"},
    "nothing": {"start_frame": "x", "narration_id": "", "video_id": ""},
    "id of a row before": {"narration_id": "P01_01_1"},
}


@pytest.mark.parametrize("order", ["start_frame", "narration_id"])
@pytest.mark.parametrize("fields", UNPLACED.values(), ids=UNPLACED)
def test_no_window_reaches_across_a_row_whose_place_is_told_in_part(tmp_path, fields, order):
    left = [list(range(n, n + 4)) for n in (0, 1, 6, 7, 8)]
    assert windows_without(tmp_path, 5, order, **fields) == left


def test_a_gap_keeps_to_the_order_that_its_row_tells(tmp_path):
    # Narration 7 starts later than narration 8: by start frame, 8 stands before 7.
    rows = [clip_row("P01_01", n, "take", "cup") for n in range(12)]
    rows[7] |= {"start_frame": "870", "stop_frame": "890"}
    rows[8] |= {"start_frame": "x"}
    table = ClipTable(read_raw(write_raw(tmp_path / "raw", rows), strict=False)[0].clips)
    assert all(
        not {7, 9} <= {table.clips[row].number for row in window}
        for window in find_windows(table, OPEN).clips.tolist()
    )


def test_a_repeated_row_leaves_the_windows_of_the_first(tmp_path):
    raw = write_raw(tmp_path / "raw", [*GOOD, GOOD[2]])
    table = ClipTable(read_raw(raw, strict=False)[0].clips)
    assert len(find_windows(table, OPEN)) == 3


def test_gaps_are_no_clips_of_a_video(tmp_path):
    short = [clip_row("P02_01", n, "take", "cup") for n in range(4)]
    raw = write_raw(tmp_path / "raw", [*GOOD, *short[:3], short[3] | {"start_frame": "x"}])
    assert ClipTable(read_raw(raw, strict=False)[0].clips).short_videos == ["P02_01"]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("narration", ["take\ncup", "take\r\ncup"])
def test_a_record_over_several_lines_is_refused_with_its_first_line(tmp_path, narration, strict):
    raw = write_raw(tmp_path / "raw", changed(2, narration=narration))
    with pytest.raises(UserError, match=r"train\.csv:4: a quote that is not closed"):
        read_raw(raw, strict=strict)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("number", [2, 5])
def test_an_open_quote_is_refused_where_it_stands(tmp_path, number, strict):
    raw = write_raw(tmp_path / "raw", GOOD)
    lines = (raw / "train.csv").read_text().splitlines()
    lines[number + 1] = lines[number + 1].replace("take", '"take', 1)
    (raw / "train.csv").write_text("\n".join(lines))
    with pytest.raises(UserError, match=rf"train\.csv:{number + 2}: a quote that is not closed"):
        read_raw(raw, strict=strict)


def test_a_row_with_too_few_fields_is_named(tmp_path):
    raw = write_raw(tmp_path / "raw", GOOD)
    with (raw / "train.csv").open("a") as file:
        file.write("P01_01_9,P01\n")
    with pytest.raises(UserError, match=r"train\.csv:8: the number of fields"):
        read_raw(raw, strict=True)
    assert sum(clip.usable for clip in read_raw(raw, strict=False)[0].clips) == 6


@pytest.mark.parametrize("strict", [True, False])
def test_a_missing_column_is_always_refused(tmp_path, strict):
    raw = write_raw(tmp_path / "raw")
    write_csv(raw / "train.csv", GOOD, [name for name in COLUMNS if name != "all_nouns"])
    with pytest.raises(UserError, match=r"train\.csv:1: column all_nouns is missing"):
        read_raw(raw, strict=strict)


def test_files_without_rows_are_refused(tmp_path):
    raw = write_raw(tmp_path / "raw", [])
    with pytest.raises(UserError, match="no row to use"):
        read_raw(raw, strict=True)
    (raw / "train.csv").write_text("")
    with pytest.raises(UserError, match="column narration_id"):
        read_raw(raw, strict=True)
    (raw / "train.csv").unlink()
    with pytest.raises(UserError, match=r"EPIC_100_train\.csv or .* is missing"):
        read_raw(raw, strict=True)


def test_a_truncated_archive_is_refused(tmp_path):
    raw = write_raw(tmp_path / "raw")
    data = gzip.compress((raw / "train.csv").read_bytes())
    (raw / "train.csv").unlink()
    (raw / "train.csv.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError, match=r"train\.csv\.gz cannot be read"):
        read_raw(raw, strict=False)


def test_lists_of_another_csv_are_refused(tmp_path):
    raw = write_raw(tmp_path / "raw")
    write_classes(raw / "noun_classes.csv", dict(reversed(NOUNS.items())))
    with pytest.raises(UserError, match=r"nouns of .* rows are not in the class"):
        read_raw(raw, strict=True)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["id,key"], ":1: column instances is missing"),
        (["id,key,instances", "1,tap,['tap']"], ":2: class id '1', expected 0"),
        (["id,key,instances", "0,tap,tap"], ":2: instances are 'tap'"),
        (["id,key,instances", "0,tap,\"['tap',", "'tab']\""], ":2: a quote that is not closed"),
        (
            ["id,key,instances", "0,tap,['tap']", "1,cup,\"['cup', 'tap']\""],
            ":3: 'tap' is in class 0, too",
        ),
        (["id,key,instances"], "has no class"),
    ],
)
def test_a_damaged_class_list_is_one_sentence(tmp_path, lines, complaint):
    path = tmp_path / "classes.csv"
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(UserError, match=complaint) as caught:
        read_classes(path)
    assert "classes.csv" in str(caught.value)


def test_classes_are_found_by_name_and_by_string(tmp_path):
    classes = read_classes(write_classes(tmp_path / "verbs.csv", VERBS))
    assert classes.keys == tuple(VERBS)
    assert classes.class_of["pick-up"] == classes.class_of["take"] == 0


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    raw = write_raw(tmp_path / "raw", GOOD)
    text = (raw / "train.csv").read_text()
    (raw / "train.csv").write_text("\ufeff" + text)
    assert len(read_raw(raw, strict=True)[0].clips) == 6


def test_guessed_rows_stand_in_a_file_of_their_own(tmp_path):
    raw = write_raw(tmp_path / "raw", GOOD[:4])
    write_csv(raw / "train_unverified.csv", GOOD[4:])
    annotations, paths = read_raw(raw, strict=True)
    assert [clip.guessed for clip in annotations.clips] == [False] * 4 + [True] * 2
    assert len(paths) == 4
    table = ClipTable(annotations.clips)
    assert len(find_windows(table, OPEN)) == 3
    assert len(find_windows(table, OPEN._replace(guessed="drop"))) == 1
    write_csv(raw / "train_unverified.csv", GOOD[3:])
    with pytest.raises(UserError, match=r"train_unverified\.csv:2: .* stands in train\.csv:5"):
        read_raw(raw, strict=True)
