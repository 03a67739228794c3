"""TreeRL: the value of each part of a tree of answers is the mean reward of the answers below it.

Hou, Hu, Li, Lu, Tang, Dong (2025), "TreeRL: LLM Reinforcement Learning with On-Policy Tree Search", arXiv 2506.11902.
Several answers to a prompt are each cut at their N most uncertain tokens, and T others go on from each place. A leaf's
reward r is compared with the others of the tree, and a part s of an answer, between two places, has the value V(s), the
mean over all leaves that have it. The advantage of its tokens is

    A(s) = (V(s) - V(root) + V(s) - V(parent)) / sqrt(number of leaves that have s),

global and local advantage together.

As in the authors' program (THUDM/TreeRL: tree_node.py, `leaf_normalize`, and parallel_mcts.py,
`path_from_root_to_node`), where every leaf is learned from with all that it shares with others; a part that n leaves
have stands n times in its batch. Here it is learned from once, with n times the advantage, which makes sqrt(n). All
leaves are learned from; the program's choice among them, its subtraction of a mean over all tokens, its penalty for
repetitions and its filling in of zeros are left out. Published are 6 answers, 2 places and 2 others from each in one
round: `group_size` 6, a `rollout_length` of 5 and `--starts.times 2`. The paper's pages could not be looked up.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from forage.core.ports.needs import Unused
from forage_papers.agents.language.trees.base import Tree, TreeAgent, steps_of


class TreeRL(TreeAgent):
    """Values of all parts of a tree of answers as advantages (Hou et al., 2025, arXiv 2506.11902)."""

    example: ClassVar[str] = "forage train tree-rl text:countdown --env.branches true"
    each: ClassVar[bool] = True
    unused: ClassVar[Unused] = {
        "advantage overlong_buffer best_of kl_placement zero_variance_groups": "TreeRL has its own advantages"
    }

    aggregation: str = equinox.field(static=True, default="token-mean")  # how losses of tokens become one number

    @property
    def starts_options(self) -> dict[str, Any]:
        return super().starts_options | {"times": 2 if self.rollout_length % 2 else 1}

    def credit(self, tree: Tree) -> tuple[Float[Array, "depth prompt answer #new"], Array]:
        depth, prompts, answers = tree.reward.shape
        leaves = depth * answers
        total = tree.reward.sum((0, 2), keepdims=True)
        compared = tree.reward - (total - tree.reward) / (leaves - 1)  # leave-one-out; their mean, at the root, is 0
        new = tree.wrote.shape[-1]

        def chain(compared: Float[Array, " depth"], length: Int[Array, " prefix"]) -> Float[Array, "depth new"]:
            trunk, others = part_advantages(compared, length)
            tokens = trunk[steps_of(length, new)]
            return jnp.concatenate([tokens[None], jnp.broadcast_to(others[:, None], (len(others), new))])

        over_answers = jax.vmap(chain, (1, 1), 1)
        advantage = jax.vmap(over_answers, (1, 1), 1)(compared, tree.length[1:])
        return advantage, jnp.ones((depth, prompts, answers))


def part_advantages(
    compared: Float[Array, " depth"], length: Int[Array, " prefix"]
) -> tuple[Float[Array, " depth"], Float[Array, " prefix"]]:
    """Return the advantages of an answer's parts and of its branches.

    `compared`: rewards, less those of the others: of the answer itself, and of those that go on from its prefixes.
    `length`: tokens of the prefixes, the shortest first; 0 for an answer that began with the prompt.
    """
    # V of part s: the answer itself, and all that go on from a later place than the part's beginning
    number = jnp.arange(len(compared))
    later = number[1:] > number[:, None]  # part, prefix
    count = 1 + later.sum(1)
    value = (compared[0] + later @ compared[1:]) / count
    # A prefix ends the last part that has a token before it; equal prefixes share it, and empty ones have the root
    parent = jnp.where(length > 0, value[(length < length[:, None]).sum(1)], 0.0)
    above = jnp.concatenate([jnp.zeros(1), parent])
    return (2 * value - above) * jnp.sqrt(count), 2 * compared[1:] - parent
