"""The benchmark harness hangs together: rows, peers, scripts and the table, without timings."""

from __future__ import annotations

import ast
import importlib
import itertools
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from forage.core import checkpoint
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def harness():
    """The modules `run` and `rows`, imported as the command imports them and forgotten again."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("run")
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in ("run", "rows"):
            sys.modules.pop(name, None)


def test_rows_name_known_peers_phases_and_rates(harness: ModuleType) -> None:
    peers = harness.load_peers()
    for row in harness.ROWS.values():
        labels = [contestant.label for contestant in row.contestants]
        assert len(set(labels)) == len(labels)
        assert labels[0] == harness.REFERENCE
        assert row.rate in ("steps_per_second", "updates_per_second", "steps_per_core_second")
        for contestant in row.contestants:
            assert contestant.peer in peers
            assert contestant.against in labels
            assert set(contestant.phases or row.phases) <= set(row.phases)
            # A misspelt override would silently leave the row's own setting in force.
            assert set(contestant.overrides) <= set(row.settings)
        assert set(row.smoke) <= set(row.settings)


def test_a_warm_phase_follows_the_cold_one_that_fills_its_cache(harness: ModuleType) -> None:
    for row in harness.ROWS.values():
        if "warm" in row.phases:
            assert row.phases.index("cold") < row.phases.index("warm")


def test_on_policy_rows_divide_evenly(harness: ModuleType) -> None:
    for row in harness.ROWS.values():
        for contestant in row.contestants:
            for smoke in (False, True):
                settings = harness.settings_of(row, contestant, smoke)
                json.dumps(settings)
                if "transitions" in settings:  # from data, without environment steps
                    assert settings["transitions"] >= settings["batch_size"] and settings["updates"] > 0
                elif "new_tokens" in settings:  # of text: no environment steps but answers
                    assert settings["prompt_tokens"] + settings["new_tokens"] <= settings["model"]["length"]
                    assert settings["group"] > 1 and settings["updates"] > 0
                elif "population" in settings:  # whole generations of 500 steps
                    assert settings["population"] % 2 == 0 and settings["steps"] % (500 * settings["population"]) == 0
                elif settings["algorithm"] == "ppo":
                    rollout = settings["num_envs"] * settings["rollout_length"]
                    assert rollout % settings["num_minibatches"] == 0
                    assert settings["steps"] % rollout == 0
                    assert (
                        settings["steps"] > rollout
                    )  # the first rollout is untimed where compiling happens on the way
                else:
                    assert settings["steps"] > settings["learning_starts"] + 100
                    assert settings["buffer_size"] >= settings["batch_size"]


def test_every_package_is_pinned_and_every_script_parses(harness: ModuleType) -> None:
    for name, peer in harness.load_peers().items():
        for requirement in [r for requirements in peer.get("install", []) for r in requirements]:
            pinned = re.fullmatch(r"[\w.-]+==[\w.]+", requirement)
            assert pinned or requirement == "--no-deps", f"{name}: {requirement}"
        ast.parse((BENCHMARKS / "peers" / peer["script"]).read_text())


def test_scripts_do_not_hide_the_packages_they_import(harness: ModuleType) -> None:
    # A script's own folder comes first on its path: peers/rejax.py would import itself.
    scripts = {path.stem for path in (BENCHMARKS / "peers").glob("*.py")}
    assert scripts.isdisjoint({"rejax", "sbx", "stable_baselines3", "trl", "forage", "jax"})


def record(harness: ModuleType, name: str = "ppo-cartpole", date: str = "2026-01-02") -> dict[str, Any]:
    """A record as `run_row` makes it, with round figures."""

    def run(phase: str, seconds: float, rate: float) -> dict[str, Any]:
        return {
            "phase": phase,
            "seconds_whole": seconds,
            "seconds_import": 1.0,
            "seconds_compile": None,
            "steps_per_second": rate,
            "updates_per_second": rate,
            "total_steps": 1000,
            "final_return": [500.0],
            "busy_cores_of_others": 0.5,
        }

    def entry(peer: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "peer": peer,
            "overrides": {},
            "against": "forage",
            "versions": {peer: "1"},
            "runs": runs,
            "failures": [],
        }

    forage = [run("cold", s, 1.0) for s in (9.0, 10.0, 50.0)] + [run("warm", 4.0, 1.0), run("steady", 6.0, 300.0)]
    made = {
        "row": name,
        "title": "title",
        "rate": "steps_per_second",
        "date": date,
        "commit": "abc",
        "machine": {"cpu": "cpu", "cores": 2, "matmul_gflops": 100.0},
        "repeats": 3,
        "contestants": {
            "forage": entry("forage", forage),
            "slow": entry("sb3", [run("cold", 100.0, 30.0)]),
            "wide": entry("sb3", [run("cold", 200.0, 30.0)]) | {"against": "slow"},
            "broken": entry("rejax", []) | {"failures": [{"phase": "cold", "repeat": 0, "error": "it broke"}]},
        },
    }
    return made | {"summary": harness.summarise(made)}


def test_summary_takes_medians_and_ratios_to_forage(harness: ModuleType) -> None:
    summary = record(harness)["summary"]
    assert summary["forage"]["cold"] == 10.0
    assert summary["forage"]["rate"] == 300.0  # of the steady phase only
    assert summary["forage"]["cold_ratio"] == summary["forage"]["rate_ratio"] == 1.0
    assert summary["slow"]["cold_ratio"] == 10.0
    assert summary["slow"]["warm"] is None
    assert summary["slow"]["warm_ratio"] == 25.0  # its only process against our warm one
    assert summary["slow"]["rate_ratio"] == 10.0
    assert summary["wide"]["cold_ratio"] == 2.0  # held against the slow one
    assert summary["broken"]["rate"] is None and summary["broken"]["rate_ratio"] is None


def test_table_has_the_record_of_each_row(harness: ModuleType, tmp_path: Path) -> None:
    for name, date in [("sac-pendulum", "2026-01-01"), ("ppo-cartpole", "2026-03-01")]:
        (tmp_path / f"{name}.json").write_text(json.dumps(record(harness, name, date)))
    text = harness.table(harness.records_in(tmp_path))
    assert "2026-03-01" in text
    assert text.index("## ppo-cartpole") < text.index("## sac-pendulum")
    assert "| slow | 100.0 | 10.00 | – | 25.00 | 30 | 10.00 | 1,000 | 500.0 |" in text  # noqa: RUF001
    assert "except: wide to slow" in text
    assert "Failed at least once: broken" in text
    assert "0.5 cores busy" in text


def test_operations_of_products_are_counted_by_hand(harness: ModuleType) -> None:
    rows = sys.modules["rows"]
    layers = 2 * 2 * 3 * 4, 2 * 2 * 4 * 1  # two rows through layers of 3, 4 and 1
    assert rows.operations(2, (3, 4, 1)) == sum(layers)
    assert rows.operations(2, (3, 4, 1), learned=True) == 2 * layers[0] + 3 * layers[1]
    assert rows.operations(2, (3, 4, 1), climbed=True) == 2 * sum(layers)
    sixteen = 16 * 2 * 256**3  # products of two layers of 256, which are nearly all: SAC's are sixteen
    assert sixteen < rows.of_critics(256, 3, 1) < 1.05 * sixteen


def test_the_page_is_what_its_results_say(harness: ModuleType) -> None:
    assert (harness.RESULTS / "TABLE.md").read_text() == harness.table(harness.records_in(harness.RESULTS / "speed"))


def test_the_result_is_the_last_line(harness: ModuleType) -> None:
    assert harness.last_json_line('a warning\n{"steps": 3}\n') == {"steps": 3}
    for output in ("", '{"steps": 3}\nTraceback'):
        with pytest.raises(RuntimeError, match="last line is not JSON"):
            harness.last_json_line(output)


def test_unknown_rows_and_peers_are_refused(harness: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, known in ((["ppo-catpole"], "ppo-cartpole"), (["--only", "sb4"], "sb3")):
        with pytest.raises(SystemExit):
            harness.parse(arguments)
        assert known in capsys.readouterr().err


def test_a_process_is_measured_and_its_failure_is_told(harness: ModuleType, tmp_path: Path) -> None:
    line = json.dumps({"seconds_outside": 0.0, "steps": 1})
    result = harness.run_once([sys.executable, "-c", f"print('{line}')"], tmp_path / "cache", 60)
    assert result["steps"] == 1
    assert 0 < result["seconds_whole"] == result["seconds_total"]
    with pytest.raises(RuntimeError, match="no such luck"):
        harness.run_once([sys.executable, "-c", "raise SystemExit('no such luck')"], tmp_path / "cache", 60)


def from_benchmarks(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module(name)


@pytest.mark.parametrize("row", ["gymnasium-cheetah", "gymnasium-pong"])
@pytest.mark.thorough
def test_host_rows_step_all_contestants(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mujoco" if row.endswith("cheetah") else "cv2", reason="its library is not installed")
    environments = from_benchmarks("environments", monkeypatch)
    found = environments.measure(row, 2, 0.01)
    assert set(found["rates"]) == {"forage", *environments.ROWS[row].peers}
    assert all(len(rates) == 2 and min(rates) > 0 for rates in found["rates"].values())
    table = environments.table({row: found | {"machine": environments.machine()}})
    assert f"| `{environments.ROWS[row].id}` | host |" in table


@pytest.mark.thorough
def test_trials_side_by_side_and_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna", reason="optuna is not installed")
    tuning = from_benchmarks("tuning", monkeypatch)
    assert tuning.side_by_side("CartPole-v1", 1024, 2, 2) > 0
    assert tuning.one_at_a_time("CartPole-v1", 1024, 1) > 0


def test_the_page_of_learning_is_what_the_results_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    learning = from_benchmarks("learning", monkeypatch)
    results = json.loads((learning.RESULTS / "results.json").read_text())
    page = learning.table(results)
    assert (learning.RESULTS / "README.md").read_text() == page
    # Two seeds: Student's interval, 12.706 standard errors to either side of the mean.
    results["suite-robotics"]["returns"] = [1.0, 3.0]
    assert "| 2 [-10.71, 14.71] | 2 [1] |" in learning.table(results)
    # A row is confirmed once, and both figures are shown.
    confirmed = json.loads((learning.RESULTS / "confirmed.json").read_text())
    assert set(confirmed) <= set(learning.HEADLINE)
    for name, found in confirmed.items():
        assert found["seeds"] == learning.UNTOUCHED[: learning.ROWS[name].seeds]
        assert learning.shown(results[name]) in page and f" {learning.shown(found)} |" in page
        assert f"| {learning.shown(found)} |" in (BENCHMARKS.parent / "docs" / "measured.md").read_text()
    monkeypatch.setattr(sys, "argv", ["learning.py", "--confirm", "ppo-cartpole"])
    with pytest.raises(SystemExit, match="ppo-cartpole has been confirmed once"):
        learning.main()
    # What a row gave at first stays, however often it is run again.
    monkeypatch.setattr(learning, "RESULTS", tmp_path)
    for returns in ([1.0, 3.0], [5.0, 5.0]):
        learning.keep_first("suite-robotics", {"returns": returns, "steps": 10, "seeds": [0, 1]})
    assert json.loads((tmp_path / "first.json").read_text())["suite-robotics"]["returns"] == [1.0, 3.0]


def test_intervals_of_estimates_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two logs: 160 +- 10 holds the true 165 and 160 +- 2 does not; half the distances to the clerk's 125 are 20."""
    estimates = from_benchmarks("estimates", monkeypatch)
    few = {"effective_transitions": 3.0, "effective_episodes": 2.0, "warnings": ["the log does not cover it"]}
    one = {"value": 160.0, "low": 150.0, "high": 170.0, "truth": [165.0, 0.5], "clerk": [125.0, 1.0]} | few
    page = estimates.table({1: {"policy": one, "large": one}, 4: {"policy": one | {"low": 158.0, "high": 162.0}}})
    assert "**1 of 2 95 % intervals hold the true value** (asked: 17 of 20; 18 logs were not run)" in page
    assert "Median half-width 6; half the distance between clerk and policy is 20 in the median log. 2 of 2" in page
    assert "Errors: mean -5, root of the mean square 5; 0 of 2 are too high" in page
    assert "warned of on 1 of 1 logs; its interval holds the true value on 1." in page
    assert "| 4 | 125.0 | 165.0 ± 0.5 | 160.0 | [158.0, 162.0] | **no** | 2.0 | 20.0 | 3 / 2 |" in page
    assert estimates.RESULTS.with_name("ESTIMATES.md").read_text() == estimates.table(estimates.read_results())
    # A shop of the log: what is on hand is what was there and in transit and ordered fast, less what was sold.
    estimates.write_log(tmp_path / "log.csv", 1000, 200)
    rows = [line.split(",") for line in (tmp_path / "log.csv").read_text().splitlines()[1:]]
    assert len(rows) == 200 and {row[6] for row in rows} == set(estimates.ORDERS)
    for row, after in itertools.pairwise(rows):
        if row[1] == after[1] and row[2] and after[2] and row[8] != "n/a":
            size, fast, left = estimates.ORDERS[row[6]], row[7] == "fast", float(after[2])
            sold = float(row[2]) + float(row[3]) + size * fast - left
            assert float(row[8]) == pytest.approx(estimates.earn(sold, left, size, fast), abs=0.05)
            assert float(after[3]) == (0 if fast else size)


def test_cells_at_once_share_no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    exploration = from_benchmarks("exploration", monkeypatch)
    monkeypatch.setattr(exploration, "cores", lambda: [3, 5])
    assert all(exploration.found(*cell) for cell in exploration.WINNERS)  # what is praised was run
    both, busy, done = threading.Barrier(2, timeout=30), set(), []

    def work(command: list[str]) -> int:
        core = command[command.index("--core") + 1]
        assert core in ("3", "5") and core not in busy
        busy.add(core)
        both.wait()  # two at once, and never more
        method = command[command.index("--method") + 1]
        done.append(method)
        both.wait()
        busy.remove(core)
        both.wait()
        return int(method == "plain")  # that one fails stops no other

    monkeypatch.setattr(exploration.subprocess, "Popen", lambda command: SimpleNamespace(wait=lambda: work(command)))
    exploration.each_by_itself([(method, "valley") for method in ("plain", "rnd", "icm", "e3b")], None)
    assert sorted(done) == ["e3b", "icm", "plain", "rnd"]


def test_cells_end_with_who_began_them(tmp_path: Path) -> None:
    """Each waits for a signal to stop and records it; cells that have not started then never start."""
    cell = """
        import pathlib, signal, sys, time
        def stop(*_):
            pathlib.Path(sys.argv[1] + "-stopped").touch()
            sys.exit(130)
        signal.signal(signal.SIGTERM, stop)
        pathlib.Path(sys.argv[1] + "-begun").touch()
        time.sleep(120)
    """
    (tmp_path / "cell.py").write_text(textwrap.dedent(cell))
    parent = """
        import sys
        import exploration
        exploration.command_for = lambda method, problem, core, how: [sys.executable, "cell.py", method]
        cells = [(method, "valley") for method in ("one", "two", "three")]
        exploration.as_command(lambda: exploration.each_by_itself(cells, 2))
    """
    (tmp_path / "parent.py").write_text(textwrap.dedent(parent))
    process = subprocess.Popen(
        [sys.executable, "parent.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(BENCHMARKS)},
        stdout=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    while len(list(tmp_path.glob("*-begun"))) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    process.terminate()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130 and said == ""
    names = {path.name for path in tmp_path.iterdir()} - {"cell.py", "parent.py"}
    assert names == {"one-begun", "one-stopped", "two-begun", "two-stopped"}


@pytest.mark.thorough
def test_what_the_image_network_makes_of_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    images = from_benchmarks("images", monkeypatch)
    network = jax.jit(lambda key: images.CNN(key, images.SPACE, 1.0))(jax.random.key(0))
    # By hand: 400 places by 256 numbers by 32 features, 81 by 512 by 64, 49 by 576 by 64, and 3136 by 512.
    assert images.operations(network)[0] == 2 * (400 * 256 * 32 + 81 * 512 * 64 + 49 * 576 * 64 + 3136 * 512)
    pictures = np.random.default_rng(0).integers(0, 256, (2, 84, 84, 4)).astype(np.uint8)
    ours, theirs = (jax.jit(images.WAYS[name])(network, pictures) for name in ("mapped", "XLA's convolution"))
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)
    monkeypatch.setattr(images, "WAYS", {"rows": images.WAYS["rows"]})
    rows = images.measure(1, 0.0)
    assert len(rows) == 2 and all(row["images"] > 0 and row["share"] > 0 for row in rows)
    assert "| 1 | gradient |" in images.page(rows)


def test_methods_of_language_are_rows_whether_they_are_there_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    language = from_benchmarks("language", monkeypatch)
    monkeypatch.setitem(language.PARTS, "tasks", ["same", "not-there"])
    assert language.is_there("tasks/same") and not language.is_there("tasks/not-there")
    cells = language.cells_of()
    assert cells[0] == "agent/grpo/0" and "tasks/same/4" in cells and "tasks/not-there/0" not in cells
    assert {"ppo-language", "sft", "sapo"} <= set(language.agents()) and not {"dpo", "distill"} & set(language.agents())

    def cell(row: str, drawn: float) -> dict[str, Any]:
        end = {"drawn": drawn, "greedy": 0.9, "tokens": 20.0}
        return {"made": language.made_from(row), "seconds": 9, "before": end | {"drawn": 0.25}, "after": end}

    results = {f"agent/grpo/{seed}": cell("agent/grpo", 0.5 + 0.1 * seed) for seed in range(5)}
    # Seeds differ by more than the rows do; paired, the difference is plain.
    results |= {f"settings/adapters/{seed}": cell("settings/adapters", 0.53 + 0.1 * seed) for seed in range(5)}
    results["tasks/same/0"] = cell("tasks/same", 0.5) | {"made": "of other settings"}
    # Gains count: who begins ahead by as much as it ends ahead has learned nothing more.
    for seed in range(5):
        ahead = cell("agent/gmpo", 0.54 + 0.1 * seed)
        results[f"agent/gmpo/{seed}"] = ahead | {"before": ahead["before"] | {"drawn": 0.3}}
    page = language.table(results)
    assert re.search(r"agent/gmpo .* -0\.01 \[-0\.01, -0\.01\] \| worse \|", page)
    assert re.search(r"\| agent/grpo \| 5 \| 0\.25 \| 0\.7 \[.*\| 0\.9, 0\.9 \| 20, 20 \|  \|  \| 9 \|", page)
    assert re.search(r"settings/adapters .* 0\.03 \[0\.03, 0\.03\] \| better \|", page)
    assert "Not in this version: " in page and "tasks/not-there" in page
    assert "| tasks/same |" not in page  # made with other settings: to be trained anew


@pytest.mark.thorough
def test_a_cell_of_language(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    language = from_benchmarks("language", monkeypatch)
    small = Architecture(vocabulary=512, width=16, layers=1, heads=2, inner=16, length=256)
    model = Transformer(jax.random.key(0), small)
    monkeypatch.setattr(language, "STEPS", 16)
    monkeypatch.setattr(language, "HELD_OUT", 4)
    monkeypatch.setattr(language, "OPTIONS", {"level": 0, "problems": 8, "response": 8})
    model.save(tmp_path / "model")
    both = language.train("agent/grpo", [3, 4], model=str(tmp_path / "model"), num_envs=8, group_size=4)
    assert list(both) == ["agent/grpo/3", "agent/grpo/4"]
    found = both["agent/grpo/3"]
    assert found["problems"] == 4 and found["made"] == language.made_from("agent/grpo")
    assert 0 < found["after"]["tokens"] <= 8 and found["before"]["drawn"] == 0


def test_games_of_chance_know_what_a_policy_is_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values come from the whole tree, which is worked by hand for short ones."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    envs = importlib.import_module("envs")
    monkeypatch.delitem(sys.modules, "envs")

    def constant_policy(action: int, of: int) -> Any:
        return lambda seen: np.eye(of)[np.full(len(seen), action)]

    higher = envs.Higher.value
    assert higher(constant_policy(0, 3)) == pytest.approx(-1 / 13)  # each card as likely: 78 of 169 are higher
    assert higher(constant_policy(2, 3)) == -1  # puts aside until it may no more
    # Of card 1 to 13 the better guess wins with 12, 11 ... 6 ... 11, 12 of 13 cards: the last one in 120 of 169, worth
    # 71/169 = 0.42 = 5.46 of 13. So before it 1 to 3 and 11 to 13 are guessed, worth 11, 9 and 7 of 13, and the other 7
    # put aside; at first 3 and 11 are, too.
    before = (2 * (11 + 9 + 7) / 13 + 7 * 71 / 169) / 13
    assert 5 / 13 < 71 / 169 < 7 / 13 < before < 9 / 13
    assert higher() == pytest.approx((2 * (11 + 9) / 13 + 9 * before) / 13)

    blackjack = envs.Blackjack.value
    assert blackjack(constant_policy(1, 2)) == pytest.approx(-1)  # draws until it is over 21
    assert envs.dealt(16, False) == pytest.approx(
        {17: 1 / 13, 18: 1 / 13, 19: 1 / 13, 20: 1 / 13, 21: 1 / 13, 0: 8 / 13}
    )
    assert envs.dealt(7, True) == {17: 1.0}  # an ace and a six
    best = blackjack()
    assert best == pytest.approx(-0.0431, abs=1e-4)
    played, game = [], envs.Blackjack()
    game.reset(seed=0)
    for _ in range(4000):  # draws below 17
        seen, ended, reward = game.reset()[0], False, 0.0
        while not ended:
            seen, reward, ended, _, _ = game.step(int(seen[0] < 17))
        played.append(reward)
    below_17 = blackjack(lambda seen: np.eye(2)[(seen[:, 0] < 17).astype(int)])
    assert below_17 < best
    assert abs(np.mean(played) - below_17) < 3 * np.std(played) / len(played) ** 0.5


def test_the_rider_falls_without_a_hand_and_drives_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    envs = importlib.import_module("envs")
    monkeypatch.delitem(sys.modules, "envs")
    rider = envs.Rider()
    rider.reset(seed=0)
    total, fell, steps = 0.0, False, 0
    while not fell:
        _, reward, fell, cut, _ = rider.step(np.zeros(2))
        total, steps = total + reward, steps + 1
        assert not cut
    assert steps < 200
    assert -120 < total < -80


def test_entries_and_returns_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By hand: `one` enters two and three; two enters three again, and comes back into one through `map`."""
    entries = from_benchmarks("entries", monkeypatch)
    files = {
        "one": "import counted.two, counted.three\ndef one():\n    counted.two.two()\n    counted.three.three()\n"
        "    counted.three.three()\n    local()\ndef local():\n    pass\n",
        "two": "import counted.three, counted.one\ndef two():\n    counted.three.three()\n"
        "    list(map(lambda _: counted.one.local(), [0, 1]))\n",
        "three": "def three():\n    pass\n",
        "__init__": "",
    }
    (tmp_path / "counted").mkdir()
    for name, text in files.items():
        (tmp_path / "counted" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(entries, "PACKAGES", ("counted", "not_installed"))
    counter, before = entries.EntryCounter(None), sys.getprofile()
    sys.setprofile(counter)
    try:
        importlib.import_module("counted.one").one()
    finally:
        sys.setprofile(before)
    one, two, three = (f"counted/{name}.py" for name in ("one", "two", "three"))
    found = list(counter.found)
    assert found == [
        ("", one, "one"),
        (one, two, "two"),
        (two, three, "three"),
        (two, one, "local"),
        (one, three, "three"),
    ]
    assert entries.totals(found) == (3, 2)
    assert [line[0] for line in entries.listed(found)] == [" ", " ", " ", "*", "*"]
    assert entries.by_file(found)[0].split() == ["2", "from", "2", one]


def test_records_of_runs_are_compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    same = from_benchmarks("same", monkeypatch)
    state = {"weight": np.arange(4.0), "zeros": np.zeros(1 << 18), "step": np.int32(3)}
    checkpoint.save_tree(tmp_path / "agent.npz", state, {})
    checkpoint.save_tree(tmp_path / "other.npz", state | {"weight": np.arange(4.0) + 1e-16}, {})
    checkpoint.save_tree(
        tmp_path / "renamed.npz", {"step": np.int32(3), "w": np.arange(4.0), "zeros": np.zeros(1 << 18)}, {}
    )
    old, other, renamed = (same.arrays(tmp_path / f"{name}.npz") for name in ("agent", "other", "renamed"))
    assert set(old) == {"['step']", "['weight']", "['zeros']"} and same.differences(old, old) == ([], [])
    assert same.differences(old, other) == (["['weight']"], [])
    assert same.differences(old, renamed) == ([], ["['weight']"])
    assert same.differences(renamed, {"['w']": renamed["['w']"]})[0] == ["['step']", "['zeros']"]
    (tmp_path / "metrics.jsonl").write_text('{"steps": 1, "seconds": 2, "return": [1.5]}\n{"steps": 2, "seconds": 9}\n')
    assert set(same.columns(tmp_path / "metrics.jsonl")) == {"steps", "return"}


def test_phases_are_of_the_outermost_reports(monkeypatch):
    phases = from_benchmarks("phases", monkeypatch)
    clock = iter([2.0, 3.0, 4.0])
    monkeypatch.setattr(phases.time, "monotonic", lambda: next(clock))
    trace, compiling, _ = phases.PHASES
    listener = phases.Listener()
    listener(trace, 0.5, fun_name="inner")  # from 1.5 to 2
    listener(trace, 2.0, fun_name="jit_outer")  # from 1 to 3, around it
    listener(compiling, 1.0, fun_name="jit(outer)")
    listener("/jax/other", 9.0)
    beside = [(3.5, 5.0, "compile", "second")]
    found = phases.summarise(listener.all_spans + beside, imported=0.0, ended=10.0)
    assert found["phases"] == {"trace": 2.0, "lower": 1.0, "compile": 1.5}
    assert found["programs"]["outer"] == {"trace": 2.0, "lower": 1.0} and "inner" not in found["programs"]
    assert found["alone"] == 10.0 - 4.0
