"""Double Q-learning over-estimates less: van Hasselt, Guez and Silver (2015)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from forage.config.saved import load_policy
from forage.environments.tabular.makers import seeded_garnet
from forage.environments.tabular.mdp import Tabular
from forage.environments.tabular.values import optimal
from forage.environments.wrappers.randomness.reward import RewardNoise
from forage.runs.run import Run
from forage.studies.claims.claim import Arm, Claim, Paper, Rule, Scale

DISCOUNT = 0.9
LACKS = "the true values of a game, which the paper estimates from the returns of the trained agent"
OPTIONS = {"discount": DISCOUNT, "n_step": 1, "dueling": False, "learning_rate": 1e-3, "final_learning_rate": 1.0}


def mdp() -> Tabular:
    """Return a random MDP of 20 states, 8 actions and episodes of 50 steps."""
    return seeded_garnet(seed=7, states=20, actions=8, max_steps=50)


def environment() -> RewardNoise:
    return RewardNoise(mdp(), 1.0)


def over_estimation(run: Run) -> list[float]:
    """For each seed, how far the value of the best action lies above what is true, averaged over all states."""
    truth = optimal(mdp(), DISCOUNT).values
    states = jnp.eye(truth.shape[0])  # as an agent sees them
    found = []
    for seed in run.config["seeds"]:
        policy = load_policy(run.directory, seed)
        q = jax.vmap(policy.state.network)(states)
        found.append(float(np.mean(q.max(-1) - truth)))
    return found


CLAIM = Claim(
    title="Deep Reinforcement Learning with Double Q-learning",
    authors="van Hasselt, Guez, Silver",
    year=2015,
    arxiv="1509.06461",
    statement="Double Q-learning lowers the over-estimation of action values that the maximum brings about.",
    environment=environment,
    arms={"DQN": Arm("dqn", OPTIONS | {"double": False}), "double DQN": Arm("dqn", OPTIONS | {"double": True})},
    treatment="double DQN",
    baselines=("DQN",),
    measure=over_estimation,
    measured="mean over states of max Q - max Q*",
    laptop=Scale(50_000),
    smoke=Scale(1500, (1000, 1001)),
    paper=Paper("gymnasium:ALE/Pong-v5", 50_000_000, 6, "a GPU and days", lacks=LACKS),
    rule=Rule(higher=False),
    note="A random MDP whose true values are known by linear algebra, with noisy rewards, in place of Atari games.",
)
