"""Successes of all rollouts, the newer the more often, in rollouts made by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from resuming_helpers import check_resumed
from test_grpo import model
from test_text_replay import SPEC, live, rollout_of

from forage.agents.language.grpo import GRPO
from forage.agents.policy_gradient.ppo import PPO
from forage.core.types import ForageError
from forage_papers.memory.recent_successes import RecentSuccesses
from forage_papers.memory.successes import KeptSuccesses


def test_newer_successes_are_drawn_more_often():
    """Of three the sum 1 + 2 + 3 is 6: half of 1/6, 2/6 and 3/6, and half of 1/3. The fifth is at place 1 of 4."""

    chance = jax.jit(lambda memory, count: memory.probabilities(KeptSuccesses((), count, ())))

    def share(count, recency=0.5):
        return np.asarray(chance(RecentSuccesses(capacity=4, recency=recency), jnp.int32(count)))

    np.testing.assert_allclose(share(3), [1 / 4, 1 / 3, 5 / 12, 0], rtol=1e-6)
    np.testing.assert_allclose(share(6, recency=1.0), [0.3, 0.4, 0.1, 0.2], rtol=1e-6)
    np.testing.assert_allclose(share(6, recency=0.0), np.full(4, 0.25), rtol=1e-6)
    assert share(0).tolist() == [0, 0, 0, 0]


@pytest.mark.thorough
def test_successes_are_learned_from_and_nothing_else():
    rollouts = [
        rollout_of([1, 2], [0, 1, 0, 0], 3),
        rollout_of([1, 2], [1, 0, 0, 0], 4),
        rollout_of([1, 2], [0, 0, 1, 1], 5),
    ]
    first, second, third = live(RecentSuccesses(size=3, capacity=4), rollouts)
    weights = [batch.weight.tolist() for batch in (first, second, third)]
    assert weights == [[0] * 4 + [1] * n + [0] * (3 - n) for n in (1, 2, 3)]
    drawn = second.experience
    assert sorted(drawn.action[0, 4:6, 0].tolist()) == [3, 4] and drawn.reward[0, 4:6].tolist() == [1, 1]
    assert (second.replay.advantage[4:] == 1).all() and second.replay.older.tolist() == [False] * 4 + [True] * 3


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("agent", "options", "says"),
    [
        (PPO(), {}, "such as tti"),
        (GRPO(num_envs=8), {}, "--loss reinforce"),
        (GRPO(num_envs=8, loss="reinforce"), {"capacity": 4, "size": 4}, "a capacity of 8 or more"),
        (GRPO(num_envs=8, loss="reinforce", minibatches=8), {"size": 4}, "give another size"),
    ],
)
def test_what_cannot_be_is_one_sentence(agent, options, says):
    with pytest.raises(ForageError, match=says):
        check(RecentSuccesses(**options), agent, SPEC, None)


@pytest.mark.thorough
def test_each_success_is_drawn_as_often_as_its_probability_says():
    memory = RecentSuccesses(capacity=4, recency=1.0)
    chance = memory.probabilities(KeptSuccesses((), jnp.int32(3), ()))
    noise = jax.random.gumbel(jax.random.key(0), (20_000, 4))
    first = np.bincount(np.asarray(jnp.argmax(jnp.log(chance) + noise, 1)), minlength=4) / 20_000
    np.testing.assert_allclose(first, [1 / 6, 2 / 6, 3 / 6, 0], atol=0.02)


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped(tmp_path):
    agent = GRPO(model=model(), num_envs=8, group_size=4, rollout_length=4, loss="reinforce", advantage="none")
    memory = RecentSuccesses(success=-9.0, size=8, capacity=16)
    check_resumed(tmp_path, agent, "text:guess", 64, 128, memory=memory)
