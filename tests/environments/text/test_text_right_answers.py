"""Problems with several right answers, by brute force: the verifier accepts all of them and no others."""

import itertools
import re
from fractions import Fraction

import numpy as np
import pytest

from forage.environments.text import expressions, sets
from forage.environments.text.families.calendar import DAYS
from forage.environments.text.families.logic_grid import PEOPLE, THINGS
from forage.environments.text.families.programs import python_lines
from forage.environments.text.families.satisfiability import true
from forage.environments.text.opening import family


def judge(name, problem, answer):
    return family(name).verify(problem, f"<answer>{answer}</answer>").truth == 1


def all_trees(numbers):
    """Yield all expressions of all numbers, with their exact values; None for a division by zero."""
    if len(numbers) == 1:
        yield numbers[0], Fraction(numbers[0])
        return
    places = range(len(numbers))
    for size in range(1, len(numbers)):
        for chosen in itertools.combinations(places, size):
            rest = [numbers[place] for place in places if place not in chosen]
            for left, right in itertools.product(all_trees([numbers[place] for place in chosen]), all_trees(rest)):
                for operator in "+-*/":
                    if left[1] is None or right[1] is None or (operator == "/" and right[1] == 0):
                        yield (operator, left[0], right[0]), None
                    else:
                        value = {
                            "+": Fraction.__add__,
                            "-": Fraction.__sub__,
                            "*": Fraction.__mul__,
                            "/": Fraction.__truediv__,
                        }
                        yield (operator, left[0], right[0]), value[operator](left[1], right[1])


@pytest.mark.parametrize("seed", range(3))
def test_countdown_accepts_exactly_the_expressions_that_make_the_target(seed):
    problem = sets.problem_at(family("countdown"), 1, seed, 0)
    right = 0
    for tree, value in all_trees(problem.data["numbers"]):
        is_right = value == problem.data["target"]
        right += is_right
        assert judge("countdown", problem, expressions.write_expression(tree)) == is_right
    assert right


def test_expressions_are_read_as_they_are_written():
    assert expressions.parse_expression("2 + 3*4") == ("+", 2, ("*", 3, 4))
    assert expressions.parse_expression("8 - 3 - 2") == ("-", ("-", 8, 3), 2)
    assert expressions.parse_expression("8 - (3 - 2)") == ("-", 8, ("-", 3, 2))
    assert expressions.value(expressions.parse_expression("7/2*2")) == 7
    assert expressions.value(expressions.parse_expression("1 / (2 - 2)")) is None
    for tree, value in itertools.islice(all_trees([1, 2, 3, 4]), 0, 4000, 7):
        text = expressions.write_expression(tree)
        read = expressions.parse_expression(text)
        assert (expressions.value(read), expressions.expression_numbers(read)) == (
            value,
            expressions.expression_numbers(tree),
        )
        assert expressions.write_expression(read) == text
    for malformed in ("", "1 +", "-1", "2 3", "2**3", "(1", "1)", "1//2", "abs(1)", "1e3", "1.5", "__import__('os')"):
        assert expressions.parse_expression(malformed) is None
    assert (
        expressions.parse_expression("(" * 21 + "1" + ")" * 21) is None
        and expressions.parse_expression("1+" * 100 + "1") is None
    )


def test_paths_accept_exactly_the_shortest_ones():
    several = 0
    for seed in range(6):
        problem = sets.problem_at(family("paths"), 2, seed, 0)
        edges, start, goal = (problem.data[key] for key in ("edges", "start", "goal"))
        nodes = sorted(set("".join(edges)))
        inner = [node for node in nodes if node not in (start, goal)]
        walks = []
        for length in range(4):
            for middle in itertools.permutations(inner, length):
                walk = (start, *middle, goal)
                if all("".join(sorted(pair)) in edges for pair in itertools.pairwise(walk)):
                    walks.append("-".join(walk))
        shortest = min(map(len, walks), default=0)
        if shortest != len(problem.answer):
            continue  # longer than what was tried
        several += sum(len(walk) == shortest for walk in walks) > 1
        for walk in walks:
            assert judge("paths", problem, walk) == (len(walk) == shortest)
    assert several


def test_satisfiability_accepts_exactly_what_satisfies():
    for seed in range(4):
        problem = sets.problem_at(family("satisfiability"), 2, seed, 0)
        names = problem.data["names"]
        for values in itertools.product((False, True), repeat=len(names)):
            chosen = dict(zip(names, values, strict=True))
            clauses = problem.data["clauses"]
            # Python's own reading of the clauses.
            right = all(eval(" or ".join(clause), {}, dict(chosen)) for clause in clauses)
            assert right == all(true(clause, chosen) for clause in clauses)
            answer = ", ".join(f"{name}={str(value).lower()}" for name, value in reversed(chosen.items()))
            assert judge("satisfiability", problem, answer) == right
        assert not judge("satisfiability", problem, problem.answer + " a=true")
        assert not judge("satisfiability", problem, problem.answer[: problem.answer.rindex(" ")])


def test_guesses_are_right_where_no_other_leaves_fewer():
    for seed in range(8):
        problem = sets.problem_at(family("guessing"), 1, seed, 0)
        first, last = problem.data["range"]
        possible = [
            number
            for number in range(first, last + 1)
            if all(
                (number > guess) == (reply == "higher") and number != guess for guess, reply in problem.data["replies"]
            )
        ]
        worst = {
            guess: max(sum(number < guess for number in possible), sum(number > guess for number in possible))
            for guess in range(first, last + 1)
        }
        for guess in worst:
            assert judge("guessing", problem, guess) == (worst[guess] == min(worst.values()))


def test_regular_expressions_are_right_where_python_says_so():
    tried = ["a+", "b*", "[ab]+c?", "(ab)+", "a?b?c?", "c*[ab]*", "[abc]*b", "c+[ab]?"]
    for seed in range(6):
        problem = sets.problem_at(family("regex"), 0, seed, 0)
        inside, outside = problem.data["inside"], problem.data["outside"]
        for pattern in [*tried, problem.answer, f"^{problem.answer}$", f"({problem.answer})"]:
            right = all(re.fullmatch(pattern, word) for word in inside)
            right = right and not any(re.fullmatch(pattern, word) for word in outside)
            assert judge("regex", problem, pattern) == (right and len(pattern) <= problem.data["limit"])


def test_queries_are_right_where_their_rows_are():
    problem = sets.problem_at(family("sql"), 0, 3, 0)
    query = problem.answer
    kept = query.split("WHERE ")[1]
    column = query.split()[1]
    for same in (
        query + ";",
        query.lower().replace("'", "'"),
        f"select p.{column} from people as p where p.{kept}",
        f"SELECT {column} FROM (SELECT * FROM people WHERE {kept})",
        f"SELECT {column} FROM people WHERE {kept} ORDER BY name DESC",
        f"SELECT {column} FROM people WHERE NOT NOT ({kept})",
    ):
        assert judge("sql", problem, same), same
    for other in (f"SELECT {column} FROM people", f"SELECT name, age FROM people WHERE {kept}", "DELETE FROM people"):
        assert not judge("sql", problem, other), other
    for seed in range(8):  # one year too many or too few, which the tables shown may not tell
        off = sets.problem_at(family("sql"), 0, seed, 0)
        sign = ">" if ">" in off.answer else "<"
        assert not judge("sql", off, off.answer.replace(sign, f"{sign}="))
    assert family("sql").verify(problem, f"It is\n```sql\n{query}\n```").truth == 1
    ordered = sets.problem_at(family("sql"), 2, 0, 0)
    assert not judge(
        "sql",
        ordered,
        ordered.answer.replace("DESC", "ASC") if "DESC" in ordered.answer else ordered.answer.replace("ASC", "DESC"),
    )


def test_sudokus_and_logic_grids_have_one_solution():
    for seed in range(2):
        problem = sets.problem_at(family("sudoku"), 1, seed, 0)
        grid = problem.data["grid"]
        blanks = [place for place, sign in enumerate(grid) if sign == "."]
        right = []
        for digits in itertools.product("1234", repeat=len(blanks)):
            filled = list(grid)
            for place, digit in zip(blanks, digits, strict=True):
                filled[place] = digit
            text = "\n".join("".join(filled[row : row + 4]) for row in range(0, 16, 4))
            if judge("sudoku", problem, text):
                right.append(text.replace("\n", "/"))
        assert right == [problem.answer]
    for seed in range(4):
        problem = sets.problem_at(family("logic-grid"), 2, seed, 0)
        people, kinds = PEOPLE[:3], [THINGS["pet"][:3], THINGS["drink"][:3]]
        right = []
        for pets, drinks in itertools.product(*(itertools.permutations(kind) for kind in kinds)):
            held = dict(zip(people, zip(pets, drinks, strict=True), strict=True))
            if all(holds(clue, held) for clue in speak(problem.prompt)):
                right.append("; ".join(f"{name}: {pet}, {drink}" for name, (pet, drink) in held.items()))
        assert right == [problem.answer]


def speak(prompt):
    """Return the clues of a prompt, in words."""
    return [clue.strip(" .") for clue in re.findall(r"\d\. ([^.]*)\.", prompt)]


def holds(clue, held):
    """Return whether a clue in words holds for people's objects."""
    thing = clue.split()[-1]
    if clue.startswith("Whoever"):
        first = next(word for word in re.findall(r"\w+", clue) if any(word in what for what in held.values()))
        owners = [name for name, what in held.items() if first in what]
    else:
        owners = [clue.split()[0]]
    return all((thing in held[name]) != ("not" in clue) for name in owners)


def test_programs_print_what_python_prints():
    for level, seed in itertools.product(range(6), range(6)):
        problem = sets.problem_at(family("programs"), level, seed, 0)
        names: dict = {}
        text = problem.prompt.partition("\n")[2]
        assert text == "\n".join([*python_lines(problem.data["body"]), f"print({problem.data['asked']})"])
        exec(text.rpartition("\n")[0], names)  # a program made here
        assert str(names[problem.data["asked"]]) == problem.answer


def test_equations_hold_for_the_answer_alone():
    for level, seed in itertools.product(range(5), range(8)):
        problem = sets.problem_at(family("equations"), level, seed, 0)
        texts = problem.prompt.removeprefix("Solve for x: ").split(" and ")
        code = [re.sub(r"(\d|\))([xy(])", r"\1*\2", text).replace("=", "==") for text in texts]
        solutions = {
            x
            for x in range(-12, 13)
            for y in (range(-12, 13) if level == 4 else (0,))
            if all(eval(each, {}, {"x": x, "y": y}) for each in code)
        }
        assert solutions == {int(problem.answer)}


def test_steps_of_solutions_are_true():
    """Every `sum = result` of the worked solutions of arithmetic holds."""
    checked = 0
    for name in ("addition", "arithmetic", "countdown", "bases", "equations", "calendar"):
        for level, seed in itertools.product(range(5), range(4)):
            found = family(name)
            problem = sets.problem_at(found, level, seed, 2)
            for step in re.split(r", |: ", found.reason(problem).rstrip(".")):
                step = re.sub(r" \(.\)$", "", step)
                sides = step.split("=")
                if len(sides) > 1 and re.fullmatch(r"[-+*/() 0-9=]+", step):
                    values = [eval(side) for side in sides]
                    assert all(value == values[0] for value in values), step
                    checked += 1
    assert checked > 200


def test_weekdays_agree_with_the_calendar():
    for seed in range(12):
        problem = sets.problem_at(family("calendar"), 4, seed, 0)
        end = np.datetime64(problem.prompt.split()[-1].rstrip("?"))
        assert DAYS[(end.astype(int) + 3) % 7] == problem.answer  # day 0, 1970-01-01, was a Thursday
