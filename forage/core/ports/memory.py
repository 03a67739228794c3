"""The port of memories."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import Any, ClassVar

from jaxtyping import Array, Bool, Float

from forage.core.ports.agent import Agent
from forage.core.ports.behaviour import ActContext
from forage.core.ports.environment import Environment
from forage.core.ports.part import Part, State, ValueEstimates
from forage.core.types import Batch, Clock, Experience, ForageError, Spec

HELD_BATCHES = 4  # of held episodes, whose metrics are averaged


class Memory(Part):
    """The port of memories: the experience that is stored and replayed."""

    on_policy: ClassVar[bool] = False
    """It gives the last rollout, whole, to agents that learn from no older one; other memories also draw from older
    ones.
    """

    needs_estimates: ClassVar[bool] = False
    """`rate` needs the agent's value estimates of each rollout; they are computed only for such memories."""

    joint: ClassVar[bool] = False
    """It keeps the transitions of whole teams (leaves `time env agent ...`) for agents that are `joint`."""

    offline: ClassVar[bool] = False
    """It is a data set, never added to, and the only source of experience. A step of the run is an update of one
    batch.
    """

    mixes: ClassVar[bool] = False
    """Its batches come partly from a data set and partly from the run's own experience."""

    recomputes_rewards: ClassVar[bool] = False
    """It recomputes rewards with the environment's own function, which is the same for all tasks."""

    group: ClassVar[int] = 1
    """The number of episodes with a shared first state, side by side in a rollout, that it compares; 1
    for none.
    """

    @property
    def transitions(self) -> Experience | None:
        """Return the transitions of a data set (leaves `transition ...`); `None` for other memories."""
        return None

    @property
    def validation(self) -> Memory | None:
        """Return the episodes of a data set that are measured and not learned from, as a memory; `None` without any."""
        return None

    def held_batches(self, size: int) -> int:
        """Return the number of batches of held episodes that are measured; `sample` gets each one's number as state."""
        return HELD_BATCHES

    @property
    def validation_starts(self) -> Experience | None:
        """Return the first transitions of these episodes, leaves `episode ...`; `None` without any."""
        return None

    read_files: ClassVar[Mapping[str, Experience]] = {}
    """The experience that it loaded from data sets, by the names of their files."""

    tells_returns: ClassVar[bool] = False
    """Whether it computes `Experience.return_to_go` for the run's own experience.

    In the rollouts that it is given this field holds the reward that is learned from.
    """

    waiting_rollouts: ClassVar[int] = 0
    """The number of rollouts that it holds back: sampling and updates start one rollout later than that."""

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` for an agent that cannot learn from the batches of this memory.

        `environment`: the native one that the experience comes from; `None` for one on the host. A memory that needs
        more of it than its spec raises `ForageError` where that is not there.
        """
        who, memory = type(agent).__name__, type(self).__name__
        if agent.on_policy and not self.on_policy:
            raise ForageError(
                f"{who} learns only from the rollout it has just lived through, and {memory} replays older ones; use "
                f"--memory rollout, or an agent that learns from a replay memory, such as dqn."
            )
        if self.on_policy and not agent.on_policy:
            raise ForageError(
                f"{who} learns from batches that are drawn from a replay memory, and {memory} gives the last rollout "
                f"whole; use --memory uniform or prioritised, or an agent that learns from its rollouts, such as ppo."
            )

    def with_hashes(self) -> Memory:
        """Return the memory with the hash of every file that it reads, so that a resumed run can recognise them."""
        return self

    def relocate(self, path: Any) -> Memory:
        """Return the memory with the file that it reads at another path."""
        raise ForageError("This run does not learn from a data set; leave out --data.")

    def load(self, spec: Spec) -> Memory:
        """Return the memory with its files loaded. Their content is part of the loop, not of checkpoints."""
        return self

    @abc.abstractmethod
    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> State:
        """Make an empty memory for transitions like `example` (no leading axes).

        `environment`: as in `check`. What `sample` needs of it is kept in the state.
        """

    @abc.abstractmethod
    def add(self, state: State, rollout: Experience, clock: Clock) -> State:
        """Keep a rollout (leaves `time env ...`). `clock` reads as it did when the rollout began."""

    def is_ready(self, state: State) -> Bool[Array, ""] | None:
        """Return whether the agent learns from the present rollouts; `None` for a memory that is always ready.

        Until it is ready the policy stays as it is, so that the rollouts that it collects are all of one policy.
        """
        return None

    def rate(self, state: State, estimates: ValueEstimates, clock: Clock) -> State:
        """Rate the rollout that was just added by the agent's value estimates, for a memory with `needs_estimates`."""
        return state

    def truncate(self, state: State, clock: Clock) -> State:
        """Truncate the unfinished episodes: they were lost, and the next rollout to be added has new ones.

        `clock` reads as it does after the newest rollout.
        """
        return state

    def advance(self, state: State, size: int, length: int, moment: ActContext) -> State:
        """Return the state from which the next batch is drawn, for a memory whose batches follow one another.

        It is called before each `sample`, with the same arguments.
        """
        return state

    @abc.abstractmethod
    def sample(self, state: State, size: int, length: int, moment: ActContext) -> Batch:
        """Draw `size` segments of `length` transitions. The clock reads as it does after the newest rollout.

        A memory that learns a model of the environment may imagine some of them, in which `Experience.source` is
        `MODEL`. Value estimates learn from these as from all others; policy gradients leave them out, as no steps of
        the agent's own, and so does a model that an agent learns.
        """

    def report(self, state: State, batch: Batch, errors: Float[Array, " batch"]) -> State:
        """Update the priorities with each segment's error; NaN leaves a priority unchanged."""
        return state

    def after_updates(self, state: State) -> State:
        """Return the state to store until the next `add`, after the agent has learned: the shapes are those of
        `init`.
        """
        return state
