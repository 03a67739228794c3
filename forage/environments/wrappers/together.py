"""Many agents, each in a copy of one environment: the smallest environment with an agent axis."""

from __future__ import annotations

from typing import Any, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Key, PyTree

from forage.core.ports import Environment
from forage.core.spaces import PRESENCE, PRESENT, STATE, carries_more
from forage.core.types import ForageError, Step


class TogetherState(NamedTuple):
    inner: Any  # leaves `agent ...`
    left: Bool[Array, " agent"]  # its own episode is over


class EnvironmentCopies(Environment):
    """`count` agents, each in a copy of `environment`; the episode is over once all agents' own are.

    Each agent learns the same as it would alone, so this shows whether a loop keeps agents apart. Each sees
    `{"observation", "present", "state"}` (and its mask, if the environment gives one): it is present until its own
    episode is over, and `state` is all their observations side by side.
    """

    environment: Environment
    count: int = equinox.field(static=True, default=2)

    def __check_init__(self):
        if self.count < 2:
            raise ForageError(f"Together takes 2 agents or more, not {self.count}.")
        if not isinstance(self.single["observation"], gymnasium.spaces.Box):
            raise ForageError(f"Together needs a Box observation, and {type(self.environment).__name__} has another.")

    @property
    def num_agents(self) -> int:
        return self.count

    @property
    def single(self) -> dict[str, gymnasium.Space[Any]]:
        """Return the observation spaces of one agent in a copy of its own."""
        space = self.environment.observation_space
        beside = isinstance(space, gymnasium.spaces.Dict) and carries_more(space.spaces)
        return dict(space.spaces) if beside else {"observation": space}  # pyrefly: ignore[missing-attribute]

    @property
    def observation_space(self) -> gymnasium.spaces.Dict:
        single = self.single
        size = self.count * int(np.prod(single["observation"].shape or ()))
        state = gymnasium.spaces.Box(-np.inf, np.inf, (size,), np.float32)
        return gymnasium.spaces.Dict(single | {PRESENT: PRESENCE, STATE: state})

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self.environment.action_space

    @property
    def frames_per_second(self) -> float | None:
        return self.environment.frames_per_second

    @property
    def horizon(self) -> int | None:
        return self.environment.horizon

    def reset(self, key: Key[Array, ""]) -> tuple[TogetherState, PyTree[Array]]:
        inner, observation = jax.vmap(self.environment.reset)(jax.random.split(key, self.count))
        left = jnp.zeros(self.count, bool)
        return TogetherState(inner, left), self.show(observation, left)

    def step(self, state: TogetherState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[TogetherState, Step]:
        inner, step = jax.vmap(self.environment.step)(state.inner, action, jax.random.split(key, self.count))
        left = state.left | step.terminated | step.truncated
        return TogetherState(inner, left), Step(
            self.show(step.observation, left),
            jnp.where(state.left, 0.0, step.reward),
            step.terminated | state.left,
            step.truncated & ~state.left,
            {},
        )

    def show(self, observation: PyTree[Array], left: Bool[Array, " agent"]) -> dict[str, Array]:
        shown = observation if isinstance(observation, dict) else {"observation": observation}
        state = shown["observation"].astype(jnp.float32).reshape(-1)
        state = jnp.broadcast_to(state, (self.count, *state.shape))
        return shown | {PRESENT: jnp.where(left, -1, 1).astype(jnp.int8), STATE: state}

    def render(self, state: TogetherState) -> Any:
        copies = [jax.tree.map(lambda x, i=i: x[i], state.inner) for i in range(self.count)]
        return np.concatenate([self.environment.render(copy) for copy in copies], 1)
