"""Paths through a fixed directed graph, node by node: planning of a language model as next-token prediction.

Wang, Shen, Sun, Feng, Teng, Dong, Hao, Chen (2025), "Benefits and Pitfalls of Reinforcement Learning for Language Model
Planning: A Theoretical Perspective", arXiv 2509.22613, by public notes on the paper, which have its formulas. A text is
a node. With u_m the node after m texts, the reward of a text is

    process    [u_{m+1} = target] - [no edge leads from u_m to u_{m+1}]
    outcome    1 with the target if edges led to all nodes, else 0

and the path goes on from whichever node was named, until the target or `tries` texts. Before each text the policy reads
source, target and the path so far, `s t s a b`.

Differences: a node is one of `nodes` letters, of which the paper has 100 tokens of their own, with the same share of
edges; a text that is no node stays at its place, as there are none in the paper; and pairs of source and target are
drawn from all of those with a path (there a fifth of these is trained on, and the others are tested).
"""

from __future__ import annotations

import dataclasses
import random
import string
from collections import deque
from typing import ClassVar

from forage.core.errors import ForageError
from forage.environments.text.games.game import EXECUTED, Turn, check_whole, one_of, running

REWARDS = "process", "outcome"


@dataclasses.dataclass
class GraphPaths:
    """A path from one node to another, of which each text names the next node."""

    names: ClassVar[tuple[str, ...]] = (*EXECUTED, "solved")
    anew: ClassVar[bool] = True

    nodes: int = 24  # nodes, at most 26
    edges: float = 0.15  # probability of each directed edge
    graph: int = 0  # seed of the graph, which all episodes share
    reward: str = REWARDS[0]  # process or outcome
    tries: int = 8  # nodes of a path, at most

    def __post_init__(self) -> None:
        """Draw the graph, and find the pairs of nodes with a path."""
        check_whole("The number of nodes", self.nodes, 2, len(string.ascii_lowercase))
        check_whole("The number of nodes of a path", self.tries, 1, 1000)
        one_of("A path's reward", self.reward, REWARDS)
        draw, names = random.Random(self.graph), string.ascii_lowercase[: self.nodes]
        self.onward = {a: [b for b in names if b != a and draw.random() < self.edges] for a in names}
        self.steps = {target: self.distances(target) for target in names}
        self.pairs = [(a, b) for b in names for a, far in self.steps[b].items() if 0 < far <= self.tries]
        if not self.pairs:
            raise ForageError(f"A graph of {self.nodes} nodes with edges {self.edges:g} has no path; give more edges.")
        self.over = True

    def distances(self, target: str) -> dict[str, int]:
        """Return the number of edges from each node to a target, for those with a path."""
        found, queue = {target: 0}, deque([target])
        while queue:
            node = queue.popleft()
            for before, onward in self.onward.items():
                if node in onward and before not in found:
                    found[before] = found[node] + 1
                    queue.append(before)
        return found

    def begin(self, seed: int) -> str:
        """Begin a path at one node, with another as its target."""
        source, self.target = random.Random(seed).choice(self.pairs)
        self.path, self.valid, self.written, self.over = [source], True, 0, False
        return self.words()

    def words(self) -> str:
        """Return source, target and the path so far."""
        return " ".join([self.path[0], self.target, *self.path])

    def reply(self, text: str) -> Turn:
        """Go to a node, and return the path so far."""
        running(self.over)
        self.written += 1
        node, here = text.strip(), self.path[-1]
        edge, arrived = node in self.onward[here], node == self.target
        self.valid = self.valid and edge
        if node in self.onward:
            self.path.append(node)
        self.over = arrived or self.written >= self.tries
        self.told = {"executed": float(edge), "solved": float(arrived and self.valid)}
        paid = float(arrived) - float(not edge) if self.reward == "process" else self.told["solved"]
        return self.words(), paid, self.over

    def expert(self) -> str:
        """Return the next node of a shortest path; empty if none leads from here."""
        far = self.steps[self.target]
        return min((node for node in self.onward[self.path[-1]] if node in far), key=far.__getitem__, default="")
