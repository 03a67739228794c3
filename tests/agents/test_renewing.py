"""Networks and units reset between updates: the schedule, the fields of the state, and the new weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.td3 import TD3
from forage.agents.q_learning.dqn import DQN
from forage.core import prng
from forage.core.types import Batch, Clock, Experience, ForageError, Spec

SPEC = Spec("x", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (2,), np.float32))
NUMBERED = Spec("x", SPEC.observation_space, spaces.Discrete(2))


def batch(spec):
    observation, no = jnp.ones((1, 5, 3)), jnp.zeros((1, 5), bool)
    action = jnp.ones((1, 5, 2)) if spec is SPEC else jnp.ones((1, 5), jnp.int32)
    experience = Experience(
        observation, action, jnp.ones((1, 5)), observation, no, no, jnp.zeros((1, 5), jnp.int32), ()
    )
    return Batch(experience, jnp.ones(5), jnp.arange(5))


def change(agent, spec, updates):
    """Return, for each update, the names of the state's fields that `reset_networks` changed, and its own metrics."""

    @jax.jit
    def update(state, key):
        learned, _, _ = agent.learn(state, batch(spec), Clock(jnp.int32(5), jnp.float32(100)), key)
        after, metrics = agent.reset_networks(learned, batch(spec), key, spec)
        same = jax.tree.map(lambda x, y: (x == y).all(), learned, after)
        return after, {name: jnp.array(jax.tree.leaves(part)).all() for name, part in same._asdict().items()}, metrics

    state, found = jax.jit(lambda: agent.init(prng.key(0), spec))(), []
    for number in range(updates):
        state, same, metrics = update(state, prng.key(number))
        assert int(state.updates) == number + 1
        found.append(({name for name, is_same in same.items() if not is_same}, metrics))
    return state, found


@pytest.mark.parametrize("Kind", [SAC, TD3])
@pytest.mark.thorough
def test_networks_and_optimisers_begin_anew_and_updates_are_counted_on(Kind):
    agent = Kind(hidden_sizes=(8,), batch_size=5, reset_interval=2)
    state, found = change(agent, SPEC, 5)
    everything = set(state._asdict()) - {"updates", "norm"}  # which nothing observed here
    # With the first update after two of them: a run of two or four ends with what it has learned.
    assert [names for names, _ in found] == [set(), set(), everything, set(), everything]
    assert found[0][1] == {}
    state = state._asdict()
    for target in {"target_actor", "target_critics"} & set(state):  # targets begin as copies
        jax.tree.map(np.testing.assert_array_equal, state[target], state[target.removeprefix("target_")])
    counts = [int(x) for x in jax.tree.leaves(state["critic_optimiser"]) if x.ndim == 0]
    assert counts == [0]


def test_dormant_units_are_recycled_in_actor_and_critics_not_in_targets():
    agent = SAC(hidden_sizes=(8,), batch_size=5, recycle_interval=2, dormant_threshold=0.5, count_dormant=True)
    _, found = change(agent, SPEC, 3)
    recycled = {"actor", "critics", "actor_optimiser", "critic_optimiser"}
    assert [names for names, _ in found] == [set(), recycled, set()]
    assert all(0 < float(metrics["dormant"]) < 1 for _, metrics in found)
    assert all(0 < float(metrics["dormant_actor"]) < 1 for _, metrics in found)


@pytest.mark.thorough
def test_dqn_recycles_its_network_alone():
    agent = DQN(
        hidden_sizes=(8,), batch_size=5, n_step=1, recycle_interval=2, dormant_threshold=0.5, count_dormant=True
    )
    _, found = change(agent, NUMBERED, 3)
    assert [names for names, _ in found] == [set(), {"network", "optimiser"}, set()]
    assert all(0 < float(metrics["dormant"]) < 1 for _, metrics in found)


@pytest.mark.parametrize("options", [{"recycle_interval": 10}, {"count_dormant": True}])
def test_units_of_an_agent_with_memory_are_not_looked_for(options):
    with pytest.raises(ForageError, match="leave out recycle_interval and count_dormant, or gru_size"):
        DQN(gru_size=4, **options).check(NUMBERED)
