"""Episodes that begin in groups, all of a group in the same state, so that they can be measured against each other."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from forage.core.ports import Environment, Starts, Tasks
from forage.core.ports.needs import Choices
from forage.core.types import ForageError, Spec

ONWARD = ("own", "best")


class GroupMark(NamedTuple):
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

    With `onward` best a group stays together: after each step all of it go on from where the one stands that was paid
    most for that step, so that every step is compared in one state. This is the tree of Zhao and others (2025),
    "Stronger Together: On-Policy Reinforcement Learning for Collaborative LLMs", arXiv 2510.11062
    (pettingllms-ai/PettingLLMs: multi_agents_execution_engine.py, `generate_env_idx_rollout`).
    """

    example: ClassVar[str] = "forage train reinforce language:Reverse-2 --starts groups --baseline group"

    on_host: ClassVar[bool] = True
    repeats: ClassVar[bool] = True
    choices: ClassVar[Choices] = {"onward": ONWARD}

    size: int = equinox.field(static=True, default=8)  # episodes that share a start; RLOO has 2 and 4, GRPO 64

    onward: str = equinox.field(static=True, default="own")  # where episodes go on after a step: own, where they stand,
    # or best, where the one of their group stands that was paid most for the step

    @property
    def group(self) -> int:
        return self.size

    @property
    def joins(self) -> bool:
        return self.onward == "best"

    def check(self, environment: Environment, tasks: Tasks) -> None:
        if self.joins and not hasattr(environment, "max_answer_tokens"):
            raise ForageError(
                "Episodes go on from the best of their group on the host alone, in an environment that can be put back "
                "to where it was, such as text:guess; leave out --starts.onward."
            )

    def source_environments(self, reward: Float[Array, " env"]) -> Int[Array, " env"]:
        """Return the best of each one's group, and of several the first."""
        grouped = reward.reshape(-1, self.size)
        best = jnp.argmax(grouped, axis=1) + jnp.arange(len(grouped)) * self.size
        return jnp.repeat(best, self.size)

    def init(self, key: Key[Array, ""], environment: Environment, spec: Spec, num_envs: int) -> Key[Array, ""]:
        return key

    def begin(
        self, state: Key[Array, ""], environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], GroupMark]:
        group = index // self.size
        return *environment.reset(jax.random.fold_in(state, group)), GroupMark(group)
