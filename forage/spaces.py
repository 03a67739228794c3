"""Gymnasium spaces, seen from JAX: examples, random samples, clipping, and what a network needs to know of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.types import ForageError, Spec

MASK, STATE, PRESENT = "action_mask", "state", "present"
"""What may stand beside "observation" in a dictionary that carries more than is seen.

`action_mask`: which discrete actions are allowed (non-zero). `state`: what a central critic may see, and the policy
not. `present`: 1 where the agent acts on this observation, 0 where it waits (for its turn, or because it has fallen and
its team plays on), -1 where it has left and nothing that comes is to its credit.
"""


class Tokens(spaces.MultiDiscrete):
    """A sequence of `length` token ids, `int32[length]`: words, characters, instructions.

    Ids run from 1 to `vocabulary - 1`; 0 is the pad, which fills the places that a shorter sequence leaves.
    """

    PAD = 0

    def __init__(self, length: int, vocabulary: int, seed: int | np.random.Generator | None = None):
        """`vocabulary` counts the pad. Raises `ForageError` for less than one place or two ids."""
        if length < 1 or vocabulary < 2:
            raise ForageError(
                f"Tokens need a length of 1 or more and a vocabulary of 2 or more, the pad counted; "
                f"got length={length} and vocabulary={vocabulary}."
            )
        self.length, self.vocabulary = int(length), int(vocabulary)
        super().__init__(np.full(self.length, self.vocabulary), np.int32, seed)  # pyrefly: ignore[no-matching-overload]

    def __repr__(self) -> str:
        return f"Tokens({self.length}, {self.vocabulary})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokens) and (self.length, self.vocabulary) == (other.length, other.vocabulary)


def example(space: spaces.Space[Any]) -> PyTree[Array]:
    """Zeros with the shape and dtype of one element of `space`."""
    if isinstance(space, spaces.Dict):
        return {name: example(inner) for name, inner in space.items()}
    if isinstance(space, spaces.Discrete):
        return jnp.zeros((), jnp.int32)
    if isinstance(space, spaces.MultiDiscrete):
        return jnp.zeros(space.shape, jnp.int32)
    if space.shape is None:
        raise ForageError(unknown(space))
    return jnp.zeros(space.shape, jax.dtypes.canonicalize_dtype(space.dtype))


def sample(space: spaces.Space[Any], key: Key[Array, ""], mask: Bool[Array, " actions"] | None = None) -> PyTree[Array]:
    """Draws a uniform element of an action space: discrete (where `mask` allows), multi-discrete or bounded box."""
    if isinstance(space, spaces.Discrete):
        if mask is None:
            return jax.random.randint(key, (), 0, int(space.n))
        return jnp.argmax(jnp.where(mask, jax.random.uniform(key, mask.shape), -1.0)).astype(jnp.int32)
    if isinstance(space, spaces.MultiDiscrete):
        if mask is None:
            return jax.random.randint(key, space.shape, 0, jnp.asarray(space.nvec))
        scores = jnp.where(mask, jax.random.uniform(key, mask.shape), -1.0)
        parts = jnp.split(scores, np.cumsum(space.nvec.reshape(-1))[:-1])
        return jnp.stack([jnp.argmax(part) for part in parts]).astype(jnp.int32)
    assert isinstance(space, spaces.Box)
    low, high = np.asarray(space.low, np.float32), np.asarray(space.high, np.float32)
    return jax.random.uniform(key, space.shape, minval=low, maxval=high)


def clip(space: spaces.Space[Any], action: PyTree[Array]) -> PyTree[Array]:
    """Brings a continuous action into its box; other actions pass unchanged."""
    if isinstance(space, spaces.Box) and space.is_bounded("both"):
        return jnp.clip(action, jnp.asarray(space.low, jnp.float32), jnp.asarray(space.high, jnp.float32))
    return action


def carries_more(keys: Iterable[str]) -> bool:
    """Whether a dictionary with these keys is an observation with something beside it."""
    beside = set(keys) - {"observation"}
    return beside < set(keys) and set() < beside <= {MASK, STATE, PRESENT}


def split_mask(observation: PyTree[Array]) -> tuple[PyTree[Array], Bool[Array, " actions"] | None]:
    """Parts an observation into what is seen and which actions are allowed (`None`: all)."""
    if isinstance(observation, dict) and carries_more(observation):
        mask = observation.get(MASK)
        return observation["observation"], None if mask is None else mask != 0
    return observation, None


def present(observation: PyTree[Array]) -> Int[Array, "*agent"] | None:
    """Whether the agent acts on this observation: 1, 0 or -1 (`None`: always)."""
    if isinstance(observation, dict) and PRESENT in observation and carries_more(observation):
        return observation[PRESENT]
    return None


PRESENCE = spaces.Box(-1, 1, (), np.int8)
"""The space of `present`."""


class OneHot(spaces.Box):
    """A number below `size`, as a vector that is 1 there and 0 elsewhere. A box, for those who need not know."""

    def __init__(self, size: int) -> None:
        super().__init__(0.0, 1.0, (size,), np.float32)


def seen(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The space of what is seen, without what stands beside it."""
    return space["observation"] if isinstance(space, spaces.Dict) and carries_more(space.spaces) else space


def central(space: spaces.Space[Any]) -> spaces.Space[Any] | None:
    """The space of what a central critic may see, where there is such a thing."""
    return space[STATE] if isinstance(space, spaces.Dict) and carries_more(space) and STATE in space.spaces else None


def is_bounded_box(space: spaces.Space[Any]) -> bool:
    """Whether actions are continuous, with bounds."""
    return isinstance(space, spaces.Box) and space.is_bounded("both") and np.issubdtype(space.dtype, np.floating)


def check_bounded(agent: str, spec: Spec) -> None:
    """Raises `ForageError` for an action space that `agent`, whose actions are continuous and bounded, cannot use."""
    if not is_bounded_box(spec.action_space):
        others = "ppo, dqn or sac-discrete" if isinstance(spec.action_space, spaces.Discrete) else "ppo"
        raise ForageError(
            f"{agent} needs a continuous, bounded action space; {spec.name} has {describe(spec.action_space)}. "
            f"Try {others}."
        )


def check_discrete(agent: str, spec: Spec) -> None:
    """Raises `ForageError` for an action space that `agent`, whose actions are numbered, cannot use."""
    if not isinstance(spec.action_space, spaces.Discrete):
        others = "ppo, sac or td3" if is_bounded_box(spec.action_space) else "ppo"
        raise ForageError(
            f"{agent} needs a Discrete action space; {spec.name} has {describe(spec.action_space)}. Try {others}."
        )


def describe(space: spaces.Space[Any]) -> str:
    """A few words for messages: `Discrete(2)`, `Box(6,)`."""
    if isinstance(space, spaces.Box):
        return f"Box{tuple(space.shape)}"
    if isinstance(space, spaces.Dict):
        return f"Dict({', '.join(f'{name}: {describe(inner)}' for name, inner in space.items())})"
    return str(space)


def unknown(space: spaces.Space[Any]) -> str:
    """Says that a space is none of those that values travel in."""
    return (
        f"Spaces are boxes, discrete, multi-discrete, multi-binary, tokens or dictionaries of these, not {space}; "
        f'a tuple can be a dictionary with the keys "0", "1", ..., and a text tokens.'
    )


def leaves(space: spaces.Space[Any], path: tuple[str, ...] = ()) -> dict[tuple[str, ...], spaces.Space[Any]]:
    """The spaces inside nested dictionaries by where they are; one that is no dictionary is at `()`."""
    if not isinstance(space, spaces.Dict):
        return {path: space}
    return {at: leaf for name, inner in space.items() for at, leaf in leaves(inner, (*path, name)).items()}


def to_json(space: spaces.Space[Any]) -> dict[str, Any]:
    """A space as plain data, so that a saved agent needs no environment to be loaded."""
    if isinstance(space, spaces.Dict):
        return {"kind": "dict", "spaces": {name: to_json(inner) for name, inner in space.items()}}
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, Tokens):
        return {"kind": "tokens", "length": space.length, "vocabulary": space.vocabulary}
    if isinstance(space, spaces.MultiDiscrete):
        start = {"start": space.start.tolist()} if space.start.any() else {}
        return {"kind": "multi-discrete", "nvec": space.nvec.tolist(), **start}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "multi-binary", "shape": list(space.shape)}
    if isinstance(space, spaces.Box):
        low, high = (b.flat[0].item() if (b == b.flat[0]).all() else b.tolist() for b in (space.low, space.high))
        return {"kind": "box", "low": low, "high": high, "shape": list(space.shape), "dtype": str(space.dtype)}
    raise ForageError(unknown(space))


def from_json(data: dict[str, Any]) -> spaces.Space[Any]:
    """The inverse of `to_json`."""
    kind = data["kind"]
    if kind == "dict":
        return spaces.Dict({name: from_json(inner) for name, inner in data["spaces"].items()})
    if kind == "discrete":
        return spaces.Discrete(data["n"], start=data["start"])
    if kind == "tokens":
        return Tokens(data["length"], data["vocabulary"])
    if kind == "multi-discrete":
        return spaces.MultiDiscrete(data["nvec"], start=data.get("start"))
    if kind == "multi-binary":
        return spaces.MultiBinary(data["shape"])
    dtype, shape = np.dtype(data["dtype"]), tuple(data["shape"])
    low, high = (np.broadcast_to(np.asarray(data[bound], dtype), shape) for bound in ("low", "high"))
    return spaces.Box(low.copy(), high.copy(), shape, dtype.type)
