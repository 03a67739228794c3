"""Learning from correct data: texts, chosen answers, a teacher's distribution; and ROVER's values of tokens.

`logits[sequence, time]` are those that the token at the same place is drawn from.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from forage.core.types import ForageError
from forage.ops.tokens.masks import check_name, where_mask

Logits = Float[Array, "sequence time vocabulary"]
Tokens = Float[Array, "sequence time"]
Mask = Bool[Array, "sequence time"]
Scalar = float | Float[Array, ""]


def log_probability_of_tokens(logits: Logits, token: Int[Array, "sequence time"]) -> Tokens:
    """Return log pi of the tokens that were chosen."""
    return jnp.take_along_axis(jax.nn.log_softmax(logits), token[..., None], axis=-1)[..., 0]


def cross_entropy(logits: Logits, token: Int[Array, "sequence time"], mask: Mask) -> Tokens:
    """Compute -log pi(token) where the mask is true, 0 elsewhere: supervised fine-tuning, token by token."""
    return where_mask(-log_probability_of_tokens(jnp.where(mask[..., None], logits, 0.0), token), mask)


SELECTIONS = ("best", "above")
"""The rules of `selection`."""


def selection(
    reward: Float[Array, "group answer"], rule: str = "best", bound: Scalar = 0.5
) -> Float[Array, "group answer"]:
    """Return the weights of a group's answers in learning from the chosen ones, with sum 1, or 0 where none is chosen.

        best     the first answer of the highest reward             best of n
        above    all answers whose reward is above `bound`, alike   rejection sampling

    Sources: Dong et al., 2023, "RAFT", arXiv:2304.06767 (best); Yuan et al., 2023, "Scaling Relationship on Learning
    Mathematical Reasoning", arXiv:2308.01825 (above), whose pages could not be looked up.
    """
    check_name("selection of answers", rule, SELECTIONS)
    if rule == "best":
        return jax.nn.one_hot(jnp.argmax(reward, axis=-1), reward.shape[-1], dtype=reward.dtype)
    chosen = (reward > bound).astype(reward.dtype)
    return chosen / jnp.maximum(jnp.sum(chosen, axis=-1, keepdims=True), 1.0)


DIRECTIONS = ("reverse", "forward", "mixed")
"""The rules of `distillation`."""


def distillation(
    logits: Logits,
    teacher: Logits,
    mask: Mask,
    direction: str = "reverse",
    share: float = 0.5,
    temperature: Scalar = 1.0,
) -> Tokens:
    """Compute the divergence from a teacher at each token, by summing over the vocabulary.

        reverse   KL(pi || teacher)     where the student has several answers, it settles for what the teacher likes
        forward   KL(teacher || pi)     it covers all that the teacher says
        mixed     share KL(teacher || m) + (1 - share) KL(pi || m),  m = share teacher + (1 - share) pi

    On the student's own answers this is distillation on policy. Nothing flows into the teacher. Both logits are divided
    by the temperature.

    Sources: Agarwal et al., 2023, "On-Policy Distillation of Language Models", arXiv:2306.13649, equation 1 as TRL
    1.16's `experimental/gkd` quotes it, whose `beta` is `share`, 0 forward and 1 reverse; Xu et al., 2025, "KDRL",
    arXiv:2506.02208, beside the policy's loss. The papers' own pages could not be looked up.
    """
    check_name("direction of distillation", direction, DIRECTIONS)
    if direction == "mixed" and not 0 < share < 1:
        raise ForageError(f"The teacher's share of the mixture is {share}; it lies between 0 and 1.")
    there = mask[..., None]
    student = jax.nn.log_softmax(jnp.where(there, logits, 0.0) / temperature)
    master = jax.lax.stop_gradient(jax.nn.log_softmax(jnp.where(there, teacher, 0.0) / temperature))

    def divergence(p: Logits, q: Logits) -> Tokens:
        # A token that p leaves out adds nothing, though its logarithm is infinite.
        return jnp.sum(jnp.where(p > -jnp.inf, jnp.exp(p) * (p - q), 0.0), axis=-1)

    if direction == "reverse":
        return where_mask(divergence(student, master), mask)
    if direction == "forward":
        return where_mask(divergence(master, student), mask)
    mixture = jnp.logaddexp(student + jnp.log1p(-share), master + jnp.log(share))
    return where_mask(share * divergence(master, mixture) + (1.0 - share) * divergence(student, mixture), mask)


def distillation_reward(log_probability: Tokens, teacher: Tokens, mask: Mask, scale: Scalar = 1.0) -> Tokens:
    """Return scale (log teacher - log pi): the reward of each token for distilling by policy gradient.

    No gradient flows through it. It is -k1 of `divergence`, whose score function is the gradient of KL(pi || teacher)
    with sampled tokens alone; `divergence.kl_loss` with the teacher as its reference has the same gradient without a
    score function. KDRL adds either to GRPO.

    Source: Xu et al., 2025, "KDRL: Post-Training Reasoning LLMs via Unified Knowledge Distillation and Reinforcement
    Learning", arXiv:2506.02208, whose pages could not be looked up.
    """
    return jax.lax.stop_gradient(scale * (where_mask(teacher, mask) - where_mask(log_probability, mask)))


def mean_backup(
    reward: Float[Array, " time"],
    next_value: Float[Array, "time vocabulary"],
    terminated: Bool[Array, " time"],
    discount: Scalar = 1.0,
) -> Float[Array, " time"]:
    """Compute the targets of action values of the uniform policy over tokens.

        target_t = r_t + discount (1 - terminated_t) mean over tokens of Q(next_t, token)

    In a deterministic tree that pays 1 at right leaves and 0 at others, the greedy policy of these values is optimal,
    and softmax(Q / temperature) finds all right answers.

    Source: He et al., 2025, "Random Policy Valuation is Enough for LLM Reasoning with Verifiable Rewards" (ROVER); the
    paper's pages could not be looked up.
    """
    return reward + discount * jnp.where(terminated, 0.0, jnp.mean(next_value, axis=-1))


def rover(
    logits: Logits,
    old_logits: Logits,
    token: Int[Array, "sequence time"],
    advantage: Float[Array, "sequence #time"],
    mask: Mask,
    temperature: Scalar = 1.0,
) -> Tokens:
    """Compute ROVER's squared error at each token, in which the policy itself holds the values.

        Q_t      = temperature (log pi(token_t) - log old(token_t))
        target_t = A + temperature mean over the vocabulary of (log pi - log old) at t + 1, 0 after the last token
        loss_t   = (Q_t - stop(target_t))^2

    A is the reward less the group's mean (`dr-grpo`), at every token; aggregate by `token-mean`.

    Source: as `mean_backup`, as in the authors' `DataParallelROVERActor` (`rover_t` is the temperature).
    """
    there = mask[..., None]
    new = jax.nn.log_softmax(jnp.where(there, logits, 0.0))
    old = jax.lax.stop_gradient(jax.nn.log_softmax(jnp.where(there, old_logits, 0.0)))
    difference = new - old
    value = temperature * jnp.take_along_axis(difference, token[..., None], axis=-1)[..., 0]
    following = where_mask(temperature * jnp.mean(difference, axis=-1), mask)
    following = jnp.concatenate([following[:, 1:], jnp.zeros_like(following[:, :1])], axis=1)
    target = jax.lax.stop_gradient(advantage + following)
    return where_mask((value - target) ** 2, mask)
