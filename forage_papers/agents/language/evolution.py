"""Evolution strategies over the weights of a language model."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import LanguageAgent, answers
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.language import lora
from forage.nn.transformer import Transformer


class EvolvedState(NamedTuple):
    """State of evolution strategies on a language model; the names are those of `LanguageState`."""

    network: Transformer
    optimiser: Any
    reference: Transformer | tuple[()]
    end: Int[Array, ""]
    known: Bool[Array, " vocabulary"]
    seed: Array  # data of the key that the noise of this generation is drawn with


class LanguageES(LanguageAgent):
    """Evolution strategies at scale: members are the model with Gaussian noise on all weights, redrawn from seeds.

        theta_m = theta + sigma e_m,    e_m by the generation's key and m, for mirrored pairs -e_m beside it
        z_m     = (R_m - mean R) / (deviation R + 1e-8)                     R_m: mean reward of member m
        theta   <- theta + learning_rate / population sum_m z_m e_m

    The members of a generation answer the same prompts, greedily: the m-th answer of each group is member m's. Noise is
    kept by nobody; it is drawn again from its seed when it is needed, so memory is that of two models. Members write
    one after another.

    It learns from a rollout as other agents of language do, and is no `Evolver`: that loop hands whole populations of
    weights to environments in JAX, and texts are on the host.

    Qiu et al. (2025), "Evolution Strategies at Scale: LLM Fine-Tuning Beyond Reinforcement Learning", arXiv 2509.24372,
    as in the authors' `es_fine-tuning_countdown.py` (VsonicV/es-fine-tuning-paper): population 30, sigma 1e-3, learning
    rate 5e-4, for models of billions of weights. Theirs draws no mirrored pairs; `mirrored` false is theirs. Small
    models bear and need more noise. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train language-es text:addition --sigma 0.01 --learning-rate 0.01"
    stochastic: ClassVar[bool] = False
    usual_starts: ClassVar[str] = "groups"
    ranges: ClassVar[Ranges] = {**LanguageAgent.ranges, "population": Range(2), "sigma": Range(0, above=True)}
    checkpoint_rate: ClassVar[float | None] = None  # a step along noise is no step of Adam
    unused: ClassVar[Unused] = {"epochs minibatches accumulate router_balance": "A generation moves the weights once"}

    population: int = equinox.field(static=True, default=30)  # members of a generation, and answers to each prompt
    sigma: float = 1e-3  # standard deviation of the noise on each weight
    mirrored: bool = equinox.field(static=True, default=True)  # members are pairs with opposite noise
    num_envs: int = equinox.field(static=True, default=240)  # answers of a generation; population times prompts
    learning_rate: float = 5e-4  # how far a generation moves the weights along its weighted noise
    max_gradient_norm: float = 1e9  # longer weighted noise is cut to this length; the authors cut none
    temperature: float = 0.0  # members write what they find most probable; above 0 they draw
    optimiser: str = equinox.field(static=True, default="sgd")  # one of Optax by its name; sgd is the authors' step

    @property
    def group(self) -> int:
        return self.population

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.mirrored and self.population % 2:
            raise ForageError(f"Mirrored members are pairs, and a population of {self.population} is odd.")

    def init(self, key: Key[Array, ""], spec: Spec) -> EvolvedState:  # type: ignore[override]
        return EvolvedState(*super().init(key, spec), jax.random.key_data(jax.random.fold_in(key, 1)))

    def perturb_member(self, network: Transformer, seed: Array, number: Int[Array, ""]) -> Transformer:
        """Return the model with the noise of one member."""
        learned, fixed = self.split_frozen(network)
        moved = jax.tree.map(lambda x, e: x + self.sigma * e, learned, self.member_noise(learned, seed, number))
        return lora.combine_adapters(moved, fixed)

    def member_noise(self, learned: Transformer, seed: Array, number: Int[Array, ""]) -> Transformer:
        """Return the noise of one member, before sigma."""
        number = jnp.asarray(number)
        sign = jnp.where(self.mirrored & (number % 2 == 1), -1.0, 1.0)
        number = number // 2 if self.mirrored else number
        key = jax.random.fold_in(jax.random.wrap_key_data(seed), number)
        leaves, structure = jax.tree.flatten(learned)
        keys = jax.random.split(key, len(leaves))
        drawn = [(sign * jax.random.normal(own, x.shape)).astype(x.dtype) for own, x in zip(keys, leaves, strict=True)]
        return jax.tree.unflatten(structure, drawn)

    def write_answers(
        self,
        state: Any,
        context: Int[Array, "row time"],
        keys: Array,
        temperature: Float[Array, "row new"],
        new: int,
        explore: bool,
        room: Int[Array, " row"] | None = None,
    ) -> tuple[Int[Array, "row new"], Float[Array, "row new"]]:
        """Return an answer to each context. In a rollout, the m-th row of each group is written by member m."""
        if not explore or len(context) != self.num_envs:
            return super().write_answers(state, context, keys, temperature, new, explore, room)

        def split_members(x: Array) -> Array:
            return x.reshape(-1, self.population, *x.shape[1:]).swapaxes(0, 1)

        def one(told: tuple[Any, ...]) -> tuple[Array, Array]:
            number, context, keys, temperature, room = told
            one = state._replace(network=self.perturb_member(state.network, state.seed, number))
            return answers(one, context, keys, self.sampling(temperature[..., None]), new, room)

        told = jnp.arange(self.population), *jax.tree.map(split_members, (context, keys, temperature, room))
        return jax.tree.map(lambda x: x.swapaxes(0, 1).reshape(-1, x.shape[-1]), jax.lax.map(one, told))

    def learn(  # type: ignore[override]
        self, state: EvolvedState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[EvolvedState, Metrics, Float[Array, " env"]]:
        reward = batch.experience.reward.sum(0)
        each = reward.reshape(-1, self.population).mean(0)
        deviation = jnp.std(each)
        score = (each - each.mean()) / (deviation + 1e-8)
        learned, fixed = self.split_frozen(state.network)

        def add(total: Transformer, told: tuple[Array, Array]) -> tuple[Transformer, None]:
            number, score = told
            noise = self.member_noise(learned, state.seed, number)
            return jax.tree.map(lambda t, e: t + score.astype(t.dtype) * e, total, noise), None

        nothing = jax.tree.map(jnp.zeros_like, learned)
        total, _ = jax.lax.scan(add, nothing, (jnp.arange(self.population), score))
        down = jax.tree.map(lambda t: -t / self.population, total)
        learned, inner = self.steps(self.rate(clock)).step(down, state.optimiser, learned)
        network = lora.combine_adapters(learned, fixed)
        said = {"reward": reward.mean(), "best_member": each.max(), "spread": deviation}
        fresh = jax.random.key_data(jax.random.fold_in(key, 1))
        return state._replace(network=network, optimiser=inner, seed=fresh), said, jnp.zeros(len(reward))
