"""BRO: large regularised critics without pessimism, and a second policy that explores optimistically.

Nauman, Ostaszewski, Jankowski, Miłoś, Cygan (2024), "Bigger, Regularized, Optimistic: scaling for compute and
sample-efficient continuous control", arXiv 2405.16158. Soft actor-critic whose two critics are BroNets
(`forage.nn.residual`) of M quantiles theta_im, whose weights decay, and of which the target takes the mean: with
a' ~ pi(.|s') and b ~ pi(.|s), each update takes one step down

    critics      sum_i mean_m mean_k |tau_m - [u < 0]| Huber(u),   u = y_k - theta_im(s, a)
                 y_k = r + discount (1 - terminated) (mean_i theta'_ik(s', a') - alpha log pi(a'|s'))
    actor        alpha log pi(b|s) - mean_i mean_m theta_im(s, b), and the temperature alpha as in SAC

Where it learns, another policy acts. Its mean is pi's and a shift that a network of its own computes from s and that
mean, its deviation `explorer_deviation` times pi's. With c drawn from it, D the divergence of both policies' Gaussians
without that factor, and d numbers in an action, it takes a step down

    explorer     -mean_m (mean_i theta_im(s, c) + optimism |theta_1m(s, c) - theta_2m(s, c)| / 2) + penalty D
    adjustments  optimism (D / d - divergence),   -penalty (D / d - divergence)

where both adjustments stay between exp(-10) and exp(7.5). Everything but the memory begins anew after certain numbers
of steps. Update, networks and numbers are those of the authors' program (jaxrl/bro and jaxrl/networks of
naumix/BiggerRegularizedOptimistic, train_parallel.py); the paper's tables could not be looked up. There the loss of
quantiles is a sum where here it is a mean, which Adam's steps hardly tell, and a reset draws the same first weights
again, where here it draws others.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
import optax
from gymnasium import spaces
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.actor_critic.base import CriticKeys, UpdateInputs
from forage.agents.actor_critic.sac import SAC, SACState
from forage.core.ports import ActInputs, Metrics, State
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import observation_part
from forage.core.types import Batch, Spec
from forage.nn.critics import ActionValue, each_value
from forage.nn.distributions import SquashedGaussian, squash_to
from forage.nn.networks import NetworkConfig, body, input_size, orthogonal
from forage.nn.normalise import apply_norm
from forage.ops.every import run_if
from forage.ops.optimiser import Optimiser, adam
from forage.ops.rows import weighted_mean

LOWEST, HIGHEST = -10.0, 7.5  # logarithms of the least and the largest adjustment
FIRST_SHIFT = 0.01  # gain of the explorer's last weights
OF_ADJUSTMENTS = 0.5  # beta1 of Adam for temperature and adjustments


class Explorer(ActionValue):
    """Shift of the policy's mean, from an observation and that mean."""

    shift: Float[Array, "features dimensions"]

    def __init__(
        self,
        key: Key[Array, ""],
        space: spaces.Space[Any],
        dimensions: int,
        sizes: tuple[int, ...],
        style: NetworkConfig,
    ):
        encoder_key, body_key, shift_key = jax.random.split(key, 3)
        super().__init__(encoder_key, space, dimensions, sizes, style)
        inputs = input_size(observation_part(space)) if self.encoder is None else self.encoder.size
        self.body = body(body_key, inputs + dimensions, sizes, None, style)
        self.shift = orthogonal(shift_key, sizes[-1], dimensions, FIRST_SHIFT)

    def __call__(
        self, observation: PyTree[Array], action: Float[Array, "batch dimensions"], key: Key[Array, ""] | None = None
    ) -> Float[Array, "batch dimensions"]:
        """Return the shifts of a batch; `action`: the policy's means, before they are squashed."""
        return self.body(self.inputs(observation, action), key) @ self.shift


class BROState(SACState):
    explorer: Explorer
    explorer_optimiser: Any
    optimism: Float[Array, ""]  # as `to_weight` takes it, and so the penalty
    optimism_optimiser: Any
    penalty: Float[Array, ""]
    penalty_optimiser: Any


class BRO(SAC):
    """SAC with large critics, resets and an optimistic explorer (Nauman et al., 2024, arXiv 2405.16158).

    Defaults are those of the authors' program, where ten updates follow a step. With two, which they call BRO (Fast),
    only the first reset is made: `--updates-per-rollout 2 --resets 15000`.
    """

    example: ClassVar[str] = "forage train bro Pendulum-v1 --value-sizes 64,64 --updates-per-rollout 2"
    ranges: ClassVar[Ranges] = {
        "weight_decay": Range(0),
        "resets": Range(1),
        "initial_optimism": Range(1e-4, 1500),
        "initial_penalty": Range(1e-4, 1500),
        "divergence": Range(0),
        "explorer_deviation": Range(0, above=True),
        "adjustment_rate": Range(0),
    }
    unused: ClassVar[Unused] = {
        "critics target_subset": "BRO is optimistic by how two critics differ, and its target is their mean",
        "bins dropped_quantiles": "BRO's values are numbers, or quantiles that are all kept",
        "state_dependent_noise": "BRO explores by another policy",
        "optimiser": "BRO's optimiser is Adam with decaying weights",
    }

    batch_size: int = equinox.field(static=True, default=128)
    updates_per_rollout: int = equinox.field(static=True, default=10)
    learning_starts: int = equinox.field(static=True, default=2500)
    torso: str = equinox.field(static=True, default="bro")
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256,))
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=(512, 512))
    quantiles: int = equinox.field(static=True, default=100)
    policy_q: str = equinox.field(static=True, default="mean")
    target_entropy: float = -0.5
    squash_deviation: bool = equinox.field(static=True, default=True)
    weight_decay: float = 1e-4  # share of each weight that is lost in a step of size 1, of policies and critics; larger
    # keeps weights smaller; Optax's own, which the authors keep
    resets: tuple[int, ...] = equinox.field(
        static=True, default=(15_000, 50_000, 250_000, 500_000, 750_000, 1_000_000, 1_500_000, 2_000_000)
    )  # environment steps after which all but the memory begins anew, with the first update that follows; the authors'
    initial_optimism: float = 1.0  # weight of the critics' disagreement at first; larger explores more; the authors'
    initial_penalty: float = 0.25  # weight of the explorer's divergence at first; larger keeps it nearer the policy;
    # the authors'
    divergence: float = 0.05  # divergence of the explorer for each number of an action that both weights aim at; larger
    # lets it go further; the authors'
    explorer_deviation: float = 0.75  # the explorer's deviation over the policy's; larger acts more at random; the
    # authors'
    adjustment_rate: float = 3e-5  # step size of Adam for both weights; the authors'

    def init(self, key: Key[Array, ""], spec: Spec) -> BROState:
        sac_key, explorer_key = jax.random.split(key)
        sac, read, steps = super().init(sac_key, spec), self.read_spec(spec), self.adjustment_descent()
        dimensions = sac.actor.actions.outputs
        explorer = Explorer(explorer_key, read.observation_space, dimensions, self.hidden_sizes, self.style())
        optimism, penalty = (from_weight(value) for value in (self.initial_optimism, self.initial_penalty))
        return BROState.extend(
            sac,
            explorer=explorer,
            explorer_optimiser=self.policy_descent().init(explorer),
            optimism=optimism,
            optimism_optimiser=steps.init(optimism),
            penalty=penalty,
            penalty_optimiser=steps.init(penalty),
        )

    def make_actor(self, key: Key[Array, ""], spec: Spec) -> Any:
        """Return the policy's network; first weights that deviations come from have gain 1, other than the means'."""
        actor, gain = super().make_actor(key, spec), self.style().head_gain
        if gain is None:
            return actor
        dimensions = actor.actions.outputs
        weight = actor.head.weight.at[:, dimensions:].divide(gain)
        return equinox.tree_at(lambda actor: actor.head.weight, actor, weight)

    def descent(self) -> Optimiser:
        return self.bounded_steps(Optimiser(optax.adamw(self.learning_rate, weight_decay=self.weight_decay)))

    def temperature_descent(self) -> Optimiser:
        return adam(self.learning_rate, momentum=OF_ADJUSTMENTS)

    def adjustment_descent(self) -> Optimiser:
        """Return the optimiser of optimism and penalty."""
        return adam(self.adjustment_rate, momentum=OF_ADJUSTMENTS)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        if not inputs.explore:
            return super().act(state, inputs)
        row = jax.tree.map(lambda x: x[None], apply_norm(state.norm, inputs.observation))
        policy = jax.tree.map(lambda x: x[0], self.exploring(state, row))
        noise = jax.random.normal(inputs.key, policy.mean.shape) if inputs.noise is None else inputs.noise
        return state.actor.actions.to_box(policy.from_noise(noise)[0]), inputs.hidden, ()

    def exploring(self, state: State, observation: PyTree[Array]) -> SquashedGaussian:
        return self.explorers(state.explorer, state.actor(observation), observation)

    def explorers(self, explorer: Explorer, policy: SquashedGaussian, observation: PyTree[Array]) -> SquashedGaussian:
        """Return the optimistic exploration policies that act in place of the actor's `policy`."""
        shift = explorer(observation, policy.mean)
        return SquashedGaussian(policy.mean + shift, policy.log_std + jnp.log(self.explorer_deviation))

    def next_value(
        self,
        critics: ActionValue,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        keys: CriticKeys,
    ) -> Float[Array, "*samples batch"]:
        """Compute the mean of both target critics, quantile by quantile."""
        outputs = each_value(critics, observation, action, key=keys.target, ask=ActionValue.outputs).mean(0)
        return outputs.T if self.quantiles else outputs[:, 0]

    def update(self, state: State, inputs: UpdateInputs) -> tuple[State, Metrics, Float[Array, " batch"]]:
        state, metrics, error = super().update(state, inputs)
        return state, metrics | {"optimism": to_weight(state.optimism), "penalty": to_weight(state.penalty)}, error

    def improve(self, state: State, inputs: UpdateInputs) -> tuple[State, Metrics]:
        """Take one step of actor and temperature, then one of the explorer and both adjustments."""
        state, metrics = super().improve(state, inputs)
        assert inputs.keys.sampled is not None
        drawn = inputs._replace(noise=jax.random.normal(inputs.keys.sampled, inputs.noise.shape))
        gradient, apart = jax.grad(self.explorer_loss, has_aux=True)(state.explorer, state, drawn)
        explorer, explorer_optimiser = self.policy_descent().step(gradient, state.explorer_optimiser, state.explorer)

        # Optimism and penalty
        excess, steps = apart / inputs.noise.shape[1] - self.divergence, self.adjustment_descent()
        slope = jax.grad(lambda optimism: to_weight(optimism) * excess)(state.optimism)
        optimism, optimism_optimiser = steps.step(slope, state.optimism_optimiser, state.optimism)
        slope = jax.grad(lambda penalty: -to_weight(penalty) * excess)(state.penalty)
        penalty, penalty_optimiser = steps.step(slope, state.penalty_optimiser, state.penalty)
        return state._replace(
            explorer=explorer,
            explorer_optimiser=explorer_optimiser,
            optimism=optimism,
            optimism_optimiser=optimism_optimiser,
            penalty=penalty,
            penalty_optimiser=penalty_optimiser,
        ), metrics

    def explorer_loss(
        self, explorer: Explorer, state: State, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Compute the explorer's loss and its mean divergence from the policy, over the rows that count."""
        observation, counts = inputs.now.observation, inputs.now.counts
        policy = jax.lax.stop_gradient(state.actor(observation))
        optimistic = self.explorers(explorer, policy, observation)
        action, _ = optimistic.from_noise(inputs.noise)
        outputs = each_value(state.critics, observation, action, ask=ActionValue.outputs)
        bound = outputs.mean(0) + to_weight(state.optimism) * jnp.abs(outputs[0] - outputs[1]) / 2
        apart = jnp.sum((optimistic.mean - policy.mean) ** 2 / (2 * jnp.exp(2 * policy.log_std)), axis=-1)
        loss = weighted_mean(to_weight(state.penalty) * apart - bound.mean(-1), counts)
        return loss, weighted_mean(apart, counts)

    def reset_networks(self, state: State, batch: Batch, key: Key[Array, ""], spec: Spec) -> tuple[State, Metrics]:
        state, metrics = super().reset_networks(state, batch, key, spec)
        if not self.resets:
            return state, metrics
        each = self.num_envs * self.rollout_length
        before = max(-(-self.learning_starts // each) - 1, 0)  # rollouts that no update follows
        # With the first update after those steps: who stops there, or is scored there, has what was learned.
        updates = jnp.array([(step // each - before) * self.updates_per_rollout + 1 for step in self.resets])
        due = (state.updates == updates).any()
        return run_if(due, lambda state: self.restart(state, key, spec), state), metrics


def to_weight(number: Float[Array, ""]) -> Float[Array, ""]:
    """Return the weight that a number stands for, between exp(`LOWEST`) and exp(`HIGHEST`)."""
    return jnp.exp(squash_to(number, LOWEST, HIGHEST))


def from_weight(weight: Any) -> Float[Array, ""]:
    """Return the number that stands for a weight."""
    weight = jnp.asarray(weight, jnp.float32)
    return jnp.arctanh(2 * (jnp.log(weight) - LOWEST) / (HIGHEST - LOWEST) - 1)
