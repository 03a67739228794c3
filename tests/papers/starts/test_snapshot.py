"""Snapshots: a teacher's states, their classification, and their use."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check

from forage.config import saved
from forage.config.ranges import check_ranges
from forage.config.saved import load_policy
from forage.core.ports import RolloutReport, RolloutStates
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.classic.deep_sea_treasure import DeepSeaTreasure
from forage.environments.classic.mountain_car import MountainCar
from forage.environments.grid.multi_room import MultiRoom
from forage.environments.wrappers.together import EnvironmentCopies
from forage.runs import training
from forage.tasks.same import Same
from forage_papers.starts.snapshot import Snapshot, Snapshots, SnapshotState, classify

small.keep_compiled()
KEY = jax.random.key(0)
SEA = DeepSea(6, randomize_actions=False)  # 1 is right
SPEC = Spec("Sea", SEA.observation_space, SEA.action_space)


def right(observation: Any, key: Any) -> Any:
    return jnp.int32(1)


def test_a_teacher_leaves_every_so_many_states_and_what_they_were_worth():
    starts = Snapshot(right, episodes=2, every=2, steps=8, discount=0.5)
    found = jax.jit(starts.record_states)(SEA, KEY)
    assert found.there.tolist() == 2 * [True, True, True, False]  # six steps down; then it is over
    np.testing.assert_array_equal(found.env_state.column[found.there], 2 * [0, 2, 4])
    np.testing.assert_array_equal(found.observation[1], SEA._observe(jax.tree.map(lambda x: x[1], found.env_state)))
    cost = 0.01 / 6
    values = [sum((0.5**i * ((i + done == 5) - cost)) for i in range(6 - done)) for done in (0, 2, 4)]
    np.testing.assert_allclose(found.value[:3], values, rtol=1e-5)


def test_values_are_classified_by_k_means():
    values = np.array([0.0, 10.0, 10.1, 5.0, 0.2, 10.2, 10.1, 99.0])
    nearest = np.asarray(classify(values, np.arange(8) < 7, 3))  # 99 is not there
    groups = [set(np.flatnonzero(nearest[:7] == number)) for number in range(3)]
    assert sorted(map(sorted, groups)) == [[0, 4], [1, 2, 5, 6], [3]]


def test_a_cluster_is_drawn_before_a_state():
    there = np.arange(9) < 8
    values = np.array([1.0, 1, 1, 1, 1, 1, 1, 50, 50])  # seven of one kind, one of another
    snapshots = Snapshots((), (), values, there)
    weights = np.asarray(Snapshot(right, clusters=2).weights(snapshots))
    np.testing.assert_allclose(weights, [*7 * [0.5 / 7], 0.5, 0], rtol=1e-5)
    np.testing.assert_allclose(Snapshot(right, clusters=5).weights(snapshots), weights, rtol=1e-5)  # three are empty


def state_of(starts: Snapshot) -> SnapshotState:
    return jax.jit(starts.init, static_argnums=(2, 3))(KEY, SEA, SPEC, 1)


@pytest.mark.parametrize("share", [0.0, 0.1])
def test_without_a_share_of_the_run_no_episode_begins_in_a_snapshot(share):
    starts = Snapshot(Snapshots((), (), jnp.ones(2), jnp.ones(2, bool)), share=share, clusters=1)
    assert starts.init(KEY, SEA, SPEC, 1).early == (share > 0)


@pytest.mark.thorough
def test_episodes_begin_in_snapshots_until_the_early_phase_is_over():
    starts = Snapshot(right, share=0.25, probability=0.75, truncate=3, every=1, clusters=3, steps=6)
    state = state_of(starts)
    begin = jax.jit(jax.vmap(lambda state, key: starts.begin(state, SEA, key, jnp.int32(0)), (None, 0)))
    keys = jax.random.split(KEY, 1000)
    env_state, observation, mark = begin(state, keys)
    assert abs(float(mark.mean()) - 0.75) < 0.07  # five standard errors
    assert set(env_state.column[mark].tolist()) == set(range(6)) and set(env_state.column[~mark].tolist()) == {0}
    np.testing.assert_array_equal(jax.vmap(SEA._observe)(env_state), observation)
    assert starts.cut(mark[mark][0], jnp.int32(3)) and not starts.cut(mark[mark][0], jnp.int32(2))
    assert not starts.cut(jnp.bool_(False), jnp.int32(1000))

    flags = np.zeros((10, 5), bool)
    rollout = Experience((), flags, flags, (), flags, flags, flags, ())
    visited, clocks = (
        RolloutStates((), (), flags, flags[0]),
        (Clock(jnp.int32(s), jnp.float32(400)) for s in (0, 49, 50, 200)),
    )
    reported = [starts.report(state, rollout, RolloutReport(SEA, visited, clock, KEY)) for clock in clocks]
    assert [bool(each.early) for each in reported] == [True, True, False, False]  # a quarter of 400, less the rollout
    assert not begin(reported[-1], keys[:100])[2].any()


@pytest.mark.thorough
def test_a_solver_teaches_the_way_through_many_levels():
    environment = MultiRoom(rooms=2, largest=4)
    starts = Snapshot("solver", episodes=5, every=1).with_teacher(environment, load_policy)
    found: Any = starts.teacher
    assert isinstance(found, Snapshots) and len({bytes(np.asarray(grid)) for grid in found.env_state.grid}) > 5
    # What a way is worth rises towards the goal, and 1 step before it is what the step pays.
    values, there = np.asarray(found.value).reshape(5, -1), np.asarray(found.there).reshape(5, -1)
    for row, on in zip(values, there, strict=True):
        assert (np.diff(row[on]) > 0).all() and 0.5 < row[on][-1] <= 1


@pytest.mark.thorough
def test_a_run_is_a_teacher(tmp_path):
    training.train(
        "dqn",
        "CartPole-v1",
        agent_options={"learning_starts": 100, "batch_size": 8, "hidden_sizes": (8,)},
        steps=200,
        seeds=1,
        evaluation_episodes=1,
        directory=tmp_path / "teacher",
        display="quiet",
    )
    for teacher in (str(tmp_path / "teacher"), saved.load(tmp_path / "teacher")):
        run = training.train(
            "ppo",
            "CartPole-v1",
            agent_options={"num_envs": 2, "rollout_length": 8, "minibatches": 1, "epochs": 1},
            starts=Snapshot(teacher, episodes=2, steps=20, every=2, share=1.0, truncate=4),
            steps=160,
            seeds=1,
            evaluation_episodes=1,
            directory=tmp_path / f"student-{type(teacher).__name__}",
            display="quiet",
        )
        assert max(row["length"][0] for row in run.rows if row["length"][0] is not None) <= 4


@pytest.mark.parametrize(
    ("make_starts", "words"),
    [
        (lambda: check_ranges(Snapshot(right, clusters=0), "it"), "clusters of it is 1 or more"),
        (lambda: check_ranges(Snapshot(right, share=2.0), "it"), "share of it is from 0 to 1"),
        (lambda: check(Snapshot(3), CartPole(), Same()), "not int"),
        (lambda: Snapshot("solver").with_teacher(MountainCar(), load_policy), "none for MountainCar"),
        (lambda: Snapshot("/nowhere/at/all").with_teacher(MountainCar(), load_policy), "no trained agent"),
        (lambda: check(Snapshot(right), DeepSeaTreasure(), Same()), "gives several"),
        (lambda: check(Snapshot(right), EnvironmentCopies(CartPole(), 2), Same()), "needs one agent"),
    ],
)
def test_mistakes_are_named(make_starts, words):
    with pytest.raises(ForageError, match=words):
        make_starts()
