"""The five kinds of randomness around any environment, each with a strength that is a number of the environment.

After Barsainyan, Lim, Liu (2025), "STORI: A Benchmark and Taxonomy for Stochastic Environments", arXiv 2509.01793,
whose types are: 1 action-dependent, 2.1 random events that do not depend on actions, 2.2 concept drift, 3.1 another
representation of the state, 3.2 missing state variables. There the effects are written for four Atari games; here for
any environment. At strength 0 an episode is bit for bit that of the bare environment (the last bit of what a
compiler fuses aside).
"""

from forage.environments.wrappers.randomness.action import ActionNoise
from forage.environments.wrappers.randomness.drift import Drift
from forage.environments.wrappers.randomness.missing import Missing
from forage.environments.wrappers.randomness.observation import ObservationNoise
from forage.environments.wrappers.randomness.reward import RewardNoise

__all__ = ["ActionNoise", "Drift", "Missing", "ObservationNoise", "RewardNoise"]
