"""The list of runs, from directories as training leaves them."""

import json
import os

import pytest

from forage.cli import entry
from forage.core.types import ForageError
from forage.runs.listing import list_runs, run_table
from forage.runs.locking import DirectoryInUse, is_locked, lock_directory, try_lock

SPACES = {"observation_space": {}, "action_space": {}, "reward_names": []}


@pytest.fixture
def make_run(tmp_path):
    """Make a run's directory by hand."""

    def make(name, returns=(), agent="ppo", environment="CartPole-v1", at=100, day=1, sweep=None, events=(), **stored):
        directory = tmp_path / name
        (directory / "checkpoints").mkdir(parents=True)
        seeds = [0, 1] if sweep or not returns else list(range(len(returns)))
        config = {"agent": {"part": agent}, "environment": {"id": environment, **stored}, "steps": 100, "seeds": seeds}
        config |= {"sweep": sweep or {}, "spec": {"name": environment, **SPACES}}
        (directory / "config.json").write_text(json.dumps(config))
        row = {"steps": at, "return": [1.0] * len(seeds)}
        (directory / "metrics.jsonl").write_text(json.dumps(row) + '\n{"steps": 1')  # half a line of a crash
        if returns:
            (directory / "evaluation.json").write_text(json.dumps({"return": list(returns), "steps": at}))
        (directory / "history.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        for path in directory.iterdir():
            os.utime(path, (day * 86400.0, day * 86400.0))
        return directory

    return make


def test_each_run_says_what_and_how_far_it_is(make_run, tmp_path):
    make_run("a", [1.0, 3.0], day=4)
    make_run("b", agent="dqn", at=40, day=3)  # without a score
    make_run(
        "deep/c", [5.0, None], agent="sac", environment="Pendulum-v1", wrap=["time-limit:9"], options={"g": 2}, day=2
    )
    make_run("d", [7.0], at=60, events=[{"event": "stopped", "steps": 60, "reason": "--stop-at"}], day=1)
    make_run("e", [7.0], at=60)  # evaluated by hand, and not over
    (make_run("f") / "config.json").write_text("[]")
    make_run("a/checkpoints/no", [9.0])
    rows = {row.directory.removeprefix(f"{tmp_path}/"): row for row in list_runs(tmp_path)}
    assert list(rows) == ["f", "a", "b", "deep/c", "d", "e"]
    states = {name: row.state for name, row in rows.items()}
    assert states == {"a": "done", "b": "stopped", "deep/c": "done", "d": "done", "e": "stopped", "f": "damaged"}
    assert (rows["a"].score.value, rows["a"].seeds, rows["b"].steps, rows["b"].score) == (2.0, 2, 40, None)
    assert rows["deep/c"].score is None and rows["deep/c"].environment == "Pendulum-v1 g=2 +time-limit:9"
    assert "is not the configuration of a run" in rows["f"].why
    with lock_directory(tmp_path / "b"):
        (row,) = list_runs(tmp_path, agent="DQ")
        assert row.state == "running"


def test_a_sweep_shows_its_best_setting(make_run, tmp_path):
    make_run("s", [1.0, 2.0, 5.0, 6.0], sweep={"clip": [0.1, 0.2]})
    (row,) = list_runs(tmp_path)
    assert (row.setting, row.score.value) == ("clip=0.2", 5.5)
    assert run_table([row])[1].split("  ")[0] == "ppo" and "with clip=0.2" in run_table([row])[1]


def test_filters_and_order(make_run, tmp_path):
    make_run("low", [1.0], day=1)
    make_run("high", [9.0], agent="dqn", environment="Acrobot-v1", day=400)
    make_run("none", day=500)

    def names(**asked):
        return [row.directory.rpartition("/")[2] for row in list_runs(tmp_path, **asked)]

    assert names() == ["none", "high", "low"] and names(reverse=True) == ["low", "high", "none"]
    assert names(sort="score") == ["high", "low", "none"] and names(sort="score", reverse=True) == [
        "low",
        "high",
        "none",
    ]
    assert names(sort="agent") == ["high", "low", "none"] and names(environment="acro") == ["high"]
    assert (
        names(state="stopped") == ["none"]
        and names(above=2.0) == ["high"]
        and names(since="1971-01-01")
        == [
            "none",
            "high",
        ]
    )
    with pytest.raises(ForageError, match=r"Runs are sorted by .*'scor'. Did you mean 'score'"):
        names(sort="scor")


def test_the_command(make_run, tmp_path, capsys):
    make_run("one", [1.0, 3.0])
    for words, said in (([], "ppo    CartPole-v1  done   100"), (["--json"], '"state": "done"')):
        with pytest.raises(SystemExit):
            entry.main(["runs", str(tmp_path), *words])
        assert said in capsys.readouterr().out
    with pytest.raises(SystemExit):
        entry.main(["runs", str(tmp_path), "--agent", "dqn"])
    assert capsys.readouterr().out == f"No such run in {tmp_path}.\n"


def test_a_lock_is_tried_and_looked_at(tmp_path):
    assert not is_locked(tmp_path)
    with try_lock(tmp_path) as held:
        assert held and is_locked(tmp_path)
        with try_lock(tmp_path) as again:
            assert not again
        with pytest.raises(DirectoryInUse, match="is being trained by another process"), lock_directory(tmp_path):
            pass
    assert not is_locked(tmp_path)
