"""Workers: environments in processes of their own are, bit by bit, the batch that one process would step."""

from __future__ import annotations

import time
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest

import forage
from forage.config.setup import make_setup
from forage.core import checkpoint
from forage.core.errors import ForageError
from forage.core.types import GONE
from forage.environments import HostFactory
from forage.loop.cluster.pool import MOST_REPLACED, WITHIN, Pool
from forage.loop.cluster.workers import Workers
from tests.tiers import gated

CARTPOLE = HostFactory("gymnasium:CartPole-v1")


class Counting(gymnasium.Env):
    """Shows how many steps its episode has taken, beside a number of its own; five steps are an episode."""

    observation_space = gymnasium.spaces.Dict(
        {"count": gymnasium.spaces.Box(0, 9, (1,)), "own": gymnasium.spaces.Box(0, 1, ())}
    )
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.own = np.float32(self.np_random.random())
        self.count = 0
        return self.seen, {}

    @property
    def seen(self) -> dict[str, np.ndarray]:
        return {"count": np.float32([self.count]), "own": np.asarray(self.own)}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self.seen, float(action), self.count == 5, False, {}


class Refusing(Counting):
    """Fails at an action."""

    def step(self, action: Any) -> Any:
        if action == 2:
            raise ValueError("two is not for me")
        return super().step(action)


class Waiting(Counting):
    """Takes its time."""

    def step(self, action: Any) -> Any:
        time.sleep(0.05)
        return super().step(action)


def same(one: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one, other)


def plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if checkpoint.is_key(leaf) else leaf)


def same_agents(one: forage.Run, other: forage.Run) -> None:
    found, wanted = (dict(np.load(run.directory / "agent.npz")) for run in (one, other))
    for arrays in (found, wanted):
        arrays.pop("header")  # which has the seconds that it took
    same(found, wanted)


def test_a_pool_is_the_batch_that_one_process_steps() -> None:
    alone, pool = CARTPOLE.build(5), Pool(CARTPOLE.build, 5, 2)
    try:
        same(alone.reset(3), pool.reset(3))
        chance = np.random.default_rng(0)
        ended = 0
        for _ in range(60):  # episodes of random actions take about 20 steps
            action = chance.integers(0, 2, 5).astype(np.int32)
            one, other = alone.step(action), pool.step(action)
            same(one, other)
            ended += int(one.step.terminated.sum())
        assert ended > 5 and pool.lost is None
        kept = pool.snapshot()
        assert kept is not None
        after = pool.step(action)
        pool.restore(kept)
        same(after, pool.step(action))
        name = pool.block.name  # type: ignore[union-attr]
    finally:
        pool.close()
    with pytest.raises(FileNotFoundError):
        SharedMemory(name)


def test_a_worker_that_dies_is_replaced_and_its_step_is_lost() -> None:
    pool = Pool(HostFactory("refusing", maker=Refusing).build, 4, 2)
    try:
        pool.reset(0)
        action = np.ones(4, np.int32)
        before = pool.step(action)
        pool.workers[0].process.kill()  # type: ignore[union-attr]
        pool.workers[0].process.join()  # type: ignore[union-attr]
        result = pool.step(action)
        assert pool.lost is not None and pool.lost.tolist() == [True, True, False, False]
        assert result.step.truncated.tolist() == [True, True, False, False]
        assert result.step.reward.tolist() == [0, 0, 1, 1]
        assert result.observation["count"].ravel().tolist() == [0, 0, 2, 2]
        assert (result.observation["own"][:2] != before.observation["own"][:2]).all()  # episodes of their own
        result = pool.step(action)
        assert pool.lost is None and result.observation["count"].ravel().tolist() == [1, 1, 3, 3]
        assert pool.measured()["workers_replaced"] == 1
        with pytest.raises(ForageError, match=r"step 4 in environment 3 with ValueError: two is not for me"):
            pool.step(np.array([0, 0, 0, 2], np.int32))
    finally:
        pool.close()


@pytest.mark.thorough
def test_one_that_dies_as_it_begins_is_replaced_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool(CARTPOLE.build, 4, 2, 2)
    try:
        pool.reset(0)
        pool.step(np.zeros(4, np.int32))
        pool.reset(0)  # after which the first step is number 1 again, and that of before counts for nothing
        worker = pool.workers[1]
        start, deaths = worker.start, [True, True]

        def begin() -> None:
            start()
            if deaths and deaths.pop():
                worker.process.kill()  # type: ignore[union-attr]

        monkeypatch.setattr(worker, "start", begin)
        worker.process.kill()  # type: ignore[union-attr]
        worker.process.join()  # type: ignore[union-attr]
        pool.step(np.zeros(4, np.int32))
        assert pool.lost is not None and pool.lost.tolist() == [False, False, True, True]
        assert pool.replaced == 3
        pool.step(np.zeros(4, np.int32))
        assert pool.lost is None
        pool.deaths.extend([pool.taken] * MOST_REPLACED)
        pool.taken += WITHIN  # since when as many steps were taken
        worker.process.kill()  # type: ignore[union-attr]
        worker.process.join()  # type: ignore[union-attr]
        pool.step(np.zeros(4, np.int32))
        pool.deaths.extend([pool.taken] * MOST_REPLACED)
        worker.process.kill()  # type: ignore[union-attr]
        worker.process.join()  # type: ignore[union-attr]
        with pytest.raises(ForageError, match=r"100 workers of .* have died within 1,000 steps"):
            pool.step(np.zeros(4, np.int32))
    finally:
        pool.close()


WAYS = [("ppo", 2, 2, True), ("ppo", 2, 2, False), ("ppo", 3, 1, False), ("dqn", 2, 2, True)]


@pytest.mark.parametrize(("agent", "workers", "threads", "first_come"), gated(WAYS, WAYS[:1]))
def test_training_with_workers_is_training_without(
    tmp_path: Path, agent: str, workers: int, threads: int, first_come: bool
) -> None:
    how: dict[str, Any] = {"steps": 512, "seeds": 1, "num_envs": 4, "rollout_length": 32, "display": "quiet"}
    how |= (
        {"learning_starts": 100} if agent == "dqn" else {"memory_size": 8, "minibatches": 2}
    )  # updates under way, and memories
    alone = forage.train(agent, "gymnasium:CartPole-v1", directory=tmp_path / "alone", **how)
    spread = {"workers": workers, "worker_threads": threads, "first_come": first_come}
    run = forage.train(agent, "gymnasium:CartPole-v1", directory=tmp_path / "run", **how, **spread)
    same_agents(alone, run)
    untimed = lambda row: {name: value for name, value in row.items() if "second" not in name}  # noqa: E731
    assert [untimed(row) | {"workers_replaced": [0]} for row in alone.rows[-1:]] == [untimed(run.rows[-1])]
    assert run.rows[-1]["workers_replaced"] == [0]
    assert run.config["workers"] == workers


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [Workers(2), Workers(2, 2, first_come=True)])
def test_resumed_with_workers_is_as_if_never_stopped(tmp_path: Path, workers: Workers) -> None:
    options = {"num_envs": 4, "rollout_length": 32}
    setup = make_setup("ppo", "gymnasium:CartPole-v1", seeds=[0], steps=1024, agent_options=options)
    one, other = (setup.runner(workers=workers) for _ in range(2))
    try:
        one.begin()
        one.advance(3)
        one.save(tmp_path / "part", {"steps": one.steps})
        one.advance(3)
        other.load(tmp_path / "part")
        other.advance(3)
        same(jax.tree.map(plain, one.state), jax.tree.map(plain, other.state))
    finally:
        one.close()
        other.close()


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [Workers(2), Workers(2, first_come=True)])
def test_what_was_lost_is_no_experience_and_no_episode(tmp_path: Path, workers: Workers) -> None:
    setup = make_setup("impala", Counting, seeds=[0], steps=10_000, agent_options={"num_envs": 4, "rollout_length": 5})
    runner = setup.runner(workers=workers)
    try:
        runner.begin()
        loop = runner.loops[0]  # type: ignore[union-attr]
        seen: list[Any] = []
        learn = loop.learn
        loop.learn = lambda rollout, clock: seen.append(rollout) or learn(rollout, clock)
        first = runner.advance(1)
        loop.environment.workers[1].process.kill()
        second = runner.advance(1)
        assert first.episodes.count.tolist() == [4] and second.episodes.count.tolist() == [2]
        assert (seen[0].source != GONE).all()
        assert (seen[1].source == GONE).sum(0).tolist() == [0, 0, 1, 1]
    finally:
        runner.close()


@pytest.mark.thorough
def test_threads_of_a_worker_wait_side_by_side() -> None:
    pool = Pool(HostFactory("waiting", maker=Waiting).build, 8, 1, 8)
    try:
        pool.reset(0)
        began = time.monotonic()
        for _ in range(4):
            pool.step(np.zeros(8, np.int32))
        assert time.monotonic() - began < 8 * 4 * 0.05 / 2  # one after the other they take at least twice that
    finally:
        pool.close()


def test_what_workers_cannot_do_is_said() -> None:
    def inside() -> gymnasium.Env:
        return Counting()

    with pytest.raises(ForageError, match=r"3 workers with 1 threads each need 3 environments or more, .* has 2; "):
        Pool(CARTPOLE.build, 2, 3)
    with pytest.raises(ForageError, match=r"workers are more than a machine of .* cores bears"):
        Pool(CARTPOLE.build, 10_000, 5_000)
    with pytest.raises(ForageError, match="cannot be sent to worker processes"):
        Pool(HostFactory("inside", maker=inside).build, 2, 2)
    with pytest.raises(ForageError, match="CartPole-v1 is stepped on the device, where no workers are needed"):
        forage.train("ppo", "CartPole-v1", steps=64, workers=2, display="quiet")
    for asked in (-1, "ray:0", "dask:2", "two"):
        with pytest.raises(ForageError, match=f"or actors of a cluster, ray:4; not {asked}"):
            forage.train("ppo", "gymnasium:CartPole-v1", steps=64, workers=asked, display="quiet")
    with pytest.raises(ForageError, match="Threads are those of workers"):
        forage.train("ppo", "gymnasium:CartPole-v1", steps=64, worker_threads=2, display="quiet")
    with pytest.raises(ForageError, match="give workers as well, or leave first_come out"):
        forage.train("ppo", "gymnasium:CartPole-v1", steps=64, first_come=True, display="quiet")
    spread: dict[str, Any] = {"workers": 2, "first_come": True, "display": "quiet"}
    with pytest.raises(ForageError, match="SAC collects one step of all environments at a time"):
        forage.train("sac", "gymnasium:Pendulum-v1", steps=2000, num_envs=2, **spread)
    with pytest.raises(ForageError, match="leave out --first-come"):
        forage.train("ppo", "gymnasium:CartPole-v1", steps=64, starts="go-explore", **spread)
