"""Native environments in other libraries' hands: their own checkers, and the vector export against SyncVectorEnv."""

import importlib.util
import subprocess
import sys
import warnings

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from forage.core.ports import Environment
from forage.core.spaces import Tokens
from forage.core.types import ForageError, Step
from forage.environments import export, make
from forage.environments.catalogue import NATIVE
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers import SelectEntries
from forage.environments.wrappers.together import EnvironmentCopies

pytestmark = pytest.mark.thorough

needs_pettingzoo = pytest.mark.skipif(importlib.util.find_spec("pettingzoo") is None, reason="no pettingzoo")


class Talk(Environment):
    """Nested observations, an info, a continuous action, and random ends of both kinds."""

    @property
    def observation_space(self):
        return gymnasium.spaces.Dict(
            {
                "place": gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32),
                "words": Tokens(3, 5),
                "inner": gymnasium.spaces.Dict({"time": gymnasium.spaces.Discrete(100)}),
            }
        )

    @property
    def action_space(self):
        return gymnasium.spaces.Box(-1, 1, (2,), np.float32)

    @property
    def horizon(self):
        return 7

    def reset(self, key):
        state = (jax.random.uniform(key, (2,)), jnp.int32(0), key)
        return state, self.look(state)

    def look(self, state):
        place, time, _ = state
        words = jnp.stack([time % 5, jnp.int32(1), jnp.int32(0)])
        return {"place": place, "words": words, "inner": {"time": time}}

    def step(self, state, action, key):
        place = state[0] + action + 0.1 * jax.random.normal(key, (2,))
        state = (place, state[1] + 1, key)
        terminated = place.sum() > 3
        truncated = (state[1] >= 7) & ~terminated
        return state, Step(self.look(state), place.sum(), terminated, truncated, {"time": state[1], "place": place})


def equal(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)


def environments():
    return {
        "CartPole-v1": make("CartPole-v1"),
        "Pendulum-v1": make("Pendulum-v1"),
        "minatar:Breakout": make("minatar:Breakout"),
        "masked": SelectEntries(make("CartPole-v1"), (0, 2)),
        "nested": Talk(),
    }


@pytest.mark.parametrize("name", environments())
def test_gymnasium_finds_nothing_to_complain_of(name):
    environment = environments()[name]
    can_draw = name != "nested"
    env = export.to_gymnasium(environment, "rgb_array" if can_draw else None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True)
    ours = [str(w.message) for w in caught if "infinity" not in str(w.message) and "symmetric" not in str(w.message)]
    assert not [message for message in ours if "recommend" not in message], ours
    first, _ = env.reset(seed=3)
    env.reset()
    again, _ = env.reset(seed=3)
    equal(first, again)
    other, _ = env.reset(seed=4)
    if name != "minatar:Breakout":
        with pytest.raises(AssertionError):
            equal(first, other)
    if can_draw:
        frame = env.render()
        assert frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[-1] == 3
    else:
        assert env.render() is None


def test_an_export_steps_as_the_environment_does():
    environment = make("Pendulum-v1", max_steps=5)
    env = export.to_gymnasium(environment)
    observation, _ = env.reset(seed=0)
    for number in range(5):
        state = env._state
        observation, reward, terminated, truncated, _ = env.step(np.array([5.0], np.float32))  # clipped to 2
        _, step = environment.step(state, jnp.array([2.0]), jax.random.key(0))
        np.testing.assert_allclose(observation, step.observation, rtol=1e-5)
        assert reward == pytest.approx(float(step.reward), rel=1e-5) and not terminated and truncated == (number == 4)
    with pytest.raises(ForageError, match="no episode running"):
        env.step(np.zeros(1, np.float32))


def test_a_vector_reward_is_an_array_beside_its_space():
    env = export.to_gymnasium("DeepSeaTreasure-v0")
    env.reset(seed=0)
    _, reward, *_ = env.step(1)
    assert env.reward_space.contains(reward) and env.reward_names == make("DeepSeaTreasure-v0").reward_names
    envs = export.to_gymnasium_vector("DeepSeaTreasure-v0", 3)
    envs.reset(seed=0)
    assert envs.step(np.ones(3, int))[1].shape == (3, len(env.reward_names))


def test_gymnasium_makes_every_native_id():
    for id in NATIVE:
        assert export.gymnasium_id(id) in gymnasium.registry
    env = gymnasium.make("forage/CartPole-v1", length=1.0)
    assert float(env.unwrapped.environment.length) == 1.0
    assert env.reset(seed=0)[0].shape == (4,)
    breakout = gymnasium.make("forage/minatar-Breakout", render_mode="rgb_array")
    breakout.reset(seed=0)
    assert breakout.render().dtype == np.uint8
    check_env(gymnasium.make("forage/Acrobot-v1").unwrapped, skip_render_check=False)
    envs = gymnasium.make_vec("forage/CartPole-v1", num_envs=3)
    assert isinstance(envs, export.GymnasiumVectorExport) and envs.reset(seed=0)[0].shape == (3, 4)


def test_gymnasium_imports_what_registers_the_ids():
    id = "forage.environments.export:forage/CartPole-v1"
    code = f"import gymnasium; env = gymnasium.make({id!r}); print(env.reset()[0].shape)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=small.PATIENCE)
    assert result.stdout.strip() == "(4,)", result.stderr


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("name", ["CartPole-v1", "nested"])
def test_many_at_once_are_as_many_one_by_one(name, mode):
    environment = environments()[name]
    ours = export.to_gymnasium_vector(environment, 3, mode)
    theirs = SyncVectorEnv([lambda: export.to_gymnasium(environment)] * 3, autoreset_mode=mode)
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"] == mode
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    ours.action_space.seed(0)

    def compare(one, other):
        assert jax.tree.structure(one) == jax.tree.structure(other)
        for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert a.shape == b.shape and (a.dtype == b.dtype or a.dtype.kind == b.dtype.kind != "i")
            if a.dtype == object:
                for x, y in zip(a, b, strict=True):
                    assert (x is None) == (y is None)
                    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-4, atol=1e-5), x, y)
            else:
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)

    compare(ours.reset(seed=5), theirs.reset(seed=5))
    ends = 0
    for _ in range(30):
        actions = ours.action_space.sample()
        one, other = ours.step(actions), theirs.step(actions)
        compare(one, other)
        assert ours.observation_space.contains(one[0])
        over = one[2] | one[3]
        ends += over.sum()
        if mode == AutoresetMode.DISABLED and over.any():
            with pytest.raises(ForageError, match="autoreset is disabled"):
                ours.step(actions)
            compare(ours.reset(options={"reset_mask": over}), theirs.reset(options={"reset_mask": over}))
    assert ends >= 3
    compare(ours.reset(seed=[1, None, 3]), theirs.reset(seed=[1, None, 3]))


def test_a_vector_of_environments_can_be_drawn():
    envs = export.to_gymnasium_vector("CartPole-v1", 2, render_mode="rgb_array")
    with pytest.raises(ForageError, match="first reset"):
        envs.render()
    envs.reset(seed=0)
    frames = envs.render()
    assert len(frames) == 2 and (frames[0] != frames[1]).any()


# --- PettingZoo -----------------------------------------------------------------------------------------------------


class Race(Environment):
    """Two agents walk; each is done at its own goal, and time runs out for both."""

    num_agents: int = 2

    @property
    def observation_space(self):
        return gymnasium.spaces.Dict({"place": gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)})

    @property
    def action_space(self):
        return gymnasium.spaces.Discrete(3)

    def reset(self, key):
        state = (jax.random.uniform(key, (2, 1)), jnp.int32(0))
        return state, {"place": state[0]}

    def step(self, state, action, key):
        place, time = state[0] + action[:, None].astype(jnp.float32), state[1] + 1
        terminated = (place > jnp.array([[4.0], [6.0]]))[:, 0]
        truncated = (time >= 9) & ~terminated
        return (place, time), Step({"place": place}, place[:, 0], terminated, truncated, {"time": time})

    def render(self, state):
        return np.zeros((4, 4, 3), np.uint8)


@needs_pettingzoo
@pytest.mark.parametrize("environment", [Race(), make("CartPole-v1"), Talk()])
def test_pettingzoo_finds_nothing_to_complain_of(environment):
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test

    env = export.to_pettingzoo(environment)
    env.reset(seed=0)
    assert env.possible_agents == [f"agent_{i}" for i in range(getattr(environment, "num_agents", 1))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parallel_api_test(env, num_cycles=50)
        api_test(export.to_pettingzoo_aec(environment), num_cycles=20)
        parallel_seed_test(lambda: export.to_pettingzoo(environment), num_cycles=20)


@needs_pettingzoo
def test_an_agent_that_is_done_leaves_and_the_other_goes_on():
    env = export.to_pettingzoo(Race(), "rgb_array")
    with pytest.raises(ForageError, match="reset"):
        env.step({})
    first, infos = env.reset(seed=1)
    equal(first, env.reset(seed=1)[0])
    assert set(first) == set(infos) == {"agent_0", "agent_1"} and first["agent_0"]["place"].shape == (1,)
    assert first["agent_0"]["place"] != first["agent_1"]["place"]
    assert env.observation_space("agent_0") is env.observation_space("agent_0")
    places = {agent: float(one["place"][0]) for agent, one in first.items()}
    left = []
    while env.agents:
        there = list(env.agents)
        observations, rewards, terminated, truncated, _ = env.step(dict.fromkeys(there, 2))
        assert set(observations) == set(rewards) == set(terminated) == set(truncated) == set(there)
        for agent in there:
            places[agent] += 2
            assert rewards[agent] == pytest.approx(places[agent]) and not truncated[agent]
        left += [agent for agent in there if terminated[agent]]
    assert left == ["agent_0", "agent_1"]
    assert env.render().shape == (4, 4, 3)
    env.reset(seed=0)
    for _ in range(9):
        *_, truncated, _ = env.step(dict.fromkeys(env.agents, 0))
    assert all(truncated.values()) and not env.agents
    env.reset(seed=0)
    for actions in ({"agent_0": 0}, {"agent_0": 0, "agent_1": 0, "agent_7": 0}):
        with pytest.raises(ForageError, match=r"an action of each of \['agent_0', 'agent_1'\]"):
            env.step(actions)
    with pytest.raises(ForageError, match="agent_1 takes actions"):
        env.step({"agent_0": 0, "agent_1": 3})


# --- bad input ------------------------------------------------------------------------------------------------------


def test_what_is_no_environment_or_no_action_is_named(monkeypatch):
    for given, options, words in [
        ("gymnasium:CartPole-v1", {}, "by its own library"),
        ("CartPol-v1", {}, "CartPole-v1"),
        (5, {}, "give an id"),
        (make("CartPole-v1"), {"length": 1.0}, "takes no options, so not length"),
        ("CartPole-v1", {"lenght": 1.0}, "length"),
    ]:
        with pytest.raises(ForageError, match=words):
            export.to_gymnasium(given, **options)
    with pytest.raises(ForageError, match="no render mode human; it has rgb_array"):
        export.to_gymnasium("CartPole-v1", "human")
    with pytest.raises(ForageError, match="no render mode rgb_array; it cannot be drawn"):
        export.to_gymnasium_vector(Talk(), 2, render_mode="rgb_array")
    with pytest.raises(ForageError, match="num_envs=0"):
        export.to_gymnasium_vector("CartPole-v1", 0)
    with pytest.raises(ForageError, match="next_step, same_step, disabled work"):
        export.to_gymnasium_vector("CartPole-v1", 1, "never")
    cartpole, talk = export.to_gymnasium("CartPole-v1"), export.to_gymnasium(Talk())
    cartpole.reset(seed=0), talk.reset(seed=0)
    for env, action, words in [
        (cartpole, 2, r"Discrete\(2\), not 2"),
        (cartpole, 0.5, r"not float64\[\]"),
        (cartpole, [0, 1], r"not int64\[2\]"),
        (cartpole, "left", "not <U4"),
        (talk, [np.nan, 0.0], "NaN"),
        (talk, [0.0], r"here \[2\], not float64\[1\]"),
    ]:
        with pytest.raises(ForageError, match=words):
            env.step(action)
    envs = export.to_gymnasium_vector("CartPole-v1", 2)
    with pytest.raises(ForageError, match="first reset"):
        envs.step([0, 0])
    with pytest.raises(ForageError, match="3 seeds"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(ForageError, match="all of its environments at first"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=0)
    with pytest.raises(ForageError, match=r"here \[2\], not int64\[3\]"):
        envs.step([0, 0, 0])
    with pytest.raises(ForageError, match=r"reset_mask is bool\[2\]"):
        envs.reset(options={"reset_mask": [True, False]})
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.delitem(sys.modules, "forage.environments.export.parallel", raising=False)
    with pytest.raises(ForageError, match=r"pip install 'forage-rl\[pettingzoo\]'"):
        export.to_pettingzoo("CartPole-v1")


def test_many_agents_are_not_for_gymnasium():
    for opened in (export.to_gymnasium, lambda given: export.to_gymnasium_vector(given, 2)):
        with pytest.raises(ForageError, match=r"Together has 2 agents .* to_pettingzoo works"):
            opened(EnvironmentCopies(CartPole(), 2))


@needs_pettingzoo
def test_many_agents_without_an_agent_axis_are_named():
    with pytest.raises(ForageError, match="one row for each agent"):
        export.to_pettingzoo(Race(num_agents=3))
