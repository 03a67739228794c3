"""Lost episodes: a reward is notified, and treats the next episode as if the last step had truncated them."""

import gymnasium
import jax
import numpy as np
import pytest
from reward_helpers import CLOCK, KEY, experience_of, spec_of
from small import differing
from tiers import gate_cases

from forage.config import part_options, registry
from forage.core.ports import Rewards
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage.rewards.bonuses.rnd import RND
from forage.rewards.scaling import NormaliseReturn, Scale

SMALL = {"hidden_sizes": (4,), "minibatch_size": 6, "embedding_size": 3}
CASES = {
    "normalise-return": lambda: NormaliseReturn(),
    "nested": lambda: RND(**SMALL, schedule="balanced", inner=Scale(0.5, inner=NormaliseReturn(inner=Scale(2.0)))),
}
SPACES: dict[str, gymnasium.Space] = {}
"""Observations of cases that are not vectors."""


def rollout_of(name, reward, truncated):
    rollout = experience_of(np.asarray(reward), truncated=truncated)
    seen = np.random.default_rng(0).normal(size=(3, 2, 2)).astype(np.float32)
    if name in SPACES:
        seen = np.array([[0, 1], [1, 2], [2, 0]], np.int32)
    return rollout._replace(observation=seen, next_observation=seen[::-1], action=np.zeros((3, 2), np.int32))


@pytest.mark.parametrize("name", gate_cases(CASES, ["normalise-return"]))
def test_a_lost_episode_is_as_one_truncated_at_the_newest_step(name):
    rewards, spec = CASES[name](), spec_of(SPACES.get(name))
    reward = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    never = np.zeros((3, 2), bool)
    at_last = never.copy()
    at_last[-1] = True

    @jax.jit
    def twice(first, lost, second):
        state, _, _ = rewards.learn(rewards.init(KEY, spec, 2), first, CLOCK, KEY)
        ended = rewards.truncate(state)
        state = jax.tree.map(lambda a, b: jax.numpy.where(lost, a, b), ended, state)
        return rewards.learn(state, second, CLOCK, KEY)

    plain = rollout_of(name, reward, never)
    truncated = twice(rollout_of(name, reward, at_last), False, plain)
    lost = twice(plain, True, plain)
    went_on = twice(plain, False, plain)
    assert differing(lost, truncated) == []
    assert differing(went_on, truncated) != [], "ends make no difference, so nothing was tested"


class HeardError(Exception):
    """The inner reward was notified."""


class WithinScale(Scale):
    def truncate(self, state):
        raise HeardError


@pytest.mark.thorough
def test_what_stands_within_hears_of_it():
    check_nesting(registry.PORTS["rewards"].values(), {"scale", "normalise-return", "rnd"})


def check_nesting(targets, names):
    """Check that each reward with another within notifies it; `names` are among those rewards."""
    nesting = {registry.name_of_target(target): registry.load(target) for target in targets}
    nesting = {name: cls for name, cls in nesting.items() if "inner" in fields(cls)}
    assert names <= nesting.keys()
    options = SMALL | {"minibatches": 1, "model": Transformer(KEY, Architecture(30, 8, 1, 2, 8, 16))}
    for name, cls in nesting.items():
        rewards = cls(inner=WithinScale(), **{k: v for k, v in options.items() if k in fields(cls)})
        with pytest.raises(HeardError):
            jax.eval_shape(lambda rewards=rewards: rewards.truncate(rewards.init(KEY, spec_of(), 2)))
        assert cls.truncate is not Rewards.truncate, name


def fields(cls):
    return {field.name for field in part_options.fields(cls)}
