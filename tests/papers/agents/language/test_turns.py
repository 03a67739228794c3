"""LOOP compares whole conversations, ArCHer has a critic of turns, and both can be stopped and resumed."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from resuming_helpers import check_resumed
from small import compute

from forage.agents.language.base import Aux
from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.core.types import Batch, Clock, Experience
from forage.memory.uniform import UniformReplay
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer
from forage_papers.agents.language.turns.archer import ArCHer, join_turns, masked_mean
from forage_papers.agents.language.turns.loop import LOOP

SMALL = Architecture(vocabulary=512, width=16, layers=1, heads=2, inner=16, length=256)


def model() -> Transformer:
    return Transformer(jax.random.key(0), SMALL)


def test_loop_by_hand():
    """Three conversations of two turns; the reward of the first comes in its first turn, and it wrote three tokens."""
    action = np.zeros((2, 3, 4), np.int32)  # turn env new
    action[0, :, 0] = 5
    action[1, 0, :2] = 6
    reward = np.float32([[1, 0, 0], [0, 0, 0]])
    flags, source = np.zeros((2, 3), bool), np.zeros((2, 3), np.int32)
    policy_info = Aux(np.zeros(action.shape, np.float32), np.ones((2, 3), np.float32))  # type: ignore[arg-type]
    seen = {"context": np.ones((2, 3, 2), np.int32), "reference": np.zeros(action.shape, np.int32)}
    experience = Experience(seen, action, reward, seen, flags, flags, source, policy_info)
    agent = LOOP(model=model(), num_envs=3, group_size=3, rollout_length=2)
    lesson = compute(agent.lesson, Batch(experience, np.ones(3, np.float32), np.arange(3)))
    np.testing.assert_allclose(lesson.advantage[0], [[1, 0, 0, 0], [1, 1, 0, 0]])  # 1 - mean(0, 0)
    np.testing.assert_allclose(lesson.advantage[1], [[-0.5, 0, 0, 0], [0, 0, 0, 0]])  # 0 - mean(1, 0)
    # Each token of the first conversation counts 1/3 of it, also where episodes may have two turns more
    for turns in (2, 4):
        waiting = ((0, 0), (0, turns - 2), (0, 0))
        mask = np.pad(lesson.rows.wrote, waiting).reshape(-1, 4)
        given = lesson._replace(weight=np.pad(lesson.weight, waiting[:2]).reshape(-1))
        many = dataclasses.replace(agent, rollout_length=turns)
        slope = jax.grad(lambda loss, m=mask, g=given, a=many: a.aggregate_loss(loss, g, m))
        each = compute(slope, np.ones(mask.shape, np.float32))
        wanted = np.zeros((3, turns, 4))
        wanted[:, :2] = lesson.rows.wrote * np.array([1 / 9, 1 / 3, 1 / 3])[:, None, None]
        np.testing.assert_allclose(np.reshape(each, wanted.shape), wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "says"), [({"advantage": "grpo"}, "advantages of its own"), ({"minibatches": 16}, "8 conversations")]
)
def test_what_cannot_be_is_one_sentence(options, says):
    given = {"model": model(), "num_envs": 8, "group_size": 4, "rollout_length": 4} | options
    with pytest.raises(ForageError, match=says):
        resolve("loop", "text:guess", agent_options=given, steps=64, seeds=[0]).runner()


def test_texts_are_counted_from_0_and_rows_that_wait_do_not_count():
    tokens, there = join_turns(jnp.array([[0, 3], [0, 0]]), jnp.array([[2, 0], [0, 0]]))
    assert tokens.tolist() == [[0, 2, 1, 0], [0, 0, 0, 0]]
    assert there.tolist() == [[False, True, True, False], [False] * 4]
    assert masked_mean(jnp.array([3.0, jnp.nan]), jnp.array([True, False])) == 3
    assert masked_mean(jnp.array([3.0]), jnp.array([False])) == 0


def replay(agent: Any, state: Any, waiting: float) -> Batch:
    """Return two turns, the last of their games with rewards 1 and 0, and a waiting one, with a reward of its own."""
    context = jnp.array([[0, 5, 6], [4, 5, 7], [0, 0, 0]])[None]
    action = jnp.array([[8, 9], [9, 2], [0, 0]])[None]
    seen = {"context": context, "reference": jnp.zeros_like(action)}
    after = seen | {"context": jnp.zeros_like(context)}
    flags, reward = jnp.zeros((1, 3), bool), jnp.array([[1.0, 0.0, waiting]])
    policy_info = Aux(jnp.zeros(action.shape), jnp.ones((1, 3)))  # type: ignore[arg-type]
    source = jnp.zeros((1, 3), jnp.int32)
    return Batch(Experience(seen, action, reward, after, flags, flags, source, policy_info), jnp.ones(3), jnp.arange(3))


@pytest.mark.thorough
def test_the_critic_of_archer_tells_turns_apart_and_the_policy_waits_for_it():
    agent = ArCHer(model=model(), hidden_size=16, critic_learning_rate=3e-3, learning_starts=0, warmup=50)
    spec = resolve("grpo", "text:guess", agent_options={"model": model(), "num_envs": 8, "group_size": 4}).spec
    first = state = agent.init(jax.random.key(0), spec)
    learn = jax.jit(lambda state, batch, steps, key: agent.learn(state, batch, Clock(steps, jnp.float32(1000)), key)[0])
    for number in range(60):
        state = learn(state, replay(agent, state, 0.0), jnp.int32(number // 2), jax.random.key(number))
    batch = replay(agent, state, 0.0)
    told = join_turns(batch.experience.observation["context"][0], batch.experience.action[0])
    turn, _ = state.critic.of_turns(*told, 2)
    assert (turn[:, 0] > turn[:, 1] + 0.5).all()
    assert jax.tree.all(jax.tree.map(np.array_equal, state.network, first.network))
    one, other = (learn(state, replay(agent, state, x), jnp.int32(100), jax.random.key(9)) for x in (0.0, 99.0))
    assert jax.tree.all(jax.tree.map(np.array_equal, one, other))
    assert not jax.tree.all(jax.tree.map(np.array_equal, one.network, first.network))


TURNS: dict[str, Any] = {
    "loop": (LOOP, {"rollout_length": 4, "group_size": 4}),
    "archer": (ArCHer, {"learning_starts": 32, "batch_size": 4, "hidden_size": 8, "warmup": 16}),
}
# A run that is made longer keeps the places its memory had, here as many as the shorter run has steps
MEMORIES = {"archer": UniformReplay(64)}


@pytest.mark.parametrize("name", TURNS)
@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(name, tmp_path):
    made, options = TURNS[name]
    agent = made(model=model(), num_envs=8, **options)
    check_resumed(tmp_path, agent, "text:guess", 64, 96, memory=MEMORIES.get(name))
