"""sbx: stable-baselines3's loop and buffers, the learning step compiled by JAX."""

from __future__ import annotations

import common
import sb3_family
from sbx import DQN, PPO, SAC, CrossQ

SECONDS_IMPORT = common.seconds_since_start()

if __name__ == "__main__":
    packages = ("sbx-rl", "stable-baselines3", "jax", "gymnasium", "mujoco")
    sb3_family.run({"ppo": PPO, "sac": SAC, "droq": SAC, "crossq": CrossQ, "dqn": DQN}, packages, SECONDS_IMPORT)
