"""What do kills cost? Workers killed at 100 random moments, and the learner at 10: is anything lost or doubled?

    python benchmarks/faults.py            # kill what has not been killed yet; results/FAULTS.md, from faults.json
    python benchmarks/faults.py --again    # all of it

Workers: each environment answers an action with a number made of it and of the step of its episode. Of every step it is
checked that each row is either said to be lost, with a new episode begun, or is exactly what that action brings in the
step after the last. Kills (SIGKILL) come from a thread of their own, up to a tenth of a second after steps go on, and a
fifth of them as the worker before is being replaced. The learner: a run of PPO with two workers is killed after random
times and resumed until it ends; its agent must be, bit by bit, that of a run that nobody killed, and no shared memory
and no worker may be left. Memory: a run of PPO with two workers, of which one is killed every so often, goes on for
twenty minutes; what its process holds is looked at every ten seconds.

Experience: IMPALA learns in such environments by each kind of workers, with checkpoints in between, some of which are
gone back to, while workers are killed at all moments: in a step, between two, as states are saved and restored, as the
worker before is being replaced. Of every transition that is learned from it is checked that it is lost, or what its
action brings in the step after the last. Scores: PPO, DQN and IMPALA are trained on CartPole, once left alone and once
with workers killed every few seconds from beginning to end, and what they have learned is compared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import cells
import gymnasium
import jax
import numpy as np

from forage.config.resolve import resolve
from forage.core.types import GONE
from forage.environments import HostFactory
from forage.loop.cluster.pool import Pool
from forage.loop.cluster.process import is_over
from forage.loop.cluster.workers import Workers

RESULTS = Path(__file__).parent / "results" / "faults.json"
LENGTH, NUM_ENVS = 50, 8
SHARED = Path("/dev/shm")


class Echo(gymnasium.Env):
    """Pays 100 times the step of its episode and the action, and shows the step."""

    observation_space = gymnasium.spaces.Box(0, LENGTH, (1,))
    action_space = gymnasium.spaces.Discrete(100)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Begin at step 0."""
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        """Pay what tells which step and which action it was."""
        self.count += 1
        return np.float32([self.count]), 100.0 * self.count + float(action), self.count == LENGTH, False, {}


def resident(process: int | str = "self") -> float:
    """Return the megabytes of memory that a process has."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def kill_workers(kills: int) -> dict[str, Any]:
    """Step a pool while its workers are killed. Return what was counted; raise where a row is not what it should be."""
    chance = random.Random(0)
    pool = Pool(HostFactory("echo", maker=Echo).build, NUM_ENVS, 2, 2)
    done = threading.Event()
    counted: dict[str, Any] = {"steps": 0, "lost": 0, "memory": []}

    def killer() -> None:
        while not done.is_set():
            before = counted["steps"]
            patient = chance.random() < 0.8
            while patient and counted["steps"] == before and not done.is_set():
                time.sleep(0.001)  # most kills come once steps go on, and some as the new worker begins
            time.sleep(chance.uniform(0, 0.1))
            worker, replaced = chance.choice(pool.workers), pool.replaced
            if replaced >= kills:
                return
            os.kill(worker.process.pid, signal.SIGKILL)  # type: ignore[union-attr, arg-type]
            while pool.replaced == replaced and not done.is_set():
                time.sleep(0.001)

    try:
        pool.reset(0)
        thread = threading.Thread(target=killer, daemon=True)
        thread.start()
        at, actions = np.zeros(NUM_ENVS), np.random.default_rng(0)
        while thread.is_alive():
            action = actions.integers(0, 100, NUM_ENVS).astype(np.int32)
            result, before = pool.step(action), pool.replaced
            lost = np.zeros(NUM_ENVS, bool) if pool.lost is None else pool.lost
            step, at = result.step, at + 1
            assert (step.reward[~lost] == 100 * at[~lost] + action[~lost]).all(), (step.reward, at, action)
            assert (step.reward[lost] == 0).all() and step.truncated[lost].all() and not step.terminated[lost].any()
            ended = step.terminated | step.truncated
            at[ended] = 0
            assert (result.observation[:, 0] == at).all(), (result.observation, at)
            counted["steps"], counted["lost"] = counted["steps"] + NUM_ENVS, counted["lost"] + int(lost.sum())
            if before >= len(counted["memory"]) * 10:
                counted["memory"].append(round(resident(), 1))
    finally:
        done.set()
        counted["replaced"] = pool.replaced
        pool.close()
    return counted


def workers_of(process: int) -> list[int]:
    """Return the worker processes of a run, and not the one that keeps count of what is shared."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it may end meanwhile
            if entry.name.isdigit() and f"PPid:\t{process}\n" in (entry / "status").read_text():
                found += [int(entry.name)] if b"spawn_main" in (entry / "cmdline").read_bytes() else []
    return found


def alive(processes: list[int], seconds: float = 10.0) -> int:
    """Return how many of these still run after so many seconds at most."""
    until = time.monotonic() + seconds
    while left := [one for one in processes if Path(f"/proc/{one}").exists()]:
        if time.monotonic() > until:
            break
        time.sleep(0.1)
    return len(left)


def endure(minutes: float) -> dict[str, Any]:
    """Kill a hundred workers of a run that goes on for so long. Return what its process held and what was left."""
    chance, held, left = random.Random(0), [], len(list(SHARED.glob("psm_*")))
    with tempfile.TemporaryDirectory() as folder:
        how = ["train", "ppo", "gymnasium:CartPole-v1", "--seeds", "1", "--steps", "30M", "--num-envs", "8"]
        how += ["--workers", "2", "--checkpoint-seconds", "10", "--quiet", "--directory", f"{folder}/run"]
        process = subprocess.Popen([sys.executable, "-m", "forage", *how])
        began, killed, seen = time.monotonic(), 0, set()
        next_kill, next_look, each = 60.0, 60.0, (60 * minutes - 60) / 100
        while (now := time.monotonic() - began) < 60 * minutes:
            assert process.poll() is None, "the run ended by itself"
            if now >= next_look:
                held.append(round(resident(process.pid), 1))
                next_look += 10
            if now >= next_kill:
                if workers := workers_of(process.pid):
                    seen |= set(workers)
                    os.kill(chance.choice(workers), signal.SIGKILL)
                    killed += 1
                next_kill += chance.uniform(0, 2 * each)
            time.sleep(0.05)
        seen |= set(workers_of(process.pid))
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
        rows = [json.loads(line) for line in (Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()]
        steps, replaced = rows[-1]["steps"], rows[-1]["workers_replaced"][0]
    told = {"minutes": minutes, "killed": killed, "replaced": replaced, "steps": steps, "held": held, "code": code}
    return told | {"workers": alive(sorted(seen)), "shared": len(list(SHARED.glob("psm_*"))) - left}


def kill_learner(kills: int) -> dict[str, Any]:
    """Kill a run and resume it, until it ends. Return how often, and whether its agent is that of a run left alone."""
    chance, killed, left = random.Random(0), 0, len(list(SHARED.glob("psm_*")))
    orphans = 0
    with tempfile.TemporaryDirectory() as folder:
        how = ["train", "ppo", "gymnasium:CartPole-v1", "--seeds", "1", "--steps", "600k", "--num-envs", "8"]
        how += ["--workers", "2", "--checkpoint-seconds", "2", "--quiet"]
        forage = [sys.executable, "-m", "forage"]
        subprocess.run([*forage, *how, "--directory", f"{folder}/alone"], check=True)
        process = subprocess.Popen([*forage, *how, "--directory", f"{folder}/killed"])
        while True:
            wait = chance.uniform(8, 20) if killed < kills else None
            try:
                code = process.wait(wait)
                if code == 0:
                    break
                raise SystemExit(f"the run ended by itself with exit code {code}")
            except subprocess.TimeoutExpired:
                workers = workers_of(process.pid)
                process.kill()
                process.wait()
                killed, orphans = killed + 1, orphans + alive(workers)
                process = subprocess.Popen([*forage, "resume", f"{folder}/killed", "--quiet"])
        one, other = (dict(np.load(f"{folder}/{name}/agent.npz")) for name in ("alone", "killed"))
        same = all(np.array_equal(one[name], other[name]) for name in one if name != "header")
    return {"killed": killed, "same": same, "workers": orphans, "shared": len(list(SHARED.glob("psm_*"))) - left}


KINDS = {
    "workers": Workers(2, 2),
    "first come": Workers(2, 2, async_envs=True),
    "policy_lag": Workers(2, 2, policy_lag=1),
}


def kill_at_all_moments(pool: Any, chance: random.Random, kills: int, done: threading.Event) -> threading.Thread:
    """Start a thread that kills so many workers of a pool at random moments, whatever they or it are at.

    Most kills come once steps go on, and a fifth as the worker before may still be being replaced.
    """

    def killer() -> None:
        killed = 0
        while killed < kills and not done.is_set():
            before, patient = pool.taken, killed > 0 and chance.random() < 0.8
            while patient and pool.taken == before and not done.is_set():
                time.sleep(0.01)
            time.sleep(chance.choice([0.0, 0.05, 0.5, 2.0]) * chance.random())
            process = chance.choice(pool.workers).process
            with contextlib.suppress(AttributeError, OSError, TypeError, ValueError):  # it is being replaced just now
                if not is_over(process):
                    os.kill(process.pid, signal.SIGKILL)
                    killed += 1

    thread = threading.Thread(target=killer, daemon=True)
    thread.start()
    return thread


def check_rollout(rollout: Any) -> tuple[int, int, int]:
    """Return how many transitions a rollout has, how many are lost and how many were cut.

    Raise `AssertionError` where one is not what its action brings in the step after the last.
    """
    rollout = jax.tree.map(np.asarray, rollout)
    at, then = rollout.observation[..., 0], rollout.next_observation[..., 0]
    lost, over = rollout.source == GONE, rollout.terminated | rollout.truncated
    here = ~lost
    assert (then[here] == at[here] + 1).all() and (
        rollout.reward[here] == 100 * then[here] + rollout.action[here]
    ).all()
    assert (rollout.terminated[here] == (then[here] == LENGTH)).all()
    assert over[lost].all() and not rollout.terminated[lost].any() and (rollout.reward[lost] == 0).all()
    follows = ~lost[1:]  # what is not lost goes on where the step before it ended, or begins an episode
    assert (at[1:][follows] == np.where(over, 0, then)[:-1][follows]).all()
    return lost.size, int(lost.sum()), int((rollout.truncated & here).sum())


def check_experience(kills: int) -> dict[str, Any]:
    """Check all that is learned from while workers are killed at all moments, for each kind of workers."""
    found: dict[str, Any] = {}
    sizes = {"num_envs": NUM_ENVS, "rollout_length": 16, "hidden_sizes": (8,)}
    factory = HostFactory("echo", {"snapshots": True}, maker=Echo)
    for kind, workers in KINDS.items():
        setup = resolve("impala", factory, seeds=[0], steps=10**8, agent_options=sizes)
        runner: Any = setup.runner(workers=workers)
        chance, done, counts = random.Random(1), threading.Event(), np.zeros(3, int)
        with tempfile.TemporaryDirectory() as folder:
            try:
                runner.begin()
                loop = runner.loops[0]
                learn = loop.learn

                def checked(rollout: Any, clock: Any, learn: Any = learn, counts: Any = counts) -> Any:
                    counts += check_rollout(rollout)
                    return learn(rollout, clock)

                loop.learn = checked
                runner.advance(2)  # compiles
                thread = kill_at_all_moments(loop.environment, chance, kills, done)
                saved = restored = 0
                while thread.is_alive():
                    runner.advance(chance.randrange(1, 4))
                    runner.save(Path(folder) / "checkpoint", {"steps": runner.steps})
                    runner.missing()
                    saved += 1
                    if chance.random() < 0.3:
                        runner.load(Path(folder) / "checkpoint")
                        restored += 1
                runner.advance(2)
                transitions, lost, cut = counts.tolist()
                found[kind] = {"killed": kills, "replaced": loop.environment.replaced, "transitions": transitions}
                found[kind] |= {"lost": lost, "cut": cut, "saved": saved, "restored": restored}
            finally:
                done.set()
                runner.close()
    return found


TRAINED = {
    "PPO": ["ppo", "--steps", "60k", "--workers", "2"],
    "PPO, first come": ["ppo", "--steps", "60k", "--workers", "2", "--worker-threads", "2", "--async-envs"],
    "IMPALA, ahead": ["impala", "--steps", "150k", "--workers", "2", "--policy-lag", "1"],
    "DQN": ["dqn", "--steps", "30k", "--workers", "2"],
}


def train(folder: Path, words: list[str], seed: int, every: float) -> tuple[float, int]:
    """Train on CartPole with a worker killed every so many seconds, none where that is 0. Return score and kills."""
    chance, killed = random.Random(seed), 0
    agent, *how = words
    how += [
        "--num-envs",
        "8",
        "--seeds",
        f"{seed},",
        "--quiet",
        "--directory",
        str(folder),
        "--checkpoint-seconds",
        "1",
    ]
    process = subprocess.Popen([sys.executable, "-m", "forage", "train", agent, "gymnasium:CartPole-v1", *how])
    while process.poll() is None:
        time.sleep(chance.uniform(0, 2 * every) if every else 1.0)
        if every and (workers := workers_of(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(workers), signal.SIGKILL)
                killed += 1
    if process.returncode:
        raise SystemExit(f"a run of {agent} ended with exit code {process.returncode}")
    returns = json.loads((folder / "evaluation.json").read_text())["return"]
    return float(np.mean(returns)), killed


def compare_scores(seeds: int) -> dict[str, Any]:
    """Train each agent with and without kills. Return the scores of each seed, and how often workers were killed."""
    found: dict[str, Any] = {}
    for name, words in TRAINED.items():
        row: dict[str, Any] = {"alone": [], "killed": [], "kills": 0}
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                row["alone"].append(train(Path(folder) / "alone", words, seed, 0.0)[0])
                score, kills = train(Path(folder) / "killed", words, seed, 6.0)
                row["killed"].append(score)
                row["kills"] += kills
        found[name] = row
    return found


def page(found: dict[str, Any]) -> str:
    """Return the page of what was killed."""
    lines = ["# Kills", "", "`python benchmarks/faults.py`"]
    if workers := found.get("workers"):
        lines += [
            "",
            f"Workers: {workers['replaced']} killed and replaced in {workers['steps']:,} steps of an environment each,",
            f"of which {workers['lost']:,} were said to be lost; every other was what its action brings, none twice.",
            f"Memory of the main process after every ten, in MB: {', '.join(map(str, workers['memory']))}.",
        ]
    if learner := found.get("learner"):
        verdict = "bit by bit that" if learner["same"] else "NOT that"
        lines += [
            "",
            f"The learner: killed {learner['killed']} times and resumed; its agent is {verdict} of a run that nobody",
            f"killed. Left behind: {learner['shared']} blocks of shared memory, {learner['workers']} workers.",
        ]
    if memory := found.get("memory"):
        held = memory["held"]
        late = held[len(held) // 10 :]
        lines += [
            "",
            f"Memory: a run of {memory['minutes']:g} minutes and {memory['steps']:,} steps, of whose workers",
            f"{memory['killed']} were killed and {memory['replaced']:.0f} replaced. Its process held {held[0]} MB",
            f"after a minute, {held[len(held) // 2]} half-way and {held[-1]} at the end; from {min(late)} to",
            f"{max(late)} after the first tenth. Left behind: {memory['shared']} blocks of shared memory and",
            f"{memory['workers']} workers.",
        ]
    if experience := found.get("experience"):
        lines += ["", "Experience: every transition that IMPALA learned from while workers were killed at all moments"]
        lines += ["is said to be lost, or is what its action brings in the step after the last.", ""]
        lines += ["| workers | killed | replaced | transitions | lost | cut | saved | gone back |", "|---" * 8 + "|"]
        lines += [
            f"| {kind} | {row['killed']} | {row['replaced']} | {row['transitions']:,} | {row['lost']:,} | "
            f"{row['cut']:,} | {row['saved']} | {row['restored']} |"
            for kind, row in experience.items()
        ]
    if scores := found.get("scores"):
        lines += ["", "Scores on CartPole of each seed, left alone and with workers killed from beginning to end:", ""]
        lines += ["| agent | alone | with kills | kills |", "|---|---|---|---|"]
        shown = lambda values: ", ".join(f"{value:.0f}" for value in values)  # noqa: E731
        lines += [
            f"| {name} | {shown(row['alone'])} | {shown(row['killed'])} | {row['kills']} |"
            for name, row in scores.items()
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Kill what has not been killed yet, count, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of workers")
    parser.add_argument("--learner", type=int, default=10, help="kills of the learner")
    parser.add_argument("--minutes", type=float, default=20, help="of the run whose memory is looked at")
    parser.add_argument(
        "--moments", type=int, default=40, help="kills of each kind of workers as experience is checked"
    )
    parser.add_argument("--seeds", type=int, default=3, help="of each agent whose scores are compared")
    parser.add_argument("--only", default="workers,learner,memory,experience,scores", help="which of these")
    parser.add_argument("--again", action="store_true", help="also what was done before")
    arguments = parser.parse_args()
    parts: dict[str, tuple[Any, float]] = {
        "workers": (kill_workers, arguments.kills),
        "learner": (kill_learner, arguments.learner),
    }
    parts |= {"memory": (endure, arguments.minutes), "experience": (check_experience, arguments.moments)}
    parts |= {"scores": (compare_scores, arguments.seeds)}
    for name in arguments.only.split(","):
        kill, kills = parts[name]
        if arguments.again or name not in cells.read(RESULTS):
            cells.put(RESULTS, name, kill(kills))
    RESULTS.with_name("FAULTS.md").write_text(page(cells.read(RESULTS)))


if __name__ == "__main__":
    main()
