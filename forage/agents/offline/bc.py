"""Behaviour cloning: supervised learning of the actions in a data set.

Pomerleau (1991), "Efficient Training of Artificial Neural Networks for Autonomous Navigation", Neural Computation 3.
Each update takes one step of Adam down

    -mean log pi(a|s)

over a batch of the data: the cross-entropy where actions are choices, and the likelihood of a Gaussian with a learned
deviation where they are numbers. Rewards play no part, so the policy is as good as what it imitates. Where an expert
labels what the policy visits (a behaviour that `labels`), a is the label.

- `best`: only the share of whole episodes with the highest returns is imitated ("10 % BC"; Chen et al., 2021, "Decision
  Transformer", arXiv 2106.01345; as in CORL, algorithms/offline/any_percent_bc.py, which takes discounted returns).
- `weighted`: each transition counts min(exp(beta A / c), most_weight) times, A = G(s) - V(s) being the discounted sum
  of rewards to the end of its episode less a learned value of the state, and c the root mean square of A in the batch.
  Where only the clock ended an episode its last reward is taken to go on for ever.
  V takes steps down mean((G(s) - V(s))^2) / 2. Monotonic advantage re-weighted imitation learning (Wang, Xiong, Han,
  Sun, Liu, Zhang, 2018, "Exponentially Weighted Imitation Learning for Batched Historical Data") has the weight without
  a bound, and a running mean in c; its paper could not be looked up.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from forage.agents.offline.base import Policy, StandardisingAgent
from forage.agents.offline.iql import Value
from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, Label, ReturnRule, Spec
from forage.nn.networks import NetworkConfig
from forage.nn.normalise import Norms, normalise_transitions, norms_for
from forage.ops.optimiser import Optimiser, make_named_optimiser


class BCState(NamedTuple):
    policy: Policy
    optimiser: Any
    value: Value | None = None  # of those who are weighted by it
    value_optimiser: Any = None
    norm: Norms = None  # of observations; `None`: networks read them as they are


class BC(StandardisingAgent):
    """Behaviour cloning (Pomerleau, 1991), from a data set, for discrete, bounded continuous and mixed actions."""

    example: ClassVar[str] = "forage train bc CartPole-v1 --data expert.npz"
    ranges: ClassVar[Ranges] = {"best": Range(0, 1, above=True)}

    needs: ClassVar[Needs] = Needs(actions="choices or bounded or bounded mixed")

    imitates: ClassVar[bool] = True

    learning_rate: float = 3e-4  # step size of Adam, as the behaviour cloning beside implicit Q-learning has it
    batch_size: int = equinox.field(static=True, default=256)  # transitions of an update, as there
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256))  # layers of the policy, as there
    best: float = equinox.field(static=True, default=1.0)  # share of the whole episodes, those of the highest returns,
    # that is imitated; 1: all of the data
    weighted: bool = equinox.field(static=True, default=False)  # actions count the more, the better the episode went on
    # than the state's value
    beta: float = 1.0  # how far weights prefer better actions; 0 imitates all alike
    most_weight: float = 20.0  # bound of a transition's weight; larger lets a few transitions count for more
    discount: float = 0.99  # worth of a reward one step later, in the returns that weights are made of

    def init(self, key: Key[Array, ""], spec: Spec) -> BCState:
        norm, spec = norms_for(spec, self.normalise_observation), self.read_spec(spec)
        policy = Policy(key, spec, self.hidden_sizes, NetworkConfig.from_agent(self))
        if not self.weighted:
            return BCState(policy, self.descent().init(policy), norm=norm)
        value = Value(jax.random.fold_in(key, 1), spec, self.hidden_sizes, NetworkConfig.from_agent(self))
        return BCState(policy, self.descent().init(policy), value, self.descent().init(value), norm)

    @property
    def returns(self) -> bool:
        return self.weighted

    @property
    def return_rule(self) -> ReturnRule:
        return ReturnRule(endless=True)

    @property
    def best_episodes(self) -> float:
        return self.best

    def descent(self) -> Optimiser:
        return make_named_optimiser(self.optimiser, self.learning_rate)

    def learn(
        self, state: BCState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[BCState, Metrics, Float[Array, " batch"]]:
        now = normalise_transitions(state.norm, batch.transitions)
        weight, metrics = batch.weight, {}
        if self.weighted:
            state, weight, metrics = self.update_value(state, now, weight)

        action = now.policy_info.action if isinstance(now.policy_info, Label) else now.action

        def loss(policy: Policy) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
            surprise = -policy.log_probability(now.observation, action)
            return (weight * surprise).mean(), surprise

        (value, surprise), gradient = jax.value_and_grad(loss, has_aux=True)(state.policy)
        policy, optimiser = self.descent().step(gradient, state.optimiser, state.policy)
        return state._replace(policy=policy, optimiser=optimiser), {"policy_loss": value} | metrics, surprise

    def update_value(
        self, state: BCState, now: Experience, weight: Float[Array, " batch"]
    ) -> tuple[BCState, Float[Array, " batch"], Metrics]:
        """Take one step of the value, and return the weights of the transitions, by the value before."""
        assert state.value is not None and not isinstance(now.return_to_go, tuple)
        told = now.return_to_go

        def loss(value: Value) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
            advantage = told - value(now.observation)
            return 0.5 * jnp.mean(weight * advantage**2), advantage

        (lost, advantage), gradient = jax.value_and_grad(loss, has_aux=True)(state.value)
        value, optimiser = self.descent().step(gradient, state.value_optimiser, state.value)
        size = jnp.sqrt(jnp.mean(advantage**2) + 1e-8)
        factor = jnp.minimum(jnp.exp(self.beta * advantage / size), self.most_weight)
        state = state._replace(value=value, value_optimiser=optimiser)
        return state, weight * factor, {"value_loss": lost, "clipped": (factor >= self.most_weight).mean()}
