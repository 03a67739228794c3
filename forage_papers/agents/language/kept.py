"""State that agents of language keep between rollouts, and second networks that learn with the policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import LanguageAgent, LanguageState
from forage.agents.language.descent import Loss, descend
from forage.agents.language.ppo_language import Critic
from forage.core.ports import Metrics
from forage.nn.language.architecture import Architecture
from forage.nn.transformer import Transformer


class KeptState(NamedTuple):
    """State of a language agent that keeps more between rollouts; the names are those of `LanguageState`."""

    network: Transformer
    optimiser: Any
    reference: Transformer | tuple[()]
    end: Int[Array, "*several"]
    known: Bool[Array, " vocabulary"]
    kept: Any


def keep(state: LanguageState, kept: Any) -> KeptState:
    """Return the state of a language agent with further data."""
    return KeptState(*state, kept)


class SecondNetwork(NamedTuple):
    """A network that learns in addition to the policy, whole and in float32."""

    weights: Any  # a transformer, or one with a head
    optimiser: Any


def copy_first_policy(agent: LanguageAgent, head: Float[Array, "*several width"] | None = None) -> SecondNetwork:
    """Return a copy of the policy that learning begins from, with a head if one is given."""
    first = jax.tree.map(jnp.copy, agent.base_model.first(jnp.float32))
    weights = first if head is None else Critic(first, head)
    return SecondNetwork(weights, agent.steps(1.0).init(weights))


def learn_second(
    agent: LanguageAgent,
    second: SecondNetwork,
    loss: Callable[[Any, Any], tuple[Float[Array, ""], Metrics]],
    items: Any,
    rate: Float[Array, ""],
    minibatches: int,
    key: Key[Array, ""],
) -> tuple[SecondNetwork, Metrics]:
    """Return the second network after one pass over the items; `loss(weights, items)` is of some of them."""
    one: Loss = lambda weights, part, first: loss(weights, part)  # noqa: E731
    found = descend(one, second.weights, second.optimiser, agent.steps(rate), items, 1, minibatches, key)
    return SecondNetwork(*found[:2]), found[2]


class PolicyPair(NamedTuple):
    """A policy and another transformer, read side by side, whose hidden states together become logits.

    It stands where a policy writes (`forage.agents.language.base.answers`). `rule(own, other)` returns the logits.
    """

    policy: Transformer
    other: Transformer
    rule: Callable[[Array, Array], Array]

    @property
    def architecture(self) -> Architecture:
        return self.policy.architecture

    def cache(self, batch: int, length: int) -> Any:
        return self.policy.cache(batch, length), self.other.cache(batch, length)

    def grow_cache(self, cache: Any, columns: int) -> Any:
        return self.policy.grow_cache(cache[0], columns), self.other.grow_cache(cache[1], columns)

    def extend(
        self, cache: Any, tokens: Array, mask: Array | None = None
    ) -> tuple[Float[Array, "batch time both"], Any]:
        """Return the hidden states of both, one behind the other, and both caches."""
        own, first = self.policy.extend(cache[0], tokens, mask)
        other, second = self.other.extend(cache[1], tokens, mask)
        return jnp.concatenate([own, other.astype(own.dtype)], axis=-1), (first, second)

    def logits(self, hidden: Float[Array, "*batch both"]) -> Float[Array, "*batch vocabulary"]:
        """Return the logits of both hidden states by the rule."""
        return self.rule(*jnp.split(hidden, [self.architecture.width], axis=-1))
