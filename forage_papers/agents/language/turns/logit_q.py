"""Q-learning whose action values are the logits of the language model itself."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from forage.agents.language.base import AnswerRows, LanguageAgent, LanguageState, fit_vocabulary
from forage.agents.language.ppo_language import at_last, conversation
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import AGENT, Batch, Clock
from forage.nn.transformer import Transformer
from forage.ops import sampling as distribution
from forage.ops.sampling import token_value
from forage.ops.tokens.masks import token_mean
from forage_papers.agents.language.values.ilql import following_values


class RewardedTokens(NamedTuple):
    """Turns to learn from, with the reward of each token."""

    rows: AnswerRows
    reward: Float[Array, "row new"]
    own: Bool[Array, " row"]  # turns that the agent wrote


class LogitQ(LanguageAgent):
    """One-step Q-learning on logits (Wang et al., 2025, arXiv 2509.22613).

        L = mean_t (z(s_t)[a_t] - r_t - max_k z(s_{t+1})[k])^2

    over the tokens of a conversation, with z the logits before a token, no gradient through the maximum, and 0 in its
    place behind the last token. What a turn is paid comes with its last token. Texts are drawn from a softmax of z.

    Wang, Shen, Sun, Feng, Teng, Dong, Hao, Chen (2025), "Benefits and Pitfalls of Reinforcement Learning for Language
    Model Planning: A Theoretical Perspective", arXiv 2509.22613, by public notes on the paper, which have this formula;
    there is no public program. With rewards of the process, values of all good next tokens become equal, so that
    answers stay different; with rewards of outcomes alone they are biased. The paper's game is
    `text:forage_papers.environments.text.graph:GraphPaths`. Its own policy gradient is a mean over right answers, which
    `grpo --advantage dr-grpo` is with a baseline. The discount is 1 there, and so is the temperature here.
    """

    example: ClassVar[str] = "forage train logit-q text:guess"
    leaves_out: ClassVar[bool] = True
    ranges: ClassVar[Ranges] = {**LanguageAgent.ranges, "discount": Range(0, 1)}
    unused: ClassVar[Unused] = {
        "minibatches accumulate": "Values of whole conversations are learned at once",
        "router_balance": "Logits have a loss of their own",
    }

    discount: float = 1.0  # worth of a reward one token later

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        rows, paid = self.rows(batch), batch.experience.reward
        own = (batch.experience.source == AGENT).reshape(-1)
        lesson = RewardedTokens(rows, at_last(paid.reshape(-1), rows.wrote), own)

        def loss(network: Transformer, part: Any, first: Bool[Array, ""]) -> tuple[Float[Array, ""], Metrics]:
            return self.value_loss(network, state, part)

        state, said = self.descend_minibatches(state, loss, lesson, self.rate(clock), key)
        said |= {"reward": paid.sum(0).mean(), "length": rows.wrote.sum() / jnp.maximum(rows.wrote.any(1).sum(), 1)}
        return state, said, jnp.abs(paid).sum(0)

    def value_loss(
        self, network: Transformer, state: LanguageState, part: RewardedTokens
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the squared one-step errors of the tokens of whole conversations."""
        rows, known = part.rows, fit_vocabulary(state.known, network)

        def score(hidden: Array, token: Array) -> tuple[Array, Array, Array]:
            logits = jnp.where(known, network.logits(hidden), -jnp.inf)
            entropy = distribution.entropy(jax.nn.log_softmax(logits))
            return token_value(logits, token), logits.max(-1), entropy

        inputs = self.compute_hidden(network, rows), rows.tokens[:, -rows.wrote.shape[1] :]
        q, best, entropy = self.map_logits(score, network.architecture.vocabulary, inputs)
        turns = self.rollout_length
        value, largest, reward, wrote = (conversation(x, turns) for x in (q, best, part.reward, rows.wrote))
        own = conversation(jnp.broadcast_to(part.own[:, None], rows.wrote.shape), turns)
        errors = one_step_errors(value, largest, reward, wrote, self.discount)
        total = token_mean(errors**2, wrote & own)
        return total, {"q_loss": total, "q": token_mean(q, rows.wrote), "entropy": token_mean(entropy, rows.wrote)}


def one_step_errors(
    q: Float[Array, "env time"],
    best: Float[Array, "env time"],
    reward: Float[Array, "env time"],
    wrote: Bool[Array, "env time"],
    discount: Any,
) -> Float[Array, "env time"]:
    """Return the error of each token's value; `best`: the largest value before each token."""
    target = reward + discount * following_values(best, wrote)
    return jnp.where(wrote, q - jax.lax.stop_gradient(target), 0.0)
