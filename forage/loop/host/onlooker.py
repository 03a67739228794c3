"""The step between acting and stepping on the host: ask a behaviour that intervenes, and check its answer."""

from __future__ import annotations

import io
import os
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from jaxtyping import Bool, Int, PyTree

from forage.core import spaces
from forage.core.errors import RunInterrupted
from forage.core.ports import Behaviour, Intervention, InterventionContext
from forage.core.types import GONE, NOBODY, PERSON, Clock, Experience, ForageError, Spec


class IntervenedActions(NamedTuple):
    """The agents' actions after the behaviour's intervention."""

    executed: PyTree[np.ndarray]
    action: PyTree[np.ndarray]  # to be remembered
    policy_info: PyTree[np.ndarray]
    source: Int[np.ndarray, "env *agent"]


class InterventionRecorder:
    """The state of a behaviour on the host, and the number of steps it took over, for one seed."""

    def __init__(self, behaviour: Behaviour, spec: Spec, num_envs: int, seed: int):
        self.behaviour, self.spec, self.num_envs, self.seed = behaviour, spec, num_envs, seed
        self.state: PyTree[np.ndarray] = ()
        self.taken = 0

    @property
    def name(self) -> str:
        return type(self.behaviour).__name__

    def begin(self) -> None:
        """Begin a run."""
        self.state = self.arrays(
            self.call_behaviour("when the run began", self.behaviour.attend, self.spec, self.num_envs)
        )

    def ask(
        self,
        observation: PyTree[np.ndarray],
        executed: PyTree[np.ndarray],
        action: PyTree[np.ndarray],
        source: Int[np.ndarray, "env *agent"],
        begins: Bool[np.ndarray, "env *agent"],
        clock: Clock,
        policy_info: PyTree[np.ndarray] = (),
        policy: Callable[[], Any] | None = None,
    ) -> IntervenedActions:
        """Return the actions to execute and to remember, and who chose each, once the behaviour was asked.

        `policy_info`: what the agent wants back of each action. `policy` returns the agent's state.
        """
        seen, chosen, fresh = (read_only_views(part) for part in (observation, executed, begins))
        scene = InterventionContext(
            seen, chosen, fresh, self.spec, clock, self.seed, read_only_views(policy_info), policy
        )
        when = f"at step {int(clock.steps):,} with seed {self.seed}"
        answer = self.call_behaviour(when, self.behaviour.intervene, self.state, scene)
        given, taken, state = answer[:3]
        own, who = Intervention(*answer)[3:]
        taken = np.asarray(taken)
        if taken.shape != source.shape or taken.dtype != bool:
            raise ForageError(
                f"{self.name} answered {when} with taken of {taken.dtype}{list(taken.shape)}; whether each action is "
                f"taken over is bool{list(source.shape)}."
            )
        state = self.arrays(state)
        if jax.tree.structure(state) != jax.tree.structure(self.state):
            raise ForageError(
                f"{self.name} remembers another structure {when} than when the run began: {jax.tree.structure(state)} "
                f"in place of {jax.tree.structure(self.state)}."
            )
        self.state = state
        taken = taken & (source != NOBODY) & (source != GONE)  # who waits or has left does not act
        if not taken.any():
            return IntervenedActions(executed, action, policy_info, source)
        given = self.fitting(given, executed, taken, when)

        def put(own: np.ndarray, given: np.ndarray) -> np.ndarray:
            return np.where(taken.reshape(taken.shape + (1,) * (own.ndim - taken.ndim)), given, own)

        executed, action = (jax.tree.map(put, one, given) for one in (executed, action))
        if own is not None:
            policy_info = jax.tree.map(put, policy_info, self.matching_info(own, policy_info, taken, when))
        source = np.where(taken, PERSON if who is None else who, source).astype(source.dtype)
        return IntervenedActions(executed, action, policy_info, source)

    def matching_info(
        self, own: PyTree[Any], like: PyTree[np.ndarray], taken: np.ndarray, when: str
    ) -> PyTree[np.ndarray]:
        """Return the replacement of `policy_info`, with the dtypes of the agent's own. Raise `ForageError` for another
        form.
        """
        if jax.tree.map(np.shape, own) != jax.tree.map(np.shape, like):
            raise ForageError(
                f"{self.name} answered {when} with other numbers for the agent to learn from than it has itself."
            )
        own = jax.tree.map(lambda x, y: np.asarray(x, y.dtype), own, like)
        if not all(np.isfinite(x[taken]).all() for x in jax.tree.leaves(own)):
            raise ForageError(f"{self.name} answered {when} with NaN or infinity for the agent to learn from.")
        return own

    def metrics(self) -> dict[str, np.ndarray]:
        """Return the metrics of a report: those of the behaviour, or else the number of steps taken over."""
        found = self.call_behaviour("for its metrics", self.behaviour.intervention_metrics, self.state) or {
            "taken_over": self.taken
        }
        return {name: np.float32(value) for name, value in found.items()}  # type: ignore[misc]

    def call_behaviour(self, when: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a function of the behaviour. Raise `ForageError` for any exception in it."""
        try:
            return function(*arguments)
        except KeyboardInterrupt:
            raise RunInterrupted(f"Stopped by Ctrl-C while {self.name} was asked {when}.") from None
        except ForageError:
            raise
        except Exception as error:
            frames = [f for f in traceback.extract_tb(error.__traceback__) if "site-packages" not in f.filename]
            where = f"{os.path.basename(frames[-1].filename)}, line {frames[-1].lineno}"
            said = f"{type(error).__name__}: {error}".rstrip(": .")
            raise ForageError(f"{self.name} failed {when}: {said} ({where}).") from error

    def fitting(
        self, given: PyTree[Any], like: PyTree[np.ndarray], taken: Bool[np.ndarray, "env *agent"], when: str
    ) -> PyTree[np.ndarray]:
        """Return actions with the dtypes of `like`, within bounds. Raise `ForageError` if they are no actions."""
        space = self.spec.action_space

        def fit(given: Any, like: np.ndarray) -> np.ndarray:
            array = spaces.fit_dtype(np.asarray(given), like.dtype)
            if array.shape != like.shape:
                raise ValueError(f"shape {list(array.shape)} instead of {list(like.shape)}")
            chosen = array[taken]
            if not np.isfinite(chosen).all():
                raise ValueError("NaN or infinity")
            if isinstance(space, spaces.MixedSpace):
                options, most = chosen[..., : space.split], space.high[: space.split]
                if (wrong := (options < 0) | (options > most) | (options % 1 != 0)).any():
                    raise ValueError(f"the choice {options[wrong][0]:g}")
                return np.clip(array, space.low, space.high).astype(like.dtype)
            most = space.n if isinstance(space, gymnasium.spaces.Discrete) else getattr(space, "nvec", np.inf)
            if isinstance(space, gymnasium.spaces.Box):
                return np.clip(array, space.low, space.high).astype(like.dtype)
            if (chosen < 0).any() or (chosen >= most).any():
                raise ValueError(f"{chosen[((chosen < 0) | (chosen >= most))][0]}")
            return array

        try:
            return jax.tree.map(fit, given, like)
        except (TypeError, ValueError) as error:
            raise ForageError(
                f"{self.name} took over {when} with what is no action of {spaces.describe_space(space)}: "
                f"{str(error).splitlines()[0].rstrip('.')}."
            ) from error

    def arrays(self, state: PyTree[Any]) -> PyTree[np.ndarray]:
        """Return a state as NumPy arrays. Raise `ForageError` if it is not of numbers."""
        arrays = jax.tree.map(np.asarray, state)
        for leaf in jax.tree.leaves(arrays):
            if leaf.dtype.kind not in "biufc":
                raise ForageError(f"{self.name} remembers {leaf.dtype} on the host; a checkpoint keeps numbers alone.")
        return arrays

    def count(self, rollout: Experience) -> None:
        """Count the steps of a rollout that were taken over."""
        self.taken += int((rollout.source == PERSON).sum())

    def dump(self) -> bytes:
        """Return the whole state as bytes, with each number's own precision."""
        buffer = io.BytesIO()
        np.savez(buffer, np.int64(self.taken), *jax.tree.leaves(self.state))
        return buffer.getvalue()

    def restore(self, saved: bytes) -> None:
        """Continue from the result of `dump`. Raise `ForageError` if it is of another behaviour."""
        self.begin()
        with np.load(io.BytesIO(saved), allow_pickle=False) as file:
            taken, *leaves = (file[f"arr_{number}"] for number in range(len(file.files)))
        if len(leaves) != len(jax.tree.leaves(self.state)):
            raise ForageError(
                f"{self.name} remembers {len(jax.tree.leaves(self.state))} arrays on the host, and remembered "
                f"{len(leaves)} when this run was saved; give it back what it was, or train again."
            )
        self.state, self.taken = jax.tree.unflatten(jax.tree.structure(self.state), leaves), int(taken)


def read_only_views(tree: PyTree[np.ndarray]) -> PyTree[np.ndarray]:
    """Return read-only views of the same arrays, so that a behaviour cannot change its stored state."""

    def view(array: Any) -> np.ndarray:
        array = np.asarray(array).view()
        array.flags.writeable = False
        return array

    return jax.tree.map(view, tree)
