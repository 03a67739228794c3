"""Agents of trees: advantages worked by hand, refusals, and stopping and resuming."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from tiers import gate_cases

from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage_papers.agents.language.trees.base import Tree, steps_of
from forage_papers.agents.language.trees.fr3e import FR3E
from forage_papers.agents.language.trees.tree_rl import TreeRL, part_advantages
from forage_papers.agents.language.trees.vine_ppo import VinePPO, whiten
from forage_papers.starts.branches import Branches

SMALL = Architecture(vocabulary=512, width=16, layers=1, heads=2, inner=16, length=256)
TREES: dict[str, Any] = {"vine-ppo": VinePPO, "fr3e": FR3E, "tree-rl": TreeRL}


def model() -> Transformer:
    return Transformer(jax.random.key(0), SMALL)


def tree(reward: list[list[float]], length: list[int], new: int = 5) -> Tree:
    """The tree of one prompt; `length`: of the prefixes of all its answers."""
    told = np.array(reward, np.float32)[:, None]
    lengths = np.broadcast_to(np.array([0, *length])[:, None, None], told.shape)
    wrote = np.ones((*told.shape, new), bool)
    return Tree(jnp.asarray(told), jnp.asarray(lengths), jnp.asarray(wrote))


def test_steps_end_with_the_prefixes():
    assert steps_of(jnp.array([1, 3]), 5).tolist() == [0, 1, 1, 2, 2]
    assert steps_of(jnp.array([0, 2, 2]), 4).tolist() == [1, 1, 3, 3]


def test_vine_ppo_by_hand():
    """Values: 1/2 of the other answers at the prompt, 2/3 and 0 of the branches; the answer itself gets 1."""
    told = tree([[1, 0, 1], [1, 1, 0], [0, 0, 0]], [1, 3])
    agent = VinePPO(model=model(), whiten=False, num_envs=3, group_size=3, rollout_length=3)
    advantage, weight = agent.credit(told)
    np.testing.assert_allclose(advantage[0, 0, 0], [1 / 6, -2 / 3, -2 / 3, 1, 1], rtol=1e-5)
    assert np.flatnonzero(np.asarray(weight)).tolist() == [0]  # the first answer to the prompt
    white = whiten(jnp.array([[1.0, 3.0, 9.0]]), jnp.array([[True, True, False]]))
    np.testing.assert_allclose(white, [[-1, 1, 0]], rtol=1e-5)


def test_fr3e_by_hand():
    """Values 1/2, 1 and 1/2 or, of those above the mean, 1/2, 0 and 1/2; the second group is dropped."""
    told = tree([[1, 0], [1, 1], [0, 1]], [1, 3])
    for value, last in (("mean", 0.5), ("above-mean", -0.5)):
        agent = FR3E(model=model(), num_envs=2, group_size=2, rollout_length=3, state_value=value)
        advantage, weight = agent.credit(told)
        np.testing.assert_allclose(advantage[0, 0, :, 0], np.exp(-0.5) * np.array([0.5, -0.5]), rtol=1e-5)
        np.testing.assert_allclose(advantage[2, 0, :, 0], np.exp(last) * np.array([-0.5, 0.5]), rtol=1e-5)
    assert weight[:, 0].tolist() == [[1, 1], [0, 0], [1, 1]]
    # What their lengths cost answers that are all right makes no difference between them
    shorter = told._replace(reward=told.reward - jnp.array([0.1, 0.4]), outcome=told.reward)
    _, weight = FR3E(model=model(), num_envs=2, group_size=2, rollout_length=3).credit(shorter)
    assert weight[:, 0].tolist() == [[1, 1], [0, 0], [1, 1]]


def test_tree_rl_by_hand():
    """Less the mean of the five others a reward of 1 is 0.8 and one of 0 is -0.4."""
    compared = jnp.array([0.8, 0.8, -0.4])  # the answer, and those that go on from its two prefixes
    trunk, others = part_advantages(compared, jnp.array([2, 4]))  # values 0.4, 0.2 and 0.8 of 3, 2 and 1 leaves
    np.testing.assert_allclose(trunk, [0.8 * 3**0.5, 0, 1.4], atol=1e-6)
    np.testing.assert_allclose(others, [1.2, -1.0], rtol=1e-5)
    trunk, others = part_advantages(compared, jnp.array([2, 2]))  # twice from one place
    np.testing.assert_allclose(trunk[2], 1.2, rtol=1e-5)
    np.testing.assert_allclose(others, [1.2, -1.2], rtol=1e-5)
    trunk, others = part_advantages(compared, jnp.array([0, 3]))  # once from the prompt, the root
    np.testing.assert_allclose(trunk[1], 0.4 * 2**0.5, rtol=1e-5)
    np.testing.assert_allclose(others, [1.6, -1.0], rtol=1e-5)
    told = tree([[1, 0], [1, 0], [0, 0]], [2, 4])
    advantage, _ = TreeRL(model=model(), num_envs=2, group_size=2, rollout_length=3).credit(told)
    np.testing.assert_allclose(advantage[0, 0, 0], [0.8 * 3**0.5, 0.8 * 3**0.5, 0, 0, 1.4], atol=1e-6)
    np.testing.assert_allclose(advantage[1:, 0, 0, 0], [1.2, -1.0], rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"advantage": "rloo"}, "leave advantage out"),
        ({"minibatches": 4}, "2 answers"),
        ({"starts": Branches(4, 3)}, "starts.prefixes 2"),
        ({"env": {}}, "branches true"),
        ({"environment": "text:guess"}, "use grpo"),
    ],
)
def test_what_cannot_be_is_one_sentence(options, says):
    options = dict(options)
    starts, env = options.pop("starts", None), options.pop("env", {"branches": True})
    environment = options.pop("environment", "text:addition")
    given = {"model": model(), "num_envs": 8, "group_size": 4, "rollout_length": 3} | options
    with pytest.raises(ForageError, match=says):
        resolve(
            "vine-ppo", environment, agent_options=given, starts=starts, environment_options=env, steps=48, seeds=[0]
        ).runner()


@pytest.mark.thorough
@pytest.mark.parametrize("name", gate_cases(TREES, ["fr3e"]))
def test_resumed_is_as_if_never_stopped(name, tmp_path):
    agent = TREES[name](model=model(), num_envs=8, group_size=4, rollout_length=3, minibatches=2)
    check_resumed(tmp_path, agent, "text:addition", 48, 96, environment_options={"branches": True})
