"""IMPALA: an actor-critic that learns from rollouts of its earlier policies, corrected by V-trace.

Espeholt et al. (2018), "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner Architectures",
arXiv 1802.01561. Each rollout, of a policy mu that may be older than the policy pi that learns, makes one step down

    -rho A log pi(a|s)  +  value_coefficient (V(s) - v)^2 / 2  -  entropy_coefficient H(pi(.|s))

summed over its transitions, with rho = min(clip_rho, pi(a|s) / mu(a|s)), the V-trace targets v (section 4.1; see
`forage.ops.returns.vtrace`) and A = r + discount v(next) - V(s). mu(a|s) is noted when the agent acts. At the end of a
rollout, and where an episode was truncated, V of the true next observation takes the place of v(next). Behind the
memory `rollout` pi is mu, and the update is that of synchronous actor-critic (A2C) with n-step returns; behind `queue`
it is not. Actions that another behaviour chose get ratio 1 and teach the value alone.

`correct` false is the paper's "no correction" (section 5.2.2): it takes every rollout for its newest policy's.

With `gru_size`, a GRU takes the place of the paper's LSTM, which `cell` lstm is: it starts from the state stored with
the rollout.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.agents.policy_gradient.rollouts import cut_short, over_rollout, scan_gru
from forage.core import prng
from forage.core.ports import ActInputs, Agent, Metrics, ValueEstimates
from forage.core.ports.needs import Choices, Needs
from forage.core.ranges import check_order
from forage.core.spaces import split_mask
from forage.core.types import AGENT, Batch, Clock, Experience, ForageError, Spec
from forage.nn.actor_critic import ActorCritic, ActorCriticConfig
from forage.nn.distributions import Actions, Distribution, action_probabilities, draw_action
from forage.nn.networks import CELLS, GRUState, check_cell
from forage.nn.normalise import Norms, apply_norm, first_statistics, input_space, norms_for, update_norms
from forage.ops.optimiser import Optimiser, rmsprop
from forage.ops.returns import vtrace
from forage.ops.rows import merge_time, weighted_mean


class ImpalaState(NamedTuple):
    network: ActorCritic
    optimiser: Any
    norm: Norms  # of observations
    updates: Int[Array, ""]  # made so far


class PolicyInfo(NamedTuple):
    """Policy information stored at each step."""

    hidden: PyTree[Array]  # before the step; `()` without memory
    log_probability: Float[Array, ""]  # of its action, by the policy that acted


class RolloutOutputs(NamedTuple):
    """A rollout as a network reads it; leaves `time env`."""

    log_probability: Float[Array, "time env"]
    entropy: Float[Array, "time env"]
    value: Float[Array, "time env"]
    next_value: Float[Array, "time env"]  # of what each step led to, also where the episode ended
    log_ratio: Float[Array, "time env"]  # log pi - log mu, and 0 where another chose the action


class IMPALA(Agent):
    """IMPALA, an actor-critic with V-trace (Espeholt et al., 2018, arXiv 1802.01561), also with a GRU."""

    example: ClassVar[str] = "forage train impala CartPole-v1 --memory queue --memory.lag 4"
    choices: ClassVar[Choices] = {"cell": tuple(CELLS)}

    on_policy: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    corrects: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(actions="any or mixed", observations="any")

    learning_rate: float = 6e-4  # step size of RMSProp; the paper's in Atari, as all numbers without another source
    discount: float = 0.99  # worth of a reward one step later
    clip_rho: float = 1.0  # most that a ratio counts in V-trace's errors and the policy's gradient; rho-bar
    clip_c: float = 1.0  # most that a ratio counts in V-trace's traces; c-bar, clip_rho or less
    entropy_coefficient: float = 0.01  # weight of the policy's entropy
    value_coefficient: float = 0.5  # weight of half the squared error of the value
    max_gradient_norm: float = 40.0  # longer gradients, of sums over the rollout, are cut to this length
    rms_decay: float = 0.99  # share of RMSProp's mean of squared gradients that stays at each step
    rms_epsilon: float = 0.01  # added to that mean below the root
    final_learning_rate: float = 0.0  # reached linearly at the end of the run, as a share of learning_rate
    num_envs: int = equinox.field(static=True, default=32)  # environments side by side; the paper's batch
    rollout_length: int = equinox.field(static=True, default=20)  # steps of each environment between two updates
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each layer; PPO's
    activation: str = equinox.field(static=True, default="tanh")  # between layers; PPO's
    gru_size: int = equinox.field(static=True, default=0)  # units of the memory, a GRU or an LSTM; 0: none
    cell: str = equinox.field(static=True, default="gru")  # the memory of an agent with gru_size: gru or lstm
    correct: bool = equinox.field(static=True, default=True)  # correct for the change of policy; false: no ratio
    # but 1
    normalise_observation: bool = equinox.field(static=True, default=False)  # by running means and deviations; PPO's
    initial_log_std: float | None = None  # log deviation of continuous actions in the unit box at first; none: 0, as
    # PPO's

    def check(self, spec: Spec) -> None:
        check_cell(self)
        check_order(self, "clip_c", "clip_rho", equal=True)
        norms_for(spec, self.normalise_observation)

    def init(self, key: Key[Array, ""], spec: Spec) -> ImpalaState:
        layers = self.hidden_sizes, self.activation, self.gru_size
        sizes = ActorCriticConfig(*layers, log_std=self.initial_log_std, cell=self.cell)
        norm = norms_for(spec, self.normalise_observation)
        network = ActorCritic(key, input_space(spec.observation_space, norm), spec.action_space, sizes)
        return ImpalaState(network, self.optimiser(1.0).init(network), norm, jnp.int32(0))

    def init_hidden(self, spec: Spec) -> PyTree[Array]:
        return GRUState.from_agent(self, Actions.from_space(spec.action_space).outputs) if self.gru_size else ()

    def optimiser(self, learning_rate: Any) -> Optimiser:
        return rmsprop(learning_rate, self.rms_decay, self.rms_epsilon, self.max_gradient_norm)

    def version(self, state: ImpalaState) -> Int[Array, ""]:
        return state.updates

    def act(self, state: ImpalaState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        network, hidden = state.network, inputs.hidden
        observation = apply_norm(state.norm, inputs.observation)
        if self.gru_size:
            features = network.remember(hidden, observation)
            hidden = hidden._replace(features=features)
        else:
            features = network.features(observation)
        policy = network.policy(features, observation)
        action = draw_action(policy, inputs)
        noted = PolicyInfo(inputs.hidden, policy.log_probability(action))  # type: ignore[arg-type]
        return action if network.actions.discrete else network.actions.to_box(action), hidden, noted

    def noise(self, spec: Spec) -> tuple[int, ...] | None:
        network = jax.eval_shape(lambda: self.init(prng.key(0), spec)).network
        return None if network.log_std is None else network.log_std.shape

    def observe_action(self, state: ImpalaState, hidden: PyTree[Array], action: PyTree[Array]) -> PyTree[Array]:
        return hidden._replace(action=state.network.actions.action_features(action)) if self.gru_size else hidden

    def probabilities(self, state: ImpalaState, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        if self.gru_size:
            raise ForageError("IMPALA with memory has no probabilities for an observation by itself.")
        observation = apply_norm(state.norm, observation)
        policy = state.network.policy(state.network.features(observation), observation)
        return action_probabilities(policy, explore, "IMPALA")

    def learn(
        self, state: ImpalaState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[ImpalaState, Metrics, Float[Array, " env"]]:
        experience = batch.experience
        later = update_norms(state.norm, split_mask(experience.observation)[0], experience.counts)
        norm = first_statistics(state.norm, later)

        # As of the beginning of the newest rollout, so that without a lag the first update uses the full learning rate
        began = jnp.maximum(clock.steps - self.num_envs * self.rollout_length, 0)
        rate = self.learning_rate * (1 - clock._replace(steps=began).fraction * (1 - self.final_learning_rate))
        gradient, (metrics, errors) = jax.grad(self.loss, has_aux=True)(state.network, norm, experience)
        network, optimiser = self.optimiser(rate).step(gradient, state.optimiser, state.network)
        metrics["lag"] = (state.updates - jnp.asarray(experience.version)).mean()
        return ImpalaState(network, optimiser, later, state.updates + 1), metrics, errors

    def loss(
        self, network: ActorCritic, norm: Norms, experience: Experience
    ) -> tuple[Float[Array, ""], tuple[Metrics, Float[Array, " env"]]]:
        """Return the loss, a sum over the rollout as in the paper; and metrics, means, with each segment's error."""
        read = self.apply_to_rollout(network, norm, experience)
        target, advantage = jax.lax.stop_gradient(self.targets(read, experience))
        own = (experience.source == AGENT).astype(jnp.float32)
        counts = experience.counts.astype(jnp.float32)
        policy_loss = -own * advantage * read.log_probability
        value_loss = 0.5 * counts * (read.value - target) ** 2
        entropy = own * read.entropy
        total = policy_loss + self.value_coefficient * value_loss - self.entropy_coefficient * entropy
        metrics: Metrics = {
            "policy_loss": weighted_mean(policy_loss, counts),
            "value_loss": weighted_mean(value_loss, counts),
            "entropy": weighted_mean(entropy, own),
            "rho": weighted_mean(jnp.minimum(self.clip_rho, jnp.exp(read.log_ratio)), own),
        }
        return total.sum(), (metrics, jnp.abs(advantage * counts).mean(0))

    def targets(
        self, read: RolloutOutputs, experience: Experience
    ) -> tuple[Float[Array, "time env"], Float[Array, "time env"]]:
        """Compute V-trace's value targets and the advantages of actions, weighted by their ratios."""
        log_ratio = read.log_ratio if self.correct else jnp.zeros_like(read.log_ratio)
        clips = self.discount, 1.0, self.clip_rho, self.clip_c, self.clip_rho
        ends = experience.terminated, cut_short(experience)
        return estimate(log_ratio, experience.reward, read.value, read.next_value, *ends, *clips)

    def apply_to_rollout(self, network: ActorCritic, norm: Norms, experience: Experience) -> RolloutOutputs:
        """Apply a network to the whole rollout at once."""
        noted, raw = experience.policy_info, experience.action
        observation, next_observation = (
            over_rollout(lambda o: apply_norm(norm, o))(o)
            for o in (experience.observation, experience.next_observation)
        )
        action = raw if network.actions.discrete else over_rollout(network.actions.to_unit)(raw)

        # The policy's outputs and the values of observations and of what steps led to
        if network.gru is None:
            rows = merge_time((observation, next_observation))
            outputs, value = network.rows(rows[0])
            next_value = network.values(rows[1])
            outputs, value, next_value = (x.reshape(*experience.reward.shape, -1) for x in (outputs, value, next_value))
        else:
            features = replay_hidden(network, noted.hidden, observation, experience)
            after = GRUState(features, over_rollout(network.actions.action_features)(raw))
            next_features = over_rollout(network.remember)(after, next_observation)
            outputs, value = over_rollout(network.outputs)(features), over_rollout(network.value)(observation, features)
            next_value = over_rollout(network.value)(next_observation, next_features)

        def judge(outputs: Array, observation: PyTree[Array], action: PyTree[Array]) -> tuple[Array, Array]:
            policy: Distribution = network.distribution(outputs, observation)
            return policy.log_probability(action), policy.entropy()  # type: ignore[arg-type]

        log_probability, entropy = over_rollout(judge)(outputs, observation, action)
        own = experience.source == AGENT
        log_ratio = jnp.where(own, log_probability - noted.log_probability, 0.0)
        return RolloutOutputs(log_probability, entropy, value[..., 0], next_value[..., 0], log_ratio)

    def estimate(self, state: ImpalaState, rollout: Experience) -> ValueEstimates:
        """Judge a rollout by V-trace."""
        later = update_norms(state.norm, split_mask(rollout.observation)[0], rollout.counts)
        read = self.apply_to_rollout(state.network, first_statistics(state.norm, later), rollout)
        ahead = jnp.where(rollout.terminated, 0.0, read.next_value)
        td_error = rollout.reward + self.discount * ahead - read.value
        advantage = self.targets(read, rollout)[1]
        return ValueEstimates(read.value, advantage * rollout.counts, td_error * rollout.counts, read.log_probability)


def replay_hidden(
    network: ActorCritic, hidden: GRUState, observation: PyTree[Array], experience: Experience
) -> Float[Array, "time env memory"]:
    """Return the GRU's state after each observation, from the one stored with the first, by today's network."""
    assert network.gru is not None
    gru = network.gru
    inputs = over_rollout(lambda o, a: gru.hear(network.features(o), a))(observation, hidden.action)
    first = jnp.concatenate([jnp.zeros_like(experience.ended[:1]), experience.ended[:-1]])
    return scan_gru(gru, hidden.features[0], first, inputs)


estimate = jax.vmap(vtrace, in_axes=(1, 1, 1, 1, 1, 1, None, None, None, None, None), out_axes=1)
"""V-trace of each environment of a rollout."""
