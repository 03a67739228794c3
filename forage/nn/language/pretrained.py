"""A transformer that a part begins from: one by name, of a directory, of a run, or an object.

A part names it in a field. When a run begins, its sizes and the hash of its weights are taken, and the weights are read
when the run is about to learn; whoever learns keeps them in its own state. So checkpoints and evaluation need neither
the directory nor the run.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, TypeVar

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces

from forage.core import prng
from forage.core.ports import Part
from forage.core.spaces import Tokens
from forage.core.types import ForageError, Spec
from forage.nn.language.architecture import Architecture
from forage.nn.language.positions import Rope
from forage.nn.transformer import Transformer

Tree = TypeVar("Tree")


class PretrainedModel(Part):
    """A transformer by its source, with its sizes once they are known, and its weights once they were read."""

    source: str = equinox.field(static=True, default="forage")  # the base model `forage`, a directory or a run
    sha256: str = equinox.field(static=True, default="")  # hash of the weights; taken when a run begins
    sizes: str = equinox.field(static=True, default="")  # its architecture, as JSON; taken when a run begins
    weights: Transformer | None = None

    @property
    def like(self) -> Transformer:
        """Return its structure, with shapes in place of weights. Raise `ForageError` if it is not known yet."""
        if self.weights is not None:
            return jax.eval_shape(lambda: self.weights)
        if not self.sizes:
            raise ForageError(f"The model {self.source} has not been read; a run does that when it begins.")
        return from_sizes(self.sizes)

    @property
    def architecture(self) -> Architecture:
        """Return its architecture."""
        return self.like.architecture

    def first(self, dtype: Any = None) -> Transformer:
        """Return the weights to keep in a state; where they were not read, zeros of their shapes.

        `dtype`: of the weights, or `None` for that of the files. Weights that are to learn in files' 16 bits stand
        still, so who trains them asks for float32, or leaves it to an `Optimiser`, which keeps masters.
        """
        if self.weights is not None:
            return jax.tree.map(lambda x: jnp.asarray(x, dtype), self.weights)
        return jax.tree.map(lambda x: jnp.zeros(x.shape, dtype or x.dtype), self.like)

    def check_reads(self, spec: Spec, who: str) -> None:
        """Raise `ForageError` if the texts of an environment are more than the model reads.

        `who`: the words before the model in that sentence, such as "Progress reads turns".
        """
        assert isinstance(spec.observation_space, spaces.Dict) and isinstance(spec.action_space, Tokens)
        context, architecture = spec.observation_space["context"], self.architecture
        assert isinstance(context, Tokens)
        vocabulary, longest = spec.action_space.vocabulary - 1, context.length + spec.action_space.length
        if vocabulary > architecture.vocabulary or longest > architecture.longest:
            raise ForageError(
                f"{who} with the model {self.source}, which knows {architecture.vocabulary} tokens and reads "
                f"{architecture.longest}; {spec.name} has {vocabulary} and texts of {longest}. Give it the agent's "
                f"model."
            )


def sizes_of(network: Transformer) -> str:
    """Return the full description of a transformer, without its weights, as JSON."""
    architecture = network.architecture
    ropes = {"rope": architecture.rope, "local_rope": architecture.local_rope}
    said = architecture._asdict() | {name: rope and rope._asdict() for name, rope in ropes.items()}
    return json.dumps({"architecture": said, "dtype": str(network.dtype), "files": network.files})


@functools.lru_cache(maxsize=16)
def from_sizes(sizes: str) -> Transformer:
    """Return the structure that `sizes_of` wrote, with shapes in place of weights."""
    said = json.loads(sizes)

    def fields(named: dict[str, Any]) -> dict[str, Any]:
        return {name: tuple(value) if isinstance(value, list) else value for name, value in named.items()}

    ropes = {"rope", "local_rope"}
    named = fields(said["architecture"])
    named |= {name: Rope(**fields(named[name])) for name in ropes & set(named) if named[name] is not None}
    architecture = Architecture(**named)
    dtype = jnp.dtype(said["dtype"])
    return jax.eval_shape(lambda: Transformer(prng.key(0), architecture, dtype, said["files"]))


def make_pretrained(given: Any) -> Any:
    """Convert a name, a directory or a transformer to a pretrained model."""
    if isinstance(given, str):
        return PretrainedModel(given)
    if isinstance(given, Transformer):
        return PretrainedModel("a transformer", sizes=sizes_of(given), weights=given)
    return given


def is_pretrained(node: Any) -> bool:
    """Return whether a node of a tree of parts is a pretrained transformer."""
    return isinstance(node, PretrainedModel)


def map_pretrained(part: Tree, change: Callable[[PretrainedModel], PretrainedModel]) -> Tree:
    """Return a part with each pretrained transformer that it, or a part within it, holds, changed."""
    return jax.tree.map(lambda x: change(x) if is_pretrained(x) else x, part, is_leaf=is_pretrained)
