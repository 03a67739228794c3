"""SQL over a database in memory, for reading, or for an episode's own changes.

SQLite asks an authorizer about everything that a statement would do, and what is not listed is denied: files, other
databases, settings, extensions, triggers, transactions, all but well-known functions. Work ends after a fixed number of
SQLite's instructions, the same on every machine; a limit by the clock stands behind it for single instructions that
take long.
"""

from __future__ import annotations

import copy
import dataclasses
import sqlite3
import time
from typing import Any

from forage.core.errors import ForageError
from forage.environments.text.tools.tool import Answer

READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
WRITING = {
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_CREATE_VIEW,
    sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_DROP_INDEX,
    sqlite3.SQLITE_DROP_VIEW,
    sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_REINDEX,
}
# Functions that end soon whatever they are given. `printf` pads to a billion characters within one instruction, the
# drawing of random numbers would differ when a run goes on from where it was stopped, and others load code.
FUNCTIONS = set(
    """
    abs avg ceil ceiling char coalesce concat concat_ws count cume_dist date datetime dense_rank exp first_value floor
    glob group_concat hex ifnull iif instr julianday lag last_value lead length like ln log log10 log2 lower ltrim max
    min mod nth_value ntile nullif percent_rank pow power quote rank replace round row_number rtrim sign sqrt strftime
    string_agg substr substring sum time total trim trunc typeof unicode unixepoch upper
    """.split()  # noqa: SIM905
)
EVERY = 100  # instructions between two looks at the limits


@dataclasses.dataclass
class Database:
    """A database that a policy asks in SQL, one statement a call."""

    script: str  # statements that make it, which are ours and are not limited
    writes: bool = False  # whether a policy may change it; `begin` undoes the changes
    rows: int = 20  # of an answer
    instructions: int = 100_000  # of SQLite's machine, for a statement
    length: int = 4000  # bytes of a text, a row and a statement
    pages: int = 256  # of 4 KiB, that the database may hold
    seconds: float = 2.0  # on the clock, behind the limit of instructions

    name: str = "sql"
    description: str = ""  # made of the tables where it is empty

    def __post_init__(self) -> None:
        """Make the database, and describe it."""
        for option in ("rows", "instructions", "length", "pages"):
            value = getattr(self, option)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ForageError(f"A database's {option} is a whole number of at least 1, not {value!r}.")
        if not self.seconds > 0:
            raise ForageError(f"A database's seconds are more than 0, not {self.seconds!r}.")
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            self.connection.executescript(self.script)
            tables = self.connection.execute(
                "SELECT name, group_concat(column, ', ') FROM (SELECT m.name, p.name AS column FROM sqlite_master AS m "
                "JOIN pragma_table_info(m.name) AS p WHERE m.type IN ('table', 'view')) GROUP BY name ORDER BY name"
            ).fetchall()
        except sqlite3.Error as error:
            self.connection.close()
            raise ForageError(f"The database cannot be made of its script: {error}.") from None
        if not tables:
            self.connection.close()
            raise ForageError("The database's script makes no table.")
        if not self.description:
            kinds = "reads and changes" if self.writes else "reads"
            shown = "; ".join(f"{table}({columns})" for table, columns in tables)
            self.description = f"{kinds} a database by one SQLite statement at a time; tables: {shown}."
        self.first = self.connection.serialize()
        self.guard()

    def begin(self, seed: int) -> None:
        """Begin an episode with the database as its script made it."""
        if self.writes:
            self.restore(self.first)

    def save(self) -> bytes:
        """Return the database as it is."""
        self.connection.set_authorizer(None)  # it would be asked about SQLite's own work
        saved = self.connection.serialize()
        self.connection.set_authorizer(self.authorise)
        return saved

    def restore(self, saved: bytes) -> None:
        """Take a database that was saved."""
        self.connection.close()
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.deserialize(saved)
        self.guard()

    def close(self) -> None:
        """Close the database."""
        self.connection.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Database:
        """Return a copy that continues from the same rows, as a group of episodes with one start needs it."""
        other = copy.copy(self)
        other.connection = sqlite3.connect(":memory:", check_same_thread=False)
        other.restore(self.save())
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for a pickle."""
        return {**{k: v for k, v in self.__dict__.items() if k != "connection"}, "saved": self.save()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state of a pickle."""
        saved = state.pop("saved")
        self.__dict__.update(state)
        self.connection = sqlite3.connect(":memory:", check_same_thread=False)
        self.restore(saved)

    def guard(self) -> None:
        """Set the limits of a connection."""
        connection = self.connection
        connection.text_factory = lambda text: text.decode(errors="replace")
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA max_page_count = {self.pages}")
        limits = {
            sqlite3.SQLITE_LIMIT_LENGTH: self.length,
            sqlite3.SQLITE_LIMIT_SQL_LENGTH: self.length,
            sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 50,
            sqlite3.SQLITE_LIMIT_COLUMN: 100,
            sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
            sqlite3.SQLITE_LIMIT_VDBE_OP: 25_000,
            sqlite3.SQLITE_LIMIT_ATTACHED: 0,
            sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
            sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
            sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
        }
        for limit, value in limits.items():
            connection.setlimit(limit, value)
        connection.set_authorizer(self.authorise)

    def authorise(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        """Return SQLite's code for allowing or denying an operation; `second` is the name of a function."""
        if action == sqlite3.SQLITE_FUNCTION:
            return sqlite3.SQLITE_OK if (second or "").lower() in FUNCTIONS else sqlite3.SQLITE_DENY
        allowed = action in READING or (self.writes and action in WRITING)
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    def call(self, text: str) -> Answer:
        """Return the rows of a statement, or a sentence about the error in it."""
        start = time.perf_counter()
        counted = 0

        def look() -> bool:
            nonlocal counted
            counted += EVERY
            return counted > self.instructions or time.perf_counter() - start > self.seconds

        self.connection.set_progress_handler(look, EVERY)
        try:
            if not text.strip():
                raise ValueError("the statement is empty")
            said, error = self.ask(text.strip()), False
        except (sqlite3.Error, sqlite3.Warning, ValueError) as problem:
            said, error = self.sentence(problem), True
        return Answer(said, error, time.perf_counter() - start)

    def ask(self, statement: str) -> str:
        """Return the result of a statement as text: a line of names, and a line for each row."""
        before = self.connection.total_changes
        cursor = self.connection.execute(statement)
        try:
            if cursor.description is None:
                changed = self.connection.total_changes - before
                return f"Done: {changed} row{'' if changed == 1 else 's'} changed."
            lines = [" | ".join(column[0] for column in cursor.description)]
            found = cursor.fetchmany(self.rows + 1)
        finally:
            cursor.close()
        lines += [" | ".join(map(cell, row)) for row in found[: self.rows]]
        if not found:
            lines.append("(no rows)")
        if len(found) > self.rows:
            lines.append(f"[only the first {self.rows} rows]")
        return "\n".join(lines)

    def sentence(self, problem: Exception) -> str:
        """Return an error of SQLite's as a sentence."""
        said = str(problem).strip().rstrip(".")
        if said == "interrupted":
            return f"The statement was stopped after {self.instructions:,} steps or {self.seconds:g} seconds."
        if "not authorized" in said or "authorization denied" in said or "prohibited" in said:
            can = "read and change the tables" if self.writes else "read the tables"
            return f"The statement is not allowed: it may only {can}, with functions that end soon ({said})."
        return f"SQLite says: {said}."


def cell(value: object) -> str:
    """Return a value of a row as text."""
    if value is None:
        return "NULL"
    return f"x'{value.hex()}'" if isinstance(value, bytes) else str(value)
