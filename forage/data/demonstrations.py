"""Demonstrations: a data set for a part that learns from it in addition to the run's own experience.

A part names the file in a field, and knows its hash from then on; the transitions are read when a run is about to
learn. They are part of the loop and not of its state, so all seeds share them and no checkpoint holds them.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, TypeVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key

from forage.core import spaces
from forage.core.ports import Part
from forage.core.types import DATASET, Experience, ForageError, Spec
from forage.data.files import check_fits
from forage.data.formats import data_hash, read_data
from forage.data.logged import Transitions

Tree = TypeVar("Tree")


class Demonstrations(Part):
    """The transitions of a file to imitate, as `forage data record` writes it."""

    file: str = equinox.field(static=True)  # path of the file
    sha256: str = equinox.field(static=True, default="")  # hash of the file; taken when a run begins
    data: Experience | None = None  # leaves `transition ...`, once the file was read

    def with_hashes(self) -> Demonstrations:
        """Return the same with an absolute path and the file's hash, unless it has one already."""
        path = Path(self.file).expanduser().absolute()
        return dataclasses.replace(self, file=str(path), sha256=self.sha256 or data_hash(path))

    def load(self, spec: Spec) -> Demonstrations:
        """Read the file. Raise `ForageError` if it is missing, damaged, changed, or of another environment."""
        path = Path(self.file)
        if self.sha256 and data_hash(path) != self.sha256:
            raise ForageError(
                f"{path} does not hold the demonstrations that this run began with (its SHA-256 was "
                f"{self.sha256[:12]}...); put that file back, or train again."
            )
        found, header = read_data(path, spec)
        check_fits(path, header, found, spec)
        return dataclasses.replace(self, data=experience_of(found, spec))

    @property
    def experience(self) -> Experience:
        """Return the transitions (leaves `transition ...`). Raise `ForageError` if the file was not read."""
        if self.data is None:
            raise ForageError(
                f"{self.file} has not been read; forage.data.demonstrations.load_demonstrations(part, spec) does it."
            )
        return self.data

    def draw(self, key: Key[Array, ""], size: int) -> Experience:
        """Return `size` transitions (leaves `size ...`), each drawn equally often."""
        data = self.experience
        rows = jax.random.randint(key, (size,), 0, len(data.reward))
        return jax.tree.map(lambda x: x[rows], data)

    def segments(self, key: Key[Array, ""], size: int, length: int) -> Experience:
        """Return `size` segments of `length` consecutive transitions (leaves `length size ...`)."""
        data = self.experience
        if len(data.reward) < length:
            raise ForageError(
                f"{self.file} holds {len(data.reward)} transitions, and segments of {length} are learned from; record "
                f"more."
            )
        first = jax.random.randint(key, (size,), 0, len(data.reward) - length + 1)
        time = first + jnp.arange(length)[:, None]
        return jax.tree.map(lambda x: x[time], data)


def experience_of(found: Transitions, spec: Spec) -> Experience:
    """Return the transitions of a data set as experience, in the dtypes of an environment's spaces.

    The last transition of each episode is marked as its end, so segments may run across it. NumPy's arrays are put on
    the device as they are: `jnp.asarray` compiles a program for each shape.
    """

    def fit_space(array: Any, space: Any) -> Any:
        return jax.tree.map(lambda x, like: jax.device_put(np.asarray(x, like.dtype)), array, spaces.example(space))

    return Experience(
        observation=fit_space(found.observation, spec.observation_space),
        action=fit_space(found.action, spec.action_space),
        reward=jax.device_put(np.asarray(found.reward, np.float32)),
        next_observation=fit_space(found.next_observation, spec.observation_space),
        terminated=jax.device_put(np.asarray(found.terminated)),
        truncated=jax.device_put(np.asarray(found.truncated)),
        source=jax.device_put(np.full(found.transitions, DATASET, np.int32)),
        policy_info=(),
    )


def join_experience(shown: Experience, own: Experience) -> Experience:
    """Return demonstrations and then the agent's own transitions, as far as an update looks at them."""

    def join_field(name: str) -> Any:
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), getattr(shown, name), getattr(own, name))

    names = ("observation", "action", "reward", "next_observation", "terminated", "truncated", "source")
    return Experience(**{name: join_field(name) for name in names}, policy_info=())


def as_demonstrations(given: Any) -> Any:
    """Return the demonstrations that a path stands for; anything else as it is."""
    return Demonstrations(given) if isinstance(given, str) else given


def are_demonstrations(node: Any) -> bool:
    """Return whether a node of a tree of parts is demonstrations."""
    return isinstance(node, Demonstrations)


def with_hashes(part: Tree) -> Tree:
    """Return a part with the hash of each file of demonstrations that it, or a part within it, names."""
    return jax.tree.map(lambda x: x.with_hashes() if are_demonstrations(x) else x, part, is_leaf=are_demonstrations)


def load_demonstrations(part: Tree, spec: Spec) -> Tree:
    """Return a part with the demonstrations read that it, or a part within it, names."""
    return jax.tree.map(lambda x: x.load(spec) if are_demonstrations(x) else x, part, is_leaf=are_demonstrations)
