"""Which prepared data set a CompAct config names, and what it may ask of it."""

import pytest
from small_compact import make_dataset

from mmgen.compact.locate import locate_compact
from mmgen.errors import UserError
from mmgen.settings.compact import compact_config, resolve


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Holds one data set of a name that tells nothing."""
    root = tmp_path_factory.mktemp("prepared")
    made = make_dataset(root, split="resplit", validation="heldout")
    made.root.rename(root / "mine")
    return root


def located(folder, **changes):
    config = compact_config()
    config.data_dir = str(folder)
    config.dataset.name = "mine"
    config.update_from_flattened_dict({key.replace("__", "."): v for key, v in changes.items()})
    dataset = locate_compact(config.lock())
    return resolve(config, dataset.info)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"dataset__split": "random"}, "config.dataset.split is 'random'"),
        ({"dataset__target_dc": 0.6}, "config.dataset.target_dc is 0.6"),
        ({"dataset__validation": "train"}, "config.dataset.validation is 'train'"),
        ({"data_seed": 4}, "config.data_seed is 4"),
        ({"dataset__videos": 4}, "belongs to the built-in"),
    ],
    ids=str,
)
def test_what_a_finished_data_set_is_not_is_refused(folder, changes, words):
    with pytest.raises(UserError, match=words) as caught:
        located(folder, **changes)
    assert "\n" not in str(caught.value)


def test_what_it_is_may_be_repeated_and_is_recorded(folder):
    bare = located(folder)
    assert (bare.dataset.split, bare.dataset.target_dc, bare.data_seed) == ("resplit", 1.0, 0)
    same = located(folder, dataset__split="resplit", dataset__target_dc=1.0, data_seed=0)
    assert same.to_dict() == bare.to_dict()


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"dataset__name": "compact"}, ""),
        ({"dataset__name": "compact", "dataset__split": "random"}, " --split=random"),
        ({"dataset__name": "compact", "data_seed": 3}, " --seed=3"),
        ({"dataset__name": "compact_resplit"}, " --split=resplit"),
        ({"dataset__name": "compact_random_by_video"}, " --split=random_by_video"),
        ({"dataset__name": "compact_mcd_dc0.6"}, " --split=mcd ..."),
        ({"dataset__name": "another"}, ""),
    ],
    ids=str,
)
def test_the_command_for_what_is_not_there_fits_its_name(tmp_path, changes, options):
    with pytest.raises(UserError, match="no finished data set") as caught:
        located(tmp_path, **changes)
    command = f"`python -m mmgen.data.build compact --raw DIR --out {tmp_path}{options}`"
    assert command in str(caught.value)
