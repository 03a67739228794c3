"""VinePPO: the value of each step of an answer is the mean reward of fresh answers from there.

Kazemnejad, Aghajohari, Portelance, Sordoni, Reddy, Courville, Le Roux (2024), "VinePPO: Unlocking RL Potential For LLM
Reasoning Through Refined Credit Assignment", arXiv 2410.01679. PPO without a critic: where steps of an answer begin, K
others are drawn anew, and

    V_t = their mean reward,    A_t = r_t + V_{t+1} - V_t,    V after the last step = 0

is the advantage of all tokens of step t. As in the authors' program (McGill-NLP/VinePPO:
math_episode_generator_with_mc_advantages.py, configs/trainers/ppo_MATH.jsonnet) advantages are whitened over all tokens
and clipped ratios learn from them, in two passes; the auxiliary answers are drawn for their values alone.

Here the first answer of each group is learned from. The others of its group give the value of the prompt, without the
answer itself. Its penalty for leaving the first policy is `divergence`, 0 unless given. The paper's own pages could not
be looked up.
"""

from __future__ import annotations

from typing import ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from forage.agents.language.grpo import LossInputs
from forage.core.ports.needs import Unused
from forage_papers.agents.language.trees.base import Tree, TreeAgent, steps_of
from forage_papers.ops.tokens.credit import branch_advantage, of_tokens


class VinePPO(TreeAgent):
    """PPO of a language model with values from sampled continuations (Kazemnejad et al., 2024, arXiv 2410.01679)."""

    example: ClassVar[str] = "forage train vine-ppo text:countdown --env.branches true"
    unused: ClassVar[Unused] = {
        "advantage overlong_buffer best_of kl_placement zero_variance_groups": "VinePPO has its own advantages"
    }

    aggregation: str = equinox.field(static=True, default="token-mean")  # how losses of tokens become one number
    epochs: int = equinox.field(static=True, default=2)  # passes over each rollout, as in their program
    whiten: bool = equinox.field(static=True, default=True)  # advantages get mean 0 and deviation 1 over all tokens

    @property
    def starts_options(self) -> dict[str, object]:
        return super().starts_options | {"at": "even"}

    @property
    def learning_rows(self) -> int:
        return self.num_envs // self.group_size

    def credit(self, tree: Tree) -> tuple[Float[Array, "depth prompt answer #new"], Array]:
        depth, prompts, answers = tree.reward.shape
        value = tree.reward.mean(-1).at[0].set(tree.reward[0, :, 1:].mean(-1))  # depth prompt
        paid = jnp.zeros_like(value).at[-1].set(tree.reward[0, :, 0])
        wrote = tree.wrote[0, :, 0]

        def tokens(value: Float[Array, " depth"], paid: Float[Array, " depth"], length: Array) -> Float[Array, " new"]:
            step = steps_of(length, wrote.shape[-1])
            return of_tokens(branch_advantage(value[:, None], paid), step)

        advantage = jax.vmap(tokens, (1, 1, 1))(value, paid, tree.length[1:, :, 0])
        if self.whiten:
            advantage = whiten(advantage, wrote)
        whole = jnp.zeros((depth, prompts, answers, wrote.shape[-1]))
        weight = jnp.zeros((depth, prompts, answers)).at[0, :, 0].set(1.0)
        return whole.at[0, :, 0].set(advantage), weight

    def select_answers(self, lesson: LossInputs) -> LossInputs:
        """Return the first answer of each group."""
        return jax.tree.map(lambda x: x[0, :, 0], lesson)


def whiten(advantage: Float[Array, "row time"], mask: Array) -> Float[Array, "row time"]:
    """Return advantages with mean 0 and deviation 1 over the tokens in the mask, 0 elsewhere."""
    count = jnp.maximum(mask.sum(), 1)
    mean = jnp.where(mask, advantage, 0).sum() / count
    variance = jnp.where(mask, (advantage - mean) ** 2, 0).sum() / count
    return jnp.where(mask, (advantage - mean) * jax.lax.rsqrt(variance + 1e-8), 0)
