"""PPO of a language model with a critic of the value before each token."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import AnswerRows, LanguageAgent, LanguageState, advantage_size
from forage.agents.language.correction import lost_answers
from forage.agents.language.descent import descend
from forage.core.mesh import ONE, Shape
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import AGENT, Batch, Clock, Spec
from forage.nn.language import lora
from forage.nn.language.memory import tree_bytes
from forage.nn.transformer import Transformer
from forage.ops.optimiser import Optimiser, has_rounded
from forage.ops.tokens.losses import clipped_loss
from forage.ops.tokens.masks import token_mean, where_mask


class Critic(NamedTuple):
    """A transformer that ends in one number."""

    network: Transformer
    head: Float[Array, "*several width"]


class ValuedState(NamedTuple):
    """State of a language agent with a critic; the names are those of `LanguageState`."""

    network: Transformer
    optimiser: Any
    reference: Transformer | tuple[()]
    end: Int[Array, ""]
    known: Bool[Array, " vocabulary"]
    critic: Critic


class LossInputs(NamedTuple):
    """Answers with the inputs of their loss."""

    rows: AnswerRows
    advantage: Float[Array, "row new"]
    target: Float[Array, "row new"]  # of the critic
    value: Float[Array, "row new"]  # as the critic saw it before any step
    old: Float[Array, "row new"]
    weight: Float[Array, " row"]
    more: Any = ()  # what a relative keeps of each row beside


class OptimiserPair(NamedTuple):
    """Two optimisers, of a policy and its critic."""

    policy: Optimiser
    critic: Optimiser

    def step(self, gradient: Any, state: Any, parameters: Any) -> tuple[Any, Any]:
        """Return both after one step each, and the states of both optimisers."""
        made = [one.step(*x) for one, x in zip(self, zip(gradient, state, parameters, strict=True), strict=True)]
        return tuple(x for x, _ in made), tuple(x for _, x in made)


class PPOLanguage(LanguageAgent):
    """Proximal policy optimisation with a critic of tokens and generalised advantages along them.

    A token is a step. What a turn is paid comes with its last token, less the price of the divergence from the first
    policy at each token, and with delta_t = r_t + discount V_{t+1} - V_t over all tokens that the policy wrote in a
    conversation, turn after turn,

        A_t = sum_k (discount gae_lambda)^k delta_{t+k}        brought to mean 0 and deviation 1 over the batch
        L   = clipped loss of A + value_coefficient mean max((V - G)^2, (V_old + clip(V - V_old) - G)^2) / 2

    where G = A + V_old, before A is normalised. The critic is a transformer of its own with the weights of the first
    policy and a head that begins at 0; it learns whole even where the policy learns adapters.

    Schulman et al. (2017), arXiv 1707.06347, and (2015), arXiv 1506.02438, for tokens as in Ouyang et al. (2022),
    "Training Language Models to Follow Instructions with Human Feedback", arXiv 2203.02155; discount and gae_lambda 1
    are verl's for language, bounds and value_coefficient those of TRL's `PPOTrainer` but for its lambda of 0.95. The
    papers' own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train ppo-language text:addition --env.level 2"
    leaves_out: ClassVar[bool] = True
    unused: ClassVar[Unused] = {"router_balance": "PPO of language has a loss of its own"}
    ranges: ClassVar[Ranges] = {
        **LanguageAgent.ranges,
        "discount": Range(0, 1),
        "gae_lambda": Range(0, 1),
        "clip": Range(0),
        "value_clip": Range(0),
        "divergence": Range(0),
        "critic_rate": Range(0, above=True),
    }

    discount: float = 1.0
    gae_lambda: float = 1.0
    clip: float = 0.2
    value_clip: float = 0.2  # how far a value is followed away from what it was, in one rollout
    value_coefficient: float = 0.1
    entropy_coefficient: float = 0.0
    critic_rate: float = 3.0  # step size of the critic, as a multiple of the policy's; a critic begins knowing nothing
    divergence: float = equinox.field(static=True, default=0.0)  # price of each token's divergence from the first
    # policy, in reward; 0: none
    minibatches: int = equinox.field(static=True, default=4)

    @property
    def referred(self) -> bool:
        return self.divergence > 0

    def init(self, key: Key[Array, ""], spec: Spec) -> ValuedState:  # type: ignore[override]
        state = super().init(key, spec)
        first = self.base_model.first(self.number_type)
        critic = Critic(first, self.first_head(key, first.architecture.width))
        masters = critic._replace(network=self.base_model.first(jnp.float32)) if has_rounded(critic) else None
        optimiser = state.optimiser, self.steps(1.0).init(critic, masters)
        return ValuedState(state.network, optimiser, state.reference, state.end, state.known, critic)

    def first_head(self, key: Key[Array, ""], width: int) -> Float[Array, "*several width"]:
        """Return the head that the critic begins with."""
        return jnp.zeros(width)

    def masters(self, state: Any) -> Transformer:
        return super().masters(self.plain(state)._replace(optimiser=state.optimiser[0]))

    def working_bytes(self, spec: Spec, state: Any, shape: Shape = ONE) -> dict[str, int]:
        found = super().working_bytes(spec, state, shape)
        critic = 2 * tree_bytes(state.critic, shape)
        return found | {"gradients": found["gradients"] + critic, "layers": 2 * found["layers"]}

    def value(self, critic: Critic, rows: AnswerRows) -> Float[Array, "row new"]:
        """Return the value before each token that was written, in float32."""
        return self.compute_hidden(critic.network, rows).astype(jnp.float32) @ critic.head

    def learn(  # type: ignore[override]
        self, state: ValuedState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[ValuedState, Metrics, Float[Array, " env"]]:
        rows = self.rows(batch)
        reward = batch.experience.reward.sum(0)
        lesson = self.with_targets(state, rows, batch, key)
        learned, fixed = self.split_frozen(state.network)
        rate = self.rate(clock)
        optimiser = OptimiserPair(self.steps(rate), self.steps(rate * self.critic_rate))

        def loss(learned: Any, part: LossInputs, first: Bool[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
            return self.objective(lora.combine_adapters(learned[0], fixed), learned[1], state, part, first)

        (learned, critic), inner, said = descend(
            loss, (learned, state.critic), state.optimiser, optimiser, lesson, self.epochs, self.updates, key
        )
        there = ~lost_answers(batch)
        said |= {
            "reward": jnp.sum(reward, where=there) / jnp.maximum(there.sum(), 1),
            "length": rows.wrote.sum() / jnp.maximum(rows.wrote.any(1).sum(), 1),
        }
        size = advantage_size(lesson.advantage, rows.wrote, self.rollout_length)
        return state._replace(network=lora.combine_adapters(learned, fixed), optimiser=inner, critic=critic), said, size

    def with_targets(self, state: ValuedState, rows: AnswerRows, batch: Batch, key: Key[Array, ""]) -> LossInputs:
        """Return the answers with the advantage of each token and the target of its value."""

        def score_part(part: AnswerRows) -> tuple[Array, Array, Array]:
            old = self.score_tokens(state.network, self.plain(state), part)[0]
            return old, self.reference_ratio(state, part, old), self.value(state.critic, part)

        parts = jax.tree.map(lambda x: x.reshape(self.updates, -1, *x.shape[1:]), rows)
        old, ratio, value = (x.reshape(-1, x.shape[-1]) for x in jax.lax.map(score_part, parts))
        turns = self.rollout_length
        price = self.divergence * where_mask(ratio, rows.wrote)
        advantage = token_gae(
            conversation(at_last(batch.experience.reward.reshape(-1), rows.wrote), turns),
            conversation(price, turns),
            conversation(value, turns),
            conversation(rows.wrote, turns),
            self.discount,
            self.gae_lambda,
        )
        advantage = jax.lax.stop_gradient(split_turns(advantage, turns))
        own = (batch.experience.source == AGENT).reshape(-1).astype(jnp.float32)
        mask = rows.wrote & (own > 0)[:, None]
        mean = token_mean(advantage, mask)
        spread = token_mean((advantage - mean) ** 2, mask)
        shaped = (advantage - mean) * jax.lax.rsqrt(spread + 1e-8)
        return LossInputs(rows, shaped, advantage + value, value, old, own)

    def reference_ratio(
        self, state: ValuedState, rows: AnswerRows, old: Float[Array, "row new"]
    ) -> Float[Array, "row new"]:
        """Return log pi - log first of each token, whose price the divergence is; 0 without a first policy."""
        first = self.reference_of(state)
        return jnp.zeros_like(old) if first is None else old - self.score_tokens(first, self.plain(state), rows)[0]

    def plain(self, state: ValuedState) -> LanguageState:
        """Return the state without its critic."""
        return LanguageState(*state[:5])

    def objective(
        self, network: Transformer, critic: Critic, state: ValuedState, lesson: LossInputs, first: Bool[Array, ""]
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss of policy and critic on some answers; the two share no weights."""
        rows = lesson.rows
        now, entropy = self.score_tokens(network, self.plain(state), rows)
        old = jnp.where(first, jax.lax.stop_gradient(now), lesson.old)
        mask = rows.wrote & (lesson.weight > 0)[:, None]
        policy = token_mean(clipped_loss(now, old, lesson.advantage, mask, low=self.clip, high=self.clip), mask)
        critical, unsure = self.value_loss(critic, lesson, mask), token_mean(entropy, mask)
        ratio = jnp.exp(now - old)
        metrics = {
            "policy_loss": policy,
            "value_loss": critical,
            "entropy": unsure,
            "first_ratio": jnp.max(jnp.where(mask, jnp.abs(ratio - 1), 0)),
            "moved": token_mean(jnp.abs(ratio - 1), mask),
            "sampler_gap": token_mean(jnp.abs(now - rows.sampled), mask),
        }
        return policy + self.value_coefficient * critical - self.entropy_coefficient * unsure, metrics

    def value_loss(self, critic: Critic, lesson: LossInputs, mask: Bool[Array, "row new"]) -> Float[Array, ""]:
        """Compute the clipped squared error of the values before the tokens that count."""
        value = self.value(critic, lesson.rows)
        near = lesson.value + jnp.clip(value - lesson.value, -self.value_clip, self.value_clip)
        return token_mean(jnp.maximum((value - lesson.target) ** 2, (near - lesson.target) ** 2) / 2, mask)


def conversation(x: Array, turns: int) -> Array:
    """Return rows, turn after turn, as whole conversations: `turn*env new` to `env turn*new`."""
    rows, new = x.shape
    return x.reshape(turns, rows // turns, new).swapaxes(0, 1).reshape(rows // turns, turns * new)


def split_turns(x: Array, turns: int) -> Array:
    """Return the inverse of `conversation`."""
    envs, time = x.shape
    return x.reshape(envs, turns, time // turns).swapaxes(0, 1).reshape(envs * turns, time // turns)


def at_last(reward: Float[Array, " row"], wrote: Bool[Array, "row new"]) -> Float[Array, "row new"]:
    """Place the reward of each turn at its last token; empty turns get none."""
    final = jnp.arange(wrote.shape[1]) == wrote.shape[1] - 1 - jnp.argmax(wrote[:, ::-1], axis=1)[:, None]
    return jnp.where(final & wrote, reward[:, None], 0.0)


def token_gae(
    reward: Float[Array, "env time"],
    price: Float[Array, "env time"],
    value: Float[Array, "env time"],
    wrote: Bool[Array, "env time"],
    discount: Any,
    gae_lambda: Any,
) -> Float[Array, "env time"]:
    """Compute generalised advantages along the tokens that were written, leaving out the columns of others.

    Each is paid its reward and costs its price; after the last of them the value is 0.
    """

    def token(carry: tuple[Array, Array], column: tuple[Array, Array, Array]) -> tuple[Any, Array]:
        following, value = carry
        paid, own, there = column
        advantage = paid + discount * value - own + discount * gae_lambda * following
        after = jnp.where(there, advantage, following), jnp.where(there, own, value)
        return after, jnp.where(there, advantage, 0.0)

    nothing = jnp.zeros(len(reward))
    columns = (reward - price).T, value.T, wrote.T
    return jax.lax.scan(token, (nothing, nothing), columns, reverse=True)[1].T
