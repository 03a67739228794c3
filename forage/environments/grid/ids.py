"""The ids of the grid worlds, as the catalogue lists them. Names are the `minigrid` package's, without its prefix."""

from __future__ import annotations

from typing import Any

from forage.environments.entry import Entry


def _rows() -> dict[str, Entry]:
    rows: dict[str, Entry] = {}

    def add(name: str, target: str, description: str, **fields: Any) -> None:
        rows[f"grid:{name}"] = Entry(f"grid.{target}", f"MiniGrid: {description}", fields)

    for size in (5, 6, 8, 16):
        add(f"Empty-{size}x{size}", "empty:Empty", "walk to the corner of an empty room.", size=size)
    for size in (5, 6):
        what = "walk to the corner of an empty room, from anywhere."
        add(f"Empty-Random-{size}x{size}", "empty:Empty", what, size=size, random_start=True)
    add("FourRooms", "empty:FourRooms", "four rooms; the goal is in any.")
    for size in (5, 6, 8, 16):
        add(f"DoorKey-{size}x{size}", "doors:DoorKey", "find the key, open the door, reach the goal.", size=size)
    chains = (("N2-S4", 2, 4), ("N4-S5", 4, 5), ("N4-S5-v0", 6, 5), ("N6", 6, 10), ("N7-S8", 7, 8))
    for name, rooms, largest in chains:
        what = f"a chain of {rooms} rooms; reward is at its end."
        add(f"MultiRoom-{name}", "multi_room:MultiRoom", what, rooms=rooms, largest=largest)
    for size, count in ((3, 1), (3, 2), (3, 3), (4, 3), (5, 3), (6, 3)):
        what = "search rooms for a key, and a locked one for a ball."
        add(f"KeyCorridor-S{size}R{count}", "key_corridor:KeyCorridor", what, room_size=size, rows=count)
    _add_obstructed(add)
    add("Unlock", "unlock:Unlock", "find the key and open the door.")
    add("UnlockPickup", "unlock:UnlockPickup", "pick up the box behind the locked door.")
    what = "pick up the box behind the locked door, which a ball blocks."
    add("BlockedUnlockPickup", "unlock:UnlockPickup", what, blocked=True)
    for size in (5, 6, 7):
        add(f"LavaGap-S{size}", "empty:LavaGap", "pass the gap in a strip of lava.", size=size)
    what = "walk to the goal through lava, which costs, or around it."
    rows["grid:LavaToll-S5"] = Entry("grid.lava_toll:LavaToll", f"In MiniGrid's world: {what}")
    for start in ("", "Random-"):
        for size, count in ((5, 2), (6, 3)) if start else ((5, 2), (6, 3), (8, 4), (16, 8)):
            fields = {"size": size, "obstacles": count, "random_start": bool(start)}
            what = f"reach the goal between {count} moving balls."
            add(f"DynamicObstacles-{start}{size}x{size}", "dynamic_obstacles:DynamicObstacles", what, **fields)
    for size, end in ((7, ""), (9, ""), (11, ""), (13, ""), (13, "Random"), (17, "Random")):
        what = "remember an object and choose the one like it."
        add(f"Memory-S{size}{end}", "memory:Memory", what, size=size, random_length=bool(end))
    for size in (5, 6, 8):
        add(f"GoToDoor-{size}x{size}", "doors:GoToDoor", "go to the door that the mission names.", size=size)
    for size in (6, 8):
        add(f"RedBlueDoors-{size}x{size}", "doors:RedBlueDoors", "open the red door, then the blue one.", size=size)
    rows["grid:Maze-13x13"] = Entry(
        "grid.maze:Maze", "A maze whose walls, start and goal are fields, for curricula of levels."
    )
    return rows


def _add_obstructed(add: Any) -> None:
    target, what = "obstructed_maze:ObstructedMaze", "find a ball past locked doors, boxes and obstacles."
    for name, hidden, blocked in (("l", False, False), ("lh", True, False), ("lhb", True, True)):
        kinds = {"hidden": hidden, "blocked": blocked}
        one = {"quarters": 0, "agent_room": (0, 0), "rooms_visited": 2}
        add(f"ObstructedMaze-1D{name}", target, what, **kinds, **one)
        two = {"quarters": 1, "agent_room": (2, 1), "rooms_visited": 4}
        add(f"ObstructedMaze-2D{name}", target, what, **kinds, **two)
        if blocked:
            add(f"ObstructedMaze-2D{name}-v0", target, what, **kinds, **two, keys_last=False)
    for version, last in (("", True), ("-v0", False)):
        one = {"quarters": 1, "agent_room": (1, 1), "rooms_visited": 5}
        add(f"ObstructedMaze-1Q{version}", target, what, **one, keys_last=last)
        two = {"quarters": 2, "agent_room": (2, 1), "rooms_visited": 11}
        add(f"ObstructedMaze-2Q{version}", target, what, **two, keys_last=last)
        add(f"ObstructedMaze-Full{version}", target, what, keys_last=last)


ENTRIES: dict[str, Entry] = _rows()
