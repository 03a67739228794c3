"""Abilities and limits of a program in the sandbox, and the errors of a guard that cannot keep its promises."""

import dataclasses
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import attempts
import pytest
from tiers import gate_cases

from forage.core.errors import ForageError
from forage.environments.text.tools.python import Python
from forage.environments.text.tools.sandbox import guard, system_calls
from forage.environments.text.tools.sandbox.guard import Sandbox

try:
    LAYERS = guard.guarantee().layers
except ForageError as refusal:
    pytest.skip(f"no sandbox here: {refusal}", allow_module_level=True)

NAMES = {one.name: one for one in attempts.ATTEMPTS}
GATE = ("fork bomb", "memory bomb", "infinite loop", "read a user's file", "connect", "kill a process")


@pytest.fixture(scope="module")
def bait():
    with attempts.Bait() as bait:
        yield bait


def fails(one, bait):
    """Run an attempt; return its unexpected outcome, or an empty text."""
    if one.machine not in ("", os.uname().machine):
        pytest.skip(f"made for {one.machine}")
    if one.sandbox.files and "namespaces" not in guard.guarantee().layers:
        pytest.skip("no folder to write in without user namespaces")
    happened = attempts.attempt(one, bait)
    outcome = happened.outcome
    expected = outcome.ended in one.ended.split("|") and re.search(one.shows, outcome.text)
    return happened.harm or ("" if expected else repr(outcome))


@pytest.mark.parametrize("name", gate_cases(NAMES, GATE))
def test_an_attempt_is_answered(name, bait):
    assert fails(NAMES[name], bait) == ""


@pytest.mark.thorough
@pytest.mark.parametrize("layer", ["landlock", "namespaces"])
@pytest.mark.parametrize("name", attempts.ON_FILES)
def test_one_of_two_layers_keeps_files_alone(name, layer, bait, monkeypatch):
    if layer not in LAYERS:
        pytest.skip(f"no {layer} here")
    promise = dataclasses.replace(guard.guarantee(), layers=("limits", "seccomp", layer))
    monkeypatch.setattr(guard, "guarantee", lambda: promise)
    assert fails(NAMES[name], bait) == ""


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name, one in NAMES.items() if one.harmless])
def test_the_bait_notices_what_is_done_without_a_sandbox(name):
    with attempts.Bait() as fresh:
        assert attempts.unconfined_attempts(NAMES[name], fresh) != ""


def test_the_page_shows_what_happened_to_each_attempt():
    page = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text()
    shown = re.findall(r"^\| (.+?) \| (.+?) \| (?:ran|failed|stopped|ended)", page, re.MULTILINE)
    assert shown == [(one.name, one.does) for one in attempts.ATTEMPTS]
    assert len(NAMES) == len(shown) >= 20 and sum(one.harmless for one in attempts.ATTEMPTS) >= 8


def test_programs_compute_with_the_standard_library():
    program = """
import bisect, collections, copy, dataclasses, datetime, decimal, fractions, functools, heapq, itertools, json, math
import random, re, statistics, string, sys, textwrap, typing, hashlib
print(json.dumps({"a": [1, 2]}), math.comb(5, 2), statistics.mean([1, 2, 3]), re.findall("[0-9]+", "a12b3"))
print(decimal.Decimal(1) / 4, fractions.Fraction(1, 3) + 1, sorted({"b", "a"}), sys.stdin.read().upper())
"""
    outcome = Sandbox().run(program, "given")
    assert outcome.text == "{\"a\": [1, 2]} 10 2 ['12', '3']\n0.25 4/3 ['a', 'b'] GIVEN\n"
    assert (outcome.ended, outcome.code) == ("finished", 0)


def test_errors_are_shown_without_our_own_lines():
    outcome = Sandbox().run("def f(x):\n    return 1 / x\nf(0)")
    assert outcome.ended == "failed"
    lines = outcome.text.splitlines()
    assert lines[0].startswith("Traceback") and lines[-1] == "ZeroDivisionError: division by zero"
    assert [line.split(",")[0] for line in lines if "File" in line] == ['  File "program.py"'] * 2


def test_waiting_for_a_busy_processor_does_not_count(monkeypatch):
    program = "import time\nprint('a', flush=True)\ntime.sleep(0.5)\nprint('b')"
    waits = iter([1.0, 3.0])  # when the program begins, and when its time would be over
    monkeypatch.setattr(guard, "waiting_seconds", lambda process: next(waits))
    outcome = Sandbox(wall=0.25).run(program)
    assert (outcome.text, outcome.ended) == ("a\nb\n", "finished")
    monkeypatch.setattr(guard, "waiting_seconds", lambda process: 0.0)
    assert Sandbox(wall=0.25).run(program).ended == "time"


def test_the_order_of_a_set_is_the_same_in_each_process():
    texts = {Sandbox().run("print({str(i) for i in range(50)})").text for _ in range(2)}
    assert len(texts) == 1 and "'49'" in texts.pop()


def test_a_folder_to_write_in_begins_empty_and_is_gone_afterwards():
    if "namespaces" not in LAYERS:
        pytest.skip("no folder to write in without user namespaces")
    program = "import os\nprint(os.listdir('.'))\nopen('a', 'w').write('x')\nprint(open('a').read(), os.listdir('.'))"
    assert [Sandbox(files=4).run(program).text for _ in range(2)] == ["[]\nx ['a']\n"] * 2


def test_files_are_refused_where_nothing_counts_them(monkeypatch):
    promise = dataclasses.replace(guard.guarantee(), layers=("limits", "seccomp", "landlock"))
    monkeypatch.setattr(guard, "guarantee", lambda: promise)
    with pytest.raises(ForageError, match="files=0 works"):
        Python(Sandbox(files=4))


@pytest.mark.thorough
def test_a_program_ends_with_its_guard():
    code = (
        "from forage.environments.text.tools.sandbox.guard import Sandbox\n"
        "Sandbox(wall=60.0, cpu=60).run('import time; time.sleep(50)')"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        children: list[str] = []
        until = time.monotonic() + 60
        while not children and time.monotonic() < until:
            time.sleep(0.1)
            found = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            children = [pid for pid in found if b"inside.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        assert len(children) == 1
        time.sleep(1.0)  # the probe is over, and what runs is the program
    finally:
        parent.kill()
        parent.wait()
    until = time.monotonic() + 10
    while Path(f"/proc/{children[0]}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{children[0]}").exists()


def test_a_promise_that_does_not_hold_stops_before_the_program(monkeypatch):
    monkeypatch.setitem(system_calls.PIVOT_ROOT, os.uname().machine, 9999)
    with pytest.raises(ForageError, match=r"could not be confined \(pivot_root: Function not implemented\)"):
        guard.execute(Sandbox(), ("limits", "seccomp", "namespaces"), "print('ran')", "")


def test_the_record_says_which_layers_hold():
    record = guard.guarantee().record()
    assert record["layers"] == list(LAYERS) and set(record["promises"]) == set(LAYERS)
    assert {"limits", "seccomp"} < set(LAYERS) <= set(guard.PROMISES)


@pytest.mark.parametrize("system", ["Darwin", "Windows"])
def test_other_systems_are_refused_in_one_sentence(system, monkeypatch):
    monkeypatch.setattr(guard.platform, "system", lambda: system)
    with pytest.raises(ForageError, match=f"this is {system} on .*: leave the Python tool out"):
        guard.guarantee.__wrapped__()


@pytest.mark.parametrize("limits", [{"wall": 0}, {"cpu": 1.5}, {"memory": 1 << 20}, {"output": True}, {"files": -1}])
def test_limits_out_of_range_are_refused(limits):
    with pytest.raises(ForageError, match=rf"A sandbox's {next(iter(limits))} is "):
        Sandbox(**limits)


def test_the_filter_checks_arguments_word_by_word():
    """Run the program for the kernel by hand: load a word, compare, jump, answer."""
    from forage.environments.text.tools.sandbox import inside

    code = inside.filter_program(7, [1], [(5, [(0, [-1]), (4, [0, 3])])], [6], own=42)

    def answer(machine, call, *words):
        import struct

        data = struct.pack("<2I2I12I", call, machine, 0, 0, *words, *[9] * (12 - len(words)))
        steps = list(struct.iter_unpack("<HBBI", code))
        at, loaded = 0, 0
        while True:
            operation, then, otherwise, value = steps[at]
            at += 1
            if operation == 0x20:
                loaded = struct.unpack_from("<I", data, value)[0]
            elif operation == 0x15:
                at += then if loaded == value else otherwise
            else:
                return value

    assert answer(7, 1) == inside.ALLOW
    assert answer(8, 1) == inside.KILL
    assert answer(7, 2) == inside.DENY | 1
    assert answer(7, 6) == inside.DENY | 38
    assert answer(7, 5, 42, 0, 0, 0, 3) == answer(7, 5, 42, 0, 0, 0, 0) == inside.ALLOW
    assert answer(7, 5, 41, 0, 0, 0, 3) == answer(7, 5, 42, 0, 0, 0, 1) == inside.DENY | 1
