"""Every adapter against its library, driven directly: see `conformance.py`."""

import os

import pytest
from conformance import case, here
from conformance_checks import CHECKS
from conformance_rows import ROWS
from tiers import gated

# MuJoCo and Atari take longest.
THOROUGH = ("gymnasium:Hopper-v5", "gymnasium:ALE/Breakout-v5", "ale:Breakout")
GATE = [row for row in ROWS if row.id not in THOROUGH]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """MuJoCo writes its log into the current directory."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("row", gated(ROWS, GATE), ids=lambda row: row.id)
def test_the_adapter_says_what_the_library_says(row, check):
    if not here(row):
        pytest.skip(f"{row.library} is not installed")
    if row.slow and not os.environ.get("FORAGE_SLOW"):
        pytest.skip("compiles for minutes; FORAGE_SLOW=1 and docs/make/conformance.py compare it")
    reason = CHECKS[check](case(row.id))
    assert reason is None or reason.strip()
