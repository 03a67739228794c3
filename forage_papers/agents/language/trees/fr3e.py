"""FR3E: answers branch at an answer's most uncertain tokens, and each group of branches is compared.

Zheng, Xing, Gu, Liang, Qu, Zhou, Li, Wen, Lin, Huang, Liu, Zhang, Ma (2025), "First Return, Entropy-Eliciting Explore",
arXiv 2507.07017. An answer is cut at its K most uncertain tokens into states S_1 ... S_K; S_0 is the prompt. M answers
go on from each state, and a group of them is compared as in GRPO. With V(S_j), the share of the group whose reward is
above its mean (or, with `--state-value mean`, its mean reward), advantages are scaled down where a state is better than
the one before it, and up where it is worse:

    A = (r - mean r) / exp(V(S_j) - V(S_{j-1})),    of the prompt: (r - mean r) / exp(1 - V(S_0))

Groups of one reward are dropped, and ratios are clipped at 1 - 0.22 and 1 + 0.28. With `--stems 2` one right and one
wrong answer are cut, half of the K each, and each has a chain of values of its own, which begins at the prompt; where a
group has no such answer, the half of it is left out. With `--sharpening` alpha the differences d_j of a chain are

    sign(d_j) |d_j|^alpha / sum_i |d_i|^alpha

in place of d_j.

As in the authors' program (Zheng0428/FR3E: verl/trainer/ppo/core_algos.py, `compute_srpo_outcome_advantage`), which
also says what is done at the prompt, and where the probability of the token that was drawn stands for entropy; the
clips are those its reviewers quote from the paper, whose pages could not be looked up. Its script cuts two answers of
four, in 4 places each, and sharpens with alpha 1.5 (`sharpening_coeff`): `--stems 2 --rollout-length 9 --sharpening
1.5`. Unlike there, values are of all states, also of groups that are dropped; the answers to the prompt that choose the
places are themselves the group of S_0, which both chains share, and whose advantages are by the first chain, or by the
second where there is no first; by itself the first answer of each group is the one that is cut, and differences are
not sharpened.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.core.ports import Branching
from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import Range, Ranges
from forage_papers.agents.language.trees.base import Tree, TreeAgent

VALUES = ("above-mean", "mean")


class FR3E(TreeAgent):
    """Groups of answers that branch at uncertain tokens (Zheng et al., 2025, arXiv 2507.07017)."""

    example: ClassVar[str] = "forage train fr3e text:countdown --env.branches true"
    ranges: ClassVar[Ranges] = {
        **TreeAgent.ranges,
        "modulation": Range(0),
        "stems": Range(1, 2),
        "sharpening": Range(0, above=True),
    }
    choices: ClassVar[Choices] = {**TreeAgent.choices, "state_value": VALUES}
    unused: ClassVar[Unused] = {"overlong_buffer kl_placement": "FR3E has its own advantages"}

    clip_low: float | None = 0.22  # how far below 1 a ratio is followed
    clip_high: float | None = 0.28  # how far above 1 a ratio is followed
    advantage: str = equinox.field(static=True, default="dr-grpo")  # how rewards of a group become advantages, by name
    aggregation: str = equinox.field(static=True, default="token-mean")  # how losses of tokens become one number
    zero_variance_groups: str = equinox.field(
        static=True, default="drop"
    )  # groups whose answers are all equally right are kept, or
    # dropped
    state_value: str = equinox.field(static=True, default="above-mean")  # V of a state: the share of its group with a
    # reward above the mean, as in the authors' program, or the mean
    modulation: float = 1.0  # how strongly a difference of values scales advantages; 0: not
    stems: int = equinox.field(static=True, default=1)  # answers of a group that are cut: the first, or the first right
    # one and the first wrong one
    sharpening: float | None = None  # exponent of the differences of values along a chain; none: they are as they are

    @property
    def branching(self) -> Branching:
        return super().branching._replace(stems=self.stems)

    @property
    def usual_starts(self) -> str:  # type: ignore[override]
        return "paired-branches" if self.stems > 1 else "branches"

    def credit(self, tree: Tree) -> tuple[Float[Array, "depth prompt answer #new"], Array]:
        shape = tree.reward.shape
        outcome = tree.reward if tree.outcome is None else tree.outcome
        advantage, weight = self.answer_advantages(*(x.reshape(-1, shape[-1]) for x in (tree.reward, outcome)))
        above = (advantage.reshape(shape) > 0).mean(-1)
        value = above if self.state_value == "above-mean" else tree.reward.mean(-1)
        weight = jnp.broadcast_to(weight, (shape[0] * shape[1], shape[-1])).reshape(shape)
        branches = value[1:].reshape(self.stems, -1, shape[1])
        steps = jnp.stack([self.differences(jnp.concatenate([value[:1], chain])) for chain in branches])
        root = steps[0, 0]
        if self.stems > 1:
            there = (tree.length[1:, :, 0].reshape(branches.shape) > 0).any(1)
            root = jnp.where(there[0] | ~there[1], root, steps[1, 0])
            there = jnp.repeat(there, branches.shape[1], 0)
            weight = weight * jnp.concatenate([jnp.ones((1, shape[1])), there])[..., None]
        change = jnp.concatenate([root[None], steps[:, 1:].reshape(-1, shape[1])])
        scale = jnp.exp(-self.modulation * change)
        return (advantage.reshape(shape) * scale[..., None])[..., None], weight

    def differences(self, value: Float[Array, "state prompt"]) -> Float[Array, "state prompt"]:
        """Return the value of each state of a chain less that of the state before it; of the prompt it is 1 - V."""
        change = jnp.concatenate([1 - value[:1], jnp.diff(value, axis=0)])
        if self.sharpening is None:
            return change
        size = jnp.abs(change) ** self.sharpening
        return jnp.sign(change) * size / jnp.maximum(size.sum(0), 1e-12)
