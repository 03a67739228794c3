"""The report: one page that holds all it shows."""

import base64
import html.parser
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import small

from forage.core.types import ForageError
from forage.runs.changes import flatten_config
from forage.runs.run import Run
from forage.studies.film import MOST
from forage.studies.report import report
from forage.studies.report.charts import plain_values, thin_curve
from forage.studies.report.settings import differing, same_effect

small.keep_compiled()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    first = small.train(root / "one", evaluation_every=80)
    second = small.train(root / "two<b>", agent_options={"learning_rate": 0.02})
    return [str(run.directory) for run in (first, second)]


class Page(html.parser.HTMLParser):
    """The content of a page: its tags, its text, and the addresses it would fetch."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.fetched, self.open = [], [], [], []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.fetched += [v for k, v in attrs if k in ("src", "href", "xlink:href") and not v.startswith(("data:", "#"))]
        if tag in ("table", "section", "div", "p", "details", "svg", "figure", "blockquote"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.open and tag == self.open[-1]:
            self.open.pop()

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.thorough
def test_one_page_that_fetches_nothing(runs, tmp_path):
    path = report(runs, str(tmp_path / "new" / "page.html"), threshold=5.0, film=True)
    text = path.read_text()
    page = Page(text)
    assert page.fetched == [] and "@import" not in text and "url(http" not in text
    assert page.tags.count("img") + page.tags.count("video") == 2  # the films
    assert [chart["y"].split(",")[0] for chart in charts(text)] == ["return", "share of seeds above it"]
    words = " ".join(page.text)
    assert "two<b>" in words and "<b>" not in text
    for said in ("agent.learning_rate", "0.02", "steps until 5", "2 seeds of 2 evaluation episodes"):
        assert said in words, said
    # What is the same in both is folded away, what differs is not.
    differs = words[words.index("What differs") : words.index("What is the same,")]
    assert "learning_rate" in differs and "gae_lambda" not in differs


def charts(text):
    """Return the data of the page's charts."""
    return [json.loads(found) for found in re.findall(r'<script type="application/json">(.*?)</script>', text)]


def test_the_chart_holds_every_seed_and_the_final_evaluation(runs, tmp_path):
    text = report(runs, str(tmp_path / "page.html")).read_text()
    learning = charts(text)[0]
    assert learning["arms"] == ["one", "two<b>"] and "two<b>" not in text
    kinds = [(one["name"], one["kind"]) for one in learning["series"]]
    final = "final evaluation"
    assert kinds == [
        ("one", "training"),
        ("one", "evaluated"),
        ("one", final),
        ("two<b>", "training"),
        ("two<b>", final),
    ]
    training, evaluated, last = learning["series"][:3]
    run = Run(runs[0])
    steps, values = run.curve()
    assert training["x"] == steps.tolist()
    for seed, kept in zip(training["seeds"], values, strict=True):
        np.testing.assert_allclose([np.nan if y is None else y for y in seed["y"]], kept, rtol=1e-5)
    assert evaluated["x"] == [row["steps"] for row in run.evaluations]
    assert last["x"] == [160] and last["value"][0] == pytest.approx(run.score.value, rel=1e-5)
    assert [seed["y"][0] for seed in last["seeds"]] == pytest.approx(run.evaluation["return"], rel=1e-5)
    assert "interquartile" not in text and "Numbers over seeds are means" in text  # of two seeds
    # Colours follow the reader's choice of light or dark, and nothing is smaller than 12 pixels.
    assert "color-scheme: light dark" in text
    assert min(float(size) for size in re.findall(r"font-size: ([.0-9]+)rem", text)) * 16 >= 12
    assert set(re.findall(r"font-size: (\d+)px", text)) == {"12"}


def test_long_curves_are_thinned_and_keep_their_end():
    steps = np.arange(1, 1002)
    x, y = thin_curve(steps, np.stack([steps, 2 * steps]))
    assert len(x) <= 400 and x[-1] == 1001 and (y[1] == 2 * x).all() and len(set(np.diff(x))) == 1
    assert plain_values([1 / 3, None, np.nan, 60_416, 1_234_567]) == [0.333333, None, None, 60_416, 1_234_567]


def test_a_film_that_cannot_be_made_is_said(runs, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ForageError("Mine cannot be drawn.")

    monkeypatch.setattr("forage.studies.report.page.watch", refuse)
    run = shutil.copytree(runs[0], tmp_path / "run", ignore=lambda *_: {f"agent{suffix}" for suffix in MOST})
    text = report([str(run)], str(tmp_path / "page.html"), film=True).read_text()
    assert "No film of ppo: Mine cannot be drawn." in text


def test_a_film_is_made_anew_where_the_agent_has_learned_since(runs, tmp_path, monkeypatch):
    run = shutil.copytree(runs[0], tmp_path / "run", ignore=lambda *_: {f"agent{suffix}" for suffix in MOST})
    (film := run / "agent.webp").write_bytes(b"old")
    monkeypatch.setattr("forage.studies.report.page.watch", lambda *_, **__: film.write_bytes(b"new") and [film])
    for learned, film_shown in ((1, b"old"), (3, b"new")):
        os.utime(run / "agent.npz", (learned, learned))
        os.utime(film, (2, 2))
        text = report([str(run)], str(tmp_path / "page.html"), film=True).read_text()
        assert f"data:image/webp;base64,{base64.b64encode(film_shown).decode()}" in text


def test_a_run_alone(runs, tmp_path):
    text = report(runs[:1], str(tmp_path / "page.html")).read_text()
    assert "All settings" in text and "What differs" not in text
    score = re.search(r"After 160 steps ppo reaches a return of ([0-9.]+)", text)
    kept = json.loads(Path(runs[0], "evaluation.json").read_text())["return"]
    assert score is not None and float(score[1]) == pytest.approx(np.mean(kept), abs=0.01)


def test_settings_are_flat():
    config = {"a": {"b": 1, "c": [1, 2]}, "d": [{"e": 2}, {"e": 3}], "f": {}}
    assert flatten_config(config) == {"a.b": "1", "a.c": "1, 2", "d.0.e": "2", "d.1.e": "3", "f": "{}"}


def test_only_settings_that_matter_differ():
    one = {
        "agent": {"part": "ppo", "clip": 0.2, "learning_rate": 3e-4},
        "seeds": [0],
        "checkpoint_seconds": 30.0,
        "spec": {"name": "A"},
        "visits": True,
    }
    other = {
        "agent": {"part": "dqn", "learning_rate": 3.0000001e-4, "double": True},
        "seeds": [0, 1],
        "checkpoint_seconds": 60.0,
        "spec": {"name": "B"},
        "opponent": None,
    }
    matter, partly, rest = differing([one, other])
    assert matter == ["agent.part", "seeds"]
    assert partly == ["agent.clip", "agent.double"]
    assert set(rest) == {"agent.learning_rate", "checkpoint_seconds", "spec.name", "visits", "opponent"}
    assert (
        not same_effect("0.001", "0.0011")
        and same_effect("<A object at 0x7f>", "<A object at 0x8e>")
        and same_effect("nan", "nan")
    )


def test_bad_input(runs, tmp_path):
    with pytest.raises(ForageError, match=r"is an \.html file, and page\.pdf is none"):
        report(runs, str(tmp_path / "page.pdf"))
    with pytest.raises(ForageError, match="A threshold is a number, not nan"):
        report(runs, str(tmp_path / "page.html"), threshold=float("nan"))
    with pytest.raises(ForageError, match="is not a run"):
        report([str(tmp_path)], str(tmp_path / "page.html"))
