"""Workers that act asynchronously: their rollouts depend only on the policy lag."""

from __future__ import annotations

import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small import environment
from test_schedule import ToldStarts

import forage
from forage.behaviours.policy import AgentPolicy
from forage.config.resolve import resolve
from forage.config.run_config import RunConfig
from forage.core import prng
from forage.core.errors import ForageError, RunInterrupted
from forage.core.ports import Behaviour, Decision
from forage.core.types import GONE
from forage.environments.adapters.on_host import OnHost
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.teams.two_step import TwoStep
from forage.loop.cluster.block import SHARED_MEMORY, Block
from forage.loop.cluster.player import LEARN, PLAY, REMEMBER, REMIND, RolloutWorker
from forage.loop.cluster.players import PlayerProcess, RolloutWorkers
from forage.loop.cluster.pool import MOST_REPLACED
from forage.loop.cluster.process import Process
from forage.loop.cluster.workers import Workers
from forage.loop.host.loop import HostOptions
from forage.loop.host.runner import HostRunner
from tests.loop.test_workers import COUNTING, Counting, Mortal, Refusing, dies_once_of, plain, same, same_agents
from tests.tiers import gate_cases

CARTPOLE = "gymnasium:CartPole-v1"
TESTS = Path(__file__).parents[1]
SECONDS = 300  # in which a test ends, or has failed


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    """Fail a test that waits for a worker for ever."""

    def has_ended(*_: Any) -> None:
        raise TimeoutError(f"The test did not end within {SECONDS} seconds.")

    before = signal.signal(signal.SIGALRM, has_ended)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


class Delicate(Counting):
    """Fails once in each process, in the second rollout of two."""

    steps = 0

    def step(self, action: Any) -> Any:
        Delicate.steps += 1
        if Delicate.steps == 20:
            raise ValueError("not now")
        return super().step(action)


class Drawing(Behaviour):
    """Acts as the agent does, one time in four at random: by keys of its own, that it keeps and remembers."""

    def init(self, key: Any, agent: Any, spec: Any) -> Any:
        return key

    def init_hidden(self, agent: Any, spec: Any) -> Any:
        return prng.key(5)

    def act(self, state: Any, hidden: Any, observation: Any, moment: Any) -> Decision:
        decision = AgentPolicy().act((), hidden._replace(behaviour=()), observation, moment)
        key, own = jax.random.split(hidden.behaviour)
        drawn = jax.random.bernoulli(jax.random.fold_in(own, jax.random.bits(state)), 0.25)
        action = jnp.where(drawn, 1 - decision.action, decision.action)
        return decision._replace(action=action, hidden=decision.hidden._replace(behaviour=key))


def setup_of(agent: str, env: Any = CARTPOLE, behaviour: Any = None, **options: Any) -> RunConfig:
    sizes = {"num_envs": 4, "rollout_length": 8, "hidden_sizes": (8,)}
    return resolve(agent, env, behaviour=behaviour, seeds=[3], steps=4096, agent_options=sizes | options)


def copy_state(tree: Any) -> Any:
    return jax.tree.map(jnp.copy, tree)


def collected_late(runner: HostRunner, lag: int, rollouts: int) -> tuple[Any, list[Any]]:
    """Return the learner's state and the rollouts of a loop without workers, with a policy `lag` updates old."""
    loop = runner.loops[0]
    loop.begin()
    loop.count, loop.total, loop.length, loop.infos = 0, np.zeros(()), 0, {}
    states, collected = [copy_state(loop.state)], []
    for number in range(rollouts):
        newest, loop.state = loop.state, copy_state(states[max(0, number - lag)])
        rollout, *_ = loop.collect()
        loop.state = copy_state(newest)
        loop.learn(rollout, loop.clock(loop.steps))
        loop.steps += loop.rollout_length * loop.environment.num_envs
        states.append(copy_state(loop.state))
        collected.append(rollout)
    return loop.state, collected


def check_same(one: Any, other: Any) -> None:
    """Compare results of batches of different sizes: some machines add up a product of matrices in another order."""

    def compare(found: Any, wanted: Any) -> None:
        found, wanted = np.asarray(found), np.asarray(wanted)
        tolerance = 1e-5 if np.issubdtype(found.dtype, np.floating) else 0
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)

    jax.tree.map(compare, one, other)


def watch(runner: HostRunner) -> list[Any]:
    """Return a list that collects every rollout as it is learned from."""
    loop, seen = runner.loops[0], []
    learn = loop.learn
    loop.learn = lambda rollout, clock: seen.append(rollout) or learn(rollout, clock)  # type: ignore[method-assign]
    return seen


PPO, GRU = {"minibatches": 2}, {"minibatches": 2, "gru_size": 4}
WAYS = [
    ("appo", GRU, 1, Workers(1, 2, policy_lag=1)),
    ("appo", GRU, 0, Workers(2, 2, policy_lag=0)),  # whose lanes have one environment each
    ("appo", GRU, 2, Workers(3, policy_lag=2)),
    ("impala", {"learning_rate": "linear:1e-3,0"}, 3, Workers(1, 2, policy_lag=3)),
    ("ppo", PPO, 0, Workers(2, policy_lag=0)),
    ("dqn", {"learning_starts": 64}, 0, Workers(2, policy_lag=0)),
    ("dqn", {"learning_starts": 64}, 2, Workers(2, policy_lag=2)),
    ("impala", {"behaviour": Drawing()}, 1, Workers(2, policy_lag=1)),
]


@pytest.mark.parametrize(("agent", "options", "lag", "workers"), gate_cases(WAYS, WAYS[:1]))
def test_a_policy_is_always_as_old(agent: str, options: dict[str, Any], lag: int, workers: Workers) -> None:
    rollouts = 6
    setup = setup_of(agent, **options)
    alone: Any = setup.runner()
    state, wanted = collected_late(alone, lag, rollouts)
    runner: Any = setup.runner(workers=workers)
    try:
        seen = watch(runner)
        runner.begin()
        report = runner.advance(rollouts)
        check_same(wanted, seen)
        check_same(jax.tree.map(plain, state), jax.tree.map(plain, runner.loops[0].state))
        loop = alone.loops[0]
        assert loop.count > 3
        assert report.episodes.count.tolist() == [loop.count] and report.episodes.length.tolist() == [loop.length]
        np.testing.assert_allclose(report.latest["policy_lag"], np.mean([min(k, lag) for k in range(rollouts)]))
        assert report.latest["workers_replaced"] == 0
    finally:
        alone.close()
        runner.close()


RESUMED = [
    ("appo", GRU, 1, 3),
    ("impala", {"behaviour": Drawing()}, 1, 2),
    ("appo", GRU, 2, 1),
    ("impala", {}, 0, 2),
    ("impala", {}, 3, 0),
    ("dqn", {"learning_starts": 64}, 1, 3),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("agent", "options", "lag", "before"), RESUMED)
def test_a_resumed_run_is_as_if_never_stopped(
    tmp_path: Path, agent: str, options: dict[str, Any], lag: int, before: int
) -> None:
    setup = setup_of(agent, **options)
    one, other = (setup.runner(workers=Workers(2, policy_lag=lag)) for _ in range(2))
    try:
        one.begin()
        one.advance(before)
        one.save(tmp_path / "part", {"steps": one.steps})
        one.advance(3)
        other.load(tmp_path / "part")
        report = other.advance(3)
        same(jax.tree.map(plain, one.state), jax.tree.map(plain, other.state))
        wanted = [min(number, lag) for number in range(before, before + 3)]
        np.testing.assert_allclose(report.latest["policy_lag"], np.mean(wanted))
    finally:
        one.close()
        other.close()


@pytest.mark.thorough
def test_training_is_training_without_and_ends_without_a_trace(tmp_path: Path) -> None:
    how: dict[str, Any] = {"steps": 512, "seeds": 1, "num_envs": 4, "rollout_length": 32, "display": "quiet"}
    how |= GRU
    alone = forage.train("ppo", CARTPOLE, directory=tmp_path / "alone", **how)
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    run = forage.train("ppo", CARTPOLE, directory=tmp_path / "run", workers=2, policy_lag=0, **how)
    if before:
        assert set(os.listdir("/dev/shm")) <= before
    same_agents(alone, run)
    untimed = lambda row: {name: value for name, value in row.items() if "second" not in name}  # noqa: E731
    wanted = untimed(alone.rows[-1]) | {"workers_replaced": [0], "policy_lag": [0]}
    assert untimed(run.rows[-1]) == wanted
    assert run.config["policy_lag"] == 0


@pytest.mark.thorough
def test_a_stopped_run_goes_on_from_its_files(tmp_path: Path) -> None:
    how: dict[str, Any] = {"steps": 1024, "seeds": 2, "num_envs": 4, "rollout_length": 16, "display": "quiet"}
    how |= {"workers": 1, "policy_lag": 2, "evaluation_episodes": 1}

    def interrupt(view: Any) -> None:
        if view.steps >= 256:
            for process in [*multiprocessing.active_children(), multiprocessing.current_process()]:
                os.kill(process.pid or 0, signal.SIGINT)  # as Ctrl-C does

    whole = forage.train("impala", CARTPOLE, directory=tmp_path / "whole", **how)
    with pytest.raises(RunInterrupted):
        forage.train("impala", CARTPOLE, directory=tmp_path / "part", callbacks=[interrupt], **how)
    assert forage.Run(tmp_path / "part").rows[-1]["steps"] < 1024
    run = forage.resume(tmp_path / "part", display="quiet")
    same_agents(whole, run)


@pytest.mark.thorough
@pytest.mark.parametrize(("made", "agent", "measured"), [(DeepSea(5), "impala", True), (TwoStep(), "impala", False)])
def test_maps_and_teams_come_along(made: Any, agent: str, measured: bool) -> None:
    build, way = functools.partial(OnHost, made), HostOptions(measured=measured)
    setup = resolve(agent, made, seeds=[3], steps=4096, agent_options={"num_envs": 4, "rollout_length": 8})
    learner = setup.learner()
    alone = HostRunner([learner], build, [3], 4096, way)
    # Such a batch draws for all its environments at once, so that one worker has them all.
    runner = HostRunner([learner], build, [3], 4096, way, Workers(1, policy_lag=1))
    try:
        state, wanted = collected_late(alone, 1, 5)
        seen = watch(runner)
        runner.begin()
        runner.advance(5)
        check_same(wanted, seen)
        check_same(jax.tree.map(plain, state), jax.tree.map(plain, runner.loops[0].state))
        if measured:
            assert runner.visits is not None and runner.visits.sum() >= 5 * 8 * 4
    finally:
        alone.close()
        runner.close()


@pytest.mark.parametrize("lag", [0, 1, 2])
@pytest.mark.thorough
def test_who_dies_is_replaced_and_plays_anew(lag: int) -> None:
    setup = setup_of("impala", Counting, rollout_length=12)
    undisturbed: Any = setup.runner()
    runner: Any = setup.runner(workers=Workers(2, policy_lag=lag))
    try:
        _, wanted = collected_late(undisturbed, lag, 3)
        seen = watch(runner)
        runner.begin()
        first = runner.advance(2)
        pool = runner.loops[0].environment
        pool.workers[1].process.kill()
        second = runner.advance(4)
        # What was learned from before, and what the other worker does, is as if nothing had happened.
        check_same(wanted[:2], seen[:2])
        survived = lambda rollout: jax.tree.map(lambda x: np.asarray(x)[:, :2], rollout)  # noqa: E731
        check_same(survived(wanted[2]), survived(seen[2]))
        rollout = jax.tree.map(lambda *x: np.concatenate(x), *seen)
        lost, over = rollout.source == GONE, rollout.terminated | rollout.truncated
        count, led_to = rollout.observation["count"][..., 0], rollout.next_observation["count"][..., 0]
        assert lost.sum(0).tolist() == [0, 0, 1, 1] and rollout.truncated[lost].all()
        at = int(np.flatnonzero(lost[:, 2])[0])
        assert at % 12 == 0 and at // 12 in range(2, 3 + lag)  # the first step of a rollout that it had not finished
        assert (rollout.reward[lost] == 0).all() and (led_to[lost] == 0).all() and (count[lost] == 0).all()
        np.testing.assert_array_equal(led_to[~lost], count[~lost] + 1)
        follows = ~np.roll(lost, -1, 0)[:-1]  # but for the step that says that an episode was lost
        np.testing.assert_array_equal(count[1:][follows], np.where(over, 0, led_to)[:-1][follows])
        np.testing.assert_array_equal(rollout.reward[~lost], rollout.action[~lost])
        assert first.episodes.count + second.episodes.count == rollout.terminated.sum()  # each is five steps long
        assert first.episodes.length + second.episodes.length == 5 * rollout.terminated.sum()
        assert second.latest["workers_replaced"] == 1
    finally:
        undisturbed.close()
        runner.close()


@pytest.mark.thorough
def test_whenever_workers_die_rollouts_hang_together() -> None:
    setup = setup_of("impala", Counting, rollout_length=12)
    runner: Any = setup.runner(workers=Workers(2, 2, policy_lag=1))
    try:
        seen = watch(runner)
        runner.begin()
        pool, chance = runner.loops[0].environment, np.random.default_rng(0)
        hear = pool.hear

        def kill_and_hear(number: int) -> None:
            if number % 2:
                time.sleep(float(chance.uniform(0, 0.02)))
                pool.workers[number // 2 % 2].process.kill()
            hear(number)

        pool.hear = kill_and_hear
        reports = [runner.advance(1) for _ in range(8)]
        rollout = jax.tree.map(lambda *x: np.concatenate(x), *seen)
        lost, over = rollout.source == GONE, rollout.terminated | rollout.truncated
        count, led_to = rollout.observation["count"][..., 0], rollout.next_observation["count"][..., 0]
        np.testing.assert_array_equal(led_to[~lost], count[~lost] + 1)
        follows = ~np.roll(lost, -1, 0)[:-1]
        np.testing.assert_array_equal(count[1:][follows], np.where(over, 0, led_to)[:-1][follows])
        assert pool.replaced >= 3 and lost.any() and over[lost].all()
        assert sum(float(report.episodes.count[0]) for report in reports) == rollout.terminated.sum()
        pool.hear = hear
        pool.deaths.extend([pool.taken] * MOST_REPLACED)
        pool.workers[0].process.kill()
        with pytest.raises(ForageError, match=r"100 workers of .* have died within 1,000 steps"):
            runner.advance(2)
    finally:
        runner.close()


def test_a_player_is_silent_where_its_environments_take_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Process, "waits", lambda worker, line: 3)  # answers so far, and another is due
    player = PlayerProcess(COUNTING.build, [2, 1], 4, True)
    assert player.waits(0) == (3, None) and not player.is_slow(0)
    player.progress = np.array([9, 9, 9, 9, 0, 0, 5])
    assert player.waits(1) == (3, 5) and not player.is_slow(1)
    assert player.is_slow(0)  # it compiles how to act
    player.progress[4] = 1  # and now is in its first step
    assert player.waits(0) == (3, 1) and not player.is_slow(0)
    player.starting = True
    assert player.is_slow(0)


class MortalPlayer(Mortal):
    progress: Any = None
    steps = PlayerProcess.steps

    def reach(self) -> None:
        super().reach()
        self.own = [RolloutWorker(self.build, lane.num_envs, lane.first) for lane in self.lanes]


class MortalPlayers(RolloutWorkers):
    process = MortalPlayer  # type: ignore[assignment]


@pytest.mark.thorough
def test_a_player_that_dies_between_rollouts_loses_the_first_step_of_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(forage.loop.cluster.workers, "Players", MortalPlayers)  # type: ignore[attr-defined]
    setup = setup_of("impala", COUNTING, rollout_length=4)
    runner: Any = setup.runner(workers=Workers(2, policy_lag=1))
    try:
        seen = watch(runner)
        runner.begin()
        runner.advance(1)
        for number, question in enumerate((REMEMBER, "snapshot", "info_seen", PLAY, REMIND, "restore"), 1):
            monkeypatch.setattr(Mortal, "fate", dies_once_of(question))
            runner.save(tmp_path / str(number), {"steps": runner.steps})
            assert runner.missing() == {}
            if number > 4:
                runner.load(tmp_path / str(number))
            runner.advance(2)
            assert runner.loops[0].environment.replaced == number, question
        rollout = jax.tree.map(lambda *x: np.concatenate(x), *seen)
        lost, over = rollout.source == GONE, rollout.terminated | rollout.truncated
        count, led_to = rollout.observation["count"][..., 0], rollout.next_observation["count"][..., 0]
        np.testing.assert_array_equal(led_to[~lost], count[~lost] + 1)
        follows = ~lost[1:]
        np.testing.assert_array_equal(count[1:][follows], np.where(over, 0, led_to)[:-1][follows])
        assert not lost[:, 2:].any() and over[lost].all() and (rollout.reward[lost] == 0).all()
        assert lost.sum(0).tolist() == [5, 5, 0, 0]  # what dies in a restoration is restored as it was
        monkeypatch.setattr(Mortal, "fate", dies_once_of(LEARN))  # as a run begins
        other: Any = setup.runner(workers=Workers(2, policy_lag=1))
        assert other.loops[0].environment.replaced == 1
        other.close()
    finally:
        runner.close()


@pytest.mark.thorough
def test_an_environment_that_fails_stops_the_run_and_leaves_nothing() -> None:
    runner: Any = setup_of("impala", Refusing).runner(workers=Workers(2, policy_lag=1))
    pool = runner.loops[0].environment
    name, processes = pool.shelf_block.name, [worker.process for worker in pool.workers]
    ids = [process.pid for process in processes]
    try:
        runner.begin()
        with pytest.raises(ForageError, match=r"in environment \d with ValueError: two is not for me"):
            runner.advance(20)
    finally:
        runner.close()
    for number in ids:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
    with pytest.raises(FileNotFoundError):
        SharedMemory(name)


@pytest.mark.thorough
def test_after_a_failure_it_can_go_on_with_new_episodes(tmp_path: Path) -> None:
    setup = setup_of("impala", Delicate, gru_size=4)
    runner: Any = setup.runner(workers=Workers(2, policy_lag=2))
    other: Any = setup.runner(workers=Workers(2, policy_lag=2))
    try:
        seen, loop = watch(runner), runner.loops[0]
        runner.begin()
        runner.advance(1)
        runner.save(tmp_path / "early", {"steps": runner.steps})  # when workers have failed, but nobody knows
        with pytest.raises(ForageError, match="not now"):
            runner.advance(1)
        runner.save(tmp_path / "late", {"steps": runner.steps})
        loop.forget()
        loop.begin_episodes()
        report = runner.advance(5)
        assert len(seen) == 6
        first = seen[1].observation["count"][0].ravel().tolist()
        assert first == [0, 0, 0, 0] and (seen[1].source != GONE).all()
        assert (seen[1].policy_info[0].features[0] == 0).all() and (seen[2].policy_info[0].features[0] != 0).any()
        assert report.episodes.count == jax.tree.map(lambda *x: np.concatenate(x), *seen[1:]).terminated.sum()
        np.testing.assert_allclose(report.latest["policy_lag"], np.mean([0, 1, 2, 2, 2]))
        for name in ("early", "late"):
            other.load(tmp_path / name)
            assert other.steps == 32 and not other.loops[0].requests
    finally:
        runner.close()
        other.close()


@pytest.mark.thorough
def test_where_environments_cannot_be_saved_rollouts_are_kept_and_cut(tmp_path: Path) -> None:
    setup = setup_of("impala", Counting, gru_size=4)
    one, other = (setup.runner(workers=Workers(2, policy_lag=2)) for _ in range(2))
    try:
        assert not one.exact
        kept, seen = watch(one), watch(other)  # type: ignore[arg-type]
        one.begin()
        one.advance(2)
        one.save(tmp_path / "part", {"steps": one.steps})  # in the midst of episodes
        one.advance(2)
        other.load(tmp_path / "part")
        report = other.advance(3)
        last = np.asarray(seen[1].terminated[-1])
        same(kept[2], seen[0])
        same(kept[3]._replace(truncated=()), seen[1]._replace(truncated=()))
        assert (seen[1].truncated[-1] == ~last).all()
        assert not np.asarray(seen[1].truncated[:-1]).any()
        assert (seen[2].observation["count"][0] == 0).all()
        remembered = np.abs(seen[2].policy_info[0].features)
        assert (remembered[0] == 0).all() and (remembered[1] > 0).any()
        assert report.episodes.count == sum(np.asarray(rollout.terminated).sum() for rollout in seen)
    finally:
        one.close()
        other.close()


KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[1:]
from forage.config.resolve import resolve
from forage.loop.cluster.process import Process
from forage.loop.cluster.workers import Workers
from tests.loop.test_workers import Waiting

if __name__ == "__main__":
    sizes = {"num_envs": 2, "rollout_length": 5000}  # of 50 ms each
    setup = resolve("impala", Waiting, seeds=[0], steps=100_000, agent_options=sizes)
    runner = setup.runner(workers=Workers(2, policy_lag=1))
    runner.begin()
    runner.loops[0].ask(2)
    print(*[worker.process.pid for worker in runner.loops[0].environment.workers], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.thorough
def test_workers_end_with_whom_they_work_for(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    paths = [str(TESTS), str(TESTS.parent)]
    said = subprocess.run(
        [sys.executable, str(script), *paths], capture_output=True, text=True, env=environment(), check=False
    )
    ids = [int(number) for number in said.stdout.split()]
    assert len(ids) == 2, said.stderr
    until = time.monotonic() + 60
    while time.monotonic() < until and any(Path(f"/proc/{number}").exists() for number in ids):
        time.sleep(0.1)
    assert not any(Path(f"/proc/{number}").exists() for number in ids)


SLOWLY = """
import pathlib, time

from forage.core import compiling

if __name__ == "__mp_main__":  # in workers

    def slowly(*told, real=compiling._compile, **more):
        module = more.get("module", told[1] if len(told) > 1 else None)
        if "act_rows" in str(module.operation.attributes["sym_name"]):
            pathlib.Path("compiles").touch()
            time.sleep(100)
        return real(*told, **more)

    compiling._compile = slowly

if __name__ == "__main__":
    from forage.cli.entry import main

    main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_does_not_wait_for_workers_that_compile(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "slowly.py").write_text(SLOWLY)
    words = ["train", "impala", CARTPOLE, "--workers", "2", "--policy-lag", "1", "--seeds", "1", "--num-envs", "4"]
    words += ["--plain", "--directory", "run"]
    run = subprocess.Popen(
        [sys.executable, "slowly.py", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=environment(JAX_ENABLE_COMPILATION_CACHE="false"), cwd=tmp_path,
    )  # fmt: skip
    try:
        until = time.monotonic() + 120
        while not (tmp_path / "compiles").exists() and run.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        began = time.monotonic()
        run.send_signal(number)
        said, _ = run.communicate(timeout=60)
        assert time.monotonic() - began < 10  # two seconds, on a machine that is not busy
        assert run.returncode == 130 and "while workers compiled or made their environments" in said
        assert "forage resume run" in said
    finally:
        run.kill()
        run.wait()


def test_what_workers_cannot_play_is_said() -> None:
    spread: dict[str, Any] = {"workers": 1, "steps": 256, "display": "quiet"}
    with pytest.raises(ForageError, match=r"PPO takes every rollout for one of its newest policy, .* such as impala"):
        forage.train("ppo", CARTPOLE, policy_lag=1, **spread)
    with pytest.raises(ForageError, match="0 rollouts or more ahead of the learner, not -1"):
        forage.train("impala", CARTPOLE, policy_lag=-1, **spread)
    with pytest.raises(ForageError, match="give workers as well, or leave policy_lag out"):
        forage.train("impala", CARTPOLE, policy_lag=1, steps=256, display="quiet")
    with pytest.raises(ForageError, match="leave out async_envs, or policy_lag"):
        forage.train("impala", CARTPOLE, policy_lag=1, async_envs=True, **spread)
    with pytest.raises(ForageError, match="give workers 2, or leave policy_lag out"):
        forage.train("impala", CARTPOLE, policy_lag=1, **spread | {"workers": "ray:2"})
    with pytest.raises(ForageError, match="the learner has to see each step; leave out --policy-lag"):
        forage.train("impala", CARTPOLE, policy_lag=1, starts=ToldStarts(), **spread)
    with pytest.raises(ForageError, match="Reinforce begins its episodes together"):
        forage.train("reinforce", CARTPOLE, policy_lag=0, **spread)
    with pytest.raises(ForageError, match="is stepped on the device, where no workers are needed"):
        forage.train("impala", "CartPole-v1", policy_lag=1, **spread)
    if SHARED_MEMORY.is_dir():
        with pytest.raises(ForageError, match=r"Rollouts takes 1,099,512 MB of shared memory, .* give fewer environm"):
            Block([jax.ShapeDtypeStruct((1 << 40,), np.uint8)], what="Rollouts")
    with pytest.raises(ForageError, match="cannot be sent to worker processes"):
        rate = forage.core.schedule.Schedule("own", lambda share: 1e-3 * (1 - share))  # type: ignore[attr-defined]
        forage.train("impala", CARTPOLE, policy_lag=1, learning_rate=rate, **spread)
