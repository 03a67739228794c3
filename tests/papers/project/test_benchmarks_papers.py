"""Benchmarks of papers' bonuses: their cells, tables and costs (`test_benchmarks`)."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
from test_benchmarks import from_benchmarks

from forage.cli.entry import as_command
from forage.runs import display as progress


@pytest.mark.thorough
def test_a_cell_of_exploration(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exploration = from_benchmarks("exploration", monkeypatch)
    monkeypatch.setattr(exploration, "RESULTS", tmp_path)
    monkeypatch.setattr(exploration, "RUNS", tmp_path / "runs")
    quick = {"hidden_sizes": (8,), "num_envs": 2, "batch_size": 4, "learning_starts": 64}
    valley = exploration.PROBLEMS["valley"]._replace(steps=500, options=quick)
    monkeypatch.setitem(exploration.PROBLEMS, "valley", valley)
    monkeypatch.setattr(exploration, "SEEDS", [0, 1])
    assert exploration.found("counts", "valley") is None
    exploration.one_cell("counts", "valley")
    cell = exploration.found("counts", "valley")
    assert cell["seeds"] == [0, 1] and len(cell["return_by_seed"]) == 2
    assert cell["config"]["rewards"]["part"] == "counts" and all(places > 0 for places in cell["places_visited"])
    assert not (tmp_path / "runs" / "valley--counts").exists()
    # What was stopped says so in a sentence, goes on where it was, and comes to the same.
    whole = exploration.measure("counts", "valley")
    path = exploration.run_path("counts", "valley")
    shutil.rmtree(path)
    with monkeypatch.context() as patched, pytest.raises(SystemExit, match="130"):
        patched.setattr(progress.Notes, "update", lambda *_: signal.raise_signal(signal.SIGTERM))
        as_command(lambda: exploration.one_cell("counts", "valley"))
    assert re.fullmatch(r"Stopped by SIGTERM at step \d+\. Continue with: .*\n", capsys.readouterr().err)
    begun = (path / "config.json").stat().st_mtime_ns
    assert exploration.measure("counts", "valley") | {"seconds": whole["seconds"]} == whole
    assert (path / "config.json").stat().st_mtime_ns == begun  # it was not begun anew
    # A run of other settings is set aside, and it is said.
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | {"seeds": [0, 2]}))
    assert exploration.measure("counts", "valley") | {"seconds": whole["seconds"]} == whole
    assert "was made with other settings (seeds" in capsys.readouterr().err
    # Once more on fresh seeds: beside the first, which stays.
    monkeypatch.setattr(exploration, "FRESH", [5, 6])
    exploration.one_cell("counts", "valley", fresh=True)
    assert exploration.found("counts", "valley", fresh=True)["seeds"] == [5, 6]
    assert exploration.found("counts", "valley") == cell
    exploration.one_cell("mex", "valley")
    assert "continuous, bounded action space" in exploration.found("mex", "valley")["reason"]
    table = exploration.table()
    assert "| counts | rewards | 0% [0%, 0%] | 0% [0%, 0%] |" in table and "Do not fit: mex." in table
    # A cell from before a default changed is shown as such, and run again; a setting that is new since is none.
    assert exploration.state("counts", "valley") == "done"
    path = exploration.results_of("valley")
    cells = json.loads(path.read_text())
    then = cells["counts"]
    for change, state in (({}, "done"), ({"weight": 0.123}, "old"), ({"gone": 1}, "old")):
        rewards = {name: value for name, value in then["config"]["rewards"].items() if name != "normalise"} | change
        other = then | {"config": then["config"] | {"rewards": rewards}}
        path.write_text(json.dumps(cells | {"counts": other}))
        assert exploration.state("counts", "valley") == state
        assert ("| counts * |" in exploration.table()) == (state == "old")
    # A cell of other settings is not this one.
    monkeypatch.setitem(exploration.PROBLEMS, "valley", valley._replace(options=quick | {"discount": 0.5}))
    assert exploration.found("counts", "valley") is None


def test_pages_judge_by_welch_over_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    efficiency, presets, offline = (from_benchmarks(name, monkeypatch) for name in ("efficiency", "presets", "offline"))
    for module in (efficiency, presets, offline):
        page = module.RESULTS.with_name(f"{module.RESULTS.stem.upper()}.md")
        assert page.read_text() == module.table(json.loads(module.RESULTS.read_text()))
    # Means 2 and 6, variances 1 and 4, three seeds each: t = -4 / sqrt(5/3) with (5/3)^2 / ((1/9 + 16/9) / 2) = 2.94
    # degrees of freedom, of which 3.2187 is the quantile.
    ours, theirs = np.array([1.0, 2.0, 3.0]), np.array([4.0, 6.0, 8.0])
    assert presets.cells.compared(ours, theirs) == ("-4 [-8.155, 0.1554], p = 0.055", "inconclusive")
    assert presets.cells.compared(theirs, ours - 10)[1] == "better"
    assert presets.cells.compared(ours - 10, theirs)[1] == "worse"
    # Against two published curves: each with the number of its seeds.
    monkeypatch.setattr(efficiency, "ROWS", {"task/sac": efficiency.Row("sac", "", 10, (
        efficiency.Published((4.0, 6.0, 8.0)), efficiency.Published((5.0, 7.0), "later")))})  # fmt: skip
    found = efficiency.table({f"task/sac/{seed}": {"return": seed + 1.0, "seconds": 1.0} for seed in range(3)})
    assert "| 6; 6 (later) | 3; 2 | -4 [-8.155, 0.1554], p = 0.055; -4 [" in found
    # Intervals that overlap a little may leave no doubt that the means differ.
    scores = {"zoo": [0.0, 1.0, 2.0, 3.0, 4.0], "forage": [3.0, 4.0, 5.0, 6.0, 7.0]}
    cells = {f"ppo/hopper/{who}/{seed}": {"greedy": [value], "sampled": [value - 1], "seconds": 1.0}
             for who, values in scores.items() for seed, value in enumerate(values)}  # fmt: skip
    row = next(line for line in presets.table(cells).splitlines() if "| better |" in line)
    assert "| +3 [0.694, 5.306], p = 0.017 | better |" in row and "2 [0.03676, 3.963]" in row and "[3.037, " in row


def test_tables_are_made_of_the_data_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    exploration, montezuma = (from_benchmarks(name, monkeypatch) for name in ("exploration", "montezuma"))
    assert exploration.TABLE.read_text() == exploration.table()
    assert montezuma.PAGE.read_text() == montezuma.page(list(montezuma.kept.read(montezuma.RESULTS).values()))


@pytest.mark.thorough
def test_what_a_bonus_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = from_benchmarks("bonus_cost", monkeypatch)
    monkeypatch.setattr(cost, "BONUSES", ("counts",))
    bench = cost.Bench("ppo", "CartPole-v1", 256, {"num_envs": 4, "rollout_length": 8, "hidden_sizes": (8,)})
    found = cost.measure(bench, rounds=2)
    assert found["environment"]["ratio"] == 1 and found["counts"]["microseconds"] > 0
    assert not any(one["host_calls"] for one in found.values())
    assert "| counts |" in cost.page({"small": found}, 2)


@pytest.mark.thorough
def test_rooms_of_montezuma(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("ale_py", reason="ale-py is not installed")
    montezuma = from_benchmarks("montezuma", monkeypatch)
    monkeypatch.setitem(montezuma.WAYS["go-explore"]["environment_options"], "max_episode_steps", 50)
    monkeypatch.setattr(montezuma, "RUNS", tmp_path)
    found = montezuma.measure("go-explore", 512, 0)
    assert found["rooms"] == [1] and found["steps"] == 512
