"""The state of the loop on the device, and the results of a rollout."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.ports import HiddenState, RolloutStates
from forage.core.types import Experience
from forage.loop.learner import Episodes, LearnerState, State
from forage.loop.visits import Places, Visits


class Start(NamedTuple):
    """The start of one episode."""

    task: PyTree[Array | None]  # the environment's leaves that this task sets
    env_state: State
    observation: PyTree[Array]
    start_id: PyTree[Array] = ()  # what the starts part knows the episode by


class Pool(NamedTuple):
    """Fresh starts, made in bulk and used up as episodes end, so that no step computes a reset it does not need."""

    starts: Start  # leaves [pool, ...]
    used: Int[Array, ""]
    begun: Int[Array, ""]  # episodes that began so far: the serial number of the next start


class Actors(NamedTuple):
    """The environments being stepped; leaves [env, ...]."""

    at: Start
    hidden: HiddenState
    episode_return: Float[Array, "env *objectives"]
    episode_length: Int[Array, " env"]


class DeviceState(NamedTuple):
    """The complete state of a run, for one seed: saving these leaves saves the run."""

    key: Key[Array, ""]
    learner: LearnerState
    tasks: State
    starts: State
    pool: Pool
    actors: Actors
    visits: Visits | tuple[()] = ()  # where the agent has been, in a run that is asked to measure it
    groups: Key[Array, ""] | tuple[()] = ()  # the key of each group's task is folded from it, where there are groups


class RolloutResults(NamedTuple):
    """The results of a rollout."""

    pool: Pool
    actors: Actors
    episodes: Episodes
    rollout: Experience  # leaves `time env *agent ...`
    told: Experience  # the rollout as environments see it; of a team with opponents, with the reward of the others
    visited: RolloutStates
    places: Places | tuple[()]  # where the steps were on the environment's map, where measured
