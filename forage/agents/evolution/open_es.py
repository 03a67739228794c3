"""OpenES: evolution strategies as a scalable alternative to reinforcement learning.

Salimans, Ho, Chen, Sidor, Sutskever (2017), arXiv 1703.03864. A generation is n policies with parameters
theta + sigma e and theta - sigma e, for n / 2 draws e from a standard normal (mirrored sampling). Their returns F
become centred ranks w(F) in [-0.5, 0.5], and theta takes one step of Adam down

    -g + weight_decay theta,     g = 1 / n sum_pairs (w(F+) - w(F-)) e

The gradient of the mean rank is g / sigma; the authors' program leaves sigma out (es_distributed/es.py). Adam hardly
minds how long g is, but weight decay is weighed against it. Policies are deterministic: what explores are their
parameters. Equal returns share the mean of their ranks, where the authors' code breaks ties by position, so that
a pair that scores the same says nothing. Not here: virtual batch normalisation (the authors' for Atari), the
normalisation of observations and the discretised actions of their MuJoCo runs, and a worker for each member.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Key, PyTree

from forage.core.ports import ActInputs, Evolver
from forage.core.ports.needs import Needs
from forage.core.spaces import split_mask
from forage.core.types import Clock, ForageError, Spec
from forage.nn.distributions import Actions
from forage.nn.networks import TorsoHead
from forage.ops.optimiser import Optimiser, adam


class Policy(TorsoHead):
    """A deterministic policy: the mode of the distribution that its outputs parametrise."""

    actions: Actions = equinox.field(static=True)

    def __init__(self, key: Key[Array, ""], spec: Spec, sizes: tuple[int, ...], activation: str):
        self.actions = Actions.from_space(spec.action_space)
        super().__init__(key, spec.observation_space, sizes, activation, self.actions.outputs, 2**0.5, 0.01)

    def __call__(self, observation: PyTree[Array]) -> Array:
        outputs = self.head(self.torso(observation))
        if not self.actions.discrete:
            return self.actions.to_box(outputs)
        return self.actions.distribution(outputs, None, split_mask(observation)[1]).mode()


class OpenESState(NamedTuple):
    network: Policy
    optimiser: Any


class OpenES(Evolver):
    """OpenES (Salimans et al., 2017): mirrored Gaussian perturbations of a policy, ranked by their returns."""

    example: ClassVar[str] = "forage train open-es CartPole-v1 --hidden-sizes 16 --steps 320k"

    acting: ClassVar[str] = "network"
    needs: ClassVar[Needs] = Needs(actions="any", observations="any")

    learning_rate: float = 0.01  # step size of Adam; the authors' for MuJoCo
    sigma: float = 0.02  # standard deviation of the perturbations; the authors'
    weight_decay: float = 0.005  # pull of the parameters towards zero, beside the gradient; the authors'
    num_envs: int = equinox.field(static=True, default=64)  # episodes of a generation, side by side; the authors' 1,440
    # and more learn in fewer generations and from more steps
    episodes: int = equinox.field(static=True, default=1)  # episodes of each policy, whose mean return counts; the
    # authors'
    rollout_length: int = equinox.field(static=True, default=500)  # most steps of an episode, the environment's horizon
    # or more; by name it is the horizon unless given
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(64, 64))  # units of each layer; the authors'
    activation: str = equinox.field(static=True, default="tanh")  # function between layers; the authors'

    def check(self, spec: Spec) -> None:
        if self.num_envs % (2 * self.episodes):
            raise ForageError(
                f"open-es draws mirrored pairs of policies that play {self.episodes} episodes each; take a num_envs "
                f"that {2 * self.episodes} divides, not {self.num_envs}."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> OpenESState:
        network = Policy(key, spec, self.hidden_sizes, self.activation)
        return OpenESState(network, self.optimiser.init(network))

    @property
    def optimiser(self) -> Optimiser:
        return adam(self.learning_rate, flat=True)

    def act(self, state: OpenESState, inputs: ActInputs) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array]]:
        return state.network(inputs.observation), inputs.hidden, ()

    def ask(self, state: OpenESState, key: Key[Array, ""]) -> Policy:
        """Return mirrored pairs: member i of the first half is the mirror image of member i of the second."""
        mean, unravel = ravel_pytree(state.network)
        noise = self.sigma * jax.random.normal(key, (self.population // 2, mean.size))
        return jax.vmap(unravel)(jnp.concatenate([mean + noise, mean - noise]))

    def tell(self, state: OpenESState, population: Policy, returns: Float[Array, " member"], clock: Clock):
        ascent = gradient(population, returns, self.sigma)
        descent = jax.tree.map(lambda g, theta: -g + self.weight_decay * theta, ascent, state.network)
        return OpenESState(*self.optimiser.step(descent, state.optimiser, state.network))


def gradient(population: PyTree[Array], returns: Float[Array, " member"], sigma: Any) -> PyTree[Array]:
    """Estimate sigma times the gradient of the ranked return at the middle of mirrored pairs (leaves `member ...`)."""
    # Whole numbers until the last: where a pair's ranks are equal, the difference is exactly zero.
    plus, minus = jnp.split(wins(returns), 2)
    count = len(returns)

    def leaf(members: Array) -> Array:
        above, below = jnp.split(members, 2)
        noise = (above - below) / (2 * sigma)
        return jnp.tensordot(plus - minus, noise, 1) / (2 * (count - 1) * count)

    return jax.tree.map(leaf, population)


def centred_ranks(returns: Float[Array, " member"]) -> Float[Array, " member"]:
    """Return ranks from -0.5, of the lowest return, to 0.5; equal returns share the mean of their ranks."""
    return wins(returns) / (2 * (len(returns) - 1))


def wins(returns: Float[Array, " member"]) -> Float[Array, " member"]:
    """Count the returns below each one, less those above it: twice its rank, around 0."""
    one, other = returns[:, None], returns[None, :]
    return (one > other).sum(1).astype(jnp.float32) - (one < other).sum(1)
