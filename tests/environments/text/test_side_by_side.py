"""Tools and verifiers of several texts at a time: the same verdicts at every number, and no process is left behind."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.environments.text import worlds
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.process import processors


def test_replies_that_wait_are_asked_for_side_by_side(monkeypatch):
    """Each of two replies waits for the other, so that one after the other would never end."""
    meeting, reply, made = threading.Barrier(2, timeout=20), worlds.Question.reply, worlds.Question.__init__

    def wait(world, written):
        meeting.wait()
        return reply(world, written)

    def make(world, *given):
        made(world, *given)
        world.waits = True

    alone = TextEnvironment("addition", 4, parallel=1)
    monkeypatch.setattr(worlds.Question, "__init__", make)
    both = TextEnvironment("addition", 4, context=60, response=60, parallel=2)
    monkeypatch.setattr(worlds.Question, "reply", wait)
    action = both.reset(5)["reference"].copy()
    action[1] = 0
    assert both.step(action).step.reward.tolist() == [1, 0, 1, 1]
    monkeypatch.setattr(worlds.Question, "reply", reply)
    seen = alone.reset(5)
    said = [one.said[0] for one in both.conversations()]
    alone.step(seen["reference"])
    assert said == [one.said[0] for one in alone.conversations()]  # each in its place

    def fail(world, written):
        raise ValueError("oh")

    monkeypatch.setattr(worlds.Question, "reply", fail)
    with pytest.raises(ForageError, match=r"failed at step 2 in environment 0 with ValueError: oh"):
        both.step(action)
    both.close()
    with pytest.raises(ForageError, match="runs 1 text or more at a time, or 0 for one a processor, not -1"):
        TextEnvironment("addition", 1, parallel=-1)
    assert processors() >= 1


FAMILY = """
    import os, re, time
    from forage.environments.text.families.addition import Addition
    from forage.environments.text.problems import Verdict
    class Moods(Addition):
        name, bounded = "moods", False
        def verify(self, problem, text):
            kind = (problem.data["left"] + problem.data["right"]) % 5
            if "<answer>" not in text:
                if kind == 0: raise ValueError("oh")
                if kind == 1: os._exit(3)
                if kind == 2: return 7
                if kind == 3: re.match(r"(a+)+b", "a" * 40)
            return super().verify(problem, text)
"""


@pytest.mark.thorough
def test_verdicts_are_the_same_at_every_number(tmp_path, monkeypatch):
    """Also of verifiers that raise, exit, return no verdict or hang in C."""
    (tmp_path / "moods.py").write_text(textwrap.dedent(FAMILY))
    found = []
    for parallel in (1, 2, 5):
        environment = TextEnvironment(f"{tmp_path}/moods.py:Moods", 10, parallel=parallel)
        environment.worlds[0].guard.seconds = 1.0
        environment.reset(1)
        with pytest.warns(UserWarning, match="could not be judged"):
            environment.step(np.zeros((10, environment.answer), np.int32))
        found.append([one.verdict for one in environment.conversations()])
        environment.close()
    assert found[0] == found[1] == found[2] and len(set(found[0])) >= 4


@pytest.mark.thorough
def test_processes_end_with_the_one_that_made_them(tmp_path):
    """A verifier that hangs in a C function ends with a process that is killed."""
    (tmp_path / "moods.py").write_text(textwrap.dedent(FAMILY).replace("% 5", "* 0 + 3"))
    script = f"""
        from forage.environments.text.guard import Guard
        from forage.environments.text.opening import family
        from forage.environments.text import sets
        import threading
        moods = family({str(tmp_path / "moods.py:Moods")!r})
        guard = Guard(moods, seconds=600)
        pool = guard._pool
        print(pool.idle[0].process.pid, flush=True)
        guard.verify(sets.problem_at(moods, 0, 0, 0), "?")
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    time.sleep(1)
    os.kill(child, 0)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        stat = Path(f"/proc/{child}/stat")
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the verifier's process was left behind")
