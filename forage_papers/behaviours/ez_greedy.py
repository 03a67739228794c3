"""Temporally extended epsilon-greedy: a random action is repeated for a while."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import spaces
from forage.core.ports import ActContext, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Spec
from forage.nn.distributions import Actions


class Repeating(NamedTuple):
    """The behaviour's memory within an episode."""

    action: PyTree[Array]
    left: Int[Array, ""]  # times that the action is still to be repeated


class EZGreedy(Behaviour):
    """With probability epsilon a uniform action (among the allowed ones), taken n times in a row; else the agent's.

        p(n) proportional to n^-exponent,              n = 1 ... longest
        or, with durations="geometric", to (1 - 1 / mean)^(n - 1): after each step it goes on with chance 1 - 1 / mean

        epsilon(t) = start + (end - start) * min(1, t / (fraction * T))

    after t of the run's T environment steps. While an action is repeated no coin is tossed, so the agent acts less
    often than with epsilon-greedy, of which this is the case of an infinite exponent. The heavy tail makes most
    repetitions short and some very long, as the paths of foraging animals are. Repeating stops where an episode ends,
    or where the action is no longer allowed.

    Source: Dabney, Ostrovski, Barreto, 2020, "Temporally-Extended epsilon-Greedy Exploration", arXiv 2006.01782, with
    its zeta distribution of exponent 2 (mu there); `longest` is ours. Geometric durations of mean 20, at epsilon 1, are
    how Go-Explore explores (Ecoffet et al., 2021, arXiv 2004.12919).
    """

    example: ClassVar[str] = "forage train dqn MountainCar-v0 --behaviour ez-greedy"
    own_choices: ClassVar[str] = "`longest`"
    ranges: ClassVar[Ranges] = {"schedule": Range(0, 1), "exponent": Range(0), "mean": Range(1), "longest": Range(1)}
    needs: ClassVar[Needs] = Needs(actions="choices", off_policy=True)
    choices: ClassVar[Choices] = {"durations": ("zeta", "geometric")}

    start: float = 1.0  # epsilon at first, the probability of a random action
    end: float = 0.05  # epsilon after `fraction` of the run; larger explores more to the end
    fraction: float = 0.1  # share of the run until epsilon reaches `end`
    schedule: float | None = None  # epsilon itself, a number or a schedule, in place of `start`, `end` and `fraction`
    durations: str = equinox.field(static=True, default="zeta")  # law of how often an action is repeated: zeta or
    # geometric
    exponent: float = 2.0  # exponent of the zeta law; larger makes shorter repetitions
    mean: float = 20.0  # mean of the geometric law in steps, but for what `longest` cuts off
    longest: int = equinox.field(static=True, default=10_000)  # most steps that an action is taken in a row

    def init(self, key: Key[Array, ""], agent: Agent, spec: Spec) -> Float[Array, " longest"]:
        """Return P(n > k) for k = 1 ... longest, to draw durations from."""
        times = jnp.arange(1, self.longest + 1, dtype=jnp.float32)
        weight = times**-self.exponent if self.durations == "zeta" else (1 - 1 / self.mean) ** (times - 1)
        # Summed from the far end, where the terms are small, so that none is lost in the sum of the others.
        at_least = jnp.cumsum(weight[::-1])[::-1] / weight.sum()
        return jnp.append(at_least[1:], 0.0)

    def init_hidden(self, agent: Agent, spec: Spec) -> Repeating:
        return Repeating(spaces.example(spec.action_space), jnp.int32(0))

    def epsilon(self, clock: Clock) -> Float[Array, ""]:
        if self.schedule is not None:
            return jnp.asarray(self.schedule, jnp.float32)
        return clock.anneal(self.start, self.end, self.fraction)

    def duration(self, longer: Float[Array, " longest"], key: Key[Array, ""]) -> Int[Array, ""]:
        """Return the n with P(n > n - 1) > u >= P(n > n), u uniform in [0, 1); `longer` is the result of `init`."""
        u = jax.random.uniform(key)
        return 1 + jnp.searchsorted(-longer, -u).astype(jnp.int32)

    def act(
        self, state: Float[Array, " longest"], hidden: HiddenState, observation: PyTree[Array], moment: ActContext
    ) -> Decision:
        act_key, coin_key, random_key, duration_key = jax.random.split(moment.key, 4)
        own, memory, policy_info = moment.own(hidden.agent, observation, act_key)
        repeating: Repeating = hidden.behaviour
        mask = spaces.split_mask(observation)[1]
        repeats = (repeating.left > 0) & allowed(moment.spec, repeating.action, mask)
        begins = ~repeats & (jax.random.uniform(coin_key) < self.epsilon(moment.clock))
        uniform = spaces.sample(moment.spec.action_space, random_key, mask)
        action = jnp.where(repeats, repeating.action, jnp.where(begins, uniform, own)).astype(own.dtype)
        left = jnp.where(repeats, repeating.left - 1, jnp.where(begins, self.duration(state, duration_key) - 1, 0))
        return Decision(action, HiddenState(memory, Repeating(action, left)), policy_info)


def allowed(spec: Spec, action: PyTree[Array], mask: Bool[Array, " actions"] | None) -> Bool[Array, ""]:
    """Return whether each choice that an action makes may be made."""
    if mask is None:
        return jnp.bool_(True)
    return jnp.all(mask | (Actions.from_space(spec.action_space).action_features(action) == 0))
