"""Maximum-entropy exploration: a mixture of policies that visits all states as evenly as can be, without reward.

Hazan, Kakade, Singh, Van Soest (2019), "Provably Efficient Maximum Entropy Exploration", arXiv 1812.02690. Frank and
Wolfe's method on the entropy of the state distribution d of a mixture of policies. In each round, of `episodes`
episodes,

    reward   r(s) = -ln(d(s) + smoothing) - d(s) / (d(s) + smoothing)
    policy   pi = the best plan for r in the model counted so far; what was never tried pays the most r there is, at
             every step that is left
    mixture  d <- (1 - step) d + step d_pi, with d_pi as the round's episodes showed it

where r is the gradient of the smoothed entropy -sum_s d(s) ln(d(s) + smoothing). Episodes side by side that an earlier
round's policy began teach the model, and count for no round.
The mixture is what is learned: in evaluation each episode draws one of its policies by weight.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.nn.distributions import entropy
from forage.ops.every import run_if
from forage_papers.agents.tabular import base as tabular
from forage_papers.agents.tabular.base import Counts, Plan


class MaxEntState(NamedTuple):
    counts: Counts
    policies: Int[Array, "slot time state"]  # the newest ones, as a ring: the mixture's, and the round's own
    weights: Float[Array, " slot"]  # of the mixture
    mixture: Float[Array, " state"]  # d
    seen: Float[Array, " state"]  # visits in the round under way
    ended: Float[Array, ""]  # its episodes
    rounds: Int[Array, ""]  # finished


class Memory(NamedTuple):
    """The memory within one episode."""

    time: Int[Array, ""]
    member: Int[Array, ""]  # the policy: the round's number, or a slot of the mixture; -1 before the first step


class MaxEnt(Agent):
    """Provably efficient maximum entropy exploration (Hazan et al., 2019, arXiv 1812.02690), for numbered states.

    `step` is constant, as in the paper; 0 stands for 1 / (rounds + 1), which weighs all rounds alike. A reward is not
    looked at. What an episode ends in is not a state anything is done in, and does not count as visited. The mixture's
    oldest policies are forgotten beyond `capacity` rounds.
    """

    example: ClassVar[str] = "forage train maxent tabular:RiverSwim-12 --env.max-steps 40"
    ranges: ClassVar[Ranges] = {"step": Range(0, 1), "smoothing": Range(0, above=True)}

    on_policy: ClassVar[bool] = True
    needs: ClassVar[Needs] = tabular.PLANNING

    step: float = 0.0  # weight of a new policy in the mixture; 0 stands for 1 / (rounds + 1)
    smoothing: float = 1e-3  # added to visit frequencies in the entropy; larger makes rare states count less
    episodes: int = equinox.field(static=True, default=10)  # episodes of a round, after which a policy is added; more
    # estimate visits better
    capacity: int = equinox.field(static=True, default=64)  # newest policies that the mixture keeps; more keep older
    # ones, at more memory
    num_envs: int = equinox.field(static=True, default=1)
    rollout_length: int = equinox.field(static=True, default=1)

    def init(self, key: Key[Array, ""], spec: Spec) -> MaxEntState:
        states, actions, horizon = tabular.table_sizes(spec)
        return MaxEntState(
            Counts.nothing(states, actions),
            jnp.zeros((self.capacity + 1, horizon, states), jnp.int32),
            jnp.zeros(self.capacity + 1).at[0].set(1.0),
            jnp.zeros(states),
            jnp.zeros(states),
            jnp.zeros(()),
            jnp.int32(0),
        )

    def init_hidden(self, spec: Spec) -> Memory:
        return Memory(jnp.int32(0), jnp.int32(-1))

    def act(self, state: MaxEntState, inputs: ActInputs) -> tuple[Int[Array, ""], Memory, Int[Array, ""]]:
        hidden, weights = inputs.hidden, jnp.log(state.weights)
        drawn = state.rounds if inputs.explore else jax.random.categorical(inputs.key, weights).astype(jnp.int32)
        member = jnp.where(hidden.member < 0, drawn, hidden.member)
        time = jnp.minimum(hidden.time, state.policies.shape[1] - 1)
        action = state.policies[member % len(state.policies), time, tabular.index(inputs.observation)]
        return action, Memory(hidden.time + 1, member), member

    def learn(
        self, state: MaxEntState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[MaxEntState, Metrics, Float[Array, " batch"]]:
        experience = batch.experience
        here = tabular.index(experience.observation)
        own = experience.counts & (experience.policy_info == state.rounds)  # in episodes that the round's policy began
        state = state._replace(
            counts=state.counts.add(experience),
            seen=state.seen.at[here].add(own.astype(jnp.float32)),
            ended=state.ended + (experience.ended & own).sum(),
        )
        state = run_if(state.ended >= self.episodes, self.next_round, state)
        share = state.mixture / jnp.maximum(state.mixture.sum(), 1e-12)
        metrics = {"visitation_entropy": entropy(share), "rounds": state.rounds.astype(jnp.float32)}
        return state, metrics, jnp.zeros(experience.reward.shape[1])

    def next_round(self, state: MaxEntState) -> MaxEntState:
        """Add the round that is over to the mixture, and plan the next."""
        step = jnp.where(self.step > 0, self.step, 1 / (state.rounds + 1.0))
        step = jnp.where(state.rounds == 0, 1.0, step)
        mixture = (1 - step) * state.mixture + step * state.seen / jnp.maximum(state.seen.sum(), 1.0)
        weights = (1 - step) * state.weights
        weights = weights.at[state.rounds % len(weights)].set(step)
        plan = self.plan(state.counts, mixture, state.policies.shape[1])
        following = (state.rounds + 1) % len(weights)
        return state._replace(
            policies=state.policies.at[following].set(plan.argmax(-1).astype(jnp.int32)),
            weights=weights.at[following].set(0.0),
            mixture=mixture,
            seen=jnp.zeros_like(state.seen),
            ended=jnp.zeros(()),
            rounds=state.rounds + 1,
        )

    def plan(self, counts: Counts, mixture: Float[Array, " state"], horizon: int) -> Plan:
        """Return the best plan for visiting states that the mixture lacks."""
        smooth = mixture + self.smoothing
        reward = -jnp.log(smooth) - mixture / smooth
        reward = reward - reward.min()  # an episode that ends early must not be better than one that goes on
        transition, _ = counts.model()
        # What was never tried is believed to stay where reward is highest, to the end: all of that at once, as the
        # model has it lead nowhere.
        left = jnp.arange(horizon, 0, -1.0)[:, None, None]
        paid = jnp.where(counts.taken > 0, reward[:, None], left * reward.max())
        return tabular.backward(transition, paid, horizon, jnp.inf)
