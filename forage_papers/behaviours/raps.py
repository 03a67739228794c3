"""Robust active policy selection: the learner begins an episode, and the policy that seems best there continues."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from forage.core.ports import ActContext, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import AGENT, GUIDE, ForageError, Spec


class RollState(NamedTuple):
    """The behaviour's memory within an episode."""

    time: Int[Array, ""]  # steps taken
    hands_over: Bool[Array, ""]  # another policy goes on in this episode; settled at its first step
    switch: Int[Array, ""]  # steps of the learner before that
    chosen: Int[Array, ""]  # that policy, once the episode has come there


class RAPS(Behaviour):
    """The learner acts for t steps, and then the policy that `rpi` selects there, to the end of the episode.

    A share of episodes is played so, with t drawn evenly from 1 ... H - 1, H being the most steps of an episode, for
    the values of what goes on; in all others the learner acts throughout, for its own value and policy. Oracles act by
    `GUIDE`, and `Experience.policy_info` says which policy acted, as `rpi` numbers them. In the first `pretraining`
    steps of a run an oracle, each as likely as the other, acts from the first step of every episode.

    Source: Liu, Yoneda, Stevens, Walter, Chen (2024), "Blending Imitation and Reinforcement Learning for Robust Policy
    Improvement", arXiv 2310.01737 (algorithm 1, which plays one episode of each kind in turn). That oracles play whole
    episodes first is what the authors' program of the method before does (ripl/maps: 8 episodes of each); whether they
    do so here could not be looked up.
    """

    example: ClassVar[str] = "forage train rpi Pendulum-v1 --oracles runs/early,runs/other --behaviour raps"
    ranges: ClassVar[Ranges] = {"share": Range(0, 1), "pretraining": Range(0), "latest": Range(0)}
    needs: ClassVar[Needs] = Needs(
        ability="select_policy",
        reason="has no oracles that could take over",
        instead="rpi has, and guide is a behaviour with one teacher for other agents",
    )

    share: float = 0.5  # share of episodes in which the selected policy takes over; more know the oracles better, and
    # leave the learner less to learn from
    pretraining: int = 8192  # steps of a run in which oracles alone act; more know them better before the first choice
    latest: int = equinox.field(static=True, default=0)  # steps of an episode before which the switch is drawn; 0: the
    # most that an episode has

    def check(self, agent: Agent, spec: Spec) -> None:
        if self.latest == 1 or not (self.latest or spec.horizon):
            raise ForageError(
                f"The switch to another policy is drawn from the steps of an episode, and {spec.name} says of no end; "
                f"give --behaviour.latest 2 or more."
            )

    def init_hidden(self, agent: Agent, spec: Spec) -> RollState:
        return RollState(jnp.int32(0), jnp.bool_(False), jnp.int32(0), jnp.int32(0))

    def act(self, state: Any, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        agent: Any = moment.agent
        own_key, share_key, switch_key, oracle_key = jax.random.split(moment.key, 4)
        rolled: RollState = hidden.behaviour

        # What kind of episode it is
        begins = rolled.time == 0
        before = moment.clock.steps < self.pretraining
        hands_over = before | jax.random.bernoulli(share_key, self.share)
        limit = self.latest or moment.spec.horizon or 2
        switch = jnp.where(before, 0, jax.random.randint(switch_key, (), 1, max(limit, 2)))
        hands_over = jnp.where(begins, hands_over, rolled.hands_over)
        switch = jnp.where(begins, switch, rolled.switch)

        # Who goes on
        anyone = jax.random.randint(oracle_key, (), 0, agent.learner)
        best = jnp.where(switch == 0, anyone, agent.select_policy(moment.agent_state, observation))
        chosen = jnp.where(rolled.time == switch, best, rolled.chosen).astype(jnp.int32)
        over = hands_over & (rolled.time >= switch)
        policy = jnp.where(hands_over, jnp.where(over, chosen, agent.roll_in), agent.learner).astype(jnp.int32)

        own, memory, _ = moment.own(hidden.agent, observation, own_key)
        leads = policy < agent.learner
        asked = agent.oracle_actions(moment.agent_state, observation)
        led = jax.tree.map(lambda x: x[jnp.minimum(policy, agent.learner - 1)], asked)
        action = jax.tree.map(lambda led, own: jnp.where(leads, led, own).astype(own.dtype), led, own)
        source = jnp.where(leads, GUIDE, AGENT).astype(jnp.int32)
        after = RollState(rolled.time + 1, hands_over, switch, chosen)
        return Decision(action, HiddenState(memory, after), policy, source)
