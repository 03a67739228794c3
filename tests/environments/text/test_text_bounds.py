"""Our judges of patterns and queries agree with Python and SQLite, and are bounded for any input."""

import itertools
import re
import time

import numpy as np
import pytest

from forage.environments.text import patterns, queries

TABLES = {"people": {"columns": ["name", "age"], "rows": [["Ann", 30], ["Ben", 20], ["Cleo", 25]]}}


def random_pattern(generator, depth=0):
    kind = int(generator.integers(7 if depth < 3 else 3))
    if kind < 3:
        return ["a", "[ab]", "[^a]", ".", "b", "\\w", "[a-b]"][int(generator.integers(7))]
    inner = random_pattern(generator, depth + 1)
    if kind == 3:
        return inner + random_pattern(generator, depth + 1)
    if kind == 4:
        return f"({inner}|{random_pattern(generator, depth + 1)})"
    return f"({inner}){['*', '+', '?', '{2}', '{1,2}', '{1,}', '{0}'][int(generator.integers(7))]}"


def test_patterns_match_what_python_matches():
    generator = np.random.default_rng(0)
    words = [
        "",
        *(
            "".join("abc"[(number // 3**place) % 3] for place in range(length))
            for length in (1, 2, 3)
            for number in range(3**length)
        ),
    ]
    for _ in range(60):
        text = random_pattern(generator)
        pattern = patterns.compile_pattern(text)
        assert pattern is not None, text
        assert [pattern.matches(word) for word in words] == [bool(re.fullmatch(text, word)) for word in words], text


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("^a+$", "aa", "ab"),
        (r"a\.b", "a.b", "axb"),
        (r"\d{2,3}", "123", "1"),
        ("(?:ab)*c", "ababc", "abab"),
        ("a|", "", "b"),
        (r"a\$", "a$", "a"),
        ("[.*]", "*", "a"),
    ],
)
def test_patterns_by_hand(text, inside, outside):
    pattern = patterns.compile_pattern(text)
    assert pattern.matches(inside) and not pattern.matches(outside)


@pytest.mark.parametrize(
    "text",
    [
        "(",
        "a)",
        "*",
        "a**",
        "a*?",
        "[",
        "[]",
        "[b-a]",
        "a{3,2}",
        "(?=a)",
        r"\1",
        "a{",
        "a" * 101,
        "((a{99}){99}){99}",
        "(" * 11 + ")" * 11,
    ],
)
def test_other_patterns_are_malformed(text):
    assert patterns.compile_pattern(text) is None


@pytest.mark.parametrize("text", ["(a*)*b", "(a|a)*b", "(a|aa)+$", "(.*)*(.*)*(.*)*b", "(a?){99}a{99}"])
def test_patterns_that_take_forever_elsewhere_do_not_here(text):
    began = time.process_time()
    patterns.compile_pattern(text).matches("a" * 200)
    assert time.process_time() - began < 5


def test_queries_by_hand():
    assert queries.run(TABLES, "SELECT name FROM people WHERE age > 22 ORDER BY age") == [("Cleo",), ("Ann",)]
    assert queries.run(TABLES, "select count(*), avg(age) from people;") == [(3, 25.0)]
    assert (
        queries.run(TABLES, "SELECT a.name FROM people a JOIN people b ON a.age < b.age AND b.name = 'Ann'") is not None
    )
    assert queries.same_results([(1, "a"), (2, "b")], [[2.0, "b"], [1, "a"]], ordered=False)
    assert not queries.same_results([(1, "a"), (2, "b")], [[2.0, "b"], [1, "a"]], ordered=True)
    assert not queries.same_results([(1,), (1,)], [[1]], ordered=False) and not queries.same_results(
        [("1",)], [[1]], ordered=False
    )


@pytest.mark.parametrize(
    "query",
    [
        "DROP TABLE people",
        "SELECT name FROM people; DROP TABLE people",
        "SELECT * FROM sqlite_master",
        "SELECT load_extension('x')",
        "SELECT randomblob(1000000000)",
        "SELECT zeroblob(1000000000)",
        "SELECT printf('%1000000000d', 1)",
        "SELECT writefile('x', 'y')",
        "SELECT * FROM pragma_database_list",
        "SELECT name FROM people WHERE name LIKE '%a%a%a%a%a%b'",
        "SELECT name FROM people WHERE name GLOB '*a*a*a*a*b'",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t",
        "SELECT 1 FROM people AS a, (WITH t AS (SELECT 1) SELECT * FROM t)",
        "SELECT COUNT(*) FROM " + ", ".join(f"people AS p{number}" for number in range(12)),  # 3^12 rows
        "SELECT 1 FROM " + ", ".join("people" for _ in range(40)),
        "SELECT [a'] FROM people, people, people WHERE 'x' = ''",
        "SELECT 1 -- , \n FROM people",
        "SELECT ?",
        "SELECT " + "(" * 100 + "1" + ")" * 100,
        "SELECT 1" + " + 1" * 200,
        "SELECT a.name || b.name FROM people a, people b, people c, people d, people e, people f",  # 729 rows
        "SELECT",
        "VALUES (1)",
        "ATTACH 'x' AS y",
        "PRAGMA table_list",
        "EXPLAIN SELECT 1",
        "SELECT name FROM people\0",
        "SELECT '\ud800'",
    ],
)
def test_queries_out_of_bounds_are_refused_soon(query, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    began = time.process_time()
    assert queries.run(TABLES, query) is None
    assert time.process_time() - began < 5 and not list(tmp_path.iterdir())


def test_the_largest_joins_allowed_are_planned_soon():
    """Twelve tables with as many conditions as fit are the most that SQLite has to plan."""
    names = [f"p{number}" for number in range(6)]
    joins = ", ".join(f"people {name}" for name in names)
    conditions = " AND ".join(f"{left}.age = {right}.age" for left, right in itertools.pairwise(names))
    began = time.process_time()
    assert queries.run(TABLES, f"SELECT p0.name FROM {joins} WHERE {conditions}") == [("Ann",), ("Ben",), ("Cleo",)]
    twelve = ", ".join(f"people {letter}" for letter in "abcdefghijkl")
    assert queries.run(TABLES, f"SELECT 1 FROM {twelve} WHERE a.age < 0") == []
    assert time.process_time() - began < 5
