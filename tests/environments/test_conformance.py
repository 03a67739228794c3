"""Every adapter beside the library that it opens, driven directly: see `conformance.py`."""

import pytest
from conformance import CHECKS, case, here
from conformance_rows import ROWS


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_adapter_says_what_the_library_says(row, check):
    if not here(row):
        pytest.skip(f"{row.library} is not installed")
    if check in row.slow:
        pytest.skip("slow; docs/conformance.py makes this check")
    reason = CHECKS[check](case(row.id))
    assert reason is None or reason.strip()
