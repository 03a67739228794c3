"""A memory of answers by prompts, by hand, and the bonuses that are made of it."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import EvenTokens, check_resumed
from test_grpo import model
from test_verifiers import reader, rollout_of

from forage.agents.language.grpo import GRPO
from forage.core.spaces import Tokens
from forage.core.types import Clock, Spec
from forage_papers.ops.tokens import neighbours
from forage_papers.rewards.verifiers.memory_r import MemoryR

SPACE = gymnasium.spaces.Dict({"context": Tokens(3, 30, end=29), "reference": Tokens(4, 30, end=29)})
SPEC = Spec("text:here", SPACE, Tokens(4, 30, end=29), horizon=1)


@pytest.mark.thorough
def test_what_is_kept_of_the_nearest_prompt():
    put = jax.jit(neighbours.put_answer)
    memory = neighbours.empty_memory(2, 2, 2)
    near = jnp.float32([0, 1])
    assert neighbours.novelty(memory, near, near) == 1 and neighbours.centre_distance(memory, near, near) == 1
    for prompt, answer in (([0, 0], [9, 9]), ([0, 0], [1, 0]), ([0, 0], [3, 0]), ([8, 8], [0, 2])):
        memory = put(memory, jnp.float32(prompt), jnp.float32(answer), True)
    assert memory.known == 2 and memory.count.tolist() == [3, 1]
    np.testing.assert_allclose(neighbours.centre_distance(memory, near, jnp.float32([2, 5])), 5)  # of (1, 0), (3, 0)
    np.testing.assert_allclose(neighbours.novelty(memory, near, jnp.float32([0, 7])), 1, atol=1e-6)
    np.testing.assert_allclose(neighbours.novelty(memory, near, jnp.float32([1, 1])), 1 - np.sqrt(0.5), rtol=1e-5)
    same = put(memory, jnp.float32([5, 5]), near, False)
    assert all(np.array_equal(a, b) for a, b in zip(same, memory, strict=True))
    full = put(memory, jnp.float32([4, 4]), jnp.float32([7, 7]), True)  # in the place of the oldest prompt
    assert full.prompts.tolist() == [[4, 4], [8, 8]] and full.count.tolist() == [1, 1]


@pytest.mark.thorough
def test_numbers_are_scaled_by_the_latest():
    window, scaled = neighbours.Window(jnp.zeros(2), jnp.int32(0)), []
    for number in (3.0, 5.0, 4.0):
        window, found = neighbours.scale_number(window, jnp.float32(number), 0.25, jnp.bool_(True))
        scaled.append(float(found))
    assert scaled == [0.25, 1.0, 0.0]  # the third beside 5 alone
    assert neighbours.scale_number(window, jnp.float32(7.0), 0.0, jnp.bool_(False))[1] == 7


@pytest.mark.thorough
def test_right_answers_are_sought_and_wrong_ones_left():
    whole = rollout_of()
    rollout = jax.tree.map(lambda x: x[1:], whole._replace(rewards={}, rewards_info=()))
    rollout = rollout._replace(action=whole.action[:1], reward=np.float32([[0, 1, 0, 0]]))
    rollout = rollout._replace(observation=jax.tree.map(lambda x: x[:1], whole.observation))
    part = MemoryR(model=reader(), begins=1, prompts=4, answers=4)
    learn = jax.jit(lambda state: part.learn(state, rollout, Clock(jnp.int32(0), jnp.float32(9)), jax.random.key(1)))
    state, (_, bonus), metrics = learn(part.init(jax.random.key(0), SPEC, 4))
    assert bonus.shape == (1, 4) and metrics["remembered"] == 1 and state.wrong.memory.count.tolist() == [3, 0, 0, 0]
    # The first is wrong and kept before it is judged: novelty 0, and no right one is known
    assert bonus[0, 0] == 0
    # The second is right and the only one: at the centre, and as new as any yet
    np.testing.assert_allclose(bonus[0, 1], 2, rtol=1e-5)
    assert part.relabel(state, rollout._replace(rewards_info=((), bonus))).rewards["bonus"] is bonus


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    options = {"model": model(1), "begins": 2, "prompts": 8, "answers": 4, "right": 0.5}
    agent = GRPO(model=model(), num_envs=8, group_size=4)
    check_resumed(tmp_path, agent, "text:addition", 24, 40, rewards=MemoryR(inner=EvenTokens(), **options))
