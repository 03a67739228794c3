"""Stitched goals: clusters by hand, possible goals by hand, and refusals."""

from pathlib import Path

import jax
import numpy as np
import pytest
import small

from forage.config.resolve import resolve
from forage.core.ports import ActContext
from forage.core.types import Clock, ForageError
from forage.data import files
from forage.data.logged import Transitions
from forage_papers.memory.stitched import StitchedGoals, cluster_points

small.keep_compiled()

EAST, NORTH = [0.0, 1.0, 2.0], [10.0, 1.0, 20.0, 30.0]  # two episodes that meet where the first number is 1


def crossing(folder: Path, setup) -> str:
    """Write two episodes; the achieved goal is their place, plus 100 times the episode's number."""
    states = [np.array([[x, 100.0 * number] for x in way]) for number, way in enumerate((EAST, NORTH))]

    def observe(rows):
        places = np.concatenate(rows).astype(np.float32)
        whole = np.zeros((len(places), 4), np.float32)
        whole[:, 0] = places[:, 0]  # clusters are of this, which is alike where they meet
        return {"observation": whole, "achieved_goal": places, "desired_goal": np.full_like(places, -7)}

    no = np.zeros(5, bool)
    before, after = observe([way[:-1] for way in states]), observe([way[1:] for way in states])
    rows = Transitions(before, np.zeros((5, 2)), np.zeros(5), after, no, np.array([0, 1, 0, 0, 1], bool))
    files.write_data(folder / "a.npz", rows, {"spec": setup.config()["spec"]})
    return str(folder / "a.npz")


def draw(memory: StitchedGoals, setup, count: int, length: int = 1):
    """Return a batch of goals that the memory draws."""
    opened = memory.with_hashes().load(setup.spec)
    state = opened.init(None, 1, 1, setup.spec, setup.environment)

    def sample(opened, state):
        moment = ActContext(None, (), setup.spec, Clock(np.int32(0), np.float32(1)), jax.random.key(0))
        return opened.sample(state, count, length, moment)

    return small.compute(sample, opened, state)


def test_clusters_by_hand():
    points = np.array([[0, 0], [0, 1], [10, 0], [10, 1], [50, 50]])
    label = cluster_points(points, 3)
    assert label[0] == label[1] and label[2] == label[3] and len(set(label)) == 3
    assert len(set(cluster_points(np.ones((5, 2)), 3))) == 1  # all alike
    assert len(set(cluster_points(points, 9))) == 5  # fewer points than clusters


@pytest.fixture(scope="module")
def setup():
    return resolve("sac", "maze:UMaze-Goal", seeds=1)


def test_goals_are_of_ways_that_the_data_go_or_could_go(setup, tmp_path):
    # Each place but 1 is a cluster of its own. From there both episodes go on: to [2, 0], or to [20, 100], [30, 100].
    file = crossing(tmp_path, setup)
    far = {0: {(1, 0), (2, 0)}, 1: {(2, 0)}, 2: {(1, 100), (20, 100), (30, 100)}, 3: {(20, 100), (30, 100)}}
    far[4] = {(30, 100)}
    meet = {(1, 0), (2, 0), (1, 100), (20, 100), (30, 100)}
    for share, first in ((0.0, far), (1.0, far | {0: meet, 2: meet})):
        batch = draw(StitchedGoals(file, stitch=share, clusters=6), setup, 4000)
        goals = batch.experience.observation["desired_goal"][0]
        np.testing.assert_array_equal(goals, batch.experience.next_observation["desired_goal"][0])
        found = {place: {tuple(goal) for goal in goals[batch.index == place].tolist()} for place in range(5)}
        assert found == first, share
    # From transition 0: the way leads to [1, 0] or [2, 0] alike. The second is alone in its cluster. The first is one
    # of two states, of which one leads to itself or [2, 0] and the other to itself or two more.
    share = {(2, 0): 1 / 2 + 1 / 8, (1, 0): 1 / 8, (1, 100): 1 / 12, (20, 100): 1 / 12, (30, 100): 1 / 12}
    mine = goals[batch.index == 0]
    for goal, chance in share.items():
        assert abs((mine == goal).all(1).mean() - chance) < 5 * 0.5 / np.sqrt(len(mine)), goal


def test_rewards_are_those_of_the_new_goal_and_a_segment_has_one(setup, tmp_path):
    batch = draw(StitchedGoals(crossing(tmp_path, setup), clusters=6), setup, 500, length=2)
    now = batch.experience
    reached = (now.next_observation["achieved_goal"] == now.observation["desired_goal"]).all(-1)
    np.testing.assert_array_equal(now.reward, reached)  # places are further apart than the radius
    assert reached.any() and not reached.all()
    goal, same = now.observation["desired_goal"], ~now.truncated[0]
    np.testing.assert_array_equal(goal[0][same], goal[1][same])


def test_what_is_refused(setup, tmp_path):
    with pytest.raises(ForageError, match="one of observation, achieved_goal, not 'luck'"):
        StitchedGoals("a.npz", near="luck")
    file = crossing(tmp_path, setup)
    resolve("bc", "maze:UMaze-Goal", memory=StitchedGoals(file)).learner()
    with pytest.raises(ForageError, match="clusters of stitched is 1 or more"):
        resolve("bc", "maze:UMaze-Goal", memory=StitchedGoals(file, clusters=0))
    with pytest.raises(ForageError, match="whole episodes of a data set, which stitched does not tell"):
        resolve("bc", "maze:UMaze-Goal", agent_options={"weighted": True}, memory=StitchedGoals(file)).learner()
    plain, no = tmp_path / "plain.npz", np.zeros(1, bool)
    rows = Transitions(np.zeros((1, 4)), np.zeros(1, int), np.ones(1), np.zeros((1, 4)), no, ~no)
    files.write_data(plain, rows, {"spec": resolve("ppo", "CartPole-v1", seeds=1).config()["spec"]})
    with pytest.raises(ForageError, match="has observations without goals, and stitched relabelling gives others"):
        resolve("bc", "CartPole-v1", memory=StitchedGoals(str(plain))).learner()
