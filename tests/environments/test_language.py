"""The toy language, step by step."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments import make
from forage.environments.language.reverse import Reverse, ReverseState

KEY = jax.random.key(0)


def test_reverse_step_by_step():
    world = Reverse()
    state = ReverseState(jnp.array([0, 1]), jnp.zeros(2, int), jnp.int32(0))
    assert world._observe(state).tolist() == [1, 0, 0, 1, 0, 0, 0, 0]  # the prompt 0 1, and nothing written
    state, step = world.step(state, jnp.int32(1), KEY)
    assert step.observation.tolist() == [1, 0, 0, 1, 0, 1, 0, 0]
    assert (float(step.reward), bool(step.terminated), bool(step.truncated)) == (0, False, False)
    state, step = world.step(state, jnp.int32(0), KEY)
    assert step.observation.tolist() == [1, 0, 0, 1, 0, 1, 1, 0]  # 1 0, the reverse
    assert (float(step.reward), bool(step.terminated), bool(step.truncated)) == (1, True, False)


@pytest.mark.parametrize("length", [1, 2, 4])
def test_one_answer_of_all_is_paid(length):
    world = make(f"language:Reverse-{length}") if length > 1 else Reverse(1)
    assert world.horizon == length
    state, observation = world.reset(KEY)
    assert world.observation_space.contains(np.asarray(observation))
    paid = {}
    for answer in itertools.product((0, 1), repeat=length):
        at, total = state, 0.0
        for token in answer:
            at, step = world.step(at, jnp.int32(token), KEY)
            total += float(step.reward)
        assert step.terminated
        paid[answer] = total
    right = tuple(np.asarray(state.prompt)[::-1].tolist())
    assert paid == {answer: float(answer == right) for answer in paid}


def test_every_prompt_comes_as_often():
    prompts = jax.vmap(lambda key: Reverse(2).reset(key)[0].prompt)(jax.random.split(KEY, 4000))
    share = np.bincount(np.asarray(prompts @ jnp.array([2, 1])), minlength=4) / 4000
    np.testing.assert_allclose(share, 0.25, atol=0.03)


def test_pictures_and_lengths():
    assert Reverse(3).render(Reverse(3).reset(KEY)[0]).shape == (48, 72, 3)
    with pytest.raises(ForageError, match="length 0"):
        Reverse(0)
