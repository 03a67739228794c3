"""EEPO: after half of a group's answers a copy of the policy forgets them a little, and writes the other half."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import AnswerRows, LanguageState, answers
from forage.agents.language.grpo import GRPO, LossInputs
from forage.core.ports import Metrics
from forage.core.ports.needs import Needs
from forage.core.ranges import Range, Ranges
from forage.core.spaces import Tokens
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.language import lora
from forage.nn.language.generate import SharedPrefix
from forage.nn.transformer import Transformer
from forage.ops.tokens.masks import where_mask
from forage_papers.agents.language.kept import keep

NEAREST = 1e-6  # how near to 1 a probability may be that is forgotten


class Entropies(NamedTuple):
    """The entropy of tokens in the last rollouts, the newest first."""

    latest: Float[Array, " window"]
    count: Int[Array, ""]  # rollouts so far

    @property
    def mean(self) -> Float[Array, ""]:
        """Return the mean of those there are, infinite before the first."""
        there = jnp.arange(len(self.latest)) < self.count
        total = jnp.sum(jnp.where(there, self.latest, 0.0)) / jnp.maximum(there.sum(), 1)
        return jnp.where(self.count > 0, total, jnp.inf)


class EEPO(GRPO):
    """Exploration-enhanced policy optimisation (EEPO): sample, then forget, then sample elsewhere.

        forget   one plain step of size `forgetting_rate` down mean over answers, and over their tokens, of
                 -log(1 - min(pi(token), 1 - 1e-6))
        learn    GRPO's loss of all answers, whose ratios are pi(token) / the probability it was drawn with

    The policy writes half of each group. If its entropy, a mean over the last `window` rollouts, is below `threshold`,
    a copy of it takes the step that makes these answers less probable, the more the surer it was of their tokens, and
    writes the other half; else the policy writes that, too. The copy is dropped after the rollout.

    Chen, Han, Wang, Han, Bai, Schuetze, Wong (2025), "EEPO: Exploration-Enhanced Policy Optimization via
    Sample-Then-Forget", arXiv 2510.05837, by public notes on the paper with its equation 10: threshold 0.3, window 3
    and rate 3e-3 are those. The notes call the step an ascent of that loss, which would make the answers more probable;
    it goes down here. The bound 1e-6 is ours. The authors' program (ChanLiang/EEPO) could not be looked up.
    """

    example: ClassVar[str] = "forage train eepo text:addition --env.level 2"
    own_choices: ClassVar[str] = "the bound of 1e-6"
    corrects_sampler: ClassVar[bool] = False
    replays: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = {
        **GRPO.ranges,
        "threshold": Range(0),
        "forgetting_rate": Range(0),
        "window": Range(1),
    }
    needs: ClassVar[Needs] = Needs(single_turn=True)

    threshold: float = 0.3  # entropy in nats a token, below which answers are forgotten
    forgetting_rate: float = 3e-3  # size of the step that forgets
    window: int = equinox.field(static=True, default=3)  # rollouts whose entropies are averaged

    def check(self, spec: Spec) -> None:
        super().check(spec)
        if self.group_size % 2:
            raise ForageError(
                f"EEPO writes a group in two halves; give a group_size that is even, not {self.group_size}."
            )

    def init(self, key: Key[Array, ""], spec: Spec) -> Any:
        return keep(super().init(key, spec), Entropies(jnp.zeros(self.window), jnp.int32(0)))

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        before: Entropies = state.kept
        learned: Any = super().learn(state, batch, clock, key)
        state, metrics, size = learned
        latest = jnp.concatenate([metrics["entropy"][None], before.latest[:-1]])
        said = {"forgot": (before.mean < self.threshold).astype(jnp.float32)}
        return state._replace(kept=Entropies(latest, before.count + 1)), metrics | said, size

    def collect_answers(self, batch: Batch) -> LossInputs:
        """Return the answers of a rollout, the second halves with the log-probabilities that they were sampled with."""
        lesson = super().collect_answers(batch)
        return lesson._replace(older=jnp.arange(len(lesson.weight)) % self.group_size >= self.group_size // 2)

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
        if not explore or len(context) % self.group_size:
            return super().write_answers(state, context, keys, temperature, new, explore, room)
        half = self.group_size // 2

        def take(x: Array, second: bool) -> Array:
            x = x.reshape(-1, 2, half, *x.shape[1:])[:, int(second)]
            return x.reshape(-1, *x.shape[2:])

        def write(network: Transformer, second: bool) -> tuple[Array, Array]:
            told, own, heat = (take(x, second) for x in (context, keys, temperature))
            most = None if room is None else take(room, second)
            acting = state._replace(network=network)
            return answers(acting, told, own, self.sampling(heat[..., None]), new, most, together=half)

        first = write(state.network, False)
        rows = answer_rows(take(context, False), *first, take(temperature, False))
        entropies: Entropies = state.kept
        forgetful = jax.lax.cond(
            entropies.mean < self.threshold, lambda: self.forget(state, rows), lambda: state.network
        )
        other = write(forgetful, True)

        def join(x: Array, y: Array) -> Array:
            return jnp.stack([x.reshape(-1, half, new), y.reshape(-1, half, new)], 1).reshape(-1, new)

        return join(first[0], other[0]), join(first[1], other[1])

    def forget(self, state: LanguageState, rows: AnswerRows) -> Transformer:
        """Return the policy after one step that makes these answers, the first halves of all groups, less probable."""
        learned, fixed = self.split_frozen(state.network)

        def loss(learned: Transformer) -> Float[Array, ""]:
            network, half = lora.combine_adapters(learned, fixed), SharedPrefix(prompts=self.group_size // 2)
            now = self.score_tokens(network, state, rows, half)[0]
            return forgetting_loss(now, rows.wrote)

        slope = jax.grad(loss)(learned)
        moved = jax.tree.map(lambda x, g: (x - self.forgetting_rate * g).astype(x.dtype), learned, slope)
        return lora.combine_adapters(moved, fixed)


def forgetting_loss(log_probability: Float[Array, "row new"], mask: Bool[Array, "row new"]) -> Float[Array, ""]:
    """Compute the mean over answers of the mean over their tokens of -log(1 - pi), with pi at most 1 - 1e-6."""
    now = jnp.minimum(where_mask(log_probability, mask), jnp.log1p(-NEAREST))
    each = jnp.where(mask, -jnp.log(-jnp.expm1(now)), 0.0)
    return jnp.mean(each.sum(1) / jnp.maximum(mask.sum(1), 1))


def answer_rows(
    context: Int[Array, "row time"],
    tokens: Int[Array, "row new"],
    log_probability: Float[Array, "row new"],
    temperature: Any,
) -> AnswerRows:
    """Return answers as rows to learn from; tokens count from 1, and 0 is none."""
    whole = jnp.concatenate([context, tokens], axis=1)
    wrote = tokens != Tokens.PAD
    return AnswerRows(jnp.maximum(whole - 1, 0), whole != Tokens.PAD, wrote, log_probability, temperature)
