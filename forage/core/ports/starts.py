"""The port of starts."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports.environment import Environment
from forage.core.ports.part import Part, State
from forage.core.ports.tasks import RolloutReport, Tasks
from forage.core.types import Experience, Spec


class Branching(NamedTuple):
    """The rule by which answers of a rollout start from the first tokens of earlier answers."""

    prefixes: int  # of an answer: so many steps of a rollout follow the one in which it was written
    per_answer: (
        bool  # every answer goes on from its own prefixes; otherwise a whole group from those of its first answer
    )
    late: bool = False  # answers go on one rollout later, beside new ones, and only some of them
    stems: int = 1  # answers of a group that branches go on from; of 2 the first right one and the first wrong one


class Starts(Part):
    """The port of starts: the first state of each episode."""

    adapts: ClassVar[bool] = False
    """`report` changes the distribution of `begin`, so starts drawn earlier are stale after each rollout."""

    needs_estimates: ClassVar[bool] = False
    """`report` needs the agent's value estimates of the rollout; they are computed only for such parts."""

    unscheduled: ClassVar[tuple[str, ...]] = ()
    """Numbers that are used once, or are shares of the run themselves, so that none of them may follow a schedule."""

    on_host: ClassVar[bool] = False
    """It only stores and returns states, so it also works with tickets for the states of a simulator."""

    repeats: ClassVar[bool] = False
    """It resets an environment with one key several times, to get the same beginning."""

    group: ClassVar[int] = 1
    """The number of consecutive episodes that share a first state."""

    follows_steps: ClassVar[bool] = False
    """`on_step` is called after every step, so that a start may depend on the current rollout. On the host."""

    branching: ClassVar[Branching | None] = None
    """The rule by which answers start from the first tokens of others; `None` without such answers."""

    def check(self, environment: Environment, tasks: Tasks) -> None:
        """Raise `ForageError` if the environment and its tasks cannot have these starts."""

    def with_teacher(self, environment: Environment, load_policy: Callable[[str], Any]) -> Self:
        """Return the part with its teacher in place of the name of one, such as the directory of a run."""
        return self

    def on_step(
        self, state: State, action: PyTree[Array], policy_info: PyTree[Array], reward: Float[Array, "env *objectives"]
    ) -> State:
        """Return the state after a step of all environments, leaves `env ...`, before other episodes begin."""
        return state

    joins: ClassVar[bool] = False
    """Whether an episode may continue from another's state: `source_environments` is called after every step. On the
    host.
    """

    def source_environments(self, reward: Float[Array, " env"]) -> Int[Array, " env"]:
        """Return the environment that each continues from after a step with this reward; -inf marks an ended
        episode.
        """
        return jnp.arange(len(reward))

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> State:
        return ()

    every_state: ClassVar[bool] = False
    """`report` gets the states after every step rather than after the last."""

    cuts: ClassVar[bool] = False
    """Episodes may be cut short: `cut` is asked after every step."""

    def cut(self, start_id: PyTree[Array], length: Int[Array, ""]) -> Bool[Array, ""]:
        """Return whether an episode with this `start_id` is truncated after `length` steps."""
        return jnp.bool_(False)

    @abc.abstractmethod
    def begin(
        self, state: State, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[State, PyTree[Array], PyTree[Array]]:
        """Return `(environment state, observation, start_id)` for one new episode.

        `index` is the serial number of the start: how many episodes began before it in this run. A start that is
        drawn but never used, because the part adapted in between, leaves its number to the next one.
        The identifier is what `report` is to know the episode by, such as which of its starts this was; `()` for
        nothing.
        """

    def report(self, state: State, rollout: Experience, review: RolloutReport) -> State:
        """Learn from each rollout (leaves `time env ...`)."""
        return state
