"""The campaign of headline results: its choice of cells, its records of them, and its pages by hand-worked numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from test_benchmarks import from_benchmarks

SAC = "sac-cheetah/half-cheetah"


@pytest.fixture
def headline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    module = from_benchmarks("headline", monkeypatch)
    monkeypatch.setattr(module, "RESULTS", tmp_path / "headline.json")
    monkeypatch.setattr(module, "commit", lambda: "abc")
    return module


def cell_result(headline: ModuleType, cell: str, value: float, whole: float = 100.0) -> dict[str, Any]:
    told = {"made": headline.made_from(cell), "commit": "abc", "machine": "a CPU", "date": "2026-11-30", "whole": whole}
    return told | {"evaluation": value, "training": value + 1, "seconds": whole - 10, "versions": {"jax": "1"}}


@pytest.mark.filterwarnings("ignore:.*The environment .*-v4 is out of date")
def test_a_time_limit_that_is_an_end_terminates_where_it_truncates(monkeypatch: pytest.MonkeyPatch) -> None:
    """HalfCheetah has no other end, and a walker that stands still falls."""
    pytest.importorskip("mujoco")
    limits = from_benchmarks("limits", monkeypatch)

    def ends(environment: gymnasium.Env) -> list[tuple[bool, bool]]:
        environment.reset(seed=0)
        steps = [(False, False)]
        while not any(steps[-1]):
            steps.append(environment.step(np.zeros(6, np.float32))[2:4])
        environment.close()
        return steps[1:]

    steps = ends(limits.half_cheetah())
    assert len(steps) == 1000 and steps[-1] == (True, False)
    assert ends(gymnasium.make("HalfCheetah-v4"))[-1] == (False, True)
    fall = ends(limits.walker2d())
    assert len(fall) < 1000 and fall == ends(gymnasium.make("Walker2d-v4"))


def test_breakout_is_that_of_gymnax(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ball falls past a paddle that rests: an end in step 1,000, and no truncation; no action is ever repeated."""
    environment = from_benchmarks("as_gymnax", monkeypatch).FlatBreakout()
    state, observation = environment.reset(jax.random.key(0))
    assert observation.shape == environment.observation_space.shape and observation.sum() == 33
    for time, over in ((997, False), (999, True)):
        _, step = environment.step(state._replace(time=np.int32(time)), np.int32(0), jax.random.key(1))
        assert (bool(step.terminated), bool(step.truncated)) == (over, False)
    draws = jax.vmap(environment.draw)(jax.random.split(jax.random.key(2), 100))
    assert not draws.repeat.any()


def test_cells_take_turns_and_costly_ones_wait_for_their_name(headline: ModuleType) -> None:
    names = headline.choose_cells("sac-cheetah")
    assert names[:3] == [f"{SAC}/{who}/0" for who in ("forage", "sbx", "forage-as-crossq")]
    assert len(names) == len(set(names)) == 21 and names[-2:] == [f"{SAC}/sbx/4", f"{SAC}/forage-as-crossq/4"]
    assert headline.choose_cells("grpo,minatar")[0] == "grpo/sums/forage/0"
    assert headline.choose_cells("pong") == [] and headline.choose_cells("pong/pong/forage/0") != []
    assert headline.command(f"{SAC}/forage/3").endswith("--evaluation-actions greedy --seeds 3,")
    assert '"seed": 3' in headline.command(f"{SAC}/sbx/3")


def test_only_what_ends_in_time_is_begun_and_a_failure_is_lost_alone(
    headline: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = []

    def train(cell: str, pythons: dict[str, str]) -> dict[str, Any]:
        begun.append(cell)
        if cell.endswith("forage/1"):
            raise RuntimeError("no such luck")
        return cell_result(headline, cell, 1.0, 3000.0)

    monkeypatch.setattr(headline, "train", train)
    cells = [f"{SAC}/forage/{seed}" for seed in range(3)]
    assert headline.work_through(cells, {}, hours=0.5)  # 1,800 s: the estimate of 700 s fits, 3,000 s do not
    assert begun == cells[:1]
    assert not headline.work_through(cells, {}, hours=1.0)
    assert begun == [cells[0], cells[1], cells[2]]
    said = capsys.readouterr()
    assert "its 3000 s (measured) would end after 0.5 hours" in said.out and "no such luck" in said.err
    found = json.loads(headline.RESULTS.read_text())
    assert [headline.is_done(found, cell) for cell in cells] == [True, False, True]
    found[cells[0]]["made"] = "other settings"
    assert not headline.is_done(found, cells[0])
    assert headline.describe(found, [cells[2], cells[1]]) == [
        f"{cells[2]:52} done    3000 s",
        f"{cells[1]:52}         3000 s measured",
        "0.8 hours of one core are left.",
    ]


def test_curves_are_thinned_to_means_of_neighbours(headline: ModuleType) -> None:
    assert headline.thin([]) == []
    assert headline.thin([(1, 0.5), (2, 1.0)]) == [[1, 0.5], [2, 1.0]]
    thinned = headline.thin([(step, float(step)) for step in range(1, 204)])
    assert len(thinned) == 68 and thinned[:2] == [[2, 1.5], [5, 4.0]] and thinned[-1] == [203, 202.0]
    last = headline.thin([(step, float(step)) for step in range(1, 102)])[-1]
    assert last == [101, 100.5]  # of two points, as the others, and no lone one


def test_a_page_compares_with_peers_and_published_numbers(
    headline: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = from_benchmarks("headline_pages", monkeypatch)
    arms = {who: [f"{SAC}/{who}/{seed}" for seed in range(3)] for who in ("forage", "sbx")}
    values = {"forage": (1.0, 2.0, 3.0), "sbx": (4.0, 6.0, 8.0)}
    found = {
        cell: cell_result(headline, cell, value)
        for who, names in arms.items()
        for cell, value in zip(names, values[who], strict=True)
    }
    page = pages.page(found, "sac-cheetah", ["a.png"])
    # Of 1, 2, 3 Student's interval is 2 +- 4.303 / sqrt 3; beside 4, 6, 8 see test_pages_judge_by_welch_over_seeds.
    ours = "2 [-0.4841, 4.484] {1, 2, 3}"
    assert f"| half-cheetah | forage | 3 | 3 [0.5159, 5.484] {{2, 3, 4}} | {ours} | 90 |" in page
    assert "| sbx, here | 6 [1.032, 10.97] {4, 6, 8} | -4 [-8.155, 0.1554], p = 0.055 | inconclusive |" in page
    assert "4212 at 49,998 (10 seeds) | -4210 [" in page and "p = " in page
    assert "- half-cheetah/forage: 3 of 5 seeds; 100 s a seed (measured)" in page
    assert "jax 1; commit abc; a CPU; 2026-11-30" in page
    assert "- half-cheetah/forage-half-entropy: 0 of 3 seeds; 700 s a seed (estimated)" in page
    # Three seeds of mean 10 and deviation 2 over n: 10 +- 2 sqrt 1.5.
    rows = sys.modules["headline_rows"]
    spread = pages.spread(rows.Published("", "", "", "", (), 10.0, 2.0, 3))
    assert spread.tolist() == pytest.approx([10 - 6**0.5, 10, 10 + 6**0.5])
    # Between the ends of the data: (4 - 2) / (12 - 2) of the way.
    ends = {rows.DATA: {"ends": {"random": 2.0, "expert": 12.0}}}
    assert pages.scaled(ends, rows.OFFLINE, [4.0]).tolist() == [20.0]
    assert "| [GRPO beside TRL](grpo.md) | 0 of 10 |" in pages.contents(found)


def test_the_pages_are_what_the_results_say(headline: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = from_benchmarks("headline_pages", monkeypatch)
    stored = Path(headline.PAGES.parent / "headline.json")
    results = json.loads(stored.read_text()) if stored.exists() else {}
    assert (headline.PAGES / "README.md").read_text() == pages.contents(results)
    for name in pages.ROWS:
        page = (headline.PAGES / f"{name}.md").read_text()
        pictures = [line.partition("](")[2].rstrip(")") for line in page.splitlines() if line.startswith("![")]
        assert page == pages.page(results, name, pictures)
        assert all((headline.PAGES / picture).exists() for picture in pictures)


def test_the_reward_of_sums_is_the_share_of_their_digits(headline: ModuleType) -> None:
    made: dict[str, Any] = {}
    exec(sys.modules["headline_text"].REWARD, made)
    said = ["1+4=5. <answer>5544</answer>", "5541", "the sum is 541", "none"]
    assert made["score"](completions=said, answer=["5541"] * 4, prompts=[]) == [0.75, 1.0, 0.75, 0.0]
