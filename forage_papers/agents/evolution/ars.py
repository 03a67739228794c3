"""ARS: augmented random search, a linear policy that moves along the random directions with the highest returns.

Mania, Guy, Recht (2018), "Simple random search provides a competitive approach to reinforcement learning", arXiv
1803.07055. The policy is linear, a = M (x - mean) / deviation, and M begins as zeros. A generation plays M + sigma d
and M - sigma d for each of n standard normal directions d. Of these the `top_directions` b with the highest
max(r+, r-) count, and M takes the step

    learning_rate / (b s) sum_b (r+ - r-) d,     s: the standard deviation of their 2 b returns

Mean and deviation are those of all observations that earlier generations saw (version V2 of the paper; V1 with
`normalise_observation` false; V1-t and V2-t are those with b < n). Policies are deterministic, in evaluation as well.

Differences from the authors' program (`ARS` of modestyachts): of equal directions the first ones count, so that there
are always b; where all returns are equal the policy stays, there the step is not a number; normalised observations are
cut to [-10, 10]; actions of a box are in the unit box, and of numbered ones the largest output is taken. Not here: the
`shift`, a bonus for survival that the authors take off each reward in Hopper, Walker2d, Ant and Humanoid.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from forage.agents.evolution.open_es import OpenES
from forage.core.ports import ActInputs
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.spaces import observation_part, split_mask
from forage.core.types import Clock, ForageError, Spec
from forage.nn.distributions import Actions
from forage.nn.encoders import is_image
from forage.nn.networks import Torso
from forage.nn.normalise import Norms, RunningNorm, apply_norm, input_space, norms_for, update_norms


class LinearPolicy(equinox.Module):
    """A deterministic policy whose outputs are linear in the observation, without an offset."""

    torso: Torso  # reads the observation as one vector
    weight: Float[Array, "inputs outputs"]
    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec):
        self.torso = Torso(key, spec.observation_space, (), "tanh")
        self.actions = Actions.from_space(spec.action_space)
        self.weight = jnp.zeros((self.torso.size, self.actions.outputs))

    def __call__(self, observation: PyTree[Array]) -> Array:
        outputs = self.torso(observation) @ self.weight
        if not self.actions.discrete:
            return self.actions.to_box(outputs)
        return self.actions.distribution(outputs, None, split_mask(observation)[1]).mode()


class ARSState(NamedTuple):
    network: LinearPolicy
    norm: Norms  # of observations


class ARS(OpenES):
    """Augmented random search (Mania et al., 2018, arXiv 1803.07055), with the authors' settings for HalfCheetah."""

    example: ClassVar[str] = "forage train ars CartPole-v1 --num-envs 16 --steps 100k"
    ranges: ClassVar[Ranges] = {"top_directions": Range(0)}
    unused: ClassVar[Unused] = {
        "weight_decay hidden_sizes activation": ("ARS moves a linear policy by returns alone", "take open-es")
    }

    learning_rate: float = 0.02  # length of a step, in units of the returns' deviation; the authors'
    sigma: float = 0.03  # standard deviation of the perturbations; the authors'
    weight_decay: float = 0.0  # without effect
    num_envs: int = equinox.field(
        static=True, default=64
    )  # episodes of a generation, two for each of n directions; the
    # authors'
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=())  # without effect, as the policy is linear
    activation: str = equinox.field(static=True, default="tanh")  # without effect
    top_directions: int = equinox.field(
        static=True, default=4
    )  # best directions that a step is made of, b; 0: all; the
    # authors'
    normalise_observation: bool = equinox.field(static=True, default=True)  # observations are read less their mean and
    # by their deviation (V2)

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.top_directions > self.population // 2:
            raise ForageError(
                f"ars draws {self.population // 2} directions in {self.num_envs} environments, and top_directions "
                f"{self.top_directions} is more; take that many or fewer, or a larger num_envs."
            )
        if is_image(observation_part(spec.observation_space)):
            raise ForageError(f"ARS is linear in numbers, and {spec.name} shows images; open-es reads them.")
        norms_for(spec, self.normalise_observation)

    def init(self, key: Key[Array, ""], spec: Spec) -> ARSState:  # type: ignore[override]
        norm = norms_for(spec, self.normalise_observation)
        seen = dataclasses.replace(spec, observation_space=input_space(spec.observation_space, norm))
        return ARSState(LinearPolicy(key, seen), norm)

    def act(self, state: ARSState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:  # type: ignore[override]
        return state.network(apply_norm(state.norm, inputs.observation)), inputs.hidden, ()

    def init_summary(self, state: ARSState) -> Norms:  # type: ignore[override]
        return jax.tree.map(jnp.zeros_like, state.norm)

    def summarise(self, summary: Norms, observation: PyTree[Array], counts: Bool[Array, " episode"]) -> Norms:
        return update_norms(summary, split_mask(observation)[0], counts)

    def observe_summaries(self, state: ARSState, summaries: Norms) -> ARSState:  # type: ignore[override]
        is_norm = lambda x: isinstance(x, RunningNorm)  # noqa: E731
        return state._replace(norm=jax.tree.map(merge_norms, state.norm, summaries, is_leaf=is_norm))

    def tell(  # type: ignore[override]
        self, state: ARSState, population: LinearPolicy, returns: Float[Array, " member"], clock: Clock
    ) -> ARSState:
        weights = direction_weights(returns, self.top_directions)

        def step(middle: Array, members: Array) -> Array:
            above, below = jnp.split(members, 2)
            return middle + self.learning_rate * jnp.tensordot(weights, (above - below) / (2 * self.sigma), 1)

        return state._replace(network=jax.tree.map(step, state.network, population))


def direction_weights(returns: Float[Array, " member"], top: int) -> Float[Array, " direction"]:
    """Return the weight of each direction in a step: 0 except for the `top` best (0: all of them).

    `returns` are those of M + sigma d for all directions d, and then of M - sigma d.
    """
    plus, minus = jnp.split(returns, 2)
    best = jax.lax.top_k(jnp.maximum(plus, minus), top or len(plus))[1]
    deviation = jnp.std(jnp.stack([plus[best], minus[best]]))
    difference = jnp.where(deviation > 0, (plus - minus)[best] / jnp.maximum(deviation, 1e-30), 0.0)
    return jnp.zeros_like(plus).at[best].set(difference / len(best))


def merge_norms(norm: RunningNorm, others: RunningNorm) -> RunningNorm:
    """Return the statistics of all inputs of one norm and of several others (leaves `member ...`)."""
    count, mean, variance = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), norm, others)
    total = count.sum()
    share = count / jnp.maximum(total, 1.0)
    middle = jnp.tensordot(share, mean, 1)
    spread = jnp.tensordot(share, variance + (mean - middle) ** 2, 1)
    return RunningNorm(total, middle, jnp.where(total > 0, spread, norm.variance))
