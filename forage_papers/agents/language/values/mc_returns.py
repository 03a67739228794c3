"""Monte Carlo returns: values of tokens, learned from recorded text, that tilt a cloned policy."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import AnswerRows, LanguageState, answers
from forage.agents.language.descent import descend
from forage.agents.language.ppo_language import at_last, token_gae
from forage.agents.language.recorded import TextLearner, flat_answers, recorded_rows
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.nn.layers import MLP
from forage.nn.transformer import Transformer
from forage.ops.sampling import token_value
from forage.ops.tokens.masks import token_mean
from forage.ops.tokens.supervised import cross_entropy
from forage_papers.agents.language.kept import KeptState, PolicyPair


class Values(NamedTuple):
    """Values of tokens on a transformer."""

    base: Transformer
    tokens: tuple[MLP, ...]  # Q, of each token of the vocabulary
    state: MLP | tuple[()]  # V


class ValueCopies(NamedTuple):
    """The values that write and learn, and those that follow them."""

    heads: Values
    slow: Values | tuple[()]


class ValuedTexts(NamedTuple):
    """Recorded texts to learn from."""

    rows: AnswerRows
    reward: Float[Array, "row new"]


class MCReturns(TextLearner):
    """Monte Carlo returns (Abdulhai et al., 2023): Q of each token, towards the discounted reward behind it.

        L_Q       = mean_t (Q(s_t, a_t) - discount^(tokens behind t) r)^2 / 2 - cql_weight log softmax Q(s_t)[a_t]
        logits    = those of the first policy + beta Q

    The first policy stays as it is: fine-tune it on the same rows before (`sft`, then `--model RUN`). Values stand on a
    transformer that begins as the first policy and learns whole. Rows have `prompt`, `completion` and `reward`, which
    comes with the last token; of messages the assistant's words are the actions, as in a game of several turns.

    Abdulhai, White, Snell, Sun, Hong, Zhai, Xu, Levine, "LMRL Gym: Benchmarks for Multi-Turn Reinforcement Learning
    with Language Models", arXiv 2311.18232, by the authors' program, github.com/abdulhaim/LMRL-Gym
    (`LLM_RL/algorithms/mc_returns/base_interface.py`, `algorithms/ilql/base_interface.py`,
    `value_rl_base/gpt2/generation.py`; numbers of `twenty_questions/ilql/train_ilql.py`). Differences: a row has one
    reward, where games there pay each turn; heads and transformer share one optimiser; the heads' first bias is
    `first_value`, -4.4 there.
    """

    example: ClassVar[str] = "forage train mc-returns --data scored.jsonl --model DIRECTORY"
    offline: ClassVar[bool] = True
    texts: ClassVar[tuple[str, ...]] = ("scored", "label")
    unused: ClassVar[Unused] = {
        "router_balance": "Values of tokens have a loss of their own",
        "rank": "Values of tokens learn whole",
    }
    ranges: ClassVar[Ranges] = {
        **TextLearner.ranges,
        "beta": Range(0),
        "discount": Range(0, 1),
        "cql_weight": Range(0),
    }
    doubled: ClassVar[bool] = False  # whether there are two Q, V and slow copies

    beta: float = 16.0  # weight of Q beside the first policy's logits; larger moves more
    discount: float = 0.99  # worth of a reward one token later
    cql_weight: float = 0.01  # weight of the cross-entropy that keeps Q of other tokens low
    first_value: float = equinox.field(static=True, default=0.0)  # value that all heads begin with

    def init(self, key: Key[Array, ""], spec: Spec) -> KeptState:  # type: ignore[override]
        state = super().init(key, spec)
        base = jax.tree.map(jnp.copy, self.base_model.first(jnp.float32))
        width, count = base.architecture.width, 1 + self.doubled
        keys = jax.random.split(key, 3)

        def head(key: Key[Array, ""], outputs: int) -> MLP:
            made = MLP(key, (width, width, outputs), last_gain=0.0)
            return equinox.tree_at(lambda mlp: mlp.layers[-1].bias, made, jnp.full(outputs, self.first_value))

        tokens = tuple(head(one, base.architecture.vocabulary) for one in keys[:count])
        heads = Values(base, tokens, head(keys[2], 1) if self.doubled else ())
        slow = jax.tree.map(jnp.copy, heads) if self.doubled else ()
        rest = state._replace(network=(state.network,), optimiser=self.steps(1.0).init(heads))  # type: ignore[arg-type]
        return KeptState(*rest, ValueCopies(heads, slow))

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
        policy, values = state.network[0], state.kept.heads

        def rule(own: Array, other: Array) -> Array:
            return policy.logits(own) + self.beta * lower_q(values.tokens, other)

        both: Any = PolicyPair(policy, values.base, rule)
        acting = LanguageState(both, (), (), state.end, state.known)
        return answers(acting, context, keys, self.sampling(temperature[..., None]), new, room)

    def items(self, state: Any, batch: Batch) -> ValuedTexts:
        rows = flat_answers(recorded_rows(batch))
        return ValuedTexts(rows, at_last(batch.experience.reward[0], rows.wrote))

    def learn(  # type: ignore[override]
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " batch"]]:
        def loss(heads: Values, items: ValuedTexts, first: Bool[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
            return self.value_loss(heads, state.kept.slow, items)

        items, steps = self.items(state, batch), self.steps(self.text_rate(clock))
        heads, inner, said = descend(
            loss, state.kept.heads, state.optimiser, steps, items, self.epochs, self.updates, key
        )
        kept = ValueCopies(heads, self.follow(state.kept.slow, heads))
        return state._replace(optimiser=inner, kept=kept), said, jnp.zeros(len(batch.weight))

    def text_loss(self, network: Any, state: Any, items: ValuedTexts) -> tuple[Any, Metrics]:
        return self.value_loss(state.kept.heads, state.kept.slow, items)

    def follow(self, slow: Any, heads: Values) -> Any:
        """Return the slow copies after an update."""
        return slow

    def score_q(self, values: Values, rows: AnswerRows, hidden: Array) -> list[tuple[Array, Array]]:
        """Return Q of each token that was written, by each head, and its cross-entropy under a softmax of Q."""

        def score(hidden: Array, token: Array, mask: Array) -> list[tuple[Array, Array]]:
            found = [head(hidden.astype(jnp.float32)) for head in values.tokens]
            return [(token_value(one, token), cross_entropy(one, token, mask)) for one in found]

        inputs = hidden, rows.tokens[:, -rows.wrote.shape[1] :], rows.wrote
        return self.map_logits(score, values.base.architecture.vocabulary, inputs)

    def value_loss(self, heads: Values, slow: Any, items: ValuedTexts) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss of the values of some texts."""
        rows, nothing = items.rows, jnp.zeros(items.reward.shape)
        ((q, apart),) = self.score_q(heads, rows, self.compute_hidden(heads.base, rows))
        target = token_gae(items.reward, nothing, nothing, rows.wrote, self.discount, 1.0)
        error, cql = token_mean((q - target) ** 2 / 2, rows.wrote), token_mean(apart, rows.wrote)
        loss = error + self.cql_weight * cql
        return loss, {"loss": loss, "q_loss": error, "cql": cql, "q": token_mean(q, rows.wrote)}


def lower_q(heads: tuple[MLP, ...], hidden: Float[Array, "*batch width"]) -> Float[Array, "*batch vocabulary"]:
    """Return the lowest Q of each token."""
    return jnp.min(jnp.stack([head(hidden.astype(jnp.float32)) for head in heads]), axis=0)
