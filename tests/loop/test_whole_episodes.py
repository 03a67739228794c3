"""Serial numbers of starts, marks in the experience, and rollouts of whole episodes, on both roads."""

import itertools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from small import PPO
from tiers import gate_cases

from forage.agents.policy_gradient import ppo
from forage.config.resolve import resolve
from forage.core.ports import Agent, Starts
from forage.core.types import Clock

small.keep_compiled()
LENGTH = 40
OPTIONS = PPO | {"rollout_length": LENGTH, "num_envs": 3, "minibatches": 1}
ENVIRONMENTS = {"device": "CartPole-v1", "host": "gymnasium:CartPole-v1"}


class NumberedStarts(Starts):
    """Marks every start with its serial number."""

    on_host: ClassVar[bool] = True

    def begin(self, state: Any, environment: Any, key: Any, index: Any) -> Any:
        return *environment.reset(key), index


class MarkedPPO(ppo.PPO):
    """An agent that wants the marks."""

    needs_start_ids: ClassVar[bool] = True


class Whole(MarkedPPO):
    """An agent that wants the marks, and whole episodes."""

    whole_episodes: ClassVar[bool] = True


def live(agent: Agent, environment: str, rollouts: int = 6) -> tuple[list[Any], list[Any]]:
    """Return each rollout of a run, and each report."""
    setup = resolve(agent, environment, steps=10_000, seeds=[0], starts=NumberedStarts())
    runner: Any = setup.runner()
    runner.begin()
    found, reports = [], []
    if setup.native:
        look = jax.jit(setup.loop().next_rollout)
        for _ in range(rollouts):
            clock = Clock(jnp.int32(runner.steps), jnp.float32(10_000))
            found.append(jax.device_get(look(jax.tree.map(lambda x: x[0], runner.state), clock)))
            reports.append(runner.advance(1))
        return found, reports
    one = runner.loops[0]
    learn = one.learn

    def listening(rollout: Any, clock: Any) -> Any:
        found.append(rollout)
        return learn(rollout, clock)

    one.learn = listening
    return found, [runner.advance(1) for _ in range(rollouts)]


def episodes(rollout: Any) -> list[list[tuple[int, int, int]]]:
    """Return `(mark, first step, step after the last)` of each environment's pieces of episodes, in order."""
    ends = rollout.terminated | rollout.truncated
    found = []
    for env in range(ends.shape[1]):
        cuts = [0, *(np.flatnonzero(ends[:, env]) + 1).tolist(), LENGTH]
        pieces = [(a, b) for a, b in itertools.pairwise(cuts) if a < b]
        for a, b in pieces:
            assert (rollout.start_id[a:b, env] == rollout.start_id[a, env]).all(), "one episode has one mark"
        found.append([(int(rollout.start_id[a, env]), a, b) for a, b in pieces])
    return found


@pytest.mark.parametrize("runner", gate_cases(ENVIRONMENTS, ["device"]))
def test_marks_name_the_episode_and_numbers_have_no_gaps(runner):
    rollouts, _ = live(MarkedPPO(**OPTIONS), ENVIRONMENTS[runner])
    assert rollouts[0].start_id[0].tolist() == [0, 1, 2]
    before, seen = None, set()
    for rollout in rollouts:
        for env, pieces in enumerate(episodes(rollout)):
            if before is not None and not before[1][env]:  # the episode goes on from the rollout before
                assert pieces[0][0] == before[0][env]
            seen |= {mark for mark, _, _ in pieces}
        before = rollout.start_id[-1], (rollout.terminated | rollout.truncated)[-1]
    assert seen == set(range(len(seen))), "every number was an episode's, in order"


@pytest.mark.parametrize("runner", ENVIRONMENTS)
@pytest.mark.thorough
def test_whole_episodes_begin_with_the_rollout_and_only_those_that_ended_count(runner):
    rollouts, reports = live(Whole(**OPTIONS), ENVIRONMENTS[runner])
    seen: list[int] = []
    for rollout, report in zip(rollouts, reports, strict=True):
        assert (np.abs(rollout.observation[0]) <= 0.05).all(), "CartPole begins within 0.05 of zero"
        ends = rollout.terminated | rollout.truncated
        pieces = [piece for env in episodes(rollout) for piece in env]
        marks = [mark for mark, _, _ in pieces]
        assert not set(marks) & set(seen), "no episode goes on from the rollout before"
        seen += marks
        lengths = [b - a for env, found in enumerate(episodes(rollout)) for _, a, b in found if ends[b - 1, env]]
        assert float(report.episodes.count[0]) == len(lengths)
        assert float(report.episodes.length[0]) == sum(lengths)
        assert float(report.episodes.episode_return[0]) == sum(lengths)  # CartPole pays 1 a step
        assert sum(lengths) < LENGTH * 3, "something was dropped"
    assert sorted(seen) == list(range(len(seen)))


@pytest.mark.thorough
def test_nothing_is_kept_for_agents_that_want_no_marks():
    rollouts, _ = live(ppo.PPO(**OPTIONS), "CartPole-v1", 1)
    assert rollouts[0].start_id == ()
