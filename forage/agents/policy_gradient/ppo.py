"""Proximal policy optimisation.

Schulman, Wolski, Dhariwal, Radford, Klimov (2017), "Proximal Policy Optimization Algorithms", arXiv 1707.06347, with
the details of Huang et al. (2022), "The 37 Implementation Details of PPO". Each rollout, with ratio
r = pi(a|s) / pi_old(a|s), advantage A (GAE) and value target R = A + V_old, minimises over epochs of minibatches

    -min(r A, clip(r, 1 - c, 1 + c) A)  +  value_coefficient (V(s) - R)^2 / 2  -  entropy_coefficient H(pi(.|s))

With `memory_size`, a GRU hears each observation and the action before it (as Ni, Eysenbach, Salakhutdinov, 2022,
arXiv 2110.05038, find best), learned from whole rollouts that start from the hidden state stored with them.

With `bang_bang` a continuous action is one end of its range or the other, in each dimension with a probability of its
own (Seyde et al., 2021, "Is Bang-Bang Control All You Need?", arXiv 2111.02552, who put a Bernoulli distribution in
place of the Gaussian and change nothing else; its settings for PPO could not be looked up).

Many agents share one network, each learning from its own stream: independent PPO (de Witt et al., 2020, "Is Independent
Learning All You Need in the StarCraft Multi-Agent Challenge?", arXiv 2011.09533). With `central_critic` the value sees
the observation's "state", which the policy does not: MAPPO (Yu et al., 2022, "The Surprising Effectiveness of PPO in
Cooperative Multi-Agent Games", arXiv 2103.01955; its value normalisation is `--rewards normalise-return` here).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import mesh, prng
from forage.core.ports import Agent, Judgement, Metrics
from forage.core.ranges import Range, Ranges
from forage.core.spaces import central, check_bounded, seen, split_mask
from forage.core.types import AGENT, BONUS, Batch, Clock, Experience, ForageError, Spec
from forage.nn.actor_critic import ActorCritic, Shape
from forage.nn.distributions import Actions, Categorical, Distribution, Gaussian
from forage.nn.networks import Recall, Style, input_size
from forage.nn.normalise import Norms, begun, normalised, norms_for, read_after, updated
from forage.ops.minibatches import shuffled, standardised, weighted_mean
from forage.ops.optimiser import Optimiser, named
from forage.ops.returns import gae

METRICS = ("policy_loss", "value_loss", "entropy", "approximate_kl", "clip_fraction")


class PPOState(NamedTuple):
    network: ActorCritic
    optimiser: Any
    norm: Norms  # of observations


class Targets(NamedTuple):
    """The loss's inputs from each transition, except the observation; leaves `time env`."""

    action: PyTree[Array]
    log_probability: Float[Array, "time env"]
    advantage: Float[Array, "time env"]  # the advantage, all streams together
    by_agent: Float[Array, "time env"]  # 1, or 0 where another chose the action: no policy gradient there
    value_target: Float[Array, "time env streams"]  # of the values
    value: Float[Array, "time env streams"] | None  # when it acted; only to clip by
    counts: Float[Array, "time env"] | None = None  # 0 where nothing is to be learned; a minibatch's mean is 1
    outputs: Float[Array, "time env outputs"] | None = None  # of the policy that acted; only to stay near it


class Sequence(NamedTuple):
    """The links between the steps of segments, for an agent with memory."""

    start: Float[Array, "env memory"]  # the GRU's state before the first step
    first: Bool[Array, "time env"]  # an episode begins here
    action: Float[Array, "time env actions"]  # the one before, as the memory hears it


class Read(NamedTuple):
    """A rollout as the network that acted in it reads it; leaves `time env ...`."""

    observation: PyTree[Array]
    action: PyTree[Array]
    sequence: Sequence | None
    log_probability: Float[Array, "time env"]
    value: Float[Array, "time env streams"]
    next_value: Float[Array, "time env streams"]


class PPO(Agent):
    """Proximal policy optimisation (Schulman et al., 2017, arXiv 1707.06347), also with a GRU and action masks."""

    example: ClassVar[str] = "forage train ppo CartPole-v1"
    ranges: ClassVar[Ranges] = {"target_kl": Range(0, above=True)}

    on_policy: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    proximal: ClassVar[bool] = False  # the loss compares the policy's distribution with the one that acted

    learning_rate: float = 2.5e-4
    discount: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    entropy_coefficient: float = 0.01
    value_coefficient: float = 0.5
    max_gradient_norm: float = 0.5
    final_learning_rate: float = 0.0  # reached linearly at the end of the run, as a share of learning_rate
    num_envs: int = equinox.field(static=True, default=8)
    rollout_length: int = equinox.field(static=True, default=128)
    epochs: int = equinox.field(static=True, default=4)
    minibatches: int = equinox.field(static=True, default=4)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=())
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="tanh")
    layer_norm: bool = equinox.field(static=True, default=False)
    encoder: str | type | None = equinox.field(static=True, default=None)
    optimiser: str | Callable[[Any], Any] = equinox.field(static=True, default="adam")
    memory_size: int = equinox.field(static=True, default=0)  # units of the GRU; 0: no memory
    clip_value: bool = equinox.field(static=True, default=False)
    normalise_advantage: bool = equinox.field(static=True, default=True)
    normalise_observation: bool = equinox.field(static=True, default=False)
    central_critic: bool = equinox.field(static=True, default=False)  # the value sees the observation's "state"
    bonus_head: bool = equinox.field(static=True, default=False)  # a bonus for exploring has a value of its own
    bonus_discount: float = 0.99  # worth of a bonus one step later, where it has a value of its own
    state_dependent_noise: bool = equinox.field(static=True, default=False)  # noise of continuous actions depends on
    # the state and changes slowly (gSDE)
    initial_log_std: float | None = None  # logarithm of the deviation of continuous actions at first, in the unit box;
    # none: 0, with gSDE -2
    target_kl: float | None = None  # KL divergence from the old policy, at 1.5 times of which the updates of a rollout
    # end, as SB3's; none: all are made
    bang_bang: bool = equinox.field(static=True, default=False)  # continuous actions are one end of their range or the
    # other

    @property
    def streams(self) -> tuple[str, ...]:
        return (BONUS,) if self.bonus_head else ()

    def check(self, spec: Spec) -> None:
        if Actions.of(spec.action_space).discrete and self.state_dependent_noise:
            raise ForageError(
                f"Only continuous actions have noise that depends on the state, and {spec.name} has none."
            )
        if self.bang_bang:
            check_bounded("PPO with bang_bang", spec)
            if self.state_dependent_noise or self.initial_log_std is not None:
                raise ForageError(
                    "PPO with bang_bang chooses between the ends of its actions' ranges and adds no noise to them; "
                    "leave out state_dependent_noise and initial_log_std."
                )
        units = self.num_envs if self.memory_size else self.num_envs * self.rollout_length
        if units % self.minibatches:
            what = "environments (whole segments, as the agent has memory)" if self.memory_size else "transitions"
            raise ForageError(f"PPO cannot cut {units} {what} into {self.minibatches} equal minibatches.")
        if self.normalise_advantage and self.num_envs * self.rollout_length * spec.num_agents == self.minibatches:
            raise ForageError(
                f"PPO measures each advantage against the others of its minibatch, and {self.minibatches} minibatches "
                f"have one transition each; take fewer, or normalise_advantage=false."
            )
        if self.value_sizes and self.memory_size and not self.central_critic:
            raise ForageError("With memory PPO's value reads what the GRU remembers, so leave value_sizes out.")
        input_size(seen(spec.observation_space))
        norms_for(spec, self.normalise_observation)
        if self.central_critic and central(spec.observation_space) is None:
            raise ForageError(
                f'A central critic sees the "state" beside the observation, and {spec.name} shows none; environments '
                f"with many agents do, and without central_critic PPO needs none."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> PPOState:
        streams = 1 + len(self.streams)  # each has a value of its own
        noise = self.state_dependent_noise, self.initial_log_std
        layers, sees = (self.hidden_sizes, Style.of(self)), (self.memory_size, self.central_critic)
        sizes = Shape(*layers, *sees, streams, *noise, self.value_sizes, self.bang_bang)
        norm = norms_for(spec, self.normalise_observation)
        network = ActorCritic(key, read_after(spec.observation_space, norm), spec.action_space, sizes)
        return PPOState(network, self.descent(1.0).init(network), norm)

    def hidden(self, spec: Spec) -> PyTree[Array]:
        return Recall.nothing(self.memory_size, Actions.of(spec.action_space).outputs) if self.memory_size else ()

    def descent(self, learning_rate: Any) -> Optimiser:
        return named(self.optimiser, learning_rate, self.max_gradient_norm, epsilon=1e-5, flat=True)

    def act(
        self,
        state: PPOState,
        hidden: PyTree[Array],
        observation: PyTree[Array],
        key: Key[Array, ""],
        explore: bool,
        noise: Float[Array, "*noise"] | None = None,
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        network, before = state.network, hidden
        observation = normalised(state.norm, observation)
        if self.memory_size:
            features = network.remember(hidden, observation)
            hidden = hidden._replace(features=features)
        else:
            features = network.torso(0)(observation)
        policy = network.policy(features, observation)
        if explore and noise is not None and isinstance(policy, Gaussian):
            action = policy.from_noise(network.standardised(features, noise))
        else:
            action = policy.sample(key) if explore else policy.mode()
        noted = self.noted(before, policy, action)
        return action if network.actions.discrete else network.actions.to_box(action), hidden, noted

    def noted(self, hidden: PyTree[Array], policy: Distribution, action: PyTree[Array]) -> PyTree[Array]:
        """Return the policy information that a rollout stores of a step: the memory before it."""
        return hidden

    def noise(self, spec: Spec) -> tuple[int, ...] | None:
        network = jax.eval_shape(lambda: self.init(prng.key(0), spec)).network
        return None if network.log_std is None else network.log_std.shape

    def probabilities(self, state: PPOState, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        if self.memory_size:
            raise ForageError("PPO with memory has no probabilities for an observation by itself.")
        observation = normalised(state.norm, observation)
        policy = state.network.policy(state.network.torso(0)(observation), observation)
        if not isinstance(policy, Categorical):
            raise ForageError("PPO has probabilities of actions where there is one choice among numbered ones.")
        return policy.probabilities(explore)

    def log_probability(
        self, state: PPOState, observation: PyTree[Array], action: PyTree[Array]
    ) -> Float[Array, " row"]:
        network = state.network
        observation = jax.vmap(lambda o: normalised(state.norm, o))(observation)
        action = action if network.actions.discrete else jax.vmap(network.actions.to_unit)(action)
        return self.forward(network, observation, action, None)[0]

    def acted(self, state: PPOState, hidden: PyTree[Array], action: PyTree[Array]) -> PyTree[Array]:
        return hidden._replace(action=state.network.actions.heard(action)) if self.memory_size else hidden

    def learn(
        self, state: PPOState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[PPOState, Metrics, Float[Array, " env"]]:
        experience = batch.experience
        raw = experience.observation
        # What acted is what learns, but for the first rollout, of whose numbers nothing was known when it began.
        later = updated(state.norm, split_mask(raw)[0], experience.counts)
        norm = begun(state.norm, later)
        read = self.read(state.network, norm, experience)
        observation, action, sequence, log_probability, value, _ = read
        by_agent = (experience.source == AGENT).astype(jnp.float32)
        earlier_value = value if self.clip_value else None
        counts = experience.counts.astype(jnp.float32)
        advantages, value_target = self.estimates(experience, read)
        advantage = self.joined(state, advantages)
        outputs = self.old_outputs(state.network, observation, sequence) if self.proximal else None
        targets = Targets(action, log_probability, advantage, by_agent, value_target, earlier_value, counts, outputs)

        # As when the rollout began, so that the first update is made at the full rate; the clock reads as after it.
        began = jnp.maximum(clock.steps - self.num_envs * self.rollout_length, 0)
        rate = self.learning_rate * (1 - clock._replace(steps=began).fraction * (1 - self.final_learning_rate))
        optimiser = self.descent(rate)

        def minibatch(carry, data):
            network, optimiser_state, *near = carry
            gradient, metrics = jax.grad(self.loss, has_aux=True)(network, *data)
            stepped = optimiser.step(gradient, optimiser_state, network)
            if self.target_kl is None:
                return stepped, metrics
            near = near[0] & (metrics[METRICS.index("approximate_kl")] <= 1.5 * self.target_kl)
            kept = jax.tree.map(lambda new, old: jnp.where(near, new, old), stepped, carry[:2])
            return (*kept, near), metrics

        def prepared(observations, cut, sequences):
            advantage = standardised(cut.advantage, cut.by_agent) if self.normalise_advantage else cut.advantage
            counts = cut.counts / jnp.maximum(cut.counts.mean(tuple(range(1, cut.counts.ndim)), keepdims=True), 1e-8)
            return observations, cut._replace(advantage=advantage * cut.by_agent, counts=counts), sequences

        def one_by_one(carry, order):
            data = prepared(*self.cut(order, 1, observation, targets, sequence))
            return minibatch(carry, jax.tree.map(lambda x: x[0], data))

        def epoch(carry, bits):
            order = shuffled(bits)
            if mesh.ways() > 1:  # so that no device ever has the others' part of the rollout, but of one minibatch
                return jax.lax.scan(one_by_one, carry, order.reshape(self.minibatches, -1))
            data = prepared(*self.cut(order, self.minibatches, observation, targets, sequence))
            return jax.lax.scan(minibatch, carry, data)

        units = advantage.size if sequence is None else advantage.shape[1]
        bits = jax.random.bits(key, (self.epochs, units))
        near = () if self.target_kl is None else (jnp.bool_(True),)
        carry, means = jax.lax.scan(epoch, (state.network, state.optimiser, *near), bits)
        metrics: Metrics = dict(zip(METRICS, means.mean((0, 1)), strict=True))
        own = jnp.maximum(weighted_mean(by_agent, counts), 1e-8)
        metrics |= {name: metrics[name] / own for name in METRICS[2:]}  # of the steps that were the agent's
        metrics["explained_variance"] = 1 - advantages[..., 0].var() / jnp.maximum(value_target[..., 0].var(), 1e-8)
        state = state._replace(network=carry[0], optimiser=carry[1], norm=later)
        return state, metrics, jnp.abs(advantage).mean(0)

    def estimates(
        self, experience: Experience, read: Read
    ) -> tuple[Float[Array, "time env streams"], Float[Array, "time env streams"]]:
        """Compute the advantages and value targets of each stream; steps that do not count get advantage 0."""
        advantages = self.advantages(experience, read.value, read.next_value, self.gae_lambda)
        advantages = advantages * experience.counts.astype(jnp.float32)[..., None]
        return advantages, advantages + read.value

    def joined(self, state: PPOState, advantages: Float[Array, "time env streams"]) -> Float[Array, "time env"]:
        """Make one advantage of those of all streams."""
        return advantages.sum(-1)

    def read(self, network: ActorCritic, norm: Norms, experience: Experience) -> Read:
        """Apply the network that acted to the whole rollout at once, including the values of next observations."""
        observation, next_observation = (
            over_rollout(lambda o: normalised(norm, o))(o)
            for o in (experience.observation, experience.next_observation)
        )
        action = experience.action
        if not network.actions.discrete:
            action = over_rollout(network.actions.to_unit)(action)
        if self.memory_size:
            first = jnp.concatenate([jnp.zeros_like(experience.ended[:1]), experience.ended[:-1]])
            sequence = Sequence(experience.aux.features[0], first, experience.aux.action)
            log_probability, _, value = self.forward(network, observation, action, sequence)
        else:
            sequence = None
            rows = mesh.split(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), (observation, action)))
            log_probability, _, value = self.forward(network, rows[0], rows[1], sequence)
            log_probability = log_probability.reshape(experience.reward.shape)
            value = value.reshape(*experience.reward.shape, -1)
        next_value = self.next_values(network, experience, observation, next_observation)
        return Read(observation, action, sequence, log_probability, value, next_value)

    def judge(self, state: PPOState, rollout: Experience) -> Judgement:
        """Judge a rollout by the network that acted in it. Values and advantages of several streams are `joined`."""
        later = updated(state.norm, split_mask(rollout.observation)[0], rollout.counts)
        read = self.read(state.network, begun(state.norm, later), rollout)
        advantage = self.joined(state, self.estimates(rollout, read)[0])
        td_error = self.joined(state, self.advantages(rollout, read.value, read.next_value, 0.0)) * rollout.counts
        return Judgement(self.joined(state, read.value), advantage, td_error, read.log_probability)

    def advantages(
        self,
        experience: Experience,
        value: Float[Array, "time env streams"],
        next_value: Float[Array, "time env streams"],
        gae_lambda: Any,
    ) -> Float[Array, "time env streams"]:
        """Compute GAE of each stream. The bonus's continues across the ends of episodes (Burda et al., 2018, arXiv
        1810.12894,
        section 2.3): what comes after an end is the next episode's beginning. Only where an agent leaves before the
        others does it end: what comes while it is gone is not to its credit."""
        reward, terminated, truncated = experience.reward, experience.terminated, cut_short(experience)
        own = estimate(reward, value[..., 0], next_value[..., 0], terminated, truncated, self.discount, gae_lambda)
        if not self.bonus_head:
            return own[..., None]
        bonus = experience.rewards.get(BONUS, jnp.zeros_like(reward))
        after = jnp.concatenate([value[1:, :, 1], next_value[-1:, :, 1]])  # of the last end, what it led to stands in
        left = before_lost(experience)
        after = jnp.where(experience.ended & ~left, after, next_value[..., 1])
        ends = left & terminated, left & ~terminated
        bonus = estimate(bonus, value[..., 1], after, *ends, self.bonus_discount, gae_lambda)
        return jnp.stack([own, bonus], -1)

    def cut(
        self,
        order: Int[Array, " units"],
        minibatches: int,
        observation: PyTree[Array],
        targets: Targets,
        sequence: Sequence | None,
    ) -> tuple[PyTree[Array], Targets, Sequence | None]:
        """Put into this order and cut into minibatches: transitions, or with memory whole segments."""
        if sequence is None:
            rows = mesh.drawn((observation, targets), order)
            return *jax.tree.map(lambda x: x.reshape(minibatches, -1, *x.shape[1:]), rows), None

        def segments(x: Array) -> Array:
            return mesh.split(x[:, order], 1).reshape(x.shape[0], minibatches, -1, *x.shape[2:]).swapaxes(0, 1)

        start = segments(sequence.start[None])[:, 0]
        first, before = segments(sequence.first), segments(sequence.action)
        return *jax.tree.map(segments, (observation, targets)), Sequence(start, first, before)

    def loss(
        self, network: ActorCritic, observation: PyTree[Array], targets: Targets, sequence: Sequence | None
    ) -> tuple[Float[Array, ""], Float[Array, " metrics"]]:
        """Return the loss, and the means that `METRICS` names."""
        log_probability, entropy, value = self.forward(network, observation, targets.action, sequence)

        # Policy loss. Actions of another behaviour get ratio 1; their true ratio is unbounded.
        log_ratio = targets.by_agent * (log_probability - targets.log_probability)
        ratio = jnp.exp(jnp.minimum(log_ratio, LARGEST))
        clipped = jnp.clip(ratio, 1 - self.clip, 1 + self.clip)
        surrogate = jnp.minimum(ratio * targets.advantage, clipped * targets.advantage)

        # Value loss
        error = 0.5 * (value - targets.value_target) ** 2
        if targets.value is not None:
            near = targets.value + jnp.clip(value - targets.value, -self.clip, self.clip)
            error = jnp.maximum(error, 0.5 * (near - targets.value_target) ** 2)
        error = error.sum(-1)
        entropy = targets.by_agent * entropy  # a bonus where the policy learns, and nowhere else
        terms = [
            -surrogate,
            error,
            entropy,
            ratio - 1 - log_ratio,
            (jnp.abs(ratio - 1) > self.clip).astype(jnp.float32),
        ]
        if targets.counts is not None:
            terms = [term * targets.counts for term in terms]
        # One mean for all: a dozen small reductions would take longer than the matrix products.
        means = jnp.stack(terms).reshape(len(terms), -1).mean(1)
        weights = jnp.array([1.0, self.value_coefficient, -self.entropy_coefficient, 0.0, 0.0])
        return weights @ means, means

    def forward(
        self, network: ActorCritic, observation: PyTree[Array], action: PyTree[Array], sequence: Sequence | None
    ):
        """Log-probability, entropy and value of rows `batch`, or with memory of segments `time batch`."""

        def judge(outputs: Array, observation: PyTree[Array], action: Array):
            policy = network.distribution(outputs, observation)
            return policy.log_probability(action), policy.entropy()

        outputs, value = self.outputs(network, observation, sequence)
        over: Any = jax.vmap if sequence is None else over_rollout
        return *over(judge)(outputs, observation, action), value

    def outputs(
        self, network: ActorCritic, observation: PyTree[Array], sequence: Sequence | None
    ) -> tuple[Float[Array, "*batch outputs"], Float[Array, "*batch streams"]]:
        """Return the policy's outputs and the values, of rows or segments as `forward` takes them."""
        if sequence is None:
            return network.rows(observation)
        assert network.gru is not None
        inputs = over_rollout(lambda o, a: network.gru.hear(network.torso(0)(o), a))(observation, sequence.action)

        def step(hidden: Array, inputs: tuple[Array, Array]):
            x, first = inputs
            hidden = jax.vmap(network.gru.step)(jnp.where(first[:, None], 0.0, hidden), x)
            return hidden, hidden

        _, features = jax.lax.scan(step, sequence.start, (inputs, sequence.first))
        return over_rollout(network.outputs)(features), over_rollout(network.value)(observation, features)

    def old_outputs(
        self, network: ActorCritic, observation: PyTree[Array], sequence: Sequence | None
    ) -> Float[Array, "time env outputs"]:
        """Return the outputs of the policy that acted in a rollout."""
        if sequence is not None:
            return self.outputs(network, observation, sequence)[0]
        time, envs = jax.tree.leaves(observation)[0].shape[:2]
        rows = mesh.split(jax.tree.map(lambda x: x.reshape(time * envs, *x.shape[2:]), observation))
        return self.outputs(network, rows, None)[0].reshape(time, envs, -1)

    def next_values(
        self, network: ActorCritic, experience: Experience, observation: PyTree[Array], next_observation: PyTree[Array]
    ) -> Float[Array, "time env streams"]:
        """Compute the values of next observations, also at the ends of episodes; with memory, as if they continued."""

        def remembering(hidden: Recall, observation: PyTree[Array], action: Array, next_observation: PyTree[Array]):
            after = Recall(network.remember(hidden, observation), network.actions.heard(action))
            return network.value(next_observation, network.remember(after, next_observation))

        if self.memory_size:
            return over_rollout(remembering)(experience.aux, observation, experience.action, next_observation)
        time, envs = jax.tree.leaves(next_observation)[0].shape[:2]
        rows = mesh.split(jax.tree.map(lambda x: x.reshape(time * envs, *x.shape[2:]), next_observation))
        return network.values(rows).reshape(time, envs, -1)


estimate = jax.vmap(gae, in_axes=(1, 1, 1, 1, 1, None, None), out_axes=1)
"""GAE of each environment of a rollout."""

LARGEST = 20.0
"""The logarithm of the largest ratio that counts: an infinite one times an advantage of zero would not be a number."""


def before_lost(experience: Experience) -> Bool[Array, "time env"]:
    """Return whether the next step is at hand and does not count: its agent had left, or it was lost."""
    return jnp.zeros_like(experience.terminated).at[:-1].set(~experience.counts[1:])


def cut_short(experience: Experience) -> Bool[Array, "time env"]:
    """Return a mask of truncated estimates: at time limits, and before steps that do not count."""
    return experience.truncated | (before_lost(experience) & ~experience.terminated)


def over_rollout(function: Any) -> Any:
    """Map a function of one transition over axes `time env`."""
    return jax.vmap(jax.vmap(function))
