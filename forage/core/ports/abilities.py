"""Abilities that few agents have: an agent inherits their absence from here and overrides some of them."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from forage.core.ports.part import Part, State, ValueEstimates
from forage.core.ports.starts import Branching
from forage.core.types import Experience, ForageError, ReturnRule, Spec


class Recurrent(Part):
    """An agent with a memory within an episode; by default it has none."""

    return_conditioned: ClassVar[bool] = False
    """It conditions on rewards: `observe_reward` follows each of its steps. It learns from a data set alone."""

    def init_hidden(self, spec: Spec) -> PyTree[Array]:
        """Return the agent's memory at the start of an episode; `()` if it has none."""
        return ()

    def member(self, hidden: PyTree[Array], number: Int[Array, ""]) -> PyTree[Array]:
        """Return the memory of member `number` of a team at the start of an episode, for an agent that is `joint`."""
        return hidden

    def observe_action(self, state: State, hidden: PyTree[Array], action: PyTree[Array]) -> PyTree[Array]:
        """Return the agent's memory updated with the action that was taken, its own or the behaviour's."""
        return hidden

    def observe_reward(self, state: State, hidden: PyTree[Array], reward: Float[Array, ""]) -> PyTree[Array]:
        """Return the agent's memory updated with the reward of its step, for an agent that `return_conditioned`."""
        return hidden

    def check_unpaid(self, role: str) -> None:
        """Raise `ForageError` if the agent needs the rewards of its steps, which `role` does not give it."""
        if self.return_conditioned:
            raise ForageError(
                f"{type(self).__name__} acts by the rewards that it has had, which {role} is not told; take an agent "
                f"that acts by observations alone, such as iql."
            )


class Offline(Part):
    """An agent that learns from data sets; by default it learns from its own experience."""

    offline: ClassVar[bool] = False
    """It learns from a data set alone: from a memory that is `offline`; or from labels (`Behaviour.labels`)."""

    texts: ClassVar[tuple[str, ...]] = ()
    """The kinds of rows of recorded text that it learns from, in order of preference (`forage.data.text.rows`)."""

    text_options: ClassVar[dict[str, Any]] = {}
    """Options of the memory of recorded text that it learns from."""

    fine_tunes: ClassVar[bool] = False
    """It is `offline`, and fine-tunes online with a memory that `mixes` data with the run's own experience."""

    imitates: ClassVar[bool] = False
    """It imitates the actions of the data, or the `Label` in `policy_info` with a behaviour that `labels`."""

    returns: ClassVar[bool] = False
    """Whether it learns from `Experience.return_to_go`, by its `discount`.

    Data sets tell that, and to agents that go on online (`fine_tunes`) a memory that `tells_returns`.
    """

    return_rule: ClassVar[ReturnRule] = ReturnRule()
    """The rule by which `Experience.return_to_go` counts truncations and episodes that only fail."""

    contexts: ClassVar[bool] = False
    """Whether it learns from episodes as sequences.

    `Experience.return_to_go` is then the sum of rewards to the last transition that the data have of the episode,
    by the agent's `discount` where it has one, and `Experience.time` and `Experience.complete` are set; only data
    sets tell these.
    """

    best_episodes: ClassVar[float] = 1.0
    """The share of a data set's whole episodes that it learns from, those of highest return; 1: all."""

    @property
    def ranks_episodes(self) -> str:
        """Return the option that does without the best of a data set's whole episodes; empty if it does not need
        them.
        """
        return "best=1" if self.best_episodes < 1 else ""

    @property
    def needs_whole_dataset(self) -> bool:
        """Return whether `init_from_dataset` needs the whole data set in memory."""
        return type(self).init_from_dataset is not Offline.init_from_dataset

    def init_from_dataset(self, state: State, data: Experience) -> State:
        """Return the first state of an agent that learns from this data set (leaves `transition ...`) alone."""
        return state


class Grouping(Part):
    """An agent that compares episodes with a shared first state; by default it compares none."""

    group: ClassVar[int] = 1
    """The number of episodes with a shared first state that it compares (`Starts.group`); 1 if it
    compares none.
    """

    branching: ClassVar[Branching | None] = None
    """The answers of a rollout that must start from the first tokens of others; `None` if it needs none."""

    starts_options: ClassVar[dict[str, Any]] = {}
    """The options of `usual_starts`, in addition to the size of its groups."""

    usual_starts: ClassVar[str] = ""
    """The default starts, if they are not the environment's own."""

    needs_start_ids: ClassVar[bool] = False
    """It gets the identifier of each transition's start in `Experience.start_id`; otherwise none is kept."""

    outcomes: ClassVar[bool] = False
    """It gets the environment's own reward, before a rewards part changed it, in `Experience.rewards["outcome"]`."""


class Estimating(Part):
    """An agent that estimates values and probabilities of actions for others; by default it has no such estimates."""

    def estimate(self, state: State, rollout: Experience) -> ValueEstimates:
        """Judge a rollout (leaves `time env ...`, with the rewards to learn from) that this state acted in.

        One that is `joint` gets leaves `time env agent ...`, and judges the team.
        """
        raise ForageError(f"{type(self).__name__} does not judge its rollouts; an agent that does is ppo.")

    @property
    def has_estimates(self) -> bool:
        """Return whether it has a method `estimate` of its own."""
        return type(self).estimate is not Estimating.estimate

    def action_values(
        self, state: State, hidden: PyTree[Array], observation: PyTree[Array]
    ) -> Float[Array, " actions"] | None:
        """Return the agent's estimated values of numbered actions for an observation; `None` if it has no such
        values.
        """
        return None

    def probabilities(self, state: State, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        """Return the probabilities with which `act` chooses among numbered actions, of an agent without memory."""
        raise ForageError(f"{type(self).__name__} cannot say how probable its actions are.")

    def log_probability(self, state: State, observation: PyTree[Array], action: PyTree[Array]) -> Float[Array, " row"]:
        """Compute the log-probability of taking actions (leaves `row ...`) in an exploring `act`, for an agent that
        is `stochastic` and has no memory; for continuous actions, the log-density in the unit box.
        """

        def one(observation: PyTree[Array], action: Int[Array, ""]) -> Float[Array, ""]:
            return jnp.log(self.probabilities(state, observation, True)[action] + 1e-20)

        return jax.vmap(one)(observation, action)

    def noise(self, spec: Spec) -> tuple[int, ...] | None:
        """Return the shape of the standard normal numbers from which `act` makes an action; `None`: from none."""
        return None


class Lagging(Part):
    """An agent that learns from rollouts of earlier policies; by default each rollout is of its newest one."""

    corrects: ClassVar[bool] = False
    """It also learns from rollouts of its own earlier policies, with a correction for the change since.

    Such an agent keeps the log-probabilities of its actions in `policy_info`, as its network will be another when it
    learns.
    """

    replays: ClassVar[bool] = False
    """It also learns from older episodes that a memory puts into a rollout, marked by `Batch.replay`."""

    pools: ClassVar[bool] = False
    """It compares groups of any size, which `Batch.replay` names, in place of those of a rollout in order."""

    def check_lag(self, lag: int, whose: str, instead: str) -> None:
        """Raise `ForageError` if the agent does not correct for a lag: for rollouts of policies before its newest.

        `whose`: who gives it such rollouts, as a sentence goes on; `instead`: what does not.
        """
        if lag and not self.corrects:
            raise ForageError(
                f"{type(self).__name__} takes every rollout for one of its newest policy, and {whose} of {lag} "
                f"rollouts ago; use {instead}, or an agent that corrects for the lag, such as impala."
            )

    def version(self, state: State) -> Int[Array, ""] | tuple[()]:
        """Return the number of updates that made the policy, for `Experience.version`; `()` to store none there."""
        return ()
