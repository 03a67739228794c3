"""Proximal policy optimisation.

Schulman, Wolski, Dhariwal, Radford, Klimov (2017), "Proximal Policy Optimization Algorithms", arXiv 1707.06347, with
the details of Huang et al. (2022), "The 37 Implementation Details of PPO". Each rollout, with ratio
r = pi(a|s) / pi_old(a|s), advantage A (GAE) and value target R = A + V_old, minimises over epochs of minibatches

    -min(r A, clip(r, 1 - c, 1 + c) A)  +  value_coefficient (V(s) - R)^2 / 2  -  entropy_coefficient H(pi(.|s))

With `gru_size`, a GRU (or with `cell` lstm an LSTM) hears each observation and the action before it (as Ni, Eysenbach,
Salakhutdinov, 2022, arXiv 2110.05038, find best), learned from whole rollouts that start from the hidden state stored
with them.

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
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.policy_gradient import rollouts
from forage.agents.policy_gradient.rollouts import Reading, Sequence, cut_short, score_actions
from forage.core import mesh, prng
from forage.core.ports import ActInputs, Agent, Metrics, ValueEstimates
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import Range, Ranges, check_minibatches
from forage.core.spaces import central, describe_space, is_bounded_box, split_mask
from forage.core.types import AGENT, BONUS, Batch, Clock, Experience, ForageError, Spec
from forage.nn.actor_critic import ActorCritic, ActorCriticConfig
from forage.nn.distributions import Actions, Distribution, Gaussian, Product, action_probabilities, draw_action
from forage.nn.networks import CELLS, GRUState, NetworkConfig, check_cell
from forage.nn.normalise import Norms, apply_norm, first_statistics, input_space, norms_for, update_norms
from forage.ops.losses import loss_gradient
from forage.ops.optimiser import Optimiser, make_named_optimiser
from forage.ops.rows import shuffle, standardise, weighted_mean

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
    policy: Distribution | None = None  # that acted, leaves `time env ...`; only to stay near it


class PPO(Agent):
    """Proximal policy optimisation (Schulman et al., 2017, arXiv 1707.06347), also with a GRU and action masks."""

    example: ClassVar[str] = "forage train ppo CartPole-v1"
    choices: ClassVar[Choices] = {"cell": tuple(CELLS)}
    ranges: ClassVar[Ranges] = {"target_kl": Range(0, above=True)}

    on_policy: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    signatures: ClassVar[dict[str, str]] = Agent.signatures | {"loss": "network, observation, targets, sequence, key"}
    proximal: ClassVar[bool] = False  # the loss compares the policy's distribution with the one that acted
    needs: ClassVar[Needs] = Needs(actions="any or mixed", observations="any")

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
    gru_size: int = equinox.field(static=True, default=0)  # units of the memory, a GRU or an LSTM; 0: none
    cell: str = equinox.field(static=True, default="gru")  # the memory of an agent with gru_size: gru or lstm
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
    def reward_heads(self) -> tuple[str, ...]:
        return (BONUS,) if self.bonus_head else ()

    def check(self, spec: Spec) -> None:
        check_cell(self)
        if self.state_dependent_noise and Actions.from_space(spec.action_space).discrete:
            raise ForageError(
                f"Only continuous actions have noise that depends on the state, and {spec.name} has none."
            )
        if self.bang_bang and not is_bounded_box(spec.action_space):
            raise ForageError(
                f"PPO with bang_bang chooses between the ends of its actions' ranges, and {spec.name} has "
                f"{describe_space(spec.action_space)}; leave bang_bang out."
            )
        if self.bang_bang and (self.state_dependent_noise or self.initial_log_std is not None):
            raise ForageError(
                "PPO with bang_bang chooses between the ends of its actions' ranges and adds no noise to them; leave "
                "out state_dependent_noise and initial_log_std."
            )
        whole = "environments (whole segments, as the agent has memory)"
        transitions = self.num_envs * self.rollout_length
        check_minibatches(self, *((self.num_envs, whole) if self.gru_size else (transitions, "transitions")))
        if self.normalise_advantage and transitions * spec.num_agents == self.minibatches:
            raise ForageError(
                f"PPO measures each advantage against the others of its minibatch, and {self.minibatches} minibatches "
                f"have one transition each; take fewer, or normalise_advantage=false."
            )
        if self.value_sizes and self.gru_size and not self.central_critic:
            raise ForageError("With memory PPO's value reads what the GRU remembers, so leave value_sizes out.")
        norms_for(spec, self.normalise_observation)
        if self.central_critic and central(spec.observation_space) is None:
            raise ForageError(
                f'A central critic sees the "state" beside the observation, and {spec.name} shows none; environments '
                f"with many agents do, and without central_critic PPO needs none."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> PPOState:
        streams = 1 + len(self.reward_heads)  # each has a value of its own
        noise = self.state_dependent_noise, self.initial_log_std
        layers, sees = (self.hidden_sizes, NetworkConfig.from_agent(self)), (self.gru_size, self.central_critic)
        sizes = ActorCriticConfig(*layers, *sees, streams, *noise, self.value_sizes, self.bang_bang, self.cell)
        norm = norms_for(spec, self.normalise_observation)
        network = ActorCritic(key, input_space(spec.observation_space, norm), spec.action_space, sizes)
        return PPOState(network, self.descent(1.0).init(network), norm)

    def init_hidden(self, spec: Spec) -> PyTree[Array]:
        return GRUState.from_agent(self, Actions.from_space(spec.action_space).outputs) if self.gru_size else ()

    def descent(self, learning_rate: Any) -> Optimiser:
        return make_named_optimiser(self.optimiser, learning_rate, self.max_gradient_norm, epsilon=1e-5, flat=True)

    def act(self, state: PPOState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        network, hidden = state.network, inputs.hidden
        observation = apply_norm(state.norm, inputs.observation)
        if self.gru_size:
            features = network.remember(hidden, observation)
            hidden = hidden._replace(features=features)
        else:
            features = network.features(observation)
        policy = network.policy(features, observation)
        if inputs.noise is not None and isinstance(policy, Gaussian | Product):
            inputs = inputs.replace(noise=network.standard_noise(features, inputs.noise))
        action = draw_action(policy, inputs)
        noted = self.policy_info(inputs.hidden, policy, action)
        return action if network.actions.discrete else network.actions.to_box(action), hidden, noted

    def prepare_acting(self, state: PPOState) -> PPOState:
        return state._replace(network=state.network.split())

    def policy_info(self, hidden: PyTree[Array], policy: Distribution, action: PyTree[Array]) -> PyTree[Array]:
        """Return the policy information that a rollout stores of a step: the memory before it."""
        return hidden

    def noise(self, spec: Spec) -> tuple[int, ...] | None:
        network = jax.eval_shape(lambda: self.init(prng.key(0), spec)).network
        return None if network.log_std is None else network.log_std.shape

    def probabilities(self, state: PPOState, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        if self.gru_size:
            raise ForageError("PPO with memory has no probabilities for an observation by itself.")
        observation = apply_norm(state.norm, observation)
        policy = state.network.policy(state.network.features(observation), observation)
        return action_probabilities(policy, explore, "PPO")

    def log_probability(
        self, state: PPOState, observation: PyTree[Array], action: PyTree[Array]
    ) -> Float[Array, " row"]:
        network = state.network
        observation = jax.vmap(lambda o: apply_norm(state.norm, o))(observation)
        action = action if network.actions.discrete else jax.vmap(network.actions.to_unit)(action)
        return score_actions(network, observation, action, None)[0]

    def observe_action(self, state: PPOState, hidden: PyTree[Array], action: PyTree[Array]) -> PyTree[Array]:
        return hidden._replace(action=state.network.actions.action_features(action)) if self.gru_size else hidden

    def learn(
        self, state: PPOState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[PPOState, Metrics, Float[Array, " env"]]:
        # The rollout. The statistics that acted also learn, except in the first rollout, which starts without any.
        experience = batch.experience
        later = update_norms(state.norm, split_mask(experience.observation)[0], experience.counts)
        read = self.apply_to_rollout(state.network, first_statistics(state.norm, later), experience)

        # Advantages and value targets
        by_agent, counts = (x.astype(jnp.float32) for x in (experience.source == AGENT, experience.counts))
        advantages, value_target = self.estimates(experience, read)
        advantage = self.combine_advantages(state, advantages)
        policy = rollouts.rollout_policy(state.network, read.observation, read.sequence) if self.proximal else None
        value = read.value if self.clip_value else None
        targets = Targets(read.action, read.log_probability, advantage, by_agent, value_target, value, counts, policy)

        # Epochs, by the clock from before the rollout, so that the first update has the full learning rate
        began = jnp.maximum(clock.steps - self.num_envs * self.rollout_length, 0)
        rate = self.learning_rate * (1 - clock._replace(steps=began).fraction * (1 - self.final_learning_rate))
        network, optimiser, metrics = self.descend(state, read, targets, self.descent(rate), key)

        # Metrics; those of the policy are means over the agent's own steps
        own = jnp.maximum(weighted_mean(by_agent, counts), 1e-8)
        metrics |= {name: metrics[name] / own for name in METRICS[2:] if name in metrics}
        metrics["explained_variance"] = 1 - advantages[..., 0].var() / jnp.maximum(value_target[..., 0].var(), 1e-8)
        state = state._replace(network=network, optimiser=optimiser, norm=later)
        return state, metrics, jnp.abs(advantage).mean(0)

    def descend(
        self, state: PPOState, read: Reading, targets: Targets, optimiser: Optimiser, key: Key[Array, ""]
    ) -> tuple[ActorCritic, Any, Metrics]:
        """Take the steps of all epochs. Return the network, the optimiser's state and the mean metrics."""
        names: list[str] = []

        def step(carry, data):
            network, optimiser_state, *near = carry
            gradient, metrics = loss_gradient(self.loss, network, *data)
            names[:] = metrics
            told = jnp.array(list(metrics.values()), jnp.float32)  # to store each number by itself would be a kernel
            stepped = optimiser.step(gradient, optimiser_state, network)
            if self.target_kl is None:
                return stepped, told
            if "approximate_kl" not in metrics:
                raise ForageError(
                    f"target_kl ends updates by the metric approximate_kl, and {type(self).__name__}.loss returns none "
                    f"of that name; return super().loss's metrics too, or leave target_kl out."
                )
            near = near[0] & (metrics["approximate_kl"] <= 1.5 * self.target_kl)
            kept = jax.tree.map(lambda new, old: jnp.where(near, new, old), stepped, carry[:2])
            return (*kept, near), told

        def minibatches(order, keys):
            observation, cut, sequence = rollouts.cut_minibatches(
                order, len(keys), read.observation, targets, read.sequence
            )
            return observation, self.normalise(cut), sequence, keys

        def epoch(carry, drawn):
            bits, keys = drawn
            order = shuffle(bits)
            if mesh.ways() > 1:  # cut one minibatch at a time, so that no device ever has more of the others' rollout
                one = lambda carry, part: step(carry, jax.tree.map(lambda x: x[0], minibatches(*part)))  # noqa: E731
                return jax.lax.scan(one, carry, (order.reshape(self.minibatches, -1), keys[:, None]))
            return jax.lax.scan(step, carry, minibatches(order, keys))

        units = targets.advantage.size if read.sequence is None else targets.advantage.shape[1]
        bits = jax.random.bits(key, (self.epochs, units))
        keys = jax.random.split(jax.random.fold_in(key, 1), (self.epochs, self.minibatches))  # for the loss
        near = () if self.target_kl is None else (jnp.bool_(True),)
        carry, told = jax.lax.scan(epoch, (state.network, state.optimiser, *near), (bits, keys))
        return carry[0], carry[1], dict(zip(names, told.mean((0, 1)), strict=True))

    def normalise(self, cut: Targets) -> Targets:
        """Return minibatches with standardised advantages, 0 for others' actions, and counts of mean 1."""
        advantage = standardise(cut.advantage, cut.by_agent) if self.normalise_advantage else cut.advantage
        assert cut.counts is not None
        counts = cut.counts / jnp.maximum(cut.counts.mean(tuple(range(1, cut.counts.ndim)), keepdims=True), 1e-8)
        return cut._replace(advantage=advantage * cut.by_agent, counts=counts)

    def estimates(
        self, experience: Experience, read: Reading
    ) -> tuple[Float[Array, "time env streams"], Float[Array, "time env streams"]]:
        """Compute the advantages and value targets of each stream; steps that do not count get advantage 0."""
        advantages = self.advantages(experience, read.value, read.next_value, self.gae_lambda)
        advantages = advantages * experience.counts.astype(jnp.float32)[..., None]
        return advantages, advantages + read.value

    def combine_advantages(
        self, state: PPOState, advantages: Float[Array, "time env streams"]
    ) -> Float[Array, "time env"]:
        """Make one advantage of those of all streams."""
        return advantages.sum(-1)

    def apply_to_rollout(self, network: ActorCritic, norm: Norms, experience: Experience) -> Reading:
        """Apply the network that acted to the whole rollout at once, including the values of next observations."""
        return rollouts.read_rollout(network, norm, experience)

    def estimate(self, state: PPOState, rollout: Experience) -> ValueEstimates:
        """Estimate values by the network that acted; those of several streams are combined by `combine_advantages`."""
        later = update_norms(state.norm, split_mask(rollout.observation)[0], rollout.counts)
        read = self.apply_to_rollout(state.network, first_statistics(state.norm, later), rollout)
        advantage = self.combine_advantages(state, self.estimates(rollout, read)[0])
        td_error = (
            self.combine_advantages(state, self.advantages(rollout, read.value, read.next_value, 0.0)) * rollout.counts
        )
        return ValueEstimates(self.combine_advantages(state, read.value), advantage, td_error, read.log_probability)

    def advantages(
        self,
        experience: Experience,
        value: Float[Array, "time env streams"],
        next_value: Float[Array, "time env streams"],
        gae_lambda: Any,
    ) -> Float[Array, "time env streams"]:
        """Compute GAE of each stream. The bonus's continues across the ends of episodes."""
        reward, terminated, truncated = experience.reward, experience.terminated, cut_short(experience)
        numbers = terminated, truncated, self.discount, gae_lambda
        own = rollouts.estimate(reward, value[..., 0], next_value[..., 0], *numbers)
        if not self.bonus_head:
            return own[..., None]
        bonus = experience.rewards.get(BONUS, jnp.zeros_like(reward))
        numbers = experience, self.bonus_discount, gae_lambda
        bonus = rollouts.estimate_across_ends(bonus, value[..., 1], next_value[..., 1], *numbers)
        return jnp.stack([own, bonus], -1)

    def outputs(
        self, network: ActorCritic, observation: PyTree[Array], sequence: Sequence | None
    ) -> tuple[Float[Array, "*batch outputs"], Float[Array, "*batch streams"]]:
        """Return the policy's outputs and the values, of rows `batch` or, with memory, of segments `time batch`."""
        return rollouts.policy_outputs(network, observation, sequence)

    def loss(
        self,
        network: ActorCritic,
        observation: PyTree[Array],
        targets: Targets,
        sequence: Sequence | None,
        key: Key[Array, ""] | None = None,
    ) -> tuple[Float[Array, ""], Metrics]:
        """Return the loss of a minibatch and its metrics.

        A subclass adds a term and metrics of its own, from `outputs` and the random `key`.
        """
        log_probability, entropy, value = score_actions(network, observation, targets.action, sequence)

        # Policy loss. Actions of another behaviour get ratio 1; their true ratio is unbounded.
        log_ratio = targets.by_agent * (log_probability - targets.log_probability)
        ratio = jnp.exp(jnp.minimum(log_ratio, rollouts.LARGEST))
        clipped = jnp.clip(ratio, 1 - self.clip, 1 + self.clip)
        surrogate = jnp.minimum(ratio * targets.advantage, clipped * targets.advantage)

        # Value loss
        error = rollouts.value_error(value, targets.value_target, targets.value, self.clip).sum(-1)

        # Entropy bonus where the policy learns; one mean for all terms, as a dozen small reductions would take longer
        entropy = targets.by_agent * entropy
        divergence, beyond = ratio - 1 - log_ratio, (jnp.abs(ratio - 1) > self.clip).astype(jnp.float32)
        terms = [-surrogate, error, entropy, divergence, beyond]
        if targets.counts is not None:
            terms = [term * targets.counts for term in terms]
        means = jnp.stack(terms).reshape(len(terms), -1).mean(1)
        weights = jnp.array([1.0, self.value_coefficient, -self.entropy_coefficient, 0.0, 0.0])
        return weights @ means, dict(zip(METRICS, means, strict=True))
