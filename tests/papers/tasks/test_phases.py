"""Phases of a run, each with its own value of a field: when they begin, mistakes, and a run through them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.core.types import Clock, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.tabular.makers import river_swim
from forage.environments.wrappers.selection import SelectEntries
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage_papers.tasks.phases import Phases


@pytest.mark.parametrize(
    ("cycle", "steps", "phases"),
    [
        (False, (0, 9, 10, 29, 30, 500), (0, 0, 1, 1, 2, 2)),
        (True, (0, 10, 30, 49, 50, 60, 80, 100), (0, 1, 2, 2, 0, 1, 2, 0)),
    ],
)
def test_phases_begin_at_their_times(cycle, steps, phases):
    tasks = Phases("length", (0.5, 1.0, 1.5), (10, 30), cycle)
    assert [int(tasks.phase(jnp.int32(number))) for number in steps] == list(phases)
    task = tasks.next(jnp.int32(steps[2]), CartPole(), jax.random.key(0))
    assert float(task.length) == (0.5, 1.0, 1.5)[phases[2]] and len(jax.tree.leaves(task)) == 1


def test_phases_of_an_array_and_through_a_wrapper():
    rewards = (river_swim().reward, river_swim(small=1.0, large=0.0).reward)
    task = Phases("reward", rewards, (5,)).next(jnp.int32(5), river_swim(), jax.random.key(0))
    np.testing.assert_array_equal(task.reward, rewards[1])
    inner = Phases("max_steps", (9, 5), (5,)).next(jnp.int32(7), SelectEntries(CartPole(), (0,)), jax.random.key(0))
    assert int(inner.environment.max_steps) == 5 and inner.environment.max_steps.dtype == jnp.int32


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Phases("length", (0.5,), ()), ["at least one time"]),
        (lambda: Phases("length", (0.5, 1.0), (5, 9)), ["2 values and 2 times"]),
        (lambda: Phases("length", (0.5, 1.0, 2.0), (9, 5)), ["times that rise", "9, 5"]),
        (lambda: Phases("lenght", (0.5, 1.0), (5,)), ["no field 'lenght'", "length"]),
        (lambda: Phases("length", ((0.5, 1.0), (1.0, 2.0)), (5,)), ["shape is ()", "shape (2,)"]),
        (lambda: Phases("max_steps", (5, 7.5), (5,)), ["whole number", "7.5"]),
    ],
)
def test_mistakes_in_phases_are_named(make, words):
    with pytest.raises(ForageError) as error:
        make().check(CartPole())
    assert all(word in str(error.value) for word in words), error.value


@pytest.mark.thorough
def test_the_run_changes_phase_as_episodes_end():
    environment = CartPole(max_steps=4)
    agent = PPO(num_envs=4, rollout_length=4, epochs=1, minibatches=1, hidden_sizes=(8,))
    spec = Spec("CartPole", environment.observation_space, environment.action_space)
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), LastRollout(), spec)
    loop = DeviceLoop(learner, environment, Phases("length", (0.5, 1.0, 1.5), (32, 80)), Reset())

    @jax.jit
    def run(loop):
        def turn(state, number):
            state, _ = loop.iterate(state, Clock(16 * number, jnp.float32(1e6)))
            return state, (state.actors.at.task.length, state.tasks)

        return jax.lax.scan(turn, loop.init(jax.random.key(0)), jnp.arange(8))[1]

    lengths, steps = run(loop)
    assert steps.tolist() == [16 * number for number in range(1, 9)]
    # A rollout of 4 steps sees the end of every episode; those that begin in turn n know of 16 n steps.
    phases = [0, 0, 1, 1, 1, 2, 2, 2]
    np.testing.assert_array_equal(lengths, np.array((0.5, 1.0, 1.5), np.float32)[phases][:, None] * np.ones((1, 4)))
