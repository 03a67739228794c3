"""Episodes that begin in groups, all of a group in the same state, so that they can be measured against each other."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
from jaxtyping import Array, Int, Key, PyTree

from forage.core.ports import Environment, Starts
from forage.core.types import ForageError, Spec


class Mark(NamedTuple):
    """The identity of a group of episodes."""

    group: Int[Array, ""]


class Groups(Starts):
    """Groups of `size` episodes that begin in the same state: `environment.reset` with one key for all of them.

    The i-th episode of a run belongs to group i // size, so groups are filled in the order in which episodes begin. A
    group's key is folded from its number and a key drawn at the beginning of the run. Chance within an episode, and
    the agent's, stays as it is. The mark names the group; `--baseline group` of the agent `reinforce` reads it.

    With many prompts in place of initial states these are the groups of GRPO: Shao et al. (2024), "DeepSeekMath:
    Pushing the Limits of Mathematical Reasoning in Open Language Models", arXiv 2402.03300, section 4.1.1. Answers to
    one prompt as each other's baseline: Kool, van Hoof, Welling (2019), "Buy 4 REINFORCE Samples, Get a Baseline for
    Free!".
    """

    example: ClassVar[str] = "forage train reinforce language:Reverse-2 --starts groups --baseline group"

    on_host: ClassVar[bool] = True
    repeats: ClassVar[bool] = True

    size: int = equinox.field(static=True, default=8)  # episodes that share a start; RLOO has 2 and 4, GRPO 64

    def __check_init__(self):
        if self.size < 1:
            raise ForageError(f"A group of {self.size} episodes has no start to share; give a size of 1 or more.")

    @property
    def group(self) -> int:
        return self.size

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> Key[Array, ""]:
        return key

    def begin(
        self, state: Key[Array, ""], environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], Mark]:
        group = index // self.size
        return *environment.reset(jax.random.fold_in(state, group)), Mark(group)
