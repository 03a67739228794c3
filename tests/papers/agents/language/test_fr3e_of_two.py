"""FR3E with a right and a wrong answer to branch from: stems and values by hand, refusals, stopping and resuming."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from test_trees import model, tree

from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage_papers.agents.language.trees.fr3e import FR3E
from forage_papers.starts.branches import Branches, BranchesState
from forage_papers.starts.paired_branches import PairedBranches, first_right_and_wrong


def test_a_right_and_a_wrong_answer_are_branched_from():
    reward = np.array([[0.0, 1, 1], [1, 1, 1], [0, 0, 0.5]])
    assert first_right_and_wrong(reward).tolist() == [[1, 0], [3, -1], [8, 6]]


@pytest.mark.thorough
def test_each_half_of_the_steps_has_an_answer():
    part, stem = PairedBranches(size=2, prefixes=4), jnp.array([[1, 0], [3, -1]])
    state = BranchesState((), 0, 0, (), (), stem)  # type: ignore[arg-type]
    found = [[part.stem(state._replace(depth=depth), place) for place in (0, 1, 2)] for depth in range(5)]
    plain = [[(int(stem), int(prefix)) for stem, prefix in row] for row in found]
    assert [[prefix for _, prefix in row] for row in plain[:1]] == [[-1] * 3]
    assert plain[1] == [(1, 0), (1, 0), (3, 0)] and plain[2] == [(1, 1), (1, 1), (3, 1)]
    assert plain[3][:2] == [(0, 0)] * 2 and plain[4][:2] == [(0, 1)] * 2
    assert plain[3][2][1] == plain[4][2][1] == -1  # there was no wrong answer


@pytest.mark.thorough
def test_fr3e_of_two_answers_by_hand():
    """Values 1/2 at the prompt, 1 behind the right answer's prefix and 0 behind the wrong one's: differences 1/2, 1/2
    and -1/2, whose squares are halves of their sums."""
    given: dict[str, Any] = {"num_envs": 2, "group_size": 2, "rollout_length": 3, "zero_variance_groups": "keep"}
    agent = FR3E(model=model(), **given, stems=2, sharpening=2.0, state_value="mean")
    advantage, weight = agent.credit(tree([[1, 0], [1, 1], [0, 0]], [1, 3]))
    np.testing.assert_allclose(advantage[0, 0, :, 0], np.exp(-0.5) * np.array([0.5, -0.5]), rtol=1e-5)
    values = np.float32([[0.75], [0.5], [0.75]])  # differences 1/4 at the prompt, then -1/4 and 1/4
    np.testing.assert_allclose(agent.differences(values)[:, 0], [1 / 3, -1 / 3, 1 / 3], rtol=1e-5)
    other = FR3E(model=model(), **given, stems=2)
    advantage, weight = other.credit(tree([[1, 0], [1, 0], [0, 1]], [0, 2]))
    assert weight[:, 0].tolist() == [[1, 1], [0, 0], [1, 1]]  # there was no right answer to go on from
    np.testing.assert_allclose(advantage[2, 0, :, 0], [-0.5, 0.5], rtol=1e-5)  # both values are 1/2


def test_what_cannot_be_is_one_sentence():
    with pytest.raises(ForageError, match="of two answers cannot be used 2 times each; give a multiple of 4"):
        PairedBranches(prefixes=6, times=2)
    given: dict[str, Any] = {"model": model(), "num_envs": 8, "group_size": 4, "rollout_length": 3, "stems": 2}
    with pytest.raises(ForageError, match="of two of 4; use --starts paired-branches"):
        resolve("fr3e", "text:addition", agent_options=given, starts=Branches(4, 2), steps=48, seeds=[0]).runner()


@pytest.mark.thorough
def test_two_answers_of_a_group_are_cut_and_learned_from(tmp_path):
    options: dict[str, Any] = {"stems": 2, "sharpening": 1.5, "zero_variance_groups": "keep", "minibatches": 5}
    agent = FR3E(model=model(), num_envs=8, group_size=4, rollout_length=5, **options)
    check_resumed(tmp_path, agent, "text:addition", 80, 160, environment_options={"branches": True})
