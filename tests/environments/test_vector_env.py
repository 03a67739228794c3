"""A person's own VectorEnv beside the same environments one by one."""

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import forage
from forage.config.environment import resolve_environment
from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment


class Counter(gymnasium.Env):
    """Shows how far it is, as two parts; ends or is cut after as many steps as its seed says."""

    observation_space = gymnasium.spaces.Dict(
        {"at": gymnasium.spaces.Box(0, 20, (2,), np.float32), "odd": gymnasium.spaces.Discrete(2)}
    )
    action_space = gymnasium.spaces.Discrete(3, start=5)
    metadata = {"render_modes": []}

    def seen(self):
        return {"at": np.array([self.at, self.last], np.float32), "odd": self.at % 2}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.last = 0, int(self.np_random.integers(2, 6))
        return self.seen(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.at += 1
        over = self.at == self.last
        return self.seen(), float(action), over and self.last % 2 == 0, over and self.last % 2 == 1, {}


def made(mode):
    """What a function of a number becomes."""
    many = lambda n: SyncVectorEnv([Counter] * n, autoreset_mode=mode)  # noqa: E731
    return resolve_environment(many, {})[1]


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED])
def test_every_step_is_as_one_by_one(mode):
    ours, single = made(mode)(4), GymnasiumEnvironment(Counter, 4)
    jax.tree.map(np.testing.assert_array_equal, ours.reset(3), single.reset(3))
    ends = 0
    for step in range(40):
        action = np.random.default_rng(step).integers(0, 3, 4)
        found, wanted = ours.step(action), single.step(action)
        jax.tree.map(np.testing.assert_array_equal, found, wanted)
        ends += int((found.step.terminated | found.step.truncated).sum())
    assert ends > 20 and found.step.truncated.dtype == bool
    ours.close()


def test_what_was_shown_stays_as_it_was():
    envs = made(AutoresetMode.SAME_STEP)(2)
    first = jax.tree.map(np.copy, shown := envs.reset(0))
    envs.step(np.zeros(2, int))
    jax.tree.map(np.testing.assert_array_equal, shown, first)


@pytest.mark.thorough
def test_it_trains_and_is_scored(tmp_path):
    many = lambda n: SyncVectorEnv([Counter] * n, autoreset_mode="SameStep")  # noqa: E731
    given = {"num_envs": 4, "rollout_length": 16, "minibatches": 2, "epochs": 1, "hidden_sizes": (8,)}
    run = forage.train("ppo", many, steps=128, seeds=[0], directory=tmp_path / "run", display="quiet", **given)
    assert 2 * 5 <= run.score.value <= 5 * 7


@pytest.mark.parametrize(
    ("many", "said"),
    [
        (lambda n: SyncVectorEnv([Counter] * n), r"begins a new episode in the step after one ended .*; SameStep and"),
        (
            lambda n: SyncVectorEnv([Counter] * 3, autoreset_mode="SameStep"),
            "made 3 environments where 1 were asked",
        ),
    ],
)
def test_what_cannot_be_trained_in(many, said):
    with pytest.raises(ForageError, match=said):
        resolve_environment(many, {})[1](1)
