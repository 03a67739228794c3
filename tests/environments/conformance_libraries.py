"""The JAX libraries that adapters open, each driven as its own documentation does, without Forage."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from conformance import SeenRecord, join_agents, number_agents
from conformance_device import Driver


class Gymnax(Driver):
    """`step` resets by itself and keeps the last observation in `info`."""

    def __init__(self, id: str, **options: Any):
        import gymnax

        self.library, parameters = gymnax.make(id)
        self.parameters = parameters.replace(**options)

    def key(self, key: Any) -> Any:
        return jax.random.split(key)[0]  # the other is for the start that may follow

    def reset(self, key: Any) -> tuple[Any, SeenRecord]:
        observation, state = self.library.reset(key, self.parameters)
        return state, SeenRecord(observation)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, SeenRecord]:
        _, state, reward, terminated, truncated, info = self.library.step(key, state, action, self.parameters)
        return state, SeenRecord(info["final_observation"], None, reward, terminated, truncated & ~terminated)


class Craftax(Driver):
    """`done` does not tell the two kinds of end apart, but the step's number does."""

    def __init__(self, id: str, **options: Any):
        from craftax.craftax_env import make_craftax_env_from_name

        self.library = make_craftax_env_from_name(id, auto_reset=False)
        self.parameters = self.library.default_params.replace(**options)

    def reset(self, key: Any) -> tuple[Any, SeenRecord]:
        observation, state = self.library.reset(key, self.parameters)
        return state, SeenRecord(observation)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, SeenRecord]:
        observation, state, reward, done, _ = self.library.step(key, state, action, self.parameters)
        over = state.player_health <= 0
        if hasattr(state, "mobs") or state.map.ndim == 2:  # Classic is one level, and its lava kills
            from craftax.craftax_classic.constants import BlockType

            over |= state.map[state.player_position[0], state.player_position[1]] == BlockType.LAVA.value
        return state, SeenRecord(observation, None, reward, done & over, done & ~over)


class Brax(Driver):
    """Brax's own wrapper keeps the time and reports the time limit."""

    def __init__(self, id: str, episode_length: int = 1000, **options: Any):
        from brax import envs

        self.library = envs.create(id, episode_length=episode_length, auto_reset=False, **options)

    def reset(self, key: Any) -> tuple[Any, SeenRecord]:
        state = self.library.reset(key)
        return state, SeenRecord(state.obs)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, SeenRecord]:
        state = self.library.step(state, action)
        truncated = state.info["truncation"] > 0
        return state, SeenRecord(state.obs, None, state.reward, (state.done > 0) & ~truncated, truncated)


class Playground(Brax):
    """Playground is trained under Brax's wrapper."""

    def __init__(self, id: str, episode_length: int = 1000, **options: Any):
        from brax.envs.wrappers.training import EpisodeWrapper
        from mujoco_playground import registry

        self.library = EpisodeWrapper(registry.load(id, config_overrides={"impl": "jax"}), episode_length, 1)


class Jumanji(Driver):
    """A discount of 0 ends most episodes, even at the time limit; the step's number distinguishes the two."""

    def __init__(self, id: str, **options: Any):
        import jumanji

        self.library = jumanji.make(id, **options)
        self.limit = getattr(self.library, "time_limit", None)

    def reset(self, key: Any) -> tuple[Any, SeenRecord]:
        state, timestep = self.library.reset(key)
        return (state, 0), SeenRecord(*self.split(timestep.observation))

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

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, SeenRecord]:
        state, time = state
        mask = getattr(self.library.observation_spec, "action_mask", None)
        if jnp.ndim(action) == 0 and mask is not None and len(mask.shape) > 1:
            action = jnp.stack(jnp.unravel_index(action, mask.shape))
        state, timestep = self.library.step(state, action)
        last, late = timestep.last(), False if self.limit is None else time + 1 >= self.limit
        observation, mask = self.split(timestep.observation)
        return (state, time + 1), SeenRecord(observation, mask, timestep.reward.sum(), last & ~late, last & late)


class Navix(Driver):
    """`step` resets one step after an end, so up to there it may be used unchanged."""

    def __init__(self, id: str, **options: Any):
        import navix

        self.library = navix.make(id, **options)

    def reset(self, key: Any) -> tuple[Any, SeenRecord]:
        timestep = self.library.reset(key)
        return timestep, SeenRecord(timestep.observation)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, SeenRecord]:
        timestep = self.library.step(state, action)
        over, late = timestep.is_termination(), timestep.is_truncation()
        return timestep, SeenRecord(timestep.observation, None, timestep.reward, over, late)


class XLand(Driver):
    """The discount shows whether the goal was reached."""

    def __init__(self, id: str, **options: Any):
        import xminigrid

        self.library, self.parameters = xminigrid.make(id, **options)

    def reset(self, key: Any) -> tuple[Any, SeenRecord]:
        timestep = self.library.reset(self.parameters, key)
        return timestep, SeenRecord(timestep.observation)

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, SeenRecord]:
        timestep = self.library.step(self.parameters, state, action)
        reached = timestep.discount == 0
        return timestep, SeenRecord(timestep.observation, None, timestep.reward, reached, timestep.last() & ~reached)


class JaxMARL(Driver):
    """`step_env` is `step` without a reset. `done` covers both kinds of end; for particles it is always the time."""

    def __init__(self, id: str, **options: Any):
        import jaxmarl

        self.library = jaxmarl.make(*self.name(id, options), **options)
        self.sizes = [self.size(self.library.action_space(agent)) for agent in self.library.agents]

    def name(self, id: str, options: dict[str, Any]) -> tuple[str]:
        """The library's own id; adds the option that the rest of it is."""
        return (id,)

    def size(self, space: Any) -> int:
        return space.n if hasattr(space, "n") else space.shape[0]

    def reset(self, key: Any) -> tuple[Any, SeenRecord]:
        shown, state = self.library.reset(key)
        return state, self.look(shown, state, jnp.zeros(len(self.sizes), bool))

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, SeenRecord]:
        agents = self.library.agents
        # An agent takes no more actions than it has, and of a box as many numbers.
        discrete = hasattr(self.library.action_space(agents[0]), "n")
        taken = {
            agent: jnp.minimum(mine, size - 1) if discrete else mine[:size]
            for agent, mine, size in zip(agents, action, self.sizes, strict=True)
        }
        shown, state, rewards, dones, _ = self.library.step_env(key, state, taken)
        done, reward = (jnp.stack([jnp.asarray(told[agent]) for agent in agents]) for told in (dones, rewards))
        over = jnp.broadcast_to(dones["__all__"], done.shape)
        terminated, truncated = self.ends(state, done, over, reward)
        seen = self.look(shown, state, done | terminated)
        return state, seen._replace(reward=reward, terminated=terminated, truncated=truncated)

    def look(self, shown: Any, state: Any, out: Any) -> SeenRecord:
        parts = [shown[agent].astype(jnp.float32) for agent in self.library.agents]
        differ = len({part.shape for part in parts}) > 1 or len(set(self.sizes)) > 1
        observation, world = join_agents(parts, differ)
        if "world_state" in shown:
            world = number_agents([shown["world_state"]] * len(parts))
        return SeenRecord(observation, self.mask(state), present=self.present(state, out), state=world)

    def mask(self, state: Any) -> Any:
        most = max(self.sizes)
        return None if len(set(self.sizes)) == 1 else jnp.arange(most) < jnp.asarray(self.sizes)[:, None]

    def ends(self, state: Any, done: Any, over: Any, reward: Any) -> tuple[Any, Any]:
        """Return the flags of agents that have terminated and that have run out of time."""
        return jnp.zeros_like(over), over

    def present(self, state: Any, out: Any) -> Any:
        return None

    def stack_case(self, of_agents: dict[str, Any]) -> Any:
        return jnp.stack([of_agents[agent] for agent in self.library.agents])


class Overcooked(JaxMARL):
    def name(self, id: str, options: dict[str, Any]) -> tuple[str]:
        from jaxmarl.environments.overcooked.layouts import overcooked_layouts

        base, _, layout = id.partition("-")
        options["layout"] = overcooked_layouts[layout]
        return (base,)


class SMAX(JaxMARL):
    """An episode ends with the death of a team, or by the time limit. Agents done earlier have fallen."""

    def name(self, id: str, options: dict[str, Any]) -> tuple[str]:
        from jaxmarl.environments.smax import map_name_to_scenario

        options["scenario"] = map_name_to_scenario(id.partition("-")[2])
        return ("HeuristicEnemySMAX",)

    def mask(self, state: Any) -> Any:
        return self.stack_case(self.library.get_avail_actions(state))

    def ends(self, state: Any, done: Any, over: Any, reward: Any) -> tuple[Any, Any]:
        allies, enemies = jnp.split(state.state.unit_alive, [self.library.num_allies])
        beaten = ~(allies.any() & enemies.any())
        return over & beaten, over & ~beaten

    def present(self, state: Any, out: Any) -> Any:
        return jnp.where(out, 0, 1)


class Hanabi(JaxMARL):
    """The cards end it. The agent in turn acts; the other's only legal move is none."""

    def mask(self, state: Any) -> Any:
        return self.stack_case(self.library.get_legal_moves(state))

    def ends(self, state: Any, done: Any, over: Any, reward: Any) -> tuple[Any, Any]:
        return over, jnp.zeros_like(over)

    def present(self, state: Any, out: Any) -> Any:
        turn = state.cur_player_idx[jnp.argsort(state.seat_order)] > 0
        return jnp.where(turn & ~out, 1, 0)


class JaxNav(JaxMARL):
    """Robots that reach their goal or crash; with `evaporating` they are gone then, each by itself."""

    def ends(self, state: Any, done: Any, over: Any, reward: Any) -> tuple[Any, Any]:
        by_itself = (state.goal_reached | state.move_term).astype(bool)
        return done & (by_itself | state.term), done & ~by_itself & ~state.term

    def present(self, state: Any, out: Any) -> Any:
        return jnp.where(out, -1, jnp.where(state.move_term, 0, 1))
