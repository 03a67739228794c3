"""Studies: designs, cells that processes share, tables, and a small one from the command line."""

import csv
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import small

from forage.core.types import ForageError
from forage.runs.locking import DirectoryInUse, lock_directory
from forage.studies.study import running
from forage.studies.study.design import Cell, check_pairs, parse_words, read_design, store_design
from forage.studies.study.pictures import draw_study
from forage.studies.study.running import Work, is_complete, lock_place, parse_jobs, train_cells
from forage.studies.study.study import study_directory, study_sentences, write_tables
from forage.studies.study.summary import OWN_SCORES, cautions, collect_results, find_scale
from forage.studies.study.tables import escape_latex, latex, markdown

TWO = {"agents": ["ppo", "dqn"], "environments": ["CartPole-v1", "Acrobot-v1"], "seeds": 2, "steps": 100}
SPACES = {"observation_space": {}, "action_space": {}, "reward_names": []}


def fill_cell(directory, cell, value, steps=100, at=100, bounds=None):
    """Write a cell's run as training leaves it."""
    place = directory / cell.key
    place.mkdir(parents=True, exist_ok=True)
    config = {"agent": {"part": "ppo"}, "environment": {"id": cell.task}, "steps": steps, "seeds": list(cell.seeds)}
    config |= {"sweep": {}, "spec": {"name": cell.task, **SPACES}, "memory": {"part": "rollout"}}
    (place / "config.json").write_text(json.dumps(config))
    (place / "metrics.jsonl").write_text(json.dumps({"steps": at, "return": [value] * len(cell.seeds)}) + "\n")
    found = {"return": [value] * len(cell.seeds), "steps": at, "return_range": bounds}
    (place / "evaluation.json").write_text(json.dumps(found))


def test_words_and_files_make_cells(tmp_path):
    assert parse_words(["ppo,sac", "x", "Hopper-v5,", "Walker2d-v5", "x", "5"]) == {
        "agents": ["ppo", "sac"],
        "environments": ["Hopper-v5", "Walker2d-v5"],
        "seeds": 5,
    }
    assert parse_words(["ppo", "x", "A", "x", "3,"])["seeds"] == [3] and "seeds" not in parse_words(["ppo x A"])
    (tmp_path / "mine.toml").write_text("""
title = "Wide and narrow"
seeds = [1, 2, 3]
seeds_per_run = 2
steps = "1k"
environments = ["CartPole-v1"]
[agents.ppo]
[agents."ppo, wide"]
steps = 500
agent = {part = "ppo", hidden_sizes = [8]}
""")
    design = read_design(tmp_path / "mine.toml")
    assert [cell.key for cell in design.cells()] == [
        "runs/ppo/CartPole-v1/seed-1-2",
        "runs/ppo/CartPole-v1/seed-3",
        "runs/ppo-wide/CartPole-v1/seed-1-2",
        "runs/ppo-wide/CartPole-v1/seed-3",
    ]
    first, last = (design.cells()[at].arguments() for at in (0, -1))
    assert (first["agent"].name, first["steps"], first["seeds"]) == ("ppo", "1k", [1, 2])
    assert (last["agent"].options, last["steps"], last["seeds"]) == ({"hidden_sizes": (8,)}, 500, [3])
    assert str(study_directory(tmp_path / "mine.toml", design)) == "runs/mine"
    assert str(study_directory(TWO, read_design(TWO))) == "runs/ppo+dqn-in-CartPole-v1+Acrobot-v1"


def test_a_study_may_grow_and_not_change(tmp_path):
    store_design(tmp_path, read_design(TWO))
    assert read_design(tmp_path) == read_design(TWO)
    store_design(tmp_path, read_design(TWO | {"seeds": 3, "agents": ["ppo", "dqn", "a2c"]}))
    assert len(read_design(tmp_path).cells()) == 18
    with pytest.raises(
        ForageError, match="a study with another steps for ppo in CartPole-v1; name another --directory"
    ):
        store_design(tmp_path, read_design(TWO | {"steps": 200}))


WRONG = [
    ({"agents": []}, 'names no agents, as in agents = ."ppo".'),
    ({"agents": ["ppo", "ppo"]}, "agents in The study has ppo twice"),
    ({"agents": ["ppoo"]}, "Unknown agent 'ppoo'"),
    ({"agents": {"a/b": {"agent": "ppo"}, "a-b": {"agent": "ppo"}}}, "'a/b' and 'a-b', whose directories would be one"),
    ({"agents": 3}, "agents in The study is a list of names, or a table"),
    ({"agents": {"ppo": {"lr": 1}}}, "'lr', which is no setting of a run"),
    ({"agent": "ppo"}, "The study has 'agent'; a study has several: agents"),
    ({"stepz": 3}, "'stepz'.*Did you mean 'steps'"),
    ({"sweep": {"clip": [1, 2]}}, "has a sweep; name an agent for each"),
    ({"seeds": 0}, "Seeds are one or more different whole numbers"),
    ({"seeds_per_run": 0}, "seeds_per_run in The study is 1 or more"),
    ({"title": 3}, "title in The study is a text, not 3"),
    ({"environments": {"A": {"low": 3}}}, "A in The study needs a number low, .* and a higher one, high"),
    ({"environments": {"A": {"low": 3, "high": 2}}}, "needs a number low"),
]


@pytest.mark.parametrize(("changed", "said"), WRONG, ids=[said[:40] for _, said in WRONG])
def test_a_design_that_cannot_be(changed, said):
    with pytest.raises(ForageError, match=said):
        read_design(TWO | changed)


def test_an_agent_that_cannot_learn_there_is_refused_before_any_run():
    with pytest.raises(ForageError, match="sac in CartPole-v1: SAC needs a continuous, bounded action space"):
        check_pairs(read_design({"agents": ["sac"], "environments": ["CartPole-v1"]}))
    with pytest.raises(ForageError, match="ppo in CartPole-v1: Steps from one evaluation to the next are 1 or more"):
        check_pairs(read_design({"agents": ["ppo"], "environments": ["CartPole-v1"], "evaluation_every": 0}))


@dataclasses.dataclass
class Result:
    score: str = "1.0"


def test_processes_share_cells(tmp_path, monkeypatch):
    """A process trains free cells, waits for those that another one holds, and takes them over once they are free."""
    cells, order = read_design(TWO).cells(), []
    held = lock_directory(lock_place(tmp_path, cells[0]))
    held.__enter__()

    def train(cell, place, work):
        order.append(cell)
        if cell == cells[1]:
            raise ForageError("It broke.")
        if cell == cells[2] and order.count(cell) == 1:  # resumed by hand at this time
            raise DirectoryInUse("in use")
        fill_cell(tmp_path, cell, 1.0)
        return Result()

    def pause():
        if len(order) >= len(cells):
            held.__exit__(None, None, None)

    monkeypatch.setattr(running, "train_cell", train)
    monkeypatch.setattr(running, "pause", pause)
    said = []
    failed = train_cells(cells, tmp_path, Work(note=said.append))
    assert order == [*cells[1:], cells[2], cells[0]] and failed == {cells[1].key: "It broke."}
    assert [one.split()[0] for one in said] == ["[0/8]", *(f"[{done}/8]" for done in range(1, 8))]
    assert said[0].endswith("[0/8] ppo in CartPole-v1, seed 1: It broke.") and is_complete(tmp_path / cells[0].key)
    assert train_cells([cells[0]], tmp_path, Work()) == {} and len(order) == 9  # nothing is left to do
    train_cells([cells[1]], tmp_path, Work())  # a process that begins later tries again
    assert len(order) == 10


def test_a_cell_is_resumed_from_where_it_is(tmp_path, monkeypatch):
    (cell,) = read_design(TWO | {"agents": ["ppo"], "environments": ["CartPole-v1"], "seeds": 1}).cells()
    calls = []
    monkeypatch.setattr(running.training, "resume", lambda place, **options: calls.append(("resume", options)))
    monkeypatch.setattr(running.training, "start_run", lambda given: calls.append(("start", given)))
    running.train_cell(cell, tmp_path, Work())
    fill_cell(tmp_path, cell, 1.0, at=50)
    running.train_cell(cell, tmp_path / cell.key, Work(anyway=True))
    assert calls[0][0] == "start" and calls[0][1]["seeds"] == [0] and calls[0][1]["directory"] == str(tmp_path)
    assert calls[1] == ("resume", {"display": "quiet", "anyway": True})
    assert not is_complete(tmp_path / cell.key)  # 50 of 100 steps


def test_the_tables_hold_numbers_worked_out_by_hand(tmp_path):
    design = read_design(TWO | {"environments": {"CartPole-v1": {"low": 0, "high": 10}, "Acrobot-v1": {}}})
    values = {"ppo": [[2, 4], [-300, -100]], "dqn": [[6, 8], [-200, -200]]}
    for cell in design.cells():
        value = values[cell.agent][cell.task == "Acrobot-v1"][cell.seeds[0]]
        fill_cell(tmp_path, cell, value, bounds=[-500, 0] if cell.task == "Acrobot-v1" else None)
    result = collect_results(design, tmp_path)
    np.testing.assert_allclose(result.matrix("ppo"), [[0.2, 0.4], [0.4, 0.8]])
    np.testing.assert_allclose(result.matrix("dqn"), [[0.6, 0.6], [0.8, 0.6]])
    found = {agent: {name: one.value for name, one in each.items()} for agent, each in result.aggregates().items()}
    assert found["ppo"] == pytest.approx({"IQM": 0.4, "mean": 0.45, "median": 0.45, "optimality gap": 0.55})
    assert found["dqn"] == pytest.approx({"IQM": 0.6, "mean": 0.65, "median": 0.65, "optimality gap": 0.35})
    assert result.improvements()[0][:2] == ("dqn", "ppo")
    assert result.improvements()[0][2].value == pytest.approx((1 + 0.5) / 2)  # of 4 pairs each: 4, and 2
    assert result.task_scores()["ppo", "Acrobot-v1"].value == -200 and result.scales["Acrobot-v1"].low == -500
    low = result.task_scores()["ppo", "Acrobot-v1"].low
    assert low == -500  # Student's interval of two seeds does not leave the range of the return
    assert "With 2 seeds, bootstrap intervals" in cautions(result)[0]

    page, paper, scores, aggregates = write_tables(result)
    rows = list(csv.DictReader(scores.read_text().splitlines()))
    assert len(rows) == 8 and rows[0] == {
        "agent": "ppo",
        "environment": "CartPole-v1",
        "seed": "0",
        "steps": "100",
        "return": "2.0",
        "normalised": "0.2",
        "run": "runs/ppo/CartPole-v1/seed-0",
    }
    line = next(row for row in csv.reader(aggregates.read_text().splitlines()) if row[:3] == ["dqn", "", "IQM"])
    assert float(line[3]) == pytest.approx(0.6) and line[-1] == "2"
    assert "**0.600 " in page.read_text() and r"\textbf{0.600 [" in paper.read_text()
    assert any(line.startswith("  dqn    0.600") for line in study_sentences(result))


@pytest.mark.thorough
def test_pictures_are_of_what_is_there(tmp_path):
    for cell in read_design(TWO).cells():
        fill_cell(tmp_path, cell, 1.0 + cell.seeds[0])
    names = {path.name: path for path in draw_study(collect_results(read_design(TWO), tmp_path))}
    assert set(names) == {f"{name}.{kind}" for name in ("aggregates", "profiles", "curves") for kind in ("pdf", "svg")}
    assert names["curves.pdf"].read_bytes().startswith(b"%PDF") and "<svg" in names["profiles.svg"].read_text()


def test_what_is_missing_is_said_and_not_filled(tmp_path):
    design = read_design(TWO | {"seeds": 2})
    for cell in design.cells():
        if cell.agent == "ppo" or cell.seeds != (1,):
            fill_cell(
                tmp_path, cell, 1.0 + cell.seeds[0], at=100 if cell.agent == "ppo" else 50 + 50 * (cell.task < "B")
            )
    result = collect_results(design, tmp_path, {"runs/dqn/CartPole-v1/seed-1": "It broke."})
    assert list(result.aggregates()) == ["ppo"] and result.matrix("dqn") is None
    said = cautions(result)
    assert result.scales["CartPole-v1"].source == OWN_SCORES and "compare its agents and nothing beyond it" in said[0]
    assert "dqn: not all runs are complete, so there is no aggregate." in said
    assert said[-1] == "dqn/CartPole-v1/seed-1 failed: It broke."
    assert "(1 of 2)" in markdown(result) and " -- " in latex(result)


def test_scales_are_of_the_file_of_atari_or_of_the_environment():
    assert find_scale("A", {"low": 1, "high": 3}, [2.0]).high == 3
    assert find_scale("ALE/Pong-v5", {}, [2.0])[:2] == (-20.7, 14.6)
    assert find_scale("mine", {"environment": {"id": "ALE/Pong-v5"}}, [2.0])[:2] == (-20.7, 14.6)
    assert find_scale("A", {}, [2.0, 5.0], (-np.inf, np.inf))[:2] == (2.0, 5.0)
    assert find_scale("A", {}, [2.0, 5.0], (0.0, 9.0))[:2] == (0.0, 9.0)
    assert find_scale("A", {}, [2.0])[:2] == (2.0, 3.0)  # one score has no range


def test_latex_prints_names_as_they_are():
    assert escape_latex("50 % of a_b & -3.5 [-4, 1e-5] ppo-wide") == r"50 \% of a\_b \& $-$3.5 [$-$4, 1e-5] ppo-wide"


def test_jobs_in_words():
    assert parse_jobs(3) == (3, False) and parse_jobs("ray:4") == (4, True)
    for wrong in ("0", "many", "ray:", "spark:3", -1):
        with pytest.raises(ForageError, match="Jobs are a number of processes, such as 4, or ray:4"):
            parse_jobs(wrong)


@pytest.mark.thorough
def test_a_study_that_is_killed_goes_on_in_two_processes(tmp_path):
    """The runs are those of a study that was never killed."""
    (tmp_path / "two.toml").write_text(
        'environments = ["CartPole-v1"]\nseeds = 2\nsteps = 4000\nevaluation_episodes = 2\ncheckpoint_seconds = 0\n'
        "[agents.ppo]\nagent = {part = 'ppo', num_envs = 2, rollout_length = 8, minibatches = 2, epochs = 1}\n"
    )
    command = [sys.executable, "-m", "forage", "study", "two.toml", "--jobs", "2"]
    process = subprocess.Popen([*command, "--directory", "killed"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    until = time.monotonic() + small.PATIENCE
    while not list(tmp_path.glob("killed/runs/ppo/CartPole-v1/*/checkpoints/*.npz")) and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run([*command, "--directory", "killed"], cwd=tmp_path, check=True, timeout=small.PATIENCE)
    subprocess.run([*command, "--directory", "whole"], cwd=tmp_path, check=True, timeout=small.PATIENCE)
    for seed in (0, 1):
        runs = [tmp_path / name / f"runs/ppo/CartPole-v1/seed-{seed}" for name in ("killed", "whole")]
        one, two = (json.loads((run / "evaluation.json").read_text())["return"] for run in runs)
        assert one == two
    assert (tmp_path / "killed/scores.csv").read_text() == (tmp_path / "whole/scores.csv").read_text()


def test_cells_say_their_seeds():
    assert str(Cell("ppo", "A", (0, 1, 2), {})) == "ppo in A, seeds 0, 1, 2" and str(
        Cell("ppo", "A", (3,), {})
    ).endswith("seed 3")
