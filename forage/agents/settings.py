"""Agents that only change defaults of another agent, as rows of one table.

`sac --critics 10 --hidden-sizes 256,256,256` computes the same numbers as `sac-n`. A row says what the method has of
its own, with the numbers that its authors publish.
"""

from __future__ import annotations

from forage.core.settings import class_of, setting

SETTINGS = {
    # Of TD3 and SAC
    "DDPG": setting(
        "forage.agents.actor_critic.td3:TD3",
        summary="Deep deterministic policy gradient (DDPG): TD3 with one critic, no delay and no smoothing.",
        source='Lillicrap et al. (2015), "Continuous control with deep reinforcement learning", arXiv 1509.02971',
        example="forage train ddpg Pendulum-v1",
        words="""
        Targets, marked ', come from slowly moving copies of the networks. Each update takes a step down

            critic    (Q(s, a) - r - discount (1 - terminated) Q'(s', pi'(s')))^2 / 2
            policy    -Q(s, pi(s))

        after which the targets move. The paper's noise is `--behaviour ornstein-uhlenbeck`; the default is TD3's,
        independent at each step (as good: Fujimoto et al., 2018, section 6.1). All else has TD3's defaults.
        """,
        meanings={
            "target_noise": "standard deviation of target policy smoothing, in the unit box; DDPG has none",
            "policy_delay": "critic updates for each update of policy and targets",
        },
        target_noise=0.0,
        policy_delay=1,
        critics=1,
    ),
    "REDQ": setting(
        "forage.agents.actor_critic.sac:SAC",
        summary="Randomized ensembled double Q-learning (REDQ): SAC with ten critics and twenty updates a step.",
        source=(
            'Chen, Wang, Zhou, Ross (2021), "Randomized Ensembled Double Q-Learning: Learning Fast Without a Model", '
            "arXiv 2101.05982"
        ),
        example="forage train redq Pendulum-v1 --steps 5000",
        words="""
        Soft actor-critic with N critics and G updates of them for each step taken, of which the last one is followed by
        one of the policy. With M critics drawn anew at each update (algorithm 1),

            critics   sum_i (Q_i(s, a) - r - discount (1 - terminated)
                      (min over the M of Q'_j(s', a') - alpha log pi(a'|s')))^2
            actor     alpha log pi(b|s) - mean_i Q_i(s, b)

        The least of a few drawn ones keeps values from growing too large however many critics there are; the mean of
        many keeps their variance, and so the harm of many updates on the same data, small.

        Their runs begin to learn after 5,000 steps, and aim at the entropies of MBPO: -3 for the six numbers of
        HalfCheetah's and Walker's actions, -4 for Ant's eight, -1 for Hopper's three and -2 for Humanoid's seventeen.
        Their weights begin uniform in +-sqrt(6 / (inputs + outputs)) and biases at zero (`--first-weights glorot`);
        here both begin uniform in +-1/sqrt(inputs), which is 1.7 times as narrow in square layers and 2.4 in the
        critics' last one. There the policy's loss is computed before the critics' step, the temperature goes down -log
        alpha (log pi + H), which Adam hardly tells from SAC's loss, and targets have a temperature of 0.2 until the
        policy's first step.
        """,
        meanings={
            "target_entropy": (
                "entropy that the temperature aims at, in nats for each dimension of the action, in the unit box; "
                "larger explores more; the authors' for HalfCheetah, Walker and Ant"
            ),
        },
        critics=10,
        target_subset=2,
        policy_q="mean",
        updates_per_rollout=20,
        policy_delay=20,
        target_entropy=-0.5,
    ),
    # Of DPO
    "IPO": setting(
        "forage.agents.language.pairs:DPO",
        summary="Identity preference optimisation (IPO): DPO with a squared distance to a fixed margin.",
        source=(
            'Azar et al. (2023), "A General Theoretical Paradigm to Understand Learning from Human Preferences", arXiv '
            "2310.12036"
        ),
        example="forage train ipo --data pairs.jsonl --model DIRECTORY",
        words="""
        The loss of a pair is (h - 1 / (2 beta))^2, with log-probabilities that are means over the tokens of an answer,
        as in TRL's `DPOTrainer` (`ipo`), which asked the authors.
        """,
        preference="ipo",
    ),
    # Of GRPO. Sizes of batches and the learning rate are GRPO's, so that relatives differ in what they are named after.
    # But a method that is about the ratio of new policy to old makes more than one step of each rollout
    # (`minibatches`), as its authors do: with one step the ratio is 1, and every clip is the same. TRL 1.16's paper
    # index (docs/source/paper_index.md) quotes the papers for most numbers; the papers' own pages could not be looked
    # up unless a row says so.
    "DrGRPO": setting(
        "forage.agents.language.grpo:GRPO",
        summary=(
            "GRPO done right (Dr. GRPO): r - mean, without the deviation, and sums over tokens divided by one "
            "constant length."
        ),
        source='Liu et al. (2025), "Understanding R1-Zero-Like Training: A Critical Perspective", arXiv 2503.20783',
        example="forage train dr-grpo text:addition --env.level 2",
        words="""
        8 answers to a prompt and no divergence are those of the authors' repository, as TRL's paper index quotes it.
        """,
        advantage="dr-grpo",
        aggregation="constant",
    ),
    "DAPO": setting(
        "forage.agents.language.grpo:GRPO",
        summary=(
            "DAPO: clip higher, a mean over tokens, no groups of equal rewards, lower rewards for very long answers."
        ),
        source=(
            'Yu et al. (2025), "DAPO: An Open-Source LLM Reinforcement Learning System at Scale", arXiv 2503.14476'
        ),
        example="forage train dapo text:addition --env.level 2",
        words="""
        Section 4.1: bounds 0.2 and 0.28, 16 answers to a prompt, 4,096 of 20,480 tokens where length costs, no
        divergence. There prompts are drawn until no group is left out and each rollout is learned from in 16 steps;
        here such groups teach nothing, and steps are 4 unless `minibatches` says otherwise, for rollouts of 64 answers
        in place of 8,192. Which groups those are is said by how right answers are, before length costs them anything
        (`filter_groups.metric` is `acc` in the authors' scripts): of answers that are all wrong the shorter ones are
        not better.
        """,
        clip_low=0.2,
        clip_high=0.28,
        group_size=16,
        aggregation="token-mean",
        zero_variance_groups="drop",
        overlong_buffer=0.2,
        minibatches=4,
    ),
    "RLOO": setting(
        "forage.agents.language.grpo:GRPO",
        summary="RLOO: the mean reward of the other answers is each one's baseline, and a whole answer is one action.",
        source=(
            'Ahmadian et al. (2024), "Back to Basics: Revisiting REINFORCE Style Optimization for Learning from Human'
            ' Feedback in LLMs", arXiv 2402.14740'
        ),
        example="forage train rloo text:addition --env.level 2",
        words="""
        4 answers to a prompt (2 and 4 there), 2 steps of a rollout, and a divergence of weight 0.03 as a price in the
        reward are appendix C's, as TRL's paper index quotes it.
        """,
        group_size=4,
        advantage="rloo",
        loss="clip-sequence",
        minibatches=2,
        divergence=0.03,
        kl_placement="reward-sequence",
    ),
    "ReinforcePlusPlus": setting(
        "forage.agents.language.grpo:GRPO",
        summary="REINFORCE++: PPO's clip without a critic; advantages get mean 0 and deviation 1 over the whole batch.",
        source=(
            'Hu (2025), "REINFORCE++: A Simple and Efficient Approach for Aligning Large Language Models", arXiv '
            "2501.03262"
        ),
        example="forage train reinforce-plus-plus text:addition --env.level 2",
        words="""
        The divergence is a price of each token. Its weight, 0.01, is that of OpenRLHF's scripts for PPO (the author's
        own trainer), since the paper's could not be looked up. Prompts need no groups; one answer each does, and groups
        of 8 are kept so that other relatives have the same number of prompts.
        """,
        advantage="reinforce++",
        aggregation="token-mean",
        minibatches=4,
        divergence=0.01,
        kl_placement="reward-token",
    ),
    "ReinforcePlusPlusBaseline": setting(
        "forage.agents.language.grpo:GRPO",
        summary="REINFORCE++ with a baseline: the group's mean is taken off before the whole batch is normalised.",
        source=(
            'Hu (2025), "REINFORCE++: A Simple and Efficient Approach for Aligning Large Language Models", arXiv '
            "2501.03262"
        ),
        example="forage train reinforce-plus-plus-baseline text:addition --env.level 2",
        words="""
        Hu (2025), as `ReinforcePlusPlus`. 8 answers to a prompt and a divergence of weight 1e-5 in the loss, estimated
        by k2, are those of OpenRLHF's `train_reinforce_baseline_hybrid_engine.sh`.
        """,
        advantage="reinforce++-baseline",
        aggregation="token-mean",
        minibatches=4,
        divergence=1e-05,
        estimator="k2",
    ),
    "GSPO": setting(
        "forage.agents.language.grpo:GRPO",
        summary="GSPO: one ratio for each answer, the geometric mean of its tokens', clipped very near 1.",
        source='Zheng et al. (2025), "Group Sequence Policy Optimization", arXiv 2507.18071',
        example="forage train gspo text:addition --env.level 2",
        words="""
        Section 5.1: bounds 3e-4 and 4e-4 (those of the loss), 4 steps of each rollout; no divergence.
        """,
        loss="gspo",
        minibatches=4,
    ),
    "CISPO": setting(
        "forage.agents.language.grpo:GRPO",
        summary="CISPO: the score function weighted by a clipped ratio, so that no token loses its gradient.",
        source='MiniMax (2025), "MiniMax-M1", arXiv 2506.13585',
        example="forage train cispo text:addition --env.level 2",
        words="""
        The ceiling of 5 is that of the recipe ScaleRL (arXiv 2510.13786), as TRL's paper index quotes it. There each
        rollout is learned from in 16 steps, here in 4.
        """,
        loss="cispo",
        ratio_cap=5.0,
        aggregation="token-mean",
        minibatches=4,
    ),
    "GMPO": setting(
        "forage.agents.language.grpo:GRPO",
        summary="GMPO: the geometric mean of clipped ratios of tokens, which allows wider bounds.",
        source='Zhao et al. (2025), "Geometric-Mean Policy Optimization", arXiv 2507.20673',
        example="forage train gmpo text:addition --env.level 2",
        words="""
        Section 4: bounds of 0.4 on the logarithm (those of the loss), no divergence. How many steps each rollout gets
        could not be looked up; here 4.
        """,
        own_choices="the number of steps of each rollout",
        loss="gmpo",
        minibatches=4,
    ),
    "SAPO": setting(
        "forage.agents.language.grpo:GRPO",
        summary="SAPO: a soft gate in place of the clip, steeper for negative advantages.",
        source='Gao et al. (2025), "Soft Adaptive Policy Optimization", arXiv 2511.20347',
        example="forage train sapo text:addition --env.level 2",
        words="""
        Temperatures 1 and 1.05 (those of the loss). How many steps each rollout gets could not be looked up; here 4.
        """,
        own_choices="the number of steps of each rollout",
        loss="sapo",
        minibatches=4,
    ),
}
"""The rows by the names of their classes."""


def __getattr__(name: str) -> type:
    """Return the class of a row."""
    return class_of(__name__, SETTINGS, name)
