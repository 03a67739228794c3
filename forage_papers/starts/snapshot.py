"""Snapshot reinforcement learning: early episodes begin in states that a teacher passed through."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import ActInputs, Agent, Environment, RolloutReport, Starts, Tasks
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, ForageError, Spec
from forage.starts.weighted import cumulative_weights, draw_place
from forage_papers.starts.cell_archive import flatten_rows

SOLVER = "solver"
"""The name of the teacher that solves grid worlds."""

ROUNDS = 20
"""Rounds of k-means, which converges in fewer in one dimension."""


class Snapshots(NamedTuple):
    """States of a teacher's episodes; leaves [snapshot, ...]."""

    env_state: Any
    observation: PyTree[Array]
    value: Float[Array, " snapshot"]  # discounted reward that the teacher got from there on
    there: Bool[Array, " snapshot"]  # its episode was not over yet


class SnapshotState(NamedTuple):
    snapshots: Snapshots
    weights: Float[Array, " snapshot"]  # their sum up to each
    early: Bool[Array, ""]  # snapshots are still used


def as_teacher(teacher: Any) -> Any:
    """Return a pytree: of a loaded policy its agent, state and memory; a bare function has no leaves."""
    if hasattr(teacher, "agent") and hasattr(teacher, "spec"):
        return teacher.agent, teacher.state, teacher.agent.init_hidden(teacher.spec)
    if isinstance(teacher, tuple) and len(teacher) == 2 and isinstance(teacher[0], Agent):
        return *teacher, ()
    return jax.tree_util.Partial(teacher) if callable(teacher) and jax.tree_util.all_leaves([teacher]) else teacher


class Snapshot(Starts):
    """For the first `share` of the run episodes begin, with `probability`, in a snapshot of a teacher's episode.

    The teacher plays `episodes` episodes of at most `steps` steps, and every `every`-th state is kept. Kept states are
    put into `clusters` by their value (k-means), since a teacher is long in some kinds of states and briefly in others
    ("status classification"): a cluster is drawn uniformly, then one of its states. What begins in a snapshot is
    truncated after `truncate` steps, to see more of them ("student trajectory truncation"); as published, for the first
    tenth of the run. A state is restored as it was, the clock of the environment's own time limit included, which may
    run out sooner. The agent is any; the environment is its own again afterwards, and always in evaluation.

    `teacher`: a function `(observation, key) -> action`, a trained `(agent, agent_state)`, what `forage.load` returns,
    or the directory of a run; or `Snapshots` themselves; or `solver`, in grid worlds, whose levels it solves: then
    there are many levels among the snapshots, and the agent meets the end of many before their beginning.

    Source: Zhao, Qian, Wang, Shan, Qin (2024), "Snapshot Reinforcement Learning: Leveraging Prior Trajectories for
    Efficiency" (S3RL), arXiv 2403.00673. There states are classified by the teacher's critic, here by what it got, and
    in the authors' program `truncate` steps from a snapshot take the place of the environment's own limit.
    """

    example: ClassVar[str] = (
        "forage train ppo grid:MultiRoom-N7-S8 --steps 2M --starts snapshot --starts.teacher solver "
        "--starts.episodes 600 --starts.every 3 --starts.clusters 10 --starts.share 0.7 --starts.probability "
        "0.8"
    )
    ranges: ClassVar[Ranges] = {
        "clusters": Range(1),
        "every": Range(1),
        "steps": Range(1),
        "truncate": Range(1),
        "share": Range(0, 1),
    }

    unscheduled: ClassVar[tuple[str, ...]] = ("share", "discount")
    adapts: ClassVar[bool] = True
    cuts: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(agents="one", one_reward=True, same_task=True)

    teacher: str | Any = equinox.field(converter=as_teacher)  # whose episodes they are: a run's directory, or solver;
    # in Python, any policy
    share: float = 0.1  # share of the run in which snapshots are used
    probability: float = 1.0  # probability that an episode begins in a snapshot, while they are used
    truncate: int = 100  # steps after which an episode from a snapshot is cut
    discount: float = 0.99  # discount of the values that snapshots are grouped by
    clusters: int = equinox.field(static=True, default=6)  # groups of snapshots by value, each drawn as often
    episodes: int = equinox.field(static=True, default=10)  # episodes that the teacher plays
    every: int = equinox.field(static=True, default=10)  # every so many states one is kept
    steps: int = equinox.field(static=True, default=1000)  # most steps of a teacher's episode

    def check(self, environment: Environment, tasks: Tasks) -> None:
        if isinstance(self.teacher, Snapshots):
            if not bool(jnp.any(self.teacher.there)):
                raise ForageError("There is not one state among the snapshots.")
        elif not (callable(self.teacher) or (isinstance(self.teacher, tuple) and isinstance(self.teacher[0], Agent))):
            raise ForageError(
                f"A teacher is a function of (observation, key), a pair (agent, agent_state), a loaded policy or "
                f"Snapshots, not {type(self.teacher).__name__}."
            )
        elif isinstance(self.teacher, tuple):
            self.teacher[0].check_unpaid("a teacher")

    def with_teacher(self, environment: Environment, load_policy: Callable[[str], Any]) -> Self:
        """Return the part with its teacher in place of the name, the directory of a run or `solver`."""
        if not isinstance(self.teacher, str):
            return self
        if self.teacher != SOLVER:
            return dataclasses.replace(self, teacher=load_policy(self.teacher))
        from forage_papers.starts.solutions import solution_states

        return dataclasses.replace(self, teacher=solution_states(environment, self))

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> SnapshotState:
        snapshots = self.teacher if isinstance(self.teacher, Snapshots) else self.record_states(environment, key)
        return SnapshotState(snapshots, cumulative_weights(self.weights(snapshots)), jnp.bool_(self.share > 0))

    def record_states(self, environment: Environment, key: Key[Array, ""]) -> Snapshots:
        """Return the states that the teacher passes through."""

        teacher: Any = self.teacher

        def act(hidden: PyTree[Array], observation: PyTree[Array], key: Key[Array, ""]):
            if callable(teacher):
                return teacher(observation, key), hidden
            agent, state = teacher[:2]
            action, hidden, _ = agent.act(state, ActInputs(hidden, observation, key, explore=False))
            return action, agent.observe_action(state, hidden, action)

        def episode(key: Key[Array, ""]) -> Snapshots:
            reset_key, play_key = jax.random.split(key)
            hidden = () if callable(teacher) else teacher[2]
            start = environment.reset(reset_key)
            return play_teacher(environment, start, act, hidden, play_key, self.steps, self.every, self.discount)

        played = jax.vmap(episode)(jax.random.split(key, self.episodes))
        return flatten_rows(played)

    def weights(self, snapshots: Snapshots) -> Float[Array, " snapshot"]:
        """Return the probability of each snapshot: 1 over its cluster's size, and over the number of clusters."""
        nearest = classify(snapshots.value, snapshots.there, self.clusters)
        member = jax.nn.one_hot(nearest, self.clusters) * snapshots.there[:, None]
        size = member.sum(0)
        return (member / jnp.maximum(size, 1)).sum(1) / jnp.maximum((size > 0).sum(), 1)

    def begin(
        self, state: SnapshotState, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], Bool[Array, ""]]:
        reset_key, coin_key, place_key = jax.random.split(key, 3)
        taught = state.early & (jax.random.uniform(coin_key) < self.probability)
        index = draw_place(state.weights, jax.random.uniform(place_key))
        place = jax.tree.map(
            lambda kept, fresh: jnp.where(taught, kept[index], fresh),
            (state.snapshots.env_state, state.snapshots.observation),
            environment.reset(reset_key),
        )
        return *place, taught

    def cut(self, mark: Bool[Array, ""], length: Int[Array, ""]) -> Bool[Array, ""]:
        return mark & (length >= self.truncate)

    def report(self, state: SnapshotState, rollout: Experience, review: RolloutReport) -> SnapshotState:
        done = (review.clock.steps + rollout.ended.size) / review.clock.total
        return state._replace(early=done < self.share)


def play_teacher(
    environment: Environment,
    start: tuple[Any, PyTree[Array]],
    act: Callable[..., Any],
    hidden: PyTree[Array],
    key: Key[Array, ""],
    steps: int,
    every: int,
    discount: Float[Array, ""] | float,
) -> Snapshots:
    """Return one episode of `act(hidden, observation, key) -> (action, hidden)` from a start; every `every`-th state of
    it.
    """

    def step(carry: Any, key: Key[Array, ""]) -> tuple[Any, Any]:
        (env_state, observation), hidden, running = carry
        act_key, step_key = jax.random.split(key)
        action, hidden = act(hidden, observation, act_key)
        after, step = environment.step(env_state, action, step_key)
        reward = jnp.where(running, step.reward, 0.0)
        now = (env_state, observation, reward, running)
        return ((after, step.observation), hidden, running & ~(step.terminated | step.truncated)), now

    carry = (start, hidden, jnp.bool_(True))
    _, (env_state, observation, reward, running) = jax.lax.scan(step, carry, jax.random.split(key, steps))
    value = jax.lax.scan(lambda g, r: (r + discount * g,) * 2, jnp.zeros(()), reward, reverse=True)[1]
    return jax.tree.map(lambda x: x[::every], Snapshots(env_state, observation, value, running))


def classify(values: Float[Array, " row"], there: Bool[Array, " row"], clusters: int) -> Int[Array, " row"]:
    """Return the cluster of each number by k-means (Lloyd, 1982), from centres evenly spread over those that
    are there.
    """
    low, high = jnp.where(there, values, jnp.inf).min(), jnp.where(there, values, -jnp.inf).max()
    centres = low + (high - low) * (jnp.arange(clusters) + 0.5) / clusters

    def nearest(centres: Float[Array, " cluster"]) -> Int[Array, " row"]:
        return jnp.argmin(jnp.abs(values[:, None] - centres), axis=1)

    def step(_: Int[Array, ""], centres: Float[Array, " cluster"]) -> Float[Array, " cluster"]:
        member = (nearest(centres)[:, None] == jnp.arange(clusters)) & there[:, None]
        size = member.sum(0)
        mean = (member * values[:, None]).sum(0) / jnp.maximum(size, 1)
        return jnp.where(size > 0, mean, centres)

    return nearest(jax.lax.fori_loop(0, ROUNDS, step, centres))
