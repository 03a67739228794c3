"""Arithmetic expressions as trees, read by our own parser: no text is ever run as Python.

A tree is a whole number or `(operator, left, right)`. Texts are at most 200 characters with 20 brackets in one another,
so that reading and evaluating them is bounded.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

Tree = Any  # int | tuple[str, Tree, Tree]
LONGEST, DEEPEST = 200, 20
TOKEN = re.compile(r"\s*([0-9]{1,9}|[-+*/()])")
RANK = {"+": 1, "-": 1, "*": 2, "/": 2}


class MalformedExpression(Exception):
    """A text that is no expression."""


def parse_expression(text: str) -> Tree | None:
    """Return the tree of an expression of whole numbers, + - * / and brackets; None for any other text."""
    tokens, place, text = [], 0, text.strip()
    while place < len(text) <= LONGEST:
        found = TOKEN.match(text, place)
        if found is None:
            return None
        tokens.append(found[1])
        place = found.end()
    tokens.reverse()
    try:
        tree = _sum(tokens, 0)
    except MalformedExpression:
        return None
    return None if tokens else tree


def _sum(tokens: list[str], depth: int) -> Tree:
    """Read terms that are added and subtracted."""
    tree = _product(tokens, depth)
    while tokens and tokens[-1] in "+-":
        tree = (tokens.pop(), tree, _product(tokens, depth))
    return tree


def _product(tokens: list[str], depth: int) -> Tree:
    """Read factors that are multiplied and divided."""
    tree = _factor(tokens, depth)
    while tokens and tokens[-1] in "*/":
        tree = (tokens.pop(), tree, _factor(tokens, depth))
    return tree


def _factor(tokens: list[str], depth: int) -> Tree:
    """Read a number, or an expression in brackets."""
    token = tokens.pop() if tokens else ""
    if token.isdigit():
        return int(token)
    if token != "(" or depth == DEEPEST:
        raise MalformedExpression
    tree = _sum(tokens, depth + 1)
    if not tokens or tokens.pop() != ")":
        raise MalformedExpression
    return tree


def expression_numbers(tree: Tree) -> list[int]:
    """Return the numbers of an expression, from left to right."""
    return [tree] if isinstance(tree, int) else expression_numbers(tree[1]) + expression_numbers(tree[2])


def apply(operator: str, left: Any, right: Any) -> Any | None:
    """Return the result of one operation, or None for a division by zero."""
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return Fraction(left) / right if right else None


def value(tree: Tree) -> Any | None:
    """Return the exact value of an expression, or None if it divides by zero."""
    if isinstance(tree, int):
        return tree
    left, right = value(tree[1]), value(tree[2])
    return None if left is None or right is None else apply(tree[0], left, right)


def write_expression(tree: Tree) -> str:
    """Return an expression as text, with the brackets that it needs and no others."""
    if isinstance(tree, int):
        return str(tree) if tree >= 0 else f"({tree})"
    operator, left, right = tree
    low = RANK[operator]
    texts = []
    for side, lowest in ((left, low), (right, low + (operator in "-/"))):
        bare = isinstance(side, int) or RANK[side[0]] >= lowest
        texts.append(write_expression(side) if bare else f"({write_expression(side)})")
    return f"{texts[0]} {operator} {texts[1]}"


def simplification_steps(tree: Tree) -> list[str]:
    """Return an expression as it gets shorter, one operation a step, down to its value."""
    texts = [write_expression(tree)]
    while not isinstance(tree, int):
        tree = _reduce(tree)
        texts.append(str(tree) if isinstance(tree, int) else write_expression(tree))
    return texts


def _reduce(tree: Tree) -> Tree:
    """Carry out the first operation on two numbers; the result has to be whole."""
    operator, left, right = tree
    if not isinstance(left, int):
        return (operator, _reduce(left), right)
    if not isinstance(right, int):
        return (operator, left, _reduce(right))
    return int(apply(operator, left, right))  # pyrefly: ignore


def operations(tree: Tree) -> list[tuple[str, int, int, int]]:
    """Return the operations of an expression with whole results only: operator, left, right, result."""
    done: list[tuple[str, int, int, int]] = []

    def visit(tree: Tree) -> int:
        if isinstance(tree, int):
            return tree
        left, right = visit(tree[1]), visit(tree[2])
        result = int(apply(tree[0], left, right))  # pyrefly: ignore
        done.append((tree[0], left, right, result))
        return result

    visit(tree)
    return done
