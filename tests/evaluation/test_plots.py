"""Pictures: their contents, labels and file types; sparklines letter by letter."""

from __future__ import annotations

import itertools
import subprocess
import sys
import xml.etree.ElementTree

import matplotlib
import matplotlib.image
import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from forage.core.types import ForageError
from forage.evaluation import look, panels, plots
from forage.evaluation.statistics import Score
from forage.evaluation.sweep_plot import draw_sweep_scores

NAN = np.nan
BEYOND = ", whose interval goes on beyond the picture"
STEPS = np.array([100_000, 200_000, 300_000])
FIVE = np.array([[0.0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [40, 50, 60]])  # middle three: mean 2, 3, 4


def draw(runs, references=()):
    figure = plots._figure(runs, "A title", "return", "environment steps", references, 0.95, (7.2, 4.2))
    return figure, figure.axes[0]


def test_a_run_alone_shows_its_mean_its_interval_and_its_seeds():
    figure, axes = draw([("ppo", STEPS, FIVE)], references=[("solved", 10)])
    thick = [line for line in axes.lines if line.get_linewidth() == 2]
    thin = [line for line in axes.lines if line.get_linewidth() < 1]
    assert len(thick) == 1
    assert len(thin) == 5
    np.testing.assert_allclose(thick[0].get_ydata(), [2, 3, 4])
    np.testing.assert_array_equal(thick[0].get_xdata(), STEPS)
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    assert corners[:, 1].min() >= 0
    assert corners[:, 1].max() > 4
    texts = [text.get_text() for text in axes.texts]
    assert texts == ["interquartile mean of 5 seeds, 95 % interval shaded, each seed a thin line", "ppo", "solved"]
    assert axes.get_title("left") == "A title"
    assert axes.get_xlim() == (0, 300_000)
    figure.draw_without_rendering()
    assert {"100k", "200k", "300k"} <= {label.get_text() for label in axes.get_xticklabels()}


def test_a_long_label_leaves_room_for_the_curve():
    figure, axes = draw([(f"/home/somebody/{'folder/' * 12}my_agent.py:LinearQ", STEPS, FIVE)])
    figure.draw_without_rendering()
    label = axes.texts[1].get_text()
    assert label.startswith("…") and label.endswith("/my_agent.py:LinearQ") and len(label) == plots.LONGEST
    assert axes.get_window_extent().width > figure.bbox.width / 2


def test_several_runs_differ_in_look_and_their_labels_do_not_overlap():
    runs = [(f"run {i}", STEPS, FIVE + 0.01 * i) for i in range(10)]
    figure, axes = draw(runs)
    lines = [line for line in axes.lines if line.get_linewidth() == 2]
    assert len(axes.lines) == 10  # no seeds
    assert len({(line.get_color(), str(line.get_linestyle())) for line in lines}) == 10
    labels = axes.texts[1:]
    assert [label.get_color() for label in labels] == [line.get_color() for line in lines]
    assert {label.get_fontweight() for label in labels} == {"bold"}
    figure.draw_without_rendering()
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.y0)
    assert all(above.y0 >= below.y1 - 1 for below, above in itertools.pairwise(boxes))
    assert boxes[0].y0 >= axes.get_window_extent().y0
    assert max(box.x1 for box in boxes) <= figure.bbox.x1
    assert [label.get_text() for label in sorted(labels, key=lambda text: text.get_window_extent().y0)] == [
        f"run {i}" for i in range(10)
    ]


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ([1], "1 seed, no interval"),
        ([1, 1], "1 seed each, no interval"),
        ([5, 5], "interquartile mean of 5 seeds, 95 % interval shaded"),
        ([2], "mean of 2 seeds, no interval, each seed a thin line"),
        ([3, 2], "mean of 2 to 3 seeds, 95 % interval (Student's below five seeds, none below three) shaded"),
    ],
)
def test_the_picture_says_how_many_seeds_it_rests_on(seeds, said):
    _, axes = draw([(f"{i}", STEPS, np.tile(FIVE[:1], (n, 1))) for i, n in enumerate(seeds)])
    assert axes.texts[0].get_text() == said


def test_few_or_no_points_are_shown_for_what_they_are():
    _, axes = draw([("dot", STEPS, [[NAN, NAN, 3.0]]), ("none", STEPS, [[1.0, 2, 3], [NAN, NAN, NAN]])])
    dot, none = axes.lines
    assert dot.get_marker() == "o"
    assert np.isnan(none.get_ydata()).all()
    assert [text.get_text() for text in axes.texts[1:]] == ["dot", "none (no score yet)"]


def test_the_final_evaluation_is_a_diamond_with_its_interval():
    wide, none = Score(90.0, 10.0, 95.0, 5), Score(float("nan"), None, None, 5)
    runs = [("ppo", STEPS, FIVE), ("dqn", STEPS, FIVE)]
    figure = plots._figure(runs, "Title", "return", "steps", (), 0.95, (7.2, 4.2), [(1, 300_000, wide), (0, 3, none)])
    axes = figure.axes[0]
    (diamond,) = [line for line in axes.lines if line.get_marker() == "D"]
    assert diamond.get_color() == look.PALETTE[1]
    assert (diamond.get_xdata()[0], diamond.get_ydata()[0]) == (300_000, 90)
    assert [10, 95] in [list(line.get_ydata()) for line in axes.lines]
    assert axes.get_ylim()[1] > 95 and axes.texts[0].get_text().endswith("\ndiamond: final evaluation")


def test_an_interval_far_wider_than_the_curve_does_not_flatten_it():
    wide = Score(3.0, -400.0, 63.0, 3)
    figure = plots._figure([("ppo", STEPS, FIVE[:3])], "Title", "return", "steps", (), 0.95, (7.2, 4.2), [(0, 3, wide)])
    axes = figure.axes[0]
    low, high = axes.get_ylim()
    assert -2 < low < 0 and 4 < high < 6  # values from 0 to 4
    assert [low, high] in [list(line.get_ydata()) for line in axes.lines]
    first, second = axes.texts[0].get_text().splitlines()
    assert first.startswith("mean of 3 seeds") and second.endswith("goes on beyond the picture")
    figure.draw_without_rendering()
    assert axes.texts[0].get_window_extent().x1 < figure.bbox.x1  # it was cut at the edge


def test_a_band_that_leaves_the_picture_is_no_interval_of_the_final_evaluation():
    """Means are 1, 2 and 3, and Student's band of three seeds ends 2.48 above and below them."""
    near, runs = Score(2.0, 1.0, 3.0, 3), [("ppo", STEPS, FIVE[:3]), ("dqn", STEPS, FIVE[:3])]
    figure = plots._figure(runs, "Title", "return", "steps", (), 0.95, (7.2, 4.2), [(0, 3, near)])
    assert figure.axes[0].get_ylim()[1] < 4
    assert figure.axes[0].texts[0].get_text().endswith("\ndiamond: final evaluation")


def test_panels_say_that_an_interval_goes_on_beyond_them():
    """In the first or the last of them."""
    near, wide = Score(2.0, 1.0, 3.0, 3), Score(3.0, -400.0, 63.0, 3)
    for finals, words in (((near, near), False), ((wide, near), True), ((near, wide), True)):
        curve = "ppo", STEPS, FIVE[:3]
        shown = [panels.Panel("CartPole", [curve], finals=[(0, 3, one)]) for one in finals]
        figure = panels.draw_panels(shown)
        assert figure.get_supxlabel().endswith("diamond: final evaluation" + BEYOND * words)
        figure.draw_without_rendering()
        assert figure._supxlabel.get_window_extent().x1 < figure.bbox.x1


@pytest.mark.parametrize(
    ("ends", "limits", "beyond"),
    [
        ([0.0, 10.0], (-0.6, 10.6), False),
        ([-2.0, 11.0], (-2.78, 11.78), False),  # within a quarter of the range
        ([-2.0, 1000.0], (-2 - 0.06 * 14.5, 12.5 + 0.06 * 14.5), True),
        ([None, np.nan], (0, 1), False),  # left to Matplotlib
    ],
)
def test_what_is_in_view(ends, limits, beyond):
    axes = Figure().add_subplot()
    assert look.keep_in_view(axes, [0.0, NAN, 10.0], ends) is beyond
    np.testing.assert_allclose(axes.get_ylim(), limits)
    assert look.keep_in_view(axes, [2.0, 2.0], [-5.0, 5.0], "x") is False  # no scale but the interval's
    np.testing.assert_allclose(axes.get_xlim(), (-5.6, 5.6))


def test_values_in_order_take_one_ramp():
    runs = [(f"{i}", STEPS, FIVE + i) for i in range(9)]
    figure = plots._figure(runs, "t", "return", "steps", (), 0.95, (7.2, 4.2), ordered=True)
    lines = [line for line in figure.axes[0].lines if line.get_linewidth() == 2]
    lightness = [sum(to_rgb(line.get_color())) for line in lines]
    assert lightness == sorted(lightness, reverse=True) and len(set(lightness)) == 9
    assert {str(line.get_linestyle()) for line in lines} == {"-"}


def test_scores_stand_above_their_values(tmp_path, monkeypatch):
    figures = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: figures.append(figure))
    scores = [Score(1.0, 0.5, 2.0, 5), Score(NAN, None, None, 5), Score(3.0, 2.0, 3.5, 5)]
    draw_sweep_scores(tmp_path / "sweep.png", [("", [1e-4, 1e-3, 1e-2], scores)], "a title", "learning rate")
    (axes,) = figures[0].axes
    assert axes.get_xscale() == "log" and axes.get_xlabel() == "learning rate"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0.0001", "0.001", "0.01"]
    line, _, bars = axes.containers[0]
    assert line.get_xdata().tolist() == [1e-4, 1e-2] and line.get_ydata().tolist() == [1.0, 3.0]
    assert [segment[:, 1].tolist() for segment in bars[0].get_segments()] == [[0.5, 2.0], [2.0, 3.5]]
    assert axes.texts[0].get_text() == "interquartile mean of 5 seeds, 95 % interval as bars"
    draw_sweep_scores(tmp_path / "sweep.png", [(n, [1, 2], scores[::2]) for n in ("a", "b")], "a title", "clip")
    assert figures[1].axes[0].get_xscale() == "linear"
    assert [text.get_text() for text in figures[1].axes[0].get_legend().get_texts()] == ["a", "b"]


def test_files(tmp_path):
    before = dict(matplotlib.rcParams)
    png = plots.curve(tmp_path / "new" / "a.png", [("ppo", STEPS, FIVE)], "Title", size=(5, 3))
    plots.curve(tmp_path / "span.png", [("ppo", STEPS, FIVE)], "Title", span=(0, 100_000))
    svg = plots.curve(str(tmp_path / "a.svg"), [("ppo", [0], [[1.0]]), ("dqn", [0], [[2.0]])], "Title")
    assert dict(matplotlib.rcParams) == before
    pixels = matplotlib.image.imread(png)
    assert pixels.shape == (600, 1000, 4)
    assert look.PALETTE[0] in {to_hex(pixel) for pixel in np.unique(pixels.reshape(-1, 4), axis=0)}
    assert xml.etree.ElementTree.parse(svg).getroot().tag.endswith("svg")


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(ForageError, match=r"\.png, a \.svg or a \.pdf"):
        plots.curve(tmp_path / "a.gif", [("ppo", STEPS, FIVE)], "Title")
    with pytest.raises(ForageError, match="at least one run"):
        plots.curve(tmp_path / "a.png", [], "Title")
    with pytest.raises(ForageError, match="shape"):
        plots.curve(tmp_path / "a.png", [("ppo", STEPS, FIVE[:, :2])], "Title")
    assert not list(tmp_path.iterdir())


def test_imports_stay_light(tmp_path):
    code = (
        "import sys; from forage.evaluation import comparison, plots, power, profiles, references, thresholds; "
        "plots.sparkline([1, 2]); assert not {'jax', 'matplotlib', 'scipy'} & set(sys.modules); "
        "plots.curve(sys.argv[1], [('a', [0, 1], [[1, 2]])], 't'); "
        "assert not {'matplotlib.pyplot', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.png")], check=True)


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "0"), (0.25, "0.25"), (500, "500"), (2500, "2.5k"), (1e5, "100k"), (1e6, "1M"), (1.5e9, "1.5B")],
)
def test_count(number, written):
    assert look.count_label(number) == written
    if number:
        assert look.count_label(-number) == "\N{MINUS SIGN}" + written


@pytest.mark.parametrize(
    ("heights", "placed"),
    [
        ([50.0], [50]),
        ([20.0, 60.0], [20, 60]),  # far enough apart
        ([54.0, 50.0], [57, 47]),  # moved alike, order kept
        ([50.0, 50.0, 50.0], [40, 50, 60]),
        ([0.0, 1.0], [5, 15]),  # no lower than the lowest
        ([100.0, 99.0], [95, 85]),
        ([10.0, 60.0, 62.0], [10, 56, 66]),
    ],
)
def test_spread(heights, placed):
    np.testing.assert_allclose(plots._spread(np.array(heights), 10, 5, 95), placed)


@pytest.mark.parametrize(
    ("values", "width", "line"),
    [
        ([1, 2, 3, 4, 5, 6, 7, 8], 40, "▁▂▃▄▅▆▇█"),
        ([-10, 10, -10], 40, "▁█▁"),
        ([0, 0, 1, 1, 2, 2], 3, "▁▅█"),  # pairs averaged: 0, 1, 2
        ([3, 3], 40, "▄▄"),
        ([0, NAN, np.inf, 5], 40, "▁  █"),
        ([0, NAN, 6, 4], 2, "▁█"),
        ([NAN], 40, " "),
        ([], 40, ""),
    ],
)
def test_sparkline(values, width, line):
    assert plots.sparkline(values, width) == line


def test_sparkline_is_as_wide_as_asked():
    assert len(plots.sparkline(np.sin(np.arange(1000)), 37)) == 37
    with pytest.raises(ForageError, match="at least 1 column"):
        plots.sparkline([1.0], 0)
