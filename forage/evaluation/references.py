"""Scores on a common scale: between the references of random play and of a human or an expert.

    normalised = (score - low) / (high - low)

Sources of the tables:
Atari: Wang et al., 2016, "Dueling Network Architectures for Deep Reinforcement Learning", arXiv:1511.06581, appendix:
up to 30 no-ops at the start, 30 minutes an episode, a professional tester of Mnih et al., 2015. As used by Badia et
al., 2020, "Agent57", arXiv:2003.13350, and by the Atari 100k benchmark. The table of Mnih et al., 2015, itself cuts
episodes at 5 minutes and differs.
D4RL: Fu et al., 2020, "D4RL: Datasets for Deep Data-Driven Reinforcement Learning", arXiv:2004.07219, and the
reference scores in `d4rl/infos.py` of Farama-Foundation/D4RL, which differ between versions of some environments.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from forage.core.errors import ForageError, did_you_mean

# Game: random, human.
ATARI: dict[str, tuple[float, float]] = {
    "Alien": (227.8, 7127.7),
    "Amidar": (5.8, 1719.5),
    "Assault": (222.4, 742.0),
    "Asterix": (210.0, 8503.3),
    "Asteroids": (719.1, 47388.7),
    "Atlantis": (12850.0, 29028.1),
    "BankHeist": (14.2, 753.1),
    "BattleZone": (2360.0, 37187.5),
    "BeamRider": (363.9, 16926.5),
    "Berzerk": (123.7, 2630.4),
    "Bowling": (23.1, 160.7),
    "Boxing": (0.1, 12.1),
    "Breakout": (1.7, 30.5),
    "Centipede": (2090.9, 12017.0),
    "ChopperCommand": (811.0, 7387.8),
    "CrazyClimber": (10780.5, 35829.4),
    "Defender": (2874.5, 18688.9),
    "DemonAttack": (152.1, 1971.0),
    "DoubleDunk": (-18.6, -16.4),
    "Enduro": (0.0, 860.5),
    "FishingDerby": (-91.7, -38.7),
    "Freeway": (0.0, 29.6),
    "Frostbite": (65.2, 4334.7),
    "Gopher": (257.6, 2412.5),
    "Gravitar": (173.0, 3351.4),
    "Hero": (1027.0, 30826.4),
    "IceHockey": (-11.2, 0.9),
    "Jamesbond": (29.0, 302.8),
    "Kangaroo": (52.0, 3035.0),
    "Krull": (1598.0, 2665.5),
    "KungFuMaster": (258.5, 22736.3),
    "MontezumaRevenge": (0.0, 4753.3),
    "MsPacman": (307.3, 6951.6),
    "NameThisGame": (2292.3, 8049.0),
    "Phoenix": (761.4, 7242.6),
    "Pitfall": (-229.4, 6463.7),
    "Pong": (-20.7, 14.6),
    "PrivateEye": (24.9, 69571.3),
    "Qbert": (163.9, 13455.0),
    "Riverraid": (1338.5, 17118.0),
    "RoadRunner": (11.5, 7845.0),
    "Robotank": (2.2, 11.9),
    "Seaquest": (68.4, 42054.7),
    "Skiing": (-17098.1, -4336.9),
    "Solaris": (1236.3, 12326.7),
    "SpaceInvaders": (148.0, 1668.7),
    "StarGunner": (664.0, 10250.0),
    "Surround": (-10.0, 6.5),
    "Tennis": (-23.8, -8.3),
    "TimePilot": (3568.0, 5229.2),
    "Tutankham": (11.4, 167.6),
    "UpNDown": (533.4, 11693.2),
    "Venture": (0.0, 1187.5),
    "VideoPinball": (16256.9, 17667.9),
    "WizardOfWor": (563.5, 4756.5),
    "YarsRevenge": (3092.9, 54576.9),
    "Zaxxon": (32.5, 9173.3),
}


_LOCOMOTION = (
    ("halfcheetah", -280.178953, 12135.0),
    ("hopper", -20.272305, 3234.3),
    ("walker2d", 1.629008, 4592.3),
    ("ant", -325.6, 3879.7),
)
_GYM = ("random", "medium", "expert", "medium-replay", "medium-expert")
_ADROIT = ("human", "cloned", "expert")
_MAZES = ("umaze", "umaze-diverse", "medium-play", "medium-diverse", "large-play", "large-diverse")

# Environment, whose datasets share its scores: random, expert (or what D4RL has in its place), versions, datasets.
_FAMILIES: tuple[tuple[str, float, float, str, tuple[str, ...]], ...] = (
    *((name, low, high, "012", _GYM) for name, low, high in _LOCOMOTION),
    *((name, low, high, "12", ("full-replay",)) for name, low, high in _LOCOMOTION),
    ("pen", 96.262799, 3076.8331017826877, "01", _ADROIT),
    ("hammer", -274.856578, 12794.134825156867, "01", _ADROIT),
    ("door", -56.512833, 2880.5693087298737, "01", _ADROIT),
    ("relocate", -6.425911, 4233.877797728884, "01", _ADROIT),
    ("bullet-halfcheetah", -1275.766996, 2381.6725, "0", _GYM),
    ("bullet-hopper", 20.058972, 1441.8059623430963, "0", _GYM),
    ("bullet-walker2d", 16.523877, 1623.6476303317536, "0", _GYM),
    ("bullet-ant", 373.705955, 2650.495, "0", _GYM),
    ("antmaze", 0.0, 1.0, "02", _MAZES),
    ("kitchen", 0.0, 4.0, "0", ("complete", "partial", "mixed")),
    ("flow-ring", -165.22, 24.42, "0", ("random", "controller")),
    ("flow-merge", 118.67993, 330.03179, "0", ("random", "controller")),
)

# Dataset: random, expert.
D4RL: dict[str, tuple[float, float]] = {
    **{f"{name}-{kind}-v{v}": (low, high) for name, low, high, vs, kinds in _FAMILIES for kind in kinds for v in vs},
    "maze2d-open-v0": (0.01, 20.66),
    "maze2d-umaze-v1": (23.85, 161.86),
    "maze2d-medium-v1": (13.13, 277.39),
    "maze2d-large-v1": (6.7, 273.99),
    "maze2d-open-dense-v0": (11.17817, 27.166538620695782),
    "maze2d-umaze-dense-v1": (68.537689, 193.66285642381482),
    "maze2d-medium-dense-v1": (44.264742, 297.4552547777125),
    "maze2d-large-dense-v1": (30.569041, 303.4857382709002),
    "bullet-maze2d-open-v0": (8.75, 64.15),
    "bullet-maze2d-umaze-v0": (32.46, 153.99),
    "bullet-maze2d-medium-v0": (14.87, 238.05),
    "bullet-maze2d-large-v0": (1.82, 285.92),
    "minigrid-fourrooms-v0": (0.01442, 2.89685),
    "minigrid-fourrooms-random-v0": (0.01442, 2.89685),
    "carla-lane-v0": (-0.8503839912088142, 1023.5784385429523),
    "carla-town-v0": (-114.81579500772153, 2440.1772022247314),
}


def human_normalised(scores: Float[np.ndarray, "*shape"], games: str | Sequence[str]) -> Float[np.ndarray, "*shape"]:
    """Atari returns on the scale of 0 for random play to 1 for a person.

    `games` is one for all scores, or one for each entry of the last axis (tasks). A game goes by any name of its
    environment: `MsPacman`, `ms_pacman`, `ALE/MsPacman-v5`, `MsPacmanNoFrameskip-v4`.
    """
    return _normalise(scores, games, ATARI, _game, "Atari game")


def human_bounds(game: str) -> tuple[float, float]:
    """Return the Atari returns of random play and of a person, which `human_normalised` takes to 0 and 1."""
    return _bounds(game, ATARI, _game, "Atari game")


def expert_normalised(
    scores: Float[np.ndarray, "*shape"], datasets: str | Sequence[str]
) -> Float[np.ndarray, "*shape"]:
    """Return on D4RL's tasks on the scale of 0 for random play to 1 for an expert; papers print 100 times that.

    `datasets` is one for all scores, or one for each entry of the last axis (tasks), such as `halfcheetah-medium-v2`.
    """
    return _normalise(scores, datasets, D4RL, str.lower, "D4RL dataset")


def min_max_normalised(
    scores: Float[np.ndarray, "*shape"],
    low: float | Float[np.ndarray, " tasks"],
    high: float | Float[np.ndarray, " tasks"],
) -> Float[np.ndarray, "*shape"]:
    """Scores on the scale of 0 at `low` to 1 at `high`: one each for all, or one for each entry of the last axis.

    Take both from elsewhere than the scores themselves, or a run's score depends on the runs beside it.
    """
    scores, low, high = np.asarray(scores, np.float64), np.asarray(low, np.float64), np.asarray(high, np.float64)
    tasks = scores.shape[-1:]
    if any(bound.shape not in ((), tasks) for bound in (low, high)):
        raise ForageError(
            f"Bounds are one number for all scores or one for each task, the last axis of {scores.shape}, and have "
            f"shapes {low.shape} and {high.shape}."
        )
    if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise ForageError("Scores are normalised between a finite low and a finite high above it, and these are not.")
    return (scores - low) / (high - low)


def _normalise(
    scores: Any,
    names: str | Sequence[str],
    table: Mapping[str, tuple[float, float]],
    key: Callable[[str], str],
    kind: str,
) -> np.ndarray:
    bounds = [_bounds(name, table, key, kind) for name in ([names] if isinstance(names, str) else names)]
    low, high = np.array(bounds).reshape(-1, 2).T
    if isinstance(names, str):
        low, high = low[0], high[0]
    return min_max_normalised(scores, low, high)


def _bounds(
    name: str, table: Mapping[str, tuple[float, float]], key: Callable[[str], str], kind: str
) -> tuple[float, float]:
    spelled = {key(name): name for name in table}
    if key(name) not in spelled:
        near = difflib.get_close_matches(key(name), spelled, n=1, cutoff=0.0)[0]
        raise ForageError(f"There are no reference scores of the {kind} {name!r}{did_you_mean([spelled[near]])}")
    return table[spelled[key(name)]]


def _game(name: str) -> str:
    """Return a game's name in lower-case letters alone, for any form of its environment's id."""
    name = re.sub(r"-v\d+$", "", name.split("/")[-1].split(":")[-1])
    name = re.sub(r"(-ram|-?NoFrameskip|-?Deterministic)+$", "", name)
    return re.sub(r"[^a-z0-9]", "", name.lower())
