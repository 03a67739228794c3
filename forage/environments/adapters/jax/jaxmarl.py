"""JaxMARL on the device: `jaxmarl:MPE_simple_spread_v3`, `jaxmarl:SMAX-3m`. Many agents at once, in JAX.

Rutherford et al. (2024), "JaxMARL: Multi-Agent RL Environments and Algorithms in JAX", arXiv 2311.10090.
"""

# Where types are checked without the library, a file of ours is taken for it.
from __future__ import annotations

import contextlib
import functools
import io
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, UInt8

from forage.core.ports import Environment
from forage.core.spaces import MASK, PRESENCE, PRESENT, STATE
from forage.core.types import ForageError, Step
from forage.environments.adapters.jax import common as foreign
from forage.environments.adapters.jax.jaxmarl_families import Family, check_options, ids, resolve
from forage.environments.adapters.team_spaces import Own, shared_box

__all__ = ["JaxMARL", "ids"]


class MARLState(NamedTuple):
    inner: Any  # the library's own
    gone: Bool[Array, " agent"]  # done before the others


class JaxMARL(Environment):
    """One of JaxMARL's environments; see `docs/environments/jaxmarl.md`.

    - Every agent sees `{"observation", "state"}` and, where they apply, `"action_mask"` and `"present"`. Observations
      of different sizes are padded with zeros; with `identity` (the default where agents differ) the agent's number is
      appended, one-hot. `state`, for a central critic, is the library's world state, or else all observations, and
      the agent's number.
    - Discrete actions of different numbers are padded, with a mask; boxes are padded, and what is too much is ignored.
      An entry whose bounds differ is in [-1, 1] for all, which are each agent's own bounds.
    - An agent that is done before the others is not present until all are. In jaxnav with `evaporating` it has ended,
      and stays so without reward; in SMAX its team's reward goes on, to its credit too, as in the library's own
      baselines. In Hanabi who is not on turn waits, and in jaxnav who stands where it crashed.
    - The end of time is truncation, unless the task was over at that very step.

    `options` are the library's own (`max_steps`, `layout`, ...).
    """

    id: str = equinox.field(static=True)
    identity: bool = equinox.field(static=True)
    family: Family = equinox.field(static=True)
    inner: Any = equinox.field(static=True)
    observations: tuple[Any, ...] = equinox.field(static=True)  # each agent's shape and dtype
    actions: tuple[Any, ...] = equinox.field(static=True)  # each agent's space, in the library's terms

    def __init__(self, target: str, identity: bool | None = None, **options: Any):
        try:
            self.inner, self.family = resolve(target, dict(options))
        except TypeError as error:
            raise ForageError(f"jaxmarl:{target} cannot be made with {', '.join(options)}: {error}.") from error
        check_options(f"jaxmarl:{target}", self.inner, options)
        self.id = target
        agents = self.inner.agents
        seen, _ = jax.eval_shape(self.inner.reset, jax.random.PRNGKey(0))
        self.observations = tuple(seen[agent] for agent in agents)
        self.actions = tuple(self.inner.action_space(agent) for agent in agents)
        kinds = {type(space).__name__ for space in self.actions}
        if len(kinds) > 1 or not kinds <= {"Discrete", "Box"}:
            raise ForageError(f"jaxmarl:{target} has actions of kinds {', '.join(sorted(kinds))}; one kind works.")
        differ = len({o.shape for o in self.observations}) > 1 or len({self.size(a) for a in self.actions}) > 1
        # Where bounds differ, the same number of the shared box does another thing for each agent.
        apart = kinds == {"Box"} and any((own.factor != 1).any() for own in self.boxes[1])
        self.identity = (differ or apart) if identity is None else identity
        if differ and any(len(o.shape) != 1 for o in self.observations):
            raise ForageError(f"jaxmarl:{target} shows agents images of different sizes; one size works.")

    @staticmethod
    def size(action: Any) -> int:
        """Return the number of discrete actions, or the number of entries of a continuous one."""
        return int(action.n) if hasattr(action, "n") else int(action.shape[0])

    @property
    def num_agents(self) -> int:
        return len(self.inner.agents)

    @property
    def horizon(self) -> int | None:
        return self.family.horizon(self.inner)

    @functools.cached_property
    def same(self) -> bool:
        """Return whether all agents have as many actions."""
        return len({self.size(action) for action in self.actions}) == 1

    @property
    def action_space(self) -> spaces.Space[Any]:
        if hasattr(self.actions[0], "n"):
            return spaces.Discrete(max(map(self.size, self.actions)))
        return self.boxes[0]

    @functools.cached_property
    def boxes(self) -> tuple[spaces.Box, list[Own]]:
        """Return the box of continuous actions that all agents share, and each agent's own part of it."""

        def flat(space: Any) -> spaces.Box:
            low, high = (np.broadcast_to(np.asarray(x, np.float32), space.shape) for x in (space.low, space.high))
            return spaces.Box(low, high, dtype=np.float32)

        return shared_box([flat(space) for space in self.actions])

    @functools.cached_property
    def observation_space(self) -> spaces.Space[Any]:
        shown = jax.eval_shape(self.reset, jax.random.PRNGKey(0))[1]
        if self.num_agents == 1:
            return spaces.Box(-np.inf, np.inf, shown.shape, np.float32)
        shapes = {name: x.shape[1:] for name, x in shown.items()}
        parts: dict[str, spaces.Space[Any]] = {
            name: spaces.Box(-np.inf, np.inf, shapes[name], np.float32) for name in ("observation", STATE)
        }
        if MASK in shapes:
            parts[MASK] = spaces.MultiBinary(shapes[MASK])
        if PRESENT in shapes:
            parts[PRESENT] = PRESENCE
        return spaces.Dict(parts)

    def reset(self, key: Key[Array, ""]) -> tuple[MARLState, PyTree[Array]]:
        seen, inner = self.inner.reset(key)
        gone = jnp.zeros(self.num_agents, bool)
        return MARLState(foreign.strong(inner), gone), self.show(seen, inner, gone)

    def step(self, state: MARLState, action: Array, key: Key[Array, ""]) -> tuple[MARLState, Step]:
        agents = self.inner.agents
        action = action[None] if self.num_agents == 1 else action
        taken = {name: self.cut(agent, action[agent]) for agent, name in enumerate(agents)}
        seen, inner, rewards, dones, _ = self.inner.step_env(key, state.inner, taken)
        reward = jnp.stack([jnp.asarray(rewards[agent], jnp.float32).reshape(()) for agent in agents])
        over = jnp.asarray(dones["__all__"]).astype(bool).reshape(())
        done = jnp.stack([jnp.asarray(dones[agent]).astype(bool).reshape(()) for agent in agents])
        ended = (done | over) if self.family.leaves else jnp.broadcast_to(over, done.shape)
        truncated = ended & self.family.out_of_time(self.inner, inner, reward) & ~state.gone
        terminated = ended & ~truncated | state.gone
        shown = self.show(seen, inner, done | terminated)
        step = Step(shown, jnp.where(state.gone, 0.0, reward), terminated, truncated, {})
        return MARLState(foreign.strong(inner), terminated), step if self.num_agents > 1 else step._replace(
            reward=reward[0], terminated=terminated[0], truncated=truncated[0]
        )

    def cut(self, agent: int, action: Array) -> Array:
        """Return an agent's own part of an action that all share."""
        space = self.actions[agent]
        return jnp.minimum(action, space.n - 1) if hasattr(space, "n") else self.boxes[1][agent](action)

    def show(self, seen: dict[str, Array], inner: Any, absent: Bool[Array, " agent"]) -> PyTree[Array]:
        """Return the agents' observations, with leaves `agent ...`; for a single agent, its observation alone."""
        number, agents = self.num_agents, self.inner.agents
        one = [jnp.asarray(seen[agent], jnp.float32) for agent in agents]
        if one[0].ndim == 1:
            widest = max(o.size for o in one)
            one = [jnp.pad(o, (0, widest - o.size)) for o in one]
        observation = jnp.stack(one)
        if number == 1:
            return observation[0]
        world = seen.get("world_state")
        if world is None:
            together = jnp.moveaxis(observation, 0, -2)  # images side by side in their channels
            world = together.reshape(*together.shape[:-2], -1) if observation.ndim > 2 else observation.reshape(-1)
        world = jnp.broadcast_to(jnp.asarray(world, jnp.float32), (number, *world.shape))
        shown = {
            "observation": append_identity(observation) if self.identity else observation,
            STATE: append_identity(world),
        }
        mask = self.mask(inner)
        if mask is not None:
            shown[MASK] = mask
        if self.family.leaves or self.family.falls or self.family.waits:
            waits = False if self.family.waits is None else self.family.waits(self.inner, inner)
            shown[PRESENT] = jnp.where(absent, -1 if self.family.leaves else 0, jnp.where(waits, 0, 1)).astype(jnp.int8)
        return shown

    def mask(self, inner: Any) -> Int[Array, "agent action"] | None:
        """Return the mask of allowed actions; `None` if all are allowed."""
        if self.family.mask:
            allowed = getattr(self.inner, self.family.mask)(inner)
            allowed = jnp.stack([allowed[agent] for agent in self.inner.agents]).astype(jnp.int8)
            # One that is gone has nothing to choose, and a policy needs something to choose from.
            return jnp.where(allowed.any(1, keepdims=True), allowed, 1).astype(jnp.int8)
        if self.same or not hasattr(self.actions[0], "n"):
            return None
        most = max(map(self.size, self.actions))
        return jnp.asarray(np.arange(most) < np.array([[space.n] for space in self.actions]), jnp.int8)

    def render(self, state: MARLState) -> UInt8[np.ndarray, "height width 3"]:
        try:
            return self.picture(state)
        except NotImplementedError:
            raise
        except Exception as error:  # the library's visualisers have faults of their own, each of its own kind
            raise ForageError(
                f"jaxmarl:{self.id} cannot be drawn: the library's visualiser said {type(error).__name__}: {error}."
            ) from error

    def picture(self, state: MARLState) -> UInt8[np.ndarray, "height width 3"]:
        """Return the picture of the library's own visualiser. Raise `NotImplementedError` if it has none."""
        inner = foreign.single(state.inner)
        if self.family.name == "overcooked":
            from jaxmarl.viz.overcooked_visualizer import TILE_PIXELS, OvercookedVisualizer

            edge = self.inner.agent_view_size - 2  # walls around the kitchen that only fill the view
            kitchen = inner.maze_map[edge:-edge, edge:-edge]
            turned, held = inner.agent_dir_idx, inner.agent_inv
            return np.asarray(
                OvercookedVisualizer._render_grid(
                    kitchen, tile_size=TILE_PIXELS, highlight_mask=None, agent_dir_idx=turned, agent_inv=held
                )
            )
        if self.family.name == "overcooked_v2":
            from jaxmarl.viz.overcooked_v2_visualizer import OvercookedV2Visualizer

            return np.asarray(OvercookedV2Visualizer()._render_state(state.inner), np.uint8)
        if self.family.name == "SMAX":
            from jaxmarl.viz.visualizer import SMAXVisualizer

            units = getattr(self.inner, "all_agents", self.inner.agents)
            still = {unit: np.int32(4) for unit in units}
            figure = SMAXVisualizer(self.inner, [(None, getattr(inner, "state", inner), still)])
            figure.init()
        elif self.family.name == "MPE":
            from jaxmarl.environments.mpe.mpe_visualizer import MPEVisualizer

            with contextlib.redirect_stdout(io.StringIO()):
                figure = MPEVisualizer(self.inner, [inner])
        else:
            raise NotImplementedError  # the library draws no others
        return foreign.figure_picture(figure.fig)


def append_identity(x: Float[Array, "agent ..."]) -> Float[Array, "agent ..."]:
    """Append each agent's number, one-hot, as entries of a vector or as channels of an image."""
    number = x.shape[0]
    one_hot = jnp.eye(number, dtype=x.dtype).reshape(number, *(1,) * (x.ndim - 2), number)
    return jnp.concatenate([x, jnp.broadcast_to(one_hot, (*x.shape[:-1], number))], -1)
