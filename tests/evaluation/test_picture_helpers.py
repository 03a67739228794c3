"""The helper that renders the first picture of a process alone."""

import pytest
from picture_helpers import render_once

from forage.core.errors import ForageError
from forage.evaluation.look import save_figure, sheet


def test_later_pictures_are_copies_of_the_first(tmp_path):
    made = []

    def draw(path):
        made.append(sheet(1, len(made) + 1, dpi=10))
        return save_figure(made[-1], path)

    drawn = render_once(draw)
    first, second = drawn(tmp_path / "a.png"), drawn(tmp_path / "b.png")
    assert len(made) == 2 and first.read_bytes() == second.read_bytes() != draw(tmp_path / "c.png").read_bytes()
    (tmp_path / "file").write_text("")
    with pytest.raises(ForageError, match="Could not save"):
        drawn(tmp_path / "file" / "d.png")
