"""The options of the shared kits on every agent that has them: each is learned with, or refused in one sentence."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from tiers import gate_cases

from forage.agents.actor_critic.base import ActorCritic
from forage.agents.q_learning.dqn import DQN
from forage.config.registry import PORTS, part_class
from forage.core import prng
from forage.core.ports import ActInputs
from forage.core.ports.checking import check_agent
from forage.core.types import Batch, Clock, Experience, ForageError, Spec

SEEN = spaces.Box(-1.0, 1.0, (3,), np.float32)
SMALL = {"hidden_sizes": (8,), "value_sizes": (8,), "batch_size": 4}
OPTIONS = [
    {"recycle_interval": 2, "count_dormant": True},
    {"recycle_interval": 2, "optimiser": "adafactor"},
    {"reset_interval": 2},
    {"quantiles": 5},
    {"bins": 7},
    {"diversity": 1.0},
    {"dropout": 0.1},
    {"critics": 3, "target_subset": 2},
    {"squash_deviation": True},
    {"first_weights": "glorot"},
]


def kinds(names):
    """Return the agents that are built on either kit, but those that need a file or another run to begin with."""
    found = {name: part_class("agent", name) for name in names}
    return {name: kind for name, kind in found.items() if issubclass(kind, ActorCritic | DQN) and ready(kind)}


def ready(kind):
    try:
        check_agent(make_one(kind, {}), spec_of(kind))
    except (ForageError, TypeError):
        return False
    return True


def spec_of(kind):
    actions = spaces.Discrete(2) if issubclass(kind, DQN) else spaces.Box(-1.0, 1.0, (2,), np.float32)
    return Spec("x", SEEN, actions)


def make_one(kind, options):
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in {**SMALL, **options}.items() if name in known})


def trace(agent, spec):
    """Trace a first state, an update and a reset after it. Raise `AssertionError` if a state changes its type."""
    shape = agent.segment, 4
    no, observation = jnp.zeros(shape, bool), jnp.ones((*shape, 3))

    def one(key):
        state = agent.init(key, spec)
        action, _, policy_info = agent.act(state, ActInputs(agent.init_hidden(spec), observation[0, 0], key, True))
        policy_info = jax.tree.map(lambda x: jnp.broadcast_to(x, (*shape, *x.shape)), policy_info)
        action = jnp.broadcast_to(action, (*shape, *action.shape))
        lived = (observation, action, jnp.ones(shape), observation, no, no, jnp.zeros(shape, jnp.int32), policy_info)
        told = {"return_to_go": jnp.ones(shape)} if agent.returns else {}
        batch = Batch(Experience(*lived, **told), jnp.ones(4), jnp.arange(4))
        learned, metrics, error = agent.learn(state, batch, Clock(jnp.int32(5), jnp.float32(100)), key)
        renewed, more = agent.reset_networks(learned, batch, key, spec)
        return state, learned, renewed, error, metrics | more

    state, learned, renewed, error, _ = jax.eval_shape(one, prng.key(0))
    forms = [jax.tree.map(lambda x: (x.shape, x.dtype), each) for each in (state, learned, renewed)]
    assert forms[0] == forms[1] == forms[2]
    assert error.shape == (4,)


KINDS = kinds(PORTS["agent"])
CASES = [(name, options) for name in KINDS for options in OPTIONS]
TELLING = [("sac", OPTIONS[1]), ("crossq", OPTIONS[0]), ("rebrac", OPTIONS[3]), ("dqn", OPTIONS[0])]


def test_most_agents_are_looked_at():
    assert len(KINDS) > 15


@pytest.mark.parametrize(("name", "options"), gate_cases(CASES, TELLING))
def test_an_option_is_learned_with_or_refused(name, options):
    kind = part_class("agent", name)
    known = {field.name for field in dataclasses.fields(kind)}
    if not set(options) <= known:
        return  # the agent has no such option
    try:
        agent = make_one(kind, options)
        check_agent(agent, spec_of(kind))
    except ForageError as error:
        assert str(error).endswith(".") and "Traceback" not in str(error)
        return
    trace(agent, spec_of(kind))
