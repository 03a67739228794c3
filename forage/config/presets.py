"""The settings known to work well for one agent in a family of environments, each with its source.

Settings from elsewhere are in Forage's terms, which differ from Stable-Baselines3's (SB3's) in four ways:

- PPO halves the squared error of the value, so `value_coefficient` is twice its `vf_coef`;
- PPO acts in the unit box, so where actions go up to h, `initial_log_std` is its `log_std_init` less log(h);
- SB3's DQN copies its target between two rollouts at most, so where its interval is shorter than a rollout, ours is
  the rollout;
- PPO's `clip` is constant; where the source lets it fall to zero the preset says so.
"""

from __future__ import annotations

import fnmatch
import math
from typing import Any, NamedTuple

from forage.core.errors import ForageError


class Preset(NamedTuple):
    """Settings for one agent in one family of environments."""

    agent: str
    environment: str  # patterns over ids, with spaces between them
    steps: int  # for each seed
    settings: dict[str, Any]
    source: str
    parts: dict[str, dict[str, Any]] = {}  # other ports' parts, as in a run's configuration

    @property
    def words(self) -> str:
        """Return its settings, of the agent and then of other ports: `clip 0.1; rewards scale, low -1, high 1`."""

        said = {"": self.settings} | {f"{port} {part['part']}, ": part for port, part in self.parts.items()}
        texts = []
        for what, settings in said.items():
            pairs = [(name, value) for name, value in settings.items() if name != "part"]
            shown = ", ".join(f"{name} {f'{value:g}' if isinstance(value, float) else value}" for name, value in pairs)
            texts.append((what + shown).removesuffix(", "))
        return "; ".join(text for text in texts if text) or "defaults"

    def pattern(self, environment: str) -> str | None:
        """Return the pattern that the id of an environment fits; `None` if the preset is not for it."""
        return next((one for one in self.environment.split() if fnmatch.fnmatchcase(environment, one)), None)


TUNED = "tuned here on seeds 0 to 4"
OWN = "as for Forage's own, which was tuned here"
ZOO = "RL Baselines3 Zoo (Raffin, 2020)"
ATARI = "Schulman et al. (2017), table 5, as in Huang et al. (2022)"
MUJOCO = "Huang et al. (2022), the continuous-control details"
DQN_MINATAR = "Young and Tian (2019), with Adam, a double Q target and an update of 64 every 16 steps"
HAARNOJA = "Haarnoja et al. (2018), table 1"
KUZNETSOV = "Kuznetsov et al. (2020), the authors' PyTorch code"
FUJIMOTO = "Fujimoto et al. (2018), the authors' later code"
ONE_SETTING = "Fujimoto et al. (2025), the authors' code"
DQN_ATARI = "CleanRL (Huang et al., 2022), dqn_atari.py, with the million transitions of Mnih et al. (2015)"
GAMES = "gymnasium:ALE/* gymnasium:*NoFrameskip-v? ale:*"
TOY_TEXT = "gymnasium:FrozenLake* gymnasium:Taxi-v? gymnasium:CliffWalking* gymnasium:Blackjack-v?"


def normalise_return(discount: float) -> dict[str, dict[str, Any]]:
    """Rewards over the deviation of the return, as the `normalize` of the zoo and SB3's VecNormalize make them."""
    return {"rewards": {"part": "normalise-return", "discount": discount}}


NORMALISED = normalise_return(0.99)


def replay(capacity: int) -> dict[str, dict[str, Any]]:
    """Return uniform replay of `capacity` transitions; a shorter run's memory is only as large as its steps."""
    return {"memory": {"part": "uniform", "capacity": capacity}}


def gsde_noise(interval: int) -> dict[str, dict[str, Any]]:
    """Return gSDE's noise, redrawn every `interval` steps."""
    return {"behaviour": {"part": "held-noise", "interval": interval}}


def greedy(end: float, fraction: float) -> dict[str, dict[str, Any]]:
    """Random actions with a probability that falls from 1 to `end` over a share of the run."""
    return {"behaviour": {"part": "epsilon-greedy", "end": end, "fraction": fraction}}


def rollouts(num_envs: int, length: int, batch: int) -> dict[str, int]:
    """Return PPO's rollout, cut into minibatches of `batch` transitions; a single one if there are no more."""
    return {"num_envs": num_envs, "rollout_length": length, "minibatches": max(num_envs * length // batch, 1)}


# PPO

SMALL_PPO = {"learning_rate": 1e-3, "epochs": 10, "minibatches": 8}
SMALL_IMAGES = {"num_envs": 64, "minibatches": 8, "learning_rate": 1e-3, "activation": "relu"}
ROBOT = {"epochs": 10, "minibatches": 32, "learning_rate": 3e-4, "entropy_coefficient": 0.0}
ROBOT |= {"normalise_observation": True}
ONE_ROBOT = ROBOT | {"num_envs": 1, "rollout_length": 2048}
MANY_ROBOTS = ROBOT | {"num_envs": 32, "rollout_length": 64}
TEAM = {"learning_rate": 1e-3, "minibatches": 4}
LIVES = {"rewards": {"part": "atari"}}
CLIPPED = {"rewards": {"part": "scale", "low": -1.0, "high": 1.0}}
PONG = {"num_envs": 8, "rollout_length": 128, "minibatches": 4, "epochs": 4, "learning_rate": 2.5e-4, "clip": 0.1}

# What SB3's PPO does where the zoo says nothing; the first without its weight of the value.
GENERAL = {"learning_rate": 3e-4, "final_learning_rate": 1.0, "epochs": 10, "entropy_coefficient": 0.0}
SB3 = GENERAL | {"value_coefficient": 1.0}
SB3_NORMALISED = SB3 | {"normalise_observation": True}
WIDE = {"hidden_sizes": (256, 256), "activation": "relu", "initial_log_std": -2.0}
HUMANOID = SB3_NORMALISED | WIDE | {"initial_log_std": -2.0 - math.log(0.4)}  # its actions go up to 0.4

PPO: tuple[Preset, ...] = (
    Preset("ppo", "CartPole-masked", 500_000, SMALL_PPO | {"gru_size": 64}, TUNED),
    Preset("ppo", "CartPole*", 100_000, SMALL_PPO, TUNED),
    Preset("ppo", "*:CartPole-v?", 100_000, SMALL_PPO, OWN),
    Preset("ppo", "Acrobot-v1", 200_000, SMALL_PPO, TUNED),
    Preset("ppo", "gymnasium:Acrobot-v1", 200_000, SMALL_PPO, OWN),
    Preset("ppo", "Pendulum-v1", 500_000, SMALL_PPO | {"discount": 0.95, "entropy_coefficient": 0.0}, TUNED),
    Preset(
        "ppo",
        "gymnasium:Pendulum-v1",
        100_000,
        SB3
        | rollouts(4, 1024, 64)
        | {"learning_rate": 1e-3, "discount": 0.9, "state_dependent_noise": True, "initial_log_std": -math.log(2)},
        ZOO,
        gsde_noise(4),
    ),
    Preset(
        "ppo",
        "gymnasium:MountainCar-v0",
        1_000_000,
        SB3_NORMALISED | rollouts(16, 16, 64) | {"epochs": 4, "gae_lambda": 0.98},
        ZOO,
        NORMALISED,
    ),
    Preset(
        "ppo",
        "gymnasium:MountainCarContinuous-v0",
        20_000,
        SB3_NORMALISED
        | rollouts(1, 8, 256)
        | {"learning_rate": 7.77e-5, "discount": 0.9999, "gae_lambda": 0.9, "clip": 0.1, "max_gradient_norm": 5.0}
        | {"entropy_coefficient": 0.00429, "value_coefficient": 0.38}
        | {"state_dependent_noise": True, "initial_log_std": -3.29},
        ZOO + ", with orthogonal first weights",
        normalise_return(0.9999) | gsde_noise(8),
    ),
    Preset(
        "ppo",
        "gymnasium:LunarLander*",
        1_000_000,
        GENERAL | rollouts(8, 256, 64),
        "nearly SB3's defaults, from 8 environments: about 160 here after 300,000 steps; the zoo's need longer runs",
    ),
    Preset(
        "ppo",
        "gymnasium:BipedalWalkerHardcore-v3",
        10_000_000,
        SB3_NORMALISED
        | rollouts(16, 128, 64)
        | {"learning_rate": 2.5e-4, "final_learning_rate": 0.0, "entropy_coefficient": 0.001},
        ZOO + ", with rollouts of 2,048 steps in all instead of 32,768, a tenth of its steps and a constant clip",
        NORMALISED,
    ),
    Preset(
        "ppo",
        "gymnasium:BipedalWalker-v3",
        5_000_000,
        SB3_NORMALISED | rollouts(32, 64, 64) | {"discount": 0.999, "clip": 0.18},
        ZOO + ", with rollouts of 2,048 steps in all instead of 65,536",
        normalise_return(0.999),
    ),
    Preset(
        "ppo",
        "gymnasium:CarRacing-v3",
        4_000_000,
        SB3
        | rollouts(8, 512, 128)
        | {"learning_rate": 1e-4, "final_learning_rate": 0.0, "state_dependent_noise": True, "initial_log_std": -2.0},
        ZOO + ", which sees two grey frames of 64 x 64 and skips one in two; not tried here",
        NORMALISED | gsde_noise(4),
    ),
    Preset("ppo", TOY_TEXT, 200_000, SMALL_PPO, "as for CartPole; 0.75 here in FrozenLake"),
    Preset(
        "ppo",
        "gymnasium:HalfCheetah-v?",
        1_000_000,
        SB3_NORMALISED
        | WIDE
        | rollouts(1, 512, 64)
        | {"learning_rate": 2.0633e-5, "epochs": 20, "discount": 0.98, "gae_lambda": 0.92, "max_gradient_norm": 0.8}
        | {"clip": 0.1, "entropy_coefficient": 0.000401762, "value_coefficient": 2 * 0.58096},
        ZOO + ", with orthogonal first weights",
        normalise_return(0.98),
    ),
    Preset(
        "ppo",
        "gymnasium:Ant-v? gymnasium:Pusher-v?",
        1_000_000,
        ONE_ROBOT,
        MUJOCO,
        NORMALISED,
    ),
    Preset(
        "ppo",
        "gymnasium:Hopper-v?",
        1_000_000,
        SB3_NORMALISED
        | WIDE
        | rollouts(1, 512, 32)
        | {"learning_rate": 9.80828e-5, "epochs": 5, "discount": 0.999, "gae_lambda": 0.99, "max_gradient_norm": 0.7}
        | {"entropy_coefficient": 0.00229519, "value_coefficient": 2 * 0.835671},
        ZOO + ", with orthogonal first weights",
        normalise_return(0.999),
    ),
    Preset(
        "ppo",
        "gymnasium:Walker2d-v?",
        1_000_000,
        SB3_NORMALISED
        | rollouts(1, 512, 32)
        | {"learning_rate": 5.05041e-5, "epochs": 20, "clip": 0.1, "max_gradient_norm": 1.0}
        | {"entropy_coefficient": 0.000585045, "value_coefficient": 2 * 0.871923},
        ZOO,
        NORMALISED,
    ),
    Preset(
        "ppo",
        "gymnasium:Swimmer-v?",
        1_000_000,
        SB3_NORMALISED | rollouts(4, 1024, 256) | {"learning_rate": 6e-4, "discount": 0.9999, "gae_lambda": 0.98},
        ZOO,
        normalise_return(0.9999),
    ),
    Preset(
        "ppo",
        "gymnasium:Humanoid-v?",
        10_000_000,
        HUMANOID
        | rollouts(1, 512, 256)
        | {"learning_rate": 3.56987e-5, "epochs": 5, "discount": 0.95, "gae_lambda": 0.9, "clip": 0.3}
        | {"entropy_coefficient": 0.00238306, "value_coefficient": 2 * 0.431892, "max_gradient_norm": 2.0},
        ZOO + ", with orthogonal first weights",
        normalise_return(0.95),
    ),
    Preset(
        "ppo",
        "gymnasium:HumanoidStandup-v?",
        10_000_000,
        HUMANOID
        | rollouts(1, 512, 32)
        | {"learning_rate": 2.55673e-5, "epochs": 20, "gae_lambda": 0.9, "clip": 0.3, "max_gradient_norm": 0.7}
        | {"entropy_coefficient": 3.62109e-6, "value_coefficient": 2 * 0.430793},
        ZOO + ", with orthogonal first weights",
        NORMALISED,
    ),
    Preset(
        "ppo",
        "gymnasium:InvertedDoublePendulum-v?",
        100_000,
        GENERAL | rollouts(8, 256, 64) | {"initial_log_std": -0.6},
        "nearly SB3's defaults, returns normalised, less noise: 9,359 here after 50,000 steps; SB3 with the zoo's: 383",
        NORMALISED,
    ),
    Preset(
        "ppo",
        "gymnasium:InvertedPendulum-v?",
        100_000,
        GENERAL | rollouts(8, 256, 64) | {"initial_log_std": -1.1},
        "nearly SB3's defaults, returns normalised, less noise: 1,000 here after 30,000 steps, which is the most",
        NORMALISED,
    ),
    Preset(
        "ppo",
        "gymnasium:Reacher-v?",
        1_000_000,
        SB3_NORMALISED
        | rollouts(1, 512, 32)
        | {"learning_rate": 0.000104019, "epochs": 5, "discount": 0.9, "gae_lambda": 1.0, "clip": 0.3}
        | {"entropy_coefficient": 7.52585e-8, "value_coefficient": 2 * 0.950368, "max_gradient_norm": 0.9},
        ZOO,
        normalise_return(0.9),
    ),
    Preset("ppo", GAMES, 10_000_000, PONG, ATARI + "; a lost life is an end, as in Mnih et al. (2015)", LIVES),
    Preset("ppo", "envpool:Pong*", 10_000_000, PONG, ATARI, CLIPPED),
    Preset(
        "ppo",
        "minatar:*",
        5_000_000,
        SMALL_IMAGES,
        "batch sizes of Lu et al. (2022), PureJaxRL; learning rate for a CNN",
    ),
    Preset("ppo", "grid:*", 500_000, SMALL_IMAGES, "as for MinAtar; the usual 16 environments times four"),
    Preset("ppo", "jumanji:*", 1_000_000, SMALL_IMAGES, "as for MinAtar"),
    Preset("ppo", "brax:*", 1_000_000, MANY_ROBOTS, MUJOCO, NORMALISED),
    Preset("ppo", "playground:*", 1_000_000, MANY_ROBOTS, MUJOCO, NORMALISED),
    Preset("ppo", "jaxmarl:SMAX*", 3_000_000, TEAM | {"num_envs": 64}, "Rutherford et al. (2024), baselines, smaller"),
    Preset("ppo", "jaxmarl:MPE*", 1_000_000, TEAM | {"num_envs": 16}, "Rutherford et al. (2024), baselines"),
)

# DQN

PLAIN = {"double": False, "dueling": False, "n_step": 1, "final_learning_rate": 1.0}  # the DQN of 2015
WIDE_Q = PLAIN | {"hidden_sizes": (256, 256), "batch_size": 128}

DQN: tuple[Preset, ...] = (
    Preset(
        "dqn",
        "CartPole-masked",
        150_000,
        {"gru_size": 64, "num_envs": 4, "updates_per_rollout": 4, "batch_size": 32, "burn_in": 4, "unroll": 10},
        TUNED,
    ),
    Preset("dqn", "*CartPole*", 150_000, {}, TUNED),
    Preset("dqn", "Acrobot-v1", 100_000, {}, TUNED),
    Preset("dqn", "gymnasium:Acrobot-v1", 100_000, {}, OWN),
    Preset(
        "dqn",
        "gymnasium:MountainCar-v0",
        120_000,
        WIDE_Q
        | {"rollout_length": 16, "updates_per_rollout": 8, "learning_rate": 4e-3, "discount": 0.98}
        | {"learning_starts": 1000, "target_update_interval": 600},
        ZOO,
        replay(10_000) | greedy(0.07, 0.2),
    ),
    Preset(
        "dqn",
        "gymnasium:LunarLander-v3",
        100_000,
        WIDE_Q
        | {"rollout_length": 4, "updates_per_rollout": 4, "learning_rate": 6.3e-4}
        | {"learning_starts": 1, "target_update_interval": 250},
        ZOO,
        replay(50_000) | greedy(0.1, 0.12),
    ),
    Preset("dqn", TOY_TEXT, 100_000, {}, "as for CartPole"),
    Preset(
        "dqn",
        GAMES,
        10_000_000,
        PLAIN
        | {"rollout_length": 4, "learning_rate": 1e-4, "batch_size": 32}
        | {"learning_starts": 80_000, "target_update_interval": 1000},
        DQN_ATARI,
        replay(1_000_000) | greedy(0.01, 0.1) | LIVES,
    ),
    Preset(
        "dqn",
        "minatar:*",
        5_000_000,
        {"num_envs": 16, "rollout_length": 1, "batch_size": 64, "n_step": 1, "target_update_interval": 8000}
        | {"learning_rate": 2.5e-4, "learning_starts": 5000, "dueling": False},
        DQN_MINATAR,
    ),
)

# SAC and TD3: one update a step, as their fields have it, but where it says otherwise

TWO_LAYERS = {"hidden_sizes": (400, 300)}
WALKERS = "gymnasium:HalfCheetah-v? gymnasium:Ant-v? gymnasium:Hopper-v? gymnasium:Walker2d-v?"
SMALL_ROBOTS = "gymnasium:Inverted*Pendulum-v? gymnasium:Reacher-v? gymnasium:Pusher-v?"
HUMANOIDS = "gymnasium:Humanoid-v? gymnasium:HumanoidStandup-v?"
FEWER = ", with a smaller replay, so that three seeds take 3 GB"
SB3_TD3 = TWO_LAYERS | {"learning_rate": 1e-3}

SAC: tuple[Preset, ...] = (
    Preset("sac", "Pendulum-v1 gymnasium:Pendulum-v1", 20_000, {}, HAARNOJA),
    Preset(
        "sac",
        "gymnasium:MountainCarContinuous-v0",
        50_000,
        {"rollout_length": 32, "updates_per_rollout": 32, "batch_size": 512, "hidden_sizes": (64, 64)}
        | {"discount": 0.9999, "polyak": 0.01, "initial_temperature": 0.1, "learn_temperature": False}
        | {"learning_starts": 0, "state_dependent_noise": True, "initial_log_std": -3.67},
        ZOO,
        replay(50_000) | gsde_noise(32),
    ),
    Preset(
        "sac",
        "gymnasium:LunarLander*",
        500_000,
        TWO_LAYERS | {"learning_rate": 7.3e-4, "polyak": 0.01, "learning_starts": 10_000},
        ZOO + ", which lets the learning rate fall to zero",
        replay(1_000_000),
    ),
    Preset(
        "sac",
        "gymnasium:BipedalWalkerHardcore-v3",
        10_000_000,
        TWO_LAYERS
        | {"learning_rate": 7.3e-4, "polyak": 0.01, "learning_starts": 10_000}
        | {"initial_temperature": 0.005, "learn_temperature": False},
        ZOO + ", which lets the learning rate fall to zero",
        replay(1_000_000),
    ),
    Preset(
        "sac",
        "gymnasium:BipedalWalker-v3",
        500_000,
        TWO_LAYERS
        | {"rollout_length": 64, "updates_per_rollout": 64, "learning_rate": 7.3e-4, "discount": 0.98}
        | {"polyak": 0.02, "learning_starts": 10_000, "state_dependent_noise": True, "initial_log_std": -3.0},
        ZOO + ", which acts uniformly at first",
        replay(300_000) | gsde_noise(64),
    ),
    Preset("sac", WALKERS, 1_000_000, {"learning_starts": 10_000}, f"{HAARNOJA}, and {ZOO}", replay(1_000_000)),
    Preset("sac", SMALL_ROBOTS, 100_000, {}, HAARNOJA, replay(1_000_000)),
    Preset(
        "sac",
        "gymnasium:Swimmer-v?",
        1_000_000,
        {"learning_starts": 10_000, "discount": 0.999},
        ZOO,
        replay(1_000_000),
    ),
    Preset("sac", HUMANOIDS, 2_000_000, {"learning_starts": 10_000}, f"{HAARNOJA}{FEWER}", replay(300_000)),
)

TD3: tuple[Preset, ...] = (
    Preset("td3", "Pendulum-v1", 20_000, {}, "Fujimoto et al. (2018), table 3"),
    Preset("td3", "gymnasium:Pendulum-v1", 20_000, {}, "Fujimoto et al. (2018), table 3"),
    Preset(
        "td3",
        "gymnasium:MountainCarContinuous-v0",
        300_000,
        # SB3's Ornstein-Uhlenbeck noise has time steps of 0.01: it reverts by 0.0015 a step, to a deviation of 0.913.
        SB3_TD3 | {"exploration_noise": 0.913, "learning_starts": 100},
        ZOO + ", whose noise begins each episode at zero",
        replay(1_000_000) | {"behaviour": {"part": "ornstein-uhlenbeck", "reversion": 0.0015}},
    ),
    Preset(
        "td3",
        "gymnasium:LunarLander*",
        300_000,
        SB3_TD3 | {"discount": 0.98, "learning_starts": 10_000},
        ZOO,
        replay(200_000),
    ),
    Preset(
        "td3",
        "gymnasium:BipedalWalkerHardcore-v3",
        10_000_000,
        TWO_LAYERS | {"learning_rate": 7e-4, "learning_starts": 10_000},
        ZOO + ", which lets the learning rate fall to zero",
        replay(1_000_000),
    ),
    Preset(
        "td3",
        "gymnasium:BipedalWalker-v3",
        1_000_000,
        SB3_TD3 | {"discount": 0.98, "learning_starts": 10_000},
        ZOO,
        replay(200_000),
    ),
    Preset("td3", WALKERS, 1_000_000, {"learning_starts": 25_000}, FUJIMOTO, replay(1_000_000)),
    Preset("td3", SMALL_ROBOTS, 100_000, {}, "Fujimoto et al. (2018), table 3", replay(1_000_000)),
    Preset(
        "td3",
        "gymnasium:Swimmer-v?",
        1_000_000,
        SB3_TD3 | {"learning_starts": 10_000, "discount": 0.9999},
        ZOO,
        replay(1_000_000),
    ),
    Preset("td3", HUMANOIDS, 2_000_000, {"learning_starts": 25_000}, f"{FUJIMOTO}{FEWER}", replay(300_000)),
)

EARLY = {"learning_starts": 256}  # as soon as there is a batch

TQC: tuple[Preset, ...] = (
    Preset(
        "tqc",
        "gymnasium:HalfCheetah-v?",
        1_000_000,
        EARLY | {"dropped_quantiles": 0},
        KUZNETSOV,
        replay(1_000_000),
    ),
    Preset(
        "tqc",
        "gymnasium:Hopper-v?",
        1_000_000,
        EARLY | {"dropped_quantiles": 5},
        KUZNETSOV,
        replay(1_000_000),
    ),
    Preset("tqc", "gymnasium:Walker2d-v? gymnasium:Ant-v?", 1_000_000, EARLY, KUZNETSOV, replay(1_000_000)),
    Preset("tqc", "gymnasium:Humanoid-v?", 1_000_000, EARLY, f"{KUZNETSOV}{FEWER}", replay(300_000)),
)

BHATT = "Bhatt et al. (2024), the authors' code"

CROSSQ: tuple[Preset, ...] = (
    Preset("crossq", WALKERS, 1_000_000, {}, BHATT, replay(1_000_000)),
    Preset("crossq", "gymnasium:Swimmer-v?", 1_000_000, {"discount": 0.9999}, BHATT, replay(1_000_000)),
    Preset("crossq", "envpool:Reacher*-v1", 100_000, {}, BHATT, replay(1_000_000)),
    Preset("crossq", "envpool:BallInCupCatch-v1", 200_000, {}, BHATT, replay(1_000_000)),
    Preset("crossq", "envpool:FingerSpin-v1", 500_000, {}, BHATT, replay(1_000_000)),
    Preset("crossq", "envpool:FishSwim-v1 envpool:HumanoidStand-v1", 5_000_000, {}, BHATT, replay(1_000_000)),
)


OTHERS: tuple[Preset, ...] = (
    Preset("a2c", "CartPole-v1 gymnasium:CartPole-v1", 500_000, {"num_envs": 8}, ZOO),
    Preset(
        "ddpg",
        "Pendulum-v1 gymnasium:Pendulum-v1",
        20_000,
        SB3_TD3 | {"discount": 0.98, "learning_starts": 10_000},
        ZOO,
        replay(200_000),
    ),
    Preset(
        "qr-dqn",
        "CartPole-v1 gymnasium:CartPole-v1",
        50_000,
        PLAIN
        | {"hidden_sizes": (256, 256), "batch_size": 64, "rollout_length": 256, "updates_per_rollout": 128}
        | {"learning_rate": 2.3e-3, "learning_starts": 1000, "target_update_interval": 256, "quantiles": 10},
        ZOO,
        replay(100_000) | greedy(0.04, 0.16),
    ),
    Preset(
        "c51",
        "CartPole-v1 gymnasium:CartPole-v1",
        500_000,
        PLAIN | {"hidden_sizes": (120, 84), "rollout_length": 10, "learning_rate": 2.5e-4, "learning_starts": 10_000},
        "Huang et al. (2022), CleanRL's c51.py",
        replay(10_000) | greedy(0.05, 0.5),
    ),
    Preset(
        "pqn",
        "CartPole-v1 gymnasium:CartPole-v1",
        500_000,
        {"num_envs": 4, "rollout_length": 128},
        "CleanRL's pqn.py",
        greedy(0.05, 0.5),
    ),
    Preset("impala", "CartPole-v1 Acrobot-v1", 100_000, {"num_envs": 8, "learning_rate": 6e-3}, TUNED),
    Preset(
        "sac-discrete",
        "CartPole*",
        50_000,
        {"learning_rate": 1e-3, "batch_size": 128, "hidden_sizes": (64, 64), "target_entropy": 0.5, "polyak": 0.01}
        | {"num_envs": 1, "rollout_length": 1, "updates_per_rollout": 1},
        TUNED,
    ),
)

# From data sets: steps are updates.

LOCOMOTION = "gymnasium:HalfCheetah-v? gymnasium:Hopper-v? gymnasium:Walker2d-v?"

OFFLINE: tuple[Preset, ...] = (
    Preset(
        "iql",
        LOCOMOTION,
        1_000_000,
        {},
        "Kostrikov et al. (2021), the authors' mujoco_config.py, which scales rewards so that returns span 1,000",
    ),
    Preset(
        "cql",
        LOCOMOTION,
        3_000_000,
        {"conservatism": 5.0, "policy_learning_rate": 1e-4},
        "Kumar et al. (2020), the authors' README and cql_mujoco_new.py; they try a conservatism of 10, too",
    ),
)

PRESETS: tuple[Preset, ...] = (*PPO, *DQN, *SAC, *TD3, *TQC, *CROSSQ, *OTHERS, *OFFLINE)
"""Of an agent's, the first that fits counts."""


def presets_of(agent: str) -> list[Preset]:
    """Return the presets of an agent: the core's, or those of the package that adds the agent."""
    from forage.config import packages, registry

    if agent in registry.PORTS["agent"]:
        return [preset for preset in PRESETS if preset.agent == agent]
    target = registry.target_of("agent", agent)
    package = packages.package_of(target.partition(":")[0]) if target else None
    if package is None or not package.presets:
        return []
    found: Any = registry.load(package.presets)
    if not isinstance(found, tuple | list) or not all(isinstance(preset, Preset) for preset in found):
        raise ForageError(
            f"{package.presets} of the package {package.title} has to be a tuple of forage.config.presets.Preset."
        )
    return [preset for preset in found if preset.agent == agent]
