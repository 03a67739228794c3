"""Slots: environments stepped one by one, each at its own pace."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.core.host import HostStep
from forage.core.types import GONE, Step
from forage.environments import HostFactory
from forage.loop.cluster import workers
from forage.loop.cluster.slots import SlotResults, Slots
from forage.loop.cluster.workers import Workers
from forage.loop.host.async_envs import FirstCome
from tests.loop.test_workers import CARTPOLE, Counting, MortalSlots, Refusing, same


class Moody(Refusing):
    """Takes its time before it refuses."""

    def step(self, action: Any) -> Any:
        if action == 2:
            time.sleep(0.5)
        return super().step(action)


def wait_until(pool: Slots, count: int) -> dict[int, SlotResults]:
    """Return the next `count` arrivals, by their first row."""
    found: dict[int, SlotResults] = {}
    while len(found) < count:
        found |= {one.rows.start: one for one in pool.hear()}
    assert len(found) == count
    return found


def test_each_goes_on_by_itself_and_is_what_one_process_steps() -> None:
    alone, pool = CARTPOLE.build(5), Slots(CARTPOLE.build, 5, 2, 2)
    try:
        rows = [slot.rows for slot in pool.slots]
        assert [(row.start, row.stop) for row in rows] == [(0, 2), (2, 3), (3, 4), (4, 5)]
        same(alone.reset(3), pool.reset(3))
        actions = np.random.default_rng(0).integers(0, 2, (60, 5)).astype(np.int32)
        wanted = [alone.step(action) for action in actions]
        assert sum(result.step.terminated.sum() for result in wanted) > 5
        taken = dict.fromkeys([row.start for row in rows], 0)
        ready, waiting = rows[1:], rows[:1]  # the first begins when another is through
        while ready or any(slot.under_way for slot in pool.slots):
            mixed = np.zeros(5, np.int32)
            for row in ready:
                mixed[row] = actions[taken[row.start], row]
            pool.tell(ready, mixed)
            ready = []
            for one in pool.hear():
                result = wanted[taken[one.rows.start]]
                same(np.asarray(result.observation)[one.rows], one.observation)
                same(result.step.reward[one.rows], one.result.step.reward)  # type: ignore[union-attr]
                same(result.step.terminated[one.rows], one.result.step.terminated)  # type: ignore[union-attr]
                same(result.step.observation[one.rows], one.result.step.observation)  # type: ignore[union-attr]
                taken[one.rows.start] += 1
                if taken[one.rows.start] < len(actions):
                    ready.append(one.rows)
                elif waiting:
                    ready.append(waiting.pop())
        assert set(taken.values()) == {60}
        same(alone.step(actions[0]), pool.step(actions[0]))  # and all together
    finally:
        pool.close()


@pytest.mark.thorough
def test_where_a_worker_dies_steps_under_way_are_lost_and_the_others_cut() -> None:
    pool = Slots(HostFactory("moody", maker=Moody).build, 4, 2, 2)
    try:
        pool.reset(0)
        rows, action = [slot.rows for slot in pool.slots], np.ones(4, np.int32)
        pool.tell(rows, action)
        before = wait_until(pool, 4)
        process: Any = pool.workers[0].process  # type: ignore[attr-defined]
        process.kill()
        process.join()
        pool.tell([rows[0], rows[2]], action)
        found = wait_until(pool, 3)
        assert found[0].lost and found[0].result is not None and found[0].result.step.truncated.tolist() == [True]
        assert found[0].result.step.reward.tolist() == [0] and found[0].observation["count"].tolist() == [[0]]
        assert found[1].result is None and found[1].observation["count"].tolist() == [[0]]
        assert not found[2].lost and found[2].observation["count"].tolist() == [[2]]
        assert found[0].observation["own"] != before[0].observation["own"]  # an episode of its own
        assert pool.replaced == 1
        pool.tell(rows[:2], action)
        assert [one.observation["count"].item() for one in wait_until(pool, 2).values()] == [1, 1]
        pool.tell([rows[1], rows[3]], np.array([0, 2, 0, 0], np.int32))
        with pytest.raises(ForageError, match="in environment 1 with ValueError: two is not for me"):
            wait_until(pool, 2)
        assert not any(slot.under_way for slot in pool.slots)
        pool.reset(0)
        hear, process = pool.hear, pool.workers[1].process  # type: ignore[attr-defined]

        def hear_and_kill() -> list[SlotResults]:  # when one of its slots is through
            found = hear()
            if not pool.dead and pool.replaced == 1 and any(one.rows.start > 1 for one in found):
                process.kill()
                process.join()
            return found

        pool.hear = hear_and_kill  # type: ignore[method-assign]
        result = pool.step(np.array([1, 1, 1, 2], np.int32))  # all together
        assert result.step.truncated.tolist() == [False, False, True, True]
        assert pool.lost is not None and pool.lost.tolist() == [False, False, False, True]
        assert result.step.reward.tolist() == [1, 1, 1, 0] and result.observation["count"].ravel().tolist() == [
            1,
            1,
            0,
            0,
        ]
    finally:
        pool.close()


@pytest.mark.thorough
def test_whenever_a_worker_dies_a_rollout_hangs_together() -> None:
    setup = resolve("impala", Counting, seeds=[0], steps=10_000, agent_options={"num_envs": 4, "rollout_length": 12})
    runner = setup.runner(workers=Workers(2, 2, async_envs=True))
    try:
        runner.begin()
        loop: Any = runner.loops[0]  # type: ignore[union-attr]
        pool, seen, heard = loop.environment, [], 0
        learn, hear = loop.learn, loop.environment.hear

        def hear_and_kill() -> list[SlotResults]:
            nonlocal heard
            heard += 1
            found = hear()
            if heard % 9 == 0:
                pool.workers[heard // 9 % 2].process.kill()
            return found

        pool.hear = hear_and_kill
        loop.learn = lambda rollout, clock: seen.append(rollout) or learn(rollout, clock)
        runner.advance(4)
        rollout = jax.tree.map(lambda *x: np.concatenate(x), *seen)
        over, lost = rollout.terminated | rollout.truncated, rollout.source == GONE
        count, led_to = rollout.observation["count"][..., 0], rollout.next_observation["count"][..., 0]
        follows = ~lost[1:]  # an episode is cut before a lost step, which begins where it stood
        np.testing.assert_array_equal(count[1:][follows], np.where(over, 0, led_to)[:-1][follows])
        inside = np.arange(1, len(lost)) % 12 > 0  # of the same rollout
        assert over[:-1][inside][~follows[inside]].all()
        np.testing.assert_array_equal(led_to[~lost], count[~lost] + 1)
        assert (over[lost]).all() and (led_to[lost] == 0).all()
        assert pool.replaced > 2 and lost.any() and (rollout.truncated & ~lost).any()  # the last were cut
        np.testing.assert_array_equal(rollout.reward[~lost], rollout.action[~lost])
    finally:
        runner.close()


def test_steps_without_a_reward_are_marked_in_the_rollout_of_asynchronous_environments() -> None:
    """Of a slot with two environments the second got no reward at its first step."""
    flags, numbers = np.zeros((2, 4), bool), np.zeros((2, 4), np.int32)
    kept: Any = SimpleNamespace(reward=np.zeros((2, 4), np.float32), terminated=flags.copy(), truncated=flags.copy())
    kept.next_observation, kept.info, kept.source = np.zeros((2, 4), np.float32), {}, numbers.copy()
    environment = SimpleNamespace(shared_arrays=SimpleNamespace(place=np.zeros(4, np.int32)))
    loop: Any = SimpleNamespace(collected=kept, observation=np.zeros(4, np.float32), ended=np.zeros(4, bool))
    loop.environment = environment
    seen, over = np.zeros(2, np.float32), np.array([True, False])
    step: Any = Step(seen, np.float32([5, 0]), over, ~over, {})  # type: ignore[arg-type]
    second = np.array([False, True])
    arrived = SlotResults(slice(2, 4), HostStep(step, seen), seen, no_reward=second, unjudged=second)
    taken, lost, unjudged = np.zeros(4, np.int32), flags.copy(), flags.copy()
    FirstCome.keep(loop, arrived, taken, lost, unjudged, numbers.copy())
    assert unjudged.tolist() == lost.tolist()
    assert kept.source.tolist() == [[0, 0, 0, GONE], [0] * 4] and kept.reward[0].tolist() == [0, 0, 5, 0]
    assert lost.tolist() == [[False, False, False, True], [False] * 4] and taken.tolist() == [0, 0, 1, 1]
    assert arrived._replace(lost=True).left_out.all() and not arrived._replace(no_reward=None).left_out.any()


def test_a_rollout_of_slots_is_judged_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both episodes of two environments end at their fifth step; the second cannot be judged, and then none can."""
    monkeypatch.setattr(workers, "Slots", MortalSlots)
    options = {"num_envs": 2, "rollout_length": 5, "hidden_sizes": (4,)}
    setup = resolve("impala", Counting, seeds=[0], steps=1000, agent_options=options)
    runner: Any = setup.runner(workers=Workers(2, 1, async_envs=True))
    try:
        runner.begin()
        loop = runner.loops[0]
        loop.recount = lambda *rollout: None
        hear, unjudged = loop.environment.hear, np.array([False, True])
        loop.environment.hear = lambda: [
            one._replace(unjudged=unjudged[one.rows] & one.result.step.terminated) for one in hear()
        ]
        loop.collect()
        unjudged[0] = True
        with pytest.raises(ForageError, match=r"^None of the 2 episodes of a rollout of .* could be judged, as "):
            loop.collect()
    finally:
        runner.close()
