"""Implicit Q-learning: values of the best actions in a data set, without asking for any other action's value.

Kostrikov, Nair, Levine (2021), "Offline Reinforcement Learning with Implicit Q-Learning", arXiv 2110.06169. With
Q = min_i Q'_i(s, a) of the target critics, each update takes one step down each of, in this order,

    value     L(Q - V(s)),  L(u) = |expectile - [u < 0]| u^2                                     (equation 5)
    policy    -min(exp(beta (Q - V(s))), most_weight) log pi(a|s),  with the new V               (equation 7)
    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) V(s'))^2 / 2,  with the new V     (equation 6)

and moves the targets Q' a little towards the critics. An expectile above 1/2 makes V lean to the better actions of the
data: 1/2 values the policy that was recorded, and towards 1 the best one that the data supports. Sizes, rates and the
cosine by which the policy's learning rate falls to zero are those of the authors' code; where it goes on online they
leave the cosine out (configs/antmaze_finetune_config.py of ikostrikov/implicit_q_learning) and add what is seen to the
data, so that its share of a batch grows slowly (train_finetune.py).

There the rewards of locomotion are multiplied by 1000 / (return of the best episode - return of the worst), and 1 is
taken from those of AntMaze (train_offline.py), which beta goes with: here that is a matter of the data. Weights begin
orthogonal with gain sqrt 2 and biases at zero, in the last layers too; here both uniform in +-1 / sqrt(inputs).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.agents.offline.base import Policy, StandardisingAgent
from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.critics import ActionValue, CriticReport, each_value, squared_error, stack_modules
from forage.nn.distributions import Actions
from forage.nn.networks import NetworkConfig, TorsoHead
from forage.nn.normalise import Norms, normalise_transitions, norms_for
from forage.ops.losses import join_metrics, loss_gradient
from forage.ops.optimiser import Optimiser, blend, make_named_optimiser


class Value(TorsoHead):
    """V(s)."""

    def __init__(self, key: Key[Array, ""], spec: Spec, hidden_sizes: tuple[int, ...], style: NetworkConfig):
        super().__init__(key, spec.observation_space, hidden_sizes, style, 1)

    def __call__(self, observation: PyTree[Array]) -> Float[Array, " batch"]:
        """Values of a batch (leaves `batch ...`)."""
        return self.head(self.torso.rows(observation))[:, 0]


class IQLState(NamedTuple):
    policy: Policy
    value: Value
    critics: ActionValue  # leaves [2, ...]
    target_critics: ActionValue
    policy_optimiser: Any
    value_optimiser: Any
    critic_optimiser: Any
    norm: Norms = None  # of observations; `None`: networks read them as they are


class LossInputs(NamedTuple):
    """The inputs of the losses of value and policy."""

    now: Experience  # transitions, leaves `batch ...`
    action: Float[Array, "batch outputs"]  # as critics read it
    q: Float[Array, " batch"]  # the least of the target critics' values of the recorded action
    value: Float[Array, " batch"]  # V(s), of the policy's loss after its step; zeros for the value's
    weight: Float[Array, " batch"]
    key: Key[Array, ""]  # for losses of one's own


class CriticInputs(NamedTuple):
    """The inputs of the critics' loss."""

    observation: PyTree[Array]  # leaves `batch ...`
    action: Float[Array, "batch outputs"]  # as critics read it
    target: Float[Array, " batch"]
    weight: Float[Array, " batch"]
    actions: Actions  # encodes the actions of other transitions
    key: Key[Array, ""]


class IQL(StandardisingAgent):
    """Implicit Q-learning (Kostrikov et al., 2021, arXiv 2110.06169), for discrete, bounded continuous and mixed
    actions.

    With `--from RUN --memory mixed --memory.data FILE` it goes on online with the same losses, half of each batch from
    the data.
    """

    example: ClassVar[str] = "forage train iql Pendulum-v1 --data mixed.npz"
    fine_tunes: ClassVar[bool] = True
    signatures: ClassVar[dict[str, str]] = StandardisingAgent.signatures | dict.fromkeys(
        ("value_loss", "policy_loss", "critic_loss"), "network, inputs"
    )
    needs: ClassVar[Needs] = Needs(actions="choices or bounded or bounded mixed")

    learning_rate: float = 3e-4  # step size of Adam, for all networks, as in the paper (appendix B)
    discount: float = 0.99  # worth of a reward one step later, as in the paper (appendix B)
    expectile: float = 0.7  # which expectile of the actions' values V is, as for the paper's locomotion tasks
    beta: float = 3.0  # inverse temperature: how far the policy prefers better actions, as for locomotion
    most_weight: float = 100.0  # bound of a transition's weight in the policy's loss, as in the authors' code
    polyak: float = 0.005  # how far each update moves the target critics towards the critics, as in the paper
    anneal_policy: bool = equinox.field(static=True, default=True)  # let the policy's step size fall to zero by half a
    # cosine over the run, as the authors do with data alone; they leave that out where it goes on online
    batch_size: int = equinox.field(static=True, default=256)  # transitions of an update, as in the paper
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))  # layers of each, as in the paper
    value_sizes: tuple[int, ...] = equinox.field(static=True, default=())

    def init(self, key: Key[Array, ""], spec: Spec) -> IQLState:
        norm, spec = norms_for(spec, self.normalise_observation), self.read_spec(spec)
        policy_key, value_key, critic_key = jax.random.split(key, 3)
        style, sizes = NetworkConfig.from_agent(self), self.value_sizes or self.hidden_sizes
        policy, value = self.make_policy(policy_key, spec), Value(value_key, spec, sizes, style)
        dimensions = policy.actions.outputs
        critics = stack_modules(lambda k: ActionValue(k, spec.observation_space, dimensions, sizes, style), critic_key)
        optimisers = (self.descent().init(network) for network in (policy, value, critics))
        return IQLState(policy, value, critics, jax.tree.map(jnp.copy, critics), *optimisers, norm=norm)

    def make_policy(self, key: Key[Array, ""], spec: Spec) -> Any:
        """Return the policy: a module with `actions` and `log_probability`, as `Policy` has them."""
        return Policy(key, spec, self.hidden_sizes, NetworkConfig.from_agent(self))

    def descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.learning_rate)

    def policy_optimiser(self, clock: Clock) -> Optimiser:
        """Return Adam with the policy's learning rate, which falls to zero by half a cosine if it is annealed."""
        share = 0.5 * (1 + jnp.cos(math.pi * clock.fraction)) if self.anneal_policy else 1.0
        return make_named_optimiser(self.optimiser, self.learning_rate * share)

    def learn(
        self, state: IQLState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[IQLState, Metrics, Float[Array, " batch"]]:
        now = normalise_transitions(state.norm, batch.transitions)
        action = jax.vmap(state.policy.actions.action_features)(now.action)
        recorded = each_value(state.target_critics, now.observation, action).min(0)

        # Value
        drawn = (jax.random.fold_in(key, number) for number in (1, 2))
        given = LossInputs(now, action, recorded, jnp.zeros_like(recorded), batch.weight, next(drawn))
        gradient, of_value = loss_gradient(self.value_loss, state.value, given)
        value, value_optimiser = self.descent().step(gradient, state.value_optimiser, state.value)

        # Policy
        given = given._replace(value=value(now.observation), key=next(drawn))
        gradient, of_policy = loss_gradient(self.policy_loss, state.policy, given)
        policy, policy_optimiser = self.policy_optimiser(clock).step(gradient, state.policy_optimiser, state.policy)

        # Critics
        target = self.target(now, value(now.next_observation))
        inputs = CriticInputs(now.observation, action, target, batch.weight, state.policy.actions, key)
        gradient, report = loss_gradient(self.critic_loss, state.critics, inputs)
        critics, critic_optimiser = self.descent().step(gradient, state.critic_optimiser, state.critics)
        targets = blend(critics, state.target_critics, self.polyak)

        metrics = {"critic_loss": report.loss, "value": report.value}
        metrics = join_metrics(of_value, of_policy, metrics, report.metrics)
        learned = IQLState(
            policy, value, critics, targets, policy_optimiser, value_optimiser, critic_optimiser, state.norm
        )
        return learned, metrics, report.error

    def value_loss(self, value: Value, inputs: LossInputs) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss of V. A subclass adds a term and metrics; `inputs.key` is a random key."""
        loss = (inputs.weight * self.value_error(inputs.q - value(inputs.now.observation))).mean()
        return loss, {"value_loss": loss}

    def policy_loss(self, policy: Policy, inputs: LossInputs) -> tuple[Float[Array, ""], Metrics]:
        """Compute the policy's loss, from V after its step. A subclass adds a term and metrics."""
        advantage = inputs.q - inputs.value
        weight = jnp.minimum(jnp.exp(self.beta * advantage), self.most_weight)
        likely = policy.log_probability(inputs.now.observation, inputs.now.action)
        loss = -(inputs.weight * weight * likely).mean()
        clipped = (weight >= self.most_weight).mean()
        return loss, {"policy_loss": loss, "advantage": advantage.mean(), "clipped": clipped}

    def value_error(self, difference: Float[Array, " batch"]) -> Float[Array, " batch"]:
        """Compute the error of V from the difference Q - V."""
        return expectile_error(difference, self.expectile)

    def target(self, now: Experience, after: Float[Array, " batch"]) -> Float[Array, " batch"]:
        """Compute the critics' target; `after` is V(s')."""
        return now.reward + self.discount * jnp.where(now.terminated, 0.0, after)

    def critic_loss(self, critics: ActionValue, inputs: CriticInputs) -> tuple[Float[Array, ""], CriticReport]:
        """Compute the critics' loss. A subclass adds a term, and its metrics by `report | {"name": number}`."""
        return squared_error(each_value(critics, inputs.observation, inputs.action), inputs.target, inputs.weight)


def expectile_error(difference: Float[Array, "*shape"], expectile: float) -> Float[Array, "*shape"]:
    """Compute |expectile - [u < 0]| u^2; its mean over u = x - m is least if m is the expectile of x."""
    return jnp.where(difference < 0, 1 - expectile, expectile) * difference**2
