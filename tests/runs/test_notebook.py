"""Runs as tables, in words and in notebooks."""

import base64
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import small

from forage.core.types import ForageError
from forage.evaluation.statistics import Score
from forage.runs import display as progress
from forage.runs.curve import Curve
from forage.runs.notebook import Notebook

small.keep_compiled()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small.train(tmp_path_factory.mktemp("runs") / "ppo", "ppo")


def test_a_table_has_a_row_for_each_point_and_member(run):
    pytest.importorskip("pandas", reason="pandas is not installed")
    table = run.to_pandas()
    steps, returns = run.curve()
    seeds = run.config["seeds"]
    assert len(table) == len(steps) * len(seeds)
    assert table["seed"].tolist() == seeds * len(steps)
    for seed, values in zip(seeds, returns, strict=True):
        one = table[table["seed"] == seed]
        assert one["steps"].tolist() == steps.tolist()
        np.testing.assert_array_equal(one["return"].to_numpy(float), values)
    assert {"length", "seconds", "policy_loss"} <= set(table.columns)
    assert run.to_pandas(evaluated=True).columns.tolist() == ["steps", "seed"]


def test_a_table_of_a_sweep_has_its_settings(run, monkeypatch):
    pytest.importorskip("pandas", reason="pandas is not installed")
    config = run.config | {"sweep": {"learning_rate": [0.1, 0.2]}, "seeds": [5]}
    monkeypatch.setattr(run, "config", config)
    monkeypatch.setattr(type(run), "rows", [{"steps": 8, "return": [1.0, None], "seconds": 2.0}])
    table = run.to_pandas()
    assert table[["steps", "seed", "learning_rate", "seconds"]].values.tolist() == [[8, 5, 0.1, 2.0], [8, 5, 0.2, 2.0]]
    assert table["return"].isna().tolist() == [False, True]


def test_without_pandas_one_sentence(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ForageError, match=r"needs pandas: pip install 'forage-rl\[pandas\]'"):
        run.to_pandas()


def test_what_python_shows(run):
    steps, seeds = run.rows[-1]["steps"], len(run.config["seeds"])
    first, second = repr(run).splitlines()
    assert first == f"<Run {run.directory}: ppo on CartPole-v1, {seeds} seeds, {steps:,} steps each>"
    assert second == f"  return {run.score}"
    assert repr(run.score) == f"<Score {run.score}>"
    assert repr(Score(1.0, None, None, 1)) == "<Score 1.00 (1 seed, no interval)>"
    curve = Curve(np.array([10, 2000, 3000]), np.array([[np.nan, 1.0, np.nan], [np.nan, 3.0, np.nan]]))
    assert repr(curve).startswith("<Curve: 3 points of 2 members, ")
    assert repr(curve).endswith("mean return 2 at 2,000 steps>")
    assert repr(Curve(np.array([1]), np.array([[np.nan]]))) == "<Curve: 1 points of 1 member, no return yet>"


def test_a_notebook_shows_score_and_curve(run):
    page = run._repr_html_()
    assert f"return {run.score}" in page and "<b>ppo on CartPole-v1</b>" in page
    picture = page.partition("base64,")[2].partition('"')[0]
    assert base64.b64decode(picture) == (run.directory / "curve.png").read_bytes()


@pytest.fixture
def kernel(monkeypatch):
    """A stand-in for IPython in a notebook's kernel. Returns the pages that were shown, newest last."""
    pages = []
    ipython, shown = ModuleType("IPython"), ModuleType("IPython.display")

    def display(page, display_id):
        assert display_id
        pages.append(page)
        return SimpleNamespace(update=pages.append)

    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    shown.HTML, shown.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)
    return pages


def test_progress_stays_in_place_in_a_notebook(kernel):
    shown = progress.make_display("auto")
    assert isinstance(shown, Notebook)
    shown.start("ppo on <b>, 2 seeds", ["in runs/x"], 200)
    row = {"steps": 100, "return": [1.0, None], "steps_per_second": 5000.0}
    shown.update(row, 3.0)
    for value in (1.0, 2.0):
        shown.row(row | {"return": [value, value]})
    shown.update(row | {"return": [None, None]}, 3.0)
    assert len(kernel) == 3 and "compiling" in kernel[0] and "ppo on &lt;b&gt;" in kernel[0]
    assert 'value="100" max="200"' in kernel[1] and "100 / 200 steps, 5,000 steps/s, 3 s left" in kernel[1]
    assert "return 1.00 (1 seed, no interval)" in kernel[1] and "return" not in kernel[2] and "▁" in kernel[2]


def test_elsewhere_it_is_no_notebook(kernel, monkeypatch):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: SimpleNamespace())  # a terminal's
    assert isinstance(progress.make_display("auto"), progress.Plain)
    with pytest.raises(ForageError, match="is for a notebook's kernel; live is for a terminal"):
        progress.make_display("notebook")
