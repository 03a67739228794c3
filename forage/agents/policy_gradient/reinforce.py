"""REINFORCE: the policy gradient of whole episodes, with a baseline.

Williams (1992), "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning", Machine
Learning 8. Each rollout makes one step down

    -mean_t (G - b) log pi(a_t|s_t)  -  entropy_coefficient H(pi(.|s_t))

over the steps t of the episodes that ended, with an episode's return G = sum_k discount^k r_k and its baseline b:

- `none`: 0.
- `mean`: the mean return of the rollout's other episodes.
- `group`: the mean return of the other episodes that share its mark, such as those of one group of `--starts groups`
  (RLOO: Kool, van Hoof, Welling, 2019, "Buy 4 REINFORCE Samples, Get a Baseline for Free!"; Ahmadian et al., 2024,
  "Back to Basics", arXiv 2402.14740). An episode that is alone in its group teaches nothing.

With `standardise`, (G - mean) / std of all the episodes it is compared with, itself included, takes the place of G - b:
the advantage of GRPO (Shao et al., 2024, "DeepSeekMath", arXiv 2402.03300), here with one step per rollout and neither
clipping nor a reference policy.

The end of a rollout drops the episodes under way. Among those that begin late in it only short ones are learned from,
which biases the gradient where lengths differ; `rollout_length` far above the environment's horizon makes that rare.
"""

from __future__ import annotations

import functools
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.agents.policy_gradient.rollouts import over_rollout
from forage.core import prng
from forage.core.ports import ActInputs, Agent, Metrics
from forage.core.ports.needs import Choices, Needs
from forage.core.spaces import split_mask
from forage.core.types import AGENT, Batch, Clock, ForageError, Spec
from forage.nn.actor_critic import ActorCritic, ActorCriticConfig
from forage.nn.distributions import Distribution, action_probabilities, draw_action
from forage.nn.normalise import Norms, apply_norm, first_statistics, input_space, norms_for, update_norms
from forage.ops.episodes import finished, group_relative, groups, leave_one_out, spread_ends, whole_returns
from forage.ops.optimiser import Optimiser, adam
from forage.ops.rows import merge_time, weighted_mean

BASELINES = ("none", "mean", "group")


class ReinforceState(NamedTuple):
    network: ActorCritic  # its values are not learned
    optimiser: Any
    norm: Norms  # of observations


class Reinforce(Agent):
    """REINFORCE of whole episodes (Williams, 1992), with the leave-one-out baselines of RLOO and GRPO's advantage."""

    example: ClassVar[str] = "forage train reinforce language:Reverse-2 --starts groups --baseline group"

    on_policy: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    whole_episodes: ClassVar[bool] = True
    needs_start_ids: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(actions="any or mixed", observations="any", whole_episodes=1)
    choices: ClassVar[Choices] = {"baseline": BASELINES}

    learning_rate: float = 3e-3  # step size of Adam; 1e-2 learns CartPole-v1 sooner and language:Reverse-4 not to the
    # end
    discount: float = 0.99  # worth of a reward one step later, from the episode's beginning; PPO's
    entropy_coefficient: float = 0.0  # weight of the policy's entropy; none in Williams, RLOO and GRPO
    max_gradient_norm: float = 0.5  # longer gradients are cut to this length; PPO's
    final_learning_rate: float = 0.0  # reached linearly at the end of the run, as a share of learning_rate; PPO's
    num_envs: int = equinox.field(static=True, default=16)  # environments side by side; two groups of `--starts groups`
    rollout_length: int = equinox.field(static=True, default=500)  # steps of each environment between two updates, the
    # environment's horizon or more; by name it is the horizon unless given
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each layer; PPO's
    activation: str = equinox.field(static=True, default="tanh")  # function between layers; PPO's
    baseline: str = equinox.field(static=True, default="mean")  # none, mean or group: what a return is compared with
    standardise: bool = equinox.field(static=True, default=False)  # returns are divided by the deviation of those
    # compared (GRPO); RLOO does not
    normalise_observation: bool = equinox.field(static=True, default=False)  # observations are brought to mean 0 and
    # deviation 1, by those seen so far; PPO's
    initial_log_std: float | None = None  # logarithm of the deviation of continuous actions at first, in the unit box;
    # none: 0, as PPO's

    def check(self, spec: Spec) -> None:
        if self.standardise and self.baseline == "none":
            raise ForageError(
                "Returns are standardised among those they are compared with; take baseline mean or group."
            )
        norms_for(spec, self.normalise_observation)

    def init(self, key: Key[Array, ""], spec: Spec) -> ReinforceState:
        sizes = ActorCriticConfig(self.hidden_sizes, self.activation, log_std=self.initial_log_std)
        norm = norms_for(spec, self.normalise_observation)
        network = ActorCritic(key, input_space(spec.observation_space, norm), spec.action_space, sizes)
        return ReinforceState(network, self.optimiser(1.0).init(network), norm)

    def optimiser(self, learning_rate: Any) -> Optimiser:
        return adam(learning_rate, epsilon=1e-5, max_gradient_norm=self.max_gradient_norm, flat=True)

    def policy(self, state: ReinforceState, observation: PyTree[Array]) -> Distribution:
        """Return the distribution of actions for an observation."""
        observation = apply_norm(state.norm, observation)
        return state.network.policy(state.network.features(observation), observation)

    def act(self, state: ReinforceState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        policy, actions = self.policy(state, inputs.observation), state.network.actions
        action = draw_action(policy, inputs)
        return action if actions.discrete else actions.to_box(action), inputs.hidden, ()

    def noise(self, spec: Spec) -> tuple[int, ...] | None:
        network = jax.eval_shape(lambda: self.init(prng.key(0), spec)).network
        return None if network.log_std is None else network.log_std.shape

    def probabilities(
        self, state: ReinforceState, observation: PyTree[Array], explore: bool
    ) -> Float[Array, " actions"]:
        policy = self.policy(state, observation)
        return action_probabilities(policy, explore, "REINFORCE")

    def learn(
        self, state: ReinforceState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[ReinforceState, Metrics, Float[Array, " env"]]:
        experience = batch.experience
        # The statistics that acted also learn, except in the first rollout, which starts without any.
        later = update_norms(state.norm, split_mask(experience.observation)[0], experience.counts)
        norm = first_statistics(state.norm, later)
        observation = over_rollout(lambda o: apply_norm(norm, o))(experience.observation)
        action = experience.action
        if not state.network.actions.discrete:
            action = over_rollout(state.network.actions.to_unit)(action)

        # Advantages of whole episodes
        ended = experience.ended
        last = ended & experience.counts  # an agent that left before the others has no episode until all begin anew
        returns = over_envs(functools.partial(whole_returns, discount=self.discount))(experience.reward, ended)
        advantage = over_envs(spread_ends)(self.advantages(returns, last, experience.start_id), ended)
        whole = over_envs(finished)(ended) & experience.counts
        own = (whole & (experience.source == AGENT)).astype(jnp.float32)

        # As of the beginning of the rollout, so that the first update uses the full learning rate
        began = jnp.maximum(clock.steps - self.num_envs * self.rollout_length, 0)
        rate = self.learning_rate * (1 - clock._replace(steps=began).fraction * (1 - self.final_learning_rate))
        rows = merge_time((observation, action, advantage, own))
        gradient, (policy_loss, entropy) = jax.grad(self.loss, has_aux=True)(state.network, *rows)
        network, optimiser = self.optimiser(rate).step(gradient, state.optimiser, state.network)
        metrics = {"policy_loss": policy_loss, "entropy": entropy, "whole_share": whole.mean()}
        return ReinforceState(network, optimiser, later), metrics, jnp.abs(advantage * own).mean(0)

    def advantages(
        self, returns: Float[Array, "time env"], last: Bool[Array, "time env"], marks: PyTree[Array]
    ) -> Float[Array, "time env"]:
        """Compute each episode's advantage, at its last step."""
        if self.baseline == "none":
            return returns
        if self.baseline == "group" and not jax.tree.leaves(marks):
            raise ForageError(
                "The baseline group compares episodes whose starts have a mark in common; use --starts groups, or "
                "--baseline mean."
            )
        marks = jax.tree.map(lambda x: x.reshape(last.size, -1), marks) if self.baseline == "group" else ()
        valid = last.reshape(-1)
        compare = group_relative if self.standardise else leave_one_out
        return compare(returns.reshape(-1), valid, groups(marks, valid)).reshape(last.shape)

    def loss(
        self,
        network: ActorCritic,
        observation: PyTree[Array],
        action: PyTree[Array],
        advantage: Float[Array, " rows"],
        own: Float[Array, " rows"],
    ) -> tuple[Float[Array, ""], tuple[Float[Array, ""], Float[Array, ""]]]:
        """Compute the loss, and its two terms."""

        def judge(outputs: Array, observation: PyTree[Array], action: Array) -> tuple[Array, Array]:
            policy = network.distribution(outputs, observation)
            return policy.log_probability(action), policy.entropy()

        outputs = network.outputs(network.torso(0).rows(observation))
        log_probability, entropy = jax.vmap(judge)(outputs, observation, action)
        policy_loss = -weighted_mean(advantage * log_probability, own)
        entropy = weighted_mean(entropy, own)
        return policy_loss - self.entropy_coefficient * entropy, (policy_loss, entropy)


def over_envs(function: Any) -> Any:
    """Map a function of one trajectory over the environments of `time env`."""
    return jax.vmap(function, in_axes=1, out_axes=1)
