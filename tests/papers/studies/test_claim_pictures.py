"""Pictures of claims: labels do not overlap, and no two environments share an axis."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from forage.studies.claims import running
from forage.studies.claims.claim import environments
from forage.studies.claims.picture import draw_claim

RESULTS = Path(__file__).parents[3] / "docs" / "claims" / "results"


@pytest.fixture
def figures(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: figures.append(figure))

    def figure_of(name):
        result = json.loads((RESULTS / f"{name}.json").read_text())
        draw_claim(tmp_path / "a.png", result, environments(running.load_claim(name)))
        figures[-1].draw_without_rendering()
        return figures[-1]

    return figure_of


@pytest.mark.parametrize("name", ["vtrace", "target-network"])  # five arms, and long names
def test_labels_of_arms_do_not_touch(figures, name):
    figure = figures(name)
    left, right = figure.axes
    boxes = [label.get_window_extent() for label in right.get_xticklabels()]
    assert len(boxes) > 3 and all(a.x1 + 2 < b.x0 for a, b in itertools.pairwise(boxes))
    legend = left.get_legend().get_window_extent()
    assert legend.y0 >= left.get_window_extent().y1 - 1  # above the curves
    assert legend.x1 <= right.get_window_extent().x0


def test_each_environment_has_its_own_axes(figures):
    figure = figures("value-decomposition")
    assert len(figure.axes) == 4
    spread, game = figure.axes[0].get_ylim(), figure.axes[2].get_ylim()
    assert spread[1] < 0 < game[0]  # returns of about -20 and 5
    titles = [axes.get_title("right") for axes in figure.axes[1::2]]
    assert titles == ["jaxmarl:MPE_simple_spread_v3", "teams:TwoStep"]
    labels = [text.get_text() for axes in figure.axes[::2] for text in axes.get_legend().get_texts()]
    assert labels == ["DQN", "VDN", "DQN, two-step game", "VDN, two-step game"]
