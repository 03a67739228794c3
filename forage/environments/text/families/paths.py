"""Paths: a shortest path in a graph."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from forage.environments.text import answers
from forage.environments.text.draws import draw_integer, draw_several
from forage.environments.text.problems import Family, Problem

NAMES = "ABCDEFGHIJKL"
NODES = (4, 6, 8, 10, 12)  # by level


def neighbours(edges: list[str]) -> dict[str, list[str]]:
    """Return for each node those that an edge joins to it, in alphabetical order."""
    found: dict[str, list[str]] = {}
    for left, right in edges:
        found.setdefault(left, []).append(right)
        found.setdefault(right, []).append(left)
    return {node: sorted(others) for node, others in found.items()}


def shortest_path(edges: list[str], start: str, goal: str) -> tuple[str, list[tuple[str, str]]]:
    """Return a shortest path, and the nodes that each node added to the breadth-first search."""
    joined, before, queue, added = neighbours(edges), {start: ""}, [start], []
    for node in queue:
        if goal in before:
            break
        new = [other for other in joined.get(node, []) if other not in before]
        before |= dict.fromkeys(new, node)
        queue += new
        if new:
            added.append((node, "".join(new)))
    path, node = "", goal
    while node:
        path, node = node + path, before[node]
    return path, added


class Paths(Family):
    """Find a path with the fewest edges between two nodes; every shortest path is right."""

    name = "paths"
    levels = tuple(f"{nodes} nodes, {nodes - 1 + nodes // 2} edges" for nodes in NODES)
    measure = "edges"
    bounded = True

    def make(self, generator: np.random.Generator, difficulty: int) -> Problem:
        count = NODES[difficulty]
        while True:
            nodes = draw_several(generator, NAMES, count)
            pairs = [(node, nodes[draw_integer(generator, 0, place)]) for place, node in enumerate(nodes[1:])]
            edges = {"".join(sorted(pair)) for pair in pairs}
            while len(edges) < count - 1 + count // 2:
                edges.add("".join(sorted(draw_several(generator, nodes, 2))))
            listed = draw_several(generator, sorted(edges), len(edges))
            start, goal = draw_several(generator, nodes, 2)
            path, _ = shortest_path(listed, start, goal)
            if len(path) > 2:
                break
        drawn = " ".join(f"{left}-{right}" for left, right in listed)
        prompt = f"Edges: {drawn}. Give a shortest path from {start} to {goal}, such as A-B-C."
        return Problem(prompt, "-".join(path), {"edges": listed, "start": start, "goal": goal})

    def size(self, problem: Problem) -> int:
        return len(problem.data["edges"])

    def reason(self, problem: Problem) -> str:
        """Search breadth first, and write the nodes that each node adds."""
        _, added = shortest_path(problem.data["edges"], problem.data["start"], problem.data["goal"])
        return ", ".join(f"{node} adds {' '.join(new)}" for node, new in added) + "."

    def parse_answer(self, problem: Problem, found: str) -> str | None:
        """Return the nodes of a path, one letter each."""
        path = answers.matching(found, "[A-L](-[A-L])+")
        return None if path is None else path.replace("-", "")

    def judge(self, problem: Problem, value: Any) -> bool:
        """Return whether a path follows edges from start to goal and is as short as the known one."""
        edges, start, goal = (problem.data[key] for key in ("edges", "start", "goal"))
        if (value[0], value[-1]) != (start, goal) or len(value) != len(shortest_path(edges, start, goal)[0]):
            return False
        return all("".join(sorted(pair)) in edges for pair in pairwise(value))

    def identity(self, problem: Problem) -> str:
        """Return edges and ends; the order of the edges makes no other problem."""
        return f"{sorted(problem.data['edges'])} {problem.data['start']} {problem.data['goal']}"
