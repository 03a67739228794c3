"""Peculiarities of JaxMARL. Conformance with the library: `test_conformance.py`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core import spaces
from forage.core.types import ForageError
from forage.environments import make
from forage.environments.checking import check_environment

jaxmarl = pytest.importorskip("jaxmarl", reason="jaxmarl is not installed")


def pick(environment, observation, key):
    """Draw random actions, among the allowed ones if there is a mask."""
    mask = spaces.split_mask(observation)[1]
    keys = jax.random.split(key, environment.num_agents)
    if mask is None:
        return jax.vmap(lambda k: spaces.sample(environment.action_space, k))(keys)
    return jax.vmap(lambda k, m: spaces.sample(environment.action_space, k, m))(keys, mask)


def play(environment, key, most, act=pick):
    """The steps of an episode, to its end or `most`."""
    step_once, steps = jax.jit(environment.step), []
    state, observation = jax.jit(environment.reset)(key)
    for time in range(most):
        action = act(environment, observation, jax.random.fold_in(key, time))
        state, step = step_once(state, action, key)
        steps.append(step)
        observation = step.observation
        if bool((step.terminated | step.truncated).all()):
            break
    return steps


@pytest.mark.parametrize("says", [False, True])
def test_the_riddle_ends_when_somebody_speaks_or_the_days_are_over(says):
    environment = make("jaxmarl:switch_riddle")
    steps = play(environment, jax.random.key(3), 20, lambda *_: jnp.full(3, 2 if says else 0))
    assert len(steps) == (1 if says else environment.horizon)
    assert bool(steps[-1].terminated.all()) == says and bool(steps[-1].truncated.all()) != says


def test_robots_that_crashed_wait_where_they_stand():
    environment = make("jaxmarl:jaxnav", max_steps=100)
    assert environment.horizon == 100
    *before, last = play(environment, jax.random.key(3), 100)
    seen = [step.observation[spaces.PRESENT].tolist() for step in before]
    assert [1, 1] in seen and ([0, 1] in seen or [1, 0] in seen)
    assert not any(bool((step.terminated | step.truncated).any()) for step in before)
    np.testing.assert_array_equal(last.observation[spaces.PRESENT], [-1, -1])


def test_agents_that_differ_are_padded_numbered_and_masked():
    environment = make("jaxmarl:MPE_simple_speaker_listener_v4")
    _, observation = environment.reset(jax.random.key(0))
    assert observation["observation"].shape == (2, 11 + 2)  # the listener's 11 numbers, and who one is
    np.testing.assert_array_equal(observation["observation"][:, -2:], np.eye(2))
    np.testing.assert_array_equal(observation["observation"][0, 3:-2], 0)
    np.testing.assert_array_equal(observation["action_mask"], [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    assert observation[spaces.STATE].shape == (2, 2 * 11 + 2)
    plain = make("jaxmarl:MPE_simple_speaker_listener_v4", identity=False)
    assert plain.observation_space["observation"].shape == (11,)


def test_smax_counts_what_the_team_gains_for_those_who_fell():
    environment = make("jaxmarl:SMAX-3m")
    steps = play(environment, jax.random.key(0), environment.horizon)
    for step in steps:
        assert len(set(np.asarray(step.reward).tolist())) == 1
        assert len(set(np.asarray(step.terminated).tolist())) == 1
    assert any(len(set(step.observation[spaces.PRESENT].tolist())) == 2 for step in steps)


def test_one_agent_has_no_axis():
    environment = make("jaxmarl:MPE_simple_v3", max_steps=3)
    check_environment(environment, "alone")
    assert environment.num_agents == 1 and environment.observation_space.shape == (4,)
    state, _ = environment.reset(jax.random.key(0))
    for _ in range(4):
        state, step = environment.step(state, jnp.int32(0), jax.random.key(0))
    assert bool(step.truncated) and step.reward.shape == ()


def test_what_the_library_does_not_draw():
    riddle = make("jaxmarl:switch_riddle")
    with pytest.raises(NotImplementedError):
        riddle.render(riddle.reset(jax.random.key(0))[0])


def test_a_scenario_that_is_not_there():
    with pytest.raises(ForageError, match="3m"):
        make("jaxmarl:SMAX", scenario="4m")
