"""Online preference optimisation: the best and the worst answer of each group are a pair."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import AnswerRows, LanguageAgent, LanguageState
from forage.agents.language.pairs import MEANS, WITHOUT_REFERENCE, pair_losses
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import Range, Ranges, check_minibatches
from forage.core.types import Batch, Clock, ForageError, Spec
from forage.nn.transformer import Transformer
from forage.ops.tokens.advantages import all_alike
from forage.ops.tokens.masks import sequence_sum
from forage.ops.tokens.preferences import PREFERENCES, kto, kto_baseline


class Pair(NamedTuple):
    """Two answers to one prompt, the better one first; leaves `pair 2 turn ...`."""

    rows: AnswerRows
    reference: Float[Array, "pair 2"]  # log-probability of each answer under the first policy
    weight: Float[Array, " pair"]  # 0 where both have the same reward
    second: Bool[Array, " pair"]  # for xpo: the first policy wrote the worse answer


class OnlineDPO(LanguageAgent):
    """Direct preference optimisation of pairs that are drawn and judged as it learns.

    Of each group the answer of the highest reward is preferred to the one of the lowest; groups of one reward make no
    pair. `preference` names the loss (`ops/tokens/preferences`): dpo, robust-dpo, ipo, hinge, simpo, cpo, orpo,
    xpo, or kto, which takes the same answers as wanted and unwanted, one by one. What is compared with is the first
    policy. `xpo` needs answers of that, so it is an agent of its own.

    Guo et al. (2024), "Direct Language Model Alignment from Online AI Feedback", arXiv 2402.04792, as in TRL's
    `experimental/online_dpo`, which has 2 answers to a prompt and beta 0.1: here a verifier's reward is the judge. The
    paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train online-dpo text:addition --env.level 2 --preference ipo"
    usual_starts: ClassVar[str] = "groups"
    ranges: ClassVar[Ranges] = {
        **LanguageAgent.ranges,
        "group_size": Range(2),
        "beta": Range(0, above=True),
        "optimism": Range(0),
        "smoothing": Range(0, 0.5, below=True),
        "likelihood": Range(0),
    }
    choices: ClassVar[Choices] = {"preference": PREFERENCES}

    group_size: int = equinox.field(static=True, default=2)  # answers to one prompt, of which the best and the worst
    # are a pair
    preference: str = equinox.field(static=True, default="dpo")  # the loss of a pair, by name
    beta: float | None = None  # how much a preference weighs beside staying near the first policy, smaller moves more;
    # none: the loss's own, 0.1 of dpo
    smoothing: float = 0.0  # share of labels that are taken to be the wrong way round, of dpo and robust-dpo
    optimism: float = 1e-5  # weight of xpo's bonus for exploring
    likelihood: float = 1.0  # weight of the likelihood of the better answer, of cpo and orpo

    @property
    def group(self) -> int:
        return self.group_size

    @property
    def referred(self) -> bool:
        return self.preference not in WITHOUT_REFERENCE

    def check(self, spec: Spec) -> None:
        super().check(spec)
        pairs = self.pairs
        check_minibatches(self, pairs, "pairs")
        if self.preference == "xpo" and not isinstance(self, XPO):
            raise ForageError("The preference xpo compares with answers of the first policy; use the agent xpo.")
        if self.preference == "kto" and pairs // self.updates < 2:
            raise ForageError("kto compares a prompt with answers to others; leave two prompts or more in a minibatch.")

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        reward = batch.experience.reward.sum(0).reshape(-1, self.group_size)
        rows, turns = self.rows(batch), self.rollout_length
        by_env = jax.tree.map(lambda x: x.reshape(turns, self.num_envs, *x.shape[1:]).swapaxes(0, 1), rows)
        chosen, differ = self.choose_pairs(state, by_env, reward, jax.random.fold_in(key, 1))
        each, weight = jax.tree.map(lambda x: x[chosen], by_env), differ.astype(jnp.float32)
        pair = Pair(each, jnp.zeros(chosen.shape), weight, chosen[:, 1] % self.group_size == 0)
        if (reference := self.reference_of(state)) is not None:
            pair = pair._replace(reference=self.whole(reference, state, each))
        objective = lambda network, part, first: self.objective(network, state, part)  # noqa: E731
        state, said = self.descend_minibatches(state, objective, pair, self.rate(clock), key)
        said |= {"reward": reward.mean(), "zero_variance": all_alike(reward).mean()}
        return state, said, jnp.zeros(self.num_envs)

    @property
    def pairs(self) -> int:
        """Return the number of pairs that a rollout makes."""
        return self.num_envs // self.group_size

    def choose_pairs(
        self, state: LanguageState, rows: AnswerRows, reward: Float[Array, "group answer"], key: Key[Array, ""]
    ) -> tuple[Int[Array, "pair 2"], Bool[Array, " pair"]]:
        """Return the numbers of two answers of each pair, the better one first, and whether they differ in reward.

        `rows`: leaves `answer turn ...`.
        """
        # Of equal answers both would be the first; which one does not matter, as the pair weighs nothing.
        first = jnp.arange(len(reward)) * self.group_size
        return jnp.stack([first + jnp.argmax(reward, 1), first + jnp.argmin(reward, 1)], 1), ~all_alike(reward)

    def whole(self, network: Transformer, state: LanguageState, rows: AnswerRows) -> Float[Array, "pair 2"]:
        """Return the log-probability of each answer, summed over its turns; of `MEANS` over its tokens, on average."""
        shape = rows.wrote.shape[:3]
        flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[3:]), rows)
        total = sequence_sum(self.score_tokens(network, state, flat)[0], flat.wrote).reshape(shape).sum(-1)
        if self.preference in MEANS:
            total = total / jnp.maximum(rows.wrote.sum((-2, -1)), 1)
        return total

    def objective(self, network: Transformer, state: LanguageState, pair: Pair) -> tuple[Float[Array, ""], Metrics]:
        """Compute the mean loss of the pairs that differ."""
        now = self.whole(network, state, pair.rows)
        each = self.losses(network, state, pair, now)
        count = jnp.maximum(pair.weight.sum(), 1)
        ahead = (now - pair.reference) @ jnp.array([1.0, -1.0]) > 0
        loss = jnp.sum(jnp.where(pair.weight > 0, each, 0.0)) / count
        return loss, {
            "preference_loss": loss,
            "ordered": jnp.sum(pair.weight * ahead) / count,
            "chosen": jnp.sum(pair.weight * now[:, 0]) / count,
            "rejected": jnp.sum(pair.weight * now[:, 1]) / count,
        }

    def losses(
        self, network: Transformer, state: LanguageState, pair: Pair, now: Float[Array, "pair 2"]
    ) -> Float[Array, " pair"]:
        """Return the loss of each pair by the name of the preference."""
        name, (chosen, rejected) = self.preference, now.T
        numbers: dict[str, Any] = {} if self.beta is None else {"beta": self.beta}
        if name == "kto":
            return self.one_by_one(network, state, pair, now, numbers)
        if name == "xpo":
            drawn = jnp.where(pair.second, rejected, chosen)
            return PREFERENCES[name](chosen, rejected, *pair.reference.T, drawn, optimism=self.optimism, **numbers)
        wrote = pair.rows.wrote[:, 0].sum((-2, -1))
        total = chosen * wrote if name in MEANS else chosen
        mean = jnp.sum(pair.weight * -total) / jnp.maximum(jnp.sum(pair.weight * wrote), 1)
        return pair_losses(name, now, pair.reference, mean, smoothing=self.smoothing, scale=self.likelihood, **numbers)

    def one_by_one(
        self, network: Transformer, state: LanguageState, pair: Pair, now: Float[Array, "pair 2"], numbers: Any
    ) -> Float[Array, " pair"]:
        """Return KTO's loss of the two answers of each pair. Its baseline is of answers put behind other prompts."""
        rows, new = pair.rows, pair.rows.wrote.shape[-1]

        def swap_answers(x: Array) -> Array:
            return jnp.concatenate([x[..., :-new], jnp.roll(x[..., -new:], 1, 0)], -1)

        other = rows._replace(
            tokens=swap_answers(rows.tokens), there=swap_answers(rows.there), wrote=jnp.roll(rows.wrote, 1, 0)
        )
        other = jax.lax.stop_gradient(other)
        reference = self.reference_of(state)
        assert reference is not None
        apart = self.whole(network, state, other), self.whole(reference, state, other)
        baseline = kto_baseline(*(jax.lax.stop_gradient(x).reshape(-1) for x in apart))
        wanted = jnp.broadcast_to(jnp.array([True, False]), now.shape)
        each = [kto(now[:, i], pair.reference[:, i], wanted[:, i], baseline, **numbers) for i in (0, 1)]
        return (each[0] + each[1]) / 2


class XPO(OnlineDPO):
    """Exploratory preference optimisation: online DPO with a bonus for leaving the first policy's answers.

    Of two answers to a prompt the first policy writes one (behaviour `reference-policy`), the policy the other. To
    DPO's loss comes `optimism` times log pi of the former, chosen or not.

    Xie et al. (2024), "Exploratory Preference Optimization: Harnessing Implicit Q*-Approximation for Sample-Efficient
    RLHF", arXiv 2405.21046, as in TRL's paper index and `experimental/xpo`, whose numbers beta 0.1 and optimism 1e-5
    are. The paper's own pages could not be looked up.
    """

    example: ClassVar[str] = "forage train xpo text:addition --env.level 2"
    usual_behaviour: ClassVar[str] = "reference-policy"
    needed_behaviour: ClassVar[str] = "reference-policy"
    firsts: ClassVar[int] = 1
    unused: ClassVar[Unused] = {"preference group_size": "XPO has a preference of its own and 2 answers to a prompt"}

    preference: str = equinox.field(static=True, default="xpo")
