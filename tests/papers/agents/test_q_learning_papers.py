"""Q-learning: every update by hand, ties, masks, and the values it must come to."""

import numpy as np
import pytest

from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.config.resolve import resolve
from forage.environments import make
from forage.environments.tabular.values import optimal
from forage.memory.uniform import UniformReplay
from forage_papers.memory.dyna import Dyna


@pytest.mark.thorough
@pytest.mark.parametrize(
    "memory",
    [
        pytest.param(UniformReplay(capacity=1), id="watkins", marks=pytest.mark.thorough),
        pytest.param(Dyna(capacity=1, planning=7.0), id="dyna-q"),
    ],
)
def test_it_comes_to_the_optimal_values(memory):
    """In a deterministic grid with every pair tried repeatedly."""
    environment, discount = make("tabular:FrozenLake-4", slip=0.0, max_steps=30), 0.9
    plans = isinstance(memory, Dyna)
    options = {"learning_rate": 1.0, "discount": discount, "batch_size": 8 if plans else 1}
    parts = {"memory": memory, "behaviour": EpsilonGreedy(start=1.0, end=1.0)}
    steps = 4000 if plans else 20_000
    setup = resolve("q-learning", environment, steps=steps, seeds=[0], agent_options=options, **parts)
    runner = setup.runner()
    runner.begin()
    runner.advance(setup.steps)
    q, right = np.asarray(runner.agent_states().q)[0], np.asarray(optimal(environment, discount).action_values)
    tried = q != 0  # nobody leaves the ends, and nothing is learned of them
    np.testing.assert_allclose(q[tried], right[tried], rtol=1e-4)
    assert np.isclose(q[0].max(), discount**5)
