"""The adapter to JaxMARL, beside JaxMARL driven directly with the same keys and actions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage import spaces
from forage.environments import make
from forage.environments.checking import check_environment
from forage.types import ForageError

jaxmarl = pytest.importorskip("jaxmarl", reason="jaxmarl is not installed")

from forage.environments.adapters import jaxmarl as adapter  # noqa: E402

SOME = ["MPE_simple_spread_v3", "MPE_simple_tag_v3", "MPE_simple_speaker_listener_v4", "overcooked-cramped_room"]
SOME += ["SMAX-3m", "hanabi", "switch_riddle"]


def pick(environment, observation, key):
    """Random actions, allowed ones where not all are."""
    mask = spaces.split_mask(observation)[1]
    keys = jax.random.split(key, environment.num_agents)
    if mask is None:
        return jax.vmap(lambda k: spaces.sample(environment.action_space, k))(keys)
    return jax.vmap(lambda k, m: spaces.sample(environment.action_space, k, m))(keys, mask)


@pytest.mark.parametrize("id", SOME)
def test_what_it_says_is_what_the_library_says(id):
    environment = make(f"jaxmarl:{id}")
    check_environment(environment, id)
    direct, agents = environment.inner, environment.inner.agents

    @jax.jit
    def both(carry, key):
        state, theirs, observation = carry
        act_key, step_key = jax.random.split(key)
        action = pick(environment, observation, act_key)
        state, step = environment.step(state, action, step_key)
        sizes = [environment.size(space) for space in environment.actions]
        taken = {agent: jnp.minimum(action[i], sizes[i] - 1) for i, agent in enumerate(agents)}
        seen, theirs, reward, done, _ = direct.step_env(step_key, theirs, taken)
        return (state, theirs, step.observation), (step, seen, reward, done)

    key = jax.random.key(3)
    state, observation = jax.jit(environment.reset)(key)
    seen, theirs = jax.jit(direct.reset)(key)
    carry, over = (state, theirs, observation), False
    for time in range(environment.horizon or 200):
        carry, (step, seen, reward, done) = both(carry, jax.random.fold_in(key, time))
        gone = np.asarray(step.observation["present"] if "present" in step.observation else np.ones(len(agents)))
        for i, agent in enumerate(agents):
            own = np.asarray(seen[agent], np.float32)
            shown = np.asarray(step.observation["observation"][i])
            np.testing.assert_array_equal(shown[..., : own.shape[-1]], own)
            assert np.float32(reward[agent]) == step.reward[i]
            if id.startswith("SMAX"):
                assert gone[i] == (0 if done[agent] or done["__all__"] else 1) or (done["__all__"] and not done[agent])
        over = bool((step.terminated | step.truncated).all())
        assert over == bool(done["__all__"])
        assert not bool((step.terminated & step.truncated).any())
        if over:
            break
    assert over or environment.horizon == 400  # a kitchen's day is long
    if id.startswith("MPE"):
        assert time + 1 == environment.horizon == 26 and bool(step.truncated.all())
    if id in ("hanabi", "switch_riddle"):
        assert bool(step.terminated.all())


def test_agents_that_differ_are_padded_numbered_and_masked():
    environment = make("jaxmarl:MPE_simple_speaker_listener_v4")
    _, observation = environment.reset(jax.random.key(0))
    assert observation["observation"].shape == (2, 11 + 2)  # the listener's 11 numbers, and who one is
    np.testing.assert_array_equal(observation["observation"][:, -2:], np.eye(2))
    np.testing.assert_array_equal(observation["observation"][0, 3:-2], 0)
    np.testing.assert_array_equal(observation["action_mask"], [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    assert observation["state"].shape == (2, 2 * 11 + 2)
    plain = make("jaxmarl:MPE_simple_speaker_listener_v4", identity=False)
    assert plain.observation_space["observation"].shape == (11,)


def test_smax_counts_what_the_team_gains_for_those_who_fell():
    environment = make("jaxmarl:SMAX-3m")
    key = jax.random.key(0)
    state, observation = jax.jit(environment.reset)(key)
    step_once = jax.jit(environment.step)
    seen_fallen = False
    for time in range(environment.horizon):
        before = observation["present"]
        state, step = step_once(state, pick(environment, observation, jax.random.fold_in(key, time)), key)
        observation = step.observation
        assert len(set(np.asarray(step.reward).tolist())) == 1
        assert len(set(np.asarray(step.terminated).tolist())) == 1
        seen_fallen |= bool((before == 0).any() & (before == 1).any())
        if bool(step.terminated.all() | step.truncated.all()):
            break
    assert seen_fallen


def test_one_agent_has_no_axis():
    environment = make("jaxmarl:MPE_simple_v3", max_steps=3)
    check_environment(environment, "alone")
    assert environment.num_agents == 1 and environment.observation_space.shape == (4,)
    state, _ = environment.reset(jax.random.key(0))
    for _ in range(4):
        state, step = environment.step(state, jnp.int32(0), jax.random.key(0))
    assert bool(step.truncated) and step.reward.shape == ()


def test_drawing():
    for id in ("MPE_simple_spread_v3", "SMAX-3m", "overcooked-cramped_room"):
        environment = make(f"jaxmarl:{id}")
        state, _ = environment.reset(jax.random.key(0))
        picture = environment.render(state)
        assert picture.dtype == np.uint8 and picture.ndim == 3 and picture.std() > 10
    riddle = make("jaxmarl:switch_riddle")
    with pytest.raises(NotImplementedError):
        riddle.render(riddle.reset(jax.random.key(0))[0])


def test_bad_input():
    with pytest.raises(ForageError, match="MPE_simple_spread_v3"):
        make("jaxmarl:MPE_simple_spred_v3")
    with pytest.raises(ForageError, match="max_stepz"):
        make("jaxmarl:MPE_simple_spread_v3", max_stepz=3)
    with pytest.raises(ForageError, match="3m"):
        make("jaxmarl:SMAX", scenario="4m")
    assert set(SOME) <= set(adapter.ids())
