"""Plateaus lower the learning rate, a longer one stops; the state survives as JSON."""

import json
import math

import pytest

from mmgen.core.control import from_json, make_control, to_json, update
from mmgen.errors import UserError


def scales(control, values):
    """Factor on the learning rate after each value."""
    found = []
    for value in values:
        control = update(control, value)
        found.append(control.scale)
    return found


def test_a_plateau_is_as_in_pytorch():
    # torch.optim.lr_scheduler.ReduceLROnPlateau(factor=.5, patience=1, min_lr=.25), lr 1.
    control = make_control("loss", factor=0.5, patience=1, min_scale=0.25)
    values = [5, 4, 4, 4, 3, 3, 3, 3, 3, 3]
    assert scales(control, values) == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25]


def test_more_can_be_better():
    control = make_control("bleu", mode="max", factor=0.1, patience=0)
    assert scales(control, [1, 2, 3]) == [1, 1, 1]
    assert scales(control, [3, 2]) == [1, 0.1]


def test_tiny_gains_are_no_gains():
    control = make_control("loss", factor=0.5, patience=0, threshold=0.01)
    assert scales(control, [1.0, 0.995]) == [1, 0.5]
    assert scales(control, [1.0, 0.98]) == [1, 1]


def test_not_a_number_is_never_the_best():
    control = update(make_control("loss", stop_patience=0), math.nan)
    assert control.best is None
    assert control.stop


def test_stops_after_its_patience_and_stays_stopped():
    control = make_control("loss", stop_patience=2)
    stops = []
    for value in [1, 2, 2, 2, 0.5]:
        control = update(control, value)
        stops.append(control.stop)
    assert stops == [False, False, False, True, True]


def test_json_and_back_is_the_same():
    control = update(update(make_control("loss", factor=0.3), 0.1 + 0.2), 7.0)
    assert from_json(json.loads(json.dumps(to_json(control)))) == control


@pytest.mark.parametrize(
    "settings", [{"mode": "least"}, {"factor": 0.0}, {"patience": -1}, {"min_scale": 2.0}]
)
def test_a_wrong_setting_is_named(settings):
    with pytest.raises(UserError, match=f"control.{next(iter(settings))}"):
        make_control("loss", **settings)
