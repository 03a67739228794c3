"""Pictures of maps and of conditions: their contents and labels."""

from __future__ import annotations

import itertools

import numpy as np
from matplotlib.collections import PatchCollection

from forage.evaluation import conditions, maps
from forage.evaluation.conditions import Cell
from forage.evaluation.statistics import score


def cell(under, value, **fields):
    return Cell(under, fields, score(np.array([value - 1.0, value, value + 1.0])))


def test_places_that_cannot_be_reached_are_not_those_that_were_not_visited(tmp_path):
    counts, able = np.array([[5, 0], [0, 0]]), np.array([[True, False], [True, True]])
    axes = maps.draw_map(counts, "Title", able).axes[0]
    assert axes.get_xlabel() == "33 % of 3 places visited; hatched: cannot be reached"
    (hatched,) = [drawn for drawn in axes.collections if isinstance(drawn, PatchCollection)]
    assert [path.vertices.min(0).tolist() for path in hatched.get_paths()] == [[0.5, -0.5]]
    assert axes.images[0].get_array().mask.tolist() == [[False, True], [True, True]]
    # What was visited can be reached, whatever is said; without a word all can.
    assert maps.draw_map(np.array([[1, 1], [0, 0]]), "", able).axes[0].get_xlabel() == "50 % of 4 places visited"
    assert maps.draw_map(counts, "", None).axes[0].get_xlabel() == "25 % of 4 places visited"
    assert maps.heat_map(tmp_path / "new" / "a.png", counts, "Title", able).stat().st_size > 1000


def test_shades_span_what_was_visited_and_numbers_are_written_out():
    image = maps.draw_map(np.array([[20_000, 900], [0, 700]]), "Title", None).axes[0].images[0]
    assert (image.norm.vmin, image.norm.vmax) == (700, 20_000)  # from 1 on, all of these were nearly the same
    figure = maps.draw_map(np.array([[3, 3], [3, 3]]), "Title", None)
    assert figure.axes[0].images[0].norm.vmin == 1  # all the same: a decade
    figure = maps.draw_map(np.array([[1_000, 10]]), "Title", None)
    figure.draw_without_rendering()
    assert {"10", "100", "1k"} <= {label.get_text() for label in figure.axes[1].get_yticklabels()}


def test_one_number_is_a_line_for_each_condition():
    cells = [cell(under, value * 10, length=value) for under in ("", "noise:0.1") for value in (2.0, 1.0)]
    axes = conditions.draw_conditions(cells, "Title").axes[0]
    assert [line.get_label() for line in axes.lines] == ["as it is", "noise:0.1"]
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [1, 2])
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [10, 20])
    assert axes.get_xlabel() == "length" and len(axes.collections) == 2


def test_wide_intervals_of_few_seeds_do_not_set_the_scale():
    cells = [Cell("", {"length": at}, score(np.array([0.0, at]))) for at in (1.0, 2.0)]  # 1 [-12, 14]
    figure = conditions.draw_conditions(cells, "Title")
    low, high = figure.axes[0].get_ylim()
    assert 0.3 < low < 0.5 and 1 < high < 1.2
    assert figure.get_supxlabel() == "return, mean of 2 seeds, 95 % interval shaded, in places beyond the picture"
    alone = conditions.draw_conditions([cell("", 3), cell("noise:0.1", 2)], "Title")
    assert alone.axes[0].get_xlim()[1] < 3.5 and "mean of 3 seeds" in alone.get_supxlabel()


def test_two_numbers_are_a_map_with_the_score_in_each_cell():
    cells = [cell("", 10 * a + b, length=a, force=b) for a in (1.0, 2.0) for b in (3.0, 4.0, 5.0)]
    axes = conditions.draw_conditions(cells, "Title").axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), [[13, 14, 15], [23, 24, 25]])
    assert [text.get_text() for text in axes.texts] == ["13", "14", "15", "23", "24", "25"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("force", "length")


def test_numbers_below_a_map_do_not_touch():
    values = np.linspace(5, 30, 7)  # 9.16667 and 13.3333 ran into one another
    figure = conditions.draw_conditions([cell("", a, length=a, force=b) for a in (1.0, 2.0) for b in values], "Title")
    figure.draw_without_rendering()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert all(a.x1 + 2 < b.x0 for a, b in itertools.pairwise(boxes))


def test_conditions_alone_are_dots_and_more_numbers_are_not_drawn(tmp_path):
    axes = conditions.draw_conditions([cell("", 3), cell("noise:0.1", 2)], "Title").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["as it is", "noise:0.1"]
    assert [line.get_xdata()[0] for line in axes.lines if line.get_marker() == "o"] == [3, 2]
    many = [cell("", 1, a=1.0, b=1.0, c=1.0)]
    assert conditions.conditions(tmp_path / "a.png", many, "Title") is None and not list(tmp_path.iterdir())
    assert conditions.conditions(tmp_path / "a.png", [cell("", 1, a=1.0)], "Title").stat().st_size > 1000
