"""Claims: the central statements of papers, each as a small experiment that runs (`forage claim NAME`).

Packages that add parts bring the claims (`CLAIMS` of their entry point; see `forage.config.packages`): a row for each
claim, in a file of TOML for each theme. `rows.py` explains a row, and `claim.py` defines the experiment that one makes.
"""

from forage.core.errors import ForageError, nearest
from forage.studies.claims.rows import Row, find_rows, rows_about


def names() -> list[str]:
    """Return the name of every claim."""
    return list(find_rows())


def claim_row(name: str) -> Row:
    """Return the row of a claim. Raise `ForageError` if no package has it."""
    if name not in find_rows():
        raise ForageError(f"Unknown claim {name!r}{nearest(name, find_rows())}")
    return find_rows()[name]


def statement(name: str) -> str:
    """Return the sentence that a claim tests."""
    return str(claim_row(name).table.get("statement", ""))


def of_part(name: str) -> dict[str, str]:
    """Return the statement of each claim about a part: that of its own name first, then those that list it."""
    return {claim: str(row.table.get("statement", "")) for claim, row in rows_about(name).items()}
