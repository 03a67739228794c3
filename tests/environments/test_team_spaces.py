"""Agents' observations, choices and masks keep their meaning under a shared policy, or are refused."""

import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from forage.core.spaces import MASK, STATE, scale_of
from forage.core.types import ForageError
from forage.environments.adapters.pettingzoo import PettingZooEnvironment
from forage.environments.adapters.team_spaces import shared_box

INF = np.inf


def box(low, high, dtype=np.float32):
    return spaces.Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


class World:
    """A parallel environment as PettingZoo has them: agents a, b, ... with the spaces and values that it is given."""

    def __init__(self, seen, acts, shown=None, said=None, reward=0.0, render_mode=None):
        self.seen, self.acts, self.shown, self.said, self.reward = seen, acts, shown, said, reward
        self.possible_agents = self.agents = list(seen)
        self.taken = []

    @property
    def unwrapped(self):
        return self

    def observation_space(self, agent):
        return self.seen[agent]

    def action_space(self, agent):
        return self.acts[agent]

    def look(self):
        infos = {agent: {MASK: self.said[agent]} if self.said else {} for agent in self.agents}
        return self.shown or {agent: space.sample() for agent, space in self.seen.items()}, infos

    def reset(self, seed=None, options=None):
        return self.look()

    def step(self, actions):
        for agent, action in actions.items():
            assert self.acts[agent].contains(action), (agent, action)
        self.taken.append(actions)
        seen, infos = self.look()
        flags = dict.fromkeys(self.agents, False)
        return seen, dict.fromkeys(self.agents, self.reward), flags, flags, infos


@pytest.fixture
def build(monkeypatch):
    """Makes the environment as it is made by its id, `pettingzoo:own.world`."""

    def build(seen, acts, number=1, **rest):
        number_of = {agent: seen if not isinstance(seen, dict) else seen[agent] for agent in acts}
        module = types.SimpleNamespace(parallel_env=lambda **options: World(number_of, acts, **rest, **options))
        monkeypatch.setitem(sys.modules, "own.world", module)
        return PettingZooEnvironment("own.world", number)

    return build


FLAT = box([-1, -1], [1, 1])


@pytest.mark.parametrize("where", ["observation", "beside", "info"])
@pytest.mark.parametrize(
    "acts,masks,space,shown",
    [
        ([3, 3], ([0, 1, 1], [1, 0, 0]), spaces.Discrete(3), [[0, 1, 1], [1, 0, 0]]),
        ([3, 2], ([0, 1, 1], [0, 1]), spaces.Discrete(3), [[0, 1, 1], [0, 1, 0]]),
        ([3, 2], ([0, 0, 0], [0, 0]), spaces.Discrete(3), [[1, 1, 1], [1, 1, 0]]),
        (
            [[2, 3], [3]],
            ([0, 1, 1, 0, 1], [1, 0, 1]),
            spaces.MultiDiscrete([3, 3]),
            [[0, 1, 0, 1, 0, 1], [1, 0, 1, 1, 0, 0]],  # a choice that b does not have is of one option
        ),
        ([[2, 2], [2, 2]], ([0, 1, 1, 1], [1, 1, 1, 0]), spaces.MultiDiscrete([2, 2]), [[0, 1, 1, 1], [1, 1, 1, 0]]),
    ],
)
def test_a_mask_is_obeyed_wherever_it_is(build, where, acts, masks, space, shown):
    each = {
        name: spaces.Discrete(act) if isinstance(act, int) else spaces.MultiDiscrete(act)
        for name, act in zip("ab", acts, strict=True)
    }
    masks = {name: np.array(mask, np.int8) for name, mask in zip("ab", masks, strict=True)}
    seen, rest = dict.fromkeys(each, FLAT), {"said": masks}
    if where != "info":
        other = {"beside": spaces.Discrete(2)} if where == "beside" else {}
        seen = {a: spaces.Dict({"observation": FLAT, MASK: spaces.MultiBinary(len(masks[a])), **other}) for a in each}
        value = {"beside": 1} if where == "beside" else {}
        rest = {"shown": {a: {"observation": np.array([0.5, 0.25]), MASK: masks[a], **value} for a in each}}
    environment = build(seen, each, number=2, **rest)
    assert environment.action_space == space
    observation = environment.reset(0)
    if "shown" in rest:
        entries = [0, 1, 0.5, 0.25] if where == "beside" else [0.5, 0.25]
        assert sorted(observation["observation"][1, 0, : len(entries)]) == sorted(entries)
    np.testing.assert_array_equal(observation[MASK], [shown] * 2)
    action = np.array([np.argmax(shown, 1)] * 2)
    if isinstance(space, spaces.MultiDiscrete):
        ends = np.cumsum(space.nvec)[:-1]
        action = np.array([[[part.argmax() for part in np.split(row, ends)] for row in shown]] * 2)
    np.testing.assert_array_equal(environment.step(action).step.observation[MASK], [shown] * 2)
    for name, mask in masks.items():
        assert not mask.any() or mask[np.ravel(environment.envs[1].taken[0][name])[0]]


def test_a_mask_that_cannot_be_obeyed_is_refused(build):
    three = spaces.Discrete(3)
    with pytest.raises(ForageError, match=r"Agent a of .*world gives an action_mask of 2 entries .* should have 3"):
        build(FLAT, {"a": three, "b": three}, said={"a": np.ones(2), "b": np.ones(2)}).reset(0)
    for acts in ({"a": FLAT, "b": FLAT}, {"a": FLAT}):
        masked = spaces.Dict({"observation": FLAT, MASK: spaces.MultiBinary(2)})
        with pytest.raises(ForageError, match=r"an action_mask beside its observation, and actions in Box\(2,\)"):
            build(masked, acts)
        with pytest.raises(ForageError, match=r"an action_mask beside its observation, and actions in Box\(2,\)"):
            build(FLAT, acts, said={name: np.ones(2) for name in acts})
    environment = build(FLAT, {"a": three, "b": three})
    environment.reset(0)
    environment.envs[0].said = {"a": np.ones(3), "b": np.ones(3)}
    with pytest.raises(ForageError, match="gives agent a an action_mask in its infos that cannot be obeyed"):
        environment.step(np.zeros((1, 2), int))


def test_a_single_agent_keeps_its_mask(build):
    environment = build(FLAT, {"a": spaces.Discrete(2)}, said={"a": np.array([0, 1])})
    np.testing.assert_array_equal(environment.reset(0)[MASK], [[0, 1]])
    assert environment.step(np.array([1])).step.observation["observation"].shape == (1, 2)


def test_each_agent_acts_within_its_own_bounds(build):
    acts = {
        "a": box([-1, 0, -2, -INF], [1, 2, INF, INF]),
        "b": box([-10, 0, 0, -1], [10, 2, 1, 1]),
        "c": box([0.1], [0.3], np.float64),
    }
    environment = build(FLAT, acts)
    assert environment.action_space == box(
        [-1, 0, -2, -INF], [1, 2, INF, INF]
    )  # [-1, 1], the same, and two with open ends
    observation = environment.reset(0)
    np.testing.assert_array_equal(observation["observation"][0, :, 2:], np.eye(3))  # a policy must know who it is
    environment.step(np.array([[[0.5, 1, 5, 5], [0.5, 1, 5, 5], [0.5, 1, 5, 5]]], np.float32))
    taken = environment.envs[0].taken[0]
    np.testing.assert_allclose(taken["a"], [0.5, 1, 5, 5])
    np.testing.assert_allclose(taken["b"], [5, 1, 1, 1])
    np.testing.assert_allclose(taken["c"], [0.25])
    for extreme in (-1, 1):
        environment.step(np.full((1, 3, 4), extreme, np.float32))  # `World` checks that each is of its own space
    assert environment.envs[0].taken[-1]["c"].dtype == np.float64
    # The same on both runners, of arrays of JAX too.
    shared, own = shared_box([box([-1], [1]), box([0, 0], [4, 1])])
    assert shared == box([-1, 0], [1, 1])
    for array in (np.array, jnp.array):
        np.testing.assert_array_equal(own[1](array([0.5, 0.5])), [3, 0.5])


@pytest.mark.parametrize(
    "acts,words",
    [
        ({"a": spaces.Discrete(2), "b": FLAT}, r"actions in Box\(2,\) and in Discrete\(2\), which cannot share"),
        ({"a": box([0], [3], np.int32), "b": FLAT}, r"in Box\(2,\) and in MultiDiscrete\(\[4\]\), which cannot share"),
        ({"a": spaces.Sequence(FLAT)}, "has actions in Sequence"),
    ],
)
def test_actions_that_cannot_be_shared_are_refused(build, acts, words):
    with pytest.raises(ForageError, match=words):
        build(FLAT, acts)


@pytest.mark.parametrize("shape", [(24, 20, 3), (3, 24, 20)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_pictures_keep_their_layout_and_their_scale(build, shape, dtype):
    space, two = spaces.Box(0, 255, shape, dtype), {name: spaces.Discrete(2) for name in "ab"}
    shown = {name: space.sample() for name in two}
    environment = build(space, two, shown=shown)
    seen, state = environment.observation_space["observation"], environment.observation_space[STATE]
    assert seen == spaces.Box(0, 255, (24, 20, 3), dtype) and state == spaces.Box(0, 255, (24, 20, 8), dtype)
    assert scale_of(seen) == scale_of(state) == 1 / 255
    observation = environment.reset(0)
    last = {name: x if shape[-1] == 3 else np.moveaxis(x, 0, -1) for name, x in shown.items()}
    np.testing.assert_array_equal(observation["observation"][0, 1], last["b"])
    np.testing.assert_array_equal(observation[STATE][0, 1, ..., :3], last["a"])
    np.testing.assert_array_equal(observation[STATE][0, 1, ..., 6:], np.broadcast_to([0, 255], (24, 20, 2)))
    environment.envs[0].shown = {name: np.full(shape, 300.5) for name in two}
    if dtype == np.uint8:
        with pytest.raises(ForageError, match=r"observation of agent a float64.* at step 1 in environment 0.*uint8"):
            environment.step(np.zeros((1, 2), int))


def test_vectors_keep_their_bounds_and_whole_numbers_their_size(build):
    two = {name: spaces.Discrete(2) for name in "ab"}
    environment = build(spaces.Box(0, 255, (4,), np.uint8), two, shown={name: np.full(4, 200) for name in two})
    assert scale_of(environment.observation_space["observation"]) == 1 / 255
    assert environment.reset(0)[STATE][0, 1].tolist() == [200] * 8 + [0, 255]
    environment = build({"a": box([1], [2]), "b": spaces.Discrete(3, start=5)}, two, shown={"a": np.ones(1), "b": 6})
    assert environment.observation_space["observation"] == box([0] * 5, [2, 1, 1, 1, 1])
    assert environment.reset(0)["observation"][0].tolist() == [[1, 0, 0, 1, 0], [0, 1, 0, 0, 1]]


@pytest.mark.parametrize(
    "seen,words",
    [
        ({"a": spaces.Box(0, 255, (24, 24, 3), np.uint8), "b": FLAT}, "pictures that differ, in Box"),
        ({"a": spaces.Box(0, 1, (24, 24, 3)), "b": spaces.Box(0, 2, (24, 24, 3))}, "pictures that differ"),
        (spaces.Dict({"x": spaces.Box(0, 255, (24, 24, 3), np.uint8)}), "agent a a picture, x, among other things"),
        (spaces.Sequence(FLAT), "observations in Sequence, which cannot be made one vector"),
    ],
)
def test_observations_that_cannot_be_shared_are_refused(build, seen, words):
    with pytest.raises(ForageError, match=words):
        build(dict.fromkeys("ab", seen) if not isinstance(seen, dict) else seen, {n: spaces.Discrete(2) for n in "ab"})


def test_what_is_not_as_the_library_has_it_is_said(build):
    two = {name: spaces.Discrete(2) for name in "ab"}
    for reward, said in ((np.ones(1), r"reward of agent a float64\[1\]"), (None, "reward of agent a None")):
        environment = build(FLAT, two, reward=reward)
        environment.reset(0)
        with pytest.raises(ForageError, match=f"{said} at step 1 in environment 0; it should be one number"):
            environment.step(np.zeros((1, 2), int))
    environment = build(FLAT, two, shown={name: np.zeros(3) for name in two})
    with pytest.raises(ForageError, match=r"observation of agent a float64\[3\] at reset in environment 0"):
        environment.reset(0)
