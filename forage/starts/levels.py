"""Episodes that begin in one of a fixed number of levels, so that others are left to be tested in."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
from jaxtyping import Array, Int, Key, PyTree

from forage.core import prng
from forage.core.ports import Environment, Starts
from forage.core.ranges import Range, Ranges


class Levels(Starts):
    """Every episode begins as `environment.reset` does with one of `number` keys, drawn uniformly.

    A level is what the reset draws: the walls of a maze, the place of a goal, a pendulum's angle. Chance within an
    episode stays as it is. Evaluation resets with keys of its own, so its levels are others than those of training,
    and the training return less the evaluation return is how much of the agent does not carry over. `first` is the
    number of the first level: sets that do not overlap have none in common.

    Source: Cobbe, Hesse, Hilton, Schulman (2020), "Leveraging Procedural Generation to Benchmark Reinforcement
    Learning", arXiv 1912.01588, section 3: 200 levels of the easy games, 500 of the hard ones.
    """

    example: ClassVar[str] = "forage train ppo grid:DoorKey-5x5 --starts levels --starts.number 50"
    ranges: ClassVar[Ranges] = {"number": Range(1), "first": Range(0)}

    number: int = equinox.field(static=True, default=200)  # levels to train in
    first: int = equinox.field(static=True, default=0)  # number of the first level

    def begin(
        self, state: Any, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], tuple[()]]:
        level = jax.random.randint(key, (), self.first, self.first + self.number)
        return *environment.reset(jax.random.fold_in(prng.key(prng.LEVELS), level)), ()
