"""Workers: environments in processes of their own are, bit by bit, the batch that one process would step."""

from __future__ import annotations

import errno
import functools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest import mock

import gymnasium
import jax
import numpy as np
import pytest
from test_schedule import ToldStarts

import forage
from forage.cli.entry import as_command
from forage.config.resolve import resolve
from forage.core import checkpoint
from forage.core.compiling import stop
from forage.core.errors import ForageError, InterruptedCompiling, Notice
from forage.core.text import named
from forage.core.types import GONE
from forage.environments import HostFactory
from forage.environments.text import worlds
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.families.addition import Addition
from forage.environments.text.own import scoring
from forage.loop.cluster import reaper, worker
from forage.loop.cluster.players import RolloutWorkers
from forage.loop.cluster.pool import MOST_REPLACED, WITHIN, Pool
from forage.loop.cluster.process import SECONDS_TO_STOP, Guard, Process, Worker, WorkerGone
from forage.loop.cluster.silence import Silence
from forage.loop.cluster.slots import Slots
from forage.loop.cluster.workers import Workers
from forage.loop.host.loop import cut_before_lost
from forage.loop.host.runner import HostRunner
from tests.tiers import gate_cases

CARTPOLE = HostFactory("gymnasium:CartPole-v1")


class Counting(gymnasium.Env):
    """Observations are the steps of the episode, and a number of its own; an episode has five steps."""

    observation_space = gymnasium.spaces.Dict(
        {"count": gymnasium.spaces.Box(0, 9, (1,)), "own": gymnasium.spaces.Box(0, 1, ())}
    )
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.own = np.float32(self.np_random.random())
        self.count = 0
        return self.observe, {}

    @property
    def observe(self) -> dict[str, np.ndarray]:
        return {"count": np.float32([self.count]), "own": np.asarray(self.own)}

    def step(self, action: Any) -> Any:
        self.count += 1
        return self.observe, float(action), self.count == 5, False, {}


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
        assert pool.metrics()["workers_replaced"] == 1
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


@pytest.mark.parametrize(("agent", "workers", "threads", "async_envs"), gate_cases(WAYS, WAYS[:1]))
def test_training_with_workers_is_training_without(
    tmp_path: Path, agent: str, workers: int, threads: int, async_envs: bool
) -> None:
    how: dict[str, Any] = {"steps": 512, "seeds": 1, "num_envs": 4, "rollout_length": 32, "display": "quiet"}
    how |= (
        {"learning_starts": 100} if agent == "dqn" else {"gru_size": 8, "minibatches": 2}
    )  # updates under way, and memories
    alone = forage.train(agent, "gymnasium:CartPole-v1", directory=tmp_path / "alone", **how)
    spread = {"workers": workers, "worker_threads": threads, "async_envs": async_envs}
    run = forage.train(agent, "gymnasium:CartPole-v1", directory=tmp_path / "run", **how, **spread)
    same_agents(alone, run)
    untimed = lambda row: {name: value for name, value in row.items() if "second" not in name}  # noqa: E731
    assert [untimed(row) | {"workers_replaced": [0]} for row in alone.rows[-1:]] == [untimed(run.rows[-1])]
    assert run.rows[-1]["workers_replaced"] == [0]
    assert run.config["workers"] == workers


@pytest.mark.thorough
@pytest.mark.parametrize("workers", [Workers(2), Workers(2, 2, async_envs=True)])
def test_resumed_with_workers_is_as_if_never_stopped(tmp_path: Path, workers: Workers) -> None:
    options = {"num_envs": 4, "rollout_length": 32}
    setup = resolve("ppo", "gymnasium:CartPole-v1", seeds=[0], steps=1024, agent_options=options)
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
@pytest.mark.parametrize("workers", [Workers(2), Workers(2, async_envs=True)])
def test_what_was_lost_is_no_experience_and_no_episode(tmp_path: Path, workers: Workers) -> None:
    setup = resolve("impala", Counting, seeds=[0], steps=10_000, agent_options={"num_envs": 4, "rollout_length": 5})
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
    with pytest.raises(ForageError, match="give workers as well, or leave async_envs out"):
        forage.train("ppo", "gymnasium:CartPole-v1", steps=64, async_envs=True, display="quiet")
    with pytest.raises(ForageError, match="It is workers whose steps have a limit; give workers as well, or leave"):
        forage.train("ppo", "gymnasium:CartPole-v1", steps=64, step_timeout=5, display="quiet")
    for limit in (0, -1.5, float("nan")):
        with pytest.raises(ForageError, match=f"more than 0 seconds of a worker, not {limit:g}; 60 is a usual limit"):
            forage.train("ppo", "gymnasium:CartPole-v1", steps=64, workers=2, step_timeout=limit, display="quiet")
    spread: dict[str, Any] = {"workers": 2, "async_envs": True, "display": "quiet"}
    with pytest.raises(ForageError, match="SAC collects one step of all environments at a time"):
        forage.train("sac", "gymnasium:Pendulum-v1", steps=2000, num_envs=2, **spread)
    with pytest.raises(ForageError, match="leave out --async-envs"):
        forage.train("ppo", "gymnasium:CartPole-v1", steps=64, starts=ToldStarts(), **spread)


class Mortal(Worker):
    """A worker in this process that dies if its `fate` is true for the question."""

    fate: ClassVar[Callable[[Mortal, str], bool]] = lambda worker, asked: False
    begun: ClassVar[int] = 0

    def reach(self) -> None:
        Mortal.begun += 1
        told = [(lane.num_envs, lane.first) for lane in self.lanes]
        self.own = [worker.Lane(self.build, *one) for one in told]
        self.answers: list[deque[bytes]] = [deque() for _ in self.slots]
        self.dead = False

    def check(self, asked: str) -> None:
        self.dead = self.dead or type(self).fate(self, asked)
        if self.dead:
            raise WorkerGone

    def tell(self, message: bytes, place: int = 0) -> None:
        line = place if self.apart else 0
        if len(message) == worker.NUMBER.size:
            self.check("step")
            for lane in [self.own[line]] if self.apart else self.own:
                self.check(f"step of lane {lane.first}")
                lane.step(*worker.NUMBER.unpack(message))
            self.answers[line].append(message)
            return
        lane, *asked = pickle.loads(message)
        self.check(asked[1] if asked[0] == worker.CALL else asked[0])
        self.answers[line].append(worker.answer_of(self.own[lane], lane, *asked))

    def hear(self, place: int = 0) -> bytes:
        self.check("answer")
        return self.answers[place if self.apart else 0].popleft()

    @staticmethod
    def listening(workers: Sequence[Any]) -> Callable[[float | None], list[tuple[Any, int]]]:
        known = {one: one.sittings for one in workers}

        def ready(seconds: float | None) -> list[tuple[Any, int]]:
            assert known == {one: one.sittings for one in workers}, "it listens to workers that are no more"
            lines = [(one, line) for one in workers for line in range(one.lines)]
            return [(one, line) for one, line in lines if one.dead or one.answers[line]]

        return ready

    def waits(self, line: int) -> Any | None:
        return None

    def end(self) -> None:
        for lane in self.own:
            lane.close()
        self.own = []


class MortalPool(Pool):
    process = Mortal  # type: ignore[assignment]


class MortalSlots(Slots):
    process = Mortal  # type: ignore[assignment]


def dies_once_of(question: str, of: int = 0) -> Callable[[Mortal, str], bool]:
    """Return a fate: the worker with first environment `of` dies the first time it gets this question."""
    left = [True]
    return lambda one, asked: asked == question and one.lanes[0].first == of and bool(left and left.pop())


COUNTING = HostFactory("counting", {"snapshots": True}, maker=Counting)
QUESTIONS: list[tuple[str, Callable[[Pool], Any]]] = [
    ("info_seen", lambda pool: pool.info_seen),
    ("snapshot", lambda pool: pool.snapshot()),
    ("take", lambda pool: pool.take(1)),
    ("put", lambda pool: pool.put(0, None)),
    ("conversations", lambda pool: setattr(pool, "in_words", True) or pool.conversations()),
    ("examine", lambda pool: pool.examine()),
    ("judge_singly", lambda pool: pool.judge_singly()),
    ("expert_episode", lambda pool: pool.expert_episode()),
]


@pytest.mark.parametrize("kind", [MortalPool, MortalSlots])
@pytest.mark.parametrize(("question", "ask"), QUESTIONS, ids=[name for name, _ in QUESTIONS])
def test_a_worker_that_dies_of_any_question_is_replaced_and_the_next_step_is_lost(
    kind: type[Pool], question: str, ask: Callable[[Pool], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    pool = kind(COUNTING.build, 4, 2, 2, note=said.append)
    try:
        pool.reset(0)
        action = np.ones(4, np.int32)
        pool.step(action)
        monkeypatch.setattr(Mortal, "fate", dies_once_of(question))
        found = ask(pool)
        assert pool.replaced == 1 and len(said) == 1 and "environments 0 to 1 of counting" in said[0]
        if question == "take":
            assert found is None and pool.take(2) is not None
        saved = pool.snapshot()
        for again in (False, True):  # and so in what goes on from a snapshot
            if again:
                assert pool.restore(saved)["count"].ravel().tolist() == [0, 0, 1, 1]
            result = pool.step(action)
            assert pool.lost is not None and pool.lost.tolist() == [True, True, False, False]
            assert result.step.truncated.tolist() == [True, True, False, False]
            assert result.step.reward.tolist() == [0, 0, 1, 1]
            assert result.observation["count"].ravel().tolist() == [0, 0, 2, 2]
            result = pool.step(action)
            assert pool.lost is None and result.observation["count"].ravel().tolist() == [1, 1, 3, 3]
        pool.reset(1)
        assert pool.step(action).step.truncated.tolist() == [False] * 4 and pool.lost is None
    finally:
        pool.close()


@pytest.mark.parametrize("kind", [MortalPool, MortalSlots])
def test_a_worker_dies_in_reset_restore_or_its_own_beginning(kind: type[Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    action = np.ones(4, np.int32)
    for question in (worker.MAKE, worker.OPEN):
        monkeypatch.setattr(Mortal, "fate", dies_once_of(question, 2))
        pool = kind(COUNTING.build, 4, 2, 2)
        pool.reset(0)
        saved = pool.step(action) and pool.snapshot()
        assert pool.replaced == 1 and pool.lost is None
        for question in ("reset", "restore"):
            monkeypatch.setattr(Mortal, "fate", dies_once_of(question))
            pool.reset(0) if question == "reset" else pool.restore(saved)
            assert pool.step(action).observation["count"].ravel().tolist() == [1 + (question == "restore")] * 4
            assert pool.lost is None
        pool.close()
    monkeypatch.setattr(Mortal, "fate", lambda one, asked: asked == worker.MAKE)
    with pytest.raises(ForageError, match="A worker was lost before it had made its environments, 3 times; without"):
        kind(COUNTING.build, 4, 2)


def test_all_workers_die_at_once_and_one_dies_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, action = MortalPool(COUNTING.build, 4, 2, 2), np.ones(4, np.int32)
    try:
        pool.reset(0)
        left = {0, 2}

        def all_once(one: Mortal, asked: str) -> bool:  # in the second lane's step: that of the first counts
            return asked == f"step of lane {one.lanes[1].first}" and one.lanes[0].first in left and not left.discard(
                one.lanes[0].first
            )  # fmt: skip

        monkeypatch.setattr(Mortal, "fate", all_once)
        result = pool.step(action)
        assert pool.lost is not None and pool.lost.tolist() == [False, True, False, True]
        assert result.step.reward.tolist() == [1, 0, 1, 0] and result.step.truncated.all() and pool.replaced == 2
        monkeypatch.setattr(Mortal, "fate", lambda one, asked: asked == "info_seen")
        with pytest.raises(ForageError, match=r"was lost each of 3 times that its environments were asked to info_se"):
            pool.info_seen  # noqa: B018
        monkeypatch.setattr(Mortal, "fate", lambda one, asked: asked in ("step", "reset"))
        pool.taken += 1
        with pytest.raises(ForageError, match="has been replaced 10 times within one step, and the last one was lost"):
            pool.step(action)
    finally:
        pool.close()


def test_a_worker_that_owes_an_answer_is_killed_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, float]] = []

    class Owing(Worker):
        state: Any = 0

        def waits(self, line: int) -> Any | None:
            return self.state

        def kill(self) -> None:
            killed.append((self.lanes[0].first, self.overdue))

    one, other = Owing(CARTPOLE.build, [1], 0), Owing(CARTPOLE.build, [1], 1)
    silence = Silence([one, other], 5.0)
    for number in range(8):  # looks, two seconds apart
        other.state = number // 2
        silence.look(2.0)
    assert killed == [(0, 5.0)]  # once, and nobody who answers
    other.state = None
    one.overdue, one.starting = 0.0, True
    one.sittings += 1  # a new one, that has ten minutes to make its environments
    for _ in range(4):
        silence.look(2.0)
    assert len(killed) == 1
    one.state = None  # nothing is due
    one.starting = False
    silence.look(10.0)
    silence.look(10.0)
    assert len(killed) == 1
    patient = Silence([other], 600.0)
    other.state = 7
    for stopped, so_far in ((False, 1), (True, 2)):  # ten seconds are enough once the run was asked to stop
        monkeypatch.setattr(stop, "by", "SIGTERM" if stopped else "")
        for _ in range(12):
            patient.look(1.0)
        assert len(killed) == so_far
    assert killed[-1] == (1, 10.0)


def test_a_stop_is_heard_while_workers_begin_and_not_in_a_step() -> None:
    one = Process(CARTPOLE.build, [1, 1], 0, True)
    (near, far), (other, there) = multiprocessing.Pipe(), multiprocessing.Pipe()
    one.pipes, one.due, one.came, one.starting = [near, other], [0, 1], [0, 0], True
    later = threading.Timer(0.2, stop.ask, ["SIGTERM"])
    try:
        later.start()
        began = time.monotonic()
        with pytest.raises(InterruptedCompiling, match="Stopped by SIGTERM while workers compiled or made their envir"):
            one.hear(1)
        assert time.monotonic() - began < 1 and one.left and not stop.by
        one.ask_to_end()
        assert one.until - time.monotonic() <= SECONDS_TO_STOP  # nobody waits for what it is at
        far.close(), there.close()
        (near, far), (other, there) = multiprocessing.Pipe(), multiprocessing.Pipe()
        one.pipes, one.due, one.came, one.starting = [near, other], [1, 1], [0, 0], False
        stop.ask("SIGTERM")  # a step ends, and the run saves where it is then
        far.send_bytes(b"done")
        assert one.hear(0) == b"done" and stop.by
        one.ask_to_end()
        assert one.until - time.monotonic() > SECONDS_TO_STOP
    finally:
        stop.by = ""
        later.cancel()
        far.close(), there.close()
    pool: Any = SimpleNamespace(workers=[one, SimpleNamespace(left=False)])
    assert Pool.left.fget(pool)  # type: ignore[attr-defined]
    for left in (True, False):  # what cannot be asked for its state is left out of a checkpoint
        loop = SimpleNamespace(environment=SimpleNamespace(left=left), save=lambda whole: whole)
        runner: Any = SimpleNamespace(failed=False, loops=[loop])
        assert HostRunner.state.fget(runner) == (not left,)  # type: ignore[attr-defined]

    def stop_at_once(loop: Any) -> Any:
        raise InterruptedCompiling("Stopped.")

    with pytest.raises(InterruptedCompiling):  # it is no failure of a member of a population
        HostRunner._map_members(runner, stop_at_once, [False])
    lane: Any = mock.Mock(**{"answer.side_effect": InterruptedCompiling("Stopped.")})
    players: Any = SimpleNamespace(done={lane: 0}, failed={})
    with pytest.raises(InterruptedCompiling):  # and none of an environment in a rollout
        RolloutWorkers._next(players, lane)
    assert not players.failed


class WrongVerdicts(Addition):
    """Gives no verdicts."""

    def verify(self, problem: Any, text: str) -> Any:
        return "right"


def test_a_worker_shows_a_notice_as_its_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    monkeypatch.setattr(worker, "stand_apart", lambda pipes, mark: None)
    monkeypatch.setattr(jax.config, "update", lambda name, value: None)
    worker.main(CARTPOLE.build, [], [], "mark")
    warnings.showwarning(Notice("An answer has no reward."), Notice, "here.py", 1)
    assert capsys.readouterr().err == "An answer has no reward.\n"


@pytest.mark.filterwarnings("ignore:An answer in")
@pytest.mark.parametrize("kind", [MortalPool, MortalSlots])
def test_what_environments_count_is_counted_in_workers_too(kind: type[Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worlds, "family", lambda name: WrongVerdicts())
    pool = kind(functools.partial(TextEnvironment, "addition"), 5, 2, 2)
    try:
        action = pool.reset(0)["reference"]
        assert pool.metrics() == {"verifier_failures": 0, "workers_replaced": 0}
        action = pool.step(action).observation["reference"]
        assert pool.metrics()["verifier_failures"] == 5
        monkeypatch.setattr(Mortal, "fate", dies_once_of("step"))
        action = pool.step(action).observation["reference"]  # that of the first worker's three is lost
        assert pool.metrics() == {"verifier_failures": 7, "workers_replaced": 1}
        pool.step(action)
        assert pool.metrics()["verifier_failures"] == 12
    finally:
        pool.close()


@pytest.mark.parametrize("kind", [MortalPool, MortalSlots])
def test_an_answer_without_a_reward_is_lost_in_workers_too(
    kind: type[Pool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts are the numbers 0 to 3, and the even ones get no reward."""
    (tmp_path / "p.jsonl").write_text("".join(f'{{"prompt": "{n}\\n"}}\n' for n in range(4)))

    def odd(prompts: Any, **others: Any) -> Any:
        return [float(one) if int(one) % 2 else None for one in prompts]

    monkeypatch.setitem(scoring.objects, "object:odd", odd)
    build = functools.partial(TextEnvironment, str(tmp_path / "p.jsonl"), rewards="object:odd", response=2, held_out=0)
    pool = kind(build, 4, 1)  # of one worker, so that each prompt comes once
    try:
        seen = pool.reset(0)
        even = [int(named.tokenizer("forage").decode(row[row > 0] - 1)) % 2 == 0 for row in seen["context"]]
        with pytest.warns(UserWarning, match="all reward functions returned None"):
            step = pool.step(np.ones((4, 2), np.int32)).step
        assert sum(even) == 2 and sorted(step.reward.tolist()) == [0, 0, 1, 3]
        assert pool.no_reward is not None and pool.no_reward.tolist() == even
        assert pool.lost is not None and pool.lost.tolist() == step.truncated.tolist() == even
        assert pool.lost_reason == "answers had no reward, as all reward functions returned None"
        monkeypatch.setattr(Mortal, "fate", dies_once_of("step"))
        pool.step(np.ones((4, 2), np.int32))
        assert pool.lost is not None and pool.lost.all() and pool.no_reward is None  # as the worker died
        assert pool.lost_reason == "workers died or hung"
    finally:
        pool.close()


@pytest.mark.filterwarnings("ignore:An answer in")
@pytest.mark.parametrize("kind", [MortalPool, MortalSlots])
def test_workers_leave_it_to_the_loop_whether_a_rollout_was_judged(
    kind: type[Pool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each worker has one environment. Prompts are the numbers 0 to 3; the function fails on 3, or on all."""
    (tmp_path / "p.jsonl").write_text("".join(f'{{"prompt": "{n}\\n"}}\n' for n in range(4)))
    failing = {3}

    def judge(prompts: Any, **others: Any) -> Any:
        return [float("nan") if int(one) in failing else 1.0 for one in prompts]

    monkeypatch.setitem(scoring.objects, "object:judge", judge)
    build = functools.partial(
        TextEnvironment, str(tmp_path / "p.jsonl"), rewards="object:judge", response=2, held_out=0
    )
    pool = kind(build, 4, 4)
    try:
        seen = pool.reset(0)
        number = [int(named.tokenizer("forage").decode(row[row > 0] - 1)) for row in seen["context"]]
        failing.add(number[2])
        wrong = [one in failing for one in number]
        assert pool.step(np.ones((4, 2), np.int32)).step.reward.tolist() == [float(not one) for one in wrong]
        assert pool.unjudged is not None and pool.unjudged.tolist() == wrong
        assert pool.unjudged_reason.startswith("the reward function object:judge returned nan as a reward")
        failing.clear()
        pool.step(np.ones((4, 2), np.int32))
        assert pool.unjudged is None
        failing.update(range(4))
        pool.step(np.ones((4, 2), np.int32))
        assert pool.unjudged is not None and pool.unjudged.all()
        monkeypatch.setattr(Mortal, "fate", dies_once_of("step"))
        pool.step(np.ones((4, 2), np.int32))
        assert pool.unjudged is not None and pool.unjudged.tolist() == [False, True, True, True]
    finally:
        pool.close()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only there are environments of others shown")
def test_what_a_worker_has_started_ends_with_it() -> None:
    mark = f"test-{os.getpid()}."
    started = [
        subprocess.Popen(["sleep", "60"], env=os.environ | {reaper.MARK: f"{mark}{own}"}, start_new_session=True)
        for own in ("1.", "2.", "1.")
    ]
    leader = subprocess.Popen(["sleep", "60"], start_new_session=True)
    until = time.monotonic() + 10
    while len(reaper.find_marked_processes(mark)) < 3 and time.monotonic() < until:
        time.sleep(0.001)
    reaper.kill(f"{mark}1.", [leader.pid])
    assert [process.wait(10) for process in (started[0], started[2], leader)] == [-signal.SIGKILL] * 3
    assert started[1].poll() is None
    # The guard: what is left is killed once nobody holds the other end of its pipe.
    guard = Guard()
    guard.mark = mark
    guard.hear_of("+", started[1].pid)
    guard.hear_of("-", started[1].pid)
    assert guard.process is not None and guard.process.stdin is not None
    guard.process.stdin.close()
    assert started[1].wait(10) == -signal.SIGKILL and guard.process.wait(10) == 0
    guard.close()


def test_too_little_memory_or_too_few_files_are_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def no_files(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full, raising=False)
        told = r"A step of 4 environments of counting in workers takes 0.0 MB of shared memory, and /dev/shm has .* "
        with pytest.raises(ForageError, match=told + r"MB \(No space left on device\); give fewer environments, or mo"):
            MortalPool(COUNTING.build, 4, 2)
    with monkeypatch.context() as patched:
        patched.setattr(multiprocessing.get_context("spawn"), "Pipe", no_files)
        told = r"A worker could not be started \(Too many open files\); give fewer workers .* ulimit -n, which is \d"
        with pytest.raises(ForageError, match=told):
            Pool(CARTPOLE.build, 4, 2)


class Quitting(Counting):
    """Calls `sys.exit` at an action, as programs do if their window is closed."""

    def step(self, action: Any) -> Any:
        if action == 2:
            sys.exit(0)
        return super().step(action)


def test_an_environment_that_calls_sys_exit_ends_no_run_as_if_all_were_well() -> None:
    alone = HostFactory("quitting", maker=Quitting).build(2)
    alone.reset(0)
    with pytest.raises(ForageError, match=r"quitting called sys.exit\(0\) at step 1 in environment 1; let an envi"):
        alone.step(np.array([0, 2], np.int32))
    with pytest.raises(ForageError, match=r"counting called sys.exit\('no'\) at its making"):
        HostFactory("counting", maker=lambda: sys.exit("no")).build(1)
    with pytest.raises(SystemExit) as ended:
        as_command(lambda: sys.exit(0))
    assert ended.value.code == 2


class Stubborn(Counting):
    """Starts a program of its own; at an action it never comes back, and at another it calls `sys.exit`."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if not hasattr(self, "program"):
            self.program = subprocess.Popen(["sleep", "300"], start_new_session=True)
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        if action == 2 and self.own < 2:
            sum(range(10**14))  # and no thread of the process can run meanwhile
        if action == 1:
            sys.exit(0)
        return super().step(action)


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only there are environments of others shown")
@pytest.mark.parametrize("kind", [Pool, Slots])
def test_who_hangs_or_calls_sys_exit_in_a_thread_is_replaced_with_all_it_started(kind: type[Pool]) -> None:
    said: list[str] = []
    pool = kind(HostFactory("stubborn", maker=Stubborn).build, 4, 2, 2, step_timeout=10.0, note=said.append)
    try:
        pool.reset(0)
        mark = pool.guard.mark
        before = set(reaper.find_marked_processes(mark))
        assert len(before) >= 4
        for action in ([0, 0, 0, 2], [0, 0, 0, 1]):  # in a thread beside the worker's first
            pool.step(np.array(action, np.int32))
            assert pool.lost is not None and pool.lost[3] and not pool.lost[:2].any()
        assert pool.replaced == 2 and "A worker did not answer within 10 seconds and is replaced" in said[0]
        assert "A worker ended itself with exit code 0 and is replaced (2 so far)" in said[1]
        pool.step(np.zeros(4, np.int32))
        assert (
            pool.lost is None
            and len(reaper.find_marked_processes(mark)) == 4
            and len(before & set(reaper.find_marked_processes(mark))) == 2
        )
    finally:
        pool.close()
        reaper.kill(mark, [])


ORPHANS = """
import os, sys
import numpy as np
from forage.environments import HostFactory
from forage.loop.cluster.pool import Pool
from tests.loop.test_workers import Stubborn

if __name__ == "__main__":
    pool = Pool(HostFactory("stubborn", maker=Stubborn).build, 2, 2)
    pool.reset(0)
    pool.send(np.array([2, 0], np.int32))
    print(pool.guard.mark, *[worker.process.pid for worker in pool.workers], flush=True)
    sys.stdin.read()
"""


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only there are environments of others shown")
def test_nobody_is_left_where_a_run_is_killed_while_a_worker_hangs(tmp_path: Path) -> None:
    (script := tmp_path / "orphans.py").write_text(ORPHANS)
    path = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    run = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=path)
    assert run.stdout is not None
    mark, *workers = run.stdout.readline().split()
    assert len(reaper.find_marked_processes(mark)) == 2
    run.kill()
    run.communicate()
    until = time.monotonic() + 60
    while (left := [pid for pid in workers if Path(f"/proc/{pid}").exists()]) or reaper.find_marked_processes(mark):
        assert time.monotonic() < until, (left, reaper.find_marked_processes(mark))
        time.sleep(0.1)


def test_the_last_step_before_a_lost_one_is_cut() -> None:
    flags = np.zeros((4, 2), bool)
    terminated, lost = flags.copy(), flags.copy()
    terminated[0, 1], lost[0, 1], lost[1, 1], lost[2, 0] = True, True, True, True
    rollout = forage.core.types.Experience((), (), (), (), terminated, flags, (), ())  # type: ignore[arg-type]
    cut = cut_before_lost(rollout, lost).truncated
    assert cut.tolist() == [[False, False], [True, False], [False, False], [False, False]]
    assert cut_before_lost(rollout, flags) is rollout and not flags.any()


@pytest.mark.thorough
def test_an_evaluation_whose_steps_have_a_limit_is_played_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"num_envs": 2, "rollout_length": 5, "hidden_sizes": (8,)}
    setup = resolve("impala", COUNTING, seeds=[0], steps=1000, agent_options=options)
    monkeypatch.setattr(forage.loop.cluster.workers, "Pool", MortalPool)  # type: ignore[attr-defined]
    here, there = setup.runner(), setup.runner(workers=Workers(1, step_timeout=5.0))
    try:
        here.begin()
        there.begin()
        wanted = here.evaluate(4, 100, 3)
        same(wanted, there.evaluate(4, 100, 3))
        assert isinstance(there._evaluation, MortalPool)  # type: ignore[union-attr]
        asked = {"step": 0}

        def third(one: Mortal, question: str) -> bool:
            asked["step"] += question == "step"
            return question == "step" and asked["step"] == 3

        monkeypatch.setattr(Mortal, "fate", third)
        again = there.evaluate(2, 100, 3)
        assert again.lengths.tolist() == [[5, 5]] and (again.returns <= 10).all()  # whole episodes

        def every_second(one: Mortal, question: str) -> bool:
            asked["step"] += question == "step"
            return question == "step" and asked["step"] % 2 == 0

        monkeypatch.setattr(Mortal, "fate", every_second)
        with pytest.raises(ForageError, match="10 workers died or hung in one evaluation of counting, so it has no sc"):
            there.evaluate(2, 100, 3)
    finally:
        here.close()
        there.close()
