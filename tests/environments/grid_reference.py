"""The `minigrid` package's environments beside ours: its state as ours, and play recorded for comparison."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium
import jax
import numpy as np

from forage.environments.grid.cells import box_with, decode
from forage.environments.grid.core import GridState

DIRECTIONS = ((1, 0), (0, 1), (-1, 0), (0, -1))


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
        return int(decode(np.array([1, 0, 0])))
    plain = int(decode(np.array(thing.encode())))
    if thing.type == "box" and thing.contains is not None:
        return int(box_with(plain >> 4, byte_of(thing.contains)))
    return plain


def state_of(env: Any, num_places: int) -> GridState:
    """The package's state as ours, its rules' references among it."""
    grid = np.array([byte_of(thing) for thing in env.grid.grid], np.uint8).reshape(env.height, env.width)
    target, places = 0, []
    if hasattr(env, "obj"):
        target = byte_of(env.obj)
    if hasattr(env, "target_color"):
        target, places = byte_of(env.grid.get(*env.target_pos)), [env.target_pos]
    elif hasattr(env, "success_pos"):
        places = [env.success_pos, env.failure_pos]
    elif hasattr(env, "red_door"):
        places = [where(env, env.red_door), where(env, env.blue_door)]
    elif hasattr(env, "door"):
        places = [where(env, env.door)]
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


def where(env: Any, thing: Any) -> tuple[int, int]:
    index = next(index for index, other in enumerate(env.grid.grid) if other is thing)
    return index % env.width, index // env.width


class Recorder:
    """Notes, for each ball that DynamicObstacles moves, which of its free neighbours it went to."""

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


def towards(env: Any, goals: set[tuple[int, int]]) -> int | None:
    """The first action on a shortest way to face one of the cells; None where there is no way or it is in front."""
    start = (*(int(v) for v in env.agent_pos), int(env.agent_dir))
    queue, first = deque([start]), {start: None}
    while queue:
        x, y, direction = at = queue.popleft()
        dx, dy = DIRECTIONS[direction]
        front = (x + dx, y + dy)
        if front in goals:
            return first[at]
        steps = [(0, (x, y, (direction - 1) % 4)), (1, (x, y, (direction + 1) % 4))]
        thing = env.grid.get(*front)
        if thing is None or (thing.can_overlap() and thing.type not in ("lava", "goal")):
            steps.append((2, (*front, direction)))
        for action, to in steps:
            if to not in first:
                first[to] = action if first[at] is None else first[at]
                queue.append(to)
    return None


def purpose(env: Any, random: np.random.RandomState) -> int:
    """An action with a purpose: walk to something that can be used and use it."""
    things = [(thing, index) for index, thing in enumerate(env.grid.grid) if thing is not None]
    uses: dict[tuple[int, int], int] = {}
    for thing, index in things:
        if thing is getattr(env, "obj", None) or (
            thing.type in ("key", "ball", "box") and not env.carrying and random.rand() < 0.5
        ):
            use = 5 if thing.type == "box" and thing.contains and random.rand() < 0.8 else 3
        elif thing.type == "door" and not thing.is_open:
            held = env.carrying
            if thing.is_locked and not (held and held.type == "key" and held.color == thing.color):
                continue
            use = 6 if hasattr(env, "target_color") else 5
        elif thing.type == "goal" or (thing.type == "lava" and random.rand() < 0.1):
            use = 2
        else:
            continue
        uses[index % env.width, index // env.width] = use
    for place in ("success_pos", "failure_pos"):
        if hasattr(env, place) and random.rand() < 0.7:
            uses = {tuple(getattr(env, place)): 2}
    if hasattr(env, "target_pos") and random.rand() < 0.9:
        uses = {tuple(env.target_pos): 6}
    action = towards(env, set(uses))
    if action is not None:
        return action
    front = tuple(int(v) for v in env.front_pos)
    if front in uses:
        return uses[front]
    return int(random.choice([0, 1, 2, 4]))


def record(id: str, num_places: int, steps: int, seed: int, **options: Any) -> dict[str, Any]:
    """Plays the package from the first of each episode to its end, half at random and half with a purpose."""
    env = package_make(id, **options)
    random = np.random.RandomState(seed)
    rows: list[dict[str, Any]] = []
    start, eagerness = True, 0.0
    for _ in range(steps):
        if start:
            observation, _ = env.reset(seed=int(random.randint(2**31)))
            recorder = Recorder(env) if hasattr(env, "obstacles") and not isinstance(env.place_obj, Recorder) else None
            eagerness = random.choice([0.0, 0.7, 0.97])
        if hasattr(env, "obstacles"):
            recorder = env.place_obj
            recorder.uniforms = []
        before = state_of(env, num_places)
        first = observation
        action = purpose(env, random) if random.rand() < eagerness else int(random.randint(7))
        carried, grid = env.carrying, before.grid
        observation, reward, terminated, truncated, _ = env.step(action)
        after = state_of(env, num_places)
        rows.append(
            {
                "before": before,
                "first": first,
                "action": np.int32(action),
                "draws": np.array(recorder.uniforms, np.float32) if hasattr(env, "obstacles") else (),
                "after": after,
                "image": observation["image"],
                "full": full(env),
                "direction": np.int32(observation["direction"]),
                "mission": observation["mission"],
                "reward": np.float32(reward),
                "terminated": bool(terminated),
                "truncated": bool(truncated),
                "start": start,
                "event": event(action, carried, env.carrying, grid, after.grid),
            }
        )
        start = terminated or truncated
    return {key: stack([row[key] for row in rows]) for key in rows[0]}


def event(action: int, held: Any, holds: Any, before: np.ndarray, after: np.ndarray) -> str:
    """What happened, so that a test can see that it did."""
    if held is not holds:
        return "pickup" if holds is not None else "drop"
    if action == 5 and not np.array_equal(before, after):
        kind = int(before[before != after][0]) & 0x8F
        return {12: "unlock", 4: "toggle", 11: "toggle"}.get(kind, "box")
    return ""


def full(env: Any) -> np.ndarray:
    """What the package's FullyObsWrapper shows."""
    grid = env.grid.encode()
    grid[env.agent_pos[0]][env.agent_pos[1]] = np.array([10, 0, env.agent_dir])
    return grid


def stack(rows: list[Any]) -> Any:
    if isinstance(rows[0], (str, dict)):
        return rows
    return jax.tree.map(lambda *leaves: np.stack(leaves), *rows)
