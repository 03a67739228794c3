"""The most accurate estimator is not the one to choose policies by: Kiyohara and others (2024)."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from forage.config.saved import load_policy
from forage.environments.tabular.makers import seeded_garnet
from forage.environments.tabular.mdp import Tabular
from forage.environments.tabular.values import expected_return
from forage.evaluation.off_policy import ESTIMATORS, Target, log_episodes, tabular_policy
from forage.evaluation.off_policy.selection import normalised_mse, sharpe_ratio
from forage.evaluation.statistics import student_interval
from forage.runs.run import Run
from forage.studies.claims.claim import Arm, Claim, Effect, Paper, Rule, Scale, judged

DISCOUNT, EPISODES, TRIED = 0.9, 50, 3
NAMES = ("is", "wis", "pdis", "wpdis", "fqe", "dr")
SHARES = (0.1, 0.3, 0.7, 0.9)  # of random actions in the policies to choose among; the behaviour has a half


def candidates(greedy: Float[np.ndarray, "state action"], seed: int) -> list[Float[np.ndarray, "state action"]]:
    """Return eight policies: a learned one with random actions, and each of these mixed with a policy by chance."""
    states, actions = greedy.shape
    soft = [(1 - share) * greedy + share / actions for share in SHARES]
    draw = np.random.default_rng(seed)
    return soft + [0.7 * draw.dirichlet(np.full(actions, 0.3), states) + 0.3 * table for table in soft]


def lost_of(mdp: Tabular, greedy: Float[np.ndarray, "state action"], seed: int) -> float:
    """Return the share of the best SharpeRatio@3 that the estimator of least squared error does not reach."""
    behaviour, tables = 0.5 * greedy + 0.5 / greedy.shape[1], candidates(greedy, seed)
    log = log_episodes(mdp, tabular_policy(behaviour), EPISODES, seed=seed)
    values = [float(expected_return(mdp, jnp.asarray(table), DISCOUNT)) for table in tables]
    baseline = float(expected_return(mdp, jnp.asarray(behaviour), DISCOUNT))
    errors, ratios = [], []
    for name in NAMES:
        told = [ESTIMATORS[name](Target(log, tabular_policy(table), DISCOUNT)).mean() for table in tables]
        errors.append(normalised_mse(told, values))
        ratios.append(sharpe_ratio(told, values, TRIED, baseline))
    best = max(ratios)
    return 1 - ratios[int(np.argmin(errors))] / best if best > 0 else 0.0


def lost(run: Run) -> list[float]:
    """Return what is lost for each seed, whose greedy policy the others are made of."""
    mdp, found = seeded_garnet(), []
    for seed in run.config["seeds"]:
        table = load_policy(run.directory, seed).probabilities(np.eye(mdp.num_states, dtype=np.float32))
        found.append(lost_of(mdp, np.asarray(table, np.float64), seed))
    return found


def above_the_margin(values: Mapping[str, np.ndarray], rule: Rule) -> list[Effect]:
    """Return the mean share that is lost, with its interval."""
    ((label, shares),) = values.items()
    low, high = student_interval(np.asarray(shares), rule.confidence)
    return [Effect(label, float(np.mean(shares)), low, high, judged(low, high, rule.margin))]


CLAIM = Claim(
    title="Towards Assessing and Benchmarking Risk-Return Tradeoff of Off-Policy Evaluation",
    authors="Kiyohara, Kishimoto, Kawakami, Kobayashi, Nakata, Saito",
    year=2024,
    arxiv="2311.18207",
    statement="Choosing an estimator by its squared error loses more than a twentieth of the SharpeRatio@3 that the "
    "best of six estimators has.",
    environment="tabular:Garnet-20",
    arms={"policies of Q-learning": Arm("q-learning", {"learning_rate": 0.3, "discount": DISCOUNT})},
    treatment="the most accurate estimator",
    baselines=("policies of Q-learning",),
    measure=lost,
    measured="share of the best SharpeRatio@3 that is lost",
    laptop=Scale(5000, tuple(range(1000, 1020))),
    smoke=Scale(200, (1000, 1001)),
    paper=Paper("gymnasium:CartPole-v1", 100_000, 10, "hours", lacks="its candidates and logs"),
    rule=Rule(margin=0.05),
    note="Eight policies made of a learned one, and 50 logged episodes, in a random MDP whose values are known, "
    "in place of deep agents. 20 seeds, as one takes seconds. `forage select` shows the same numbers of runs.",
    judge=above_the_margin,
    judged_by="The effect is the mean share of the best SharpeRatio@3 that the estimator of least normalised squared "
    "error does not reach. The claim holds where its whole 95 % interval lies above 0.05, fails where it lies below.",
)
