"""Cloning an expert's search carries over to layouts that were never seen: Yang and others (2022)."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, UInt8

from forage.config.setup import make_setup
from forage.data import files
from forage.environments.grid.maze import DrawnMaze
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import FOLDER, episodes
from forage_papers.agents.offline.procedure_cloning import scene, search


def mazes() -> DrawnMaze:
    """Return mazes of 7 by 7 cells, another one in each episode."""
    return DrawnMaze(size=7, count=8, observe=("full",))


def walk(observation: UInt8[Array, "width height 3"]) -> Array:
    """Go the shortest way to the goal."""
    seen = scene(observation)
    found = search(seen, 40, 7)
    return jnp.where(seen.agent, found.plans[found.length], 0).sum().astype(jnp.int32)


def ways() -> str:
    """Return the file of the shortest ways through a hundred mazes; write it where it is not there."""
    file = FOLDER / "ways.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        spec = make_setup("ppo", mazes(), seeds=1).config()["spec"]
        files.write(file, episodes(mazes(), walk, (0.0,) * 100, 0), {"spec": spec})
    return str(file)


CLAIM = Claim(
    title="Chain of Thought Imitation with Procedure Cloning",
    authors="Yang, Schuurmans, Abbeel, Nachum",
    year=2022,
    arxiv="2205.10816",
    statement="In mazes that it never saw, an agent that clones the expert's search has higher returns than one that "
    "clones its actions.",
    environment=mazes,
    arms={
        "behaviour cloning": Arm("bc", {"learning_rate": 1e-3}, lambda: {"data": ways()}, steps=900),
        "procedure cloning": Arm(
            "procedure-cloning", {"width": 32, "learning_rate": 1e-3}, lambda: {"data": ways()}, steps=450
        ),
    },
    treatment="procedure cloning",
    baselines=("behaviour cloning",),
    measure=evaluated,
    measured="return",
    laptop=Scale(450, tuple(range(1010, 1015))),
    smoke=Scale(40, (1000, 1001)),
    paper=Paper("a maze of 16 by 16 cells", 500_000, 5, "a GPU and a day", lacks="the maze of dice_rl"),
    note="A hundred mazes of 7 by 7 cells, in which an agent turns and walks, in place of five of 16 by 16. Behaviour "
    "cloning has twice as many updates.",
)
