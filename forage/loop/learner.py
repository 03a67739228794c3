"""The learner: the half of the loop that both runners share, which remembers and learns, and its reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import mesh, prng, spaces, team
from forage.core.ports import (
    ActContext,
    ActInputs,
    Agent,
    Behaviour,
    Decision,
    Environment,
    HiddenState,
    Memory,
    Metrics,
    Part,
    Rewards,
    ValueEstimates,
    World,
)
from forage.core.schedule import at_fraction
from forage.core.types import AGENT, BONUS, GONE, NOBODY, OPPONENT, OUTCOME, Batch, Clock, Experience, Spec
from forage.loop.needs import check_learner

State = Any
IN_UNITS = ("value", "advantage")  # endings of metrics that are in the units of the reward
START_METRICS = ("value", "q", "action_value", "advantage")
"""Metrics of agents that are values, which are also measured at the starts of held episodes."""


class Learner(Part):
    """Remembers and learns: the handling of a rollout, on the device and on the host."""

    agent: Agent
    behaviour: Behaviour
    rewards: Rewards
    memory: Memory
    spec: Spec = equinox.field(static=True)

    def check(self, environment: Environment | None = None) -> None:
        """Raise `ForageError` if parts and environment do not fit together. `None`: it is on the host."""
        check_learner(self, environment)

    @property
    def joint(self) -> bool:
        """Return whether memory and agent get the transitions of whole teams, with the axis `agent`."""
        return self.agent.joint and self.spec.num_agents > 1

    def init(
        self, key: Key[Array, ""], environment: Environment | None = None, start_id: PyTree[Array] = ()
    ) -> LearnerState:
        """Make the first state. `environment`: as in `check`. `start_id`: an example of `Experience.start_id`."""
        now = at_fraction(self, 0.0)
        keys = jax.random.split(key, 3)
        agent_state = now.init_agent(keys[0])
        behaviour_state = now.behaviour.init(keys[1], now.agent, now.spec)
        streams = now.agent.num_envs * now.spec.num_agents
        example = now.example(agent_state, behaviour_state, start_id, environment)
        example = example._replace(behaviour_info=(), rewards_info=now.rewards.example_info(now.spec))
        if now.memory.tells_returns:
            example = example._replace(return_to_go=jnp.zeros(()))
        if now.joint:
            example = team.repeat(example, now.spec.num_agents)
        rows = now.agent.num_envs if now.joint else streams
        return LearnerState(
            agent_state,
            behaviour_state,
            now.rewards.init(keys[2], now.spec, streams),
            now.memory.init(example, rows, now.agent.rollout_length, now.spec, environment),
        )

    def init_agent(self, key: Key[Array, ""]) -> State:
        """Make the agent's first state."""
        now = at_fraction(self, 0.0)
        state, data = now.agent.init(key, now.spec), now.memory.transitions
        return now.agent.init_from_dataset(state, data) if isinstance(data, Experience) else state

    def example(
        self,
        agent_state: State,
        behaviour_state: State,
        start_id: PyTree[Array] = (),
        environment: Environment | None = None,
    ) -> Experience:
        """Return a zero transition of one agent, with the shapes and dtypes of a rollout."""
        now = at_fraction(self, 0.0)
        observation = spaces.example(now.spec.observation_space)

        def decide() -> Decision:
            hidden = HiddenState(now.agent.init_hidden(now.spec), now.behaviour.init_hidden(now.agent, now.spec))
            moment = ActContext(now.agent, agent_state, now.spec, Clock(jnp.int32(0), jnp.float32(1)), prng.key(0))
            if now.agent.looks_ahead and environment is not None:
                moment = moment._replace(world=World(environment, environment.reset(prng.key(0))[0]))
            return now.behaviour.act(behaviour_state, hidden, observation, moment)

        decision = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(decide))
        names = now.spec.reward_names
        return Experience(
            observation=observation,
            action=decision.action,
            reward=jnp.zeros((len(names),) if names else ()),
            next_observation=observation,
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
            source=jnp.int32(AGENT),
            policy_info=decision.policy_info,
            behaviour_info=decision.behaviour_info,
            info={name: jnp.zeros(()) for name in now.spec.info_names},
            start_id=jax.tree.map(jnp.zeros_like, start_id),
            version=jax.tree.map(jnp.zeros_like, now.agent.version(agent_state)),
        )

    @property
    def learning_starts(self) -> int:
        """Return the environment steps before the first update: the agent's, and those that the memory holds back."""
        each, held = self.agent.num_envs * self.agent.rollout_length, self.memory.waiting_rollouts
        return max(self.agent.learning_starts, (held + 1) * each if held else 0)

    def act(
        self,
        state: LearnerState,
        hidden: HiddenState,
        observation: PyTree[Array],
        clock: Clock,
        key: Key[Array, ""],
        env: Int[Array, ""],
        world: World | None = None,
    ) -> Decision:
        """Choose the actions in environment number `env`, and tell the agents' memories of them.

        Where the behaviour intervenes on the host, the host tells them. `world`: that environment as it stands, where
        it is native.
        """
        now = at_fraction(self, clock.fraction)

        def one(
            hidden: HiddenState, observation: PyTree[Array], key: Key[Array, ""], agent: Int[Array, ""]
        ) -> Decision:
            who = env * now.spec.num_agents + agent
            ahead = world if now.agent.looks_ahead else None
            moment = ActContext(now.agent, state.agent, now.spec, clock, key, who, ahead)
            decision = now.behaviour.act(state.behaviour, hidden, observation, moment)
            source = decision.source
            if (present := spaces.present(observation)) is not None:
                waits = jnp.where(source == OPPONENT, OPPONENT, NOBODY)
                source = jnp.where(present == 1, source, jnp.where(present == 0, waits, GONE))
            decision = decision._replace(source=source)
            if now.behaviour.on_host:
                return decision
            return decision._replace(hidden=now.observe_action(state, decision.hidden, decision.action))

        return now.by_agent(one)(hidden, observation, key)

    def observe_action(self, state: LearnerState, hidden: HiddenState, action: PyTree[Array]) -> HiddenState:
        """Tell the memory of one agent which action was taken."""
        return hidden._replace(agent=self.agent.observe_action(state.agent, hidden.agent, action))

    def observe_reward(self, state: LearnerState, hidden: PyTree[Array], reward: Float[Array, " env"]) -> PyTree[Array]:
        """Update the memories of agents (leaves `env ...`) with the rewards of their steps, for an agent that
        `return_conditioned`.
        """
        if not self.agent.return_conditioned:
            return hidden
        return jax.vmap(at_fraction(self, 1.0).agent.observe_reward, in_axes=(None, 0, 0))(state.agent, hidden, reward)

    def by_agent(self, act: Callable[..., Any]) -> Callable[..., Any]:
        """Map `act(hidden, observation, key, agent)` of one agent over all agents of one environment."""
        agents = self.spec.num_agents
        if agents == 1:
            return lambda hidden, observation, key: act(hidden, observation, key, jnp.int32(0))
        return lambda hidden, observation, key: jax.vmap(act)(
            hidden, observation, jax.random.split(key, agents), jnp.arange(agents)
        )

    def init_hidden(self, explore: bool = True) -> PyTree[Array]:
        """Return the memory of one environment at the start of an episode; `explore=False`: in evaluation."""
        memory = initial_memory(self.agent, self.spec)
        if not explore:
            return memory
        return HiddenState(memory, team.repeat(self.behaviour.init_hidden(self.agent, self.spec), self.spec.num_agents))

    def play(
        self,
        state: LearnerState,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        key: Key[Array, ""],
        sampled: bool | Bool[Array, ""] = False,
        world: World | None = None,
    ) -> tuple[PyTree[Array], PyTree[Array]]:
        """Return the action in evaluation, and the memory after it; `sampled`: drawn as in training.

        `world`: as in `act`. Schedules count as they end.
        """
        now = at_fraction(self, 1.0)

        def one(hidden: PyTree[Array], observation: PyTree[Array], key: Key[Array, ""], _: Int[Array, ""]):
            def act(explore: bool, greedy: Bool[Array, ""] | None = None) -> tuple[PyTree[Array], PyTree[Array]]:
                inputs = ActInputs(hidden, observation, key, explore, world=world, greedy=greedy)
                return now.agent.act(state.agent, inputs)[:2]

            if now.agent.follows_greedy():
                action, after = act(True, ~jnp.asarray(sampled))
            elif isinstance(sampled, bool):
                action, after = act(sampled)
            else:  # XLA computes once what both share, which is the network
                action, after = choose_tree(sampled, act(True), act(False))
            return action, now.agent.observe_action(state.agent, after, action)

        return now.by_agent(one)(hidden, observation, key)

    def learn(
        self, state: LearnerState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LearnerState, Metrics]:
        """Remembers a rollout (leaves `time env *agent ...`) and learns. `clock` reads as when the rollout began.

        Metrics are means over the updates made; all are zero, and `updates` too, before `learning_starts`.
        """
        now = at_fraction(self, clock.fraction)
        reward_key, sample_key, learn_key = jax.random.split(key, 3)
        behaviour_key = jax.random.fold_in(key, prng.BEHAVIOUR)
        agents = now.spec.num_agents
        rollout = acted = team.as_agent_batch(rollout, agents)
        moment = ActContext(now.agent, state.agent, now.spec, clock, behaviour_key)
        behaviour_state = now.behaviour.report(state.behaviour, rollout, moment)
        rollout = rollout._replace(behaviour_info=())
        heard = name_rewards(rollout, now.spec)
        rewards_state, rewards_info, reward_metrics = now.reward(state, heard, clock, reward_key)
        rollout = now.by_team(rollout._replace(rewards_info=rewards_info))
        if now.memory.tells_returns:
            rollout = rollout._replace(return_to_go=now.relabel(rewards_state, rollout).reward)
        memory_state = now.memory.add(state.memory, rollout, now.rows(clock))
        if now.memory.needs_estimates:
            estimates = now.value_estimates(state.agent, rewards_state, rollout)
            memory_state = now.memory.rate(memory_state, estimates, now.rows(clock))
        agent_state = state.agent
        if type(now.agent).observe is not Agent.observe:
            agent_state = now.agent.observe(agent_state, now.relabel(rewards_state, rollout))
        clock = clock._replace(steps=clock.steps + rollout.terminated.size // agents)

        def update(
            carry: tuple[State, State], sample_key: Key[Array, ""], learn_key: Key[Array, ""]
        ) -> tuple[tuple[State, State], Metrics]:
            return now.update(carry, rewards_state, clock, sample_key, learn_key)

        carry, updates, due = (
            (agent_state, memory_state),
            now.agent.updates_per_rollout,
            now.agent.num_updates(agent_state),
        )
        ready = now.memory.is_ready(memory_state)
        if updates == 1 and due is None and ready is None and not now.learning_starts:
            carry, metrics = update(carry, sample_key, learn_key)
            metrics = metrics | {"updates": jnp.float32(1)}
        else:
            # A loop of no turns before `learning_starts` rather than a `cond`, whose branches work on copies: of what
            # a memory writes in `report`, all of it would be copied at every update. The clock is shared by all seeds,
            # so the number of turns is one number under `vmap` too. The key must depend on the turn: XLA would move
            # sampling out of the loop if it did not, and there fuse it with `add`, which then works on a copy as well.
            # Where the agent says how many are due, seeds may differ, and all that the loop carries is copied at each
            # turn, unless the agent says that they are `alike`.
            count = jnp.where(clock.steps >= now.learning_starts, updates if due is None else due, 0)
            count = count if ready is None else jnp.where(ready, count, 0)
            shapes = jax.eval_shape(update, carry, sample_key, learn_key)[1]
            nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

            def turn(i: Int[Array, ""], loop: tuple[tuple[State, State], Metrics]):
                carry, metrics = update(loop[0], jax.random.fold_in(sample_key, i), jax.random.fold_in(learn_key, i))
                return carry, jax.tree.map(jnp.add, loop[1], metrics)

            carry, total = jax.lax.fori_loop(0, count, turn, (carry, nothing))
            made = updates if due is None and ready is None else jnp.maximum(count, 1)
            metrics = jax.tree.map(lambda x: x / made, total) | {"updates": count.astype(jnp.float32)}
        learned = LearnerState(carry[0], behaviour_state, rewards_state, now.memory.after_updates(carry[1]))
        return learned, metrics | reward_metrics | now.share_at_bounds(acted)

    def share_at_bounds(self, rollout: Experience) -> Metrics:
        """Return the share of numbers of a rollout's actions at a bound or beyond; no metric without bounded numbers.

        At a bound is within a thousandth of the range. Leaves of `rollout` are `time batch ...`.
        """
        space, action = self.spec.action_space, rollout.action
        if isinstance(space, spaces.MixedSpace):
            space, action = space.numbers, action[..., space.split :]
        if not spaces.is_bounded_box(space):
            return {}
        low, high = jnp.asarray(space.low), jnp.asarray(space.high)  # pyrefly: ignore[missing-attribute]
        margin = (high - low) / 1000
        at = ((action <= low + margin) | (action >= high - margin)).reshape(*rollout.counts.shape, -1).mean(-1)
        return {"actions_at_bounds": (at * rollout.counts).sum() / jnp.maximum(rollout.counts.sum(), 1)}

    def reward(
        self, state: LearnerState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[State, PyTree[Array], Metrics]:
        """Return the result of `Rewards.learn` for a rollout; a part that `asks` gets the agent that acted in it."""

        def policy(observation: PyTree[Array], action: PyTree[Array]) -> Float[Array, " row"]:
            return self.agent.log_probability(state.agent, observation, action)

        asked: dict[str, Any] = {"policy": policy} if self.rewards.asks else {}
        return self.rewards.learn(state.rewards, rollout, clock, key, **asked)

    def update(
        self,
        carry: tuple[State, State],
        rewards_state: State,
        clock: Clock,
        sample_key: Key[Array, ""],
        learn_key: Key[Array, ""],
        upcoming: Key[Array, ""] | None = None,
    ) -> tuple[tuple[State, State], Metrics]:
        """Learn from one batch. Carries the states of agent and memory; `clock` reads as after the newest rollout."""
        agent_state, memory_state = carry
        moment = ActContext(self.agent, agent_state, self.spec, self.rows(clock), sample_key, upcoming=upcoming)
        size, length = self.agent.batch_size, self.agent.segment
        memory_state = self.memory.advance(memory_state, size, length, moment)
        batch = self.memory.sample(memory_state, size, length, moment)
        experience = self.relabel(rewards_state, batch.experience)
        batch = batch._replace(experience=mesh.split_leaves(experience, 1))
        agent_state, metrics, errors = self.agent.learn(agent_state, batch, clock, learn_key)
        renew_key = jax.random.fold_in(learn_key, prng.RENEWAL)
        agent_state, more = self.agent.reset_networks(agent_state, batch, renew_key, self.spec)
        return (agent_state, self.memory.report(memory_state, batch, errors)), self.in_units(metrics) | more

    def in_units(self, metrics: Metrics) -> Metrics:
        """Return metrics with values and advantages in the units of the environment's reward."""
        if (unit := self.rewards.unit) is None:
            return metrics
        return {name: x * unit if name.endswith(IN_UNITS) else x for name, x in metrics.items()}

    def measure(self, state: LearnerState, clock: Clock) -> Metrics:
        """Return the agent's metrics on the held episodes of a data set, and those of values at their starts.

        They are means over the same batches each time (`Memory.held_batches`); empty without held episodes.
        """
        now = at_fraction(self, clock.fraction)
        held, starts = now.memory.validation, now.memory.validation_starts
        if held is None:
            return {}
        size, length = now.agent.batch_size, now.agent.segment
        count = held.held_batches(size)
        batches = []
        for number, key in enumerate(jax.random.split(prng.key(prng.HELD), count)):
            moment = ActContext(now.agent, state.agent, now.spec, now.rows(clock), key)
            batches.append(held.sample(number, size, length, moment))
        if starts is not None and length == 1:
            index = jnp.arange(size) % len(starts.reward)
            experience = jax.tree.map(lambda x: x[index][None], starts)
            batches.append(Batch(experience, jnp.ones(size), index))

        def one(batch: Batch) -> Metrics:
            batch = batch._replace(experience=now.relabel(state.rewards, batch.experience))
            return now.in_units(now.agent.measure(state.agent, batch, clock, prng.key(prng.HELD)))

        found = jax.lax.map(one, jax.tree.map(lambda *x: jnp.stack(x), *batches))
        means = {f"validation/{name}": x[:count].mean(0) for name, x in found.items()}
        if len(batches) == count:
            return means
        return means | {f"start/{name}": x[-1] for name, x in found.items() if name in START_METRICS}

    def study(
        self, state: LearnerState, clock: Clock, key: Key[Array, ""], next_key: Key[Array, ""]
    ) -> tuple[LearnerState, Metrics]:
        """Learn from one batch of an `offline` memory, which is never added to. `next_key`: that of the next call."""
        now = at_fraction(self, clock.fraction)
        sample_key, learn_key = jax.random.split(key)
        upcoming = jax.random.split(next_key)[0]
        carry, metrics = now.update((state.agent, state.memory), state.rewards, clock, sample_key, learn_key, upcoming)
        return state._replace(agent=carry[0], memory=carry[1]), metrics | {"updates": jnp.float32(1)}

    def relabel(self, rewards_state: State, experience: Experience) -> Experience:
        """Return experience with the rewards that the agent learns from. The rewards part always sees streams."""
        if self.joint:
            experience = team.as_agent_batch(experience, self.spec.num_agents)
        outcome = experience.reward
        experience = select_reward_heads(
            self.rewards.relabel(rewards_state, name_rewards(experience, self.spec)), self.agent.reward_heads
        )
        if self.agent.outcomes:
            experience = experience._replace(rewards={**experience.rewards, OUTCOME: outcome})
        return self.by_team(experience)

    def by_team(self, experience: Experience) -> Experience:
        """Return streams (leaves `time stream ...`) as memory and agent get them."""
        return team.as_team(experience, self.spec.num_agents) if self.joint else experience

    def rows(self, clock: Clock) -> Clock:
        """Return the clock as a memory reads it: one row for each agent's transition, or for the whole team's."""
        agents = 1 if self.joint else self.spec.num_agents
        return clock if agents == 1 else Clock(clock.steps * agents, clock.total * agents)

    def value_estimates(self, agent_state: State, rewards_state: State, rollout: Experience) -> ValueEstimates:
        """Return the agent's estimates of a rollout, leaves `time stream`."""
        return self.agent.estimate(agent_state, self.relabel(rewards_state, rollout))

    def estimate(self, state: LearnerState, rollout: Experience, clock: Clock, key: Key[Array, ""]) -> ValueEstimates:
        """Return the agent's estimates of a rollout (leaves `time env *agent ...`), its mean over many agents.

        State, clock and key are those that `learn` gets. Rewards are as `learn` will see them, once their part has
        learned from the rollout; in one program XLA computes once what both share.
        """
        now = at_fraction(self, clock.fraction)
        agents = now.spec.num_agents
        rollout = team.as_agent_batch(rollout, agents)._replace(behaviour_info=())
        heard, reward_key = name_rewards(rollout, now.spec), jax.random.split(key, 3)[0]
        rewards_state, rewards_info, _ = now.reward(state, heard, clock, reward_key)
        estimates = now.value_estimates(
            state.agent, rewards_state, now.by_team(rollout._replace(rewards_info=rewards_info))
        )
        if agents == 1 or now.joint:
            return estimates
        return jax.tree.map(lambda x: x.reshape(len(x), -1, agents).mean(-1), estimates)

    def truncate(self, state: LearnerState, clock: Clock) -> LearnerState:
        """Truncate the unfinished episodes, which were lost. `clock` reads as it does after the newest rollout."""
        now = at_fraction(self, clock.fraction)
        return state._replace(
            agent=now.agent.truncate(state.agent),
            behaviour=now.behaviour.truncate(state.behaviour, now.agent, clock),
            rewards=now.rewards.truncate(state.rewards),
            memory=now.memory.truncate(state.memory, now.rows(clock)),
        )


def initial_memory(agent: Agent, spec: Spec) -> PyTree[Any]:
    """Return the memory of the agents of one environment at the start of an episode, leaves `*agent ...`."""
    many = team.repeat(agent.init_hidden(spec), spec.num_agents)
    if not agent.joint or spec.num_agents == 1:
        return many
    return jax.vmap(agent.member)(many, jnp.arange(spec.num_agents))


def name_rewards(experience: Experience, spec: Spec) -> Experience:
    """Add each of the environment's several rewards by name to their vector."""
    each = {name: experience.reward[..., i] for i, name in enumerate(spec.reward_names)}
    return experience._replace(rewards=each)


def select_reward_heads(experience: Experience, streams: tuple[str, ...]) -> Experience:
    """Keep the streams that an agent takes, and add a bonus that it does not take to the reward."""
    rewards = experience.rewards
    if BONUS in rewards and BONUS not in streams:
        experience = experience._replace(reward=experience.reward + rewards[BONUS])
    return experience._replace(rewards={name: rewards[name] for name in streams if name in rewards})


class LearnerState(NamedTuple):
    agent: State
    behaviour: State
    rewards: State
    memory: State


class Episodes(NamedTuple):
    """Totals over the episodes that ended, to make means of."""

    count: Float[Array, ""]
    episode_return: Float[Array, "*objectives"]
    length: Float[Array, ""]


class ChunkStats(NamedTuple):
    """The contribution of one turn of the loop to a report; of many turns, their sum."""

    episodes: Episodes
    metrics: Metrics  # sums over the updates made, and `updates`
    faults: Float[Array, ""]  # turns in which the environment returned NaN or infinity
    infos: dict[str, tuple[Array, Array]] = {}  # see `Report`


class Report(NamedTuple):
    """The report on a chunk, for one seed."""

    episodes: Episodes
    metrics: Metrics  # means over the updates made
    environment_finite: Bool[Array, ""]
    agent_finite: Bool[Array, ""]
    latest: Metrics = {}  # what holds at its end, such as where the agent has been so far
    infos: dict[str, tuple[Array, Array]] = {}  # of episodes' last steps: sums of what the environment says, and counts


def choose_tree(first: Bool[Array, ""], yes: PyTree[Array], no: PyTree[Array]) -> PyTree[Array]:
    """Return one of two trees, leaf by leaf."""
    return jax.tree.map(lambda yes, no: jnp.where(first, yes, no), yes, no)


def where_tree(ended: Bool[Array, "env *agent"], yes: PyTree[Array], no: PyTree[Array]) -> PyTree[Array]:
    """`where`, leaf by leaf, over the leading axes. Zero may stand for either tree."""
    if isinstance(yes, int):
        return where_tree(~ended, no, yes)
    if isinstance(no, int):
        no = jax.tree.map(jnp.zeros_like, yes)

    def leaf(yes: Array, no: Array) -> Array:
        return jnp.where(ended.reshape(ended.shape + (1,) * (no.ndim - ended.ndim)), yes, no)

    return jax.tree.map(leaf, yes, no)


def finite(tree: PyTree[Array]) -> Bool[Array, ""]:
    """Return whether every floating-point number in `tree` is finite."""
    flags = [jnp.isfinite(x).all() for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.stack(flags).all() if flags else jnp.bool_(True)
