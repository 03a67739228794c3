"""Hints in text for numbered problems."""

from typing import Any

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.environments.text.environment import TextEnvironment


def test_a_hint_is_the_beginning_of_the_reference_and_the_policy_goes_on():
    environment = TextEnvironment("addition", 2, problems=5, level=2, hints=0.75)
    environment.reset(0)
    plain, helped = environment.begin(0, 0, 3), environment.begin(1, 0, 3, 0.5)

    def tokens(padded):
        return padded[padded > 0].tolist()

    whole, given = tokens(plain["reference"]), tokens(helped["context"])[len(tokens(plain["context"])) :]
    assert len(given) == round((len(whole) - 1) / 2) > 0  # the end of the text is no part of the solution
    assert given + tokens(helped["reference"]) == whole
    again = TextEnvironment("addition", 2, problems=5, level=2, hints=0.75)
    saved: Any = environment.snapshot()
    assert np.array_equal(again.restore(saved)["context"][1], helped["context"])
    assert np.array_equal(again.put(0, environment.take(1))["reference"], helped["reference"])
    step = environment.step(np.stack([plain["reference"], helped["reference"]])).step
    assert step.reward.tolist() == [1, 1]
    assert step.info["tokens"].tolist() == [len(whole), len(whole) - len(given)]
    with pytest.raises(ForageError, match=r"hints of 0 to 0\.75 of a solution, not 0\.8"):
        environment.begin(0, 0, 3, 0.8)
    with pytest.raises(ForageError, match="share of 0 to 1"):
        TextEnvironment("addition", 1, hints=2)
