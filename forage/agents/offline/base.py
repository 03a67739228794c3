"""Shared base of agents that learn from a data set: a policy with a density of actions, and acting by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import ActInputs, Agent, State
from forage.core.ports.needs import Needs
from forage.core.spaces import split_mask
from forage.core.types import Experience, Spec
from forage.nn.distributions import Actions, Categorical, Distribution, Gaussian, Product, draw_action
from forage.nn.networks import NetworkConfig, TorsoHead
from forage.nn.normalise import apply_norm, first_statistics, fit_norms, normalised_spec, update_norms

LEAST_LOG_STD, MOST_LOG_STD = -5.0, 2.0  # of the authors' code of implicit Q-learning


def best_return(data: Experience) -> Float[Array, ""]:
    """Return the highest return of the whole episodes of a data set with returns-to-go (`Agent.contexts`)."""
    assert not isinstance(data.return_to_go, tuple) and not isinstance(data.time, tuple)
    complete = True if isinstance(data.complete, tuple) else data.complete
    return jnp.where((data.time == 0) & complete, data.return_to_go, -jnp.inf).max()


class Policy(TorsoHead):
    """A distribution of actions for each observation: categorical, a Gaussian in the unit box, or both in a product.

    The Gaussian's mean is tanh of the network's output; its deviation is one learned number for each dimension,
    whatever the observation.
    """

    log_std: Float[Array, " dimensions"] | None
    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, hidden_sizes: tuple[int, ...], style: NetworkConfig):
        self.actions = Actions.from_space(spec.action_space)
        super().__init__(key, spec.observation_space, hidden_sizes, style, self.actions.outputs)
        self.log_std = None if self.actions.discrete else jnp.zeros(len(self.actions.low))

    def distribution(self, features: Float[Array, " features"], observation: PyTree[Array]) -> Distribution:
        """Return the distribution of actions for one observation and its features."""
        outputs = self.actions.squash(self.head(features))
        log_std = None if self.log_std is None else jnp.clip(self.log_std, LEAST_LOG_STD, MOST_LOG_STD)
        return self.actions.distribution(outputs, log_std, split_mask(observation)[1])

    def __call__(self, observation: PyTree[Array]) -> Distribution:
        """Return the distribution of actions for one observation."""
        return self.distribution(self.torso.rows(jax.tree.map(lambda x: x[None], observation))[0], observation)

    def log_probability(
        self, observation: PyTree[Array], action: Float[Array, "batch *shape"]
    ) -> Float[Array, " batch"]:
        """Compute log pi(a|s) of a batch; of continuous actions, the density in the unit box."""

        def one(features: Float[Array, " features"], observation: PyTree[Array], action: Array) -> Float[Array, ""]:
            policy: Any = self.distribution(features, observation)
            return policy.log_probability(self.actions.unit_action(action))

        return jax.vmap(one)(self.torso.rows(observation), observation, action)


class OfflineAgent(Agent):
    """An agent that acts by its state's `policy` and takes no environment steps during learning."""

    on_policy: ClassVar[bool] = False
    offline: ClassVar[bool] = True
    stochastic: ClassVar[bool] = True
    acting: ClassVar[str] = "policy"
    needs: ClassVar[Needs] = Needs(actions="choices or bounded", observations="any")

    num_envs: int = equinox.field(static=True, default=1)  # every loop has it; no effect where nothing is collected
    rollout_length: int = equinox.field(
        static=True, default=1
    )  # every loop has it; no effect where nothing is collected
    activation: str | Callable[[Any], Any] = equinox.field(static=True, default="relu")
    layer_norm: bool = equinox.field(static=True, default=False)
    encoder: str | type | None = equinox.field(static=True, default=None)
    optimiser: str | Callable[[Any], Any] = equinox.field(static=True, default="adam")

    def read_observation(self, state: State, observation: PyTree[Array]) -> PyTree[Array]:
        """Return an observation as the policy reads it: normalised if the state has a `norm`."""
        return apply_norm(getattr(state, "norm", None), observation)

    def act(self, state: State, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        found = state.policy(self.read_observation(state, inputs.observation))
        action = draw_action(found, inputs)
        if isinstance(found, Gaussian | Product):
            action = state.policy.actions.to_box(state.policy.actions.clip_unit(action))
        return action, inputs.hidden, ()

    def probabilities(self, state: State, observation: PyTree[Array], explore: bool) -> Float[Array, " actions"]:
        found = state.policy(self.read_observation(state, observation))
        if not isinstance(found, Categorical):
            return super().probabilities(state, observation, explore)
        return found.probabilities(explore)


class StandardisingAgent(OfflineAgent):
    """An agent that can standardise observations by the data set's mean and deviation, kept in its state's `norm`."""

    normalise_observation: bool = equinox.field(static=True, default=False)  # observations are standardised by the data
    # set's mean and deviation, as the columns of a table are without it

    @property
    def needs_whole_dataset(self) -> bool:
        return self.normalise_observation

    def init_from_dataset(self, state: State, data: Experience) -> State:
        return state if state.norm is None else state._replace(norm=fit_norms(state.norm, data))

    def observe(self, state: State, rollout: Experience) -> State:
        """Return the state with the statistics of the first rollout, if no data set has given any."""
        if state.norm is None:
            return state
        seen = update_norms(state.norm, split_mask(rollout.observation)[0], rollout.counts)
        return state._replace(norm=first_statistics(state.norm, seen))

    def read_spec(self, spec: Spec) -> Spec:
        """Return the spec that the networks get, with standardised observations."""
        return normalised_spec(spec, self.normalise_observation)
