"""The effective horizon of tabular MDPs, against values worked out by hand."""

import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments.tabular.horizon import effective_horizon
from forage.environments.tabular.makers import chain
from forage.environments.tabular.mdp import Tabular


def two_ways(last):
    """Left has reward 1 and ends; right three times has reward `last`: at random last / 4, one step planned / 2."""
    transition, reward = np.zeros((4, 2, 4)), np.zeros((4, 2))
    transition[:, :, 3] = 1.0
    for state in (0, 1):
        transition[state, 1] = np.eye(4)[state + 1]
    reward[0, 0], reward[2, 1] = 1.0, last
    return Tabular(transition, reward, np.eye(4)[0], np.eye(4, dtype=bool)[3], 3)


@pytest.mark.parametrize(
    ("last", "steps", "gap"),
    [
        (6.0, 1, 0.5 / 6),  # 1.5 against 1 at first; 3 against 0 and 6 against 0 later
        (3.0, 2, 0.5 / 3),  # 1.5 against 1
        (1.5, 3, 0.5 / 1.5),
        (0.5, 1, 0.25),  # left: 1 against 0.125; in state 1, which a greedy agent never meets, 0.25 against 0
    ],
)
def test_by_hand(last, steps, gap):
    found = effective_horizon(two_ways(last))
    assert found.steps == steps and found.best == max(1.0, last)
    assert found.horizons[steps] == pytest.approx(steps + np.log2(1 / gap**2), rel=1e-4)
    assert found.horizon == min(found.horizons.values())
    for k in range(1, steps):
        assert found.returns[k] == 1.0 and found.horizons[k] == np.inf  # the greedy way is the short one
    assert found.returns[steps] == found.best


def test_ties_count_as_the_worst_of_them():
    found = effective_horizon(two_ways(4.0))  # at random both ways are worth 1
    assert found.returns[1] == 1.0 and found.steps == 2


def test_stochastic_and_out_of_reach():
    assert effective_horizon(chain(), depth=4).steps is None
    assert effective_horizon(chain(), depth=4).horizon == np.inf
    assert effective_horizon(chain(), depth=6).steps == 5  # five steps to the end of the chain


def test_what_it_needs_to_know():
    with pytest.raises(ForageError, match="horizon=100"):
        effective_horizon(chain(max_steps=None))
    with pytest.raises(ForageError, match="at least 1 step"):
        effective_horizon(chain(), depth=0)
