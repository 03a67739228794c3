"""With a certain range of returns no interval leaves it; without one, no range is shown."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from forage.config.environment import wrap_environment
from forage.core.ports import range_of_returns
from forage.core.records import range_in
from forage.environments import make
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers.base import Wrapper
from forage.evaluation.curves import aggregate_curve
from forage.evaluation.statistics import clip_interval, score
from forage.runs.scoring import holding, return_range
from forage.tasks.same import Same

PENDULUM = -200 * (math.pi**2 + 0.1 * 64 + 0.001 * 4)


class DoubledCartPole(CartPole):
    """A user's own CartPole without a declared range of rewards."""

    def step(self, state, action, key):
        state, step = super().step(state, action, key)
        return state, step._replace(reward=2 * step.reward)


class DeclaredRewards(DoubledCartPole):
    """The same with a declared range of rewards."""

    @property
    def reward_range(self):
        return 2.0, 2.0


class Own(Wrapper):
    """A user's own wrapper, with unknown rewards."""

    def step(self, state, action, key):
        return self.environment.step(state, action, key)


def setup(environment, tasks=None, **spec):
    config = environment if isinstance(environment, dict) else {}
    spec = {"reward_names": (), "num_agents": getattr(environment, "num_agents", 1)} | spec
    return SimpleNamespace(
        environment=None if config else environment,
        environment_config=config,
        tasks=tasks or Same(),
        spec=SimpleNamespace(**spec),
    )


@pytest.mark.parametrize(
    ("environment", "limit", "expected"),
    [
        (make("CartPole-v1"), 500, (1, 500)),
        (make("CartPole-v0"), 200, (1, 200)),
        (CartPole(max_steps=50), 50, (1, 50)),
        (make("Acrobot-v1"), 500, (-500, 0)),
        (make("MountainCar-v0"), 200, (-200, -1)),
        (make("Pendulum-v1"), 200, (PENDULUM, 0)),
        (make("minatar:Breakout"), 27_000, (0, math.inf)),
        (wrap_environment(CartPole(), ["time-limit:100"]), 100, (1, 100)),
        (wrap_environment(CartPole(), ["frame-stack:2"]), 500, (1, 500)),
        (wrap_environment(CartPole(), ["action-repeat:2"]), 250, None),
        (DeclaredRewards(), 500, (2, 1000)),
        (DoubledCartPole(), 500, None),
        (Own(CartPole()), 500, None),
        ({"id": "gymnasium:CartPole-v1"}, 500, (1, 500)),
        ({"id": "gymnasium:CartPole-v1", "options": {"max_episode_steps": 50}}, 50, (1, 50)),
        ({"id": "gymnasium:CartPole-v1", "options": {"sutton_barto_reward": True}}, 500, None),
        ({"id": "gymnasium:CartPole-v1", "wrap": ["action-repeat:2"]}, 250, None),
        ({"id": "gymnasium:CliffWalking-v1"}, 27_000, (-2_700_000, -1)),
        ({"id": "gymnasium:FrozenLake-v1"}, 100, (0, 1)),
        ({"id": "mine.py:CartPole-v1"}, 500, None),
        ({"object": "<class 'Mine'>"}, 500, None),
    ],
)
def test_the_range_of_a_return(environment, limit, expected):
    found = return_range(setup(environment), limit)
    assert found == (expected if expected is None else pytest.approx(expected))


def test_tasks_and_several_rewards_have_no_range():
    assert return_range(setup(CartPole(), reward_names=("a", "b")), 500) is None
    assert return_range(setup(CartPole(), tasks=object()), 500) is None
    assert return_range(setup(CartPole(), num_agents=2), 500) is None


def test_a_range_that_returns_leave_is_none():
    assert holding((1.0, 500.0), np.array([[500.0, 1.0]])) == [1.0, 500.0]
    assert holding((0.0, math.inf), np.array([3.0])) == [0.0, None]
    assert holding((1.0, 500.0), np.array([500.5])) is None
    assert range_in({"return_range": [0.0, None]}) == (0.0, math.inf) and range_in({}) is None


def test_episodes_last_a_step_or_more():
    assert range_of_returns((1.0, 2.0), 10) == (1.0, 20.0)
    assert range_of_returns((-2.0, -1.0), 10) == (-20.0, -1.0)
    assert range_of_returns((-1.0, 1.0), None) == (-math.inf, math.inf)


def test_intervals_stay_within_the_range():
    two = np.array([452.2, 500.0])
    assert score(two).high > 700
    assert (score(two, within=(1, 500)).low, score(two, within=(1, 500)).high) == (score(two).low, 500.0)
    assert str(score(two, within=(1, 500))) == "476.1 [172.4, 500.0] (2 seeds)"
    assert score(two, within=(0, 400)) == score(two)  # a range that does not hold the score is none
    assert clip_interval((-3.0, 5.0), (0.0, math.inf)) == (0.0, 5.0)
    _, _, low, high = aggregate_curve(np.arange(2), np.array([[10.0, 452.2], [20.0, 500.0]]), within=(1, 500))
    np.testing.assert_allclose((low, high), [[1.0, score(two).low], [score([10.0, 20.0]).high, 500.0]])
