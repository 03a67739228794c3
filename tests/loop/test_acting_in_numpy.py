"""Greedy actions in NumPy equal those of the compiled program; policies that need JAX are compiled."""

import functools

import jax
import numpy as np
import pytest
import small

from forage.agents.q_learning.dqn import DQN
from forage.config import registry
from forage.core import prng
from forage.core.types import ForageError
from forage.environments import make, spec_of
from forage.loop import policy as policies
from forage.loop.export import plain_program
from forage.loop.policy import Policy

small.keep_compiled()
MASKED = "ppo", "boards:TicTacToe", small.PPO
SOME = ("ppo-gru", "ppo-continuous", "dqn", "sac", "masked")
OTHERS = (
    *("ppo", "impala", "reinforce", "dqn-gru", "vdn", "sac-discrete", "td3"),
    "open-es",
)
COMPILED = {"dice": "draws at random"}


class Dice(DQN):
    """An agent that acts at random, also when it is to act greedily."""

    def act(self, state, inputs):
        return jax.random.randint(inputs.key, (), 0, 2), inputs.hidden, ()


OWN = {"masked": MASKED, "dice": ("test_acting_in_numpy:Dice", "CartPole-v1", {"hidden_sizes": (4,)})}


@functools.lru_cache
def first_state(agent, spec):
    return small.at_once(lambda: agent.init(prng.key(1), spec))


def pair(kind: str) -> tuple[Policy, Policy]:
    """Return the same untrained policy twice: once as usual, and once with compiled programs only."""
    name, environment, options = OWN.get(kind) or small.ROWS[kind]
    agent, made = registry.build("agent", name, options), make(environment)
    spec = spec_of(made, environment)
    state = first_state(agent, spec)
    policy, compiled = Policy(agent, state, spec), Policy(agent, state, spec)
    compiled.__dict__["_numpy"] = None
    return policy, compiled


def draw(policy: Policy, seed: int, *batch: int):
    """Draw an observation, or a batch: numbers around 0, and 0 or 1 for counts and masks."""
    random = np.random.default_rng(seed)

    def one(like):
        found = random.normal(size=(*batch, *like.shape))
        return (found if like.dtype.kind == "f" else found > 0).astype(like.dtype)

    return jax.tree.map(one, policy._like)


def check_same(found, expected):
    """Assert that two trees of arrays have the same types and shapes, and numbers equal to within rounding."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (np.asarray(a).dtype, np.shape(a)) == (np.asarray(b).dtype, np.shape(b))
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("kind", [*SOME, *(pytest.param(kind, marks=pytest.mark.thorough) for kind in OTHERS)])
def test_actions_and_memory_are_those_of_the_compiled_program(kind):
    policy, compiled = pair(kind)
    for batch in ((), (5,)):
        policy.reset(), compiled.reset()
        for seed in range(3):
            seen = draw(policy, seed, *batch)
            action = policy.act(seen, explore=False)
            assert all(type(x) in (int, np.ndarray) for x in jax.tree.leaves(action))
            check_same(action, compiled.act(seen, explore=False))
            check_same(policy._hidden, compiled._hidden)
    assert policy._numpy is not None and policy._steps._cache_size() == 0


@pytest.mark.parametrize("kind", list(COMPILED))
def test_what_numpy_cannot_do_is_compiled(kind):
    policy, compiled = pair(kind)
    assert policy._numpy is None
    with pytest.raises(ForageError, match=COMPILED[kind]):
        plain_program(policy)
    check_same(policy.act(draw(policy, 0, 5)), compiled.act(draw(policy, 0, 5)))


def test_large_batches_and_sampled_actions_are_compiled(monkeypatch):
    policy, compiled = pair("ppo-gru")
    monkeypatch.setattr(policies, "MOST_ROWS", 4)
    policy.act(draw(policy, 0, 4), explore=False)
    assert policy._steps._cache_size() == 0
    policy.reset()
    seen = draw(policy, 0, 5)
    check_same(policy.act(seen, explore=False), compiled.act(seen, explore=False))
    assert policy._steps._cache_size() == 1
    check_same(policy.act(seen, explore=True), compiled.act(seen, explore=True))


def test_memory_goes_on_from_greedy_to_sampled_actions_and_greedy_ones_draw_nothing():
    policy, compiled = pair("ppo-gru")
    first, second, third = (draw(policy, seed) for seed in range(3))
    for one in (policy, compiled):
        one.act(first, explore=False)
    compiled._key = np.asarray(jax.random.key_data(prng.key(0)))  # as after `reset`: the policy in NumPy drew nothing
    check_same(policy.act(second, explore=True), compiled.act(second, explore=True))
    check_same(policy.act(third, explore=False), compiled.act(third, explore=False))
    check_same(policy._hidden, compiled._hidden)


def test_observations_that_overflow_are_no_warning(recwarn):
    policy, compiled = pair("ppo-continuous")
    seen = np.full(policy._like.shape, 3e38, np.float32)
    check_same(policy.act(seen), compiled.act(seen))
    assert not recwarn.list
