"""Draws the pictures of the pages on environments: `python docs/pictures.py grid`."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
from PIL import Image

from forage import prng
from forage.environments import make
from forage.environments.grid.core import GridWorld
from forage.environments.grid.solve import solve

PAGES = Path(__file__).parent / "environments"

GRID = {
    "Empty": "Empty-8x8",
    "FourRooms": "FourRooms",
    "DoorKey": "DoorKey-8x8",
    "MultiRoom": "MultiRoom-N7-S8",
    "KeyCorridor": "KeyCorridor-S4R3",
    "ObstructedMaze": "ObstructedMaze-Full",
    "Unlock": "Unlock",
    "UnlockPickup": "UnlockPickup",
    "BlockedUnlockPickup": "BlockedUnlockPickup",
    "LavaGap": "LavaGap-S7",
    "DynamicObstacles": "DynamicObstacles-8x8",
    "Memory": "Memory-S13",
    "GoToDoor": "GoToDoor-8x8",
    "RedBlueDoors": "RedBlueDoors-6x6",
    "Maze": "Maze-13x13",
}
"""A picture of each family, and the id whose level it shows."""


def grid() -> None:
    """A level of each family of grid worlds, some steps into a way through it."""
    for name, id in GRID.items():
        environment = make(f"grid:{id}", **({"walls": maze()} if name == "Maze" else {}))
        assert isinstance(environment, GridWorld)
        state, _ = environment.reset(prng.key(4))
        plan = solve(environment, state) or []
        for action in plan[: len(plan) // 2]:
            state, _ = environment.step(state, jax.numpy.int32(action), prng.key(0))
        save(PAGES / "grid" / f"{name}.png", environment.render(state))


def maze() -> jax.Array:
    from forage.environments.grid.maze import draw_walls

    return draw_walls(prng.key(6), 13, 13, 60)


def save(path: Path, picture: object) -> None:
    """Writes a picture in few colours, which such pictures have anyway."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(picture)  # pyright: ignore[reportArgumentType]
    image.quantize(48, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size / 1000:.1f} kB")


def main() -> None:
    known = {"grid": grid}
    names = sys.argv[1:] or list(known)
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"There are no pictures of {unknown[0]}; {', '.join(known)} can be drawn.")
    for name in names:
        known[name]()


if __name__ == "__main__":
    main()
