"""SAC and TD3 with memory: the LSTM by hand, the same history in acting and learning, and no effect of steps after an
end.
"""

import dataclasses
import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from small import at_once, compute
from tiers import first

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.recurrent.base import EarlierSteps, LaterSteps, summarise_rows
from forage.agents.actor_critic.recurrent.sac import RecurrentSAC
from forage.agents.actor_critic.recurrent.td3 import RecurrentTD3
from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.td3 import TD3
from forage.config.defaults import default_memory
from forage.core.ports import ActInputs
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.memory.episodes import Episodes
from forage.nn.lstm import LSTM

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Box(-2.0, 2.0, (1,), np.float32))
SMALL = {"unroll": 4, "lstm_size": 3, "lstm_layers": 2, "hidden_sizes": (5,), "batch_size": 2, "learning_starts": 4}
SMALL |= {"activation": "tanh"}  # so few rectified units may all be silent, and teach nothing
AGENTS = {"sac": RecurrentSAC(**SMALL), "td3": RecurrentTD3(**SMALL, policy_delay=1)}
CLOCK = Clock(jnp.int32(9), jnp.float32(10))


@functools.cache
def begin(name):
    return at_once(lambda: AGENTS[name].init(jax.random.key(0), SPEC))


def segments(seed, after_the_end=0):
    """Return two segments of four steps, the first over after two; `after_the_end` seeds the steps after that."""

    def make(seed):
        draw = np.random.default_rng(seed)
        return [draw.normal(size=shape).astype(np.float32) for shape in ((5, 2, 2), (4, 2, 1), (4, 2))]

    (seen, action, reward), other = make(seed), make(after_the_end)
    terminated = np.zeros((4, 2), bool)
    terminated[1, 0] = True
    now, after = seen[:-1].copy(), seen[1:].copy()
    for mine, theirs in ((now, other[0][:-1]), (after, other[0][1:]), (action, other[1]), (reward, other[2])):
        mine[2:, 0] = theirs[2:, 0]
    return Experience(now, action, reward, after, terminated, np.zeros((4, 2), bool), np.zeros((4, 2), np.int32), ())


def test_an_lstm_by_hand():
    lstm = at_once(lambda: LSTM(jax.random.key(0), 2, 3, 2))
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    inputs = x
    for cell in jax.device_get(lstm.cells):
        h, c, outputs = np.zeros(3), np.zeros(3), []
        for step in inputs:
            i, f, g, o = np.split(step @ cell.weight + h @ cell.inner + cell.bias, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs.append(h)
        inputs = np.array(outputs)
    found = compute(lambda x: lstm.sequence(x[:, None])[:, 0], x)
    np.testing.assert_allclose(found, inputs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", first(1, AGENTS))
def test_it_acts_as_learning_reads_its_history(name):
    agent = AGENTS[name]
    state = begin(name)
    seen = np.random.default_rng(1).normal(size=(5, 1, 2)).astype(np.float32)

    def make():
        actor, hidden, acted = state.actor, agent.init_hidden(SPEC), []
        for observation in seen[:, 0]:
            action, hidden, _ = agent.act(state, ActInputs(hidden, jnp.asarray(observation), jax.random.key(0), False))
            acted.append(action)
        policy = actor.inner(actor.summary.sequence(seen)[:, 0])
        read = policy.mode() if name == "sac" else policy
        both = summarise_rows(actor.summary, EarlierSteps(seen)), summarise_rows(actor.summary, LaterSteps(seen))
        return jnp.stack(acted), 2 * read, *both

    acted, read, before, after = compute(make)
    np.testing.assert_allclose(acted, read, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(before[1:], after[:-1])


@pytest.mark.parametrize("name", first(1, AGENTS))
def test_an_update_hears_whole_histories_and_nothing_after_their_end(name):
    agent = AGENTS[name]
    state = begin(name)
    learn = jax.jit(lambda experience: agent.learn(
        state, Batch(experience, jnp.ones(2), jnp.arange(2)), CLOCK, jax.random.key(1)
    ))  # fmt: skip
    one, other = (jax.device_get(learn(segments(1, seed))) for seed in (2, 3))
    for _, metrics, _ in (one, other):
        del metrics["value"]  # a mean over all rows, which teaches nothing
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)
    experience = segments(1, 2)
    experience.observation[0, 0] += 1.0  # the first thing seen
    moved = jax.device_get(learn(experience))
    assert not np.array_equal(one[0].critics.summary.lstm.cells[0].inner, moved[0].critics.summary.lstm.cells[0].inner)
    for part in ("actor", "critics"):  # every layer learns, the first LSTM too
        before, after = (jax.tree.leaves(getattr(s, part)) for s in (state, one[0]))
        assert not any(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_td3_target_by_hand():
    """With target critics of one value, a step that continues has the target r + discount Q, and the last one r."""
    agent = AGENTS["td3"]
    state = begin("td3")
    zeros = jax.tree.map(jnp.zeros_like, state.target_critics)
    bias = lambda critic: critic.body.layers[-1].bias  # noqa: E731
    state = state._replace(target_critics=equinox.tree_at(bias, zeros, jnp.array([[3.0], [2.0]])))
    experience = segments(1)

    def make():
        batch = Batch(experience, jnp.array([1.0, 2.0]), jnp.arange(2))
        now, action, weight, counts = agent.histories(state.actor.actions, batch)
        inputs = UpdateInputs(now, action, weight, next_noise=jnp.zeros_like(action))
        return agent.target(state, inputs), weight, counts

    target, weight, counts = compute(make)
    right = experience.reward + 0.99 * 2.0 * ~experience.terminated
    lived = np.array([[True, True], [True, True], [False, True], [False, True]])
    np.testing.assert_allclose(target.reshape(4, 2)[lived], right[lived], rtol=1e-6)
    assert counts.tolist() == lived.tolist()
    # Six steps of eight count: eight sixths of one and two.
    np.testing.assert_allclose(weight.reshape(4, 2), lived * np.array([1, 2]) * 8 / 6, rtol=1e-6)


@pytest.mark.parametrize(("kind", "plain"), [(RecurrentSAC, SAC), (RecurrentTD3, TD3)])
def test_other_settings_are_those_of_the_agent_without_memory(kind, plain):
    own = {field.name: field.default for field in dataclasses.fields(kind)}
    other = {field.name for field in dataclasses.fields(plain) if own[field.name] != field.default}
    assert other == {"batch_size", "learning_starts"}


@pytest.mark.parametrize("name", AGENTS)
def test_what_it_remembers_and_cannot_do(name):
    kind = type(AGENTS[name])
    assert default_memory(AGENTS[name]) == Episodes()
    with pytest.raises(ForageError, match="do not look for dormant units; leave recycle_interval out"):
        kind(recycle_interval=10)
    with pytest.raises(ForageError, match="can start to learn after 400 steps, not 300"):
        check(kind(num_envs=2, learning_starts=300), SPEC)
    if name == "sac":
        with pytest.raises(ForageError, match="leave state_dependent_noise out"):
            kind(state_dependent_noise=True)
