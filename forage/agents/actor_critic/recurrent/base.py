"""Recurrent networks that read whole histories, and their losses, shared by recurrent SAC and TD3.

Yang and Nguyen (2021), "Recurrent Off-policy Baselines for Memory-based Continuous Control", arXiv 2110.12628, with
sizes and settings of the authors' code (github.com/zhihanyang2022/off-policy-continuous-control). Actor and critics
have an LSTM each, of two layers and 256 units, which hears observations alone, and their usual layers behind it. With
h_t = LSTM(o_1 ... o_t) of the network that is asked, its loss is the mean over all steps t of all histories of what its
memoryless agent minimises, with h_t for the state and h_{t+1} for the next one; what comes after a history's end does
not count. The policy's loss teaches the actor alone, the LSTM of the critics stays as it is.

Histories begin with nothing remembered. So the memory is `episodes`, whose segments are whole episodes, or equal pieces
of those longer than `unroll`; those of other memories, and of data sets, begin anywhere. Batches are of 10.
Of the metrics, `value` alone is a mean over what comes after an end, too.

Otherwise than the authors' code: there the critics' LSTM that the policy follows is the one from before their update,
the target entropy counts padded steps too, and an acting network stays as it is until its episode ends; here each step
is acted by the newest one, with what older ones remembered.
The paper's tables could not be looked up.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.agents.actor_critic.base import ActorCritic
from forage.core.ports import ActInputs, State
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges, check_segments
from forage.core.types import GONE, Batch, Experience, Spec
from forage.nn.critics import ActionValue, Bins, Quantiles
from forage.nn.distributions import Actions
from forage.nn.lstm import Summary
from forage.nn.networks import NetworkConfig
from forage.ops.episodes import alive
from forage.ops.rows import merge_time


class EarlierSteps(NamedTuple):
    """Histories at each of their steps but the last; the rows of a batch are the steps of all histories."""

    seen: PyTree[Array]  # leaves `time batch ...`: all observations, and what the last step led to


class LaterSteps(NamedTuple):
    """Histories at each of their steps but the first."""

    seen: PyTree[Array]


def summarise_rows(summary: Summary, histories: EarlierSteps | LaterSteps) -> Float[Array, "rows size"]:
    """Summarise histories at each of their steps."""
    summaries = summary.sequence(histories.seen)
    wanted = summaries[:-1] if isinstance(histories, EarlierSteps) else summaries[1:]
    return wanted.reshape(-1, wanted.shape[-1])


class RecurrentActor(equinox.Module):
    """An actor of summaries, and the LSTM that makes them."""

    summary: Summary
    inner: Any  # an actor for which summaries are observations

    @property
    def actions(self) -> Actions:
        return self.inner.actions

    @property
    def log_std(self) -> None:
        return None

    def __call__(self, histories: EarlierSteps | LaterSteps) -> Any:
        return self.inner(summarise_rows(self.summary, histories))


class RecurrentValue(ActionValue):
    """Q(s, a) of summaries, and the LSTM that makes them."""

    summary: Summary

    def __init__(
        self,
        key: Key[Array, ""],
        spec: Spec,
        agent: Recurrent,
        dimensions: int,
        style: NetworkConfig,
        outputs: int,
        bins: Any,
    ):
        summary_key, body_key = jax.random.split(key)
        sizes = agent.value_sizes or agent.hidden_sizes
        space, style = agent.summaries(spec).observation_space, style._replace(encoder=None)
        super().__init__(body_key, space, dimensions, sizes, style, outputs, bins)
        self.summary = agent.summary(summary_key, spec)

    def inputs(
        self, observation: PyTree[Array], action: Float[Array, "rows dimensions"]
    ) -> Float[Array, "rows inputs"]:
        return super().inputs(summarise_rows(self.summary, observation), action)


class Recurrent(ActorCritic):
    """Actor and critics that remember their episode."""

    ranges: ClassVar[Ranges] = {"lstm_size": Range(1), "lstm_layers": Range(1)}

    usual_memory: ClassVar[str] = "episodes"
    unused: ClassVar[Unused] = {
        "normalise_observation": ("Agents that remember read observations as they are", "take sac"),
        "recycle_interval count_dormant": "Agents that remember do not look for dormant units",
    }

    batch_size: int = equinox.field(static=True, default=10)
    learning_starts: int = equinox.field(static=True, default=10_000)
    lstm_size: int = equinox.field(static=True, default=256)  # units of each layer of the LSTMs
    lstm_layers: int = equinox.field(static=True, default=2)  # layers of the LSTMs
    unroll: int = equinox.field(static=True, default=200)  # steps of each history that is learned from; longer episodes
    # are cut into pieces

    @property
    def segment(self) -> int:
        return self.unroll

    def check(self, spec: Spec) -> None:
        super().check(spec)
        check_segments(self)

    def init_hidden(self, spec: Spec) -> Float[Array, "layers 2 size"]:
        return jnp.zeros((self.lstm_layers, 2, self.lstm_size))

    def summaries(self, spec: Spec) -> Spec:
        """Return the spec of an environment with summaries as its observations."""
        space = spaces.Box(-math.inf, math.inf, (self.lstm_size,), np.float32)
        return dataclasses.replace(spec, observation_space=space)

    def summary(self, key: Key[Array, ""], spec: Spec) -> Summary:
        return Summary(key, spec, NetworkConfig.from_agent(self), self.lstm_size, self.lstm_layers)

    def make_critic(
        self,
        key: Key[Array, ""],
        spec: Spec,
        dimensions: int,
        style: NetworkConfig,
        outputs: int,
        bins: Bins | Quantiles | None,
    ) -> RecurrentValue:
        return RecurrentValue(key, spec, self, dimensions, style, outputs, bins)

    def make_actor(self, key: Key[Array, ""], spec: Spec) -> RecurrentActor:
        summary_key, inner_key = jax.random.split(key)
        plain = dataclasses.replace(self, encoder=None)  # that of one's own reads observations, not summaries
        inner = super(Recurrent, plain).make_actor(inner_key, self.summaries(spec))
        return RecurrentActor(self.summary(summary_key, spec), inner)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        hidden, summary = state.actor.summary.step(inputs.hidden, inputs.observation)
        inner = state._replace(actor=state.actor.inner)
        inputs = inputs.replace(hidden=(), observation=summary)
        action, _, policy_info = super().act(inner, inputs)  # pyrefly: ignore[abstract-method-call]
        return action, hidden, policy_info

    def histories(
        self, actions: Actions, batch: Batch
    ) -> tuple[Experience, Float[Array, "rows dimensions"], Float[Array, " rows"], Bool[Array, "time batch"]]:
        """Return the steps of all segments as rows, their actions and weights, and a mask of the steps in histories.

        Weights are such that a mean over all rows is one over the rows that count, beside the segments' own.
        """
        experience = batch.experience
        counts = alive(experience.ended) & experience.counts
        seen = jax.tree.map(
            lambda now, after: jnp.concatenate([now[:1], after]), experience.observation, experience.next_observation
        )
        weight = (batch.weight * counts).reshape(-1) * counts.size / jnp.maximum(counts.sum(), 1)
        # What comes after an end is as if nobody had been there.
        told = experience._replace(source=jnp.where(counts, experience.source, GONE))
        told = told._replace(observation=(), next_observation=(), policy_info=(), rewards_info=())
        told = merge_time(told)
        told = told._replace(observation=EarlierSteps(seen), next_observation=LaterSteps(seen))
        return told, jax.vmap(actions.action_features)(told.action), weight, counts


def each_mean(error: Float[Array, " rows"], counts: Bool[Array, "time batch"]) -> Float[Array, " batch"]:
    """Return the mean error of each history's steps."""
    error = error.reshape(counts.shape)
    return jnp.sum(error * counts, axis=0) / jnp.maximum(counts.sum(0), 1)
