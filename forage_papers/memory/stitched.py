"""Stitched goals: a data set relabelled with goals that other episodes reached."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from forage.core.ports import ActContext, Agent, Environment, Part
from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Experience, ForageError, Spec
from forage.memory.dataset import DataSet, OpenedDataSet
from forage.memory.hindsight import GOALS, check_goals, goal_part, goal_reward_of, leaders, relabel_goals

KINDS = ("observation", "achieved_goal")
CHUNK = 1 << 16  # states whose distances to all centres are computed at once
ROUNDS = 300  # at most, of moving centres


class StitchedGoals(DataSet):
    """The transitions of a file, each with a goal reached later by its own episode or by a crossing one.

    Every drawn transition gets another goal. With probability 1 - `stitch` it is a state reached later in the same
    episode, chosen uniformly. With probability `stitch` such a state w is a place to change episodes: of all states in
    the same one of k-means' `clusters` as w, one is drawn; the goal is a state reached at or after it in its episode,
    chosen uniformly. Behaviour cloning, which copies the actions on the way to its goals, then learns paths that no
    single episode took ("temporal data augmentation"). With `stitch` 0 it is goal-conditioned behaviour cloning on
    hindsight goals alone.

    Rewards and terminations follow from the environment's own `goal_reward`, as in hindsight replay, for agents that
    learn from them. A segment of several transitions has one goal for each episode in it. Clusters are found once, when
    the file is read.

    Source: Ghugare, Geist, Berseth, Eysenbach (2024), "Closing the Gap between TD Learning and Supervised Learning - A
    Generalisation Point of View", arXiv 2401.11237, of which the abstract, and its authors' program, could be looked up
    (`MinariEpisodicDataset` in utils/data.py and train_dmlp.py of
    github.com/RajGhugare19/stitching-is-combinatorial-generalisation, where clusters are of observations for `bc` and
    of achieved goals for sequences). It draws each episode equally often, and a step of it; here each transition is
    drawn equally often, as in any data set. Its `augment_prob` has no default but 0; a half is ours.
    """

    example: ClassVar[str] = "forage train bc maze:UMaze-Goal --memory stitched --memory.file goals.npz --steps 10k"
    own_choices: ClassVar[str] = "a `stitch` of a half"
    ranges: ClassVar[Ranges] = {"stitch": Range(0, 1), "clusters": Range(1)}

    recomputes_rewards: ClassVar[bool] = True
    choices: ClassVar[Choices] = {"near": KINDS}

    stitch: float = 0.5  # share of transitions whose goal may be another episode's; 0: only goals of their own episode
    clusters: int = equinox.field(static=True, default=40)  # groups of states that are told apart: the authors' for the
    # medium maze, with 20 for the U and 80 for the large one; fewer call states near that are far from one another
    near: str = equinox.field(static=True, default="observation")  # what states of one cluster have in common:
    # observation, or achieved_goal alone

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` if there are no goals, or no reward for another goal."""
        super().check(agent, spec, environment)
        check_goals("Stitched relabelling", "use --data FILE", spec, environment)

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> Part:
        """Return the environment's reward for any goal."""
        return goal_reward_of(spec, environment)

    def load(self, spec: Spec) -> OpenedStitchedData:
        """Read the file, and put its states into clusters."""
        data = self.whole(spec)
        seen: Any = goal_part(data.observation)
        if not (isinstance(seen, dict) and set(seen) >= GOALS):
            raise ForageError(
                f"{self.file} has observations without goals, and stitched relabelling gives others; use --data "
                f"{self.file}."
            )
        ended = np.asarray(data.terminated | data.truncated)
        episode = np.concatenate([[0], np.cumsum(ended)[:-1]])
        last = np.append(np.flatnonzero(np.diff(episode)), len(episode) - 1)
        # An episode of n transitions has n + 1 states: what each transition saw, and what the last one led to.
        from_state = np.arange(len(episode)) + episode
        begins = np.append(0, last[:-1] + 1)
        after = goal_part(data.next_observation)

        def states(name: str) -> Float[np.ndarray, "state entries"]:
            leaves = zip(jax.tree.leaves(seen[name]), jax.tree.leaves(after[name]), strict=True)
            parts = []
            for before, following in leaves:
                both = np.empty((len(episode) + len(last), int(np.prod(before.shape[1:]))), np.float32)
                both[from_state[begins]] = np.asarray(before)[begins].reshape(len(last), -1)
                both[from_state + 1] = np.asarray(following).reshape(len(episode), -1)
                parts.append(both)
            return np.concatenate(parts, axis=1)

        label = cluster_points(states(self.near), self.clusters)
        order = np.argsort(label, kind="stable")
        size = np.bincount(label, minlength=int(label.max()) + 1)
        goals = np.asarray(after["achieved_goal"])
        achieved = np.empty((len(label), *goals.shape[1:]), goals.dtype)
        achieved[from_state[begins]] = np.asarray(seen["achieved_goal"])[begins]
        achieved[from_state + 1] = goals
        lasts = (from_state + 1)[last]
        lengths = np.diff(np.append(begins, len(episode))) + 1
        return OpenedStitchedData(
            file=self.file,
            sha256=self.sha256,
            stitch=self.stitch,
            clusters=self.clusters,
            near=self.near,
            data=data,
            achieved=jnp.asarray(achieved),
            state=jnp.asarray(from_state, jnp.int32),
            last=jnp.asarray(np.repeat(lasts, lengths), jnp.int32),
            label=jnp.asarray(label, jnp.int32),
            order=jnp.asarray(order, jnp.int32),
            first=jnp.asarray(np.cumsum(size) - size, jnp.int32),
            size=jnp.asarray(size, jnp.int32),
        )


class OpenedStitchedData(StitchedGoals, OpenedDataSet):
    """A data set with stitched goals after its file was read."""

    data: Any = None  # leaves `transition ...`
    achieved: Float[Array, "state *goal"] = None  # type: ignore[assignment]  # in each state of each episode
    state: Int[Array, " transition"] = None  # type: ignore[assignment]  # that each transition begins in
    last: Int[Array, " state"] = None  # type: ignore[assignment]  # the last state of the same episode
    label: Int[Array, " state"] = None  # type: ignore[assignment]  # its cluster
    order: Int[Array, " state"] = None  # type: ignore[assignment]  # states by cluster
    first: Int[Array, " cluster"] = None  # type: ignore[assignment]  # where a cluster begins in that order
    size: Int[Array, " cluster"] = None  # type: ignore[assignment]  # its states

    def sample(self, state: Part, size: int, length: int, moment: ActContext) -> Batch:
        draw_key, share_key, goal_key = jax.random.split(moment.key, 3)
        batch = OpenedDataSet.sample(self, (), size, length, moment._replace(key=draw_key))
        now = self.state[batch.index + jnp.arange(length)[:, None]]
        stitched = jax.random.uniform(share_key, now.shape) < self.stitch
        goal = self.goals(now, stitched, goal_key)
        # Each episode of a segment takes the goal of its first transition.
        leader = leaders(batch.experience.ended)
        goal = jnp.take_along_axis(goal, leader.reshape(*leader.shape, *(1,) * (goal.ndim - leader.ndim)), axis=0)
        replaced = jnp.ones(now.shape, bool)
        return batch._replace(experience=relabel_goals(batch.experience, goal, replaced, state))

    def goals(self, now: Int[Array, "*shape"], stitched: Array, key: Array) -> Float[Array, "*shape goal"]:
        """Draw a goal for transitions that begin in states `now`, from another episode if `stitched`."""
        way_key, near_key, later_key = jax.random.split(key, 3)
        own = jax.random.randint(way_key, now.shape, now + 1, self.last[now] + 1)
        cluster = self.label[own]
        near = self.order[self.first[cluster] + jax.random.randint(near_key, now.shape, 0, self.size[cluster])]
        later = jax.random.randint(later_key, now.shape, near, self.last[near] + 1)
        return self.achieved[jnp.where(stitched, later, own)]


def cluster_points(points: Float[np.ndarray, "point entries"], count: int, seed: int = 0) -> Int[np.ndarray, " point"]:
    """Return the cluster of each point by k-means (Lloyd, 1982), with centres that begin as k-means++ draws them.

    Where there are fewer points than clusters, or many alike, there are fewer clusters.
    """
    draw = np.random.default_rng(seed)
    points = points.astype(np.float64)

    def distances(centres: Float[np.ndarray, "centre entries"]) -> tuple[np.ndarray, np.ndarray]:
        """Return the nearest centre of each point, and the square of its distance."""
        nearest, far = np.empty(len(points), np.int64), np.empty(len(points))
        for begin in range(0, len(points), CHUNK):
            part = points[begin : begin + CHUNK]
            squares = (part**2).sum(1)[:, None] - 2 * part @ centres.T + (centres**2).sum(1)
            nearest[begin : begin + CHUNK] = squares.argmin(1)
            far[begin : begin + CHUNK] = np.maximum(squares.min(1), 0)
        return nearest, far

    # Centres at first: each point with a chance in proportion to the square of its distance from those before.
    centres = points[draw.integers(len(points))][None]
    far = ((points - centres) ** 2).sum(1)
    while len(centres) < count and far.max() > 0:
        centre = points[draw.choice(len(points), p=far / far.sum())]
        centres = np.concatenate([centres, centre[None]])
        far = np.minimum(far, ((points - centre) ** 2).sum(1))
    label = distances(centres)[0]
    for _ in range(ROUNDS):
        size = np.bincount(label, minlength=len(centres))
        sums = np.stack([np.bincount(label, column, minlength=len(centres)) for column in points.T], axis=1)
        centres = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], centres)
        before, label = label, distances(centres)[0]
        if (before == label).all():
            break
    return np.unique(label, return_inverse=True)[1]
