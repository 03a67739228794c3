"""Published relatives of GRPO that are choices among its fields.

Each class changes defaults alone: `grpo` with the same fields computes the same numbers. What a method has of its own
is in its docstring, with the numbers that its authors, or a trainer in their name, publish. Sizes of batches and the
learning rate are GRPO's, so that relatives differ in what they are named after; but a method that is about the ratio of
new policy to old makes more than one step of each rollout (`minibatches`), as its authors do: with one step the ratio
is 1, and every clip is the same.

TRL 1.16's paper index (docs/source/paper_index.md) quotes the papers for most numbers; the papers' own pages could not
be looked up unless a docstring says so.
"""

from __future__ import annotations

from typing import ClassVar

import equinox

from forage.agents.language.grpo import GRPO


class DrGRPO(GRPO):
    """GRPO done right (Dr. GRPO): r - mean, without the deviation, and sums over tokens divided by one constant length.

    Liu et al. (2025), "Understanding R1-Zero-Like Training: A Critical Perspective", arXiv 2503.20783. 8 answers to a
    prompt and no divergence are those of the authors' repository, as TRL's paper index quotes it.
    """

    example: ClassVar[str] = "forage train dr-grpo text:addition --env.level 2"

    advantage: str = equinox.field(static=True, default="dr-grpo")
    aggregation: str = equinox.field(static=True, default="constant")


class DAPO(GRPO):
    """DAPO: clip higher, a mean over tokens, no groups of equal rewards, lower rewards for very long answers.

    Yu et al. (2025), "DAPO: An Open-Source LLM Reinforcement Learning System at Scale", arXiv 2503.14476, section 4.1:
    bounds 0.2 and 0.28, 16 answers to a prompt, 4,096 of 20,480 tokens where length costs, no divergence. There prompts
    are drawn until no group is left out and each rollout is learned from in 16 steps; here such groups teach nothing,
    and steps are 4 unless `minibatches` says otherwise, for rollouts of 64 answers in place of 8,192. Which groups
    those are is said by how right answers are, before length costs them anything (`filter_groups.metric` is `acc` in
    the authors' scripts): of answers that are all wrong the shorter ones are not better.
    """

    example: ClassVar[str] = "forage train dapo text:addition --env.level 2"

    low: float | None = 0.2
    high: float | None = 0.28
    group_size: int = equinox.field(static=True, default=16)
    aggregation: str = equinox.field(static=True, default="token-mean")
    alike: str = equinox.field(static=True, default="drop")
    margin: float = equinox.field(static=True, default=0.2)
    minibatches: int = equinox.field(static=True, default=4)


class RLOO(GRPO):
    """RLOO: the mean reward of the other answers is each one's baseline, and a whole answer is one action.

    Ahmadian et al. (2024), "Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human Feedback in
    LLMs", arXiv 2402.14740. 4 answers to a prompt (2 and 4 there), 2 steps of a rollout, and a divergence of weight
    0.03 as a price in the reward are appendix C's, as TRL's paper index quotes it.
    """

    example: ClassVar[str] = "forage train rloo text:addition --env.level 2"

    group_size: int = equinox.field(static=True, default=4)
    advantage: str = equinox.field(static=True, default="rloo")
    loss: str = equinox.field(static=True, default="clip-sequence")
    minibatches: int = equinox.field(static=True, default=2)
    divergence: float = equinox.field(static=True, default=0.03)
    charged: str = equinox.field(static=True, default="answer")


class ReinforcePlusPlus(GRPO):
    """REINFORCE++: PPO's clip without a critic; advantages get mean 0 and deviation 1 over the whole batch.

    Hu (2025), "REINFORCE++: A Simple and Efficient Approach for Aligning Large Language Models", arXiv 2501.03262. The
    divergence is a price of each token. Its weight, 0.01, is that of OpenRLHF's scripts for PPO (the author's own
    trainer), since the paper's could not be looked up. Prompts need no groups; one answer each does, and groups of 8
    are kept so that other relatives have the same number of prompts.
    """

    example: ClassVar[str] = "forage train reinforce-plus-plus text:addition --env.level 2"

    advantage: str = equinox.field(static=True, default="reinforce++")
    aggregation: str = equinox.field(static=True, default="token-mean")
    minibatches: int = equinox.field(static=True, default=4)
    divergence: float = equinox.field(static=True, default=0.01)
    charged: str = equinox.field(static=True, default="token")


class ReinforcePlusPlusBaseline(GRPO):
    """REINFORCE++ with a baseline: the group's mean is taken off before the whole batch is normalised.

    Hu (2025), as `ReinforcePlusPlus`. 8 answers to a prompt and a divergence of weight 1e-5 in the loss, estimated by
    k2, are those of OpenRLHF's `train_reinforce_baseline_hybrid_engine.sh`.
    """

    example: ClassVar[str] = "forage train reinforce-plus-plus-baseline text:addition --env.level 2"

    advantage: str = equinox.field(static=True, default="reinforce++-baseline")
    aggregation: str = equinox.field(static=True, default="token-mean")
    minibatches: int = equinox.field(static=True, default=4)
    divergence: float = equinox.field(static=True, default=1e-5)
    estimator: str | None = equinox.field(static=True, default="k2")


class ReMax(GRPO):
    """ReMax: the reward of the most probable answer to a prompt is the baseline of another, sampled answer.

    Li et al. (2023), "ReMax: A Simple, Effective, and Efficient Reinforcement Learning Method for Aligning Large
    Language Models", arXiv 2310.10505. The first answer of each group is the most probable one (behaviour
    `greedy-first`), which is not learned from. One other answer to a prompt and a price of 0.05 for each token's
    divergence are those of the authors' scripts (`run_llama2_7b.sh`), whose discount of 0.99 along tokens is left out.
    """

    example: ClassVar[str] = "forage train remax text:addition --env.level 2"
    usual_behaviour: ClassVar[str] = "greedy-first"

    group_size: int = equinox.field(static=True, default=2)
    advantage: str = equinox.field(static=True, default="remax")
    loss: str = equinox.field(static=True, default="reinforce")
    aggregation: str = equinox.field(static=True, default="sequence-sum")
    divergence: float = equinox.field(static=True, default=0.05)
    charged: str = equinox.field(static=True, default="token")


class GSPO(GRPO):
    """GSPO: one ratio for each answer, the geometric mean of its tokens', clipped very near 1.

    Zheng et al. (2025), "Group Sequence Policy Optimization", arXiv 2507.18071, section 5.1: bounds 3e-4 and 4e-4
    (those of the loss), 4 steps of each rollout; no divergence.
    """

    example: ClassVar[str] = "forage train gspo text:addition --env.level 2"

    loss: str = equinox.field(static=True, default="gspo")
    minibatches: int = equinox.field(static=True, default=4)


class CISPO(GRPO):
    """CISPO: the score function weighted by a clipped ratio, so that no token loses its gradient.

    MiniMax (2025), "MiniMax-M1", arXiv 2506.13585; the ceiling of 5 is that of the recipe ScaleRL (arXiv 2510.13786),
    as TRL's paper index quotes it. There each rollout is learned from in 16 steps, here in 4.
    """

    example: ClassVar[str] = "forage train cispo text:addition --env.level 2"

    loss: str = equinox.field(static=True, default="cispo")
    ceiling: float | None = 5.0
    aggregation: str = equinox.field(static=True, default="token-mean")
    minibatches: int = equinox.field(static=True, default=4)


class LitePPO(GRPO):
    """Lite PPO: advantages by the group's mean and the batch's deviation, and a mean over tokens.

    Liu et al. (2025), "Part I: Tricks or Traps? A Deep Dive into RL for LLM Reasoning", arXiv 2508.08221: 8 answers to
    a prompt drawn at temperature 0.99 with top-k 100 and top-p 0.99, no divergence, as TRL's paper index quotes it,
    which has 1 pass over each rollout, and 1 step of it.
    """

    example: ClassVar[str] = "forage train lite-ppo text:addition --env.level 2"

    advantage: str = equinox.field(static=True, default="lite-ppo")
    aggregation: str = equinox.field(static=True, default="token-mean")
    temperature: float = 0.99
    top_p: float | None = 0.99
    top_k: int | None = equinox.field(static=True, default=100)


class GMPO(GRPO):
    """GMPO: the geometric mean of clipped ratios of tokens, which allows wider bounds.

    Zhao et al. (2025), "Geometric-Mean Policy Optimization", arXiv 2507.20673, section 4: bounds of 0.4 on the
    logarithm (those of the loss), no divergence. How many steps each rollout gets could not be looked up; here 4.
    """

    example: ClassVar[str] = "forage train gmpo text:addition --env.level 2"

    loss: str = equinox.field(static=True, default="gmpo")
    minibatches: int = equinox.field(static=True, default=4)


class SAPO(GRPO):
    """SAPO: a soft gate in place of the clip, steeper for negative advantages.

    Gao et al. (2025), "Soft Adaptive Policy Optimization", arXiv 2511.20347: temperatures 1 and 1.05 (those of the
    loss). How many steps each rollout gets could not be looked up; here 4.
    """

    example: ClassVar[str] = "forage train sapo text:addition --env.level 2"

    loss: str = equinox.field(static=True, default="sapo")
    minibatches: int = equinox.field(static=True, default=4)


class MaxRL(GRPO):
    """MaxRL: advantages (r - mean) / mean, which maximise the log success rate up to the order of the group's size.

    Tajwar et al. (2026), "Maximum Likelihood Reinforcement Learning", arXiv 2602.02710. Rewards must not be negative.
    The score function of whole answers, by which the identity holds, is the sum over their tokens; so it is here.
    """

    example: ClassVar[str] = "forage train max-rl text:addition --env.level 2"

    advantage: str = equinox.field(static=True, default="max-rl")
    aggregation: str = equinox.field(static=True, default="sequence-sum")


class PassAtK(GRPO):
    """Pass@k training: an answer's advantage is its contribution to the best reward of sets of `best_of` answers.

    Chen et al. (2025), "Pass@k Training for Adaptively Balancing Exploration and Exploitation of Large Reasoning
    Models", arXiv 2508.10751, with the closed form of the authors' `passk_adv.py`; their settings of the loss are not
    published there, so it is GRPO's.
    """

    example: ClassVar[str] = "forage train pass-at-k text:addition --env.level 2 --best-of 4"

    advantage: str = equinox.field(static=True, default="pass@k")


class MaxAtK(GRPO):
    """Max@k: the unbiased gradient of the expected best of `best_of` answers, of rewards of any size.

    Bagirov et al. (2025), "The Best of N Worlds: Aligning Reinforcement Learning with Best-of-N Sampling via max@k
    Optimisation", arXiv 2510.23393, whose abstract alone could be looked up. The gradient is of whole answers, so it is
    summed over their tokens.
    """

    example: ClassVar[str] = "forage train max-at-k text:addition --env.level 2 --best-of 4"

    advantage: str = equinox.field(static=True, default="max@k")
    aggregation: str = equinox.field(static=True, default="sequence-sum")
