"""Episodes that a recording cut, by hand: they do not count as whole ones in ranks or averages."""

import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.agents.offline.base import best_return
from forage.agents.offline.bc import BC
from forage.agents.offline.decision_transformer import DecisionTransformer
from forage.core.types import ForageError, Spec
from forage.data import files
from forage.data.formats import flat
from forage.data.logged import Transitions
from forage.memory.dataset import DataSet
from forage_papers.agents.offline.guided_flows import GuidedFlows
from forage_papers.memory.trajectory_weighted import TrajectoryWeighted, advantage_weights

small.keep_compiled()
SPEC = Spec("Costly", spaces.Box(-9, 9, (1,), np.float32), spaces.Discrete(2), horizon=5)


def costly_episodes(*lengths, ends, reward=-1.0, cut=None):
    """Return episodes with a reward of -1 a step; `ends` has T (terminated) or U (truncated) for each."""
    last = np.cumsum(lengths) - 1
    count = int(last[-1]) + 1
    terminated, truncated = np.zeros(count, bool), np.zeros(count, bool)
    for row, kind in zip(last, ends, strict=True):
        (terminated if kind == "T" else truncated)[row] = True
    seen = np.arange(count, dtype=np.float32)[:, None] % 9
    paid = np.full(count, reward)
    data = Transitions(seen, np.zeros(count, int), paid, seen, terminated, truncated)
    return data if cut is None else data.saying_cut(None, np.array(cut))


def write_file(path, data, spec=SPEC):
    files.write_data(path, data, {"spec": flat.spec_json(spec)})
    return DataSet(str(path)).load(spec), np.asarray(data.reward, float)


# A: 3 steps and over. B: 4 steps and over. C was cut after 1 step. D lasted the 5 steps that the time limit allows.
MIXED = costly_episodes(3, 4, 1, 5, ends="TTUU")


def test_the_return_asked_for_is_that_of_a_whole_episode(tmp_path):
    opened, reward = write_file(tmp_path / "a.npz", MIXED)
    for agent, best in ((DecisionTransformer(context=1), -3), (GuidedFlows(horizon=2, discount=0.5), -1.75)):
        assert float(best_return(opened.with_returns(agent, reward).data)) == best


def test_the_weight_of_an_episode_that_was_cut_is_that_of_the_worst(tmp_path):
    write_file(tmp_path / "a.npz", MIXED)
    memory = TrajectoryWeighted(str(tmp_path / "a.npz"), by="return", temperature=0.5).load(SPEC)
    chance = np.diff(np.concatenate([[0], np.asarray(memory.reached)])) / MIXED.lengths
    np.testing.assert_allclose(chance / chance[0], np.exp([0, -1, -2, -2]), rtol=1e-5)  # of -3, -4, unknown and -5
    # The line through the whole ones, 0 at 0 and 2 at 2, leaves them alike; the cut one does not bend it.
    told = advantage_weights(
        np.array([0.0, 2.0, 9.0]), np.array([[0.0], [2.0], [1.0]]), "advantage", 1.0, np.array([1, 1, 0]) > 0
    )
    np.testing.assert_allclose(told, told[0])


def test_without_a_whole_episode_nobody_is_ranked(tmp_path):
    opened, reward = write_file(tmp_path / "a.npz", costly_episodes(1, 2, ends="UU"))
    with pytest.raises(ForageError, match=r"cut all 2 of them.* BC prefers those; record more steps, or take best=1"):
        opened.with_returns(BC(best=0.5), reward)
    with pytest.raises(ForageError, match="or take target_return=NUMBER"):
        opened.with_returns(DecisionTransformer(context=1), reward)
    with pytest.raises(ForageError, match="trajectory weighting prefers those"):
        TrajectoryWeighted(str(tmp_path / "a.npz")).load(SPEC)
    opened.with_returns(DecisionTransformer(context=1, target_return=3.0), reward)
