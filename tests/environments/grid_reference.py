"""The `minigrid` package's environments as a reference: its state converted to Forage's, and recorded play.

It also draws Forage's levels in bulk.
"""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from forage.core import prng
from forage.environments.grid.cells import EMPTY, GOAL, HOLDS, LAVA, WALL, box_with, decode
from forage.environments.grid.core import GridState, GridWorld, Level
from forage.environments.grid.solve import STEPS, solve


def package_id(id: str) -> str:
    """The package's name of one of our environments."""
    name = id.removeprefix("grid:").replace("DynamicObstacles", "Dynamic-Obstacles")
    for family in ("KeyCorridor", "LavaGap", "Memory"):
        name = name.replace(f"{family}-", family)
    if name.startswith("MultiRoom-N4-S5"):
        return f"MiniGrid-{name}" if name.endswith("-v0") else f"MiniGrid-{name}-v1"
    version = "-v1" if name.removeprefix("ObstructedMaze-") in ("2Dlhb", "1Q", "2Q", "Full") else "-v0"
    return f"MiniGrid-{name.removesuffix('-v0')}{version}"


def package_make(id: str, **options: Any) -> Any:
    import minigrid  # noqa: F401  # registers its ids

    if id == "grid:MultiRoom-N7-S8":  # a name that papers use, not one of the package's
        from minigrid.envs import MultiRoomEnv

        return MultiRoomEnv(minNumRooms=7, maxNumRooms=7, maxRoomSize=8, **options)
    return gymnasium.make(package_id(id), disable_env_checker=True, **options).unwrapped


def byte_of(thing: Any) -> int:
    """Our cell of one of the package's objects."""
    if thing is None:
        return EMPTY
    plain = plain_byte(thing.encode())
    if thing.type == "box" and thing.contains is not None:
        return int(box_with(plain >> 4, byte_of(thing.contains)))
    return plain


@functools.cache
def plain_byte(triple: tuple[int, int, int]) -> int:
    return int(decode(np.array(triple)))


def state_of(env: Any, num_places: int) -> GridState:
    """Convert the package's state to our own, including the places that its rules refer to."""
    grid = np.array([byte_of(thing) for thing in env.grid.grid], np.uint8).reshape(env.height, env.width)
    target, places = 0, []
    if hasattr(env, "obj"):
        target = byte_of(env.obj)
    if hasattr(env, "target_color"):
        target, places = byte_of(env.grid.get(*env.target_pos)), [env.target_pos]
    elif hasattr(env, "success_pos"):
        places = [env.success_pos, env.failure_pos]
    elif hasattr(env, "red_door"):
        places = [position_of(env, env.red_door), position_of(env, env.blue_door)]
    elif hasattr(env, "door"):
        places = [position_of(env, env.door)]
    elif hasattr(env, "obstacles"):
        places = [ball.cur_pos for ball in env.obstacles]
    assert len(places) == num_places
    x, y = env.agent_pos
    return GridState(
        grid,
        np.int32(x),
        np.int32(y),
        np.int32(env.agent_dir),
        np.uint8(byte_of(env.carrying)),
        np.uint8(target),
        np.array([y * env.width + x for x, y in places], np.int32).reshape(num_places),
        np.int32(env.step_count),
    )


def position_of(env: Any, thing: Any) -> tuple[int, int]:
    index = next(index for index, other in enumerate(env.grid.grid) if other is thing)
    return index % env.width, index // env.width


class Recorder:
    """Records, for each moved ball of DynamicObstacles, the index of its new cell among the free neighbours."""

    def __init__(self, env: Any):
        self.env, self.place, self.uniforms = env, env.place_obj, []
        env.place_obj = self

    def __call__(self, thing: Any, top: Any = None, size: Any = None, **options: Any) -> Any:
        env, free = self.env, []
        if top is not None:
            cells = [(top[0] + dx, top[1] + dy) for dy in range(3) for dx in range(3)]
            free = [at for at in cells if env.grid.get(*at) is None and at != tuple(env.agent_pos)]
        self.uniforms.append(0.0)
        place = self.place(thing, top, size, **options)
        if free:
            self.uniforms[-1] = (free.index(tuple(int(v) for v in place)) + 0.5) / len(free)
        return place


class Player:
    """Plays at random, or by a plan with random detours to interact with objects: one of the two for each episode."""

    def __init__(self, environment: GridWorld, seed: int):
        self.environment, self.random = environment, np.random.RandomState(seed)
        self.plan: list[int] | None = None

    def begin(self) -> None:
        self.straying, self.meddling = ((1.0, 0.0), (0.1, 0.5), (0.02, 0.2), (0.0, 0.0))[self.random.randint(4)]
        self.plan = None

    def __call__(self, state: GridState) -> int:
        right, down = STEPS[int(state.direction)]
        front = int(state.grid[(state.y + down) % state.grid.shape[0], (state.x + right) % state.grid.shape[1]])
        if front & 0x8F not in (EMPTY, WALL, GOAL, LAVA) and self.random.rand() < self.meddling:
            self.plan = None
            return int(self.random.choice([3, 5, 5]))
        if self.random.rand() < self.straying:
            self.plan = None
            return int(self.random.choice([0, 1, 2, 2, 3, 4, 5, 5, 6]))
        if not self.plan:
            self.plan = solve(self.environment, state) or [int(self.random.randint(7))]
        return self.plan.pop(0)


def record(id: str, environment: GridWorld, steps: int, seed: int, **options: Any) -> dict[str, Any]:
    """Plays episodes of the package, and notes all there is to compare, states before and after among it."""
    env, player = package_make(id, **options), Player(environment, seed)
    recorder = Recorder(env) if environment.num_places and "Obstacles" in id else None
    rows: list[dict[str, Any]] = []
    start = True
    for _ in range(steps):
        if start:
            first, _ = env.reset(seed=int(player.random.randint(2**31)))
            player.begin()
            before = opening = state_of(env, environment.num_places)
        if recorder:
            recorder.uniforms = []
        action, carried = player(before), env.carrying
        observation, reward, terminated, truncated, _ = env.step(action)
        # What the rules refer to is fixed as the episode begins, but for the places of moving balls.
        after = state_of(env, environment.num_places)._replace(target=opening.target)
        rows.append(
            {
                "before": before,
                "first": first["image"],
                "action": np.int32(action),
                "draws": np.array(recorder.uniforms, np.float32) if recorder else (),
                "after": after,
                "image": observation["image"],
                "full": full(env),
                "direction": np.int32(observation["direction"]),
                "mission": observation["mission"],
                "reward": np.float32(reward),
                "terminated": bool(terminated),
                "truncated": bool(truncated),
                "start": start,
                "event": event(action, carried, env.carrying, before.grid, after.grid),
            }
        )
        start, before = terminated or truncated, after
    return {key: stack([row[key] for row in rows]) for key in rows[0]}


def event(action: int, held: Any, holds: Any, before: np.ndarray, after: np.ndarray) -> str:
    """Return the kind of event in a step, so that a test can check that it occurred."""
    if held is not holds:
        return "pickup" if holds is not None else "drop"
    if action == 5 and not np.array_equal(before, after):
        kind = int(before[before != after][0]) & 0x8F
        return {12: "unlock", 4: "toggle", 11: "toggle"}.get(kind, "box")
    return ""


def full(env: Any) -> np.ndarray:
    """Return the image of the package's FullyObsWrapper."""
    grid = env.grid.encode()
    grid[env.agent_pos[0]][env.agent_pos[1]] = np.array([10, 0, env.agent_dir])
    return grid


def stack(rows: list[Any]) -> Any:
    if isinstance(rows[0], str):
        return rows
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)


def draw(environment: GridWorld, number: int, seed: int = 0) -> Level:
    keys = jax.random.split(prng.key(seed), number)
    return jax.device_get(jax.jit(jax.vmap(environment.generate))(keys))


def one(levels: Level, number: Any) -> Level:
    return jax.tree.map(
        lambda leaf: jnp.asarray(leaf)[number] if isinstance(number, jax.Array) else leaf[number], levels
    )


def count(levels: Level, *kinds: int) -> np.ndarray:
    return np.isin(levels.grid & (HOLDS | 15), kinds).sum((1, 2))
