"""Writes the pictures of docs/environments/memory.md, tabular.md and maze.md.

python docs/pictures_probes.py
"""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from PIL import Image

from forage.environments import make

FOLDER = Path(__file__).parent / "environments"

# The environment, and the actions of the first steps, after which the picture is taken.
PICTURES: dict[str, tuple[str, list[float | list[float]]]] = {
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

OPTIONS: dict[str, dict[str, int]] = {"tabular:Garnet-20": {"states": 10, "actions": 2, "branching": 2}}


def picture(name: str, actions: list[float | list[float]], seed: int = 3) -> Image.Image:
    """The environment after these actions, in as few colours as it takes."""
    env = make(name, **OPTIONS.get(name, {}))
    state, _ = env.reset(jax.random.key(seed))
    step = jax.jit(lambda state, action, key: env.step(state, action, key)[0])
    for time, action in enumerate(actions):
        state = step(state, jnp.asarray(action), jax.random.key(time))
    return Image.fromarray(np.asarray(env.render(state))).quantize(32)


def main() -> None:
    for path, (name, actions) in PICTURES.items():
        file = FOLDER / f"{path}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        picture(name, actions).save(file, optimize=True)
        print(f"{file.relative_to(FOLDER)}: {file.stat().st_size / 1000:.1f} kB")


if __name__ == "__main__":
    main()
