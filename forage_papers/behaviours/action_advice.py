"""LESSON: learn the option of exploration to follow, and its duration."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import spaces
from forage.core.ports import ActContext, Agent, Behaviour, Decision, HiddenState
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Clock, Experience, Spec
from forage.nn.distributions import Actions
from forage.nn.networks import MLP, Torso
from forage.nn.normalise import RunningNorm
from forage.ops.action_values import best_action, take_values
from forage.ops.optimiser import Optimiser, adam
from forage.ops.ring import Ring, empty_ring, oldest, read_segments, stored_transitions, truncate, write_rollout

OPTIONS = ("agent", "random", "repeat", "novelty")


class Head(equinox.Module):
    """From an observation to some numbers."""

    torso: Torso
    top: MLP

    def __init__(self, key: Key[Array, ""], spec: Spec, lesson: ActionAdvice, outputs: int):
        torso_key, top_key = jax.random.split(key)
        self.torso = Torso(torso_key, spec.observation_space, lesson.hidden_sizes, "relu", 2**0.5)
        self.top = MLP(top_key, (self.torso.size, self.torso.size, outputs), "relu", 2**0.5)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " outputs"]:
        return self.top(self.torso(observation))


class Networks(NamedTuple):
    """All trained networks."""

    options: Head  # values of the options
    terminations: Head  # logits of ending each
    explorer: Head  # values of actions, for novelty alone
    predictor: Head


class LessonState(NamedTuple):
    networks: Networks
    target: Networks
    fixed: Head  # what the predictor predicts
    optimiser: Any
    novelty: RunningNorm
    ring: Ring  # `rewards_info`: the option followed, and how new what it led to was
    updates: Int[Array, ""]


class AdviceState(NamedTuple):
    """The behaviour's memory within an episode."""

    begun: Bool[Array, ""]
    option: Int[Array, ""]
    repeated: Int[Array, ""]  # the action of `repeat`, drawn when an option begins


class ActionAdvice(Behaviour):
    """Options that are whole ways of exploring, chosen and ended by an option-critic.

    The options: the agent's own action; a uniform one at each step; one uniform action, repeated; and the best one for
    novelty i alone, by deep Q-learning on the error of a predictor of a random network (Burda et al., 2018), less its
    mean so far and divided by its spread. At each step the option o that is followed ends with probability
    sigmoid(l(s, o)), between 0.1 and 0.9, and another is drawn in proportion to exp(sharpness Q(s, .) / max(1, max Q(s,
    .))), each between 0.05 and 0.95; the agent's own has what the others leave of 1, and where they leave less than
    nothing the last of them give way. From replayed transitions, with R = reward_scale r + novelty_scale i and end
    e(s, o),

        Q(s, o) goes to R + discount ((1 - e(s', o)) Q'(s', o) + e(s', o) max Q'(s', .))
        e(s, o) goes down e(s, o) (A(s, o) - mean A),      A = Q'(s, o) - max Q'(s, .)

    so an option ends where others are worth more. The agent learns of reward as always. Evaluation plays the agent
    alone.

    Bounds, sharpness and reward_scale are those of the authors' code, where novelty_scale must be given. That code has
    RMSprop at 1e-4, batches of 256, a memory of 500,000 and an update in 10 steps, and trains novelty's values on 10 i,
    the agent on 10 r. There ends are one linear layer on the embedding that is trained for the options' values too; the
    predictor, trained by Adam at 1e-4, and the random network are small heads on an encoder that is never trained; and
    i is remembered with the mean and spread of when it was met, where here each replay takes those of now.

    Source: Kim, Kim, Sung (2023), "LESSON: Learning to Integrate Exploration Strategies for Reinforcement Learning via
    an Option Framework", arXiv 2310.03342.
    """

    example: ClassVar[str] = "forage train dqn DeepSea-10 --behaviour action-advice"
    ranges: ClassVar[Ranges] = {"novelty_scale": Range(0), "reward_scale": Range(0), "sharpness": Range(0)}
    needs: ClassVar[Needs] = Needs(actions="numbered", observations="any", one_reward=True, off_policy=True)

    learning_rate: float = 1e-3
    discount: float = 0.99
    sharpness: float = 50.0  # how far options of higher value are preferred; larger is greedier
    reward_scale: float = 10.0  # factor of reward in what options are worth
    novelty_scale: float = 0.01  # factor of novelty in what options are worth; larger explores more
    capacity: int = equinox.field(static=True, default=20_000)  # newest transitions kept to learn options from
    batch_size: int = equinox.field(static=True, default=64)
    target_update_interval: int = equinox.field(static=True, default=100)  # reports between two updates of the target
    # networks; more are steadier and slower
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64,))  # units of each hidden layer, where
    # observations are no images
    embedding_size: int = equinox.field(static=True, default=16)

    def init(self, key: Key[Array, ""], agent: Agent, spec: Spec) -> LessonState:
        actions = Actions.from_space(spec.action_space).outputs
        sizes = (len(OPTIONS), len(OPTIONS), actions, self.embedding_size, self.embedding_size)
        keys = jax.random.split(key, len(sizes))
        *heads, fixed = (Head(key, spec, self, size) for key, size in zip(keys, sizes, strict=True))
        networks = Networks(*heads)
        seen = spaces.example(spec.observation_space)
        nothing, no = jnp.int32(0), jnp.bool_(False)
        example = Experience(
            seen, spaces.example(spec.action_space), jnp.zeros(()), seen, no, no, nothing, (), (nothing, jnp.zeros(()))
        )
        return LessonState(
            networks,
            jax.tree.map(jnp.copy, networks),
            fixed,
            self.optimiser().init(networks),
            RunningNorm.from_shape(()),
            empty_ring(
                self.capacity,
                example,
                agent.num_envs * spec.num_agents,
                agent.rollout_length,
                spec.observation_space,
            ),
            jnp.int32(0),
        )

    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def init_hidden(self, agent: Agent, spec: Spec) -> AdviceState:
        return AdviceState(jnp.bool_(False), jnp.int32(0), jnp.int32(0))

    def shares(self, values: Float[Array, " options"]) -> Float[Array, " options"]:
        """Return the probabilities of the options."""
        drawn = jax.nn.softmax(self.sharpness * values / jnp.maximum(values.max(), 1.0))
        # The agent's own is the first here, and the last in the authors' code.
        upto = jnp.minimum(jnp.cumsum(jnp.clip(drawn[1:], 0.05, 0.95)), 1.0)
        return jnp.concatenate([1 - upto[-1:], jnp.diff(upto, prepend=0.0)])

    def act(self, state: LessonState, hidden: HiddenState, observation: PyTree[Array], moment: ActContext) -> Decision:
        keys = jax.random.split(moment.key, 5)
        followed: AdviceState = hidden.behaviour
        mask = spaces.split_mask(observation)[1]
        networks = state.networks
        ends = ending(networks.terminations(observation))[followed.option]
        anew = ~followed.begun | (jax.random.uniform(keys[0]) < ends)
        drawn = jax.random.categorical(keys[1], jnp.log(self.shares(networks.options(observation))))
        option = jnp.where(anew, drawn, followed.option).astype(jnp.int32)
        repeated = jnp.where(anew, spaces.sample(moment.spec.action_space, keys[2], mask), followed.repeated)
        own, memory, policy_info = moment.own(hidden.agent, observation, keys[3])
        uniform = spaces.sample(moment.spec.action_space, keys[4], mask)
        again = repeated if mask is None else jnp.where(mask[repeated] > 0, repeated, uniform)
        action = jnp.stack([own, uniform, again, best_action(networks.explorer(observation), mask)])[option]
        followed = AdviceState(jnp.bool_(True), option, repeated.astype(jnp.int32))
        return Decision(action.astype(own.dtype), HiddenState(memory, followed), policy_info, behaviour_info=option)

    def report(self, state: LessonState, rollout: Experience, moment: ActContext) -> LessonState:
        surprise = lambda o: prediction_error(state.networks.predictor, state.fixed, o)  # noqa: E731
        novelty = jax.vmap(jax.vmap(surprise))(rollout.next_observation)
        capacity, width = stored_transitions(state.ring).terminated.shape
        clock = ring_clock(state.ring, moment.agent, moment.clock)
        ring = write_rollout(
            state.ring,
            rollout._replace(
                policy_info=(), behaviour_info=(), rewards_info=(rollout.behaviour_info, novelty), info={}
            ),
            clock,
        )
        state = state._replace(ring=ring, novelty=state.novelty.update(novelty.reshape(-1), rollout.counts.reshape(-1)))

        newest = clock.steps // width + len(novelty)
        first, later = oldest(ring, newest)
        index = jax.random.randint(moment.key, (self.batch_size,), 0, (newest - first) * width)
        if later is not None:
            index = (index + jnp.where(later, first, 0) * width) % (capacity * width)
        batch = read_segments(ring, index, 1)
        gradient = jax.grad(self.loss)(state.networks, state, jax.tree.map(lambda x: x[0], batch))
        networks, optimiser = self.optimiser().step(gradient, state.optimiser, state.networks)
        count = state.updates + 1
        due = count % self.target_update_interval == 0
        target = jax.tree.map(lambda old, new: jnp.where(due, new, old), state.target, networks)
        return state._replace(networks=networks, target=target, optimiser=optimiser, updates=count)

    def truncate(self, state: LessonState, agent: Agent, clock: Clock) -> LessonState:
        return state._replace(ring=truncate(state.ring, ring_clock(state.ring, agent, clock)))

    def loss(self, networks: Networks, state: LessonState, batch: Experience) -> Float[Array, ""]:
        """Compute the summed loss of all four networks, which share no weights."""
        option, novelty = batch.rewards_info
        intrinsic = state.novelty(novelty, jnp.inf)
        fixed = jax.lax.stop_gradient

        def apply_head(head: Head, observation: PyTree[Array]) -> Float[Array, "batch outputs"]:
            return jax.vmap(head)(observation)

        later = apply_head(state.target.options, batch.next_observation)
        ends = take_values(ending(apply_head(networks.terminations, batch.next_observation)), option)
        value = (1 - ends) * take_values(later, option) + ends * later.max(-1)
        paid = self.reward_scale * batch.reward + self.novelty_scale * intrinsic
        goal = paid + self.discount * jnp.where(batch.terminated, 0.0, value)
        choice = 0.5 * (take_values(apply_head(networks.options, batch.observation), option) - fixed(goal)) ** 2

        now = apply_head(state.target.options, batch.observation)
        behind = take_values(now, option) - now.max(-1)
        ended = take_values(jax.nn.sigmoid(apply_head(networks.terminations, batch.observation)), option)
        average = jnp.sum(batch.counts * behind) / jnp.maximum(batch.counts.sum(), 1)
        termination = jnp.where(batch.terminated, 0.0, ended * fixed(behind - average))

        mask = spaces.split_mask(batch.next_observation)[1]
        later = apply_head(state.target.explorer, batch.next_observation)
        goal = intrinsic + self.discount * jnp.where(
            batch.terminated, 0.0, take_values(later, best_action(later, mask))
        )
        exploring = optax.huber_loss(
            take_values(apply_head(networks.explorer, batch.observation), batch.action), fixed(goal)
        )

        predicting = jax.vmap(lambda o: prediction_error(networks.predictor, state.fixed, o))(batch.next_observation)
        return jnp.mean(batch.counts * (choice + termination + exploring + predicting))


def ring_clock(ring: Ring, agent: Agent, clock: Clock) -> Clock:
    """Return the clock as the ring reads it: of many agents each step has a transition each."""
    return clock._replace(steps=clock.steps // agent.num_envs * stored_transitions(ring).terminated.shape[1])


def prediction_error(predictor: Head, fixed: Head, observation: PyTree[Array]) -> Float[Array, ""]:
    """Return the novelty of an observation: the predictor's mean squared error."""
    return jnp.mean((predictor(observation) - jax.lax.stop_gradient(fixed(observation))) ** 2)


def ending(logits: Float[Array, "*batch options"]) -> Float[Array, "*batch options"]:
    """Return the probabilities that options end."""
    return jnp.clip(jax.nn.sigmoid(logits), 0.1, 0.9)
