"""Episodes of earlier rollouts with the last one, in rollouts made by hand: two groups of two, one turn."""

from typing import NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check

from forage.agents.policy_gradient.ppo import PPO
from forage.core.ports import ActContext
from forage.core.spaces import Tokens
from forage.core.types import Clock, Experience, ForageError, Spec
from forage_papers.memory.self_imitation import SelfImitation
from forage_papers.memory.successes import Successes

SPACE = gymnasium.spaces.Dict({"context": Tokens(2, 30), "reference": Tokens(2, 30)})
SPEC = Spec("text:here", SPACE, Tokens(2, 30), horizon=1)


class KeptRecord(NamedTuple):
    log_probability: np.ndarray


def rollout_of(prompts, reward, mark):
    """Return answers to two prompts, two each; all their recorded values are `mark`."""
    context = np.repeat(np.array(prompts, np.int32), 2)[None, :, None] * np.ones(2, np.int32)
    seen = {"context": context, "reference": np.zeros_like(context)}
    shape, ends = (1, 4), np.ones((1, 4), bool)
    action = np.full((1, 4, 2), mark, np.int32)
    paid = np.array([reward], np.float32)
    return Experience(seen, action, paid, seen, ends, ~ends, np.zeros(shape, np.int32), KeptRecord(-0.1 * action))


def live(memory, rollouts):
    """Return each rollout's batch."""
    example = jax.tree.map(lambda x: jnp.asarray(x[0, 0]), rollouts[0])
    state = memory.init(example, 4, 1, SPEC, None)

    @jax.jit
    def run_once(state, rollout, number):
        clock = Clock(4 * number + 4, jnp.float32(100))
        moment = ActContext(None, (), SPEC, clock, jax.random.fold_in(jax.random.key(0), number))
        state = memory.add(state, rollout, clock._replace(steps=4 * number))
        state = memory.advance(state, 1, 1, moment)
        return memory.after_updates(state), memory.sample(state, 1, 1, moment)

    batches = []
    for number, rollout in enumerate(rollouts):
        state, batch = run_once(state, rollout, np.int32(number))
        batches.append(jax.device_get(batch))
    return batches


def test_a_success_takes_a_place_in_a_group_that_failed_from_the_same_beginning():
    rollouts = [
        rollout_of([1, 2], [0, 1, 0, 0], 3),
        rollout_of([1, 2], [0, 0, 0, 0], 4),
        rollout_of([2, 1], [0, 0, 1, 0], 5),
    ]
    first, second, third = live(Successes(capacity=4, group_size=2), rollouts)
    assert not first.replay.older.any() and (first.experience.action == 3).all()
    # The first prompt's first answer is the old success with all that was recorded; the second prompt has none
    assert second.experience.reward.tolist() == [[1, 0, 0, 0]]
    assert second.experience.action[0, :, 0].tolist() == [3, 4, 4, 4]
    assert second.experience.policy_info.log_probability[0, 0, 0] == pytest.approx(-0.3)
    assert second.replay.older.tolist() == [True, False, False, False]
    assert np.isnan(second.replay.advantage).all() and (second.weight == 1).all()
    # A group with a success of its own keeps its answers
    assert (third.experience.action == 5).all()


@pytest.mark.thorough
def test_without_what_was_recorded_a_success_counts_as_new():
    rollouts = [rollout_of([1, 2], [0, 1, 0, 0], 3), rollout_of([1, 2], [0, 0, 0, 0], 4)]
    _, second = live(Successes(capacity=4, group_size=2, recorded=False), rollouts)
    assert second.experience.reward[0, 0] == 1 and not second.replay.older.any()


def test_good_episodes_are_added_once_with_an_advantage_over_what_is_usual():
    memory = SelfImitation(size=2, group_size=2, ascent=4.0, coefficient=2.0)
    rollouts = [
        rollout_of([1, 2], [0, 1, 0, 0], 3),  # one episode is better than its group: too few to replay
        rollout_of([3, 4], [0, 1, 0, 0], 4),
        rollout_of([5, 6], [0, 0, 0, 0], 6),  # now there are two
        rollout_of([7, 8], [0, 0, 0, 0], 7),
    ]
    *before, third, fourth = live(memory, rollouts)
    assert [batch.weight.tolist() for batch in before] == [[1, 1, 1, 1, 0, 0]] * 2
    # Means of groups so far 0.5, 0, 0.5, 0: the median is 0.25. Three of four updates: (1 - cos(3 pi / 4)) / 2
    np.testing.assert_allclose(third.weight[4:], (1 - np.cos(3 * np.pi / 4)), rtol=1e-5)
    np.testing.assert_allclose(third.replay.advantage[4:], 0.75)
    assert sorted(third.experience.action[0, 4:, 0].tolist()) == [3, 4]
    assert third.replay.older.tolist() == [False] * 4 + [True] * 2 and np.isnan(third.replay.advantage[:4]).all()
    assert (fourth.weight[4:] == 0).all()


@pytest.mark.thorough
def test_episodes_that_are_old_or_no_longer_better_are_left_out():
    good, bad = ([0, 1, 0, 1], [0, 0, 0, 0])
    rollouts = [rollout_of([1, 2], reward, 3) for reward in (good, good, bad)]
    assert live(SelfImitation(size=4, group_size=2, age=2), rollouts)[-1].weight[4:].all()
    assert not live(SelfImitation(size=4, group_size=2, age=1), rollouts)[-1].weight[4:].any()
    # Better than its group, and then than half of all groups or not
    for others, replays in ((0, True), (5, False)):
        rollouts = [rollout_of([1, 2], reward, 3) for reward in ([0, 1, others, others], bad)]
        assert live(SelfImitation(size=1, group_size=2), rollouts)[-1].weight[4:].any() == replays


@pytest.mark.parametrize("memory", [Successes(group_size=2), SelfImitation(group_size=2)])
def test_agents_that_take_every_episode_for_new_are_refused(memory):
    with pytest.raises(ForageError, match="such as grpo"):
        check(memory, PPO(), SPEC, None)
