"""Rollouts of one policy that are pooled, made by hand: two groups of two, one turn."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_text_replay import SPEC, rollout_of

from forage.agents.language.grpo import GRPO, replay_advantages
from forage.core.ports import ActContext
from forage.core.types import Batch, Clock, Replay
from forage.memory.recorded import RecordedMemory, Recording
from forage_papers.agents.language.raft import RAFT
from forage_papers.memory.pool import PooledEpisodes, RolloutPool, same_problem


def live(memory, rollouts):
    """Return for each rollout whether there is an update, and its batch."""
    example = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), rollouts[0])
    state, found = memory.init(example, 4, 1, SPEC, None), []
    clock = Clock(jnp.int32(0), jnp.float32(100))

    @jax.jit
    def run_once(state, rollout):
        state = memory.add(state, rollout, clock)
        batch = memory.sample(state, 1, 1, ActContext(None, (), SPEC, clock, jax.random.key(0)))
        return memory.after_updates(state), (memory.is_ready(state), batch)

    for rollout in rollouts:
        state, told = run_once(state, rollout)
        found.append(jax.device_get(told))
    return found


def test_answers_of_two_rollouts_to_a_prompt_are_one_group():
    told = [rollout_of([1, 2], [0, 1, 0, 0], 3), rollout_of([2, 5], [1, 0, 0, 1], 4)]
    (early, _), (due, batch), (again, _) = live(RolloutPool(rounds=2, group_size=2), [*told, told[0]])
    assert (bool(early), bool(due), bool(again)) == (False, True, False)
    assert batch.replay.group.tolist() == [0, 0, 2, 2, 2, 2, 6, 6] and batch.weight.tolist() == [1] * 8
    assert batch.experience.action[0, :, 0].tolist() == [3] * 4 + [4] * 4

    agent = GRPO(group_size=2, num_envs=4, advantage="dr-grpo")
    reward = batch.experience.reward.sum(0)
    grouped, gone = agent.group_values(batch, reward), agent.lost(batch)
    advantage, weight, _ = replay_advantages(batch, *agent.answer_advantages(grouped, grouped, ~gone))
    np.testing.assert_allclose(advantage, [-0.5, 0.5, -0.25, -0.25, 0.75, -0.25, -0.5, 0.5])
    assert weight.tolist() == [1] * 8


@pytest.mark.thorough
def test_a_prompt_with_a_hint_takes_the_place_of_the_one_without():
    context = jnp.array([[0, 7, 8], [7, 8, 9], [0, 7, 9], [0, 0, 5], [0, 7, 8]])
    same = same_problem(context)
    assert same[0].tolist() == [True, True, False, False, True] and (same == same.T).all()
    one, other = rollout_of([1, 2], [0, 0, 0, 1], 3), rollout_of([1, 2], [0, 1, 1, 1], 4)
    hinted = jnp.array(other.observation["context"]).at[0, :2].set(jnp.array([1, 6]))
    plain = jnp.array(one.observation["context"]).at[..., 0].set(0)
    one = one._replace(observation={**one.observation, "context": plain})
    rest = jnp.array(hinted).at[0, 2:].set(jnp.array([0, 2]))
    other = other._replace(observation={**other.observation, "context": rest})
    batch = live(RolloutPool(rounds=2, newest=True, group_size=2), [one, other])[1][1]
    assert batch.weight.tolist() == [0, 0, 1, 1, 1, 1, 1, 1]
    assert batch.replay.group.tolist() == [0, 1, 2, 2, 4, 4, 2, 2]


def test_a_recording_is_ready_when_its_memory_is():
    around = RecordedMemory(RolloutPool(rounds=2))
    states = [PooledEpisodes((), jnp.int32(0), jnp.int32(rollouts)) for rollouts in (1, 2)]  # type: ignore[arg-type]
    assert [bool(around.is_ready(Recording(state, None))) for state in states] == [False, True]  # type: ignore[arg-type]


def test_agents_that_compare_otherwise_do_not_pool():
    assert GRPO().pools and not RAFT().pools and not GRPO(advantage="pass@k").pools
    replay = Replay(jnp.zeros(2, bool), jnp.full(2, jnp.nan), jnp.array([0, 0]))
    batch = Batch(None, jnp.ones(2), jnp.arange(2), replay)
    matrix = jnp.array([[0.5, -0.5], [9.0, 9.0]])
    assert replay_advantages(batch, matrix, jnp.ones((2, 2)))[0].tolist() == [0.5, -0.5]
