"""Anti-exploration by random network distillation (SAC-RND), for learning from data.

Nikulin, Kurenkov, Tarasov, Kolesnikov (2023), "Anti-Exploration by Random Network Distillation", arXiv 2301.13616. What
the data lack is known by the error of a network g that was taught, on the data's states and actions and before anything
else is learned, what a random network f makes of them:

    p(s, a) = |g(s, a) - f(s, a)|^2 / deviation of that error while g was taught

Then soft actor-critic learns with p as a price, both where critics look ahead and where the policy maximises them:

    critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) V)^2 / 2
              V = min_j Q'_j(s', a') - alpha log pi(a'|s') - penalty p(s', a')
    actor     alpha log pi(b|s) + penalty p(s, b) - min_i Q_i(s, b)

The random network f reads the action through three layers, of which the last is scaled and shifted, before its
activation, by linear functions of the state (feature-wise linear modulation, FiLM); the first layer of g is bilinear in
action and state. With f and g that read both side by side, the policy cannot find its way down p. States and actions
are normalised by the data's mean and deviation for f and g. The bilinear layer knows products alone: of a state near
the mean in all its numbers g cannot tell one action from another, so where a state has few numbers the price is blunt.

Networks, update and numbers are those of the authors' program (sac_rnd.py, networks.py, nn.py and the configuration of
halfcheetah-medium of tinkoff-ai/sac-rnd), but that here, as in SAC, the critics learn first, their layers are
normalised before the activation and not after it, weights begin as SAC's, and the logarithm of the policy's deviation
lies between -20 and 2 and not between -5 and 2. The paper's tables, which have the penalty for each data set, could not
be looked up.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree, UInt32

from forage.agents.actor_critic.base import CriticKeys, UpdateInputs
from forage.agents.actor_critic.sac import SAC, ActorReport, GaussianActor, SACState
from forage.core import prng
from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import observation_part
from forage.core.types import Experience, Spec
from forage.nn.layers import MLP, Linear
from forage.nn.normalise import RunningNorm
from forage.ops.optimiser import adam
from forage.ops.rows import observation_rows, weighted_mean


class ModulatedNetwork(equinox.Module):
    """The random network: an MLP of the action with a last hidden layer that the state scales and shifts."""

    body: MLP
    film: Linear
    last: Linear

    def __init__(self, key: Key[Array, ""], state: int, action: int, hidden: int, size: int):
        body_key, film_key, last_key = jax.random.split(key, 3)
        self.body = MLP(body_key, (action, hidden, hidden, hidden))
        self.film = Linear(film_key, state, 2 * hidden)
        self.last = Linear(last_key, hidden, size)

    def __call__(self, state: Float[Array, "batch state"], action: Float[Array, "batch action"]) -> Array:
        scale, shift = jnp.split(self.film(state), 2, axis=-1)
        return self.last(jax.nn.relu(scale * self.body(action) + shift))


class Bilinear(equinox.Module):
    """The network that is taught: an MLP of numbers that are bilinear in state and action."""

    weight: Float[Array, "hidden action state"]
    bias: Float[Array, " hidden"]
    body: MLP

    def __init__(self, key: Key[Array, ""], state: int, action: int, hidden: int, size: int):
        weight_key, bias_key, body_key = jax.random.split(key, 3)
        bound = 1 / math.sqrt(action)
        self.weight = jax.random.uniform(weight_key, (hidden, action, state), minval=-bound, maxval=bound)
        self.bias = jax.random.uniform(bias_key, (hidden,), minval=-bound, maxval=bound)
        self.body = MLP(body_key, (hidden, hidden, hidden, size))

    def __call__(self, state: Float[Array, "batch state"], action: Float[Array, "batch action"]) -> Array:
        first = jnp.einsum("ba,kas,bs->bk", action, self.weight, state) + self.bias
        return self.body(jax.nn.relu(first))


class Novelty(NamedTuple):
    """A measure of the distance of a state and an action from the data."""

    random: ModulatedNetwork
    taught: Bilinear
    states: RunningNorm
    actions: RunningNorm
    errors: RunningNorm  # of the squared error while it was taught

    def error(self, observation: PyTree[Array], action: Float[Array, "batch dimensions"]) -> Float[Array, " batch"]:
        """Compute |g - f|^2; `action` in the unit box."""
        return self.distance(self.taught, *self.normalise(observation, action))

    def normalise(self, observation: PyTree[Array], action: Float[Array, "batch dimensions"]) -> tuple[Array, Array]:
        return self.states(observation_rows(observation)), self.actions(action)

    def distance(self, taught: Bilinear, state: Array, action: Array) -> Float[Array, " batch"]:
        """Compute |g - f|^2 from normalised states and actions."""
        return jnp.sum((taught(state, action) - self.random(state, action)) ** 2, axis=-1)

    def price(self, observation: PyTree[Array], action: Float[Array, "batch dimensions"]) -> Float[Array, " batch"]:
        """Compute p(s, a)."""
        return self.error(observation, action) / jnp.sqrt(self.errors.variance + 1e-12)


class SACRNDState(SACState):
    novelty: Novelty
    draws: UInt32[Array, " words"]  # bits of the key that g's batches are drawn with


class SACRND(SAC):
    """SAC with a penalty for actions missing from the data (Nikulin et al., 2023, arXiv 2301.13616), from a data set.

    The network g is taught when a run begins, `taught_updates` updates that are not counted as steps. The authors have
    another `penalty` for each data set, so it is to be tried: the data's own actions cost about `0.2 penalty` a step,
    and where rewards of a step are smaller than that, the price is all that is learned.
    """

    example: ClassVar[str] = "forage train sac-rnd Pendulum-v1 --data mixed.npz"
    ranges: ClassVar[Ranges] = {
        "penalty": Range(0),
        "novelty_learning_rate": Range(0, above=True),
        "taught_updates": Range(1),
        "novelty_size": Range(1),
        "novelty_hidden": Range(1),
    }

    offline: ClassVar[bool] = True
    reset_keeps: ClassVar[tuple[str, ...]] = (*SAC.reset_keeps, "novelty", "draws")
    needs: ClassVar[Needs] = Needs(observations="vector", instead="edac or cql learns there")

    penalty: float = 1.0  # price of what the data lack; larger keeps nearer the data; the default of the authors'
    # program, which sweeps it
    novelty_learning_rate: float = 3e-4  # step size of Adam for the network that is taught; the authors'
    taught_updates: int = equinox.field(static=True, default=1000)  # updates of that network before all else; more
    # tell the data from the rest more sharply; as the authors have it for halfcheetah-medium
    novelty_size: int = equinox.field(static=True, default=32)  # numbers that both networks put out; the authors'
    novelty_hidden: int = equinox.field(static=True, default=256)  # units of each of their hidden layers; the authors'
    learning_rate: float = 1e-3
    batch_size: int = equinox.field(static=True, default=1024)
    hidden_sizes: tuple[int, ...] = equinox.field(static=True, default=(256, 256, 256))
    critic_norm: str = equinox.field(static=True, default="layer")

    def init(self, key: Key[Array, ""], spec: Spec) -> SACRNDState:
        random_key, taught_key, draws = jax.random.split(jax.random.fold_in(key, 1), 3)
        plain = super().init(key, spec)
        state, action = math.prod(observation_part(spec.observation_space).shape or ()), plain.actor.actions.outputs
        both = state, action, self.novelty_hidden, self.novelty_size
        norms = RunningNorm.from_shape((state,)), RunningNorm.from_shape((action,)), RunningNorm.from_shape(())
        novelty = Novelty(ModulatedNetwork(random_key, *both), Bilinear(taught_key, *both), *norms)
        return SACRNDState.extend(plain, novelty=novelty, draws=jax.random.key_data(draws))

    @property
    def needs_whole_dataset(self) -> bool:
        return True

    def init_from_dataset(self, state: SACRNDState, data: Experience) -> SACRNDState:
        """Return the state with the norms of the data set, and with the network g trained on it."""
        state = super().init_from_dataset(state, data)
        data = self.normalise_batch(state, data)
        observation, action = data.observation, jax.vmap(state.actor.actions.action_features)(data.action)
        begun = state.novelty._replace(
            states=state.novelty.states.update(observation_rows(observation)),
            actions=state.novelty.actions.update(action),
        )
        seen, done = begun.normalise(observation, action)
        descent, key = adam(self.novelty_learning_rate), prng.from_data(state.draws)

        def turn(i: Int[Array, ""], carry: tuple[Bilinear, Any, RunningNorm]) -> tuple[Bilinear, Any, RunningNorm]:
            taught, optimiser, errors = carry
            rows = jax.random.randint(jax.random.fold_in(key, i), (self.batch_size,), 0, len(done))

            def loss(taught: Bilinear) -> tuple[Float[Array, ""], Float[Array, " batch"]]:
                error = begun.distance(taught, seen[rows], done[rows])
                return error.mean(), error

            gradient, error = jax.grad(loss, has_aux=True)(taught)
            taught, optimiser = descent.step(gradient, optimiser, taught)
            return taught, optimiser, errors.update(error)

        first = begun.taught, descent.init(begun.taught), begun.errors
        taught, _, errors = jax.lax.fori_loop(0, self.taught_updates, turn, first)
        return state._replace(novelty=begun._replace(taught=taught, errors=errors))

    def soft_value(
        self,
        state: SACRNDState,
        observation: PyTree[Array],
        action: Float[Array, "batch dimensions"],
        log_probability: Float[Array, " batch"],
        keys: CriticKeys = CriticKeys(),  # noqa: B008
    ) -> Float[Array, "*samples batch"]:
        """Compute SAC's soft value, less the penalty for novel actions."""
        value = super().soft_value(state, observation, action, log_probability, keys)
        return value - self.penalty * state.novelty.price(observation, action)

    def actor_loss(
        self, actor: GaussianActor, state: SACRNDState, inputs: UpdateInputs
    ) -> tuple[Float[Array, ""], ActorReport]:
        """Compute SAC's loss of the actor, plus the penalty for its actions."""
        loss, report = super().actor_loss(actor, state, inputs)
        observation = inputs.now.observation
        price = state.novelty.price(observation, actor(observation).from_noise(inputs.noise)[0])
        loss = loss + self.penalty * weighted_mean(price, inputs.now.counts)
        return loss, report._replace(loss=loss)

    def update(self, state: SACRNDState, inputs: UpdateInputs) -> tuple[Any, Metrics, Array]:
        state, metrics, error = super().update(state, inputs)
        observation = inputs.now.observation
        own = state.actor(observation).mode()
        metrics |= {"price_of_data": state.novelty.price(observation, inputs.action).mean()}
        return state, metrics | {"price_of_policy": state.novelty.price(observation, own).mean()}, error
