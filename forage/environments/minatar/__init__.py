"""The five MinAtar games in JAX, equal to the `minatar` package step for step.

Kenny Young, Tian Tian (2019), "MinAtar: An Atari-Inspired Testbed for Thorough and Reproducible Reinforcement Learning
Experiments", arXiv 1903.03176.
"""

from forage.environments.minatar.asterix import Asterix
from forage.environments.minatar.breakout import Breakout
from forage.environments.minatar.common import MinAtar
from forage.environments.minatar.freeway import Freeway
from forage.environments.minatar.seaquest import Seaquest
from forage.environments.minatar.space_invaders import SpaceInvaders

__all__ = ["Asterix", "Breakout", "Freeway", "MinAtar", "Seaquest", "SpaceInvaders"]
