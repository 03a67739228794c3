"""Rainbow: a C51 with double targets, dueling streams, prioritised replay, longer returns and noisy layers.

Hessel, Modayil, van Hasselt, Schaul, Ostrovski, Dabney, Horgan, Piot, Azar, Silver (2017), "Rainbow: Combining
Improvements in Deep Reinforcement Learning", arXiv 1710.02298. The parts are `c51`'s, with the paper's three-step
returns, `prioritised` memory, whose priorities are the divergences of predictions from their targets, and noisy layers
(`nn/noisy.py`), by which it explores instead of by random actions.

Differences from the paper: sizes, learning rate, target interval and atoms are C51's for small tasks; for Atari the
paper has 51 atoms from -10 to 10, Adam with a step of 6.25e-5 and an epsilon of 1.5e-4, priorities to the power 0.5,
80,000 frames before learning, and 32,000 between two target networks. All layers behind the convolutions are noisy
there, here those of the streams. The choice of a' has the noise of the online network's values, in the paper a third
draw. Evaluation is without noise, and the first `learning_starts` actions are uniform.
"""

from __future__ import annotations

from typing import ClassVar

import equinox

from forage.agents.q_learning.c51 import C51


class Rainbow(C51):
    """All improvements of DQN in one agent (Hessel et al., 2017, arXiv 1710.02298), with C51's sizes."""

    example: ClassVar[str] = "forage train rainbow CartPole-v1"

    usual_behaviour: ClassVar[str] = "policy"
    usual_memory: ClassVar[str] = "prioritised"

    n_step: int = equinox.field(static=True, default=3)
    noisy: bool = equinox.field(static=True, default=True)  # the streams have noisy layers, by which it explores
