"""The hand-made data set as a fixture."""

import pytest
from hand_made import HandMade, hand_made_dataset


@pytest.fixture
def dataset() -> HandMade:
    return hand_made_dataset()
