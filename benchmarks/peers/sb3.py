"""stable-baselines3: PyTorch, Gymnasium environments stepped one after another in the process."""

from __future__ import annotations

import common
import sb3_family
from stable_baselines3 import DQN, PPO, SAC

SECONDS_IMPORT = common.seconds_since_start()

if __name__ == "__main__":
    packages = ("stable-baselines3", "torch", "gymnasium", "mujoco")
    sb3_family.run({"ppo": PPO, "sac": SAC, "dqn": DQN}, packages, SECONDS_IMPORT)
