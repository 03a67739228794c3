"""RAFT: the best answers of each group are learned from as if an expert had written them."""

from __future__ import annotations

from typing import ClassVar

import equinox
from jaxtyping import Array, Bool, Float

from forage.agents.language.grpo import GRPO
from forage.core.ports.needs import Choices, Unused
from forage.core.ranges import Ranges
from forage.ops.tokens.supervised import SELECTIONS, selection


class RAFT(GRPO):
    """Supervised fine-tuning on the policy's own answers: the best of each group, or all right ones.

        loss = mean over tokens of chosen answers of -log pi

    `best` is Dong et al. (2023), "RAFT: Reward Ranked FineTuning for Generative Foundation Model Alignment", arXiv
    2304.06767: of each prompt's answers the one of the highest reward, and the first one where several are equal, even
    if all are wrong. `above` is rejection sampling, of answers that are right by more than 1/2, whatever they are paid:
    Yuan et al. (2023), "Scaling Relationship on Learning Mathematical Reasoning with Large Language Models", arXiv
    2308.01825. The papers' own pages could not be looked up. There thousands of chosen answers are learned from for
    several passes before the next are drawn; here each rollout is an iteration of its own, with `epochs` passes.
    """

    example: ClassVar[str] = "forage train raft text:addition --env.level 2 --selection above"
    corrects_sampler: ClassVar[bool] = False
    replays: ClassVar[bool] = False
    ranges: ClassVar[Ranges] = GRPO.ranges
    choices: ClassVar[Choices] = {"selection": SELECTIONS}
    unused: ClassVar[Unused] = {"advantage kl_placement": "RAFT learns alike from all answers that it chooses"}

    selection: str = equinox.field(static=True, default="best")  # which answers are learned from: the best of each
    # group, or all above a reward of 1/2
    advantage: str = equinox.field(static=True, default="none")
    loss: str = equinox.field(static=True, default="reinforce")
    aggregation: str = equinox.field(static=True, default="token-mean")

    def answer_advantages(
        self,
        reward: Float[Array, "group answer"],
        outcome: Float[Array, "group answer"] | None = None,
        there: Bool[Array, "group answer"] | None = None,
    ) -> tuple[Float[Array, "group answer"], Array]:
        judged = reward if outcome is None or self.selection == "best" else outcome
        chosen = (selection(judged, self.selection) > 0).astype(reward.dtype)
        return chosen, chosen * super().answer_advantages(reward, outcome, there)[1]
