"""CodeRL: REINFORCE over a greedy answer, whose tokens a critic of outcomes weighs."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from forage.agents.language.base import AnswerRows
from forage.agents.language.correction import lost_answers
from forage.agents.language.grpo import LossInputs, Scores, outcomes
from forage.agents.language.ppo_language import Critic
from forage.core.mesh import ONE, Shape
from forage.core.ports import Metrics
from forage.core.ports.needs import Unused
from forage.core.ranges import Range, Ranges
from forage.core.types import Batch, Clock, Experience, Spec
from forage.nn.language.memory import tree_bytes
from forage.nn.transformer import Transformer
from forage.ops.rows import concatenate_rows
from forage.ops.tokens.masks import token_mean
from forage_papers.agents.language.kept import copy_first_policy, keep, learn_second
from forage_papers.agents.language.rl_plus import WithReferences

SPREAD = 0.02  # deviation of the head's first weights
REWARDS = (-1.0, -0.6, -0.3, 1.0)
"""The rewards of answers that cannot be read, that fail as they run, that are wrong, and that are right."""


class AnswerClasses(NamedTuple):
    """Answers with their outcomes, for the critic."""

    rows: AnswerRows
    outcome: Int[Array, " row"]
    counts: Bool[Array, " row"]


def outcome_classes(experience: Experience) -> Int[Array, " env"]:
    """Return the outcome of each episode, as a place in `REWARDS`. Leaves are `time env ...`."""
    info, right = experience.info, outcomes(experience) >= 1
    last = lambda name: jnp.nan_to_num(info[name], nan=1.0)[-1] > 0 if name in info else True  # noqa: E731
    found = jnp.where(last("executed"), 2, 1)
    return jnp.where(right, 3, jnp.where(last("format"), found, 0)).astype(jnp.int32)


def critic_loss(
    logits: Float[Array, "row new outcome"], wrote: Bool[Array, "row new"], items: Any
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Compute the cross-entropy of outcomes by the largest logit of each over an answer's tokens, and the accuracy."""
    pooled = jnp.where(wrote[..., None], logits, -jnp.inf).max(1)
    pooled = jnp.where(wrote.any(1)[:, None], pooled, 0.0)
    each = -jnp.take_along_axis(jax.nn.log_softmax(pooled), items.outcome[:, None], 1)[:, 0]
    count = jnp.maximum(items.counts.sum(), 1)
    hit = jnp.argmax(pooled, 1) == items.outcome
    return jnp.sum(each, where=items.counts) / count, jnp.sum(hit, where=items.counts) / count


class CodeRL(WithReferences):
    """CodeRL: REINFORCE whose tokens are weighed by a critic of outcomes, and imitation of references.

        r       -1, -0.6, -0.3 or 1: not to be read (there: a compile error), fails as it runs, wrong, right
        loss    - mean over tokens of q_t (r - r_greedy) log pi - imitation mean over the references' tokens of log pi

    r_greedy is paid for the most probable answer (behaviour `greedy-first-sample`), which is not learned from. q_t is
    the critic's probability of the outcome that came, given the tokens before t. The critic is a copy of the first
    policy with four outputs; it learns the outcome from the largest of each output over an answer's tokens.

    Le, Wang, Gotmare, Savarese, Hoi (2022), "CodeRL: Mastering Code Generation through Pretrained Models and Deep
    Reinforcement Learning", arXiv 2207.01780, as in the authors' program (salesforce/CodeRL:
    `datasets/apps_dataset.py`, `sample_rl_task`, `datasets/utils.py`, and `modeling_t5.py`). There samples, baselines
    and the critic's weights are made once, before the policy learns from them by turns with references; here the policy
    writes anew before each update, the critic learns after it, and both losses are added. An answer fails as it runs
    where the environment says that it was not `executed`, which it does with tools. Not here: sampling that repairs
    programs at test time.
    """

    example: ClassVar[str] = "forage train code-rl text:programs"
    own_choices: ClassVar[str] = "critic_rate, and the weight of imitation"
    ranges: ClassVar[Ranges] = {
        **WithReferences.ranges,
        "imitation": Range(0),
        "critic_rate": Range(0, above=True),
    }
    unused: ClassVar[Unused] = {
        "loss clip_low clip_high ratio_cap aggregation zero_variance_groups overlong_buffer kl_placement": (
            "CodeRL has rewards and a loss of its own"
        ),
    }
    usual_behaviour: ClassVar[str] = "greedy-first-sample"
    needed_behaviour: ClassVar[str] = "greedy-first-sample"

    imitation: float = 1.0  # weight of the references' cross-entropy
    critic_rate: float = 3.0  # step size of the critic, as a multiple of the policy's
    advantage: str = equinox.field(static=True, default="remax")
    aggregation: str = equinox.field(static=True, default="token-mean")

    def init(self, key: Key[Array, ""], spec: Spec) -> Any:
        width = self.base_model.architecture.width
        head = SPREAD * jax.random.normal(jax.random.fold_in(key, 1), (len(REWARDS), width))
        return keep(super().init(key, spec), copy_first_policy(self, head))

    def working_bytes(self, spec: Spec, state: Any, shape: Shape = ONE) -> dict[str, int]:
        found = super().working_bytes(spec, state, shape)
        return found | {"gradients": found["gradients"] + 2 * tree_bytes(state.kept.weights, shape)}

    def learn(
        self, state: Any, batch: Batch, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Any, Metrics, Float[Array, " env"]]:
        learned: Any = super().learn(state, batch, clock, key)
        after, metrics, size = learned
        items = AnswerClasses(self.rows(batch), outcome_classes(batch.experience), ~lost_answers(batch))
        rate, own = self.rate(clock) * self.critic_rate, jax.random.fold_in(key, 3)
        critic, said = learn_second(self, state.kept, self.classify, items, rate, self.updates, own)
        return after._replace(kept=critic), metrics | said, size

    def classify(self, critic: Critic, items: AnswerClasses) -> tuple[Float[Array, ""], Metrics]:
        """Compute the critic's loss on some answers."""
        loss, accuracy = critic_loss(self.outcome_logits(critic, items.rows), items.rows.wrote, items)
        return loss, {"critic_loss": loss, "critic_accuracy": accuracy}

    def outcome_logits(self, critic: Critic, rows: AnswerRows) -> Float[Array, "row new outcome"]:
        """Return the critic's outputs before each token that was written, in float32."""
        hidden = self.compute_hidden(critic.network, rows, self.shared_prefix(rows))
        return hidden.astype(jnp.float32) @ critic.head.T

    def with_log_probabilities(self, state: Any, lesson: LossInputs) -> LossInputs:
        """Return the lesson with log-probabilities, and the critic's chance of each outcome in `more`.

        That is 0 for the references, which are not weighed by it.
        """
        answers = jax.tree.map(lambda x: x[: self.num_envs], lesson.rows)
        chance = self.map_rows(lambda rows: jax.nn.softmax(self.outcome_logits(state.kept.weights, rows)), answers)
        chance = jnp.pad(chance, ((0, len(lesson.weight) - self.num_envs), (0, 0), (0, 0)))
        return super().with_log_probabilities(state, lesson._replace(more=(lesson.more, chance)))

    def assign_credit(self, batch: Batch, lesson: LossInputs, reward: Float[Array, "group answer"]) -> LossInputs:
        """Return the lesson with the return of each token as its advantage."""
        own, extra = self.split_rows(lesson, reward)
        outcome = outcome_classes(batch.experience)
        paid = jnp.asarray(REWARDS)[outcome].reshape(reward.shape)
        better = (paid - paid[:, :1]).reshape(-1, 1)
        chance = jnp.take_along_axis(own.more[1], outcome[:, None, None], 2)[..., 0]
        drawn = jnp.ones(reward.shape).at[:, 0].set(0.0).reshape(-1)
        there = ~self.lost(batch) & ~self.lost(batch)[:, :1]
        own = own._replace(advantage=chance * better, weight=own.weight * drawn * there.reshape(-1))
        extra = extra._replace(advantage=jnp.ones((len(extra.weight), chance.shape[1])))
        return concatenate_rows(own, extra)

    def surrogate(self, network: Transformer, lesson: LossInputs, scores: Scores) -> tuple[Float[Array, ""], Metrics]:
        given, now, mask = lesson.more[0][:, None] > 0, scores.now, scores.mask
        taught = token_mean(lesson.advantage * now, mask & ~given)
        known = token_mean(now, mask & given)
        return -taught - self.imitation * known, {"reference_probability": jnp.exp(jax.lax.stop_gradient(known))}
