"""The libraries that adapters open, each driven as its own documentation does, without Forage."""

from __future__ import annotations

from typing import Any

import jax
from conformance import Driver, Seen


class Gymnax(Driver):
    """`step` starts anew by itself and keeps what the episode ended with in `info`."""

    def __init__(self, id: str, **options: Any):
        import gymnax

        self.library, parameters = gymnax.make(id)
        self.parameters = parameters.replace(**options)

    def key(self, key: Any) -> Any:
        return jax.random.split(key)[0]  # the other is for the start that may follow

    def reset(self, key: Any) -> tuple[Any, Any, Any]:
        observation, state = self.library.reset(key, self.parameters)
        return state, observation, None

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Seen]:
        _, state, reward, terminated, truncated, info = self.library.step(key, state, action, self.parameters)
        return state, Seen(info["final_observation"], None, reward, terminated, truncated & ~terminated)


class Craftax(Driver):
    """`done` does not say why, but the step's number does."""

    def __init__(self, id: str, **options: Any):
        from craftax.craftax_env import make_craftax_env_from_name

        self.library = make_craftax_env_from_name(id, auto_reset=False)
        self.parameters = self.library.default_params.replace(**options)

    def reset(self, key: Any) -> tuple[Any, Any, Any]:
        observation, state = self.library.reset(key, self.parameters)
        return state, observation, None

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Seen]:
        observation, state, reward, done, _ = self.library.step(key, state, action, self.parameters)
        over = state.player_health <= 0
        if hasattr(state, "mobs") or state.map.ndim == 2:  # Classic is one level, and its lava kills
            from craftax.craftax_classic.constants import BlockType

            over |= state.map[state.player_position[0], state.player_position[1]] == BlockType.LAVA.value
        return state, Seen(observation, None, reward, done & over, done & ~over)
