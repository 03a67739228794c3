"""Reference state initialisation: episodes begin in any frame of the motion that is to be followed."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key, PyTree

from forage.core.ports import Environment, Starts, Tasks
from forage.core.ranges import Range, Ranges
from forage.core.types import ForageError


class Reference(Starts):
    """With `probability` an episode begins in a frame of the clip, each as likely, and else in the first.

    For environments wrapped in `motion`, which holds the clip. What comes late in a motion is thereby seen before what
    comes first was learned, and rewards are high there. Evaluation begins in the first frame.

    Source: Peng, Abbeel, Levine, van de Panne (2018), "DeepMimic: Example-Guided Deep Reinforcement Learning of
    Physics-Based Character Skills", arXiv 1804.02717; evenly, as in the authors' program (xbpeng/DeepMimic:
    scenes/SceneImitate.cpp, CalcRandKinResetTime).
    """

    example: ClassVar[str] = "forage train ppo Pendulum-v1 --wrap motion:swing.npz:0,1:2 --starts reference"
    ranges: ClassVar[Ranges] = {"probability": Range(0, 1)}

    probability: float = 1.0  # probability that an episode begins in any frame, as published; 0 is without this part

    def check(self, environment: Environment, tasks: Tasks) -> None:
        if not hasattr(environment, "at_frame") or "at_frame" not in dir(type(environment)):
            raise ForageError(
                f"Reference starts begin in frames of a motion, and {type(environment).__name__} holds none; wrap the "
                f"environment in one, last of all wrappers: --wrap motion:FILE:POSE:VELOCITY."
            )

    def begin(
        self, state: Any, environment: Environment, key: Key[Array, ""], index: Int[Array, ""]
    ) -> tuple[Any, PyTree[Array], tuple[()]]:
        coin_key, frame_key = jax.random.split(key)
        motion: Any = environment
        frame = jax.random.randint(frame_key, (), 0, motion.frames - 1)
        frame = jnp.where(jax.random.uniform(coin_key) < self.probability, frame, 0).astype(jnp.int32)
        return *motion.at_frame(frame), ()
