"""Record files: whole, sorted, the same bytes whatever the order of evaluation."""

import json

import numpy as np
import pytest
from hand_made import ID

from mmgen.errors import UserError
from mmgen.evaluation.predictions import (
    RecordWriter,
    as_table,
    make_records,
    read_records,
    record_path,
    saved_evaluations,
    target_spans,
)

NLL = np.arange(18, dtype=np.float32).reshape(6, 3) / 8


def records_of(dataset, rows):
    rows = np.array(rows)
    prediction = np.full((len(rows), 3), ID["dog"])
    return make_records(dataset.split("test"), rows, NLL[rows], prediction)


def test_record_holds_what_every_metric_needs(dataset):
    record = records_of(dataset, [3])[0]
    assert record == {
        "id": 3,
        "task": 1,
        "image": 101,
        "target": [ID["small"], ID["cat"]],
        "prediction": [ID["dog"], ID["dog"]],
        "nll": [1.125, 1.25],
        "pair": 3,
        "pair_nll": [1.125, 1.25],
        "optimum": 0.3,
    }


def test_pair_losses_are_those_of_the_two_atoms(dataset):
    assert records_of(dataset, [0])[0]["pair_nll"] == [0.125, 0.25]
    assert records_of(dataset, [1])[0]["pair_nll"] is None


def test_atoms_outside_the_span_have_no_loss(dataset):
    dataset.split("test").columns["pair_tokens"][0] = (2, 3)
    assert records_of(dataset, [0])[0]["pair_nll"] is None


def test_targets_are_the_spans_tokens(dataset):
    target, mask = target_spans(dataset.split("test"), np.array([0, 1]))
    assert target.tolist() == [[ID["a"], ID["red"], ID["dog"]], [ID["dog"], 0, 0]]
    assert mask.tolist() == [[True] * 3, [True, False, False]]


def test_a_loss_that_is_not_finite_is_refused(dataset):
    nll = NLL.copy()
    nll[1, 2] = np.nan
    rows = np.arange(6)
    # Row 1 has one token: what lies beyond it does not matter.
    assert make_records(dataset.split("test"), rows, nll, rows[:, None] * np.ones(3, int))
    nll[1, 0] = np.inf
    with pytest.raises(UserError, match=r"rows \[1\] of split test"):
        make_records(dataset.split("test"), rows, nll, rows[:, None] * np.ones(3, int))


def test_bytes_do_not_depend_on_the_order_of_evaluation(dataset, tmp_path):
    texts = []
    for name, parts in (("one", [[0, 1, 2], [3, 4, 5]]), ("two", [[5, 0], [3, 2, 1], [4]])):
        path = record_path(tmp_path / name, "test", 7)
        with RecordWriter(path) as writer:
            for part in parts:
                writer.add(records_of(dataset, part))
        texts.append(path.read_text())
    assert texts[0] == texts[1]
    assert [json.loads(line)["id"] for line in texts[0].splitlines()] == list(range(6))


def test_nothing_stays_behind_an_interrupted_evaluation(dataset, tmp_path):
    path = record_path(tmp_path, "test", 7)
    with pytest.raises(KeyboardInterrupt), RecordWriter(path) as writer:
        writer.add(records_of(dataset, [0]))
        assert len(list(path.parent.iterdir())) == 1
        raise KeyboardInterrupt
    assert list(path.parent.iterdir()) == []
    assert saved_evaluations(tmp_path) == {}


def test_another_process_writes_nothing(dataset, tmp_path):
    path = record_path(tmp_path, "test", 7)
    with RecordWriter(path, write=False) as writer:
        writer.add(records_of(dataset, [0]))
    assert not path.parent.exists()


def test_saved_evaluations_are_found_by_split_and_step(dataset, tmp_path):
    for split, step in (("test", 20), ("test_subset", 10), ("test_subset", 5)):
        with RecordWriter(record_path(tmp_path, split, step)) as writer:
            writer.add(records_of(dataset, [0]))
    assert saved_evaluations(tmp_path) == {"test": [20], "test_subset": [5, 10]}


def test_table_is_padded_and_ordered_by_id(dataset):
    table = as_table(records_of(dataset, [3, 1, 0]))
    assert table.ids.tolist() == [0, 1, 3]
    assert table.mask.sum(axis=1).tolist() == [3, 1, 2]
    np.testing.assert_allclose(table.nll, np.where(table.mask, NLL[[0, 1, 3]], 0))
    assert np.isnan(table.pair_nll[1]).all()
    assert table.floats["optimum"].tolist() == pytest.approx([0, 0.1, 0.3])
    assert len(table.select(table.task == 1)) == 1


def test_an_id_that_occurs_twice_is_refused(dataset):
    with pytest.raises(ValueError, match="twice"):
        as_table(records_of(dataset, [3, 3]))


def test_a_damaged_line_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"id":0,"nll":[1.0],"target":[1],"prediction":[1]}\n{"id":1,"nll"\n')
    with pytest.raises(UserError, match=r"x\.jsonl:2 is not a prediction record"):
        list(read_records(path))
    path.write_bytes(b'{"id":0,"nll":[1.0],"target":[1],"prediction":[1]}\n\xff\xfe\n')
    with pytest.raises(UserError, match=r"x\.jsonl:2 is not a prediction record"):
        list(read_records(path))
    with pytest.raises(UserError, match="does not exist"):
        list(read_records(tmp_path / "none.jsonl"))
