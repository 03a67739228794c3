"""LOOP: whole conversations are compared and averaged, and it can be stopped and resumed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import forage
from forage.agents.language.base import Aux
from forage.agents.language.turns.loop import LOOP
from forage.config.setup import make_setup
from forage.core.errors import ForageError
from forage.core.types import Batch, Experience
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer

SMALL = Architecture(vocabulary=512, width=16, layers=1, heads=2, inner=16, length=256)


def model() -> Transformer:
    return Transformer(jax.random.key(0), SMALL)


def test_loop_by_hand():
    """Three conversations of two turns; the reward of the first comes in its first turn, and it wrote three tokens."""
    action = np.zeros((2, 3, 4), np.int32)  # turn env new
    action[0, :, 0] = 5
    action[1, 0, :2] = 6
    reward = jnp.array([[1.0, 0, 0], [0, 0, 0]])
    flags = jnp.zeros((2, 3), bool)
    aux = Aux(jnp.zeros(action.shape), jnp.ones((2, 3)))
    seen = {"context": jnp.ones((2, 3, 2), jnp.int32), "reference": jnp.zeros(action.shape, jnp.int32)}
    source = jnp.zeros((2, 3), jnp.int32)
    experience = Experience(seen, jnp.asarray(action), reward, seen, flags, flags, source, aux)
    agent = LOOP(model=model(), num_envs=3, group_size=3, rollout_length=2)
    lesson = agent.lesson(Batch(experience, jnp.ones(3), jnp.arange(3)))
    np.testing.assert_allclose(lesson.advantage[0], [[1, 0, 0, 0], [1, 1, 0, 0]])  # 1 - mean(0, 0)
    np.testing.assert_allclose(lesson.advantage[1], [[-0.5, 0, 0, 0], [0, 0, 0, 0]])  # 0 - mean(1, 0)
    # With the rule `constant` each token counts weight / (env turn new): 1/3 of a conversation for each of three tokens
    np.testing.assert_allclose(lesson.weight / 24, np.array([[1 / 9] * 2, [1 / 3] * 2, [1 / 3] * 2]), rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "says"), [({"advantage": "grpo"}, "own advantage"), ({"minibatches": 3}, "8 conversations")]
)
def test_what_cannot_be_is_one_sentence(options, says):
    given = {"model": model(), "num_envs": 8, "group_size": 4, "rollout_length": 4} | options
    with pytest.raises(ForageError, match=says):
        make_setup("loop", "text:guess", agent_options=given, steps=64, seeds=[0]).runner()


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    agent = LOOP(model=model(), num_envs=8, group_size=4, rollout_length=4)
    given = {"agent": agent, "environment": "text:guess", "seeds": [1]}
    forage.train(**given, steps=96, directory=tmp_path / "whole", display="quiet")
    forage.train(**given, steps=64, directory=tmp_path / "parts", display="quiet")
    forage.resume(tmp_path / "parts", steps=96, agent=agent, display="quiet")
    one, two = (np.load(tmp_path / name / "agent.npz") for name in ("whole", "parts"))
    assert sorted(one) == sorted(two)
    assert all(np.array_equal(one[name], two[name]) for name in one if one[name].dtype.kind == "f")
