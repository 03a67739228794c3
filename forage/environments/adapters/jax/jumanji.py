"""The environments of Jumanji.

Source: Bonnet, Luo, Byrne, Surana, Abramowitz, Duckworth, Coyette, Midgley, Tegegn, Kalloniatis, Mahjoub, Macfarlane,
Smit, Grinsztajn, Boige, Waters, Mimouni, Mbou Sob, de Kock, Singh, Furelos-Blanco, Le, Pretorius, Laterre (2024),
"Jumanji: a Diverse Suite of Scalable Reinforcement Learning Environments in JAX", ICLR, arXiv 2306.09884.
"""

# Where types are checked without the library, this file itself is taken for it.
from __future__ import annotations

import copy
import inspect
import math
from typing import Any, ClassVar

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree, UInt8
from jumanji import registration, specs

from forage.core.ports import Environment
from forage.core.spaces import MASK
from forage.core.types import ForageError, Step
from forage.environments.adapters.jax import common as foreign


class Jumanji(Environment):
    """One of Jumanji's environments, without automatic resets.

    - Observation: the library's named tuple as a (nested) dictionary; an entry alone, or alone with the mask, is
      the observation itself. With `flatten=True` it is one vector `float32[n]`. If Jumanji has an action mask it
      is `{"observation": ..., "action_mask": bool[actions]}`.
    - Action: as in the library: discrete, multi-discrete or a box. If the mask covers whole combinations instead of
      each part (BinPack, FlatPack, Minesweeper, Sudoku, Tetris), the combinations are numbered, last part fastest:
      one discrete action, so that the mask stays exact. `joint=False` keeps the parts, and the mask as an observation.
    - Reward: the sum over agents if there are several, as in Jumanji's `MultiToSingleWrapper`.
    - Terminated: the last step, with a discount of 0 and not by the time limit. Truncated: the last step
      otherwise. Most of Jumanji's environments end with a discount of 0 also at their `time_limit`; stepping
      the same environment without the limit tells the two apart.
    """

    frames_per_second: ClassVar[float] = 5.0

    library: Any = equinox.field(static=True)
    endless: Any = equinox.field(static=True)  # the same without a time limit; None where it has none
    id: str = equinox.field(static=True)
    flatten: bool = equinox.field(static=True)
    parts: tuple[int, ...] = equinox.field(static=True)  # of a numbered action; empty where it is the library's own

    def __init__(self, target: str, flatten: bool = False, joint: bool = True, **options: Any):
        """Raise `ForageError` for an option that the environment's constructor does not take."""
        name = f"jumanji:{target}"
        arguments = set(inspect.signature(registration.load(registration._REGISTRY[target].entry_point)).parameters)
        foreign.with_parameters(name, None, options, {*arguments, "flatten", "joint"} - {"viewer"})
        self.library = foreign.construct(name, registration.make, target, **options)
        self.endless = None
        if hasattr(self.library, "time_limit"):
            self.endless = copy.copy(self.library)
            self.endless.time_limit = foreign.FOREVER
        self.id, self.flatten, self.parts = target, bool(flatten), ()
        counts = self._counts()
        if joint and counts and self._mask_shape() == counts:
            self.parts = counts

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        with jax.ensure_compile_time_eval():
            space = convert(self.library.observation_spec)
        if not isinstance(space, gymnasium.spaces.Dict) or not self._masks():
            return self._seen_space(space)
        rest = gymnasium.spaces.Dict({name: part for name, part in space.spaces.items() if name != MASK})
        flat = foreign.box(0, 1, (math.prod(self._mask_shape() or ()),), np.bool_)
        return gymnasium.spaces.Dict({"observation": self._seen_space(rest), MASK: flat})

    def _seen_space(self, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        if self.flatten:
            return foreign.flat_box(space)
        if isinstance(space, gymnasium.spaces.Dict) and len(space.spaces) == 1:
            return next(iter(space.spaces.values()))
        return space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        spec = self.library.action_spec
        if self.parts:
            return gymnasium.spaces.Discrete(math.prod(self.parts))
        if isinstance(spec, specs.DiscreteArray):
            return gymnasium.spaces.Discrete(int(spec.num_values))
        if counts := self._counts():
            return gymnasium.spaces.MultiDiscrete(np.asarray(counts).reshape(spec.shape))
        return convert(spec)

    @property
    def horizon(self) -> int | None:
        return None if self.endless is None else int(self.library.time_limit)

    def reset(self, key: Key[Array, ""]) -> tuple[Any, PyTree[Array]]:
        state, timestep = self.library.reset(key)
        return foreign.strong(state), self._make_observation(timestep.observation)

    def step(self, state: Any, action: PyTree[Array], key: Key[Array, ""]) -> tuple[Any, Step]:
        if self.parts:
            action = jnp.stack(jnp.unravel_index(action, self.parts))
        action = jnp.asarray(action, self.library.action_spec.dtype)
        after, timestep = self.library.step(state, action)
        natural = timestep if self.endless is None else self.endless.step(state, action)[1]
        # With several agents the task goes on while it does for one.
        terminated = natural.last() & (jnp.max(natural.discount) == 0)
        return foreign.strong(after), Step(
            self._make_observation(timestep.observation),
            jnp.sum(timestep.reward).astype(jnp.float32),
            terminated,
            timestep.last() & ~terminated,
            foreign.strong(dict(timestep.extras or {})),
        )

    def _make_observation(self, observation: Any) -> PyTree[Array]:
        tree = foreign.to_observation(to_dictionary(observation))
        if not self._masks():
            return self._unwrap(tree)
        mask = tree.pop(MASK)
        return {"observation": self._unwrap(tree), MASK: mask.reshape(-1)}

    def _unwrap(self, tree: Any) -> PyTree[Array]:
        if self.flatten:
            return foreign.flatten_leaves(tree)
        return next(iter(tree.values())) if isinstance(tree, dict) and len(tree) == 1 else tree

    def _mask_shape(self) -> tuple[int, ...] | None:
        spec = getattr(self.library.observation_spec, MASK, None)
        return None if spec is None else tuple(spec.shape)

    def _counts(self) -> tuple[int, ...]:
        """Return the number of values of each part of a multi-discrete action; empty for other actions."""
        spec, mask = self.library.action_spec, self._mask_shape()
        if isinstance(spec, specs.DiscreteArray) or not jnp.issubdtype(spec.dtype, jnp.integer):
            return ()
        if isinstance(spec, specs.MultiDiscreteArray):
            return tuple(int(n) for n in np.asarray(spec.num_values).reshape(-1))
        if mask is not None and len(mask) == 2:  # MultiCVRP's bounds allow one node more than there are
            return (mask[1],) * mask[0]
        return tuple(int(n) + 1 for n in np.broadcast_to(spec.maximum, spec.shape).reshape(-1))

    def _masks(self) -> bool:
        """Return whether the mask is of this action space: of a discrete action, or of each part by itself."""
        shape, counts = self._mask_shape(), self._counts()
        if shape is None:
            return False
        factored = bool(counts) and shape == (len(counts), counts[0]) and len(set(counts)) == 1
        return bool(self.parts) or not counts or (factored and shape != counts)

    def render(self, state: Any) -> UInt8[np.ndarray, "height width 3"]:
        name = f"jumanji:{self.id}"
        viewer = getattr(self.library, "_viewer", None)
        if viewer is None:
            raise ForageError(f"{name} cannot be drawn: Jumanji has no viewer for it.")
        import matplotlib.pyplot

        # Jumanji shows its pictures in windows unless Matplotlib has none to show them in.
        backend = matplotlib.pyplot.get_backend()
        matplotlib.pyplot.switch_backend("agg")
        try:
            image = self.library.render(foreign.single(state))
            if image is None:
                return foreign.figure_picture(matplotlib.pyplot.gcf())
            return foreign.picture(name, image)
        except Exception as error:  # viewers are the library's own, and each raises its own kind
            raise ForageError(
                f"{name} cannot be drawn: Jumanji's viewer said {type(error).__name__}: {error}."
            ) from error
        finally:
            self.library.close()
            matplotlib.pyplot.switch_backend(backend)


def to_dictionary(observation: Any) -> Any:
    """Named tuples and data classes as dictionaries, all the way down."""
    if hasattr(observation, "_asdict"):
        return {name: to_dictionary(part) for name, part in observation._asdict().items()}
    if hasattr(observation, "__dataclass_fields__"):
        return {name: to_dictionary(getattr(observation, name)) for name in observation.__dataclass_fields__}
    return observation


def convert(spec: Any) -> gymnasium.Space[Any]:
    """Return a spec as a space. Discrete entries of an observation become boxes of one number, as counters pass their
    end.
    """
    if isinstance(spec, specs.DiscreteArray):
        return foreign.box(0, spec.num_values, (), np.int32)
    if isinstance(spec, specs.BoundedArray):
        return foreign.box(spec.minimum, spec.maximum, tuple(spec.shape), spec.dtype)
    if isinstance(spec, specs.Array):
        return foreign.unbounded_box(tuple(spec.shape), spec.dtype)
    inner = {name: part for name, part in vars(spec).items() if isinstance(part, specs.Spec)}
    return gymnasium.spaces.Dict({name: convert(part) for name, part in inner.items()})


def ids() -> dict[str, str]:
    """Return every id of Jumanji with a line of description."""
    return {id: describe_id(id) for id in sorted(registration.registered_environments())}


def describe_id(id: str) -> str:
    """Return a one-line description of an environment from the name of its module."""
    module = registration.load(registration._REGISTRY[id].entry_point).__module__.split(".")
    family = module[module.index("environments") + 1] if "environments" in module else "own"
    return f"Jumanji's {id.rpartition('-')[0]} ({family})."
