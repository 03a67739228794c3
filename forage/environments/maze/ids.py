"""The ids of the mazes."""

from __future__ import annotations

from forage.environments.entry import Entry

_MAZES = (
    ("UMaze", 300, "a U"),
    ("Open", 300, "a room without walls"),
    ("Medium", 600, "8 x 8 cells"),
    ("MediumDiverse", 600, "8 x 8 cells, between four far ends"),
    ("Large", 800, "9 x 12 cells"),
    ("LargeDiverse", 800, "9 x 12 cells, between eight far ends"),
    ("Corridor", 800, "a corridor of 20 cells, from end to end"),
)

_VARIANTS = ("UMaze", "Medium", "Large")

ENTRIES: dict[str, Entry] = {
    **{
        f"maze:{name}": Entry(
            "maze.point:point_maze", f"Push a ball to a goal: {what}.", {"layout": name, "max_steps": steps}
        )
        for name, steps, what in _MAZES
    },
    **{
        f"maze:{name}-Dense": Entry(
            "maze.point:point_maze",
            f"Push a ball to a goal, paid for being near: {what}.",
            {"layout": name, "max_steps": steps, "reward": "dense"},
        )
        for name, steps, what in _MAZES
        if name in _VARIANTS
    },
    **{
        f"maze:{name}-Goal": Entry(
            "maze.point:point_maze",
            f"Push a ball to a goal, shown as a GoalEnv's dictionary: {what}.",
            {"layout": name, "max_steps": steps, "flat": False},
        )
        for name, steps, what in _MAZES
        if name in _VARIANTS
    },
}
