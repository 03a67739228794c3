"""Every adapter against its library, driven directly: see `conformance.py`."""

import os

import pytest
from conformance import case, run_here
from conformance_checks import CHECKS
from conformance_rows import ROWS
from tiers import gate_cases

# MuJoCo and Atari take longest.
THOROUGH = ("gymnasium:Hopper-v5", "gymnasium:ALE/Breakout-v5", "ale:Breakout")
GATE = [row for row in ROWS if row.id not in THOROUGH]


@pytest.fixture(autouse=True)
def other_folder(tmp_path, monkeypatch):
    """MuJoCo writes its log into the current directory."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("row", gate_cases(ROWS, GATE), ids=lambda row: row.id)
def test_the_adapter_says_what_the_library_says(row, check):
    if not run_here(row):
        pytest.skip(f"{row.library} is not installed")
    if row.slow and not os.environ.get("FORAGE_SLOW"):
        pytest.skip("compiles for minutes; FORAGE_SLOW=1 and docs/make/conformance.py compare it")
    reason = CHECKS[check](case(row.id))
    assert reason is None or reason.strip()
