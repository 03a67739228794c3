"""Weights sampled by noisy descent explore a long chain: Ishfaq and others (2023)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from forage.environments.tabular.mdp import Tabular, TabularState
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, area


class NChain(Tabular):
    """States in a row, begun in the second; 0.001 at the left end, 1 at the right; an episode has 9 steps more.

    What is seen of state s is 1 for each of the states up to it (Osband, Blundell, Pritzel, Van Roy, 2016, arXiv
    1602.04621, section 5.1).
    """

    def _observe(self, state: TabularState) -> Float[Array, " state"]:
        return (jnp.arange(self.num_states) <= state.index).astype(jnp.float32)


def n_chain(size: int = 25) -> NChain:
    """Return the chain of this many states."""
    states = np.arange(size)
    transition, reward = np.zeros((size, 2, size)), np.zeros((size, 2))
    transition[states, 0, np.maximum(states - 1, 0)] = 1
    transition[states, 1, np.minimum(states + 1, size - 1)] = 1
    reward[0], reward[-1] = 0.001, 1.0
    return NChain(transition, reward, np.eye(size)[1], np.zeros(size, bool), size + 9)


SMALL = {"hidden_sizes": (32, 32)}
LIKE_LANGEVIN = {
    "learning_rate": 1e-3,
    "final_learning_rate": 1.0,
    "target_update_interval": 100,
    "dueling": False,
    "n_step": 1,
}
MIDDLE = {"inverse_temperature": 1e14, "bias_factor": 0.1}  # of what the authors searched

CLAIM = Claim(
    title="Provable and Practical: Efficient Exploration in Reinforcement Learning via Langevin Monte Carlo",
    authors="Ishfaq, Lan, Xu, Mahmood, Precup, Anandkumar, Azizzadenesheli",
    year=2023,
    arxiv="2305.18246",
    statement="Acting greedily on value functions sampled by Langevin Monte Carlo finds the far end of a long chain, "
    "where epsilon-greedy actions and a greedy agent without the noise do not.",
    environment=n_chain,
    arms={
        "epsilon-greedy": Arm("dqn", SMALL | LIKE_LANGEVIN),
        "without noise": Arm("langevin-dqn", SMALL | {"inverse_temperature": float("inf")}),
        "langevin": Arm("langevin-dqn", SMALL),
    },
    treatment="langevin",
    baselines=("epsilon-greedy", "without noise"),
    measure=area,
    measured="mean return over training",
    laptop=Scale(20_000, tuple(range(1000, 1008))),
    smoke=Scale(1500, (1000, 1001)),
    paper=Paper(
        "gymnasium:ALE/Freeway-v5",
        12_500_000,
        5,
        "a GPU and days",
        {
            "learning_rate": 1e-4,
            "batch_size": 32,
            "rollout_length": 10,
            "n_step": 3,
            "target_update_interval": 5000,
        },
        arms={"langevin": MIDDLE, "without noise": {"bias_factor": 0.1}},
    ),
    note="The chain of the paper's first experiments, with 25 states.",
)
