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
import numpy as np

from forage.environments import HostFactory
from forage.loop.cluster.pool import Pool

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
    return "\n".join(lines) + "\n"


def main() -> None:
    """Kill what has not been killed yet, count, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100, help="of workers")
    parser.add_argument("--learner", type=int, default=10, help="kills of the learner")
    parser.add_argument("--minutes", type=float, default=20, help="of the run whose memory is looked at")
    parser.add_argument("--only", default="workers,learner,memory", help="which of these")
    parser.add_argument("--again", action="store_true", help="also what was done before")
    arguments = parser.parse_args()
    parts: dict[str, tuple[Any, float]] = {
        "workers": (kill_workers, arguments.kills),
        "learner": (kill_learner, arguments.learner),
    }
    parts |= {"memory": (endure, arguments.minutes)}
    for name in arguments.only.split(","):
        kill, kills = parts[name]
        if arguments.again or name not in cells.read(RESULTS):
            cells.put(RESULTS, name, kill(kills))
    RESULTS.with_name("FAULTS.md").write_text(page(cells.read(RESULTS)))


if __name__ == "__main__":
    main()
