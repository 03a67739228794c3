"""A run on disk: its files, its display, and its survival of failures."""

import datetime
import errno
import io
import itertools
import json
import os
import shutil
import signal
import threading
import time
import types
from pathlib import Path

import imageio.v3 as imageio
import numpy as np
import pytest
import small
from small import differing_files

import forage
from forage.config.resolve import resolve
from forage.core.compiling import Background
from forage.core.errors import ForageError, InterruptedCompiling, RunInterrupted
from forage.environments.classic.cartpole import CartPole
from forage.loop.device.runner import DeviceRunner
from forage.loop.learner import Episodes, Report
from forage.runs import curve, session, training
from forage.runs import display as progress
from forage.runs.curve import CurveRows, Totals, quiet_since, read_rows
from forage.runs.locking import lock_directory
from forage.runs.run import Run
from forage.runs.summary import sizes
from forage.studies.comparison.compare import compare
from forage.studies.comparison.verdicts import comparison_words
from forage.studies.watch import watch

small.keep_compiled()


class Script(progress.Progress):
    """A display that acts: `at` is called with itself at every update."""

    def __init__(self, at=lambda self: None):
        self.at, self.rows, self.notes, self.updates = at, [], [], 0
        self.result, self.lines, self.stopped = None, None, False

    def update(self, row, seconds_left):
        self.updates += 1
        self.at(self)

    def row(self, row):
        self.rows.append(row)

    def note(self, text):
        self.notes.append(text)

    def stop(self):
        self.stopped = True

    def finish(self, result, lines):
        self.result, self.lines = result, lines


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """A whole run: two seeds at two learning rates."""
    directory = tmp_path_factory.mktemp("runs") / "finished"
    display = Script()
    run = small.train(directory, sweep={"learning_rate": [1e-3, 1e-4]}, display=display)
    run.display = display
    return run


@pytest.fixture
def copy(whole_run, tmp_path):
    """A copy of the finished run, to be changed."""
    directory = tmp_path / "copy"
    shutil.copytree(whole_run.directory, directory)
    return directory


def newest(directory: Path) -> Path:
    return Run(directory).checkpoints[-1]


def test_what_a_run_leaves(whole_run):
    names = {path.name for path in whole_run.directory.iterdir()}
    assert names == {
        *("config.json", "versions.json", "metrics.jsonl", "evaluation.json", "agent.npz", "curve.png", "checkpoints"),
        *("sweep.png", "time.json"),
    }
    assert [row["steps"] for row in whole_run.rows] == list(range(16, 161, 16))
    for row in whole_run.rows:
        assert len(row["return"]) == len(row["length"]) == len(row["episodes"]) == len(row["updates"]) == 4
    steps, values = whole_run.curve()
    assert values.shape == (4, len(steps))
    assert len(whole_run.evaluation["return"]) == 4
    assert np.shape(whole_run.evaluation["episode_returns"]) == (4, 2)
    assert [path.stem for path in whole_run.checkpoints] == ["000000000000", "000000000160"]
    versions = json.loads((whole_run.directory / "versions.json").read_text())
    assert {"forage", "code", "git", "jax", "machine"} <= versions.keys()


@pytest.mark.thorough
def test_a_sweep_is_told_by_its_values(whole_run):
    members = whole_run.evaluation["members"]
    assert members == [{"seed": s, "learning_rate": rate} for rate in (1e-3, 1e-4) for s in (3, 7)]
    text = "\n".join(whole_run.display.lines)
    assert "with learning_rate=0.001: return" in text
    assert "with learning_rate=0.0001: return" in text
    settings = whole_run.display.result["settings"]  # each has a score of its own, and the whole has none
    assert [one["setting"] for one in settings] == ["learning_rate=0.001", "learning_rate=0.0001"]
    assert [one["seeds"] for one in settings] == [2, 2] and "score" not in whole_run.display.result
    same = [forage.load(whole_run.directory, seed=seed) for seed in (3, 3)]
    assert small.differing(same[0].state, same[1].state) == []


@pytest.mark.thorough
def test_a_sweep_over_an_environment_given_as_an_object(tmp_path):
    run = small.train(tmp_path / "run", environment=CartPole(), seeds=[3], sweep={"learning_rate": [1e-3, 1e-4]})
    assert (tmp_path / "run" / "curve.png").stat().st_size > 1000 and len(run.evaluation["return"]) == 2


def test_the_score_is_of_the_evaluation(copy):
    assert {label: one.seeds for label, one in Run(copy).scores.items()} == {
        "learning_rate=0.001": 2,
        "learning_rate=0.0001": 2,
    }
    with pytest.raises(ForageError, match="a sweep of 2 settings"):
        _ = Run(copy).score
    (copy / "evaluation.json").unlink()
    with pytest.raises(ForageError, match="has not been evaluated"):
        _ = Run(copy).scores


FLATTERED = ", selected by this score, which flatters it"


def test_a_display_of_a_sweep_names_the_best_setting():
    assert (
        progress.shown_return([1.0, 3.0, 5.0, None], 2)
        == f"return 5.00 (1 seed, no interval), the best of 2 settings{FLATTERED}"
    )


def test_progress_is_of_the_newest_episodes():
    """A point may hold no episode, or the short ones alone: the return neither saws nor loses seeds."""

    def point(steps, episodes, returns):
        return {"steps": steps, "episodes": episodes, "return": returns, "steps_per_second": 10.0}

    points = [
        point(100, [60.0, 0.0], [1.0, None]),
        point(200, [50.0, 2.0], [3.0, 8.0]),
        point(300, [60.0, 0.0], [5.0, None]),
    ]
    assert curve.newest(points[:1]) == [1.0, None] and curve.newest(points[:2], least=51) == [(60 + 150) / 110, 8.0]
    assert curve.newest(points) == [
        (50 * 3 + 60 * 5) / 110,
        8.0,
    ]  # 110 episodes of the first seed, and all of the other
    nothing = [point(steps, [0.0, 0.0], [None, None]) for steps in (400, 500, 600)]
    assert [quiet_since(points[:i]) for i in (1, 2, 3)] == [None] * 3
    assert quiet_since(points + nothing[:1]) is None  # what there is of a point may be a moment
    assert quiet_since(points + nothing) == 300 and curve.newest(points + nothing) == curve.newest(points)
    assert quiet_since(nothing) == 0 and curve.newest(nothing) == [None, None]

    def say(rows, settings=1):
        row = rows[-1] | {"newest": curve.newest(rows), "quiet_since": quiet_since(rows)}
        return progress.summary(row, settings).removesuffix("   10 steps/s")

    assert say(points).startswith("return 6.0 [") and say(points).endswith("] (2 seeds)")
    assert say(points + nothing) == f"{say(points)}; none has ended since step 300"
    assert say(nothing) == "no episode has ended since step 0"
    assert say(points, settings=2) == f"return 8.00 (1 seed, no interval), the best of 2 settings{FLATTERED}"
    assert progress.summary(points[0]) == "10 steps/s"  # from a data set, where no episodes are


def test_a_run_of_text_without_one_reward_is_no_success():
    none, some = {"episodes": [0, 0], "unscored": [8, 8]}, {"episodes": [4, 1], "unscored": [4, 7]}
    for rows in ([], [{"episodes": [0]}], [none, some], [some, none], [{"episodes": [0], "unscored": [0]}]):
        curve.check_rewarded(rows)
    for rows in ([none, none], [{"episodes": [4, 0], "unscored": [4, 8]}]):
        with pytest.raises(ForageError, match="No answer of this run had a reward, as None was returned for each"):
            curve.check_rewarded(rows)


def test_the_start_of_a_sweep_names_what_is_swept():
    setup = resolve("ppo", "CartPole-v1", seeds=1, sweep={"learning_rate": [0.001, 0.01]})
    assert "learning rate 0.001 or 0.01, epochs 10" in sizes(setup)


@pytest.mark.parametrize("kind", ["json", "quiet"])
def test_a_long_command_may_be_silent(kind, capsys):
    with progress.Waiting(kind) as tell:
        tell.next = 0
        tell("filming")
    assert capsys.readouterr().err == ""


def test_a_long_command_says_little_to_a_log(capsys):
    with progress.Waiting() as tell:
        tell.next = 0
        tell("filming")
        tell("filming on")  # not again within ten seconds
    assert capsys.readouterr().err == "filming\n"


def test_a_later_evaluation_plays_other_episodes(copy):
    """The best seed was chosen by the run's own."""
    own = Run(copy).evaluation["episode_returns"]
    damaged = np.load(newest(copy))
    names = json.loads(damaged["names"].tobytes())
    assert any(name.startswith(".pool") for name in names)  # what follows would not read it
    training.evaluate(copy, episodes=2)
    assert Run(copy).evaluation["episode_returns"] != own


def test_runs_that_begin_in_the_same_second_have_directories_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    setup = resolve("ppo", "CartPole-v1", steps=16, seeds=1)
    monkeypatch.setattr(training.datetime, "datetime", Noon)
    found = [training.new_directory(setup) for _ in range(3)] + [training.new_directory(setup, ".tune")]
    assert all(path.is_dir() for path in found) and len(set(found)) == 4
    assert [path.name[16:] for path in found] == [
        "20260101-120000",
        "20260101-120000-1",
        "20260101-120000-2",
        "20260101-120000.tune",
    ]


class Noon(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 1, 12)


@pytest.mark.thorough
def test_evaluating_touches_nothing_but_the_evaluation(copy):
    """A run may be evaluated while it trains: points later than its newest checkpoint must stay."""
    with open(copy / "metrics.jsonl", "a") as file:
        file.write(json.dumps(Run(copy).rows[-1] | {"steps": 999}) + "\n")
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    score = training.evaluate(copy, episodes=3, seed=1)
    after = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert [path.name for path in after if before.get(path) != after[path]] == ["evaluation.json", "sweep.png"]
    assert score.seeds == 2  # of the best of the two settings
    assert Run(copy).evaluation["episodes"] == 3


def test_a_finished_run_may_be_resumed(copy):
    before = newest(copy).read_bytes()
    (copy / "evaluation.json").unlink()
    training.resume(copy, display="quiet")
    assert newest(copy).read_bytes() == before
    assert (copy / "evaluation.json").exists()


@pytest.mark.parametrize("size", [0, 1000, -1])
def test_a_truncated_checkpoint_falls_back_to_the_one_before(copy, whole_run, size):
    damaged = newest(copy)
    damaged.write_bytes(damaged.read_bytes()[:size])
    display = Script()
    training.resume(copy, display=display)
    assert any("not a whole Forage checkpoint" in n and "The one before it is whole" in n for n in display.notes)
    assert differing_files(newest(copy), newest(whole_run.directory)) == []
    assert [row["steps"] for row in Run(copy).rows] == [row["steps"] for row in whole_run.rows]


def test_without_a_whole_checkpoint_it_says_so(copy):
    for path in Run(copy).checkpoints:
        path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ForageError, match=r"160\.npz is not a whole Forage checkpoint"):
        training.resume(copy, display="quiet")


def test_a_damaged_checkpoint_never_pushes_out_a_whole_one(copy):
    """Its name is later than those that are saved after going back to the one before."""
    newest(copy).write_bytes(b"damaged")

    def stop_once(display):
        if display.updates == 4:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(RunInterrupted):
        training.resume(copy, display=Script(stop_once))
    kept = [int(path.stem) for path in Run(copy).checkpoints]
    assert len(kept) == 2
    assert kept[0] == 0 < kept[1] < 160


@pytest.mark.thorough
def test_stopped_before_the_first_checkpoint_it_begins_anew(copy, whole_run):
    for path in Run(copy).checkpoints:
        path.unlink()
    (copy / "agent.npz").unlink()
    training.resume(copy, display="quiet")
    assert differing_files(newest(copy), newest(whole_run.directory)) == []
    assert len(Run(copy).rows) == len(whole_run.rows)


@pytest.mark.thorough
def test_half_a_line_of_metrics_is_forgotten(copy, whole_run):
    newest(copy).unlink()
    text = (copy / "metrics.jsonl").read_text()
    (copy / "metrics.jsonl").write_text(text[:-20])
    training.resume(copy, display="quiet")
    assert [row["steps"] for row in Run(copy).rows] == [row["steps"] for row in whole_run.rows]


@pytest.mark.thorough
def test_what_a_killed_process_left_is_swept_away(copy):
    left = [copy / ".config.json.123.tmp", copy / "checkpoints" / ".000000000160.npz.123.tmp"]
    for path in left:
        path.write_text("half")
    training.resume(copy, display="quiet")
    assert not any(path.exists() for path in left)


def test_two_processes_cannot_train_one_run(copy):
    with lock_directory(copy), pytest.raises(ForageError, match="being trained by another process"):
        training.resume(copy, display="quiet")


@pytest.mark.thorough
def test_interrupted_while_an_evaluation_is_compiled(tmp_path, monkeypatch):
    """The learned state is kept, and the evaluation happens after resuming."""
    options = {"steps": 96, "evaluation_every": 32, "evaluation_episodes": 2, "checkpoint_seconds": 1000}
    play, played = DeviceRunner.evaluate, []

    def interrupt(runner, *arguments, **options):
        played.append(runner.steps)
        if len(played) == 2:
            raise InterruptedCompiling("Stopped by Ctrl-C while a program was compiled.")
        return play(runner, *arguments, **options)

    with (
        monkeypatch.context() as patched,
        pytest.raises(RunInterrupted, match=r"compiled\. Continue with: forage resume"),
    ):
        patched.setattr(DeviceRunner, "evaluate", interrupt)
        small.train(tmp_path / "stopped", **options)
    assert played == [0, 32]
    assert int(newest(tmp_path / "stopped").stem) == 32
    again = training.resume(tmp_path / "stopped", display="quiet")
    assert [row["steps"] for row in again.evaluations] == [0, 32, 64, 96]


@pytest.mark.parametrize("lowered", [True, False])
def test_interrupted_while_the_loop_is_compiled(tmp_path, monkeypatch, lowered):
    over = threading.Event()

    def compile_long(runner):
        if lowered:
            runner._lowered.set()  # or the first state waits for it
        else:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        return Background(lambda: over.wait(60))

    with (
        monkeypatch.context() as patched,
        pytest.raises(RunInterrupted, match="by Ctrl-C while a program was compiled"),
    ):
        patched.setattr(DeviceRunner, "_loop", compile_long)
        patched.setattr(DeviceRunner, "prepare", lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
        began = time.monotonic()
        small.train(tmp_path / "stopped", steps=32)
    assert time.monotonic() - began < 30
    over.set()
    assert training.resume(tmp_path / "stopped", display="quiet").rows[-1]["steps"] == 32


@pytest.mark.thorough
def test_interrupted_in_the_middle_of_a_point(tmp_path, whole_run):
    """Between two points of the curve the sums so far are saved too."""

    def stop(display):
        if display.updates == 5:
            os.kill(os.getpid(), signal.SIGINT)

    whole = small.train(tmp_path / "whole", steps=16 * 250)
    display = Script(stop)
    with pytest.raises(RunInterrupted, match="Stopped by Ctrl-C at step"):
        small.train(tmp_path / "stopped", steps=16 * 250, display=display)
    assert display.stopped
    again = training.resume(tmp_path / "stopped", display="quiet")
    assert differing_files(newest(again.directory), newest(whole.directory)) == []
    assert len(again.rows) == len(whole.rows)
    for left, right in zip(again.rows, whole.rows, strict=True):
        for name in left.keys() - {"seconds", "steps_per_second"}:
            np.testing.assert_allclose(np.array(left[name], float), np.array(right[name], float), rtol=1e-4)


class Disk:
    """A disk that can be full."""

    def __init__(self, monkeypatch):
        self.full, self.fsync, self.write = False, os.fsync, os.write
        monkeypatch.setattr(os, "fsync", self.guard(os.fsync))
        monkeypatch.setattr(os, "write", self.guard(os.write))

    def guard(self, function):
        def guard_call(*arguments):
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return function(*arguments)

        return guard_call


@pytest.mark.thorough
def test_a_full_disk_does_not_stop_a_run(tmp_path, monkeypatch, whole_run):
    disk, seen = Disk(monkeypatch), {}
    # A clock of its own: saves take a share of the time at most, so on a slow disk the next one might never come.
    ticks = itertools.count()
    monkeypatch.setattr(session, "time", types.SimpleNamespace(monotonic=lambda: next(ticks)))

    def at(display):
        if display.updates == 3:
            disk.full = True
        if len(display.notes) == 2 and disk.full:  # a row could not be written, nor a checkpoint
            disk.full, seen["freed"] = False, True
            seen["kept"] = newest(tmp_path / "run").name
            forage.load(tmp_path / "run")  # what was learned before is there

    display = Script(at)
    run = small.train(tmp_path / "run", steps=16 * 200, display=display, checkpoint_seconds=0.0)
    assert seen["freed"], display.notes
    assert all("No space left on device. Training goes on and will try again." in note for note in display.notes)
    assert newest(run.directory).name > seen["kept"]
    assert [row["steps"] for row in run.rows] == [row["steps"] for row in display.rows]  # none lost, none twice
    assert not list(run.directory.rglob("*.tmp"))


@pytest.mark.thorough
def test_a_disk_full_to_the_end_is_an_error_that_loses_nothing(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)

    def at(display):
        disk.full = True

    with pytest.raises(ForageError, match=r"No space left on device\. The run is kept as of step 0 in"):
        small.train(tmp_path / "run", display=Script(at))
    disk.full = False
    run = training.resume(tmp_path / "run", display="quiet")
    assert [row["steps"] for row in run.rows] == list(range(16, 161, 16))


def test_rows_are_written_whole_or_not_at_all(tmp_path, monkeypatch):
    rows, write = CurveRows(tmp_path / "metrics.jsonl"), os.write
    rows.append({"steps": 1})

    def half(descriptor, data):
        if len(data) < 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[: len(data) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(ForageError, match="No space left"):
            rows.append({"steps": 2})
    assert read_rows(rows.path) == [{"steps": 1}]
    rows.append({"steps": 3})
    assert read_rows(rows.path) == [{"steps": 1}, {"steps": 2}, {"steps": 3}]


def test_a_point_is_a_mean_over_episodes_and_updates():
    def report(count, total, updates, loss):
        arrays = [np.array([value, value], np.float32) for value in (count, total, 2 * total, updates, loss)]
        return Report(Episodes(*arrays[:3]), {"updates": arrays[3], "loss": arrays[4]}, np.ones(2), np.ones(2))

    totals = Totals()
    totals.add(report(1, 10.0, 1, 6.0))
    totals = Totals(json.loads(json.dumps(totals.plain())))  # through a checkpoint
    totals.add(report(3, 50.0, 3, 2.0))
    point = totals.point(())
    assert point["return"] == [15.0, 15.0]
    assert point["length"] == [30.0, 30.0]
    assert point["loss"] == [3.0, 3.0]
    empty = Totals()
    empty.add(report(0, 0.0, 0, 0.0))
    assert empty.point(())["return"] == [None, None]


@pytest.mark.thorough
def test_a_film_opens_and_moves(whole_run, tmp_path):
    path, returns = watch(whole_run.directory, tmp_path / "film.gif", episodes=2, steps=15)
    frames = imageio.imread(path)
    assert len(returns) == 2
    assert len(frames) > 5
    assert frames.shape[-1] == 3
    assert len({frame.tobytes() for frame in frames}) > 1
    with pytest.raises(ForageError, match="is none of them"):
        watch(whole_run.directory, tmp_path / "film.png")
    with pytest.raises(ForageError, match="1 episode or more, not 0"):
        watch(whole_run.directory, tmp_path / "film.gif", episodes=0)


@pytest.mark.thorough
def test_runs_are_compared(whole_run, tmp_path):
    greedy = {"evaluation_actions": "greedy"}
    first, second = (small.train(tmp_path / name, **greedy).directory for name in ("first", "second"))
    both, picture = [str(first), str(second)], str(tmp_path / "both.png")
    lines = compare(both, picture)
    assert imageio.imread(tmp_path / "both.png").ndim == 3
    assert lines[0].startswith("first: return") and lines[-1] == picture
    assert any("first and second have the same mean" in line for line in lines)  # the same seeds, the same numbers

    def rewrite(name, change, error):
        text = (second / name).read_text()
        data = json.loads(text)
        change(data)
        (second / name).write_text(json.dumps(data))
        with pytest.raises(ForageError, match=error):
            compare(both, picture)
        (second / name).write_text(text)

    rewrite("config.json", lambda c: c["spec"].update(name="Pong"), "different environments")
    rewrite("config.json", lambda c: c.update(steps=99), "different numbers of steps .160, 99.")
    rewrite("evaluation.json", lambda e: e.update(asked="sampled", actions="sampled"), "kinds of actions")
    rewrite("evaluation.json", lambda e: e["return"].__setitem__(0, None), "no finite score for 1 of its 2 seeds")
    with pytest.raises(ForageError, match="is a sweep"):
        compare([str(whole_run.directory), str(whole_run.directory)], picture)
    (second / "evaluation.json").unlink()
    assert "second: return not evaluated" in compare(both, picture)
    (second / "metrics.jsonl").write_text("")
    with pytest.raises(ForageError, match="no metrics yet"):
        compare(both, picture)


def test_what_is_said_of_two():
    good, bad = np.array([10.0, 11, 12, 10, 11]), np.array([1.0, 2, 3, 2, 1])
    said = comparison_words("a", good, "b", bad)
    assert (
        said.startswith("a is better than b: its mean return over all seeds is 9 higher (95 % CI ")
        and "probability 1.00" in said
    )
    said = comparison_words("a", good, "b", good - np.array([2, -2, 0, 1, 0.0]))
    assert (
        said.startswith("Inconclusive: a's mean return over all seeds is 0.2 higher than b's (95 % CI ")
        and "5 seeds each)" in said
    )
    assert "which is not significant. One of a's seeds beats one of b's with probability 0.50" in said
    assert said.endswith("If that difference is real, not even 200 seeds each would confirm it in 4 of 5 experiments.")
    # Of so few seeds, one far off: a bootstrap of them would be sure.
    few = comparison_words("a", np.array([0.97, 0.96, 0.97, 0.96, 0.96]), "b", np.array([0.6, 0.94, 0.9, 0.94, 0.95]))
    assert few.startswith("Inconclusive")
    assert "One seed says nothing" in comparison_words("a", good[:1], "b", bad)
    assert "the same mean, 5, over 2 and 3 seeds" in comparison_words(
        "a", np.array([5.0, 5]), "b", np.array([4.0, 5, 6])
    )


def test_a_run_stands_for_its_directory(whole_run):
    assert Path(whole_run) == whole_run.directory
    assert forage.load(whole_run, seed=3, learning_rate=1e-3).member == {"learning_rate": 1e-3, "seed": 3}


@pytest.mark.thorough
def test_tensorboard_gets_the_curve(tmp_path, whole_run):
    pytest.importorskip("tensorboardX", reason="the extra tensorboard is not installed")
    run = small.train(tmp_path / "run", extras=["tensorboard"], steps=48)  # the old name of track
    events = list((run.directory / "tensorboard").glob("events.out.tfevents.*"))
    assert events
    data = b"".join(path.read_bytes() for path in events)
    assert b"run/steps_per_second" in data
    assert b"updates/1" in data


def rows(number):
    return [
        {
            "steps": 100 * (i + 1),
            "seconds": 1.0,
            "steps_per_second": 12345.6,
            "return": [None, 3.0 * i, 5.0 * i],
            "length": [10.0] * 3,
            "episodes": [1.0] * 3,
            "updates": [4.0] * 3,
            "entropy": [0.5, None, 0.25],
            "newest": [None, 3.0 * i, 5.0 * i],
            "quiet_since": 100 if i == 2 else None,
        }
        for i in range(number)
    ]


def test_the_live_display_draws():
    from rich.console import Console

    text = io.StringIO()
    live = progress.Live(Console(file=text, force_terminal=True, width=110, color_system="truecolor"))
    live.start("ppo on Cart[bold]Pole, 3 seeds", ["in runs/[red]x"], 300)
    for row in rows(3):
        live.row(row)
        live.update(row, 75.0)
    live.live.refresh()
    live.update(rows(1)[0] | {"newest": [None, None, None], "quiet_since": 0}, float("nan"))
    live.live.refresh()
    live.note("a note with [brackets]")
    live.update(rows(3)[-1], 3.0)
    live.stop()
    live.finish({}, ["ppo: return 12.3 [10.0, 14.0] (3 seeds)"])
    out = text.getvalue()
    for expected in ("Cart[bold]Pole", "runs/[red]x", "300 / 300 steps", "12,346 steps/s", "1 min 15 s left", "? left"):
        assert expected in out
    assert "none has ended since step 100" in out and "no episode has ended since step 0" in out
    for expected in ("return", "entropy 0.375", "[brackets]", "[10.0, 14.0]", "▁"):
        assert expected in out


def test_plain_lines(capsys):
    plain = progress.Plain()
    plain.start("title", ["in x"], 3000)
    for row in rows(30):
        plain.row(row)
    plain.note("note")
    plain.stop()
    plain.finish({}, ["done"])
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "title"
    assert len([line for line in out if "steps/s" in line]) == 11  # at each tenth
    assert out[-2:] == ["note", "done"]
    assert "\x1b" not in "".join(out)


def test_displays_by_name(monkeypatch):
    assert type(progress.make_display("auto")) is progress.Plain  # no terminal here
    own = Script()
    assert progress.make_display(own) is own
    with pytest.raises(ForageError, match="auto, live, notebook, plain, json, notes, quiet, not 'loud'"):
        progress.make_display("loud")


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.2, "4 s"), (200, "3 min 20 s"), (7500, "2 h 5 min"), (float("nan"), "?")]
)
def test_durations(seconds, text):
    assert progress.duration(seconds) == text
