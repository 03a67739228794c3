"""SQL: a query that answers a question about tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage.environments.text import answers, queries
from forage.environments.text.draws import draw_integer, draw_several, one
from forage.environments.text.problems import Family, Problem

NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana")
CITIES = ("Rome", "Oslo", "Lima")
ITEMS = ("tea", "rice", "salt", "corn")
HIDDEN = 2  # databases beside the one shown, on which answers are tried too


class SQL(Family):
    """Write a query with the reference's result on the tables shown and on others like them.

    A query that merely lists the rows shown is wrong. This follows the test suite accuracy of Zhong, Yu and Klein
    (Semantic Evaluation for Text-to-SQL with Distilled Test Suites, EMNLP 2020; its abstract was read). They choose
    from many random databases those that distinguish similar queries; here two are drawn with ages at the boundaries of
    the conditions.
    """

    name = "sql"
    levels = (
        "one condition",
        "two conditions, or one value of many rows",
        "order and limit with a condition",
        "groups with a condition on them",
        "two tables joined, in groups",
    )
    measure = "clauses"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        while True:
            age = draw_integer(generator, 25, 50)
            question, query, ordered, size = self._question(generator, difficulty, age)
            # In those that are not shown some ages are those where conditions begin to hold.
            edges = [[], *([age + step for step in (-1, 0, 1)] for _ in range(HIDDEN))]
            tables = [self._tables(generator, difficulty, each) for each in edges]
            results = [queries.run(each, query) for each in tables]
            shown = results[0]
            # Something is to be found, and it is not the same whatever the rows are.
            if shown and all(each is not None for each in results) and any(each != shown for each in results):
                break
        described = " ".join(
            f"Table {name}({', '.join(table['columns'])}): "
            + "; ".join(",".join(map(str, row)) for row in table["rows"])
            + "."
            for name, table in tables[0].items()
        )
        rows = [list(map(list, each)) for each in results if each is not None]
        data = {"tables": tables, "rows": rows, "ordered": ordered, "size": size}
        return Problem(f"{described} Write a SQL query: {question}", query, data)

    def _tables(self, generator: np.random.Generator, level: int, ages: list[int]) -> dict[str, dict[str, Any]]:
        """Draw the rows of people, the first of given ages, and of their orders at level 4."""
        names = draw_several(generator, NAMES, 5 + len(ages))
        people = [[name, draw_integer(generator, 18, 60), one(generator, CITIES)] for name in names]
        for row, each in zip(people, ages, strict=False):
            row[1] = each
        tables = {"people": {"columns": ["name", "age", "city"], "rows": people}}
        if level == 4:
            bought = [[one(generator, names), one(generator, ITEMS), draw_integer(generator, 1, 9)] for _ in range(7)]
            tables["orders"] = {"columns": ["name", "item", "amount"], "rows": bought}
        return tables

    def _question(self, generator: np.random.Generator, level: int, age: int) -> tuple[str, str, bool, int]:
        """Draw a question, its query, whether the order of the rows counts, and the query's clauses."""
        city = one(generator, CITIES)
        more = bool(generator.integers(2))
        side, sign = ("older", ">") if more else ("younger", "<")
        last, order = ("oldest", "DESC") if more else ("youngest", "ASC")
        where = f"age {sign} {age}"
        if level == 0:
            wanted = one(generator, ("name", "city"))
            called = "names" if wanted == "name" else "cities, with repetitions,"
            return (
                f"the {called} of people {side} than {age}.",
                f"SELECT {wanted} FROM people WHERE {where}",
                False,
                2,
            )
        if level == 1:
            if generator.integers(2):
                both = f"the names of people {side} than {age} in {city}."
                return both, f"SELECT name FROM people WHERE {where} AND city = '{city}'", False, 3
            word, function = one(generator, (("greatest", "MAX"), ("least", "MIN"), ("mean", "AVG"), ("summed", "SUM")))
            return f"the {word} age in {city}.", f"SELECT {function}(age) FROM people WHERE city = '{city}'", False, 3
        if level == 2:
            count = draw_integer(generator, 2, 3)
            query = f"SELECT name FROM people WHERE city <> '{city}' ORDER BY age {order}, name LIMIT {count}"
            asked = f"the names of the {count} {last} people outside {city}, the {last} first, ties by name."
            return asked, query, True, 4
        if level == 3:
            least = draw_integer(generator, 1, 2)
            word, function = one(generator, (("greatest", "MAX"), ("least", "MIN"), ("summed", "SUM")))
            query = (
                f"SELECT city, {function}(age) FROM people WHERE {where} GROUP BY city HAVING COUNT(*) >= {least} "
                "ORDER BY city"
            )
            asked = (
                f"of people {side} than {age}, each city with at least {least} of them, and their {word} age, by city."
            )
            return asked, query, True, 5
        column, word = one(generator, (("city", "city"), ("name", "person")))
        key = f"people.{column}"
        query = (
            f"SELECT {key}, SUM(amount) FROM people JOIN orders ON people.name = orders.name WHERE {where} "
            f"GROUP BY {key} ORDER BY SUM(amount) {order}, {key}"
        )
        first = "greatest" if more else "least"
        asked = f"the summed amount for each {word}, of people {side} than {age} with orders, "
        asked += f"{first} sum first, ties by {column}."
        return asked, query, True, 6

    def size(self, problem: Problem) -> int:
        return problem.data["size"]

    def reason(self, problem: Problem) -> str:
        """Write the rows of the query's result on the tables shown."""
        return f"The rows are {'; '.join(','.join(map(str, row)) for row in problem.data['rows'][0])}."

    def extract(self, text: str) -> str | None:
        """Return the tagged answer, or else the last block of SQL."""
        found = answers.extract_answer(text)
        return found if found is not None else answers.extract_code(text, "sql")

    def parse_answer(self, problem: Problem, found: str) -> tuple[str, list[tuple[Any, ...]]] | None:
        """Return a query that runs on the tables shown, and the rows that it gives there."""
        rows = queries.run(problem.data["tables"][0], found)
        return None if rows is None else (found, rows)

    def judge(self, problem: Problem, value: Any) -> bool:
        """Return whether a query gives the reference's rows on every database."""
        query, rows = value
        for tables, wanted in zip(problem.data["tables"], problem.data["rows"], strict=True):
            if rows is None:
                rows = queries.run(tables, query)
            if rows is None or not queries.same_results(rows, wanted, problem.data["ordered"]):
                return False
            rows = None
        return True
