"""Numbers of papers' parts that take a schedule, and those that take none (`test_schedule`)."""

import pytest

from forage.config import registry
from forage.config.values import takes_schedule
from forage.core.errors import ForageError

FOLLOWING = [("starts", "archive", "probability"), ("starts", "go-explore", "probability")]
FIXED = [("starts", "go-explore", "target"), ("starts", "go-explore", "explore"), ("starts", "snapshot", "share")]
FIXED += [("behaviour", "takeover", "fraction")]


def test_which_numbers_take_one():
    for cases, takes in ((FOLLOWING, True), (FIXED, False)):
        for port, name, number in cases:
            assert takes_schedule(registry.part_class(port, name), number) == takes
    with pytest.raises(ForageError, match="explore of GoExplore takes a number and no schedule"):
        registry.build("starts", "go-explore", {"explore": "linear:0,1"})
