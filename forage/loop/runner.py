"""The contract of a runner, which runs one loop for many seeds, on the device or on the host."""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import equinox
import jax
import numpy as np
from jaxtyping import Array, Bool, PyTree

from forage.core.host import Conversation
from forage.core.mesh import Shape
from forage.core.types import Experience
from forage.loop.learner import Learner, LearnerState, Report
from forage.loop.soundness import Bad

Numbers = Mapping[str, Sequence[float]]
"""Each member's own number, by its path in the loop, such as `learner.agent.discount`."""


class EvaluationEpisodes(NamedTuple):
    """Evaluation episodes, leaves `member episode ...`; of `evaluate_points`, `member point episode ...`."""

    returns: np.ndarray | Array
    lengths: np.ndarray | Array
    infos: dict[str, np.ndarray | Array]  # what the environment itself said at the last step; NaN where nothing
    summary: PyTree[Array] = ()  # of the observations of all these episodes (`Evolver.summarise`), for one that learns
    no_reward: np.ndarray | None = None  # mask `member episode` of those without a reward, whose return is NaN

    def left_out(self) -> Bool[np.ndarray, "member episode *reward"]:
        """Return the mask of the returns that no mean counts, as their episodes have no reward."""
        returns = np.asarray(self.returns)
        if self.no_reward is None:
            return np.zeros(returns.shape, bool)
        mask = np.asarray(self.no_reward)
        return np.broadcast_to(mask.reshape(*mask.shape, *[1] * (returns.ndim - mask.ndim)), returns.shape)


class Runner(Protocol):
    """A loop for many seeds, the members of a run. Leaves of its inputs and outputs are `member ...`."""

    seeds: list[int]
    steps_per_iteration: int
    usual_episodes: int  # of an evaluation, unless a person says how many
    in_words: bool  # episodes can be read
    conversations: list[list[Conversation]]  # of the newest evaluation, each member's episodes; empty without words

    @property
    def learner(self) -> Learner: ...
    @property
    def devices(self) -> list[jax.Device]: ...  # that share the members
    @property
    def shape(self) -> Shape: ...  # of the mesh that they make
    @property
    def spread(self) -> str: ...  # how they share the members, in words; empty where there is nothing to say
    @property
    def steps(self) -> int: ...  # that each member has taken
    @property
    def activity_seconds(
        self,
    ) -> dict[str, float]: ...  # seconds of training, by what they were spent on (`ACTIVITIES`)
    @property
    def exact(self) -> bool: ...  # a resumed run goes on as if it had never stopped
    @property
    def may_save(self) -> bool: ...  # an option of the environment might make it so
    @property
    def replays(self) -> bool: ...  # training from a checkpoint again gives the same, bit for bit
    @property
    def visits(self) -> np.ndarray | None: ...  # `member *place`, where they are counted on a map
    @property
    def start_counts(self) -> np.ndarray | None: ...  # episodes that began at each, where the loop sees them begin
    @property
    def current_observations(
        self,
    ) -> PyTree[np.ndarray] | None: ...  # newest observations, `member ...`; `None` before the first

    # Training and evaluation
    def begin(self) -> None:
        """Make every member's first state."""

    def advance(self, iterations: int) -> Report:
        """Train every member for this number of iterations of the loop."""
        ...

    def prepare(self, episodes: int, max_steps: int, soon: bool = False) -> None:
        """Begin to compile such an evaluation, so that it is there when training ends. `soon`: before it begins."""

    def evaluate(self, episodes: int, max_steps: int, seed: int, sampled: bool = False) -> EvaluationEpisodes:
        """Play episodes apart from training, with greedy or `sampled` actions."""
        ...

    def measure_validation(self) -> Mapping[str, np.ndarray]:
        """Return the metrics of the held episodes of a data set, one number for each member; empty without any."""
        ...

    def evaluate_points(
        self, points: PyTree[Array | None], episodes: int, max_steps: int, seed: int, sampled: bool = False
    ) -> EvaluationEpisodes:
        """Play as `evaluate` does in each of many environments. Raise `ForageError` on the host."""
        ...

    def sample(self) -> str | None:
        """Return the newest episode of training in words; `None` if there is none."""
        ...

    def retire(self) -> None:
        """Free the resources of training before the last evaluation."""

    def close(self) -> None:
        """Free all resources. No method can be called afterwards."""

    # Saving
    def save(self, path: Path, header: dict[str, Any]) -> None:
        """Write a checkpoint. Raise `NotFinite` if any of its values is not finite."""

    def load(self, path: Path) -> dict[str, Any]:
        """Continue from a checkpoint. Return its header."""
        ...

    def load_agents(self, path: Path) -> dict[str, Any]:
        """Take the agents alone out of a checkpoint, to evaluate them. Return its header."""
        ...

    def use_agents(self, agents: PyTree[Array]) -> None:
        """Take these agents, to evaluate them."""

    def learner_shapes(self) -> LearnerState:
        """Return the shapes of one member's learner state."""
        ...

    def inherit(self, agents: PyTree[Array], memory: PyTree[Array] | None, steps: int) -> None:
        """Take, just after `begin`, the agents of another run, and, at the step that it counts, its memory."""

    def agent_states(self) -> PyTree[Array]:
        """Return the agents' states."""
        ...

    def array_shapes(self) -> dict[str, PyTree[Any]]:
        """Return the shapes of the arrays that training keeps in memory, by part, without making any of them."""
        ...

    # Finding what went wrong
    def next_rollout(self) -> Experience:
        """Return the rollout of the next iteration. Raise `ForageError` if training cannot be replayed."""
        ...

    def search(self, member: int) -> tuple[str, Bad] | None:
        """Find the part that has learned a number which is not finite, and the number."""
        ...

    def first_nonfinite(self, member: int, before: int) -> int:
        """Return the step after which a value may have become non-finite: `before`, or a later one."""
        ...

    def missing(self) -> dict[str, tuple[str, ...]]:
        """Return the declared info names that no episode has ended with, each with the names found instead."""
        ...

    # Members one by one, as tuning needs them
    def attempt(self, until: int, skip: Sequence[bool]) -> list[str]:
        """Train the other members up to a step. Return the reason why each cannot continue, or an empty text."""
        ...

    def attempt_evaluation(
        self, episodes: int, max_steps: int, seed: int, sampled: bool, skip: Sequence[bool]
    ) -> tuple[np.ndarray, list[str]]:
        """Evaluate the other members. Return the returns and, of each member that failed, the reason.

        A return is -infinity where the member failed, and NaN for an episode without a reward.
        """
        ...

    def select(self, rows: Sequence[int]) -> Runner:
        """Return a runner that continues with these members alone. This one must not be used afterwards."""
        ...

    def adopt(self, source: Sequence[int], numbers: Numbers, anew: Sequence[bool]) -> list[str]:
        """Give member i the learned state and memory of `source[i]`, and its own numbers.

        Those with `anew` failed before, and begin new episodes. Return of each why it cannot; empty if it can.
        """
        ...


def with_numbers(tree: Any, numbers: Mapping[str, Any], is_leaf: Any = None) -> Any:
    """Return a tree with other leaves at these dotted paths."""
    for path, number in numbers.items():

        def get_path(tree: Any, path: str = path) -> Any:
            return functools.reduce(getattr, path.split("."), tree)

        tree = equinox.tree_at(get_path, tree, number, is_leaf=is_leaf)
    return tree


# The time of a run, by activity


ACTIVITIES = {
    "compile": "compiling, and the first report",
    "loop": "acting, stepping and learning, one program on the device",
    "learn": "waiting for the learner",
    "act": "choosing actions",
    "transfer": "bringing actions to the host",
    "step": "waiting for environments",
    "keep": "keeping what was experienced",
    "evaluate": "playing episodes apart from training",
    "save": "writing checkpoints",
    "rest": "everything else: reports, callbacks, displays",
}
"""The activities that take time, in the order of tables."""


class Watch:
    """Counts seconds by name."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.since = time.perf_counter()

    def start(self) -> None:
        """Start counting now; earlier time counts nowhere."""
        self.since = time.perf_counter()

    def lap(self, name: str) -> None:
        """Count the time since the last lap, or the start, for this name."""
        now = time.perf_counter()
        self.spent[name] = self.spent.get(name, 0.0) + now - self.since
        self.since = now


def sum_counts(spent: list[dict[str, float]]) -> dict[str, float]:
    """Return the sum of several counts."""
    return {name: sum(one.get(name, 0.0) for one in spent) for name in ACTIVITIES if any(name in one for one in spent)}


def time_shares(spent: dict[str, float]) -> str:
    """Return shares of the time in words, the largest first, without those below a hundredth."""
    total = sum(spent.values())
    shares = sorted(((seconds / total, name) for name, seconds in spent.items() if total), reverse=True)
    return ", ".join(f"{name} {share:.0%}" for share, name in shares if share >= 0.01)
