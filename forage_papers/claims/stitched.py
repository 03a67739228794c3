"""Goals that other episodes reached let cloning go ways that none of the data went: Ghugare and others (2024)."""

from __future__ import annotations

import functools
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.config.setup import make_setup
from forage.data import files
from forage.data.logged import EPISODE_FIELDS, Transitions
from forage.environments.maze.point import PointMass
from forage.environments.wrappers.goals import GoalConditioned
from forage.studies.claims.claim import SEEDS, Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import FOLDER, episodes
from forage_papers.memory.stitched import Stitched

MAZE = ("########", "#.....##", "#####.##", "#......#", "#####.##", "#####.##", "########")
WEST, EAST, SOUTH, HIGH = (3, 1), (3, 6), (5, 5), (1, 1)  # rows and columns of ends of the ways
JUNCTION = 1.5  # m to the right of the middle, in the middle row
SPEED = 3.0  # m/s, of who walked the ways
SMALL: dict[str, Any] = {"hidden_sizes": (128, 128), "batch_size": 128, "learning_rate": 1e-3}


def maze(start: tuple[int, int], goal: tuple[int, int]) -> GoalConditioned:
    """Return a maze in which two ways cross, to be walked from one cell to another."""
    walls = np.array([[letter == "#" for letter in row] for row in MAZE])
    starts, goals = np.zeros_like(walls), np.zeros_like(walls)
    starts[start] = goals[goal] = True
    return GoalConditioned(PointMass(walls, starts, goals, max_steps=600), on_success="end")


def walk(observation: Mapping[str, Array]) -> Float[Array, "2"]:
    """Go east along the middle row where the goal lies there; else up from the junction, and west in the top row."""
    place, velocity = observation["observation"][:2], observation["observation"][2:]
    x, y = place
    along = jnp.array([1.0, -2.0 * y])
    up, west = jnp.array([2.0 * (JUNCTION - x), 1.0]), jnp.array([-1.0, 2.0 * (2.0 - y)])
    wanted = jnp.where(observation["desired_goal"][1] < 1.0, along, jnp.where(y < 1.9, up, west))
    return jnp.clip(SPEED * wanted - velocity, -1.0, 1.0)


@functools.cache
def walked(shares: Sequence[float]) -> str:
    """Return the file of episodes from west to east and from south to the top row; none goes from west to the top."""
    told = "".join(inspect.getsource(one) for one in (maze, walk)) + str((MAZE, shares, SPEED))
    file = FOLDER / f"crossing-{hashlib.sha256(told.encode()).hexdigest()[:8]}.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        ways = [
            episodes(maze(*ends), walk, shares, seed)  # pyrefly: ignore[bad-argument-type]
            for seed, ends in enumerate(((WEST, EAST), (SOUTH, HIGH)))
        ]
        files.write(file, joined(ways), {"spec": make_setup("ppo", maze(WEST, HIGH), seeds=1).config()["spec"]})
    return str(file)


def joined(ways: Sequence[Transitions]) -> Transitions:
    """Return episodes one after another."""
    return Transitions(
        **{
            name: jax.tree.map(lambda *x: np.concatenate(x), *(getattr(way, name) for way in ways))
            for name in EPISODE_FIELDS
        }
    )


def data(stitch: float) -> dict[str, Any]:
    return {"memory": Stitched(walked((0.2,) * 20), stitch=stitch, clusters=20)}


CLAIM = Claim(
    title="Closing the Gap between TD Learning and Supervised Learning - A Generalisation Point of View",
    authors="Ghugare, Geist, Berseth, Eysenbach",
    year=2024,
    arxiv="2401.11237",
    statement="Goal-conditioned behaviour cloning reaches a goal from where no episode of the data went to it more "
    "often if it also learns for goals of episodes that pass through states nearby.",
    environment=lambda: maze(WEST, HIGH),
    arms={
        "goals of the own episode": Arm("bc", SMALL, lambda: data(0.0)),
        "stitched goals": Arm("bc", SMALL, lambda: data(0.5)),
    },
    treatment="stitched goals",
    baselines=("goals of the own episode",),
    measure=evaluated,
    measured="share of episodes that reach the goal",
    laptop=Scale(6000, SEEDS[:5]),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:HalfCheetah-v5", 1_000_000, 5, "a GPU and hours", lacks="the paper's data sets of mazes"),
    note="Two ways that cross in one small maze, 20 episodes of each with a fifth of random actions, in place of the "
    "paper's data sets of point and ant mazes; 20 clusters, as its authors have for their smallest maze.",
)
