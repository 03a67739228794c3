"""Gymnasium's nested observations and actions: kept, flattened, converted, or refused."""

import copy

import gymnasium
import jax
import numpy as np
import pytest
import small
from gymnasium import spaces
from mixed_helpers import FLAT, PARTS, GymAim

import forage
from forage.core.arrays import array_space, as_arrays, decode_text, encode_text
from forage.core.host import Check
from forage.core.spaces import PRESENT, Tokens, choice_starts
from forage.core.types import ForageError
from forage.environments.adapters.gymnasium.actions import Door
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.environments.adapters.gymnasium.spaces import flat_mask, mask_fits

WORDS = spaces.Text(6, min_length=0, charset="ab dno")
NESTED = spaces.Dict(
    {
        "pair": spaces.Tuple((spaces.Discrete(3, start=7), spaces.Box(-1, 1, (2,), np.float64))),
        "image": spaces.Box(0, 255, (4, 4, 3), np.uint8),
        "words": WORDS,
        "bits": spaces.MultiBinary(3),
        "dials": spaces.MultiDiscrete([3, 4], start=[1, 0]),
        "deep": spaces.Dict({"deeper": spaces.Tuple((spaces.Box(0, 9, (), np.int64),))}),
    }
)


@pytest.fixture(autouse=True)
def own_folder(monkeypatch):
    monkeypatch.syspath_prepend(__file__.rpartition("/")[0])


class NestedEnv(gymnasium.Env):
    """Shows a new random element of its space at every step."""

    observation_space = NESTED
    action_space = spaces.Tuple((spaces.Discrete(3, start=5), spaces.Dict({"m": spaces.MultiBinary((2, 2))})))

    def __init__(self, spoil=None):
        self.spoil = spoil
        self.observation_space = copy.deepcopy(NESTED)  # with random numbers of its own

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.time = 0
        return self.look(), {}

    def look(self):
        observation = self.observation_space.sample()
        self.shown = observation
        if self.spoil == "missing" and self.time:
            observation.pop("bits")
        if self.spoil == "shape" and self.time:
            observation["bits"] = np.zeros(2, np.int8)
        if self.spoil == "nan" and self.time:
            observation["pair"] = (8, np.array([0.0, np.nan]))
        if self.spoil == "text" and self.time:
            observation["words"] = "abc"
        if self.spoil == "tuple" and self.time:
            observation["pair"] = (8,)
        return observation

    def step(self, action):
        assert self.action_space.contains(action), action
        self.time += 1
        return self.look(), float(action[0]), self.time >= 3, False, {"code": int(action[1]["m"].sum())}


TARGET = "test_gymnasium_spaces:NestedEnv"


def test_nested_observations_stay_nested():
    host = GymnasiumEnvironment(TARGET, 2, info=("code",))
    space = host.observation_space
    assert space["pair"] == spaces.Dict({"0": spaces.Discrete(3), "1": spaces.Box(-1, 1, (2,), np.float32)})
    assert space["words"] == Tokens(6, 7) and space["dials"] == spaces.MultiDiscrete([3, 4])
    envs = [env.unwrapped for env in host._envs]
    for look in (lambda: host.reset(3), lambda: host.step(np.zeros((2, 5), int)).observation):
        observation = look()
        for index, env in enumerate(envs):
            one, shown = jax.tree.map(lambda x, index=index: x[index], observation), env.shown
            assert one["pair"]["0"] == shown["pair"][0] - 7
            np.testing.assert_allclose(one["pair"]["1"], shown["pair"][1], rtol=1e-6)
            assert decode_text(WORDS, one["words"]) == shown["words"]
            np.testing.assert_array_equal(one["dials"], shown["dials"] - [1, 0])
            np.testing.assert_array_equal(one["image"], shown["image"])
            assert one["deep"]["deeper"]["0"] == shown["deep"]["deeper"][0]
    leaves = jax.tree.leaves(observation)
    assert {str(leaf.dtype) for leaf in leaves} == {"int32", "float32", "uint8", "int8"}
    step, following = host.step(np.array([[2, 1, 0, 1, 1], [0, 0, 0, 0, 0]]))
    np.testing.assert_array_equal(step.reward, [7, 5])
    np.testing.assert_array_equal(step.info["code"], [3, 0])
    step, following = host.step(np.zeros((2, 5), int))
    assert step.terminated.all() and (following["image"] != step.observation["image"]).any()


def test_flattened_observations_are_gymnasiums_own():
    host = GymnasiumEnvironment(TARGET, 2, flatten=True)
    flat = spaces.flatten_space(NESTED)
    assert host.observation_space.shape == flat.shape and host.observation_space.dtype == np.float32
    observation = host.reset(1)
    for row, env in zip(observation, host._envs, strict=True):
        np.testing.assert_array_equal(row, spaces.flatten(NESTED, env.unwrapped.shown).astype(np.float32))
    discrete = GymnasiumEnvironment("FrozenLake-v1", 1, flatten=True)
    np.testing.assert_array_equal(discrete.reset(0), np.eye(16)[:1])


@pytest.mark.thorough
def test_processes_keep_what_is_nested_too():
    serial, parallel = (GymnasiumEnvironment(TARGET, 2, parallel=flag, info=("code",)) for flag in (False, True))
    try:
        for one, other in [(serial.reset(5), parallel.reset(5))] + [
            (serial.step(action), parallel.step(action)) for action in np.ones((4, 2, 5), int)
        ]:
            jax.tree.map(np.testing.assert_array_equal, one, other)
    finally:
        parallel.close()


def test_a_nested_environment_is_saved_exactly():
    host = GymnasiumEnvironment("Blackjack-v1", 2, snapshots=True)
    assert list(host.observation_space) == ["0", "1", "2"]
    host.reset(0)
    saved = host.snapshot()
    assert saved is not None
    after = [host.step(np.ones(2, int)) for _ in range(5)]
    host.restore(saved)
    for expected in after:
        jax.tree.map(np.testing.assert_array_equal, host.step(np.ones(2, int)), expected)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        ("missing", ["without its part bits"]),
        ("shape", ["bits", "int8[2]", "int8[3]"]),
        ("nan", ["NaN", "pair.1", "entry 1"]),
        ("text", ["'c'", "does not have"]),
        ("tuple", ["1 parts", "2"]),
    ],
)
def test_a_spoilt_leaf_is_named(spoil, words):
    host = GymnasiumEnvironment(TARGET, 1, spoil=spoil)
    host.reset(0)
    with pytest.raises(ForageError) as caught:
        host.step(np.zeros((1, 5), int))
    for word in words:
        assert word in str(caught.value)


def test_texts_go_there_and_back():
    ids = encode_text(WORDS, "and b")
    assert ids.dtype == np.int32 and ids.shape == (6,) and ids[-1] == Tokens.PAD and ids[:5].min() >= 1
    assert decode_text(WORDS, ids) == "and b" and decode_text(WORDS, encode_text(WORDS, "")) == ""
    other = spaces.Text(6, charset=frozenset("on dba"))  # a set has no order, its ids have
    np.testing.assert_array_equal(encode_text(other, "and b"), ids)
    for wrong in ("abababa", 5):
        with pytest.raises(ForageError, match="no text of at most 6"):
            encode_text(WORDS, wrong)


def test_observations_whose_size_changes_are_answered_with_what_works():
    space = spaces.Dict({"a": spaces.Sequence(spaces.Discrete(3))})
    with pytest.raises(ForageError, match="size changes; spaces made of Box"):
        array_space("mine", space)
    one_of = spaces.OneOf((spaces.Discrete(2), spaces.Box(0, 1)))
    with pytest.raises(ForageError, match="flatten=True works"):
        array_space("mine", one_of)
    assert as_arrays(spaces.Tuple((spaces.Discrete(2),)), (1,)) == {"0": 1}


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        (spaces.MultiBinary(3), spaces.MultiDiscrete([2, 2, 2])),
        (spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [0, 9]]), spaces.MultiDiscrete([2, 3, 4, 5])),
        (
            spaces.Tuple((spaces.Discrete(3, start=4), spaces.Dict({"b": spaces.MultiBinary(2)}))),
            spaces.MultiDiscrete([3, 2, 2]),
        ),
        (
            spaces.Dict({"arm": spaces.Box(-1, 1, (2, 2), np.float64), "leg": spaces.Box(0, 5, (1,), np.float32)}),
            spaces.Box(np.array([-1, -1, -1, -1, 0], np.float32), np.array([1, 1, 1, 1, 5], np.float32)),
        ),
        (spaces.Box(-2, 2, (2,), np.float64), spaces.Box(-2, 2, (2,), np.float32)),
        (spaces.Discrete(5, start=-2), spaces.Discrete(5)),
        (PARTS, FLAT),
    ],
)
def test_actions_arrive_as_the_environment_takes_them(inner, outer):
    door = Door("mine", inner, 3)
    assert door.space == outer
    outer.seed(0)
    chosen = np.stack([outer.sample() for _ in range(3)])
    singles = door.singles(chosen)
    assert len(singles) == 3 and all(inner.contains(single) for single in singles), singles
    different = len({str(single) for single in singles}) > 1
    assert different == (len(np.unique(chosen, axis=0)) > 1)
    with pytest.raises(ForageError, match="was sent actions of shape"):
        door.singles(chosen[:2])


MIXED_MASKS = [
    np.array([0, 1, 1, 0, 1, 1]),
    {"more": (np.array([1, 0]), None), "side": np.array([1, 1]), "power": None},
    {"more": (np.array([1, 0]), None), "side": np.array([1, 1])},
]
WRONG_MASKS = [
    np.array([0, 1, 1]),
    {"more": (np.array([1, 0]), np.ones(2)), "side": np.array([1, 1])},
    {"more": (np.array([1, 0]),), "side": np.array([1, 1])},
    {"more": (np.array([1, 0, 2]), None), "side": np.array([1, 1])},
    {"more": (np.array([1, 0]), None)},
    {"more": (np.array([1, 0]), None), "side": np.array([1, 1]), "sid": np.array([1, 1])},
]


def test_masks_of_mixed_actions_are_flat_or_nested_and_leave_numbers_out():
    for mask in MIXED_MASKS:
        np.testing.assert_array_equal(flat_mask("mine", PARTS, mask), [0, 1, 1, 0, 1, 1])
    for mask in WRONG_MASKS:
        with pytest.raises(ForageError, match=r"mine gives an action_mask of .*; it should have 6 entries"):
            flat_mask("mine", PARTS, mask)
    assert mask_fits(spaces.MultiBinary(6), PARTS) and not mask_fits(spaces.MultiBinary(7), PARTS)


@pytest.mark.parametrize("mask", MIXED_MASKS[:2], ids=["flat", "nested"])
def test_a_mask_in_the_info_is_seen_beside_what_mixed_agents_see(mask):
    environment = GymnasiumEnvironment(lambda: GymAim(mask), 2, "mixed_helpers:GymAim")
    assert environment.action_space == FLAT
    seen = environment.reset(0)
    np.testing.assert_array_equal(seen["action_mask"], [[0, 1, 1, 0, 1, 1]] * 2)
    step, after = environment.step(np.float32([[1, 0, 0, 2.4, 1], [1, 0, 1, 7, 9]]))
    assert step.terminated.all() and after["action_mask"].shape == (2, 6)
    environment.close()


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Dict(), r"actions in Dict\(\), which has no parts; give it some"),
        (spaces.Dict(turn=spaces.Tuple(())), "which has no parts"),
        (
            spaces.Dict(go=spaces.Discrete(2), count=spaces.Box(0, 2**62, (1,), np.int64)),
            "whole numbers without bounds",
        ),
        (spaces.Dict(go=spaces.Discrete(2), say=spaces.Text(3)), "work, and Dicts and Tuples of these"),
    ],
)
def test_mixed_actions_without_parts_or_bounds_are_answered(space, words):
    with pytest.raises(ForageError, match=words):
        Door("mine", space, 1)


def test_the_parts_of_an_action_keep_their_order():
    inner = spaces.Tuple(
        (spaces.Discrete(3, start=4), spaces.Dict({"b": spaces.MultiBinary(2), "a": spaces.Discrete(9)}))
    )
    door = Door("mine", inner, 1)
    names = list(inner.spaces[1])
    (first, rest) = door.singles(np.array([[2, *([7, 1, 0] if names == ["a", "b"] else [1, 0, 7])]]))[0]
    assert first == 6 and rest["a"] == 7
    np.testing.assert_array_equal(rest["b"], [1, 0])
    boxes = Door("mine", spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "y": spaces.Box(-1, 1, (1, 1))}), 1)
    single = boxes.singles(np.array([[0.25, 0.5, 0.75]], np.float32))[0]
    np.testing.assert_array_equal(single["x"], [0.25, 0.5])
    np.testing.assert_array_equal(single["y"], [[0.75]])


@pytest.mark.parametrize(
    "space",
    [
        spaces.Tuple((spaces.Discrete(2), spaces.Text(3))),
        spaces.Text(3),
        spaces.Sequence(spaces.Discrete(2)),
    ],
)
def test_actions_that_no_agent_can_choose_are_answered_with_what_works(space):
    with pytest.raises(
        ForageError, match="Box, Discrete, MultiDiscrete and MultiBinary work, and Dicts and Tuples of these"
    ):
        Door("mine", space, 1)


def test_the_check_looks_into_nested_observations():
    space = spaces.Dict({"a": spaces.Box(0, 1, (2,), np.float32), "b": spaces.Dict({"c": spaces.Discrete(2)})})
    check = Check("mine", space, 3)
    good = {"a": np.zeros((3, 2), np.float32), "b": {"c": np.zeros(3, np.int32)}}
    check.observation(1, good)
    for wrong, words in [
        ({**good, "b": {}}, ["observation b", "['c']"]),
        ({**good, "d": 1}, ["['a', 'b', 'd']"]),
        ({**good, "b": np.zeros(3)}, ["observation b ndarray"]),
        ({**good, "b": {"c": np.zeros(3)}}, ["observation b.c float64[3]", "int32[3]"]),
        ({**good, "a": np.full((3, 2), np.nan, np.float32)}, ["NaN as observation a at step 1"]),
    ]:
        with pytest.raises(ForageError) as caught:
            check.observation(1, wrong)
        for word in words:
            assert word in str(caught.value), caught.value


def test_a_mask_allows_an_option_of_each_choice_that_is_made_now():
    one = Check("mine", spaces.Dict(), 2, starts=[0])
    two = Check("mine", spaces.Dict(), 2, starts=choice_starts(spaces.MultiDiscrete([2, 3])))
    team = Check("mine", spaces.Dict(), 1, num_agents=2, starts=[0])

    def observation(rows, **more):
        return {"observation": np.zeros(len(rows)), "action_mask": np.array(rows, np.int8), **more}

    one.mask(1, observation([[1, 0], [0, 1]]))
    two.mask(1, observation([[1, 0, 0, 0, 1], [0, 1, 1, 1, 1]]))
    team.mask(1, observation([[[0, 0], [0, 1]]], **{PRESENT: np.array([[0, 1]])}))  # the first agent is not to move
    for check, wrong, words in [
        (
            one,
            observation([[1, 0], [0, 0]]),
            "mine has an action_mask that allows no action after step 1 in environment 1;",
        ),
        (
            two,
            observation([[1, 0, 0, 0, 1], [1, 1, 0, 0, 0]]),
            "no option of choice 1 after step 1 in environment 1; allow",
        ),
        (
            team,
            observation([[[0, 0], [0, 1]]], **{PRESENT: np.array([[1, 1]])}),
            "no action .* in environment 0, agent 0;",
        ),
    ]:
        with pytest.raises(ForageError, match=words):
            check.mask(1, wrong)


class EmptyMask(gymnasium.Env):
    """An environment of one step an episode, whose mask is 0 after it, and `at` before it."""

    observation_space, action_space = spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(3)

    def __init__(self, at=1):
        self.at = at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {"action_mask": np.full(3, self.at, np.int8)}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, True, False, {"action_mask": np.zeros(3, np.int8)}


def test_a_mask_that_allows_nothing_ends_a_run_where_an_action_is_due():
    host = GymnasiumEnvironment(EmptyMask, 1)
    host.reset(0)
    host.step(np.zeros(1, int))  # where the episode is over, no action is due
    assert host.may_save and not GymnasiumEnvironment(EmptyMask, 1, snapshots=True).may_save
    assert not GymnasiumEnvironment("CartPole-v1", 1).may_save
    with pytest.raises(ForageError, match="EmptyMask has an action_mask that allows no action after the reset in env"):
        GymnasiumEnvironment(EmptyMask, 1, at=0).reset(0)


def test_spaces_that_no_value_travels_in_are_named_at_once():
    with pytest.raises(ForageError, match=r'mine shows Text.* dictionary with the keys "0", "1"'):
        Check("mine", spaces.Dict({"a": spaces.Text(4)}), 1)


def test_a_vector_reward_has_names():
    host = GymnasiumEnvironment("test_gymnasium_spaces:TwoRewards", 2)
    assert host.reward_names == ("gain", "cost")
    host.reset(0)
    np.testing.assert_array_equal(host.step(np.zeros(2, int)).step.reward, [[1, -2], [1, -2]])
    assert GymnasiumEnvironment("test_gymnasium_spaces:TwoRewards", 1, names=()).reward_names == (
        "objective_0",
        "objective_1",
    )
    with pytest.raises(ForageError, match="2 numbers: gain, cost"):
        host = GymnasiumEnvironment("test_gymnasium_spaces:TwoRewards", 1, reward=3.0)
        host.reset(0)
        host.step(np.zeros(1, int))


@pytest.mark.parametrize("agent", ["ppo", "dqn"])
@pytest.mark.thorough
def test_a_run_on_nested_observations_leaves_an_agent_that_acts_on_them(agent, tmp_path):
    small.train(tmp_path / "run", agent, environment="gymnasium:Blackjack-v1", seeds=[1])
    policy = forage.load(tmp_path / "run")
    assert policy.act({"0": 12, "1": 4, "2": 0}) in (0, 1)
    with pytest.raises(ForageError, match="One observation of gymnasium:Blackjack-v1"):
        policy.act((12, 4, 0))


@pytest.mark.thorough
def test_a_run_on_many_boxes_of_actions(tmp_path):
    small.train(tmp_path / "run", "sac", environment="test_gymnasium_spaces:Arms", seeds=[1])
    assert forage.load(tmp_path / "run").act(np.zeros(1)).shape == (3,)


@pytest.mark.parametrize("size", [2, 3])
def test_a_mask_among_other_things_is_put_beside_them_where_it_fits(size):
    host = GymnasiumEnvironment("test_gymnasium_spaces:Loose", 2, size=size)
    observation = host.reset(0)
    if size == 2:
        assert set(observation) == {"observation", "action_mask"} and list(observation["observation"]) == ["board"]
        np.testing.assert_array_equal(observation["action_mask"], [[1, 0], [1, 0]])
    else:
        assert set(observation) == {"observation"} and set(observation["observation"]) == {"board", "action_mask"}


class Loose(gymnasium.Env):
    action_space = spaces.Discrete(2)

    def __init__(self, size):
        self.size = size
        self.observation_space = spaces.Dict({"board": spaces.Box(0, 1, (4,)), "action_mask": spaces.MultiBinary(size)})

    def reset(self, seed=None, options=None):
        return {"board": np.zeros(4, np.float32), "action_mask": np.array([1, 0, 0][: self.size], np.int8)}, {}


class Arms(gymnasium.Env):
    """Ends at its third step; both parts of the action must be within their spaces."""

    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Dict({"left": spaces.Box(-1, 1, (2,)), "right": spaces.Box(-1, 1, (1,))})

    def reset(self, seed=None, options=None):
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.time += 1
        return np.zeros(1, np.float32), float(action["left"].sum()), self.time >= 3, False, {}


class TwoRewards(gymnasium.Env):
    observation_space = spaces.Box(0, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)
    reward_space = spaces.Box(-5, 5, (2,), np.float32)

    def __init__(self, names=("gain", "cost"), reward=(1.0, -2.0)):
        self.reward_names, self.reward = names, reward

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.reward, False, False, {}
