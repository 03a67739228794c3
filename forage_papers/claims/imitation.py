"""Demonstrations and environments of claims about imitation."""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree, UInt8

from forage.config.resolve import resolve
from forage.core.types import Step
from forage.data import files
from forage.data.logged import EPISODE_FIELDS, Transitions
from forage.environments.classic.pendulum import Pendulum
from forage.environments.grid.maze import DrawnMaze
from forage.environments.wrappers.base import WrapperState
from forage.environments.wrappers.motion import Motion, record_clip
from forage.studies.claims.played import FOLDER, balance, episodes, play_rule, swing_up
from forage_papers.agents.offline.procedure_cloning import breadth_first, scene

FRAMES = 120


class FollowedMotion(Motion):
    """A motion whose score is its tracking."""

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        state, step = super().step(state, action, key)
        return state, step._replace(reward=step.info["tracking"])


def followed_pendulum() -> FollowedMotion:
    """Return the pendulum with the clip of its swing up, recorded if it is missing."""
    file = FOLDER / "swing-up-motion.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        record_clip(Pendulum(), swing_up, file, FRAMES)
    return FollowedMotion(Pendulum(), str(file), (0, 1), (2,), least=0.3)


@functools.cache
def thinned_balance(every: int) -> str:
    """Return the file of every n-th transition of one episode of balancing CartPole-v1; write it if it is missing."""
    whole = Path(play_rule("CartPole-v1", balance, (0.0,)))
    file = whole.with_name(f"{whole.stem}-every-{every}.npz")
    if not file.exists():
        logged, about = files.read_data(whole)
        kept = select_transitions(logged, np.arange(0, len(logged.reward), every))
        files.write_data(file, kept, about)
    return str(file)


def select_transitions(logged: Transitions, rows: Int[np.ndarray, " row"]) -> Transitions:
    """Return some transitions, each as an episode of its own that was not recorded as a whole."""
    fields = {name: jax.tree.map(lambda x: x[rows], getattr(logged, name)) for name in EPISODE_FIELDS}
    single = np.ones(len(rows), bool)
    return Transitions(**fields | {"truncated": ~fields["terminated"]}, cut=single, start=~single)


def drive(observation: Float[Array, "observation=6"]) -> Array:
    """Turn the elbow of Acrobot-v1 in its direction of motion, which always adds energy: 0 is back, 2 forth."""
    return jnp.where(observation[5] < 0, 0, 2).astype(jnp.int32)


def swing_up_expert(observation: Array, key: Key[Array, ""]) -> Array:
    """Swing Pendulum-v1 up as the rule does."""
    return swing_up(observation)


def mazes() -> DrawnMaze:
    """Return mazes of 7 by 7 cells, another one in each episode."""
    return DrawnMaze(size=7, count=8, observe=("full",))


def walk(observation: UInt8[Array, "width height 3"]) -> Array:
    """Take the shortest way to the goal."""
    seen = scene(observation)
    found = breadth_first(seen, 40, 7)
    return jnp.where(seen.agent, found.plans[found.length], 0).sum().astype(jnp.int32)


def shortest_ways() -> str:
    """Return the file of the shortest ways through a hundred mazes; write it if it is missing."""
    file = FOLDER / "ways.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        spec = resolve("ppo", mazes(), seeds=1).config()["spec"]
        files.write_data(file, episodes(mazes(), walk, (0.0,) * 100, 0), {"spec": spec})
    return str(file)
