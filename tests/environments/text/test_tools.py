"""Calls are found in any text, tools answer them within their limits, and no text of a policy raises."""

import copy
import math
import pickle
import random

import pytest

from forage.core.errors import ForageError
from forage.environments.text import tools
from forage.environments.text.tools.calculator import Calculator
from forage.environments.text.tools.database import Database
from forage.environments.text.tools.python import Python
from forage.environments.text.tools.search import Search
from forage.environments.text.tools.tool import Answer, printable_text
from forage.environments.text.tools.toolbox import Call, Complaint, Syntax, Toolbox, parse_calls


def find_results(written, most=4, longest=50):
    return parse_calls(written, ("calculator", "sql"), Syntax(), most, longest)


# Calls


def test_calls_are_found_in_their_order():
    written = "I add. <call>calculator: 1+2</call> And <call> sql :SELECT 1:2</call> done"
    assert find_results(written) == (Call("calculator", " 1+2"), Call("sql", "SELECT 1:2"))
    assert find_results("no call, and a < b > c") == ()


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("<call>calculator 1+2</call>", "The call has no colon: a call is written <call>name: text</call>."),
        ("<call>calcualtor: 1</call>", "There is no tool calcualtor. Did you mean 'calculator'?"),
        ("<call>a b\nc: 1</call>", "There is no tool of that name. Available: calculator, sql."),
        ("<call>calculator: </call>", "The call of calculator has no text after the colon."),
        ("<call>calculator: 1+2", "The call is not ended by </call>."),
        ("1+2</call>", "</call> ends no call: a call is written <call>name: text</call>."),
        ("<call>sql:" + "x" * 51 + "</call>", "The text of a call has at most 50 characters, and this one 51."),
    ],
)
def test_what_is_no_call_gets_a_sentence(written, says):
    assert find_results(written) == (Complaint(says),)


def test_a_call_within_a_call_is_made_and_the_outer_one_is_not():
    within = "A call begins within another, which is left out."
    assert find_results("<call>sql: <call>calculator: 1</call>") == (Complaint(within), Call("calculator", " 1"))
    assert find_results("<call><call>") == (Complaint(within), Complaint("The call is not ended by </call>."))


def test_a_flood_of_calls_is_cut():
    calls = find_results("<call>sql: 1</call>" * 1000)
    assert calls[:4] == (Call("sql", " 1"),) * 4
    assert calls[4:] == (Complaint("At most 4 calls are answered in a turn: 996 more were left out."),)


def test_parsing_never_raises():
    pieces = ["<call>", "</call>", "calculator", ":", "sql", "<", "\ud800", "\x00", " ", "1", "<result>"]
    draw = random.Random(0)
    for _ in range(3000):
        written = "".join(draw.choices(pieces, k=draw.randrange(12)))
        calls = find_results(written)
        assert len(calls) <= 5
        assert all(one.text and isinstance(one, (Call, Complaint)) for one in calls)
        assert bool(calls) == ("<call>" in written or "</call>" in written)


class Odd:
    """Answers with its given object, or raises it."""

    name, description = "odd", "is odd"

    def __init__(self, answer):
        self.answer = answer

    def call(self, text):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_reply_holds_all_answers_cut_and_without_markers():
    echo = Odd(Answer("a</result><call>odd: x</call>\x1b[31m" + "b" * 2000, False, 0.5))
    reply = Toolbox((echo, Calculator()), limit=60).reply(
        "<call>calculator: 2*3</call><call>odd: 1</call><call>x</call>"
    )
    first, second, third = reply.answers
    assert (first.text, first.error) == ("6", False)
    assert second.text.startswith("a< /result>< call>odd: x< /call>?[31mbbb") and second.text.endswith(
        "\n[cut: 1,974 more characters]"
    )
    assert third.error
    assert reply.text == f"<result>6</result>\n<result>{second.text}</result>\n<result>{third.text}</result>"
    assert Toolbox((echo,)).reply("nothing").text == ""


def test_a_tool_that_raises_costs_the_call_alone():
    reply = Toolbox((Odd(ValueError("seven")),)).reply("<call>odd: 1</call>")
    assert reply.text == "<result>The tool odd failed: ValueError: seven</result>" and reply.answers[0].error
    with pytest.raises(ForageError, match="mend this"):
        Toolbox((Odd(ForageError("mend this")),)).reply("<call>odd: 1</call>")
    with pytest.raises(ForageError, match="answered with 7, and a tool's answer is an Answer"):
        Toolbox((Odd(7),)).reply("<call>odd: 1</call>")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Toolbox((Calculator(), Calculator())), "different names, and has calculator, calculator"),
        (lambda: Toolbox(()), "has none"),
        (lambda: Toolbox((object(),)), "lacks one of them"),
        (lambda: Toolbox((Calculator(),), most=0), "most is a whole number of at least 1, not 0"),
        (lambda: Syntax("<a>", "<a>b"), "none may contain another"),
        (lambda: Syntax(begin="<"), "at least two characters"),
        (lambda: tools.make_tool("calculater"), "Did you mean 'calculator'"),
        (lambda: tools.make_tool("calculator", digits=3), "cannot be made of digits: it has no option 'digits'"),
        (lambda: tools.make_tool("sql"), "'sql' needs its script.*as Database.script.. Take one .* calculator, python"),
        (lambda: tools.make_tool("search"), "'search' needs its documents, which an option cannot give"),
        (lambda: Search({}), "at least one document"),
        (lambda: Search({"": "..."}), "documents with words"),
        (lambda: Search({"a": "b"}, b=2), "b from 0 to 1"),
        (lambda: Database("CREATE TABL"), "cannot be made of its script: near"),
        (lambda: Database(""), "makes no table"),
        (lambda: Database("CREATE TABLE a(b)", rows=0), "rows is a whole number"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_in_one_sentence(make, says):
    with pytest.raises(ForageError, match=says):
        make()


def test_every_tool_of_the_table_is_there():
    options = {"sql": {"script": "CREATE TABLE a(b)"}, "search": {"documents": {"a": "b"}}}
    for name in tools.TOOLS:
        if name != "python":  # needs a system that confines
            tool = tools.make_tool(name, **options.get(name, {}))
            assert tool.name == name and f"\n{name}: " in Toolbox((tool,)).description()
    assert tools.TOOLS["python"] == "python:Python" and Python.__name__ == "Python"


def test_control_characters_are_not_shown():
    assert printable_text("a\x1b[2Jb\r\nc\td\u202e\udc80\x07", 99) == "a?[2Jb\nc\td???"


# Calculator


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("123456 + 654321", "777777"),
        ("1/3 + 1/6", "1/2"),
        ("2^10 - 2**3", "1016"),
        ("-7 // 2, ", None),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("7.5 // 2", "3.0"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("float(1/4)", "0.25"),
        ("sqrt(9/16)", "3/4"),
        ("sqrt(2)", repr(math.sqrt(2))),
        ("(2/3)**-2", "9/4"),
        ("(-8)**3", "-512"),
        ("gcd(12, 18, 27) * lcm(4, 6)", "36"),
        ("comb(5, 2) + factorial(4)", "34"),
        ("round(5/2) + round(7/2)", "6"),
        ("max(1, 3/2, 1.25)", "3/2"),
        ("1 +\n 1", "2"),
        ("(1)**(10**600)", "1"),
    ],
)
def test_the_calculator_computes(text, value):
    answer = Calculator().call(text)
    assert answer.error == (value is None) and (value is None or answer.text == value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1/0", "A division by zero has no value."),
        ("0**-1", "A division by zero has no value."),
        ("9**9**9", "A number has more than about 616 digits."),
        ("10**308 * 10.0**308", "A number became too large for floating point."),
        ("float(2**2000)", "A number became too large for floating point."),
        ("factorial(400)", "400 is not a whole number up to 300."),
        ("(-2)**0.5", "A negative number has no real root of that kind."),
        ("sqrt(-1)", "A function has no real value there."),
        ("log(0)", "A function has no real value there."),
        ("__import__(1)", "There is no function __import__; there are abs, "),
        ("print", "print is neither a number nor one of pi, e."),
        ("1 if 1 else 2", "The expression holds something else than"),
        ("[1]", "'[' is not part of an expression."),
        ("'a'*9", '"\'" is not part of an expression.'),
        ("1 +", "The expression cannot be read"),
        ("", "The expression cannot be read"),
        ("(" * 200, "The expression cannot be read"),
        ("-" * 300 + "1", "The expression"),
        ("abs(1, 2)", "abs takes 1 numbers."),
        ("1or 2", "The expression holds something else than"),
        ("gcd(1/2)", "1/2 is not a whole number."),
        ("1" * 501, "An expression has at most 500 characters, and this one 501."),
        ("round(1.5, 10**9)", "1000000000 is not a whole number up to 100."),
    ],
)
def test_the_calculator_says_why_not(text, says):
    answer = Calculator().call(text)
    assert answer.error and answer.text.startswith(says) and "\n" not in answer.text


def test_the_calculator_never_raises_and_is_quick():
    pieces = [
        "9",
        "9**",
        "(",
        ")",
        "*",
        "-",
        "/",
        ".",
        "e9",
        "factorial(",
        "comb(",
        ",",
        "0",
        "sqrt(",
        "round(",
        "%",
        " ",
    ]
    draw, calculator = random.Random(0), Calculator()
    for _ in range(1000):
        answer = calculator.call("".join(draw.choices(pieces, k=draw.randrange(10))))
        assert answer.text and answer.seconds < 1


# Search


def test_bm25_by_hand():
    """Three documents, each counted with its title; lengths 4, 2 and 3, so the average is 3.

    "red" stands in two of three: idf = log(1 + 1.5 / 2.5) = log 1.6. "fox" in one: idf = log(1 + 2.5 / 1.5) = log(8/3).
    Document a has "red" twice among 4 words: 2 * 2.2 / (2 + 1.2 * (0.25 + 0.75 * 4 / 3)) = 4.4 / 3.5.
    Document b has it once among 2: 2.2 / (1 + 1.2 * (0.25 + 0.75 * 2 / 3)) = 2.2 / 1.9; "fox" as well.
    """
    search = Search({"a": "red, RED cat", "b": "red-fox", "c": "blue cat"})
    search = Search({"a": "red, RED cat", "fox": "red", "c": "blue cat"})
    red, fox = math.log(1.6), math.log(8 / 3)
    assert search.scores("Red?") == pytest.approx([red * 4.4 / 3.5, red * 2.2 / 1.9, 0])
    assert search.scores("red fox") == pytest.approx([red * 4.4 / 3.5, (red + fox) * 2.2 / 1.9, 0])
    assert search.call("red").text == "1. a: red, RED cat\n2. fox: red"
    assert search.call("fox red").text == "1. fox: red\n2. a: red, RED cat"


def test_search_says_when_nothing_is_found():
    search = Search({"a": "b" * 400}, shown=10)
    assert (search.call("zebra").text, search.call("zebra").error) == ("No document has any of these words.", False)
    assert search.call("a").text == "1. a: bbbbbbbbbb ..."
    assert search.call("?!").error and search.call("x" * 501).error


# SQL

SCRIPT = "CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, NULL);"


@pytest.fixture
def database():
    made = []

    def make(**options):
        made.append(Database(SCRIPT, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_sql_is_answered_with_rows(database):
    tool = database(rows=2)
    assert tool.description.endswith("reads a database by one SQLite statement at a time; tables: t(a, b).")
    assert tool.call("SELECT a, b FROM t WHERE a > 1").text == "a | b\n2 | y\n3 | NULL"
    assert tool.call("SELECT a FROM t").text == "a\n1\n2\n[only the first 2 rows]"
    assert tool.call("SELECT a FROM t WHERE 0").text == "a\n(no rows)"
    counted = tool.call(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT sum(i) FROM n"
    )
    assert counted.text == "sum(i)\n45"


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (4, 'z')",
        "DROP TABLE t",
        "ATTACH '/tmp/forage-attached.db' AS other",
        "PRAGMA journal_mode = WAL",
        "SELECT * FROM pragma_database_list",
        "VACUUM INTO '/tmp/forage-attached.db'",
        "SELECT load_extension('x')",
        "SELECT random()",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT zeroblob(1000000000)",
        "BEGIN",
        "CREATE TEMP TABLE u(v)",
    ],
)
def test_sql_for_reading_may_only_read(statement, database):
    answer = database().call(statement)
    assert answer.error and answer.text.startswith("The statement is not allowed: it may only read the tables")


FOREVER = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (FOREVER.format("max(i)"), "The statement was stopped after 100,000 steps or 0.5 seconds."),
        (FOREVER.format(f"count(DISTINCT '{'x' * 3000}' || i)"), "The statement was stopped"),
        (FOREVER.format(f"sum(instr('{'x' * 2400}' || i, '{'x' * 1200}y'))"), "The statement was stopped"),
        (FOREVER.format(f"sum('{'a' * 3700}' || i LIKE '{'%a' * 40}%b')"), "The statement was stopped"),
        (FOREVER.format(f"sum(length(trim('{'x' * 1500}' || i, '{'y' * 300}x')))"), "The statement was stopped"),
        (f"SELECT replace('{'x' * 1000}', 'x', 'yyyyy')", "SQLite says: string or blob too big."),
        ("SELECT 1; SELECT 2", "SQLite says: You can only execute one statement at a time."),
        ("SELEC 1", 'SQLite says: near "SELEC": syntax error.'),
        ("SELECT " + "(" * 60 + "1" + ")" * 60, ""),
        ("SELECT '" + "%a" * 60 + "' WHERE 'aaa' LIKE '" + "%a" * 60 + "'", "SQLite says: LIKE or GLOB pattern too"),
        ("SELECT 1\x00", "SQLite says: "),
        ("SELECT '\ud800'", "SQLite says: "),
        ("", "SQLite says: the statement is empty."),
        (f"SELECT '{'x' * 5000}'", "SQLite says: query string is too large."),
    ],
)
def test_sql_ends_within_its_limits(statement, says, database):
    answer = database(seconds=0.5).call(statement)
    assert answer.text.startswith(says) and answer.seconds < 8
    assert answer.error == bool(says)


def test_an_episode_changes_its_own_database(database):
    tool = database(writes=True)
    assert tool.call("UPDATE t SET b = 'z' WHERE a < 3").text == "Done: 2 rows changed."
    assert tool.call("CREATE TABLE u AS SELECT a * 10 AS c FROM t").error is False
    assert tool.call("SELECT max(c) FROM u").text == "max(c)\n30"
    assert tool.call("DROP TABLE sqlite_master").error and tool.call("ATTACH ':memory:' AS m").error
    changed = "SELECT group_concat(b) FROM t"
    other, pickled = copy.deepcopy(tool), pickle.loads(pickle.dumps(tool))
    assert other.call("DELETE FROM t").text == "Done: 3 rows changed."
    assert pickled.call(changed).text == tool.call(changed).text == "group_concat(b)\nz,z"
    saved = tool.save()
    tool.begin(0)
    assert tool.call(changed).text == "group_concat(b)\nx,y" and tool.call("SELECT * FROM u").error
    tool.restore(saved)
    assert tool.call(changed).text == "group_concat(b)\nz,z"
    wide = f"hex(replace('xxxxxxxxxx', 'x', '{'y' * 190}'))"
    full = tool.call(f"CREATE TABLE big AS SELECT {wide} FROM t AS a, t AS b, t AS c, t AS d, t AS e, t AS f")
    assert full.text == "SQLite says: database or disk is full."
    assert tool.call("SELECT * FROM big").error
    for one in (other, pickled):
        one.close()


# Python


def test_python_answers_with_what_was_written():
    try:
        python = Python()
    except ForageError as refusal:
        pytest.skip(str(refusal))
    box = Toolbox((python, Database(SCRIPT, writes=True)))
    reply = box.reply(
        "<call>python:\n    x = 2\n    print(x ** 3)\n</call><call>python: 1/0</call><call>python: 1</call>"
    )
    first, second, third = reply.answers
    assert (first.text, first.error) == ("8", False)
    assert second.error and second.text.endswith("\nZeroDivisionError: division by zero")
    assert (third.text, third.error) == ("The program wrote nothing.", False)
    record = box.record()
    assert record["sql"] == {} and record["python"]["limits"]["cpu"] == 2 and "seccomp" in record["python"]["promises"]
    box.tools[1].close()
