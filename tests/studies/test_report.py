"""The report: one page that holds all it shows."""

import html.parser
import json
import re
from pathlib import Path

import numpy as np
import pytest
import small

from forage.core.types import ForageError
from forage.runs.changes import flattened
from forage.studies.report import report

small.keep_compiled()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    first = small.train(root / "one", evaluation_every=80)
    second = small.train(root / "two<b>", agent_options={"learning_rate": 0.02})
    return [str(run.directory) for run in (first, second)]


class Page(html.parser.HTMLParser):
    """What stands in a page: its tags, its text, and what it would fetch."""

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
    assert page.tags.count("svg") >= 1 and page.tags.count("img") == 2  # curves, and two films
    words = " ".join(page.text)
    assert "two<b>" in words and "<b>" not in text
    for said in ("agent.learning_rate", "0.02", "steps until 5", "2 seeds of 2 evaluation episodes"):
        assert said in words, said
    # What is the same in both is folded away, what differs is not.
    differs = words[words.index("What differs") : words.index("What is the same")]
    assert "learning_rate" in differs and "gae_lambda" not in differs


def test_a_run_alone(runs, tmp_path):
    text = report(runs[:1], str(tmp_path / "page.html")).read_text()
    assert "All settings" in text and "What differs" not in text
    score = re.search(r"After 160 steps ppo reaches a return of ([0-9.]+)", text)
    kept = json.loads(Path(runs[0], "evaluation.json").read_text())["return"]
    assert score is not None and float(score[1]) == pytest.approx(np.mean(kept), abs=0.01)


def test_settings_are_flat():
    config = {"a": {"b": 1, "c": [1, 2]}, "d": [{"e": 2}, {"e": 3}], "f": {}}
    assert flattened(config) == {"a.b": "1", "a.c": "1, 2", "d.0.e": "2", "d.1.e": "3", "f": "{}"}


def test_bad_input(runs, tmp_path):
    with pytest.raises(ForageError, match=r"is an \.html file, and page\.pdf is none"):
        report(runs, str(tmp_path / "page.pdf"))
    with pytest.raises(ForageError, match="A threshold is a number, not nan"):
        report(runs, str(tmp_path / "page.html"), threshold=float("nan"))
    with pytest.raises(ForageError, match="is not a run"):
        report([str(tmp_path)], str(tmp_path / "page.html"))
