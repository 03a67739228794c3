"""GRPO and its relatives: answers to one prompt are compared with one another.

Shao, Wang, Zhu et al. (2024), "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models",
arXiv 2402.03300. A group of G answers to one prompt gets the rewards r_1 ... r_G; the advantage of every token of
answer i is

    A_i = (r_i - mean r) / deviation r

and with ratio = pi(token) / pi_old(token) each update goes down

    mean_i mean_t -min(ratio A_i, clip(ratio, 1 - low, 1 + high) A_i) + divergence (exp(-x) - 1 + x)

where x = log pi(token) - log pi_first(token), so that the last term is k3, the estimator of the divergence from the
first policy that the paper has in its loss.

The fields name an advantage, a loss of tokens, a rule that makes one number of them and a rule for groups whose answers
all are equally right (`forage/ops/tokens/`, docs/tokens.md): each published relative is a choice of these, in
`settings.py`. An episode of several turns has one reward, and each of its turns the episode's advantage; a turn is an
answer, and those that an episode has left when it is over are none.

The old policy is scored anew before the first update by the program that learns, so that the first ratio is 1; what was
recorded while sampling, token by token, tells how far sampler and learner differ (`sampler_gap`).

Where another program draws the answers, with weights that may be older, a `correction` multiplies the loss of each
token by pi_old / pi_sampler, truncated or masked, of the token or of the whole answer (`correction.py`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, Shaped

from forage.agents.language.base import LOWEST, AnswerRows, LanguageAgent, LanguageState, advantage_size
from forage.agents.language.correction import check_correction, correction_weights, lost_answers
from forage.agents.language.kl_penalty import PER_TOKEN, PLACEMENTS, penalty_to_go, token_advantages
from forage.core.ports import Metrics
from forage.core.ports.needs import Choices
from forage.core.ranges import Range, Ranges
from forage.core.types import AGENT, OUTCOME, Batch, Clock, Experience, ForageError, Replay, Spec
from forage.nn.language.generate import ALONE, SharedPrefix
from forage.nn.transformer import Transformer
from forage.ops.tokens.advantages import (
    ADVANTAGES,
    GROUPS,
    WHOLE,
    advantage_of_those_there,
    all_alike,
    group_weight,
)
from forage.ops.tokens.divergence import ESTIMATORS, kl_estimate, kl_loss
from forage.ops.tokens.lengths import overlong
from forage.ops.tokens.losses import LOSSES, high_entropy
from forage.ops.tokens.masks import AGGREGATIONS, aggregate, token_mean, where_mask

UNFINISHED = "unfinished"
"""The name of the number of an environment that is 1 where an answer was cut before its end."""
UNSCORED = "unscored"
"""The name of the number of an environment that is 1 where every reward function returned None."""
BOUNDS = {"clip_low": "low", "clip_high": "high", "ratio_cap": "ceiling"}
"""The options that bound a ratio, with the argument of a loss that each one is."""


class LossInputs(NamedTuple):
    """Answers with the inputs of their loss."""

    rows: AnswerRows
    advantage: Float[Array, "row #new"]
    weight: Float[Array, " row"]  # 0 for answers that nothing is learned from
    old: Float[Array, "row new"]  # log-probability of each token under the policy that acted
    reference: Float[Array, "row new"]  # and under the first policy, where that is kept
    older: Bool[Array, " row"] | tuple[()] = ()  # an earlier policy acted, and `old` is what it recorded; (): nowhere
    more: Any = ()  # what a relative keeps of each row beside
    correction: Float[Array, "row new"] | tuple[()] = ()  # weight of each token that another sampler drew; (): 1

    @property
    def newest(self) -> Bool[Array, "*row 1"]:
        """Return a mask of the answers that the newest policy wrote."""
        everywhere = jnp.ones((*self.weight.shape, 1), bool)
        return everywhere if isinstance(self.older, tuple) else ~self.older[..., None]


class Scores(NamedTuple):
    """Scores of the tokens of some answers. No gradient flows through `old` and `entropy`."""

    now: Float[Array, "row new"]  # log-probability of each under the policy that learns
    old: Float[Array, "row new"]  # and under the one that acted
    entropy: Float[Array, "row new"]  # of what each was drawn from
    mask: Bool[Array, "row new"]  # tokens that are learned from


def replay_advantages(
    batch: Batch, advantage: Float[Array, "group answer"], weight: Float[Array, "group answer"]
) -> tuple[Float[Array, " env"], Float[Array, " env"], Bool[Array, " env"]]:
    """Return advantage and weight of each episode, and whether an earlier policy acted in it, as the memory has it."""
    if isinstance(batch.replay, Replay) and not isinstance(group := batch.replay.group, tuple):
        advantage, weight = (x[group, jnp.arange(len(group))] for x in (advantage, weight))
    advantage, weight = advantage.reshape(-1), weight.reshape(-1)
    if not isinstance(batch.replay, Replay):
        return advantage, weight, jnp.zeros(len(advantage), bool)
    given, added = batch.replay.advantage, len(batch.weight) - len(advantage)
    estimated = jnp.isnan(given)
    advantage = jnp.where(estimated, jnp.pad(advantage, (0, added)), given)
    weight = jnp.where(estimated, jnp.pad(weight, (0, added)), 1.0) * batch.weight
    return advantage, weight, batch.replay.older


def outcomes(experience: Experience) -> Float[Array, " env"]:
    """Return the correctness of each conversation: the verifier's truth, or else the environment's reward.

    Neither prices of length nor bonuses count. Leaves are `time env ...`.
    """
    paid = experience.rewards.get(OUTCOME, experience.reward).sum(0)
    if "truth" not in experience.info:
        return paid
    truth = experience.info["truth"]  # NaN but at the last turn, and where nothing was verified
    return jnp.where(jnp.isnan(truth).all(0), paid, jnp.nan_to_num(truth).sum(0))


class GRPO(LanguageAgent):
    """Group-relative policy optimisation of a language model (Shao et al., 2024, arXiv 2402.03300)."""

    example: ClassVar[str] = "forage train grpo text:addition --env.level 2"
    usual_starts: ClassVar[str] = "groups"
    replays: ClassVar[bool] = True
    outcomes: ClassVar[bool] = True
    corrects_sampler: ClassVar[bool] = True
    """Its loss is a sum over tokens that a `correction` can weigh, and answers that were lost leave their group."""
    ranges: ClassVar[Ranges] = {
        **LanguageAgent.ranges,
        "group_size": Range(2),
        "clip_low": Range(0),
        "clip_high": Range(0),
        "ratio_cap": Range(0),
        "divergence": Range(0),
        "entropy_share": Range(0, 1),
        "overlong_buffer": Range(0, 1),
        "best_of": Range(2),
        "correction_floor": Range(0),
        "correction_ceiling": Range(0, above=True),
    }
    choices: ClassVar[Choices] = {
        "advantage": ADVANTAGES,
        "loss": LOSSES,
        "aggregation": AGGREGATIONS,
        "zero_variance_groups": GROUPS,
        "estimator": ESTIMATORS,
        "kl_placement": PLACEMENTS,
    }

    clip_low: float | None = None  # how far below 1 a ratio is followed; none: the loss's own, 0.2 of clip
    clip_high: float | None = None  # how far above 1 a ratio is followed; none: the loss's own, 0.2 of clip
    ratio_cap: float | None = None  # the largest ratio that counts where the loss has one; none: the loss's own
    entropy_coefficient: float = 0.0  # weight of the policy's entropy in the loss; larger explores more
    correction_floor: float = 0.0  # least weight that a correction gives, or follows
    correction_ceiling: float = 2.0  # largest weight that a correction gives, or follows; 2 is Yao's and TRL's first
    group_size: int = equinox.field(static=True, default=8)  # answers to one prompt that are compared
    advantage: str = equinox.field(static=True, default="grpo")  # how rewards of a group become advantages, by name
    loss: str = equinox.field(static=True, default="clip")  # the loss of each token, by name
    aggregation: str = equinox.field(static=True, default="sequence-mean")  # how losses of tokens become one number
    zero_variance_groups: str = equinox.field(
        static=True, default="keep"
    )  # groups whose answers are all equally right, whatever
    # their lengths cost them, are kept, or dropped
    divergence: float = equinox.field(static=True, default=0.0)  # weight of the divergence from the first policy; GRPO
    # has 0.04, and most that came after it none
    estimator: str | None = equinox.field(static=True, default=None)  # how that divergence is estimated: in the loss by
    # k3 or k2, each with its own gradient, in the reward by k1; none: k3 of GRPO's paper in the loss, k1 in the reward
    entropy_share: float = equinox.field(static=True, default=1.0)  # share of the tokens, those of greatest entropy,
    # that are learned from
    kl_placement: str = equinox.field(static=True, default="loss")  # where that divergence counts: in the loss, or as a
    # price in the reward of each answer or token
    overlong_buffer: float = equinox.field(
        static=True, default=0.0
    )  # last share of the longest answer, in which answers are
    # paid less, up to 1 (DAPO's overlong penalty, 0.2 there); 0: none
    best_of: int = equinox.field(static=True, default=4)  # k, of the advantages pass@k and max@k
    mask_unfinished: bool = equinox.field(static=True, default=False)  # answers that were cut at their longest teach
    # nothing, and still count in the mean of their group
    correction: str | None = equinox.field(static=True, default=None)  # how answers of another sampler are corrected
    # for: token-truncate, token-mask, sequence-truncate, sequence-mask or uncorrected; none: the policy draws them

    @property
    def leaves_out(self) -> bool:  # type: ignore[override]
        return self.corrects_sampler

    @property
    def group(self) -> int:
        return self.group_size

    @property
    def pools(self) -> bool:  # type: ignore[override]
        methods = ("learn", "assign_credit", "answer_advantages")
        return self.advantage not in WHOLE and all(getattr(type(self), name) is getattr(GRPO, name) for name in methods)

    @property
    def referred(self) -> bool:
        return self.divergence > 0

    @property
    def divergence_estimator(self) -> str:
        """Return the name of the estimator of the divergence from the first policy."""
        return self.estimator or ("k3" if self.kl_placement == "loss" else "k1")

    def check(self, spec: Spec) -> None:
        super().check(spec)
        self.check_estimator()
        if self.correction is not None:
            check_correction(self, self.correction, self.correction_floor, self.correction_ceiling)
        if self.mask_unfinished and UNFINISHED not in spec.info_names:
            raise ForageError(f"{spec.name} does not tell which answers were cut; leave out mask_unfinished.")
        if self.advantage == "remax" and not self.needed_behaviour:
            raise ForageError(
                "The advantage remax compares with a greedy answer; use the agent remax, which writes one."
            )
        if self.kl_placement == "reward-token" and self.advantage not in PER_TOKEN:
            raise ForageError(
                f"The advantage {self.advantage} is of whole answers, and a divergence in tokens' rewards differs "
                f"along them; use kl_placement=reward-sequence, or take one of {', '.join(PER_TOKEN)}."
            )
        takes = inspect.signature(LOSSES[self.loss]).parameters
        for name, bound in BOUNDS.items():
            if getattr(self, name) is not None and bound not in takes:
                raise ForageError(f"The loss {self.loss} has no {name}; leave it out, or take clip.")
        if self.advantage.endswith("@k") and not 1 < self.best_of <= self.group_size:
            raise ForageError(
                f"{self.advantage} looks at the best of 2 to {self.group_size} answers, not {self.best_of}."
            )

    def check_estimator(self) -> None:
        """Raise `ForageError` if the gradient of a divergence would not be one."""
        estimator = self.divergence_estimator
        if self.kl_placement == "loss" and estimator == "k1":
            raise ForageError(
                "In the loss the estimator k1 only adds noise, as the mean of its gradient is 0; take k3 or k2, or "
                "put the divergence into the reward with --kl-placement reward-sequence."
            )
        if self.kl_placement != "loss" and estimator != "k1":
            raise ForageError(
                f"A divergence in the reward is estimated by k1, which has the right gradient there, "
                f"and {estimator} has not; leave out estimator."
            )

    @classmethod
    def translate_options(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a stored run, with an estimator that is now refused replaced by one of the same
        gradient.
        """
        if options.get("kl_placement", cls.__dataclass_fields__["kl_placement"].default) != "loss":
            return options | {"estimator": "k1"}
        return options | {"estimator": "k2"} if options.get("estimator") == "k1" else options

    def learn(
        self, state: LanguageState, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics, Float[Array, " env"]]:
        lesson, rows = self.with_log_probabilities(state, self.collect_answers(batch)), self.rows(batch)
        reward, gone = self.penalised_rewards(batch, rows), self.lost(batch)
        grouped = self.group_values(batch, reward)
        lesson = self.assign_credit(batch, lesson, grouped)
        state, metrics = self.descend(state, lesson, self.rate(clock), key)
        said = {
            "reward": token_mean(grouped, ~gone),
            "best": token_mean(grouped.max(1), ~gone.all(1)),
            "zero_variance": token_mean(all_alike(self.group_values(batch, outcomes(batch.experience))), ~gone.all(1)),
            "length": rows.wrote.sum() / jnp.maximum(rows.wrote.any(1).sum(), 1),
        }
        if self.correction is not None:
            said["lost"] = gone.mean()
        size = advantage_size(lesson.advantage, lesson.rows.wrote, self.rollout_length)
        return state, metrics | said, size[: len(reward)]

    def group_values(self, batch: Batch, value: Float[Array, " env"]) -> Float[Array, "group answer"]:
        """Return a number of each conversation of the rollout, group by group; a lost one has the others' mean."""
        found, gone = self.by_group(batch, value), self.lost(batch)
        return jnp.nan_to_num(jnp.where(gone, found.mean(1, keepdims=True, where=~gone), found))

    def by_group(self, batch: Batch, value: Array) -> Shaped[Array, "group answer"]:
        """Return a value of each conversation, group by group; of pooled groups each row has a place for all."""
        if isinstance(batch.replay, Replay) and not isinstance(batch.replay.group, tuple):
            return jnp.broadcast_to(value, (len(value), len(value)))
        return value[: self.num_envs].reshape(-1, self.group_size)

    def collect_answers(self, batch: Batch) -> LossInputs:
        """Return the answers of a rollout, before they are compared."""
        rows = self.rows(batch)
        own = (batch.experience.source == AGENT) | self.unscored(batch)
        if self.mask_unfinished:
            own &= ~(batch.experience.info[UNFINISHED] == 1).any(0)
        own = own.reshape(-1).astype(jnp.float32)
        nothing, older = jnp.zeros_like(rows.sampled), jnp.zeros(len(own), bool)
        if isinstance(batch.replay, Replay):
            older = jnp.tile(batch.replay.older, self.rollout_length)
        return LossInputs(rows, nothing[:, :1], own, rows.sampled, nothing, older)

    def penalised_rewards(self, batch: Batch, rows: AnswerRows) -> Float[Array, " env"]:
        """Return the reward of each conversation, less its penalty for length."""
        reward = batch.experience.reward.sum(0)
        if self.overlong_buffer:
            longest = rows.wrote.shape[1]
            wrote = rows.wrote.reshape(self.rollout_length, -1, longest)
            reward = reward + overlong(wrote.sum(-1).max(0), longest, max(round(self.overlong_buffer * longest), 1))
        return reward

    def assign_credit(self, batch: Batch, lesson: LossInputs, reward: Float[Array, "group answer"]) -> LossInputs:
        """Return the lesson with the advantage of each row, or of each of its tokens, and its weight."""
        turns = self.rollout_length
        price = jnp.zeros_like(lesson.old)
        if self.divergence > 0 and self.kl_placement != "loss":
            price = self.divergence * penalty_to_go(lesson.old, lesson.reference, lesson.rows.wrote, turns)
        paid = reward
        if self.kl_placement == "reward-sequence":
            paid = reward - self.by_group(batch, price[: len(batch.weight), 0])
        outcome = self.group_values(batch, outcomes(batch.experience))
        compared, weight = self.answer_advantages(paid, outcome, ~self.lost(batch))
        weight = self.count_unscored(batch, weight, outcome)
        advantage, weight, _ = replay_advantages(batch, compared, weight)
        weight = jnp.tile(weight, turns) * lesson.weight
        each = jnp.tile(advantage, turns)[:, None]
        if self.kl_placement == "reward-token":
            if isinstance(batch.replay, Replay):
                raise ForageError("Older answers have advantages of whole answers; use kl_placement=reward-sequence.")
            greedy = jnp.repeat(reward[:, 0], self.group_size)
            mask = lesson.rows.wrote & (weight > 0)[:, None]
            each = token_advantages(
                self.advantage, jnp.tile(reward.reshape(-1), turns), price, jnp.tile(greedy, turns), mask
            )
        return lesson._replace(advantage=each, weight=weight)

    def answer_advantages(
        self,
        reward: Float[Array, "group answer"],
        outcome: Float[Array, "group answer"] | None = None,
        there: Bool[Array, "group answer"] | None = None,
    ) -> tuple[Float[Array, "group answer"], Array]:
        """Return the advantage of each answer among those that are `there`, and its weight, 0 for a lost one.

        `outcome`: how right each answer is, where the reward is something else; it says which groups are all alike.
        """
        there = jnp.ones(reward.shape, bool) if there is None else there
        advantage, weight = advantage_of_those_there(self.advantage, reward, there, **self.numbers(reward))
        return advantage, weight * self.kept_groups(reward if outcome is None else outcome)

    def numbers(self, reward: Float[Array, "group answer"]) -> dict[str, Any]:
        """Return the arguments of the named advantage."""
        if self.advantage == "remax":
            return {"baseline": reward[:, 0]}
        return {"k": self.best_of} if self.advantage.endswith("@k") else {}

    def kept_groups(self, outcome: Float[Array, "group answer"]) -> Float[Array, "group answer"]:
        """Return the weight of each answer: 0 in a group that is dropped, and of another one's baseline."""
        weight = group_weight(outcome, self.zero_variance_groups)
        # The first answer, the most probable one, is the others' baseline
        return weight.at[:, 0].set(0.0) if self.advantage == "remax" else weight

    def unscored(self, batch: Batch) -> Bool[Array, " env"]:
        """Return a mask of the conversations for which every reward function returned None."""
        told = batch.experience.info.get(UNSCORED)
        return jnp.zeros(batch.experience.source.shape[1], bool) if told is None else (told == 1).any(0)

    def count_unscored(
        self, batch: Batch, weight: Float[Array, "group answer"], outcome: Float[Array, "group answer"]
    ) -> Float[Array, "group answer"]:
        """Return the weights of answers with those of groups in which one is unscored.

        As in TRL 1.16, all there count with their tokens, the unscored ones with the advantage 0.
        """
        if UNSCORED not in batch.experience.info:
            return weight
        unscored = self.unscored(batch)[: self.num_envs].reshape(weight.shape)
        counted = unscored.any(-1, keepdims=True) & (unscored | ~self.lost(batch))
        return jnp.maximum(weight, counted * self.kept_groups(outcome))

    def lost(self, batch: Batch) -> Bool[Array, "group answer"]:
        """Return a mask of the conversations of a rollout that were lost: an answer, or its reward, did not come."""
        gone = self.by_group(batch, lost_answers(batch))
        if isinstance(batch.replay, Replay) and not isinstance(group := batch.replay.group, tuple):
            return gone | (group != jnp.arange(len(group))[:, None])
        return gone

    def with_log_probabilities(self, state: LanguageState, lesson: LossInputs) -> LossInputs:
        """Return the lesson with the log-probabilities of the policies that it is compared with."""
        priced = self.correction is not None and self.kl_placement != "loss"  # by the policy, and not by its sampler
        if self.epochs * self.updates > 1 or priced:
            anew = self.in_parts(state.network, state, lesson.rows)
            lesson = lesson._replace(old=jnp.where(lesson.newest, anew, lesson.old))
        if (reference := self.reference_of(state)) is not None:
            lesson = lesson._replace(reference=self.in_parts(reference, state, lesson.rows))
        return lesson

    def in_parts(self, network: Transformer, state: LanguageState, rows: AnswerRows) -> Float[Array, "row new"]:
        """Return the log-probability of each token, scored as many rows at once as an update learns from."""
        return self.map_rows(lambda part: self.score_tokens(network, state, part, self.shared_prefix(part))[0], rows)

    def shared_prefix(self, rows: AnswerRows) -> SharedPrefix:
        """Return the prefix that rows share, so that the model reads it once for all of them.

        Where rows are a rollout in its order, that is the prompt of a group, or, of conversations of several turns, all
        that was said before: the contexts of most environments grow by it. Minibatches mix rows, and replayed answers
        and references stand behind those of the rollout.
        """
        in_order = self.whole_episodes and self.updates == 1
        if not in_order or len(rows.tokens) != self.num_envs * self.rollout_length:
            return ALONE
        return SharedPrefix(turns=self.rollout_length) if self.rollout_length > 1 else SharedPrefix(prompts=self.group)

    def map_rows(self, function: Callable[[AnswerRows], Array], rows: AnswerRows) -> Array:
        """Apply a function to all rows, in batches of the size of an update."""
        parts = jax.tree.map(lambda x: x.reshape(self.updates, -1, *x.shape[1:]), rows)
        found = jax.lax.map(function, parts)
        return found.reshape(-1, *found.shape[2:])

    def descend(
        self, state: LanguageState, lesson: LossInputs, rate: Float[Array, ""], key: Key[Array, ""]
    ) -> tuple[LanguageState, Metrics]:
        """Return the state after `epochs` passes over the lesson in `minibatches`, and means of the metrics."""
        objective = lambda network, part, first: self.objective(network, state, part, first)  # noqa: E731
        return self.descend_minibatches(state, objective, lesson, rate, key)

    def objective(
        self, network: Transformer, state: LanguageState, lesson: LossInputs, first: Bool[Array, ""]
    ) -> tuple[Float[Array, ""], Metrics]:
        """Compute the loss of some answers. `first`: the policy has not changed since it acted, so ratios are 1."""
        rows = lesson.rows
        now, entropy = self.score_tokens(network, state, rows, self.shared_prefix(rows))
        newest = lesson.newest
        old = jnp.where(first & newest, jax.lax.stop_gradient(now), lesson.old)
        mask = rows.wrote & (lesson.weight > 0)[:, None]
        if self.entropy_share < 1:
            mask = high_entropy(jax.lax.stop_gradient(entropy), mask, self.entropy_share)
        drawn = rows.wrote & (lesson.weight > 0)[:, None] & (rows.temperature >= LOWEST) & newest
        mismatch: Metrics = {}
        if self.correction is not None:
            bounds = self.correction_floor, self.correction_ceiling
            correction, mismatch = correction_weights(old, rows, drawn, self.correction, *bounds)
            lesson = lesson._replace(correction=correction)
        scores = Scores(now, old, jax.lax.stop_gradient(entropy), mask)
        loss, more = self.surrogate(network, lesson, scores)
        ratio = jnp.exp(now - old)
        metrics = {
            "policy_loss": loss,
            "entropy": token_mean(entropy, mask),
            "first_ratio": jnp.max(jnp.where(mask & newest, jnp.abs(ratio - 1), 0)),
            "moved": token_mean(jnp.abs(ratio - 1), mask),
            "sampler_gap": token_mean(jnp.abs(now - rows.sampled), drawn),
        }
        if self.loss == "clip":
            metrics["clipped"] = self.clip_share(ratio, lesson.advantage, mask)
        metrics |= mismatch | more
        if self.reference_of(state) is not None:
            apart = self.divergences(network, state, lesson, scores)
            metrics |= {"divergence": token_mean(apart, mask)}
            if self.kl_placement == "loss":
                loss = loss + self.divergence * self.aggregate_loss(apart, lesson, mask)
        return loss + self.entropy_loss(state, lesson, entropy, mask), metrics

    def entropy_loss(
        self, state: LanguageState, lesson: LossInputs, entropy: Float[Array, "row new"], mask: Bool[Array, "row new"]
    ) -> Float[Array, ""]:
        """Compute the part of the loss that moves the policy's entropy, through which its gradient flows."""
        return -self.entropy_coefficient * token_mean(entropy, mask)

    def clip_share(
        self, ratio: Float[Array, "row new"], advantage: Float[Array, "row #new"], mask: Bool[Array, "row new"]
    ) -> Float[Array, ""]:
        """Return the share of tokens whose ratio is beyond the bound in the direction of their advantage."""
        usual = inspect.signature(LOSSES[self.loss]).parameters
        given = {"low": self.clip_low, "high": self.clip_high}
        low, high = (usual[name].default if own is None else own for name, own in given.items())
        beyond = jnp.where(advantage > 0, ratio > 1 + high, (advantage < 0) & (ratio < 1 - low))
        return token_mean(beyond.astype(jnp.float32), mask)

    def divergences(
        self, network: Transformer, state: LanguageState, lesson: LossInputs, scores: Scores
    ) -> Float[Array, "row new"]:
        """Compute the divergence from the reference at each token; its gradient flows only if it is in the loss."""
        now, _, _, mask = scores
        if self.kl_placement == "loss":
            return kl_loss(now, lesson.reference, mask, self.divergence_estimator)
        return kl_estimate(where_mask(now, mask) - where_mask(lesson.reference, mask), self.divergence_estimator)

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        """Return the loss of tokens as one number, and metrics of it."""
        return self.total_loss(lesson, scores, lesson.advantage), {}

    def total_loss(
        self, lesson: LossInputs, scores: Scores, advantage: Float[Array, "row #new"], **bounds: Any
    ) -> Float[Array, ""]:
        """Return the named loss of all tokens. `bounds` take the place of the agent's own."""
        loss = self.token_losses(scores, advantage, **bounds)
        if not isinstance(lesson.correction, tuple):
            loss = loss * lesson.correction
        return self.aggregate_loss(loss, lesson, scores.mask)

    def aggregate_loss(
        self, loss: Float[Array, "row new"], lesson: LossInputs, mask: Bool[Array, "row new"]
    ) -> Float[Array, ""]:
        """Aggregate the tokens' losses to one number, by the named aggregation and the weights of answers."""
        length = mask.shape[1] if self.aggregation == "constant" else None
        return aggregate(loss * lesson.weight[:, None], mask, self.aggregation, length)

    def token_losses(
        self, scores: Scores, advantage: Float[Array, "row #new"], **bounds: Any
    ) -> Float[Array, "row new"]:
        """Return the named loss of each token."""
        given = {bound: getattr(self, option) for option, bound in BOUNDS.items()} | bounds
        numbers = {name: value for name, value in given.items() if value is not None}
        return LOSSES[self.loss](scores.now, scores.old, advantage, scores.mask, **numbers)
