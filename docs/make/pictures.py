"""Draws the pictures of the pages on environments.

    python docs/make/pictures.py [grid probes classic minatar gymnax ...]

`grid` and `probes` are single pictures of native environments some steps into an episode. Every other name is a suite,
drawn as one sheet with a tile for each of its environments; the libraries' own renderers draw theirs. MuJoCo draws
without a display where MUJOCO_GL is egl or osmesa and that library is installed.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from forage.core import prng
from forage.core.types import ForageError
from forage.environments import HostFactory, make
from forage.environments.catalogue import NATIVE, SUITES
from forage.environments.registry import list_environments

PAGES = Path(__file__).parents[1] / "environments"

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

PROBES: dict[str, tuple[str, list[float | list[float]]]] = {
    "memory/tmaze": ("memory:TMaze-10", [0] * 4),
    "memory/tmaze-active": ("memory:TMazeActive-10", [2, 0, 0, 0]),
    "memory/repeat-previous": ("memory:RepeatPreviousMedium", [0] * 60),
    "memory/autoencode": ("memory:AutoencodeEasy", [0] * 70),
    "memory/umbrella": ("memory:Umbrella-10", [1] * 4),
    "memory/memory-chain": ("memory:MemorySize-10", [0] * 3),
    "memory/discounting-chain": ("memory:Discounting", [3] * 8),
    "memory/key-to-door": ("memory:KeyToDoor", [0, 3, 0, 2] * 5),
    "tabular/river-swim": ("tabular:RiverSwim-6", [1] * 40),
    "tabular/chain": ("tabular:Chain-5", [0] * 20),
    "tabular/garnet": ("tabular:Garnet-20", [0] * 30),  # drawn smaller, see OPTIONS
    "tabular/frozen-lake": ("tabular:FrozenLake-4", [2]),
    "tabular/grid-world": ("tabular:GridWorld-3x4", [2, 2]),
    "maze/umaze": ("maze:UMaze", [[0.6, 0.3]] * 20),
    "maze/medium": ("maze:Medium", [[0.6, 0.3]] * 20),
    "maze/large": ("maze:Large", [[0.6, 0.3]] * 20),
    "maze/corridor": ("maze:Corridor", [[0.6, 0.3]] * 40),
}
"""A picture of each probe: the environment, and the actions of the first steps, after which it is drawn."""

OPTIONS: dict[str, dict[str, int]] = {"tabular:Garnet-20": {"states": 10, "actions": 2, "branching": 2}}

TILE, CAPTION, COLUMNS = 128, 14, 6
LEFT_OUT = ("ALE/", "phys2d/", "tabular/", "GymV")
"""Of Gymnasium: a hundred games that look like themselves, and what is drawn under another id."""
SAME = ("Dense", "Sparse", "_Diverse", "Boolean", "Continuous")
"""Of Gymnasium-Robotics: what looks like another id, from which only the reward, the goals or the touch differ."""


def grid() -> None:
    """A level of each family of grid worlds, some steps into a way through it."""
    from forage.environments.grid.core import GridWorld
    from forage.environments.grid.maze import draw_walls
    from forage.environments.grid.solve import solve

    for name, id in GRID.items():
        environment = make(f"grid:{id}", **({"walls": draw_walls(prng.key(6), 13, 13, 60)} if name == "Maze" else {}))
        assert isinstance(environment, GridWorld)
        state, _ = environment.reset(prng.key(4))
        plan = solve(environment, state) or []
        for action in plan[: len(plan) // 2]:
            state, _ = environment.step(state, jnp.int32(action), prng.key(0))
        save(PAGES / "grid" / f"{name}.png", Image.fromarray(environment.render(state)))


def probes() -> None:
    """The memory and credit probes, the tabular MDPs and the mazes."""
    for path, (name, actions) in PROBES.items():
        environment: Any = make(name, **OPTIONS.get(name, {}))
        state, _ = environment.reset(jax.random.key(3))
        step = jax.jit(lambda state, action, key, env=environment: env.step(state, action, key)[0])
        for time, action in enumerate(actions):
            state = step(state, jnp.asarray(action), jax.random.key(time))
        save(PAGES / f"{path}.png", Image.fromarray(np.asarray(environment.render(state))))


def sheet(name: str) -> None:
    """One tile for each environment of a suite that can be drawn; the others are named."""
    if name == "classic":
        ids = [id for id in NATIVE if ":" not in id and id != "CartPole-v0"]
    elif name in SUITES:
        ids = [row.id for row in list_environments() if row.kind == name]
        ids = [id for id in ids if not id.partition(":")[2].startswith(LEFT_OUT)]
        if name == "robotics":
            newest = {re.sub(r"-v\d+$", "", id): id for id in sorted(ids) if not any(word in id for word in SAME)}
            ids = list(newest.values())
    else:
        ids = [id for id in NATIVE if id.startswith(f"{name}:")]
    tiles, blank = [], []
    for id in ids:
        try:
            tiles.append((id, drawn(id.replace("-N", "-10"))))
        except (ForageError, NotImplementedError) as error:
            blank.append(id)
            print(f"  {id}: {error or 'no renderer'}", flush=True)
    if not tiles:
        print(f"{name}: nothing here can be drawn")
        return
    rows = -(-len(tiles) // COLUMNS)
    columns = min(COLUMNS, len(tiles))
    whole = Image.new("RGB", (columns * (TILE + 6) + 6, rows * (TILE + CAPTION + 6) + 6), "white")
    pen, font = ImageDraw.Draw(whole), ImageFont.load_default(size=9)
    for index, (id, tile) in enumerate(tiles):
        x, y = 6 + index % COLUMNS * (TILE + 6), 6 + index // COLUMNS * (TILE + CAPTION + 6)
        whole.paste(tile, (x + (TILE - tile.width) // 2, y + (TILE - tile.height) // 2))
        caption = id.partition(":")[2] or id
        pen.text((x, y + TILE + 2), caption[:26], fill="black", font=font)
    save(PAGES / f"{name}.png", whole, colours=128)
    print(f"{name}: {len(tiles)} drawn, {len(blank)} not")


def drawn(id: str) -> Image.Image:
    """A small picture of an environment at the start of an episode."""
    environment = make(id)
    if isinstance(environment, HostFactory):
        batch = environment.build(1)
        try:
            batch.reset(1)
            picture = batch.render()
        finally:
            batch.close()
    else:
        state, _ = jax.jit(lambda key: environment.reset(key))(jax.random.key(1))
        picture = environment.render(state)
    image = Image.fromarray(np.asarray(picture)).convert("RGB")
    small = min(image.size) < TILE // 2
    image.thumbnail((TILE, TILE), Image.Resampling.LANCZOS)
    if small:  # pixels of tiny games stay pixels
        scale = max(1, TILE // max(image.size))
        image = image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST)
    return image


def save(path: Path, image: Image.Image, colours: int = 48) -> None:
    """Writes a picture in few colours, which such pictures have anyway."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path.relative_to(PAGES)}: {path.stat().st_size / 1000:.1f} kB", flush=True)


def main() -> None:
    warnings.filterwarnings("ignore")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame draws without a display
    known = ["grid", "probes", "classic", "minatar", *SUITES]
    names = sys.argv[1:] or known
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"There are no pictures of {unknown[0]}; {', '.join(known)} can be drawn.")
    for name in names:
        {"grid": grid, "probes": probes}.get(name, lambda name=name: sheet(name))()


if __name__ == "__main__":
    main()
