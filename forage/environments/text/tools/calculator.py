"""A calculator: exact rational numbers, and floating-point ones for decimal points and inexact roots."""

from __future__ import annotations

import ast
import dataclasses
import math
import re
import time
import warnings
from collections.abc import Callable
from fractions import Fraction

from forage.environments.text.tools.tool import Answer

Number = Fraction | float


class RefusedExpression(Exception):
    """An expression that is not computed; its text is the answer."""


@dataclasses.dataclass(frozen=True)
class Calculator:
    """A calculator for one expression at a time.

    The text is read by Python's parser and computed by `value`, which knows numbers, operations and `FUNCTIONS` and
    nothing else. Sizes are checked before powers and factorials are computed, so no expression takes long.
    """

    longest: int = 500  # characters of an expression
    deepest: int = 50  # operations within operations
    bits: int = 2048  # of a numerator or a denominator; about 600 digits

    name: str = "calculator"
    description: str = (
        "computes an expression with + - * / // % ** and functions such as sqrt, gcd, floor and float; fractions are "
        "exact, as in 1/3 + 1/6."
    )

    def call(self, text: str) -> Answer:
        """Return the value of an expression, or a sentence about the error in it."""
        start = time.perf_counter()
        try:
            said, error = number_text(self.compute(text)), False
        except RefusedExpression as refused:
            said, error = str(refused), True
        return Answer(said, error, time.perf_counter() - start)

    def compute(self, text: str) -> Number:
        """Return the value of an expression, or raise Refused."""
        text = text.strip().replace("^", "**")
        if len(text) > self.longest:
            raise RefusedExpression(f"An expression has at most {self.longest} characters, and this one {len(text)}.")
        if strange := re.search(r"[^0-9a-z_.,+\-*/%()\s]", text):
            raise RefusedExpression(f"{strange[0]!r} is not part of an expression.")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of numbers with a name right behind them
                tree = ast.parse(" ".join(text.split()), mode="eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise RefusedExpression(
                "The expression cannot be read: an operation, a number or a bracket is missing."
            ) from None
        return self.value(tree.body, 1)

    def value(self, node: ast.expr, depth: int) -> Number:
        """Return the value of a part of an expression, or raise Refused."""
        if depth > self.deepest:
            raise RefusedExpression(f"The expression has more than {self.deepest} operations within each other.")
        try:
            return self.small(self.operation(node, depth))
        except ZeroDivisionError:
            raise RefusedExpression("A division by zero has no value.") from None
        except OverflowError:
            raise RefusedExpression("A number became too large for floating point.") from None
        except ValueError:
            raise RefusedExpression("A function has no real value there.") from None

    def operation(self, node: ast.expr, depth: int) -> Number:
        """Compute one operation on values of its parts."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            return float(node.value) if isinstance(node.value, float) else Fraction(node.value)
        if isinstance(node, ast.Name) and node.id in CONSTANTS:
            return CONSTANTS[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            value = self.value(node.operand, depth + 1)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
            if isinstance(node.op, ast.Pow):
                return self.power(left, right)
            if type(node.op) in OPERATIONS:
                return OPERATIONS[type(node.op)](left, right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            name = node.func.id
            if name not in FUNCTIONS:
                raise RefusedExpression(f"There is no function {name}; there are {', '.join(FUNCTIONS)}.")
            function, least, most = FUNCTIONS[name]
            if not least <= len(node.args) <= most:
                raise RefusedExpression(f"{name} takes {least if least == most else f'at least {least}'} numbers.")
            return function(*(self.value(one, depth + 1) for one in node.args))
        if isinstance(node, ast.Name):
            raise RefusedExpression(f"{node.id} is neither a number nor one of {', '.join(CONSTANTS)}.")
        raise RefusedExpression("The expression holds something else than numbers, operations and functions.")

    def power(self, base: Number, exponent: Number) -> Number:
        """Return a power; exact for a whole exponent of an exact base."""
        if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
            size = max(base.numerator.bit_length(), base.denominator.bit_length())
            if abs(exponent.numerator) * (size - 1) > self.bits:  # before it is computed
                raise RefusedExpression(self.too_large())
            return base**exponent.numerator
        power = float(base) ** float(exponent)
        if isinstance(power, complex):
            raise RefusedExpression("A negative number has no real root of that kind.")
        return power

    def small(self, value: Number) -> Number:
        """Return a value if it is within the limits, or raise Refused."""
        if isinstance(value, float):
            if not math.isfinite(value):
                raise RefusedExpression("A number became too large for floating point.")
        elif max(value.numerator.bit_length(), value.denominator.bit_length()) > self.bits:
            raise RefusedExpression(self.too_large())
        return value

    def too_large(self) -> str:
        """Return the sentence about numbers beyond the limit."""
        return f"A number has more than about {int(self.bits * math.log10(2))} digits."


def number_text(value: Number) -> str:
    """Return a number as text: whole, as a fraction, or the shortest decimal that reads as the same float."""
    return repr(value) if isinstance(value, float) else str(value)


def whole_value(value: Number, most: float = math.inf) -> int:
    """Return a value as a whole number, or raise Refused."""
    if value != int(value) or abs(value) > most:
        limit = "" if most == math.inf else f" up to {most:.0f}"
        raise RefusedExpression(f"{number_text(value)} is not a whole number{limit}.")
    return int(value)


def root(value: Number) -> Number:
    """Return the square root, exact if it is rational."""
    if isinstance(value, Fraction) and value >= 0:
        above, below = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if Fraction(above * above, below * below) == value:
            return Fraction(above, below)
    return math.sqrt(value)


def round_number(value: Number, digits: Number = Fraction(0)) -> Number:
    """Return a value rounded to `digits` decimal places, halves to the even one."""
    places = whole_value(digits, 100)
    return round(value, places) if places else Fraction(round(value))


CONSTANTS: dict[str, Number] = {"pi": math.pi, "e": math.e}
OPERATIONS: dict[type, Callable[[Number, Number], Number]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b if isinstance(a, float) or isinstance(b, float) else Fraction(a // b),
    ast.Mod: lambda a, b: a % b,
}
# Each with how few and how many numbers it takes.
FUNCTIONS: dict[str, tuple[Callable[..., Number], int, int]] = {
    "abs": (abs, 1, 1),
    "min": (min, 1, 100),
    "max": (max, 1, 100),
    "round": (round_number, 1, 2),
    "floor": (lambda a: Fraction(math.floor(a)), 1, 1),
    "ceil": (lambda a: Fraction(math.ceil(a)), 1, 1),
    "float": (float, 1, 1),
    "sqrt": (root, 1, 1),
    "gcd": (lambda *values: Fraction(math.gcd(*map(whole_value, values))), 1, 100),
    "lcm": (lambda a, b: Fraction(math.lcm(whole_value(a), whole_value(b))), 2, 2),
    "factorial": (lambda a: Fraction(math.factorial(whole_value(a, 300))), 1, 1),
    "comb": (lambda a, b: Fraction(math.comb(whole_value(a, 2000), whole_value(b, 2000))), 2, 2),
    "exp": (math.exp, 1, 1),
    "log": (math.log, 1, 2),
    "log2": (math.log2, 1, 1),
    "log10": (math.log10, 1, 1),
    "sin": (math.sin, 1, 1),
    "cos": (math.cos, 1, 1),
    "tan": (math.tan, 1, 1),
}
