"""Frozen policies: the trained policy of another run, for a part that acts with it and never changes it.

A part names the run in a field, and knows its agent and the hash of its weights from then on; the weights are read when
a run is about to learn, and an agent that needs them to act keeps a copy in its own state. So checkpoints, evaluation
and loading need the part's own run alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from forage.core import prng, spaces
from forage.core.ports import ActInputs, Agent, Part
from forage.core.ports.checking import check_agent
from forage.core.types import ForageError, Spec

Tree = TypeVar("Tree")


class FrozenPolicy(Part):
    """A policy that acts as it does: the agent of a run, or a function of the observation.

    It plays its evaluation policy, so that one observation always gets one action, and what it did can be computed
    again from what is remembered.
    """

    run: str = equinox.field(static=True, default="")  # directory of the run
    sha256: str = equinox.field(static=True, default="")  # hash of the run's agents; taken when a run begins
    agent: Agent | None = None  # the run's agent; taken when a run begins
    weights: PyTree[Array] | None = None  # the agent's state, once it was read
    function: Callable[[Any], Any] | None = equinox.field(static=True, default=None)  # in place of a run: from an
    # observation to an action

    def check(self, who: str, spec: Spec, role: str = "base") -> None:
        """Raise `ForageError` if the policy cannot act as a `role` of `who` in this environment."""
        if self.function is not None:
            wanted, seen = spaces.example(spec.action_space), spaces.example(spec.observation_space)
            given = jax.eval_shape(self.function, seen)
            if jax.tree.map(jnp.shape, given) != jax.tree.map(jnp.shape, wanted):
                raise ForageError(
                    f"The {role} of {who} does not return {spaces.describe_space(spec.action_space)}, which "
                    f"{spec.name} "
                    f"takes."
                )
        if self.agent is None:
            return
        check_agent(self.agent, spec)
        name = type(self.agent).__name__
        if jax.tree.leaves(jax.eval_shape(lambda: self.loaded_agent.init_hidden(spec))):
            raise ForageError(
                f"{who} asks its {role} about single transitions, and the {name} of {self.run} remembers what came "
                f"before; take one without memory."
            )
        if self.agent.looks_ahead or self.agent.joint:
            raise ForageError(
                f"{who} asks its {role} what to do in one observation, and {name} needs more than that; take another "
                f"{role}, such as bc or sac."
            )

    @property
    def loaded_agent(self) -> Agent:
        """Return the agent. Raise `ForageError` before it was taken from the run."""
        if self.agent is None:
            raise ForageError(f"The agent of {self.run} has not been read; a run does that when it begins.")
        return self.agent

    def first(self, spec: Spec) -> PyTree[Array]:
        """Return the weights to keep in a state; where they were not read, zeros of their shapes."""
        if self.function is not None:
            return ()
        if self.weights is not None:
            return self.weights
        shapes = jax.eval_shape(lambda: self.loaded_agent.init(prng.key(0), spec))
        return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def act(
        self, weights: PyTree[Array], observation: PyTree[Array], noise: Float[Array, "*noise"] | None = None
    ) -> PyTree[Array]:
        """Return the action for one observation; with `noise`, the exploring action for that noise."""
        if self.function is not None:
            return jnp.asarray(self.function(observation))
        weights = jax.lax.stop_gradient(weights)
        key = prng.key(0)  # nothing is drawn with it: the evaluation policy draws nothing, and else there is the noise
        if noise is None:
            return self.loaded_agent.act(weights, ActInputs((), observation, key, explore=False))[0]
        return self.loaded_agent.act(weights, ActInputs((), observation, key, explore=True, noise=noise))[0]


def make_frozen(given: Any) -> Any:
    """Return the frozen policy that a run's directory, a function or a pair (agent, its state) stands for."""
    if isinstance(given, str):
        return FrozenPolicy(given)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Agent):
        return FrozenPolicy("a pair", agent=given[0], weights=given[1])
    return FrozenPolicy(function=given) if callable(given) and not isinstance(given, equinox.Module) else given


def all_frozen(given: Any) -> Any:
    """Return the frozen policies that several of these stand for."""
    return tuple(make_frozen(one) for one in given) if isinstance(given, tuple | list) else given


def is_frozen(node: Any) -> bool:
    """Return whether a node of a tree of parts is a frozen policy."""
    return isinstance(node, FrozenPolicy)


def map_frozen_policies(part: Tree, change: Callable[[FrozenPolicy], FrozenPolicy]) -> Tree:
    """Return a part with each frozen policy that it, or a part within it, holds, changed."""
    return jax.tree.map(lambda x: change(x) if is_frozen(x) else x, part, is_leaf=is_frozen)
