"""Rows of the headline campaign: contestants with their settings, and published results with their sources."""

from __future__ import annotations

from typing import Any, NamedTuple


class Arm(NamedTuple):
    """One contestant in one task of a row: Forage by its command, or a peer by its script."""

    seconds: float  # estimate for a seed on one core, until seeds are measured
    words: str = ""  # of `forage ...`, without seeds and directory
    peer: str = ""  # a section of peers.toml
    script: str = ""  # of the peer, in peers/
    settings: dict[str, Any] = {}  # of the script
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    file: str = ""  # a file that it reads, made by the cell DATA
    environment: str = ""  # a file of this folder that its command names; copied to where it is trained
    optional: bool = False  # started only where --only names it in full
    smoke: dict[str, Any] = {}  # words' options, or settings, of --smoke
    too_long: bool = False  # it has no smoke


class Published(NamedTuple):
    """A published result of a task: values of single seeds, or their mean and deviation."""

    task: str
    label: str
    measure: str  # the one of ours that it is compared with: "training", "evaluation" or "", which is not compared
    source: str
    curve: tuple[tuple[int, tuple[float, ...]], ...] = ()  # steps, and the value of each seed
    mean: float | None = None
    deviation: float | None = None  # over `seeds`; none: unknown
    seeds: int = 1
    steps: int = 0
    beside: tuple[str, ...] = ()  # the contestants that it stands beside; none named: all of Forage's


class Row(NamedTuple):
    """One page: its question, its arms by TASK/CONTESTANT, and what is published."""

    title: str
    about: str  # what the page shows, and what differs from what is published
    arms: dict[str, Arm]
    published: tuple[Published, ...] = ()
    training: str = "the last 100 training episodes"  # what the end of training is the mean of
    evaluation: str = "10 episodes, played greedily after training"
    episodes: int = 100  # of the end of training
    points: int = 10  # of a peer's curve, which are as many
    unit: str = "environment steps"
    value: str = "return"
    score: bool = False  # returns are shown on the scale of the data set's ends, 0 random and 100 expert


CLEANRL = "docs/benchmark/ppo_continuous_action.md of vwxyzjn/cleanrl at fe8d8a0"
ZOO = "benchmark.md of DLR-RM/rl-baselines3-zoo at 22e3ff2"
SIMBA = "results/baseline/sac.csv of DAVIAN-Robotics/SimbaV2 at 86899c2"

# Row 1

AS_CLEANRL = (
    "--steps 1M --num-envs 1 --rollout-length 2048 --epochs 10 --minibatches 32 --learning-rate 3e-4 "
    "--final-learning-rate 0 --discount 0.99 --gae-lambda 0.95 --clip 0.2 --clip-value true --value-coefficient 0.5 "
    "--entropy-coefficient 0 --max-gradient-norm 0.5 --hidden-sizes 64,64 --activation tanh --initial-log-std 0 "
    "--normalise-observation true --rewards normalise-return --rewards.discount 0.99 "
    "--evaluation-actions greedy --evaluation-episodes 20"
)
PPO_SMOKE = {"--steps": 4096, "--evaluation-episodes": 1}
ROBOTS = {
    "half-cheetah": ("HalfCheetah-v4", (1442.64, 46.03), (5819.099, "v3"), 450),
    "hopper": ("Hopper-v4", (2382.86, 271.74), (2410.435, "v3"), 450),
    "walker2d": ("Walker2d-v4", (2287.95, 571.78), (3478.798, "v3"), 450),
}
PPO_MUJOCO = Row(
    "PPO in MuJoCo, one million steps",
    """\
PPO with the settings of CleanRL's `ppo_continuous_action.py`, five seeds in each of three tasks, beside the table of
CleanRL's documentation. Environments are of version 4, as there, with a newer MuJoCo. Numbers are means of the last
100 episodes of training, with sampled actions; CleanRL's deviation is over its three seeds. Networks (64 by 64, apart
for policy and value) and optimiser (Adam, epsilon 1e-5) are the same. The zoo's number is of one agent with settings
tuned for the task in version 3, played greedily for 150,000 steps: a mark, and compared with nothing.
*forage-limit-as-end* changes one thing: the limit of 1,000 steps is an end, after which nothing is worth anything, as
CleanRL's script has it (`benchmarks/limits.py`), where Forage goes on with the value of the last state. In HalfCheetah,
where nothing else ends an episode, that is the lead over CleanRL's table; in Walker2d it explains nothing of it.""",
    {
        f"{task}/forage": Arm(seconds, f"train ppo gymnasium:{name} {AS_CLEANRL}", smoke=PPO_SMOKE)
        for task, (name, _, _, seconds) in ROBOTS.items()
    }
    | {
        f"{task}/forage-limit-as-end": Arm(
            300,
            f"train ppo limits.py:{task.replace('-', '_')} {AS_CLEANRL}",
            environment="limits.py",
            seeds=(0, 1, 2),
            smoke=PPO_SMOKE,
        )
        for task in ("half-cheetah", "walker2d")
    },
    tuple(
        one
        for task, (_, (mean, deviation), (tuned, version), _) in ROBOTS.items()
        for one in (
            Published(task, "CleanRL", "training", CLEANRL, (), mean, deviation, 3, 1_000_000),
            Published(task, f"the zoo ({version}, tuned)", "", ZOO, (), tuned, None, 1, 1_000_000),
        )
    ),
    evaluation="20 episodes, played greedily after training",
)

# Row 2

OF_SAC = (
    (16_666, (1089.6, 349.3, 767.5, 566.9, 64.2, 316.7, 127.8, 1173.3, 421.7, 593.6)),
    (33_332, (3094.1, 3168.9, 2922.0, 1928.7, 2587.3, 2474.8, 3279.6, 2643.0, 971.2, 2113.1)),
    (49_998, (4879.2, 4751.9, 3985.2, 3585.8, 4240.0, 4553.5, 4515.2, 4569.3, 3463.0, 3579.6)),
)
SAC_WORDS = "--steps 50k --evaluation-every 10k --evaluation-episodes 10 --evaluation-actions greedy"
SAC_SMOKE = {"--steps": 300, "--evaluation-every": 150, "--evaluation-episodes": 1, "--learning-starts": 100}
SBX_SAC = {
    "algorithm": "sac",
    "environment": "HalfCheetah-v5",
    "simulator": "gymnasium",
    "steps": 50_000,
    "num_envs": 1,
    "learning_starts": 10_000,
    "buffer_size": 1_000_000,
    "batch_size": 256,
    "updates_per_step": 1,
    "learning_rate": 3e-4,
    "hidden": (256, 256),
    "activation": "relu",
    "discount": 0.99,
    "tau": 0.005,
    "torch_threads": 1,
    "evaluation_episodes": 10,
    "evaluation_every": 10_000,
    "episodes": 10,
}
SAC_CHEETAH = Row(
    "SAC in HalfCheetah, 50,000 steps",
    """\
SAC with the settings of its paper's table 1, five seeds, beside SBX at the same settings in the same campaign: two
layers of 256 units, a learning rate of 3e-4, batches of 256, one update a step after 10,000 random steps. Both are
evaluated greedily, ten episodes every 10,000 steps, in HalfCheetah-v5, which differs from version 4 in the names of
its infos alone: from the same seed and actions both give the same observations and rewards. The published curve (ten
seeds, version 4) comes without its settings. Its points are those at which CrossQ's authors evaluate (`train.py` of
adityab/CrossQ: five million steps in 300 parts), whose SAC has a learning rate of 1e-3 and 5,000 random steps
(`slurm/submit_everything.sh`): *forage-as-crossq* has both, and one episode an evaluation there is ten here.
*forage-start-2500* and *forage-half-entropy* were tried before that was found, and change one thing each: the number of
random steps, and the entropy that is aimed at (-0.5 for each number of an action, as jaxrl has it, in place of -1).""",
    {
        "half-cheetah/forage": Arm(
            700, f"train sac gymnasium:HalfCheetah-v5 --learning-starts 10000 {SAC_WORDS}", smoke=SAC_SMOKE
        ),
        "half-cheetah/sbx": Arm(
            1000,
            peer="sbx",
            script="sbx_.py",
            settings=SBX_SAC,
            smoke={"steps": 300, "evaluation_every": 150, "evaluation_episodes": 1, "learning_starts": 100},
        ),
        "half-cheetah/forage-as-crossq": Arm(
            500,
            f"train sac gymnasium:HalfCheetah-v5 --learning-starts 5000 --learning-rate 1e-3 {SAC_WORDS}",
            smoke=SAC_SMOKE,
        ),
        "half-cheetah/forage-start-2500": Arm(
            800,
            f"train sac gymnasium:HalfCheetah-v5 --learning-starts 2500 {SAC_WORDS}",
            seeds=(0, 1, 2),
            smoke=SAC_SMOKE,
        ),
        "half-cheetah/forage-half-entropy": Arm(
            700,
            f"train sac gymnasium:HalfCheetah-v5 --learning-starts 10000 --target-entropy -0.5 {SAC_WORDS}",
            seeds=(0, 1, 2),
            smoke=SAC_SMOKE,
        ),
    },
    (Published("half-cheetah", "SimbaV2's file", "evaluation", SIMBA, OF_SAC, seeds=10, steps=50_000),),
    training="the last 10 training episodes",
    episodes=10,
)

# Row 3

DATA = "offline/data/forage/0"
FOLDER = "data/half-cheetah"
OFFLINE_WORDS = "--evaluation-episodes 10 --evaluation-actions greedy"


def learn_offline(tier: str, agent: str, updates: int, ours: float, theirs: float) -> dict[str, Arm]:
    """Return both contestants' arms of one agent on one data set."""
    file, every = f"{FOLDER}/{tier}.npz", updates // 5
    words = f"train {agent} gymnasium:HalfCheetah-v5 --data {file} --steps {updates} --evaluation-every {every}"
    words += " --hidden-sizes 256,256" if agent == "cql" else ""  # in place of its three layers
    given = {"data": file, "algorithm": agent, "environment": "HalfCheetah-v5", "updates": updates, "every": every}
    both: dict[str, Any] = {"seeds": (0, 1, 2), "file": file}
    small = {"--steps": 20, "--evaluation-every": 10, "--evaluation-episodes": 1}
    return {
        f"{tier}-{agent}/forage": Arm(ours, f"{words} {OFFLINE_WORDS}", smoke=small, **both),
        f"{tier}-{agent}/d3rlpy": Arm(
            theirs,
            peer="d3rlpy",
            script="d3rlpy_curve.py",
            settings=given | {"episodes": 10},
            smoke={"updates": 20, "every": 10, "episodes": 1},
            **both,
        ),
    }


OFFLINE = Row(
    "Offline, from data of our own SAC",
    """\
IQL, TD3+BC and CQL on two data sets that `forage data make` made of one run of SAC of 100,000 steps in HalfCheetah,
and d3rlpy 2.8 on the same files at equal updates; three seeds. Scores are 0 for random actions and 100 for the best
agent of that run, which is no expert of D4RL, so that they cannot be held against papers' tables. Batches of 256,
two layers of 256 units (CQL has three by default) and discounts of 0.99 are the same. Else each library's own settings
stand, with what d3rlpy's reproductions change: TD3+BC sees standardised observations, CQL's weight is constant. They
agree but for the learning rate of IQL's policy, which falls along a cosine here and is constant there. The two curves
of each picture go side by side. CQL's end, where ours is lower, is the last of five evaluations, whose mean is 33.7
here and 33.1 there.""",
    {
        "data/forage": Arm(
            2600,
            "data make gymnasium:HalfCheetah-v5 --agent sac --train-steps 100k --steps 100k "
            f"--tiers medium,medium-replay --output {FOLDER}",
            seeds=(0,),
            too_long=True,
        ),
        **learn_offline("medium", "iql", 20_000, 250, 500),
        **learn_offline("medium", "td3-bc", 20_000, 200, 400),
        **learn_offline("medium-replay", "iql", 20_000, 250, 500),
        **learn_offline("medium-replay", "td3-bc", 20_000, 200, 400),
        **learn_offline("medium", "cql", 5_000, 500, 900),
    },
    unit="updates",
    value="normalised score",
    score=True,
)

# Row 4

PQN = (
    "--num-envs 128 --rollout-length 32 --epochs 2 --minibatches 32 --learning-rate 5e-4 --trace-lambda 0.65 "
    "--discount 0.99 --max-gradient-norm 10 --behaviour epsilon-greedy --behaviour.end 0.05 --behaviour.fraction 0.1"
)
AS_GYMNAX = (
    "--num-envs 64 --rollout-length 128 --epochs 4 --minibatches 8 --learning-rate 5e-4 --final-learning-rate 1 "
    "--discount 0.999 --gae-lambda 0.95 --clip 0.2 --clip-value true --entropy-coefficient 0.01 "
    "--value-coefficient 0.5 --max-gradient-norm 0.5 --hidden-sizes 256,256 --activation relu"
)
MINATAR_SMOKE = {"--steps": 16_384, "--evaluation-episodes": 2}
MINATAR = Row(
    "MinAtar Breakout, ten million steps",
    """\
PPO as `forage train ppo minatar:Breakout` has it and PQN with its authors' settings for MinAtar (`pqn_minatar.yaml`
of mttga/purejaxql), three seeds each. Published are few numbers: gymnax names the return of one checkpoint of PPO
after ten million steps, and the curve of Pgx's example of PPO, which goes on to 50 at twenty million, was read from
its picture (README of examples/minatar-ppo) at 5 and 10 million. The authors of PQN show curves for MinAtar and no
table. Breakout has the three actions that matter, as in gymnax and Pgx, and like Pgx and the MinAtar package repeats
an action with a chance of 0.1; gymnax never does, and ends an episode after 1,000 steps. *forage-as-gymnax*, one seed,
is PPO in Breakout as gymnax has it (`benchmarks/as_gymnax.py`) with the settings of its checkpoint
(`agents/Breakout-MinAtar/ppo.yaml` of RobertTLange/gymnax-blines at 15b76af): a discount of 0.999, a constant learning
rate of 5e-4 and two layers of 256 units in place of a convolution. It ends far above that checkpoint; the two seeds of
*forage-ppo* below it play a harder game, with other settings.""",
    {
        "breakout/forage-ppo": Arm(
            1500,
            "train ppo minatar:Breakout --steps 10M --evaluation-actions sampled --evaluation-episodes 100",
            seeds=(0, 1, 2),
            smoke=MINATAR_SMOKE,
        ),
        "breakout/forage-pqn": Arm(
            1500,
            f"train pqn minatar:Breakout --steps 10M {PQN} --evaluation-actions greedy --evaluation-episodes 100",
            seeds=(0, 1, 2),
            smoke=MINATAR_SMOKE,
        ),
        "breakout/forage-as-gymnax": Arm(
            600,
            f"train ppo as_gymnax.py:FlatBreakout --steps 10M {AS_GYMNAX} --evaluation-actions sampled "
            "--evaluation-episodes 100",
            environment="as_gymnax.py",
            seeds=(0,),
            smoke=MINATAR_SMOKE,
        ),
    },
    (
        Published(
            "breakout",
            "gymnax's checkpoint",
            "",
            "README.md of RobertTLange/gymnax at 086ad95",
            mean=28.0,
            steps=10_000_000,
            beside=("forage-ppo", "forage-as-gymnax"),
        ),
        Published(
            "breakout",
            "Pgx's example",
            "",
            "examples/minatar-ppo/assets/breakout.png of sotetsuk/pgx at 079b2d7",
            ((5_000_000, (6.0,)), (10_000_000, (13.0,))),
            beside=("forage-ppo",),
        ),
    ),
    evaluation="100 episodes after training, those of PPO with sampled actions and those of PQN greedy",
)

# Row 5

GRPO_UPDATES, PROMPTS, GROUP, LONGEST, RATE = 100, 8, 8, 64, 1e-4
GRPO_WORDS = (
    f"train grpo text:grpo/prompts.jsonl --evaluate text:grpo/held-out.jsonl --rewards grpo/reward.py:score --model "
    f"grpo/base --steps {GRPO_UPDATES * PROMPTS * GROUP} --num-envs {PROMPTS * GROUP} --group-size {GROUP} "
    f"--learning-rate {RATE} --final-learning-rate 1 --warmup-share 0 "
    f"--aggregation sequence-mean --max-gradient-norm 1 --temperature 1 --env.response {LONGEST} "
    f"--evaluation-every {GRPO_UPDATES * PROMPTS * GROUP} --evaluation-episodes 200 --evaluation-actions sampled"
)
TRL_GRPO = {
    "model": "grpo/base",
    "prompts": "grpo/prompts.jsonl",
    "reward": "grpo/reward.py",
    "updates": GRPO_UPDATES,
    "prompts_at_once": PROMPTS,
    "group": GROUP,
    "longest": LONGEST,
    "learning_rate": RATE,
}
GRPO = Row(
    "GRPO beside TRL",
    """\
GRPO of Forage's base model, a Llama of 1.1 million parameters, by Forage and by TRL: the same checkpoint in Hugging
Face's files, the same 800 prompts (sums of numbers of four digits) and the same reward function, the share of the
sum's digits that are right; 100 updates of 8 prompts with 8 answers each, five seeds. Losses and gradients of one
step agree to rounding (`benchmarks/trl_grpo.py`); the order of prompts and the draws differ. Afterwards Forage
answers 200 other prompts with either model, at temperature 1. The reward was chosen before any seed by a pilot of
Forage alone, as one that rises in 100 updates.""",
    {
        "sums/forage": Arm(220, GRPO_WORDS, smoke={"--steps": 2 * PROMPTS * GROUP, "--evaluation-episodes": 8}),
        "sums/trl": Arm(300, peer="trl", script="trl_curve.py", settings=TRL_GRPO, smoke={"updates": 2}),
    },
    training="the last 10 updates",
    evaluation="200 other prompts after training, answers drawn at temperature 1",
    episodes=10 * PROMPTS * GROUP,
    unit="updates",
    value="reward",
)

# Row 6

CRAFTAX_WORDS = (
    "--num-envs 64 --rollout-length 64 --epochs 4 --minibatches 8 --learning-rate 2e-4 --final-learning-rate 0 "
    "--discount 0.99 --gae-lambda 0.8 --clip 0.2 --clip-value true --entropy-coefficient 0.01 --value-coefficient 0.5 "
    "--max-gradient-norm 1.0 --hidden-sizes 512,512,512 --activation tanh --evaluation-actions sampled"
)
CRAFTAX = Row(
    "Craftax-Classic, five million steps",
    """\
PPO with the settings of Craftax_Baselines' `ppo.py`, but from 64 environments in place of 1,024, so that five
million steps hold 1,220 rollouts; one seed, so that nothing can be said of its chance. No table or file of a curve
at five million steps was found; the paper says that PPO reaches 90 % of the largest return, 22, after a billion.""",
    {
        "craftax-classic/forage": Arm(
            5000,
            f"train ppo craftax:Craftax-Classic-Symbolic-v1 --steps 5M {CRAFTAX_WORDS}",
            seeds=(0,),
            smoke={"--steps": 4096},
        ),
    },
    evaluation="episodes after training, with sampled actions",
)
PONG = Row(
    "Pong, five million frames",
    """\
PPO as `forage train ppo ale:Pong` has it, 1.25 million steps of four frames. It is listed with its cost and starts
only where `--only pong/pong/forage/0` names it.""",
    {
        "pong/forage": Arm(
            12_000,
            "train ppo ale:Pong --steps 1250k --evaluation-actions sampled",
            seeds=(0,),
            optional=True,
            smoke={"--steps": 2048},
        )
    },
)

ROWS: dict[str, Row] = {
    "ppo-mujoco": PPO_MUJOCO,
    "sac-cheetah": SAC_CHEETAH,
    "offline": OFFLINE,
    "minatar": MINATAR,
    "grpo": GRPO,
    "craftax": CRAFTAX,
    "pong": PONG,
}
