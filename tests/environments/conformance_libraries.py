"""The libraries that adapters open, each driven as its own documentation does, without Forage."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
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


class Brax(Driver):
    """Brax's own wrapper keeps the time and says that it was the time."""

    def __init__(self, id: str, episode_length: int = 1000, **options: Any):
        from brax import envs

        self.library = envs.create(id, episode_length=episode_length, auto_reset=False, **options)

    def reset(self, key: Any) -> tuple[Any, Any, Any]:
        state = self.library.reset(key)
        return state, state.obs, None

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Seen]:
        state = self.library.step(state, action)
        truncated = state.info["truncation"] > 0
        return state, Seen(state.obs, None, state.reward, (state.done > 0) & ~truncated, truncated)


class Playground(Brax):
    """Playground is trained under Brax's wrapper."""

    def __init__(self, id: str, episode_length: int = 1000, **options: Any):
        from brax.envs.wrappers.training import EpisodeWrapper
        from mujoco_playground import registry

        self.library = EpisodeWrapper(registry.load(id, config_overrides={"impl": "jax"}), episode_length, 1)


class Jumanji(Driver):
    """A discount of 0 ends most episodes, also those that the time ends; the step's number says which."""

    def __init__(self, id: str, **options: Any):
        import jumanji

        self.library = jumanji.make(id, **options)
        self.limit = getattr(self.library, "time_limit", None)

    def reset(self, key: Any) -> tuple[Any, Any, Any]:
        state, timestep = self.library.reset(key)
        return (state, 0), *self.split(timestep.observation)

    def split(self, observation: Any) -> tuple[Any, Any]:
        fields = dict(observation._asdict())
        mask = fields.pop("action_mask", None)
        # The rest in the order of names, as dictionaries are.
        return self.plain(fields), mask

    def plain(self, value: Any) -> Any:
        if hasattr(value, "_asdict"):
            value = value._asdict()
        elif hasattr(value, "__dataclass_fields__"):
            value = {name: getattr(value, name) for name in value.__dataclass_fields__}
        return {name: self.plain(part) for name, part in value.items()} if isinstance(value, dict) else value

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Seen]:
        state, time = state
        mask = getattr(self.library.observation_spec, "action_mask", None)
        if jnp.ndim(action) == 0 and mask is not None and len(mask.shape) > 1:
            action = jnp.stack(jnp.unravel_index(action, mask.shape))
        state, timestep = self.library.step(state, action)
        last, late = timestep.last(), False if self.limit is None else time + 1 >= self.limit
        observation, mask = self.split(timestep.observation)
        return (state, time + 1), Seen(observation, mask, timestep.reward.sum(), last & ~late, last & late)


class Navix(Driver):
    """`step` starts anew one step after an end, so up to there it may be used as it is."""

    def __init__(self, id: str, **options: Any):
        import navix

        self.library = navix.make(id, **options)

    def reset(self, key: Any) -> tuple[Any, Any, Any]:
        timestep = self.library.reset(key)
        return timestep, timestep.observation, None

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Seen]:
        timestep = self.library.step(state, action)
        over, late = timestep.is_termination(), timestep.is_truncation()
        return timestep, Seen(timestep.observation, None, timestep.reward, over, late)


class XLand(Driver):
    """The discount says whether the goal was reached."""

    def __init__(self, id: str, **options: Any):
        import xminigrid

        self.library, self.parameters = xminigrid.make(id, **options)

    def reset(self, key: Any) -> tuple[Any, Any, Any]:
        timestep = self.library.reset(self.parameters, key)
        return timestep, timestep.observation, None

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, Seen]:
        timestep = self.library.step(self.parameters, state, action)
        reached = timestep.discount == 0
        return timestep, Seen(timestep.observation, None, timestep.reward, reached, timestep.last() & ~reached)
