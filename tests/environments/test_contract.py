"""The contract between environments and the loop. A new environment joins by one line in ENVIRONMENTS."""

import functools

import gymnasium
import jax
import numpy as np
import pytest
from small import at_once
from tiers import gate_cases

from forage.core import spaces
from forage.environments.classic.acrobot import Acrobot
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.cartpole_swingup import CartPoleSwingUp
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.classic.deep_sea_treasure import DeepSeaTreasure
from forage.environments.classic.mountain_car import MountainCar, MountainCarContinuous
from forage.environments.classic.pendulum import Pendulum
from forage.environments.grid.doors import DoorKey
from forage.environments.grid.dynamic_obstacles import DynamicObstacles
from forage.environments.grid.empty import Empty
from forage.environments.grid.maze import Maze
from forage.environments.grid.unlock import UnlockPickup
from forage.environments.language.reverse import Reverse
from forage.environments.maze.point import point_mass, point_maze
from forage.environments.memory.autoencode import Autoencode
from forage.environments.memory.key_to_door import KeyToDoor
from forage.environments.memory.memory_chain import MemoryChain
from forage.environments.memory.repeat_previous import RepeatPrevious
from forage.environments.memory.tmaze import TMaze
from forage.environments.memory.umbrella import Umbrella
from forage.environments.tabular.makers import frozen_lake, garnet, river_swim
from forage.environments.wrappers import (
    ContextVisible,
    Delay,
    FrameStack,
    NoisyTV,
    RescaleAction,
    SelectEntries,
    StickyActions,
    TimeAware,
    TimeLimit,
    WrapperState,
)
from forage.environments.wrappers.goal_entries import Entries
from forage.environments.wrappers.goals import GoalConditioned
from forage.environments.wrappers.piecewise import Piecewise
from forage.environments.wrappers.randomness import ActionNoise, Drift, Missing, ObservationNoise, RewardNoise

# Horizons are short where the field allows it, so that random play meets the time limit.
ENVIRONMENTS = {
    "cartpole": CartPole(max_steps=12),
    "acrobot": Acrobot(max_steps=12),
    "mountain_car": MountainCar(max_steps=12),
    "mountain_car_continuous": MountainCarContinuous(max_steps=12),
    "pendulum": Pendulum(max_steps=12),
    "pendulum_sparse": Pendulum(max_steps=12, sparse=True),
    "mountain_car_sparse": MountainCar(max_steps=12, sparse=True),
    "cartpole_swingup": CartPoleSwingUp(max_steps=12),
    "deep_sea": DeepSea(6),
    "deep_sea_stochastic": DeepSea(6, stochastic=True),
    "treasure": DeepSeaTreasure(max_steps=12),
    "tmaze": TMaze(corridor_length=5, oracle_length=1),
    "repeat_previous": RepeatPrevious(ranks=3),
    "autoencode": Autoencode(ranks=2),
    "umbrella": Umbrella(chain_length=6, num_distractors=3),
    "memory_chain": MemoryChain(memory_length=6, num_bits=2),
    "key_to_door": KeyToDoor(explore_steps=4, orchard_steps=5, door_steps=3),
    "reverse": Reverse(4),
    "river_swim": river_swim(max_steps=12),
    "frozen_lake": frozen_lake(4, max_steps=12),
    "garnet": garnet(jax.random.key(0), states=6, max_steps=12),
    "piecewise": Piecewise.from_phases((CartPole(max_steps=12), CartPole(max_steps=12, length=2.0)), times=(5,)),
    "point_mass": point_mass("Medium", max_steps=12),
    "point_maze": point_maze("UMaze", on_success="renew", max_steps=12),
    "goal_entries": GoalConditioned(
        Entries(CartPole(max_steps=12), (0,), (-1.0,), (1.0,)), on_success="end", flat=True
    ),
    "grid_empty": Empty(5, max_steps=12),
    "grid_door_key": DoorKey(5, max_steps=12),
    "grid_unlock_pickup": UnlockPickup(max_steps=12),
    "grid_dynamic_obstacles": DynamicObstacles(6, 3, max_steps=12),
    "grid_maze": Maze(max_steps=12),
    "masked": SelectEntries(CartPole(max_steps=12), (0, 2)),
    "context_visible": ContextVisible(Pendulum(max_steps=12), ("length", "mass"), (0.5, 0.5), (2.0, 2.0)),
    "frame_stack": FrameStack(DeepSeaTreasure(max_steps=12), 3),
    "time_limit": TimeLimit(CartPole(), 9),
    "time_aware": TimeAware(Acrobot(max_steps=12)),
    "sticky_actions": StickyActions(CartPole(max_steps=12), 0.5),
    "noisy_tv": NoisyTV(DeepSea(6), 2, 1),
    "delay": Delay(Pendulum(max_steps=12), 2, 1),
    "rescale_action": RescaleAction(Pendulum(max_steps=12)),
    "action_noise": ActionNoise(Pendulum(max_steps=12), 0.5),
    "reward_noise": RewardNoise(DeepSeaTreasure(max_steps=12), 1.0, 0.5),
    "observation_noise": ObservationNoise(Pendulum(max_steps=12), 1.0, 0.2),
    "missing": Missing(DeepSea(6), 0.5),
    "drift": Drift(CartPole(max_steps=12), "gravity", 1.0, 3, "cyclic"),
    "nested": FrameStack(ObservationNoise(TimeAware(TimeLimit(SelectEntries(CartPole(), (0, 2)), 10)), 0.1), 2),
}

NUM_ENVS, STEPS = 32, 15


@functools.cache
def play(name):
    """Play at random without resets: return the first states and observations, then all results, `[time, env, ...]`."""
    environment = ENVIRONMENTS[name]

    @jax.jit
    def rollout(environment, key):
        reset_key, play_key = jax.random.split(key)
        first = jax.vmap(environment.reset)(jax.random.split(reset_key, NUM_ENVS))

        def advance(states, key):
            action_keys, step_keys = jax.random.split(key, (2, NUM_ENVS))
            actions = jax.vmap(lambda key: spaces.sample(ENVIRONMENTS[name].action_space, key))(action_keys)
            states, steps = jax.vmap(environment.step)(states, actions, step_keys)
            return states, (states, actions, steps)

        # The scan itself checks that a step keeps the shapes and dtypes of the state.
        return first, jax.lax.scan(advance, first[0], jax.random.split(play_key, STEPS))[1]

    (first_states, first_observations), (states, actions, steps) = rollout(environment, jax.random.key(0))
    return jax.device_get((first_states, first_observations, states, actions, steps))


def clock(states):
    """The innermost environment's count of steps."""
    while isinstance(states, WrapperState):
        states = states.inner
    return states.time


def in_space(space: gymnasium.Space, values: np.ndarray) -> bool:
    return all(space.contains(value) for value in values.reshape(-1, *space.shape))


GATE = ("cartpole", "nested")
each = pytest.mark.parametrize("name", gate_cases(ENVIRONMENTS, GATE))


@each
def test_observations_and_actions_lie_in_the_spaces(name):
    environment = ENVIRONMENTS[name]
    _, first_observations, _, actions, steps = play(name)
    ended = steps.terminated | steps.truncated
    within = np.cumsum(ended, axis=0) - ended == 0  # up to the end of the first episode; beyond it nothing is promised
    for observation in (first_observations, steps.observation[within]):
        assert observation.dtype == environment.observation_space.dtype
        assert in_space(environment.observation_space, observation)
    if isinstance(environment.action_space, gymnasium.spaces.Discrete):
        assert set(np.unique(actions)) <= set(range(int(environment.action_space.n)))
    else:
        assert in_space(environment.action_space, actions)


@each
def test_dtypes_and_shapes(name):
    environment = ENVIRONMENTS[name]
    _, _, states, _, steps = play(name)
    reward_shape = (len(environment.reward_names),) if environment.reward_names else ()
    assert steps.reward.shape == (STEPS, NUM_ENVS, *reward_shape)
    assert steps.reward.dtype == np.float32
    for flag in (steps.terminated, steps.truncated):
        assert flag.dtype == bool
        assert flag.shape == (STEPS, NUM_ENVS)
    assert clock(states).dtype == np.int32


@each
def test_outputs_are_strongly_typed(name):
    """A weakly typed leaf changes type when the loop selects or stores it, and so all programs would compile twice."""
    environment = ENVIRONMENTS[name]
    key = jax.random.key(0)
    state, observation = jax.eval_shape(environment.reset, key)
    action = spaces.example(environment.action_space)
    outputs = jax.eval_shape(environment.step, state, action, key)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves((state, observation, outputs)))


@each
def test_never_both_terminated_and_truncated(name):
    _, _, _, _, steps = play(name)
    assert not (steps.terminated & steps.truncated).any()


@each
def test_step_does_not_reset(name):
    """The clock runs on through the end of the episode."""
    first_states, _, states, _, _ = play(name)
    assert (clock(first_states) == 0).all()
    np.testing.assert_array_equal(clock(states), np.arange(1, STEPS + 1)[:, None] * np.ones((1, NUM_ENVS), int))


@each
def test_every_episode_ends_by_the_horizon(name):
    environment = ENVIRONMENTS[name]
    _, _, _, _, steps = play(name)
    horizon = environment.horizon
    assert isinstance(horizon, int)
    assert horizon <= STEPS
    assert not steps.truncated[: horizon - 1].any()
    assert (steps.terminated | steps.truncated)[:horizon].any(axis=0).all()


@each
def test_step_is_a_function_of_its_arguments(name):
    """The same state, action and key give the same step, alone as in a batch."""
    environment = ENVIRONMENTS[name]
    key = jax.random.key(1)
    state, action = at_once(lambda: (environment.reset(key)[0], spaces.sample(environment.action_space, key)))
    alone = jax.jit(environment.step.__func__)(environment, state, action, key)
    again = jax.jit(jax.vmap(lambda e, s, a, k: e.step(s, a, k), (None, 0, 0, 0)))(
        environment, *jax.tree.map(lambda x: x[None], (state, action, key))
    )
    for left, right in zip(jax.tree.leaves(alone), jax.tree.leaves(again), strict=True):
        np.testing.assert_allclose(left, right[0], rtol=1e-5, atol=1e-6)


@each
def test_render(name):
    environment = ENVIRONMENTS[name]
    first_states, _, states, _, _ = play(name)
    first = environment.render(jax.tree.map(lambda leaf: leaf[0], first_states))
    assert first.dtype == np.uint8
    assert first.ndim == 3
    assert first.shape[2] == 3
    later = environment.render(jax.tree.map(lambda leaf: leaf[5, 0], states))
    assert later.shape == first.shape
    assert not np.array_equal(first, later)


def test_spaces_are_gymnasium_spaces():
    for environment in ENVIRONMENTS.values():
        assert isinstance(environment.observation_space, gymnasium.Space)
        assert isinstance(environment.action_space, gymnasium.Space)
