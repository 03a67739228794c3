"""Equations: the whole number that solves one, or two."""

from __future__ import annotations

import numpy as np

from forage.environments.text.draws import draw_integer, one
from forage.environments.text.problems import Family, Problem


def signed_number(value: int) -> str:
    """Return a number with its sign in front, for the middle of a sum."""
    return f"+ {value}" if value >= 0 else f"- {-value}"


def term(factor: int, name: str = "x") -> str:
    """Return a multiple of an unknown."""
    return {1: name, -1: f"-{name}"}.get(factor, f"{factor}{name}")


class Equations(Family):
    """Solve linear equations for x; each has one solution, a whole number."""

    name = "equations"
    levels = ("x + a = b", "ax + b = c", "ax + b = cx + d", "a(x + b) + c = dx + e", "two equations in x and y")
    measure = "numbers and unknowns"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        x, y = draw_integer(generator, -9, 9), draw_integer(generator, -9, 9)
        a, c = draw_integer(generator, 2, 9), draw_integer(generator, 2, 9)
        b, d = (
            one(generator, (-1, 1)) * draw_integer(generator, 1, 20),
            one(generator, (-1, 1)) * draw_integer(generator, 1, 9),
        )
        if difficulty == 0:
            a = 1
        while difficulty in (2, 3) and c == a:
            c = draw_integer(generator, 2, 9)
        if difficulty == 4:
            # the determinant, a * d - c * b, must not be zero
            a, b, c = (draw_integer(generator, 1, 5) for _ in range(3))
            d = one(generator, [value for value in (-3, -2, -1, 1, 2, 3) if a * value != c * b])
        return self._problem(difficulty, x, y, a, b, c, d)

    def _problem(self, level: int, x: int, y: int, a: int, b: int, c: int, d: int) -> Problem:
        """Write the equations that numbers stand for."""
        if level < 2:
            text = f"{term(a)} {signed_number(b)} = {a * x + b}"
        elif level == 2:
            text = f"{term(a)} {signed_number(b)} = {term(c)} {signed_number(a * x + b - c * x)}"
        elif level == 3:
            text = f"{a}(x {signed_number(b)}) {signed_number(d)} = {term(c)} {signed_number(a * (x + b) + d - c * x)}"
        else:
            plus = f"+ {term(b, 'y')}", f"{'+' if d > 0 else '-'} {term(abs(d), 'y')}"
            text = f"{term(a)} {plus[0]} = {a * x + b * y} and {term(c)} {plus[1]} = {c * x + d * y}"
        data = {"level": level, "x": x, "y": y, "a": a, "b": b, "c": c, "d": d}
        return Problem(f"Solve for x: {text}", str(x), data)

    def size(self, problem: Problem) -> int:
        return (3, 4, 5, 6, 8)[problem.data["level"]]

    def reason(self, problem: Problem) -> str:
        """Isolate x and divide."""
        level, x, y, a, b, c, d = (problem.data[key] for key in ("level", "x", "y", "a", "b", "c", "d"))
        if level == 0:
            return f"x = {x + b} {signed_number(-b)} = {x}."
        if level == 1:
            return f"{term(a)} = {a * x + b} {signed_number(-b)} = {a * x}, x = {a * x} / {a} = {x}."
        if level < 4:
            constant, lines = b, []
            if level == 3:
                constant = a * b + d
                lines = [f"{term(a)} {signed_number(a * b)} {signed_number(d)} = {term(a)} {signed_number(constant)}"]
            right = a * x + constant - c * x
            rest, total = a - c, right - constant
            lines += [f"{term(rest)} = {right} {signed_number(-constant)} = {total}"]
            return ", ".join([*lines, *([f"x = {total} / {rest} = {x}"] if rest != 1 else [])]) + "."
        first, second, whole = a * x + b * y, c * x + d * y, a * d - c * b
        left = f"({a} * {d} - {c} * {b})x = {first} * {d} - {second} * {b}"
        return f"Multiply by {d} and {b} and subtract: {left}, {term(whole)} = {whole * x}, x = {x}."
