"""Wrappers change the observation alone; `with_fields` finds physics through them."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.classic.deep_sea_treasure import DeepSeaTreasure
from forage.environments.classic.pendulum import Pendulum
from forage.environments.wrappers import ContextVisible, SelectEntries, with_fields

KEY = jax.random.key(0)


@jax.jit
def first_two(environment):
    """The first observation and the first step, to compare environments by."""
    state, observation = environment.reset(KEY)
    return observation, *environment.step(state, jnp.ones((), jnp.int32), KEY)


def test_masked_keeps_the_listed_entries():
    plain_first, plain_state, plain = first_two(CartPole())
    masked_first, masked_state, masked = first_two(SelectEntries(CartPole(), (0, 2)))
    np.testing.assert_array_equal(masked_first, plain_first[np.array([0, 2])])
    np.testing.assert_array_equal(masked.observation, plain.observation[np.array([0, 2])])
    np.testing.assert_array_equal(masked_state.variables, plain_state.variables)
    assert float(masked.reward) == float(plain.reward)


def test_masked_keeps_the_order_given():
    plain, _, _ = first_two(CartPole())
    masked, _, _ = first_two(SelectEntries(CartPole(), (3, 1)))
    np.testing.assert_array_equal(masked, plain[np.array([3, 1])])


def test_masked_space():
    space = CartPole().observation_space
    expected = gymnasium.spaces.Box(space.low[[0, 2]], space.high[[0, 2]], dtype=np.float32)
    assert SelectEntries(CartPole(), (0, 2)).observation_space == expected


def test_wrappers_delegate():
    inner = DeepSeaTreasure(max_steps=33)
    for wrapped in (SelectEntries(inner, (0,)), ContextVisible(inner, ("max_steps",), (0,), (100,))):
        assert wrapped.environment is inner
        assert wrapped.horizon == 33
        assert wrapped.reward_names == ("treasure", "time")
        assert wrapped.action_space == inner.action_space
        state, _ = wrapped.reset(KEY)
        np.testing.assert_array_equal(wrapped.render(state), inner.render(state))


def test_context_is_appended_and_scaled():
    plain, _, plain_step = first_two(CartPole())
    fields = ("length", "gravity", "force")
    environment = ContextVisible(CartPole(), fields, (0.25, 9.8, 0.0), (1.25, 19.6, 10.0))
    first, _, step = first_two(environment)
    # length 0.5 is a quarter of the way up, gravity at the bottom, force at the top.
    np.testing.assert_allclose(first, [*plain, -0.5, -1.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(step.observation, [*plain_step.observation, -0.5, -1.0, 1.0], atol=1e-6)
    assert environment.observation_space.shape == (7,)
    assert environment.observation_space.contains(np.asarray(first))


def test_context_is_that_of_each_environment_in_a_batch():
    environment = ContextVisible(CartPole(), ("length",), (0.0,), (1.0,))
    lengths = jnp.array([0.25, 0.5, 1.0])
    observations = jax.vmap(lambda length: with_fields(environment, length=length).reset(KEY)[1])(lengths)
    np.testing.assert_allclose(observations[:, -1], 2 * lengths - 1, atol=1e-6)


def test_wrappers_nest():
    environment = ContextVisible(SelectEntries(CartPole(), (0, 2)), ("length",), (0.0,), (1.0,))
    plain, _, _ = first_two(CartPole())
    first, _, _ = first_two(with_fields(environment, length=0.75))
    np.testing.assert_allclose(first, [plain[0], plain[2], 0.5], atol=1e-6)
    hidden = SelectEntries(ContextVisible(CartPole(), ("length",), (0.0,), (1.0,)), (4,))
    np.testing.assert_allclose(first_two(with_fields(hidden, length=0.75))[0], [0.5], atol=1e-6)


def test_with_fields_replaces_only_what_is_named():
    changed = with_fields(CartPole(), length=1.0, gravity=5.0)
    assert changed == CartPole(length=1.0, gravity=5.0)
    assert CartPole().length == 0.5


def test_with_fields_looks_through_wrappers():
    changed = with_fields(
        SelectEntries(ContextVisible(Pendulum(), ("mass",), (0.0,), (2.0,)), (0, 3)), mass=1.5, max_steps=50
    )
    assert isinstance(changed, SelectEntries)
    assert changed.environment.environment == Pendulum(mass=1.5, max_steps=50)
    assert changed.horizon == 50


def test_with_fields_changes_the_physics():
    _, _, light = first_two(CartPole())
    _, _, heavy = first_two(with_fields(SelectEntries(CartPole(), (0, 1, 2, 3)), cart_mass=5.0))
    assert abs(float(heavy.observation[1])) < abs(float(light.observation[1]))


@pytest.mark.parametrize(
    ("environment", "name", "message"),
    [
        (CartPole(), "lenght", "CartPole has no field 'lenght'. Did you mean 'length'"),
        (SelectEntries(CartPole(), (0, 2)), "masspole", "CartPole has no field 'masspole'. Did you mean .*'pole_mass'"),
        (Pendulum(), "zzz", "Pendulum has no field 'zzz'; it has gravity, mass, length"),
        (DeepSea(5), "size", "DeepSea's size is not a number that can be set"),
        (
            SelectEntries(CartPole(), (0, 2)),
            "environment",
            "SelectEntries's environment is not a number that can be set",
        ),
    ],
)
def test_with_fields_names_the_nearest(environment, name, message):
    with pytest.raises(ForageError, match=message):
        with_fields(environment, **{name: 1.0})


def test_bad_wrappers_are_refused():
    with pytest.raises(ForageError, match="entry 4 of CartPole's observation; it has entries 0 to 3"):
        SelectEntries(CartPole(), (0, 4))
    with pytest.raises(ForageError, match="no entry at all"):
        SelectEntries(CartPole(), ())
    with pytest.raises(ForageError, match="flat Box"):
        SelectEntries(DeepSea(5), (0,))
    with pytest.raises(ForageError, match="Did you mean 'length'"):
        ContextVisible(CartPole(), ("lengths",), (0.0,), (1.0,))
    with pytest.raises(ForageError, match="1 fields, 2 lows and 1 highs"):
        ContextVisible(CartPole(), ("length",), (0.0, 1.0), (1.0,))
    with pytest.raises(ForageError, match="low < high for length"):
        ContextVisible(CartPole(), ("length",), (1.0,), (1.0,))
    with pytest.raises(ForageError, match=r"treasure_map has shape \(11, 11\)"):
        ContextVisible(DeepSeaTreasure(), ("treasure_map",), (0.0,), (1.0,)).reset(KEY)
