"""docs/evidence/journeys.md agrees with tests/journeys."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("journeys_page", ROOT / "docs" / "make" / "journeys.py")
journeys_page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(journeys_page)
ROWS = [
    row for group in journeys_page.GROUPS for row in journeys_page.journeys(journeys_page.TESTS / f"test_{group}.py")[1]
]


def test_the_page_is_what_the_tests_say():
    assert journeys_page.PAGE.read_text() == journeys_page.page(), "run python docs/make/journeys.py"
    files = {path.name for path in journeys_page.TESTS.glob("test_*.py")}
    assert files == {f"test_{group}.py" for group in journeys_page.GROUPS}
    assert len(ROWS) == len({row.name for row in ROWS}) > 45


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_what_a_row_quotes_is_asserted(row):
    """Quoted words of `Now` stand in a text of the test's own code."""
    for quoted in re.findall(r'"([^"]+)"', row.now):
        assert quoted.rstrip(",") in row.texts, f"{row.name} does not assert {quoted!r}"


def test_a_row_without_before_and_now_is_refused(tmp_path):
    bad = tmp_path / "test_bad.py"
    bad.write_text('"""Bad"""\n\n\ndef test_it():\n    """Only this."""\n')
    with pytest.raises(ValueError, match="test_it does not say"):
        journeys_page.journeys(bad)
