"""A run keeps the agents of its best evaluation and of every N steps, and stops at a score."""

import errno
import os
import shutil

import numpy as np
import pytest
import small
from small import differing_files

import forage
from forage.core import checkpoint
from forage.core.types import ForageError
from forage.runs.run import Run

small.keep_compiled()
KEEP = {"evaluation_every": 32, "keep": "best", "keep_every": 48}


def names(run):
    return sorted(path.name for path in (run.directory / "kept").iterdir())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small.train(tmp_path_factory.mktemp("kept") / "run", checkpoint_seconds=0, **KEEP)


def test_the_best_and_every_n_are_kept(run):
    assert names(run) == ["000000000048.npz", "000000000096.npz", "000000000144.npz", "best.npz"]
    means = {row["steps"]: np.mean(row["return"]) for row in run.evaluations}
    header = checkpoint.read_header(run.directory / "kept" / "best.npz")
    assert header["score"] == pytest.approx(max(means.values())) == pytest.approx(means[header["steps"]])
    kept = checkpoint.arrays(run.directory / "kept" / "000000000144.npz")
    assert list(kept) == list(checkpoint.arrays(run.directory / "agent.npz"))


def test_a_kept_agent_is_loaded_and_evaluated(run, capsys):
    weight = checkpoint.arrays(run.directory / "kept" / "000000000096.npz")
    policy = forage.load(run.directory, seed=7, checkpoint=96)
    for name, leaf in checkpoint.named_leaves(policy.state):
        assert np.array_equal(leaf, weight[name][1])
    before = run.evaluation
    for which in ("best", "96"):
        words = ("evaluate", run.directory, "--episodes", "2", "--checkpoint", which)
        code, out, err = small.run_command(capsys, *words)
        assert code == 0 and "steps: return" in out, err
    assert run.evaluation == before
    assert run.kept_evaluations["96"]["steps"] == 96 and list(run.kept_evaluations) == ["best", "96"]
    with pytest.raises(ForageError, match=r"has kept no checkpoint 50; it has 48, 96, 144, best\."):
        forage.load(run.directory, checkpoint=50)
    code, _, err = small.run_command(capsys, "evaluate", run.directory, "--checkpoint", "last")
    assert code == 2 and "--checkpoint is a whole number" in err


def test_files_that_a_crash_left_empty_and_a_disk_that_cannot_be_written(run, tmp_path, monkeypatch):
    there = shutil.copytree(run.directory, tmp_path / "run")
    for name in ("evaluation.json", "metrics.jsonl", "checkpoints.json"):
        (there / name).write_text("")
    assert Run(there).evaluation is None and Run(there).rows == [] and Run(there).kept_evaluations == {}
    assert forage.load(there, seed=7).act(np.zeros(4, np.float32)) in (0, 1)
    score = forage.evaluate(there, episodes=2)  # the curve is drawn of no point

    def replace(*paths):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("forage.core.storage.archives.os.replace", replace)
    with pytest.raises(ForageError, match=r"could not be kept\. Could not save .*evaluation\.json: Read-only") as said:
        forage.evaluate(there, episodes=2)
    assert f"return {score}" in str(said.value)


@pytest.mark.thorough
def test_a_film_shows_a_kept_agent(run, capsys, monkeypatch):
    monkeypatch.setattr("forage.studies.watch.default_suffix", lambda: ".gif")
    code, out, err = small.run_command(capsys, "watch", run.directory, "--checkpoint", "96", "--steps", "40")
    assert code == 0 and str(run.directory / "agent-96.gif") in out, err
    policy = forage.load(run.directory, checkpoint=96)
    _, returns = forage.watch(run, run.directory / "other.gif", steps=40, checkpoint=96)
    assert f"(returns {returns[0]:g})" in out
    assert [leaf.tolist() for leaf in small.jax.tree.leaves(policy.state.network)] != [
        leaf.tolist() for leaf in small.jax.tree.leaves(forage.load(run.directory).state.network)
    ]
    code, _, err = small.run_command(capsys, "watch", run.directory, "--checkpoint", "50")
    assert code == 2 and "has kept no checkpoint 50; it has 48, 96, 144, best." in err


def test_what_is_kept_is_the_same_after_a_stop(run, tmp_path):
    def stop(view):
        if view.steps >= 80:
            view.stop("half of it")

    stopped = small.train(tmp_path / "run", callbacks=[stop], **KEEP)
    forage.resume(stopped.directory, display="quiet")
    assert differing_files(stopped.checkpoints[-1], run.checkpoints[-1]) == []
    assert names(stopped) == names(run)
    for name in names(run):
        assert differing_files(stopped.directory / "kept" / name, run.directory / "kept" / name) == []


@pytest.mark.parametrize(
    "environment", ["CartPole-v1", pytest.param("gymnasium:CartPole-v1", marks=pytest.mark.thorough)]
)
def test_a_run_stops_at_a_score(environment, tmp_path, capsys):
    name, _, settings = small.AGENTS["ppo"]
    command = ["train", name, environment, *small.words(settings), "--seeds", "2", "--steps", "160", "--plain"]
    command += ["--evaluation-episodes", "2", "--evaluation-every", "48", "--directory", tmp_path / "run"]
    code, out, err = small.run_command(capsys, *command, "--stop-at", "1")
    assert code == 0, err
    assert "stopped after 48 of 160 steps: an evaluation scored" in out
    run = Run(tmp_path / "run")
    assert run.evaluation is not None and run.evaluation["steps"] == 48
    assert "and 1 was to be reached" in run.history[0]["reason"]
    assert run.rows[-1]["steps"] == 48


def test_what_cannot_be_is_refused(tmp_path):
    for asked, sentence in (
        ({"stop_at": 3.0}, r"--stop-at goes by evaluations"),
        ({"keep": "best"}, r"--keep best goes by evaluations"),
        ({"keep": "all"}, r"can keep the best of its evaluations \(best\), not 'all'"),
        ({"keep_every": 0}, r"are 1 or more, not 0"),
        ({"stop_at": float("nan"), "evaluation_every": 16}, r"a number, not nan"),
    ):
        with pytest.raises(ForageError, match=sentence):
            small.train(tmp_path / "run", **asked)
    assert not (tmp_path / "run").exists()


def test_a_run_that_kept_nothing_says_so(tmp_path):
    run = small.train(tmp_path / "run")
    with pytest.raises(ForageError, match=r"has kept no checkpoints; a run does that with --keep best"):
        forage.evaluate(run.directory, checkpoint="best")
