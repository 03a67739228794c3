"""Ranges of hyper-parameters of papers in a search."""

import pytest

from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.studies.tuning.space import parse_range


def test_a_part_looks_at_the_ends_of_its_range_itself():
    heads = resolve("bootstrapped-dqn", "DeepSea-5", steps=160, seeds=[0])
    with pytest.raises(ForageError, match="is above 0 and at most 1, not 0"):
        parse_range("mask_probability=0:0.1", heads)
