"""Agents of papers that only change defaults of another agent, as rows of one table."""

from __future__ import annotations

from forage.core.settings import class_of, setting

SETTINGS = {
    "DroQ": setting(
        "forage.agents.actor_critic.sac:SAC",
        summary=(
            "Dropout Q-functions (DroQ): SAC with dropout and layer normalisation in two critics in place of REDQ's "
            "ten."
        ),
        source=(
            'Hiraoka, Imagawa, Hashimoto, Onishi, Tsuruoka (2022), "Dropout Q-Functions for Doubly Efficient '
            'Reinforcement Learning", arXiv 2110.02034'
        ),
        example="forage train droq Pendulum-v1 --steps 5000",
        words="""
        Soft actor-critic whose critics have dropout and then layer normalisation before each activation, also in their
        targets and where the policy maximises them (algorithm 2). With G updates of the critics for each step taken and
        one of the policy,

            critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) (min_j Q'_j(s', a') - alpha log pi(a'|s')))^2
            actor     alpha log pi(b|s) - mean_i Q_i(s, b)

        The share that is dropped matters: the authors' README has 0.01 in all four environments of one of their two
        programs, and from 0.0001 (Hopper) to 0.1 (Humanoid) in the other. Their runs begin to learn after 5,000 steps,
        and aim at the entropies that REDQ's do. In both programs weights begin as in REDQ's, wider than here
        (`--first-weights glorot`), and layer normalisation adds 1e-5 to variances, here 1e-6; the other one is REDQ's
        own but for that and the dropout.
        """,
        meanings={
            "target_entropy": (
                "entropy that the temperature aims at, in nats for each dimension of the action, in the unit box; "
                "larger explores more; the authors' for HalfCheetah, Walker and Ant"
            ),
        },
        dropout=0.01,
        critic_norm="layer",
        policy_q="mean",
        updates_per_rollout=20,
        policy_delay=20,
        target_entropy=-0.5,
    ),
    "SACN": setting(
        "forage.agents.actor_critic.sac:SAC",
        summary="SAC with ten critics (SAC-N), for learning from data.",
        source=(
            'An, Moon, Kim, Song (2021), "Uncertainty-Based Offline Reinforcement Learning with Diversified '
            'Q-Ensemble", arXiv 2110.01548'
        ),
        example="forage train sac-n Pendulum-v1 --data DATA.npz --steps 5000",
        words="""
        Soft actor-critic with N critics, of which both target and policy take the least value:

            critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) (min_j Q'_j(s', a') - alpha log pi(a'|s')))^2
            actor     alpha log pi(b|s) - min_i Q_i(s, b)

        Critics agree on actions that the data show and differ on others, of which the least value of many is low: the
        policy stays near the data although nothing measures how near it is.

        In the authors' program (snu-mllab/EDAC: lifelong_rl/trainers/q_learning/sac.py) all networks take their step
        from what they were before the update, and here the policy follows critics that have already moved; the
        temperature goes down -log alpha (log pi + H), here -alpha (log pi + H); and log-deviations lie within -5 and 2,
        here within -20 and 2. Last weights begin within 0.003 (critics) and 0.001 (policy), other biases at 0.1, and
        target critics apart from the critics; here all begin as in SAC.

        Numbers and sizes are the defaults of the authors' program, which makes 3 million updates. How many critics it
        takes depends on the data: the narrower they are, the more.
        """,
        critics=10,
        hidden_sizes=(256, 256, 256),
    ),
    "EDAC": setting(
        "forage_papers.agents.settings:SACN",
        summary=(
            "Ensemble-diversified actor-critic (EDAC): SAC-N with a penalty on similar critics, for learning from data."
        ),
        source=(
            'An, Moon, Kim, Song (2021), "Uncertainty-Based Offline Reinforcement Learning with Diversified '
            'Q-Ensemble", arXiv 2110.01548'
        ),
        example="forage train edac maze:UMaze --data DATA.npz --steps 5000",
        words="""
        SAC-N, the least of whose N critics says little where all of them rise in the same direction from the data's
        actions. Beside their errors the critics' loss has how alike these directions are, with weight eta:

            critics   sum_i mean((Q_i(s, a) - y)^2)
                      + eta / (N - 1) mean(sum over i and j != i of cos(grad_a Q_i, grad_a Q_j))

        with SAC's target y and the gradients at the data's s and a. Then fewer critics than SAC-N's do. Where actions
        have one dimension all cosines are 1 or -1, whose gradient is zero: there it is SAC-N.

        Numbers and sizes are SAC-N's; 1.0 for `diversity` (eta) is what OfflineRL-Kit, another implementation, suggests
        for the medium data of HalfCheetah and Walker2d, with ten critics, and of Hopper, with fifty. The authors'
        README has 1000 and 10 for the data of pen-human and pen-cloned. (The paper's own tables could not be looked
        up.)
        """,
        diversity=1.0,
    ),
    "RLPD": setting(
        "forage.agents.actor_critic.sac:SAC",
        summary=(
            "Reinforcement learning with prior data (RLPD): SAC with ten normalised critics and half a batch of data."
        ),
        source=(
            'Ball, Smith, Kostrikov, Levine (2023), "Efficient Online Reinforcement Learning with Offline Data", '
            "arXiv 2302.02948"
        ),
        example="forage train rlpd Pendulum-v1 --memory mixed --memory.data mixed.npz",
        words="""
        Soft actor-critic from scratch, with three changes: half of each batch is from the data (`--memory mixed`),
        critics have layer normalisation, which bounds what they say of actions that the data lacks, and there are N
        critics, of which M that are drawn anew at each update make the target. With G updates of the critics for each
        step taken and one of the policy,

            critics   sum_i (Q_i(s, a) - r - discount (1 - terminated)
                      (min over the M of Q'_j(s', a') - alpha log pi(a'|s')))^2
            actor     alpha log pi(b|s) - mean_i Q_i(s, b)

        N = 10, M = 2, G = 20, batches of 256 and an entropy target of -1/2 a dimension are those of the authors'
        program for D4RL locomotion (configs/rlpd_config.py, sac_learner.py and README of github.com/ikostrikov/rlpd).
        For AntMaze it has `--target-subset 1`, three hidden layers and `--no-backup-entropy`, for Adroit the last two
        of these. There weights begin uniform in +-sqrt(6 / (inputs + outputs)) with biases at zero (`--first-weights
        glorot`), here both in +-1/sqrt(inputs). The tables of the paper itself could not be looked up.

        Their runs begin to learn after 5,000 steps, which are uniform actions (`--behaviour.random-steps`). Without
        `--memory mixed` it learns from its own experience alone, as REDQ with layer normalisation.
        """,
        critics=10,
        target_subset=2,
        policy_q="mean",
        critic_norm="layer",
        target_entropy=-0.5,
        updates_per_rollout=20,
        policy_delay=20,
    ),
    "WSRL": setting(
        "forage.agents.actor_critic.sac:SAC",
        summary="Warm-start reinforcement learning (WSRL): SAC that continues an offline run without its data.",
        source=(
            'Zhou, Peng, Li, Levine, Kumar (2024), "Efficient Online Reinforcement Learning Fine-Tuning Need Not '
            'Retain Offline Data", arXiv 2412.07762'
        ),
        example="forage train wsrl Pendulum-v1 --from runs/offline --steps 20k",
        words="""
        Policy and critics begin with what an offline run has learned (`--from RUN`). For the first `learning_starts`
        steps the policy acts as it is and nothing is learned (algorithm 1's warm-up), so that the replay holds what
        that policy does before its critics are asked about it. From then on it is soft actor-critic with N normalised
        critics, M of them in the target, and G updates of the critics for each step and one of the policy,

            critics   sum_i (Q_i(s, a) - r - discount (1 - terminated) min over the M of Q'_j(s', a'))^2
            actor     alpha log pi(b|s) - min_i Q_i(s, b)

        K = 5,000 steps, G = 4 with 256 transitions each, N = 10, M = 2, layer normalisation in all networks, an entropy
        target of -1 a dimension and targets without entropy are those of the authors' program for locomotion
        (wsrl/agents/sac.py, experiments/configs/wsrl_config.py, sac_config.py and
        scripts/locomotion/launch_wsrl_finetune.sh of github.com/zhouzypaul/wsrl, whose configuration says an entropy
        target of 0, for which sac.py takes -1 a dimension).

        There policy and temperature have a learning rate of 1e-4, a third of the critics'; here all networks share one.
        But there Adam moves all of them at each of the G + 1 steps, by a gradient of zero where a network has none,
        which makes what the policy moves in a step of the environment sqrt(G + 1) times as far, 2.2e-4 for 1e-4. The
        policy's gradient is of all G x 256 transitions, here of the last 256; the temperature's of actions at s', here
        at s, and what is learned is its inverse softplus, here its logarithm. The M critics are drawn with replacement,
        so that one in N targets asks one critic alone, and all critics share one last layer. Deviations lie within 1e-5
        and 10, here within e^-20 and e^2. Weights begin orthogonal, those of the last hidden layer a hundred times
        smaller, which its normalisation undoes, and biases at zero; here both as in SAC. The offline run is to have as
        many critics and the same networks: there CQL or Cal-QL, here any agent built on SAC.

        Sizes of networks and how many critics there are follow the offline run that `--from` names. Without `--from` it
        begins untrained.
        """,
        meanings={
            "learning_starts": "steps of the warm-up, in which the policy acts as it is and nothing is learned",
        },
        begins_at_random=False,
        critics=10,
        target_subset=2,
        layer_norm=True,
        backup_entropy=False,
        learning_starts=5000,
        updates_per_rollout=4,
        policy_delay=4,
    ),
    "SimPO": setting(
        "forage.agents.language.pairs:DPO",
        summary="Simple preference optimisation (SimPO): DPO of means over tokens, without a reference, with a margin.",
        source=(
            'Meng, Xia, Chen (2024), "SimPO: Simple Preference Optimization with a Reference-Free Reward", arXiv '
            "2405.14734"
        ),
        example="forage train simpo --data pairs.jsonl --model DIRECTORY",
        words="""
        The loss of a pair is -log sigmoid(beta (log pi(chosen) - log pi(rejected)) - margin), with log-probabilities
        that are means over the tokens of an answer; beta 2.5 and margin 1.375 are of appendix B, as TRL's paper index
        quotes it. It is TRL's `experimental/cpo` with `loss_type="simpo"` and `cpo_alpha=0`.
        """,
        preference="simpo",
    ),
    "CPO": setting(
        "forage.agents.language.pairs:DPO",
        summary="Contrastive preference optimisation (CPO): DPO without a reference, beside the chosen text's loss.",
        source='Xu et al. (2024), "Contrastive Preference Optimization", arXiv 2401.08417',
        example="forage train cpo --data pairs.jsonl --model DIRECTORY",
        words="""
        The loss of a pair is -log sigmoid(beta (log pi(chosen) - log pi(rejected))), and the cross-entropy of the
        chosen answers comes to it with the weight `likelihood`, as in TRL's `experimental/cpo`.
        """,
        preference="cpo",
    ),
    "ORPO": setting(
        "forage.agents.language.pairs:DPO",
        summary="Odds ratio preference optimisation (ORPO): fine-tuning on chosen texts, with a ratio of odds beside.",
        source=(
            'Hong, Lee, Thorne (2024), "ORPO: Monolithic Preference Optimization without Reference Model", arXiv '
            "2403.07691"
        ),
        example="forage train orpo --data pairs.jsonl --model DIRECTORY",
        words="""
        The loss is the cross-entropy of the chosen text, prompt and answer, less beta log sigmoid(log odds(chosen) -
        log odds(rejected)), with odds of the mean log-probability of an answer's tokens, as in TRL's
        `experimental/orpo`, whose beta of 0.1 is the default. Where the first model has had no fine-tuning, this is it.
        """,
        preference="orpo",
    ),
    "LitePPO": setting(
        "forage.agents.language.grpo:GRPO",
        summary="Lite PPO: advantages by the group's mean and the batch's deviation, and a mean over tokens.",
        source=(
            'Liu et al. (2025), "Part I: Tricks or Traps? A Deep Dive into RL for LLM Reasoning", arXiv 2508.08221'
        ),
        example="forage train lite-ppo text:addition --env.level 2",
        words="""
        8 answers to a prompt drawn at temperature 0.99 with top-k 100 and top-p 0.99, no divergence, as TRL's paper
        index quotes it, which has 1 pass over each rollout, and 1 step of it.
        """,
        advantage="lite-ppo",
        aggregation="token-mean",
        temperature=0.99,
        top_p=0.99,
        top_k=100,
    ),
    "GRPOTCR": setting(
        "forage.agents.language.grpo:GRPO",
        summary="GRPO-TCR: a mean over tokens, clip higher and lower rewards for very long answers, for tools.",
        source=('Yu and others (2025), "Demystifying Reinforcement Learning in Agentic Reasoning", arXiv 2510.11701'),
        example=(
            "forage train grpo-tcr text:addition --env.tools calculator --env.problems 1000 --tasks first-policy "
            "--tasks.kept differing"
        ),
        words="""
        Bounds 0.2 and 0.28, a ratio of at most 10 where the advantage is negative, 16 answers to a prompt, 4,096 of
        20,480 tokens where length costs, groups of equal rewards dropped, no divergence, and 4 steps to a rollout: the
        numbers of the authors' script (`recipe/demystify/grpo_tcr_qwen3_4b.sh` of Gen-Verse/Open-AgentRL). It begins
        from a model that was fine-tuned on whole conversations with tools (`sft`, then `--from RUN`), on problems that
        are chosen by what that model solves (`--tasks first-policy`). There prompts are drawn until no group is left
        out (`--memory refill`).
        """,
        clip_low=0.2,
        clip_high=0.28,
        ratio_cap=10.0,
        group_size=16,
        aggregation="token-mean",
        zero_variance_groups="drop",
        overlong_buffer=0.2,
        minibatches=4,
    ),
    "TTI": setting(
        "forage.agents.language.grpo:GRPO",
        summary="TTI: cloning of successful episodes, turn by turn, drawn from all rollouts so far by a memory.",
        source=(
            'Shen and others (2025), "Thinking vs. Doing: Agents that Reason by Scaling Test-Time Interaction", arXiv '
            "2506.07976"
        ),
        example="forage train tti text:guess --memory recent-successes --tasks phases --tasks.field turns",
        words="""
        The mean over turns of the mean over their tokens of -log pi, as in the authors' program
        (test-time-interaction/TTI: `tti/algorithms/filteredbc/trainer.py`). It needs a memory that says what is cloned
        (`--memory recent-successes`), else each rollout counts by its rewards; the cap on turns that rises is
        `--tasks phases`.
        """,
        advantage="none",
        loss="reinforce",
    ),
    "MaxRL": setting(
        "forage.agents.language.grpo:GRPO",
        summary=(
            "MaxRL: advantages (r - mean) / mean, which maximise the log success rate up to the order of the group's "
            "size."
        ),
        source='Tajwar et al. (2026), "Maximum Likelihood Reinforcement Learning", arXiv 2602.02710',
        example="forage train max-rl text:addition --env.level 2",
        words="""
        Rewards must not be negative. The score function of whole answers, by which the identity holds, is the sum over
        their tokens; so it is here.
        """,
        advantage="max-rl",
        aggregation="sequence-sum",
    ),
    "PassAtK": setting(
        "forage.agents.language.grpo:GRPO",
        summary=(
            "Pass@k training: an answer's advantage is its contribution to the best reward of sets of `best_of` "
            "answers."
        ),
        source=(
            'Chen et al. (2025), "Pass@k Training for Adaptively Balancing Exploration and Exploitation of Large '
            'Reasoning Models", arXiv 2508.10751'
        ),
        example="forage train pass-at-k text:addition --env.level 2 --best-of 4",
        words="""
        The closed form is that of the authors' `passk_adv.py`; their settings of the loss are not published there, so
        it is GRPO's.
        """,
        advantage="pass@k",
    ),
    "MaxAtK": setting(
        "forage.agents.language.grpo:GRPO",
        summary="Max@k: the unbiased gradient of the expected best of `best_of` answers, of rewards of any size.",
        source=(
            'Bagirov et al. (2025), "The Best of N Worlds: Aligning Reinforcement Learning with Best-of-N Sampling '
            'via max@k Optimisation", arXiv 2510.23393'
        ),
        example="forage train max-at-k text:addition --env.level 2 --best-of 4",
        words="""
        Its abstract alone could be looked up. The gradient is of whole answers, so it is summed over their tokens.
        """,
        advantage="max@k",
        aggregation="sequence-sum",
    ),
    "ReMax": setting(
        "forage.agents.language.grpo:GRPO",
        summary="ReMax: the reward of the most probable answer to a prompt is the baseline of another, sampled answer.",
        source=(
            'Li et al. (2023), "ReMax: A Simple, Effective, and Efficient Reinforcement Learning Method for Aligning '
            'Large Language Models", arXiv 2310.10505'
        ),
        example="forage train remax text:addition --env.level 2",
        words="""
        The first answer of each group is the most probable one (behaviour `greedy-first-sample`), which is not learned
        from. One other answer to a prompt and a price of 0.05 for each token's divergence are those of the authors'
        scripts (`run_llama2_7b.sh`), whose discount of 0.99 along tokens is left out.
        """,
        usual_behaviour="greedy-first-sample",
        needed_behaviour="greedy-first-sample",
        group_size=2,
        advantage="remax",
        loss="reinforce",
        aggregation="sequence-sum",
        divergence=0.05,
        kl_placement="reward-token",
    ),
}
"""The rows by the names of their classes."""


def __getattr__(name: str) -> type:
    """Return the class of a row."""
    return class_of(__name__, SETTINGS, name)
