"""Observations, rewards, masks and actions of an environment keep their meaning, or are refused in one sentence."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.td3 import TD3
from forage.agents.policy_gradient.ppo import PPO
from forage.core import prng
from forage.core.arrays import array_space, as_arrays
from forage.core.host import array_dtype
from forage.core.ports.checking import check_agent
from forage.core.spaces import (
    check_spaces,
    clip,
    fit_dtype,
    observation_part,
    picture,
    reading,
    sample,
    scale_of,
    split_mask,
)
from forage.core.types import ForageError, Spec
from forage.environments.adapters.gymnasium.actions import Door
from forage.environments.adapters.gymnasium.environment import GymnasiumEnvironment
from forage.environments.adapters.gymnasium.spaces import flat_mask
from forage.loop.host.runner import check_copy
from forage.loop.policy import Policy
from forage.nn.distributions import Actions, Categorical
from forage.nn.encoders import encoder
from forage.nn.networks import Torso

INF, LARGEST = np.inf, np.finfo(np.float32).max


@pytest.fixture(autouse=True)
def own_folder(monkeypatch):
    monkeypatch.syspath_prepend(__file__.rpartition("/")[0])


def box(low, high, dtype=np.float32):
    return spaces.Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


# --- actions ----------------------------------------------------------------------------------------------------------


def test_each_entry_of_an_action_is_brought_to_the_bounds_it_has():
    space = box([-1, -INF, 0, -INF], [1, INF, INF, 2])
    np.testing.assert_array_equal(clip(space, jnp.full(4, -9.0)), [-1, -9, 0, -9])
    np.testing.assert_array_equal(clip(space, jnp.full(4, 9.0)), [1, 9, 9, 2])
    assert clip(spaces.Box(-INF, INF, ()), 7.0) == 7.0
    drawn = jax.vmap(lambda key: sample(space, key))(jax.random.split(jax.random.key(0), 99))
    assert np.isfinite(drawn).all() and all(space.contains(np.asarray(one)) for one in drawn)


@pytest.mark.thorough
def test_the_unit_box_is_made_entry_by_entry():
    actions = Actions.from_space(box([[-2, -INF, 5], [2, 0, -LARGEST]], [[6, INF, INF], [2, 1, LARGEST]]))
    assert actions.outputs == 5  # the entry whose bounds are equal is no choice
    action = actions.to_box(jnp.array([0.5, 3.0, 1.0, -1.0, -4.0]))
    np.testing.assert_array_equal(action, [[4, 3, 6], [2, 0, -4]])
    np.testing.assert_allclose(actions.to_unit(action), [0.5, 3, 1, -1, -4], atol=1e-6)
    np.testing.assert_array_equal(actions.half_range, [4, 1, 1, 0.5, 1])
    # What is learned from is what was executed, within the bounds.
    far = jnp.array([[9.0, 9.0, -9.0], [2.0, 9.0, 9.0]])
    np.testing.assert_array_equal(actions.action_features(far), [1, 9, 0, 1, 9])
    slope = jax.grad(lambda unit: actions.to_box(unit).sum())(jnp.zeros(5))
    np.testing.assert_array_equal(slope, [4, 1, 1, 0.5, 1])


@pytest.mark.parametrize("agent", [SAC(), TD3()])
def test_agents_for_bounded_actions_name_the_entry_without_bounds(agent):
    def spec(space):
        return Spec("x", spaces.Box(-1, 1, (2,)), space)

    check_agent(agent, spec(box([0, 2], [1, 2])))
    with pytest.raises(ForageError, match=r"Box\(1,\), whose entry 0 goes from 0 to inf; try ppo"):
        check_agent(agent, spec(spaces.Box(0, INF, (1,))))
    with pytest.raises(ForageError, match=r"whose value goes from -3\.403e"):
        check_agent(agent, spec(spaces.Box(-LARGEST, LARGEST, ())))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_no_action_leaves_the_environments_own_bounds_by_rounding(dtype):
    for inner in (
        box([-0.1, 0.1], [0.1, 0.3], dtype),
        spaces.Tuple((box([-0.1], [0.1], dtype), box([0.1], [0.1], dtype))),
    ):
        door = Door("x", inner, 2)
        for extreme in (door.space.low, door.space.high, door.space.low - 1, door.space.high + 1):
            for action in door.singles(np.stack([extreme] * 2)):
                assert inner.contains(action), action
    # Nor does what a trained agent hands out, which is float32.
    space = Door("x", box([-0.1, 0.7], [0.1, 0.9], np.float64), 1).space
    assert (space.low >= np.array([-0.1, 0.7])).all() and (space.high <= np.array([0.1, 0.9])).all()


# --- pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape,dtype,axes,read",
    [
        ((84, 84, 4), np.uint8, (0, 1, 2), (84, 84, 4)),
        ((4, 84, 84), np.uint8, (1, 2, 0), (84, 84, 4)),
        ((1, 84, 84), np.float32, (1, 2, 0), (84, 84, 1)),
        ((3, 24, 20), np.float32, (1, 2, 0), (24, 20, 3)),
        ((12, 84, 96), np.uint8, (1, 2, 0), (84, 96, 12)),
        ((84, 80), np.uint8, (0, 1), (84, 80, 1)),
        ((84, 80), np.float32, (0, 1), (84, 80, 1)),
        ((4, 84, 80, 3), np.uint8, (1, 2, 0, 3), (84, 80, 12)),
        ((4, 3, 84, 80), np.uint8, (2, 3, 0, 1), (84, 80, 12)),
        ((10, 10, 4), np.uint8, (0, 1, 2), (10, 10, 4)),
        ((7, 7, 3), np.uint8, (0, 1, 2), (7, 7, 3)),
        ((2, 2, 3), np.uint8, None, None),
        ((8, 8), np.uint8, None, None),
    ],
)
def test_pictures_are_read_in_their_own_layout(shape, dtype, axes, read):
    space = spaces.Box(0, 255, shape, dtype)
    found = picture(space)
    assert (found and found.axes, found and found.shape) == (axes, read)
    assert bool(reading(space)) == (axes not in (None, (0, 1, 2)))
    if found is not None:
        assert scale_of(space) == 1 / 255  # bytes are seen as 0 to 1, in whatever dtype
        one = np.arange(np.prod(shape)).reshape(shape)
        assert found(one[None]).shape == (1, *read)
        # The last channels are those of the newest picture.
        if len(shape) == 4:
            newest = one[-1] if shape[-1] == 3 else np.moveaxis(one[-1], 0, -1)
            np.testing.assert_array_equal(found(one)[..., -3:], newest)


def test_both_layouts_get_the_same_network_and_the_same_features():
    last, first = (spaces.Box(0, 255, shape, np.uint8) for shape in ((20, 24, 3), (3, 20, 24)))
    torsos = [Torso(jax.random.key(0), space, (8,), "relu", 1.0) for space in (last, first)]
    image = np.asarray(last.sample())
    np.testing.assert_array_equal(torsos[0](image), torsos[1](np.moveaxis(image, -1, 0)))
    assert "height x width" in reading(spaces.Box(0, 1, (4, 10, 12)))[0]  # which of the two, nobody can know
    assert scale_of(spaces.Box(0, 1, (20, 24, 3))) == 1 and scale_of(spaces.Box(-5, 255, (20, 24, 3))) == 1


@pytest.mark.thorough
def test_a_trained_agent_takes_the_environments_own_layout_and_no_value_that_does_not_fit():
    spec = Spec("x", spaces.Box(0, 255, (1, 16, 16), np.uint8), spaces.Box(0, INF, (1,)))
    policy = Policy(PPO(), PPO().init(prng.key(0), spec), spec)
    assert policy.act(np.full((1, 16, 16), 200), explore=True).shape == (1,)
    for wrong, why in ((0.7, "float64 does not become uint8"), (300, "300 at entry .* does not fit into uint8")):
        with pytest.raises(ForageError, match=why):
            policy.act(np.full((1, 16, 16), wrong))
    assert (np.array([policy.act(np.zeros((1, 16, 16), np.uint8), explore=True) for _ in range(20)]) >= 0).all()


# --- observations -----------------------------------------------------------------------------------------------------


def test_whole_numbers_travel_where_they_fit():
    assert array_dtype(spaces.Box(0, 2**31 - 1, (2,), np.int64)) == np.int32
    for space in (spaces.Box(0, 2**40, (2,), np.int64), spaces.Box(0, 2**32 - 1, (2,), np.uint32)):
        assert array_dtype(space) == np.float32
    assert array_dtype(spaces.Box(-9, 9, (2,), np.int16)) == np.int16 and array_dtype(spaces.Discrete(3)) == np.int32
    np.testing.assert_array_equal(fit_dtype(np.array([255, 0]), np.dtype(np.uint8)), [255, 0])
    for value, dtype in ((np.array([0, -1]), np.uint8), (np.array(2**31), np.int32), (np.array([2]), np.bool_)):
        with pytest.raises(ValueError, match="does not fit"):
            fit_dtype(value, np.dtype(dtype))


class Shows(gymnasium.Env):
    """An environment that returns given observations and rewards from its second step on."""

    action_space = spaces.Discrete(2)
    cases = {
        "byte": (spaces.Box(0, 255, (2,), np.uint8), np.array([300, -1]), 1.0),
        "choice": (spaces.Dict({"a": spaces.Tuple((spaces.Discrete(3, start=2),))}), {"a": (7,)}, 1.0),
        "infinite": (spaces.Box(-INF, INF, (2,), np.float64), np.array([0, 1e39]), 1.0),
        "paid": (spaces.Box(0, 1, (1,)), np.zeros(1, np.float32), INF),
        "text": (spaces.Box(0, 1, (1,)), np.zeros(1, np.float32), "1.5"),
    }

    def __init__(self, case="byte"):
        self.observation_space, self.wrong, self.reward = self.cases[case]

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        self.observation_space.seed(0)
        return self.observation_space.sample(), {}

    def step(self, action):
        self.time += 1
        late = self.time > 1
        seen = self.wrong if late else self.observation_space.sample()
        return seen, self.reward if late else 1.0, False, False, {}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    "case,parallel,why",
    [
        ("byte", False, r"300 at entry 0 does not fit into uint8\) at step 2 in environment 0"),
        ("byte", True, r"300 at entry 0 does not fit into uint8\) at step 2 in environment 0"),
        ("choice", False, "observation a.0 5 at step 2 in environment 0; its space promises whole numbers from 0 to 2"),
        ("infinite", False, "returned infinity .* as observation at step 2 in environment 0, entry 1"),
        ("paid", False, "returned infinity .* as reward at step 2 in environment 0"),
        ("text", False, "returned as reward '1.5' at step 2 in environment 0"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(case, parallel, why):
    host = GymnasiumEnvironment("test_door:Shows", 1, parallel=parallel, case=case)
    host.reset(0)
    host.step(np.zeros(1, np.int32))
    with pytest.raises(ForageError, match=why):
        host.step(np.zeros(1, np.int32))
    host.close()


def test_keys_of_a_persons_own_are_seen_whatever_they_are_called():
    space = spaces.Dict({key: spaces.Box(-1, 1, (2,)) for key in ("observation", "state", "present")})
    assert observation_part(space) is space and encoder(jax.random.key(0), space, None).size == 6
    value = {key: np.ones(2) for key in space}
    assert split_mask(value)[0] is value


def test_what_holds_nothing_is_left_out_or_refused():
    empty = spaces.Box(-1, 1, (0,))
    none = spaces.MultiDiscrete(np.zeros(0, int))
    some = spaces.Dict({"a": spaces.Tuple((empty, spaces.Box(-1, 1, (3,)))), "b": empty, "c": none})
    kept = array_space("x", some)
    assert kept == spaces.Dict({"a": spaces.Dict({"1": spaces.Box(-1, 1, (3,))})})
    shown = as_arrays(some, some.sample())
    assert list(shown) == ["a"] and list(shown["a"]) == ["1"]
    check_spaces("x", kept, spaces.Discrete(2))
    with pytest.raises(ForageError, match=r"shows b, in which there is nothing to see"):
        check_spaces("x", spaces.Dict({"a": spaces.Box(-1, 1, (3,)), "b": empty}), spaces.Discrete(2))
    for bad in (empty, spaces.Box(0, 255, (8, 8, 0), np.uint8), spaces.Dict({"b": empty})):
        with pytest.raises(ForageError, match="there is nothing to see"):
            check_spaces("x", bad, spaces.Discrete(2))
    for still in (empty, spaces.Box(1, 1, (2,)), spaces.MultiDiscrete(np.zeros(0, int))):
        with pytest.raises(ForageError, match="there is nothing to choose"):
            check_spaces("x", kept, still)


# --- masks ------------------------------------------------------------------------------------------------------------


def test_a_mask_in_any_of_its_forms_is_one_entry_for_each_option():
    many = spaces.MultiDiscrete([2, 3])
    for mask in (np.array([1, 0, 1, 1, 0]), [1, 0, 1, 1, 0], (np.array([1, 0]), np.array([1, 1, 0]))):
        np.testing.assert_array_equal(flat_mask("x", many, mask), [1, 0, 1, 1, 0])
    np.testing.assert_array_equal(flat_mask("x", spaces.MultiBinary(3), np.array([0, 1, 2])), [1, 0, 0, 1, 1, 1])
    nested = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple((many,))})
    inside = {"a": np.array([0, 1]), "b": ((np.array([1, 0]), np.array([1, 1, 0])),)}
    np.testing.assert_array_equal(flat_mask("x", nested, inside), [0, 1, 1, 0, 1, 1, 0])
    for bad in (np.ones(4), (np.ones(3), np.ones(2)), "no", None, {"a": np.ones(5)}):
        with pytest.raises(ForageError, match="it should have 5 entries"):
            flat_mask("x", many, bad)


def test_where_nothing_is_allowed_what_is_drawn_is_what_is_booked():
    nothing = Categorical.from_logits(jnp.zeros(3), jnp.zeros(3, bool))
    drawn = jax.vmap(nothing.sample)(jax.random.split(jax.random.key(0), 300))
    assert (np.bincount(drawn, minlength=3) > 70).all()
    np.testing.assert_allclose(jnp.exp(nothing.log_probabilities), 1 / 3, rtol=1e-6)
    keys = jax.random.split(jax.random.key(0), 300)
    drawn = jax.vmap(lambda key: sample(spaces.MultiDiscrete([3, 2]), key, jnp.array([0, 0, 0, 0, 1], bool)))(keys)
    assert set(np.asarray(drawn)[:, 0].tolist()) == {0, 1, 2} and (drawn[:, 1] == 1).all()


class Masks(gymnasium.Env):
    """An environment that puts its mask of allowed actions in one of many places."""

    observation_space = spaces.Box(0, 1, (1,))

    def __init__(self, where="info", actions="many"):
        self.where = where
        self.action_space = {
            "many": spaces.MultiDiscrete([2, 3]),
            "bits": spaces.MultiBinary(2),
            "box": spaces.Box(-1, 1, (2,)),
        }[actions]
        self.mask = np.array([1, 1, 1, 0, 1][: 4 if actions == "bits" else 5], np.int8)
        if where == "method":
            self.action_masks = lambda: self.mask.astype(bool)

    def info(self, place):
        return {"action_mask": self.mask} if self.where in ("info", place) else {}

    def reset(self, seed=None, options=None):
        return np.zeros(1, np.float32), self.info("reset")

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, self.info("step")


@pytest.mark.parametrize("where,actions", [("info", "many"), ("info", "bits"), ("method", "many"), ("reset", "bits")])
def test_a_mask_is_seen_wherever_it_is(where, actions):
    host = GymnasiumEnvironment("test_door:Masks", 2, where=where, actions=actions)
    wanted = [[1, 1, 1, 0, 1][: 5 if actions == "many" else 4]] * 2
    np.testing.assert_array_equal(host.reset(0)["action_mask"], wanted)
    after = host.step(np.zeros((2, 2), np.int32)).observation["action_mask"]
    np.testing.assert_array_equal(after, np.ones_like(wanted) if where == "reset" else wanted)


@pytest.mark.parametrize("where,actions", [("step", "many"), ("info", "box")])
def test_a_mask_that_cannot_be_obeyed_is_refused(where, actions):
    host = GymnasiumEnvironment("test_door:Masks", 1, where=where, actions=actions)
    with pytest.raises(ForageError, match="gives an action_mask in its info that cannot be obeyed"):
        host.reset(0)
        host.step(np.zeros((1, 2), np.float32 if actions == "box" else np.int32))


def test_a_mask_beside_an_observation_has_an_entry_for_each_choice():
    for entries, actions, why in (
        (2, spaces.Discrete(3), "2 entries for the 3 choices"),
        (2, spaces.Box(-1, 1, (2,)), "make the actions choices"),
    ):
        shown = spaces.Dict({"observation": spaces.Box(-1, 1, (3,)), "action_mask": spaces.MultiBinary(entries)})
        with pytest.raises(ForageError, match=why):
            check_spaces("x", shown, actions)


class Level(gymnasium.Env):
    """A level with spaces drawn at its making, or with `later` at its third reset."""

    made = 0

    def __init__(self, seen=(3, 3), acted=(2, 2), start=(0, 0), later=False):
        self.at = type(self).made % 2
        type(self).made += 1
        self.seen, self.acted, self.start, self.later, self.resets = seen, acted, start, later, 0
        self.place(0 if later else self.at)

    def place(self, at):
        self.observation_space = spaces.Box(-1 - at, 1, (self.seen[at],), np.float32)
        self.action_space = spaces.Discrete(self.acted[at], start=self.start[at])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        if self.later and self.resets > 2:
            self.place(1)
        return np.zeros(self.observation_space.shape, np.float32), {}

    def step(self, action):
        return np.zeros(self.observation_space.shape, np.float32), 0.0, True, False, {}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acted": (2, 3)}, r"copy 2 has actions in Discrete\(3\), and the first has Discrete\(2\)"),
        ({"start": (0, 1)}, r"copy 2 has actions in Discrete\(2, start=1\), and the first has Discrete\(2\)"),
        ({"seen": (3, 4)}, r"copy 2 has observations in Box\(4,\), and the first has Box\(3,\)"),
    ],
)
def test_copies_of_an_environment_have_the_same_spaces(options, words):
    Level.made = 0
    with pytest.raises(ForageError, match=words):
        GymnasiumEnvironment(lambda: Level(**options), 2)
    Level.made = 0
    GymnasiumEnvironment(Level, 2).close()  # bounds of what is seen may differ


def test_an_environment_keeps_its_spaces():
    batch = GymnasiumEnvironment(lambda: Level(acted=(2, 3), later=True), 1)
    batch.reset(0)
    with pytest.raises(ForageError, match=r"environment 0 after a reset has actions in Discrete\(3\)"):
        batch.step(np.zeros(1, np.int32))
    batch.close()


def test_the_batch_of_a_run_has_the_spaces_of_the_run():
    spec = Spec("Levels", spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
    Level.made = 1
    batch = GymnasiumEnvironment(lambda: Level(acted=(2, 3)), 1)
    with pytest.raises(ForageError, match=r"Levels: the batch that evaluates has actions in Discrete\(3\)"):
        check_copy(spec, batch, "the batch that evaluates")
    batch.close()
