"""Behaviours with memory, on both runners, with several environments and agents, resume bit for bit."""

from typing import Any

import jax
import numpy as np
import pytest

from forage.config import registry
from forage.config.resolve import resolve
from forage.core import checkpoint
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.pendulum import Pendulum
from forage.environments.wrappers.together import EnvironmentCopies

SMALL: dict[str, Any] = {"num_envs": 2, "rollout_length": 8, "hidden_sizes": (4,)}
REPLAY = SMALL | {"batch_size": 4, "learning_starts": 16}
PPO = SMALL | {"minibatches": 1, "epochs": 1}
POLES, PENDULA = EnvironmentCopies(CartPole(max_steps=7)), EnvironmentCopies(Pendulum(max_steps=7))

CASES: dict[str, tuple[Any, ...]] = {  # behaviour, its options, agent, its options, environment
    "ornstein-uhlenbeck": ("ornstein-uhlenbeck", {}, "td3", REPLAY, PENDULA),
    "gsde": ("held-noise", {"interval": 3}, "ppo", PPO | {"state_dependent_noise": True}, PENDULA),
    "gsde-sac": ("held-noise", {}, "sac", REPLAY | {"state_dependent_noise": True}, "gymnasium:Pendulum-v1"),
}


ROWS = dict(CASES)
"""The cases above and those that tests of a package of parts have added."""


def plain(leaf):
    return np.array(jax.random.key_data(leaf) if checkpoint.is_key(leaf) else leaf)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.thorough
def test_stopped_and_gone_on_with(case, tmp_path):
    name, options, agent, agent_options, environment = ROWS[case]
    behaviour = registry.build("behaviour", name, options)
    setup = resolve(agent, environment, steps=480, seeds=[3], agent_options=agent_options, behaviour=behaviour)
    runner = setup.runner()
    runner.begin()
    runner.advance(3)  # of 8 steps each: in the middle of episodes
    checkpoint.save_tree(tmp_path / "half.npz", runner.state, {"steps": runner.steps})
    before = jax.tree.map(plain, runner.state)
    runner.advance(3)
    after = jax.tree.map(plain, runner.state)

    state, header = checkpoint.load_tree(tmp_path / "half.npz", runner.shapes())
    runner.restore(state, header["steps"])
    runner.advance(3)
    same = jax.tree.map(np.array_equal, jax.tree.map(plain, runner.state), after)
    assert all(jax.tree.leaves(same)), same
    moved = jax.tree.map(lambda a, b: not np.array_equal(a, b), before, after)
    hidden = moved[0].hidden if isinstance(environment, str) else moved.actors.hidden
    assert any(jax.tree.leaves(hidden))
    numbers = [leaf for leaf in jax.tree.leaves(after) if np.issubdtype(leaf.dtype, np.floating)]
    assert all(np.isfinite(leaf).all() for leaf in numbers)
