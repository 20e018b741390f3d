"""The whole build of a small csv: files, bytes, report, and what goes wrong."""

import hashlib
import json
import sys

import numpy as np
import pytest
from tiny_epic import COLUMNS, clip_row, rows, write_csv, write_raw

from mmgen.data.build import build, main
from mmgen.data.builders.compact import DEFAULTS, dataset_name, make_recipe
from mmgen.data.builders.request import BuildRequest
from mmgen.data.compact.dataset import is_epic, open_compact, verify_compact
from mmgen.data.compact.facts import seed_facts
from mmgen.data.compact.samples import FIELDS
from mmgen.data.compact.splits import SplitSettings
from mmgen.errors import UserError

SMALL = {"sizes": [60, 20, 20], "atom_limit": 0.2, "report_seeds": 0, "figures": False}
FULL = {"report_seeds": 2, "figures": True}
COMMAND = ["--sizes=[60,20,20]", "--atom-limit=0.2", "--report-seeds=0", "--figures=false"]


def small(raw, out, seed=0, **settings):
    return build(BuildRequest("compact", out, raw, data_seed=seed, settings=SMALL | settings))


def bytes_of(root):
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A build with its whole report, for reading only."""
    folder = tmp_path_factory.mktemp("full")
    return small(write_raw(folder / "raw"), folder / "out", **FULL)


@pytest.fixture
def built(raw, tmp_path):
    return small(raw, tmp_path / "out")


def test_what_was_built_is_read_back(built):
    assert built.root.name == built.info["name"] == "compact_mcd_atom-limit-0.2_n60-20-20"
    assert {name: len(built.split(name)) for name in built.info["splits"]} == {
        "train": 60,
        "validation": 20,
        "test": 20,
    }
    one = built.split("test")[0]
    assert tuple(one) == FIELDS
    assert one["src"] == " . ".join(one[name] for name in ("src1", "src2", "src3"))
    assert built.verbs.class_of["pick-up"] == 0
    assert len(built.nouns) == 6
    assert built.unseen("test").all()
    assert not built.unseen("train").any()
    verify_compact(open_compact(built.root))


def test_building_twice_gives_the_same_bytes(raw, tmp_path, full):
    again = small(raw, tmp_path / "again", **FULL)
    assert bytes_of(again.root) == bytes_of(full.root)
    assert "report.md" in bytes_of(full.root)
    assert "figures/distributions.png" in bytes_of(full.root)
    assert small(raw, tmp_path / "bare").info["fingerprint"] == full.info["fingerprint"]
    other = small(raw, tmp_path / "other", seed=1)
    assert other.info["fingerprint"] != full.info["fingerprint"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"target_dc": 0.6}, "compact_mcd_dc0.6_atom-limit-0.2_n60-20-20"),
        ({"split": "resplit", "name": "mine"}, "mine_resplit_atom-limit-0.2_n60-20-20"),
        (
            {"group": "video", "shared": "noun"},
            "compact_mcd_group-video_atom-limit-0.2_shared-noun_n60-20-20",
        ),
        ({"sizes": [50, 30, 20]}, "compact_mcd_atom-limit-0.2_n50-30-20"),
        ({"atom_limit": 0.3}, "compact_mcd_atom-limit-0.3_n60-20-20"),
        ({"strict": False}, "compact_mcd_atom-limit-0.2_n60-20-20_lenient"),
    ],
)
def test_the_name_tells_the_choices(raw, tmp_path, settings, name):
    dataset = small(raw, tmp_path / "out", **settings)
    assert dataset.root.name == name


def test_the_names_of_default_data_sets_are_short():
    for settings, name in (
        ({}, "compact_mcd"),
        ({"target_dc": 0.6}, "compact_mcd_dc0.6"),
        ({"split": "random_by_video"}, "compact_random_by_video"),
    ):
        assert dataset_name("compact", make_recipe(DEFAULTS | settings, 0)) == name


def test_the_report_holds_every_table(full):
    facts = json.loads((full.root / "report.json").read_text())
    text = (full.root / "report.md").read_text()
    assert facts["windows"]["windows"] == 347
    assert f"| target noun among all nouns of the inputs | {347} |" in text
    chosen = [rule for rule in facts["rules"] if rule["chosen"]]
    assert len(chosen) == 1
    assert chosen[0]["windows"] == 347
    assert chosen[0]["heldout"]["mrh_noun_em"] == facts["split"]["scores"]["heldout"]["mrh_noun_em"]
    assert len(facts["rules"]) == 24
    divergences = facts["split"]["divergences"]["string of target"]
    assert divergences["compound_divergence"] == 1
    assert divergences["compounds_shared"] == 0
    assert facts["split"]["divergences"]["class of target"]["atoms_missing"] == 0
    assert facts["seeds"]["seeds"] == [0, 1]
    values = [row["mrh_noun_em"] for row in facts["seeds"]["rows"]]
    assert facts["seeds"]["summary"]["mrh_noun_em"]["mean"] == pytest.approx(
        np.mean(values), abs=1e-3
    )
    for heading in ("Clips", "Windows", "Split", "Leakage", "Vocabulary", "Figures"):
        assert f"## {heading}\n" in text
    assert "(Fig. 4)" in text


def test_published_values_stand_beside_epic_kitchens_alone(raw, tmp_path, full):
    text = (full.root / "report.md").read_text()
    assert "ublished" not in text
    assert not is_epic(full.info)
    own = {path.name for path in raw.iterdir()}
    for name in own:
        (raw / name).rename(raw / f"EPIC_100_{name}")
    epic = small(raw, tmp_path / "epic")
    assert is_epic(epic.info)
    assert "Published: 22,136" in (epic.root / "report.md").read_text()
    # Class lists of EPIC-KITCHENS do not make one's own clips its.
    (raw / "EPIC_100_train.csv").rename(raw / "train.csv")
    assert not is_epic(small(raw, tmp_path / "mixed").info)


def test_a_seed_without_a_split_is_in_the_report(tiny):
    table, windows = tiny
    goal = SplitSettings(sizes=(60, 20, 20), atom_limit=0.005)
    facts = seed_facts(table, windows, goal, range(4), lambda text: None)
    assert 0 < len(facts["failed"]) < 4
    assert len(facts["rows"]) == 4 - len(facts["failed"])
    for reason in facts["failed"].values():
        assert "windows fit" in reason or "divergence comes to" in reason


def test_without_matplotlib_the_report_says_so(raw, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    dataset = small(raw, tmp_path / "out", figures=True)
    assert "pip install 'matplotlib" in (dataset.root / "report.md").read_text()
    assert not (dataset.root / "figures").exists()


def test_skipped_rows_are_in_the_report(tmp_path):
    made = rows()
    made[5]["noun"] = ""
    made[9]["stop_timestamp"] = "soon"
    raw = write_raw(tmp_path / "raw", [*made, clip_row("P09_09", 0, "cut", "cup")])
    with pytest.raises(UserError, match=r"train\.csv:7: noun is empty"):
        small(raw, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True
    dataset = small(raw, tmp_path / "out", strict=False)
    text = (dataset.root / "report.md").read_text()
    assert "| empty nouns | 1 |" in text
    assert "| bad timestamps | 1 |" in text
    assert "1 videos have fewer than four clips and give no window: P09_09." in text


def test_the_command_line(raw, tmp_path, capsys):
    out = tmp_path / "out"
    main(["compact", "--raw", str(raw), "--out", str(out), "--split=resplit", "--seed=2", *COMMAND])
    assert "data set compact_resplit_atom-limit-0.2_n60-20-20_s2" in capsys.readouterr().out
    root = out / "compact_resplit_atom-limit-0.2_n60-20-20_s2"
    main(["--check", str(root)])
    assert "every checksum is right" in capsys.readouterr().out
    with pytest.raises(UserError, match="built already"):
        main(
            [
                "compact",
                "--raw",
                str(raw),
                "--out",
                str(out),
                "--split=resplit",
                "--seed=2",
                *COMMAND,
            ]
        )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--splt=mcd"], "compact has no such setting"),
        (["--split=mdc"], "choose one of mcd, random"),
        (["--target-dc=high"], "expected float"),
        (["--target-dc=3"], "from 0.1 to 1"),
        (["--strict=maybe"], "expected bool"),
        (["--report-seeds=-1"], "expected a count"),
        (["--sizes=100"], "expected list"),
        (["--seed=-1"], "a number from 0 up"),
        (["--order=time"], "choose one of start_frame"),
        (["--pairs", "."], "no meaning for compact"),
        ([], "there are 347"),
    ],
)
def test_a_bad_choice_is_one_sentence(raw, tmp_path, arguments, complaint):
    with pytest.raises(UserError, match=complaint) as caught:
        main(["compact", "--raw", str(raw), "--out", str(tmp_path / "out"), *arguments])
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_a_changed_file_is_found(built):
    path = built.root / "instances" / "test.jsonl"
    path.write_text(path.read_text().replace("cup", "mug", 1))
    with pytest.raises(UserError, match=r"test\.jsonl is not the file that was built"):
        verify_compact(open_compact(built.root))


def test_a_changed_manifest_is_found(built):
    path = built.root / "dataset.json"
    path.write_text(path.read_text().replace('"split": "mcd"', '"split": "random"'))
    with pytest.raises(UserError, match="changed after the build"):
        verify_compact(open_compact(built.root))


def test_another_kind_or_nothing_is_refused(built, tmp_path):
    with pytest.raises(UserError, match="no finished data set"):
        open_compact(tmp_path / "nowhere")
    (built.root / "dataset.json").write_text('{"kind": "masked_span"}')
    with pytest.raises(UserError, match="expected 'compact'"):
        open_compact(built.root)
    (built.root / "dataset.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        open_compact(built.root)


def test_an_unknown_split_names_those_there_are(built):
    with pytest.raises(UserError, match="only train, validation, test"):
        built.split("novel")


def test_a_missing_column_leaves_nothing(raw, tmp_path):
    write_csv(raw / "train.csv", rows(), [name for name in COLUMNS if name != "noun"])
    with pytest.raises(UserError, match="column noun is missing"):
        small(raw, tmp_path / "out")
    assert not (tmp_path / "out").exists()
