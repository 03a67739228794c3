"""SQL queries on small tables in memory, by SQLite, within limits that no query exceeds.

- A query is one SELECT of at most 400 characters in which commas, FROM and JOIN come at most 12 times, and without
  WITH. So it joins at most 12 tables, subqueries are as many as are written, and SQLite's planner has little to do.
- An authoriser lets SQLite prepare reads of the tables given and calls of plain functions alone: no writing, no other
  files, no pragmas, no extensions, no recursion, no LIKE and no GLOB, whose one step may take long.
- Running it stops after 200,000 instructions of SQLite's machine, which are counted and do not depend on the clock.
- Texts have at most 1,000 characters, rows 16 columns, results 200 rows.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST, PARTS, ROWS = 400, 12, 200
EVERY, TIMES = 1000, 200  # instructions between two counts, and counts
PLAIN = (
    "abs avg coalesce count dense_rank ifnull length lower max min nullif rank round row_number substr sum total trim"
)
FUNCTIONS = frozenset((*PLAIN.split(), "upper"))
LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: LONGEST,
    sqlite3.SQLITE_LIMIT_COLUMN: 16,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 20,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 4,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 8,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
}

Tables = Mapping[str, Mapping[str, Any]]  # of each: `columns` and `rows`


def is_query(text: str) -> bool:
    """Return whether a text is within the limits of one SELECT, as far as its words say."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "''", text).lower()
    words = re.findall(r"[a-z_]+|,", bare)
    return (
        len(text) <= LONGEST
        and words[:1] == ["select"]
        and "with" not in words
        and sum(word in (",", "from", "join") for word in words) <= PARTS
        and not any(mark in bare for mark in ("--", "/*", "?", "[", "`", "\0"))
        and ";" not in bare.rstrip().removesuffix(";")
    )


def open_database(tables: Tables) -> sqlite3.Connection:
    """Return a database in memory that holds some tables."""
    connection = sqlite3.connect(":memory:")
    for name, table in tables.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(table['columns'])})")
        marks = ", ".join("?" for _ in table["columns"])
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", table["rows"])
    return connection


def run(tables: Tables, query: str) -> list[tuple[Any, ...]] | None:
    """Return the rows of a query, or None if it is refused, wrong, too long or too large."""
    if not is_query(query):
        return None
    connection = open_database(tables)
    counts = 0

    def authorise(action: int, first: str | None, second: str | None, *_: Any) -> int:
        if action == sqlite3.SQLITE_SELECT:
            return sqlite3.SQLITE_OK
        fine = (action == sqlite3.SQLITE_READ and first in tables) or (
            action == sqlite3.SQLITE_FUNCTION and second in FUNCTIONS
        )
        return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY

    def exceeds_limit() -> int:
        nonlocal counts
        counts += 1
        return int(counts > TIMES)

    try:
        for limit, most in LIMITS.items():
            connection.setlimit(limit, most)
        connection.set_authorizer(authorise)
        connection.set_progress_handler(exceeds_limit, EVERY)
        rows = connection.execute(query).fetchmany(ROWS + 1)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError):
        return None
    finally:
        connection.close()
    return rows if len(rows) <= ROWS else None


def same_results(rows: Sequence[tuple[Any, ...]], others: Sequence[tuple[Any, ...]], ordered: bool) -> bool:
    """Return whether two results are equal: whole numbers as fractions, and order only if `ordered`."""
    plain = [[tuple(_plain(value) for value in row) for row in result] for result in (rows, others)]
    return plain[0] == plain[1] if ordered else sorted(plain[0], key=repr) == sorted(plain[1], key=repr)


def _plain(value: Any) -> Any:
    """Return a value of SQLite as it is compared."""
    return round(float(value), 6) if isinstance(value, (int, float)) else value
