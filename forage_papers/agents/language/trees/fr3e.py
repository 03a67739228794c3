"""FR3E: answers branch at an answer's most uncertain tokens, and each group of branches is compared.

Zheng, Xing, Gu, Liang, Qu, Zhou, Li, Wen, Lin, Huang, Liu, Zhang, Ma (2025), "First Return, Entropy-Eliciting Explore",
arXiv 2507.07017. An answer is cut at its K most uncertain tokens into states S_1 ... S_K; S_0 is the prompt. M answers
go on from each state, and a group of them is compared as in GRPO. With V(S_j), the share of the group whose reward is
above its mean (or, with `--state-value mean`, its mean reward), advantages are scaled down where a state is better than
the one before it, and up where it is worse:

    A = (r - mean r) / exp(V(S_j) - V(S_{j-1})),    of the prompt: (r - mean r) / exp(1 - V(S_0))

Groups of one reward are dropped, and ratios are clipped at 1 - 0.22 and 1 + 0.28.

As in the authors' program (Zheng0428/FR3E: verl/trainer/ppo/core_algos.py, `compute_srpo_outcome_advantage`), which
also says what is done at the prompt, and where the probability of the token that was drawn stands for entropy; the
clips are those its reviewers quote from the paper, whose pages could not be looked up. Unlike there, values are of all
states, also of groups that are dropped, the first answer of each group is the one that is cut (there up to one right
and one wrong answer of four), differences of values are not sharpened, and the answers to the prompt that choose the
places are themselves the group of S_0.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import Range, Ranges
from forage_papers.agents.language.trees.base import Tree, TreeAgent

VALUES = ("above-mean", "mean")


class FR3E(TreeAgent):
    """Groups of answers that branch at uncertain tokens (Zheng et al., 2025, arXiv 2507.07017)."""

    example: ClassVar[str] = "forage train fr3e text:countdown --env.branches true"
    ranges: ClassVar[Ranges] = {**TreeAgent.ranges, "modulation": Range(0)}
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

    def credit(self, tree: Tree) -> tuple[Float[Array, "depth prompt answer #new"], Array]:
        shape = tree.reward.shape
        outcome = tree.reward if tree.outcome is None else tree.outcome
        advantage, weight = self.answer_advantages(*(x.reshape(-1, shape[-1]) for x in (tree.reward, outcome)))
        above = (advantage.reshape(shape) > 0).mean(-1)
        value = above if self.state_value == "above-mean" else tree.reward.mean(-1)
        before = jnp.concatenate([2 * value[:1] - 1, value[:-1]])  # of the prompt: so that the difference is 1 - V
        scale = jnp.exp(-self.modulation * (value - before))
        weight = jnp.broadcast_to(weight, (shape[0] * shape[1], shape[-1])).reshape(shape)
        return (advantage.reshape(shape) * scale[..., None])[..., None], weight
