"""Gumbel search: a tree search in the environment itself, and a network that learns from its results.

Danihelka, Guez, Schrittwieser, Silver (2022), "Policy improvement by planning with Gumbel", ICLR: Gumbel AlphaZero.
With the network's logits l and value V at the state it is in, `act` draws a Gumbel number g(a) for each action, lets
the highest g + l share the simulations by sequential halving, and takes, among the most visited actions,

    argmax_a  g(a) + l(a) + s(q(a)),     s(q) = (50 + max_b N(b)) value_scale q

where q(a) is the mean of the N(a) simulated returns, rescaled to [0, 1] over all actions; what was not visited counts
as the mix of V and the visited q (the paper's appendix D). Without exploring g is 0. The search itself is that of the
library mctx (Google DeepMind). The network learns from each rollout

    -sum_a w(a) log pi(a|s)  +  value_coefficient (V(s) - G)^2 / 2,     w = softmax(l + s(q))

with the rollout's TD(lambda) return G. It bootstraps from the mean of q under w, which the search found in the state
that a step led to, and from V where the episode was truncated or the rollout ends.

A simulation steps the environment with its task, from its true state. Where the episode terminates, nothing comes
after; where a clock truncates it, V takes the place of what would have come, and the search goes no further. Chance is
drawn anew in each node that is added, by other keys than that of the step that is taken. One draw stands for all there,
so plans count on luck where chance matters: the search is exact in deterministic environments. An environment that
keeps a random key in its own state shows its future to the search.

Steps are those that are taken; each of them costs `simulations` more of the simulator. Not here: replay of older
searches, and a search that is not from the true state, as MuZero's is.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core.ports import ActInputs, Agent, Metrics, World
from forage.core.ports.needs import Needs
from forage.core.spaces import split_mask
from forage.core.types import Batch, Clock, Experience, ForageError, Spec
from forage.nn.actor_critic import ActorCritic, ActorCriticConfig
from forage.nn.distributions import Categorical
from forage.nn.normalise import Norms, apply_norm, first_statistics, input_space, norms_for, update_norms
from forage.ops.optimiser import Optimiser, adam
from forage.ops.returns import lambda_returns
from forage.ops.rows import fit, merge_time


class SearchState(NamedTuple):
    network: ActorCritic
    optimiser: Any
    norm: Norms  # of observations


class SearchResult(NamedTuple):
    """Results of a search from one state."""

    weights: Float[Array, " actions"]  # the improved policy
    value: Float[Array, ""]  # of that policy, among the actions that were visited


class Node(NamedTuple):
    """A state in the tree."""

    env_state: PyTree[Array]
    over: Bool[Array, ""]  # the episode ended on entering it
    value: Float[Array, ""]  # the network's; 0 where the episode terminated


class GumbelSearch(Agent):
    """Gumbel AlphaZero (Danihelka et al., 2022): a tree search in the environment, and a network that learns from it.

    It looks ahead in the environment's own state, and so works in native environments with numbered actions.
    """

    example: ClassVar[str] = "forage train gumbel-search CartPole-v1 --steps 20k"

    on_policy: ClassVar[bool] = True
    looks_ahead: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(actions="numbered", observations="any", instead="sac and ppo learn there")

    learning_rate: float = 3e-3  # step size of Adam; in CartPole-v1 it does better than 1e-3
    discount: float = 0.99  # worth of a reward one step later, in the search and in what is learned; PPO's
    trace_lambda: float = 0.95  # 1: returns of what was lived through, 0: of one step; as PPO's gae_lambda
    value_coefficient: float = 0.5  # weight of the value loss; PPO's
    value_scale: float = 0.02  # how much q counts beside the logits; the paper's c_scale, 0.1 for Atari and 1 for Go,
    # with which the policies of CartPole-v1 and grid:DoorKey-5x5 settle before they have explored
    max_gradient_norm: float = 0.5  # longer gradients are cut to this length; PPO's
    final_learning_rate: float = 1.0  # reached linearly at the end of the run, as a share of learning_rate
    num_envs: int = equinox.field(static=True, default=16)  # environments side by side
    rollout_length: int = equinox.field(static=True, default=32)  # steps of each environment between two updates
    simulations: int = equinox.field(static=True, default=16)  # steps of the simulator for each action; the paper's
    # least in Go and chess is 2
    considered: int = equinox.field(static=True, default=16)  # most actions that are looked into; the paper's
    epochs: int = equinox.field(static=True, default=4)  # times that each rollout is learned from; PPO's
    minibatch_size: int = equinox.field(static=True, default=64)  # transitions of each update, or a few more
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each layer; PPO's
    activation: str = equinox.field(static=True, default="tanh")  # between layers; PPO's
    normalise_observation: bool = equinox.field(static=True, default=False)  # by running means and deviations; PPO's

    def check(self, spec: Spec) -> None:
        if importlib.util.find_spec("mctx") is None:
            raise ForageError("gumbel-search needs the library mctx: pip install 'forage-rl[search]'.")
        norms_for(spec, self.normalise_observation)

    def init(self, key: Key[Array, ""], spec: Spec) -> SearchState:
        norm = norms_for(spec, self.normalise_observation)
        sizes = ActorCriticConfig(self.hidden_sizes, self.activation)
        network = ActorCritic(key, input_space(spec.observation_space, norm), spec.action_space, sizes)
        return SearchState(network, self.optimiser(1.0).init(network), norm)

    def optimiser(self, learning_rate: Any) -> Optimiser:
        return adam(learning_rate, epsilon=1e-5, max_gradient_norm=self.max_gradient_norm, flat=True)

    def act(self, state: SearchState, inputs: ActInputs) -> tuple[Int[Array, ""], PyTree[Array], SearchResult]:
        world = self.seen_world(inputs.world)
        action, found = self.search(state, inputs.observation, world, inputs.key, inputs.explore)
        return action, inputs.hidden, found

    def search(
        self, state: SearchState, observation: PyTree[Array], world: World, key: Key[Array, ""], explore: bool
    ) -> tuple[Int[Array, ""], SearchResult]:
        """Search from the state of the world. Return the action to take, and the search's estimates of the state."""
        import mctx

        environment = world.environment

        def expand(parameters: Any, rng_key: Any, action: Any, nodes: Any) -> tuple[Any, Any]:
            """Take one step from a node. Return mctx's output for it, and the node after the step."""
            node = jax.tree.map(lambda x: x[0], nodes)
            env_state, step = environment.step(node.env_state, action[0], rng_key)
            logits, value = self.predict(state, step.observation)
            value = jnp.where(step.terminated, 0.0, value)
            discount = jnp.where(step.terminated, 0.0, self.discount)
            # What is over stays as it is: no reward, and the value that it ended with.
            following = Node(env_state, step.terminated | step.truncated, value)
            following = jax.tree.map(lambda new, old: jnp.where(node.over, old, new), following, node)
            reward = jnp.where(node.over, 0.0, step.reward).astype(jnp.float32)
            discount = jnp.where(node.over, 1.0, discount)
            told = {"reward": reward, "discount": discount, "prior_logits": logits, "value": following.value}
            return mctx.RecurrentFnOutput(**add_batch_axis(told)), add_batch_axis(following)

        logits, value = self.predict(state, observation)
        mask = split_mask(observation)[1]
        node = Node(world.state, jnp.bool_(False), value)
        root = add_batch_axis({"prior_logits": logits, "value": value, "embedding": node})
        found = mctx.gumbel_muzero_policy(
            (),
            key,
            mctx.RootFnOutput(**root),
            expand,
            self.simulations,
            None if mask is None else ~mask.astype(bool)[None],
            qtransform=functools.partial(mctx.qtransform_completed_by_mix_value, value_scale=self.value_scale),
            max_num_considered_actions=self.considered,
            gumbel_scale=1.0 if explore else 0.0,
        )
        action, weights, summary = jax.tree.map(
            lambda x: x[0], (found.action, found.action_weights, found.search_tree.summary())
        )
        share = jax.nn.softmax(jnp.log(weights), where=summary.visit_counts > 0)
        return action.astype(jnp.int32), SearchResult(weights, share @ summary.qvalues)

    def predict(
        self, state: SearchState, observation: PyTree[Array]
    ) -> tuple[Float[Array, " actions"], Float[Array, ""]]:
        """Return the logits and the value of an observation."""
        observation, network = apply_norm(state.norm, observation), state.network
        policy = network.policy(network.features(observation), observation)
        assert isinstance(policy, Categorical)
        return policy.logits, network.value(observation)[0]

    def learn(
        self, state: SearchState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[SearchState, Metrics, Float[Array, " env"]]:
        experience, found = batch.experience, batch.experience.policy_info
        # The statistics that acted also learn, except in the first rollout, which starts without any.
        later = update_norms(state.norm, split_mask(experience.observation)[0], experience.counts)
        norm = first_statistics(state.norm, later)
        targets = self.value_targets(state._replace(norm=norm), experience)
        observation = jax.vmap(jax.vmap(lambda o: apply_norm(norm, o)))(experience.observation)
        rows = merge_time((observation, found.weights, targets))
        before, value_loss = self.losses(state.network, rows)

        # Fit policy and value, with the clock from before the rollout, so that the first update has the full rate.
        began = jnp.maximum(clock.steps - self.num_envs * self.rollout_length, 0)
        rate = self.learning_rate * (1 - clock._replace(steps=began).fraction * (1 - self.final_learning_rate))

        def loss(network: ActorCritic, rows: PyTree[Array]) -> Float[Array, ""]:
            policy_loss, value_loss = self.losses(network, rows)
            return policy_loss + self.value_coefficient * value_loss

        network, optimiser, _ = fit(
            loss, self.optimiser(rate), state.network, state.optimiser, rows, key, self.epochs, self.minibatch_size
        )
        # The logarithm of 0 is not a number here: masked actions have weight 0.
        entropy = -jnp.where(rows[1] > 0, rows[1] * jnp.log(jnp.maximum(rows[1], 1e-30)), 0.0).sum(-1).mean()
        metrics: Metrics = {
            "policy_loss": before,
            "value_loss": value_loss,
            "search_entropy": entropy,
            "search_divergence": before - entropy,  # of the search's policy from the network's, both as they acted
            "search_value": found.value.mean(),
        }
        state = state._replace(network=network, optimiser=optimiser, norm=later)
        return state, metrics, jnp.abs(targets - found.value).mean(0)

    def value_targets(self, state: SearchState, experience: Experience) -> Float[Array, "time env"]:
        """Compute the TD(lambda) returns of a rollout, which bootstrap from values found by the searches."""
        rows = merge_time(experience.next_observation)
        value = state.network.values(jax.vmap(lambda o: apply_norm(state.norm, o))(rows))
        value = value.reshape(experience.reward.shape)
        searched = jnp.concatenate([experience.policy_info.value[1:], value[-1:]])
        next_value = jnp.where(experience.ended, value, searched)
        returns = jax.vmap(lambda_returns, in_axes=(1, 1, 1, 1, None, None), out_axes=1)
        ends = experience.terminated, experience.truncated
        return returns(experience.reward, next_value, *ends, self.discount, self.trace_lambda)

    def losses(
        self, network: ActorCritic, rows: tuple[PyTree[Array], Float[Array, "row actions"], Float[Array, " row"]]
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Compute the cross-entropy to the search's policy, and half the squared error of the values."""
        observation, weights, targets = rows
        outputs, value = network.rows(observation)
        masks = split_mask(observation)[1]
        log_policy = jax.vmap(lambda logits, mask: Categorical.from_logits(logits, mask).log_probabilities)(
            outputs, masks
        )
        return -(weights * log_policy).sum(-1).mean(), 0.5 * jnp.square(value[:, 0] - targets).mean()


def add_batch_axis(tree: PyTree[Array]) -> PyTree[Array]:
    """Put an axis of one in front of all leaves, as mctx has batches."""
    return jax.tree.map(lambda x: jnp.asarray(x)[None], tree)
