"""Self-play: the agent plays one seat of each game, and selves of its past play the others."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.core import spaces
from forage.core.ports import ActContext, ActInputs, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Choices, Needs
from forage.core.types import AGENT, OPPONENT, Experience, ForageError, Spec

OPPONENTS = ("past", "random")


class Pool(NamedTuple):
    """The past selves, and the key to draw each game's opponent."""

    selves: Any  # states of the agent, leaves `self ...`, oldest first
    count: Int[Array, ""]  # how many there are so far
    key: Key[Array, ""]


class Game(NamedTuple):
    """The behaviour's memory within an episode."""

    goes_on: Bool[Array, ""]  # it was drawn at a step before
    learner: Bool[Array, ""]  # this seat is the agent's own
    rival: Int[Array, ""]  # which past self plays the other seats
    memory: PyTree[Array]  # of that past self


class SelfPlay(Behaviour):
    """In each episode one seat, drawn at random, is the agent's own; a self of its past plays all others.

    The pool gets a copy of the agent after each 1 / `snapshots` of the run; the first is an untrained one. With n
    selves in it, each episode draws one uniformly from number floor(`recent` n) on: all with `recent` 0, the newest
    with 1. Seats and past selves are drawn from a key that all seats of an environment share.

    What opponents do is no experience of the agent's: `Experience.source` says OPPONENT, so neither policies nor values
    learn from it. What comes of an opponent's move reaches the agent at the steps at which it waits.

    `opponents="random"` lets moves at random, among those allowed, take the place of the past selves.

    Source: Bansal, Pachocki, Sidor, Sutskever, Mordatch (2018), "Emergent Complexity via Multi-Agent Competition",
    arXiv 1710.03748, where opponents come from Uniform(delta v, v) of all v iterations so far. Here a pool of fixed
    size stands for these, spread evenly over the run; one network plays every seat, each episode draws an opponent.
    """

    example: ClassVar[str] = "forage train ppo boards:TicTacToe --behaviour self-play"
    own_choices: ClassVar[str] = "`snapshots`, the size of the pool"

    opposes: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(
        agents="team",
        ability="stochastic",
        reason="draws no actions from a policy of its own, by which an agent explores in self-play",
        instead="ppo and reinforce do",
    )
    choices: ClassVar[Choices] = {"opponents": OPPONENTS}

    recent: float = 0.0  # share of the past, from its beginning, that no opponent is drawn from: the paper's delta;
    # 0 draws from all of the past
    snapshots: int = equinox.field(static=True, default=20)  # past selves that are kept, evenly over the run; ours
    opponents: str = equinox.field(static=True, default="past")  # past: the agent's past selves; random: random moves

    def check(self, agent: Agent, spec: Spec) -> None:
        if spaces.present(spaces.example(spec.observation_space)) is None:
            raise ForageError(
                f'Self-play needs agents that are told whether they act ("{spaces.PRESENT}" beside the observation), '
                f"as in boards:TicTacToe; {spec.name} shows {spec.observation_space}."
            )

    def init(self, key: Key[Array, ""], agent: Agent, spec: Spec) -> Pool:
        agent_key, key = jax.random.split(key)
        kept = self.snapshots if self.opponents == "past" else 0
        first = agent.init(agent_key, spec)
        selves = jax.tree.map(lambda x: jnp.broadcast_to(x, (kept, *x.shape)), first)
        return Pool(selves, jnp.int32(1), key)

    def init_hidden(self, agent: Agent, spec: Spec) -> Game:
        return Game(jnp.bool_(False), jnp.bool_(False), jnp.int32(0), agent.init_hidden(spec))

    def draw(self, pool: Pool, moment: ActContext) -> tuple[Bool[Array, ""], Int[Array, ""]]:
        """Return whether the seat is the agent's own, and the past self of the others, in a game that begins now."""
        env, seat = jnp.divmod(moment.stream_index, moment.spec.num_agents)
        key = jax.random.fold_in(jax.random.fold_in(pool.key, moment.clock.steps), env)
        seat_key, rival_key = jax.random.split(key)
        own = jax.random.randint(seat_key, (), 0, moment.spec.num_agents)
        oldest = jnp.minimum(jnp.floor(self.recent * pool.count).astype(jnp.int32), pool.count - 1)
        return seat == own, jax.random.randint(rival_key, (), oldest, pool.count)

    def act(self, state: Pool, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        agent, own_key = moment.agent, moment.key
        before: Game = hidden.behaviour
        learner, rival = self.draw(state, moment)
        learner = jnp.where(before.goes_on, before.learner, learner)
        rival = jnp.where(before.goes_on, before.rival, rival)
        own, memory, policy_info = agent.act(
            moment.agent_state, ActInputs(hidden.agent, observation, own_key, explore=True)
        )
        rival_key, theirs = jax.random.fold_in(own_key, 1), before.memory
        if self.opponents == "past":
            past = jax.tree.map(lambda x: x[rival], state.selves)
            other, theirs, _ = agent.act(past, ActInputs(theirs, observation, rival_key, explore=True))
            theirs = agent.observe_action(past, theirs, other)
        else:
            other = spaces.sample(moment.spec.action_space, rival_key, spaces.split_mask(observation)[1])
        action = jax.tree.map(lambda own, other: jnp.where(learner, own, other).astype(own.dtype), own, other)
        game = Game(jnp.bool_(True), learner, rival, theirs)
        source = jnp.where(learner, AGENT, OPPONENT).astype(jnp.int32)
        return Decision(action, HiddenState(memory, game), policy_info, source, behaviour_info=rival)

    def report(self, state: Pool, rollout: Experience, moment: ActContext) -> Pool:
        """Keep a copy of the agent if the next share of the run is over."""
        if self.opponents == "random":
            return state
        due = (state.count < self.snapshots) & (moment.clock.fraction * self.snapshots >= state.count)
        place = jnp.minimum(state.count, self.snapshots - 1)
        selves = jax.tree.map(
            lambda kept, now: kept.at[place].set(jnp.where(due, now, kept[place])), state.selves, moment.agent_state
        )
        return state._replace(selves=selves, count=state.count + due)
