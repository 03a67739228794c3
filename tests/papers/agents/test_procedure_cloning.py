"""Procedure cloning: the search, learning and decoding it, and refusals."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check

from forage.config.defaults import default_behaviour
from forage.core.ports import ActInputs
from forage.core.types import DATASET, Batch, Clock, Experience, ForageError
from forage.environments import spec_of
from forage.environments.classic.cartpole import CartPole
from forage.environments.grid.maze import DrawnMaze, Maze
from forage.loop.device.programs import batch_seeds
from forage.loop.device.runner import DeviceRunner
from forage.loop.learner import Learner
from forage.loop.offline.loop import OfflineLoop
from forage.memory.dataset import OpenedDataSet
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same
from forage_papers.agents.offline.procedure_cloning import (
    ProcedureCloning,
    ProcedureCloningState,
    breadth_first,
    scene,
    wider,
)

small.keep_compiled()
MAZE = DrawnMaze(size=6, count=5, observe=("full",))
SPEC, KEY, NOTHING = spec_of(MAZE, "Maze"), jax.random.key(0), 7
AGENT = ProcedureCloning(depth=24, width=8)


class Exact(NamedTuple):
    """A network that searches."""

    choices: int = NOTHING + 1

    def __call__(self, seen, plan):
        return jax.nn.one_hot(wider(seen, plan, NOTHING), self.choices)


class Silent(NamedTuple):
    """A network that never gives an action."""

    choices: int = NOTHING + 1

    def __call__(self, seen, plan):
        return jax.nn.one_hot(jnp.full_like(plan, NOTHING), self.choices)


def walk(network, maze=MAZE, episodes=12, steps=26):
    """Return ends, lengths of the search and actions of episodes of the agent."""
    state = ProcedureCloningState(network, ())

    def episode(key):
        def step(now, key):
            action = AGENT.act(state, ActInputs((), now[1], key, False))[0]
            found = breadth_first(scene(now[1]), AGENT.depth, NOTHING).length
            after, step = maze.step(now[0], action, key)
            return (after, step.observation), (step.terminated, found, action)

        return jax.lax.scan(step, maze.reset(key), jax.random.split(key, steps))[1]

    return small.compute(lambda: jax.vmap(episode)(jax.random.split(KEY, episodes)))


def test_the_search_finds_the_shortest_way_in_every_maze():
    """The goal is reached in as many steps as the search needed at first; each step is one nearer."""
    over, length, _ = walk(Exact())
    assert (length[:, 0] > 0).all() and len(set(length[:, 0])) > 4
    np.testing.assert_array_equal(over.argmax(1) + 1, length[:, 0])
    for one in length:
        np.testing.assert_array_equal(one[: one[0]], np.arange(one[0], 0, -1))


def test_maps_grow_by_one_action_from_the_goal_outwards():
    """A corridor of three cells, the goal at its right end, the agent at its left one, turned up."""
    maze = Maze(np.zeros((1, 3), bool), (0, 0), (2, 0), 3, observe=("full",))
    found = small.compute(lambda: breadth_first(scene(maze.reset(KEY)[1]), 6, NOTHING))
    at = found.plans[:, 1:4, 1]
    assert (at[0] == NOTHING).all() and (at[:, 2] == NOTHING).all() and found.length == 3
    np.testing.assert_array_equal(at[1], [[7] * 4, [2, 7, 7, 7], [7] * 4])  # forward, turned right, beside the goal
    np.testing.assert_array_equal(at[2], [[2, 7, 7, 7], [2, 0, 7, 1], [7] * 4])  # or a turn from that
    np.testing.assert_array_equal(at[3], [[2, 0, 7, 1], [2, 0, 0, 1], [7] * 4])


def batch_of(action, rows=1):
    seen = jax.vmap(lambda key: MAZE.reset(key)[1])(jax.random.split(KEY, rows))[None]
    zero, no = jnp.zeros((1, rows)), jnp.zeros((1, rows), bool)
    actions = jnp.full((1, rows), action, jnp.int32)
    return Batch(Experience(seen, actions, zero, seen, no, no, zero, ()), jnp.ones(rows), jnp.arange(rows))


@pytest.mark.thorough
def test_a_step_of_the_search_is_learned_and_at_last_what_the_expert_did():
    one = jax.tree.map(lambda x: x[0, 0], batch_of(5).experience)  # an action that no search takes

    def run_learn():
        keys = jax.random.split(KEY, 60)
        seen, before, after, length = jax.vmap(lambda key: AGENT.lesson(one, key, NOTHING))(keys)
        right = jax.vmap(lambda seen, plan: wider(seen, plan, NOTHING))(seen, before)
        return seen.agent, after, right, length

    agent, after, right, length = small.compute(run_learn)
    other = after != right
    last = (right != NOTHING)[agent].reshape(60)
    np.testing.assert_array_equal(other.any((1, 2, 3)), last)
    assert abs(last.mean() - 1 / length[0]) < 0.15 and (after[other] == 5).all() and agent[other].all()


@pytest.mark.thorough
def test_its_loss_by_hand():
    """Searches of different lengths: of the network's surprise, the mean by their lengths."""
    clock, batch = Clock(jnp.int32(0), jnp.float32(1)), batch_of(2, 3)

    def run_learn():
        state = AGENT.init(KEY, SPEC)
        still = state._replace(network=jax.tree.map(jnp.zeros_like, state.network))
        keys = jax.random.split(KEY, 3)
        one = jax.tree.map(lambda x: x[0], batch.experience)
        length = jax.vmap(lambda one, key: AGENT.lesson(one, key, NOTHING)[3])(one, keys)
        return AGENT.learn(still, batch, clock, KEY)[1:], AGENT.learn(state, batch, clock, KEY)[1:], length

    (metrics, surprise), (other, differs), length = small.compute(run_learn)
    assert len(set(length)) > 1
    np.testing.assert_allclose(other["procedure_loss"], (length * differs).sum() / length.sum(), rtol=1e-5)
    np.testing.assert_allclose(surprise, np.log(8), rtol=1e-5)  # of eight choices, all as likely
    np.testing.assert_allclose(metrics["procedure_loss"], np.log(8), rtol=1e-5)


@pytest.mark.thorough
def test_where_the_search_does_not_arrive_any_action_is_taken():
    _, _, action = walk(Silent())
    assert set(action.reshape(-1)) == set(range(7))


def show(mazes):
    """Return the shortest ways through a number of mazes, as data."""
    state = ProcedureCloningState(Exact(), ())

    def episode(number):
        start, seen = MAZE.reset(jax.random.fold_in(jax.random.key(9), number))

        def step(now, key):
            action = AGENT.act(state, ActInputs((), now[1], key, False))[0]
            after, step = MAZE.step(now[0], action, key)
            ended = now[2] | step.terminated
            row = (now[1], action, step.reward, step.observation, step.terminated, ~now[2])
            return (after, step.observation, ended), row

        return jax.lax.scan(step, (start, seen, jnp.bool_(False)), jax.random.split(KEY, 26))[1]

    rows = small.compute(lambda: jax.vmap(episode)(jnp.arange(mazes)))
    seen, action, reward, after, over, there = (x[rows[5]] for x in rows)
    no, source = np.zeros(len(action), bool), np.full(len(action), DATASET, np.int32)
    assert there.all()
    return jax.device_put(Experience(seen, action.astype(np.int32), reward, after, over, no, source, ()))


def runner_of(agent, updates):
    """Return a runner, at its beginning, of a loop that learns from 60 mazes."""
    learner = Learner(agent, default_behaviour(agent), EnvironmentReward(), OpenedDataSet("mazes", "", show(60)), SPEC)
    loop = OfflineLoop(learner, MAZE, Same(), Reset())
    loop.check()
    runner = DeviceRunner(batch_seeds(loop, {}), [0], updates)
    runner.begin()
    return runner


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    runner = runner_of(AGENT, 20)
    runner.advance(7)
    runner.save(tmp_path / "half.npz", {"steps": runner.steps})
    runner.advance(7)
    again = runner_of(AGENT, 20)
    again.load(tmp_path / "half.npz")
    again.advance(7)
    assert small.differing(runner.state, again.state) == []


def test_what_is_refused():
    with pytest.raises(ForageError, match="Cart is not; bc learns there"):
        check(AGENT, dataclasses.replace(spec_of(MAZE, "Cart"), action_space=CartPole().action_space))
    with pytest.raises(ForageError, match=r"take a grid world with --env\.observe full"):
        check(AGENT, dataclasses.replace(SPEC, observation_space=CartPole().observation_space))
    with pytest.raises(ForageError, match="leave layer_norm out"):
        check(dataclasses.replace(AGENT, layer_norm=True), SPEC)
    check(AGENT, SPEC)


@pytest.mark.thorough
def test_every_maze_that_is_drawn_can_be_solved():
    """Even if nearly all cells are walls."""
    full = DrawnMaze(size=5, count=40, observe=("full",))
    length = small.compute(
        lambda: jax.vmap(lambda key: breadth_first(scene(full.reset(key)[1]), 30, NOTHING).length)(
            jax.random.split(KEY, 100)
        )
    )
    assert (length > 0).all()
