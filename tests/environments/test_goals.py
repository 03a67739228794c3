"""Goal-conditioned environments: their observations, rewards, and the effects of reaching the goal."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments.checking import check_environment
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.classic.pendulum import Pendulum
from forage.environments.maze.point import point_mass
from forage.environments.wrappers import TimeLimit, with_fields
from forage.environments.wrappers.goal_entries import Entries
from forage.environments.wrappers.goals import REWARDS, GoalConditioned, GoalState

pytestmark = pytest.mark.thorough

KEY = jax.random.key(0)


def cart(**fields):
    return GoalConditioned(Entries(CartPole(max_steps=9), (0,), (-1.0,), (1.0,)), **fields)


@jax.jit
def step_once(env, state, action, key=KEY):
    return env.step(state, action, key)


def test_the_observation_is_a_goal_envs():
    env = cart()
    space = env.observation_space
    assert isinstance(space, gymnasium.spaces.Dict) and space["desired_goal"].shape == (1,)
    state, observation = env.reset(KEY)
    np.testing.assert_array_equal(observation["achieved_goal"], observation["observation"][:1])
    np.testing.assert_array_equal(observation["desired_goal"], state.goal)
    state, step = step_once(env, state, jnp.int32(1))
    np.testing.assert_array_equal(step.observation["achieved_goal"], step.observation["observation"][:1])
    assert space.contains(jax.tree.map(np.asarray, step.observation))
    assert env.horizon == 9 and int(state.time) == 1
    for environment in (env, cart(flat=True), GoalConditioned(Entries(Pendulum(), (0, 1), (-1, -1), (1, 1)))):
        check_environment(environment, "goals")
    goals = jax.vmap(lambda key: env.reset(key)[0].goal)(jax.random.split(KEY, 200))
    assert goals.min() < -0.8 and goals.max() > 0.8 and abs(goals.mean()) < 0.2


def test_flat_is_the_observation_and_the_goal():
    dictionary, flat = cart(), cart(flat=True)
    _, seen = dictionary.reset(KEY)
    _, joined = flat.reset(KEY)
    np.testing.assert_array_equal(joined, np.concatenate([seen["observation"], seen["desired_goal"]]))
    assert flat.observation_space.shape == (5,)


@pytest.mark.parametrize("reward", REWARDS)
def test_rewards_are_functions_of_what_was_achieved_and_desired(reward):
    env = cart(reward=reward, radius=0.5, scale=2.0)
    achieved = jnp.array([[[0.0], [1.0]], [[2.0], [-4.0]]])
    desired = jnp.array([[[0.0], [0.0]], [[0.0], [0.0]]])
    distance = np.array([[0.0, 0.5], [1.0, 2.0]])
    expected = {
        "sparse": [[1, 1], [0, 0]],
        "penalty": [[0, 0], [-1, -1]],
        "dense": np.exp(-distance),
        "distance": -distance,
    }[reward]
    found = env.reward_of(achieved, desired)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_steps_reward_can_be_worked_out_again_and_relabelled():
    """Hindsight needs both: the reward under the goal desired before the step, and under another."""
    env = GoalConditioned(point_mass("Open"), reward="sparse", on_success="renew")

    def ride(key):
        state, observation = env.reset(key)

        def advance(carry, key):
            state, before = carry
            state, step = env.step(state, jax.random.uniform(key, (2,), minval=-1, maxval=1), key)
            return (state, step.observation), (before, step)

        return jax.lax.scan(advance, (state, observation), jax.random.split(key, 300))[1]

    before, step = jax.jit(jax.vmap(ride))(jax.random.split(KEY, 16))
    achieved = step.observation["achieved_goal"]
    np.testing.assert_array_equal(step.reward, env.reward_of(achieved, before["desired_goal"]))
    np.testing.assert_array_equal(step.reward == 1, step.info["success"])
    assert (env.reward_of(achieved, achieved) == 1).all()
    success = np.asarray(step.info["success"])
    changed = (np.asarray(before["desired_goal"]) != np.asarray(step.observation["desired_goal"])).any(-1)
    assert success.sum() > 3
    np.testing.assert_array_equal(changed, success)
    # The new goal is not yet reached.
    assert not env.is_reached(achieved, step.observation["desired_goal"])[success].any()


@pytest.mark.parametrize(("on_success", "ends"), [("stay", False), ("renew", False), ("end", True)])
def test_what_reaching_the_goal_does(on_success, ends):
    env = GoalConditioned(point_mass("Open", max_steps=1), on_success=on_success)
    state, _ = env.reset(KEY)
    state = GoalState(state.inner, state.inner.position + 0.1)
    after, step = step_once(env, state, jnp.zeros(2))
    assert float(step.reward) == 1 and bool(step.info["success"])
    assert bool(step.terminated) == ends and bool(step.truncated) == (not ends)
    assert np.array_equal(after.goal, state.goal) == (on_success != "renew")


def test_the_environments_own_end_stays():
    env = cart(radius=0.0)
    state, _ = env.reset(KEY)
    fallen = state.inner.inner._replace(variables=jnp.array([0.0, 0.0, 0.5, 3.0]))
    _, step = step_once(env, state._replace(inner=state.inner._replace(inner=fallen)), jnp.int32(0))
    assert bool(step.terminated) and float(step.reward) == 0


def test_numbers_inside_can_be_set():
    env = with_fields(cart(), length=1.0, radius=0.2)
    assert env.environment.environment.length == 1.0 and env.radius == 0.2


@pytest.mark.parametrize("on_success", ["stay", "renew"])
def test_wrappers_that_remember_may_be_inside(on_success):
    """A limit that is not reached has no effect, for the environment's own goals and for goals of entries."""
    entries = Entries(CartPole(), (0,), (-1.0,), (1.0,))
    for environment, action in ((point_mass("Open"), jnp.ones(2)), (entries, jnp.int32(1))):
        plain = GoalConditioned(environment, 0.45, on_success=on_success)
        wrapped = GoalConditioned(TimeLimit(TimeLimit(environment, 50), 2), 0.45, on_success=on_success)
        (state, first), (other, same) = plain.reset(KEY), wrapped.reset(KEY)
        for time in range(2):
            jax.tree.map(np.testing.assert_array_equal, first, same)
            (state, step), (other, also) = step_once(plain, state, action), step_once(wrapped, other, action)
            first, same = step._replace(truncated=time == 1), also
        jax.tree.map(np.testing.assert_array_equal, first, same)


@pytest.mark.parametrize("inside", [point_mass("UMaze"), TimeLimit(point_mass("UMaze"), 50)])
def test_pictures_show_the_goal(inside):
    env = GoalConditioned(inside)
    state, _ = env.reset(KEY)
    assert not np.array_equal(env.render(state), env.environment.render(state.inner))


def test_an_environment_without_a_picture_of_goals_is_drawn():
    state, _ = cart().reset(KEY)
    assert cart().render(state).shape == (300, 400, 3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GoalConditioned(CartPole()), ["CartPole has no goal_space", "Entries(CartPole()"]),
        (lambda: GoalConditioned(TimeLimit(CartPole(), 9)), ["TimeLimit has no goal_space"]),
        (lambda: Entries(DeepSea(4), (0,), (0.0,), (1.0,)), ["flat Box", "DeepSea"]),
        (lambda: Entries(CartPole(), (4,), (0.0,), (1.0,)), ["entry 4", "0 to 3"]),
        (lambda: Entries(CartPole(), (), (), ()), ["no entry at all"]),
        (lambda: Entries(CartPole(), (0, 1), (0.0,), (1.0,)), ["2 entries, 1 lows and 1 highs"]),
        (lambda: Entries(CartPole(), (0,), (1.0,), (0.0,)), ["low < high for entry 0"]),
        (lambda: cart(reward="spare"), ["'spare'", "sparse"]),
        (lambda: cart(radius=-0.1), ["radius -0.1"]),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ForageError) as error:
        make()
    assert all(word in str(error.value) for word in words), error.value
