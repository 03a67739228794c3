"""NLPO: PPO over the tokens that an earlier policy finds probable."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import AnswerRows, LanguageAgent, LanguageState, answers, fit_vocabulary, warmth
from forage.agents.language.ppo_language import Critic, PPOLanguage
from forage.core.ports import Metrics
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Spec
from forage.nn.language.generate import ALONE, SharedPrefix
from forage.nn.transformer import Transformer
from forage.ops import sampling as distribution
from forage.ops.sampling import Sampling
from forage_papers.agents.language.kept import PolicyPair


def top_tokens(logits: Float[Array, "*batch vocabulary"], share: Any, least: int) -> Bool[Array, "*batch vocabulary"]:
    """Return a mask of the most probable tokens with this share of the probability together, at least `least`."""
    z = logits - jnp.max(logits, axis=-1, keepdims=True)
    return distribution.support(z, Sampling(top_p=share)) | distribution.support(z, Sampling(top_k=least))


def allow_tokens(policy: Transformer, mask: Transformer, share: Any, least: int) -> PolicyPair:
    """Return a policy whose logits are -inf for tokens that an earlier policy does not allow."""

    def rule(own: Array, other: Array) -> Array:
        return jnp.where(top_tokens(mask.logits(other), share, least), policy.logits(own), -jnp.inf)

    return PolicyPair(policy, mask, rule)


class MaskedState(NamedTuple):
    """State of NLPO: of PPO with a critic, and the masking policy."""

    network: Transformer
    optimiser: Any
    reference: Transformer | tuple[()]
    end: Int[Array, ""]
    known: Bool[Array, " vocabulary"]
    critic: Critic
    mask: Transformer
    rollouts: Int[Array, ""]


class NLPO(PPOLanguage):
    """Natural language policy optimisation: PPO with a masking policy.

    The masking policy is a copy of the policy, renewed by that of each `mask_interval`-th rollout. Before each token it
    allows its most probable ones with `mask_share` of the probability together; sampling, ratios and entropy are of the
    policy's distribution over these alone. The price of the divergence from the first policy is of the distributions
    without masks.

    Ramamurthy, Ammanabrolu, Brantley, Hessel, Sifa, Bauckhage, Hajishirzi, Choi (2022), "Is Reinforcement Learning
    (Not) for Natural Language Processing: Benchmarks, Baselines, and Building Blocks for Natural Language Policy
    Optimization", arXiv 2210.01241, by the authors' program, github.com/allenai/RL4LMs (`algorithms/nlpo/nlpo.py`,
    `algorithms/common/maskable/logits_processor.py`, `envs/text_generation/alg_wrappers.py`): top 0.9, 5 rollouts
    between renewals, 5 epochs and a price of 0.1 are those of `imdb_text_continuation/gpt2_nlpo.yml`, and so are
    discount and lambda of Stable-Baselines3. Differences: the critic has the fields of `ppo-language`; the price does
    not adapt to a target; 100 tokens are allowed at least there, of 50,257, and here `mask_least`; masks are computed
    anew when answers are scored, with the tokens that were written always allowed. Their GRUE tasks are not here.
    """

    example: ClassVar[str] = "forage train nlpo text:addition --env.level 2"
    ranges: ClassVar[Ranges] = {
        **PPOLanguage.ranges,
        "mask_share": Range(0, 1, above=True),
        "mask_least": Range(1),
        "mask_interval": Range(1),
    }

    mask_share: float = 0.9  # probability of the tokens that the masking policy allows together
    discount: float = 0.99
    gae_lambda: float = 0.95
    mask_least: int = equinox.field(static=True, default=1)  # tokens that are allowed at least
    mask_interval: int = equinox.field(static=True, default=5)  # rollouts between two renewals of the masking policy
    divergence: float = equinox.field(static=True, default=0.1)  # price of each token's divergence from the first
    # policy, in reward; 0: none
    epochs: int = equinox.field(static=True, default=5)

    def init(self, key: Key[Array, ""], spec: Spec) -> MaskedState:  # type: ignore[override]
        state = super().init(key, spec)
        return MaskedState(*state, jax.tree.map(jnp.copy, state.network), jnp.int32(0))

    def plain(self, state: MaskedState) -> LanguageState:  # type: ignore[override]
        """Return the state itself, whose masking policy scores tokens too."""
        return state  # type: ignore[return-value]

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
        both: Any = allow_tokens(state.network, state.mask, self.mask_share, self.mask_least)
        acting = LanguageState(both, (), (), state.end, state.known)
        return answers(acting, context, keys, self.sampling(temperature[..., None]), new, room)

    def score_tokens(
        self, network: Transformer, state: Any, rows: AnswerRows, together: SharedPrefix = ALONE
    ) -> tuple[Float[Array, "row new"], Float[Array, "row new"]]:
        """Return the log-probability of each written token among those allowed, and the entropy over these."""
        known, heat = fit_vocabulary(state.known, network), warmth(rows)
        other = jax.lax.stop_gradient(self.compute_hidden(state.mask, rows, together))
        token = rows.tokens[:, -rows.wrote.shape[1] :]

        def score(own: Array, other: Array, token: Array, heat: Array) -> tuple[Array, Array]:
            allowed = top_tokens(state.mask.logits(other), self.mask_share, self.mask_least)
            allowed |= jnp.arange(allowed.shape[-1]) == token[..., None]
            log_p = distribution.log_distribution(network.logits(own), self.sampling(heat), known & allowed, token)
            return distribution.token_value(log_p, token), distribution.entropy(log_p)

        heat = jnp.broadcast_to(heat, (*token.shape, 1))
        inputs = self.compute_hidden(network, rows, together), other, token, heat
        found = self.map_logits(score, network.architecture.vocabulary, inputs)
        log_p, entropy = (jnp.where(rows.wrote, x, 0.0) for x in found)
        return log_p, entropy

    def reference_ratio(self, state: Any, rows: AnswerRows, old: Float[Array, "row new"]) -> Float[Array, "row new"]:
        first = self.reference_of(state)
        if first is None:
            return jnp.zeros_like(old)
        unmasked = (LanguageAgent.score_tokens(self, one, state, rows)[0] for one in (state.network, first))
        now, then = unmasked
        return now - then

    def learn(  # type: ignore[override]
        self, state: MaskedState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[MaskedState, Metrics, Float[Array, " env"]]:
        learned: Any = super().learn(state, batch, clock, key)  # type: ignore[arg-type]
        after, metrics, size = learned
        rollouts = state.rollouts + 1
        renewed = rollouts % self.mask_interval == 0
        mask = jax.tree.map(lambda new, old: jnp.where(renewed, new, old), state.network, state.mask)
        return after._replace(mask=mask, rollouts=rollouts), metrics, size
