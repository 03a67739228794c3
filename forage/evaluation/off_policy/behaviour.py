"""The behaviour of a log that does not say how probable its actions were: fitted twice, judged on held-out episodes.

Columns of an action are fitted one after another, each given the observation and the columns before it. Numbers are
normal around a fitted mean.

| fit | choices | numbers |
|---|---|---|
| `trees` | shares in the leaves of trees, averaged | mean and variance in the leaves, averaged |
| `linear` | multinomial logistic regression | least squares with one variance |

Each half of the episodes is judged by the fit to the other half.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import optimize

from forage.evaluation.off_policy.trees import bin_columns, column_cuts, grow_tree

TREES, LEAVES, LEAST = 8, 64, 20
RARE = 0.02
"""The log hardly has an action less probable than this."""
FAR = 3.0
"""The log hardly has numbers further than this from the fitted mean, in standard deviations."""
NARROWEST = 1e-3  # standard deviation of a fitted number, of 1 in the data

Columns = Float[np.ndarray, "row column"]


class ActionOdds(NamedTuple):
    """Probabilities of actions by a fit, row by row."""

    logarithm: Float[np.ndarray, " row"]  # of the probability, or of the density of numbers
    rare: Bool[np.ndarray, " row"]


@dataclasses.dataclass(frozen=True)
class Behaviour:
    """A fitted behaviour, of rows that its fit has not seen."""

    name: str
    logged: ActionOdds  # the logged actions
    policy: Float[np.ndarray, " row"]  # probability that the policy takes an action that the log hardly has there
    log_loss: float  # mean of -log b(a|o)
    plain_loss: float  # the same of the shares of actions, or of one normal distribution, without observations
    reliability: float  # see `reliability_error`


def fit_behaviours(
    observed: Columns,
    action: np.ndarray,
    counts: list[int] | None,
    episode: Int[np.ndarray, " row"],
    answered: np.ndarray,
    probability: Float[np.ndarray, "choice row"],
    seed: int = 0,
) -> list[Behaviour]:
    """Return the fits, the one of the least log-loss first.

    `observed`: columns of the observations. `action`: the logged ones, `row column`: choices from 0 with their
    `counts`, or numbers if that is `None`. `answered`: the policy's actions, `choice row column`, with their
    `probability`.
    """
    halves = np.random.default_rng(seed).permutation(int(episode[-1]) + 1) % 2
    half = halves[episode] == 0
    scale = np.maximum(action.std(0), 1e-9) if counts is None else np.ones(action.shape[1])
    action, answered = action / scale, answered / scale
    if counts is not None:
        action, answered = action.astype(np.int64), answered.astype(np.int64)
    found = []
    for name in ("trees", "linear"):
        logged = ActionOdds(np.zeros(len(action)), np.zeros(len(action), bool))
        policy, errors = np.zeros(len(action)), []
        for known in (half, ~half):
            judge = _fit_chain(name, observed[known], action[known], counts, seed)
            held = ~known
            for part, place in zip(judge(observed[held], action[held])[0], logged, strict=True):
                place[held] = part
            for weight, one in zip(probability, answered, strict=True):
                policy[held] += weight[held] * judge(observed[held], one[held])[0].rare
            errors.append(judge(observed[held], action[held])[1])
        plain = -_plain_logarithm(action, counts).mean()
        told = ActionOdds(logged.logarithm - np.log(scale).sum(), logged.rare)
        loss = float(-told.logarithm.mean())
        found.append(Behaviour(name, told, policy, loss, float(plain + np.log(scale).sum()), float(np.mean(errors))))
    return sorted(found, key=lambda one: one.log_loss)


Judge = Callable[[Columns, np.ndarray], tuple[ActionOdds, float]]
Leaves = Callable[[Columns], list[Int[np.ndarray, " row"]]]
Choices = Callable[[Columns], Float[np.ndarray, "row choice"]]
Normal = Callable[[Columns], tuple[Float[np.ndarray, " row"], Float[np.ndarray, " row"]]]


def _fit_chain(name: str, observed: Columns, action: np.ndarray, counts: list[int] | None, seed: int) -> Judge:
    """Fit the columns of an action one after another; return a function that judges actions and the reliability."""
    fits: list[Any] = []
    for i in range(action.shape[1]):
        inputs = _chain_inputs(observed, action, counts, i)
        if counts is None:
            fits.append((_normal_trees if name == "trees" else _normal_linear)(inputs, action[:, i], seed + i))
        else:
            fit = _choice_trees if name == "trees" else _choice_linear
            fits.append(fit(inputs, action[:, i], counts[i], seed + i))

    def judge(observed: Columns, action: np.ndarray) -> tuple[ActionOdds, float]:
        rows = np.arange(len(action))
        logarithm, rare, errors = np.zeros(len(action)), np.zeros(len(action), bool), []
        for i, fit in enumerate(fits):
            found = fit(_chain_inputs(observed, action, counts, i))
            if counts is None:
                mean, deviation = found
                off = (action[:, i] - mean) / deviation
                logarithm -= 0.5 * off**2 + np.log(deviation) + 0.5 * np.log(2 * np.pi)
                rare |= np.abs(off) > FAR
                errors.append(abs(np.mean(np.abs(off) < 1.6449) - 0.9))
            else:
                logarithm += np.log(found[rows, action[:, i]])
                errors.append(reliability_error(found, action[:, i]))
        return ActionOdds(logarithm, rare if counts is None else logarithm < np.log(RARE)), float(np.mean(errors))

    return judge


def reliability_error(probability: Float[np.ndarray, "row choice"], choice: Int[np.ndarray, " row"]) -> float:
    """Return the mean gap between stated and observed frequencies of choices, in ten bins of stated ones.

    Source: Naeini, Cooper and Hauskrecht, 2015, "Obtaining Well Calibrated Probabilities Using Bayesian Binning", AAAI.
    """
    stated = probability.ravel()
    taken = (np.arange(probability.shape[1]) == choice[:, None]).ravel()
    place = np.minimum((stated * 10).astype(int), 9)
    return float(np.abs(np.bincount(place, stated - taken, 10)).sum() / len(stated))


def _chain_inputs(observed: Columns, action: np.ndarray, counts: list[int] | None, column: int) -> Columns:
    """Return the inputs of a column of the action: the observation and the columns before it."""
    before = [action[:, [j]] if counts is None else np.eye(counts[j])[action[:, j]] for j in range(column)]
    return np.concatenate([observed, *before], 1)


def _plain_logarithm(action: np.ndarray, counts: list[int] | None) -> Float[np.ndarray, " row"]:
    """Return the logarithm of each action's share in the data, or its density by one normal distribution."""
    found = np.zeros(len(action))
    for i in range(action.shape[1]):
        if counts is None:
            deviation = max(float(action[:, i].std()), NARROWEST)
            off = (action[:, i] - action[:, i].mean()) / deviation
            found -= 0.5 * off**2 + np.log(deviation) + 0.5 * np.log(2 * np.pi)
        else:
            share = (np.bincount(action[:, i], minlength=counts[i]) + 1) / (len(action) + counts[i])
            found += np.log(share)[action[:, i]]
    return found


def _grow_forest(inputs: Columns, targets: list[np.ndarray], random: np.random.Generator) -> tuple[Leaves, list[int]]:
    """Return a function from inputs to the leaves of trees, each grown on half of the rows, and the leaves here."""
    cuts = column_cuts(inputs)
    bins = bin_columns(inputs, cuts)
    trees = []
    for target in targets:
        some = random.random(len(inputs)) < 0.5
        trees.append(grow_tree(bins[some], target[some], LEAVES, LEAST))

    def leaves(inputs: Columns) -> list[Int[np.ndarray, " row"]]:
        bins = bin_columns(inputs, cuts)
        return [tree.leaf_of(bins) for tree in trees]

    return leaves, [tree.leaves for tree in trees]


def _choice_trees(inputs: Columns, choice: Int[np.ndarray, " row"], count: int, seed: int) -> Choices:
    """Fit trees that part random groups of choices from the others; return a function to probabilities."""
    random = np.random.default_rng(seed)
    signs = [random.permutation(np.arange(count) % 2).astype(float) for _ in range(TREES)]
    leaves, sizes = _grow_forest(inputs, [sign[choice] for sign in signs], random)
    prior = (np.bincount(choice, minlength=count) + 1) / (len(choice) + count)
    shares = []
    for leaf, size in zip(leaves(inputs), sizes, strict=True):
        table = np.bincount(leaf * count + choice, minlength=size * count).reshape(size, count) + prior
        shares.append(table / table.sum(1, keepdims=True))
    return lambda inputs: np.mean([share[leaf] for share, leaf in zip(shares, leaves(inputs), strict=True)], axis=0)


def _normal_trees(inputs: Columns, number: Float[np.ndarray, " row"], seed: int) -> Normal:
    """Fit trees to a number; return a function to its mean and standard deviation."""
    leaves, sizes = _grow_forest(inputs, [number] * TREES, np.random.default_rng(seed))
    tables = []
    for leaf, size in zip(leaves(inputs), sizes, strict=True):
        rows = np.bincount(leaf, minlength=size)
        moments = [np.bincount(leaf, number**k, size) / np.maximum(rows, 1) for k in (1, 2)]
        tables.append(moments)

    def moments_of(inputs: Columns) -> tuple[np.ndarray, np.ndarray]:
        found = [(m[leaf], s[leaf]) for (m, s), leaf in zip(tables, leaves(inputs), strict=True)]
        mean, square = np.mean(found, axis=0)
        return mean, np.sqrt(np.maximum(square - mean**2, NARROWEST**2))

    return moments_of


def _normal_linear(inputs: Columns, number: Float[np.ndarray, " row"], seed: int) -> Normal:
    """Fit least squares with a small ridge; return a function to mean and standard deviation."""
    x = np.concatenate([np.ones((len(inputs), 1)), inputs], 1)
    weight = np.linalg.solve(x.T @ x + 1e-6 * len(x) * np.eye(x.shape[1]), x.T @ number)
    deviation = max(float((number - x @ weight).std()), NARROWEST)
    return lambda inputs: (weight[0] + inputs @ weight[1:], np.full(len(inputs), deviation))


def _choice_linear(inputs: Columns, choice: Int[np.ndarray, " row"], count: int, seed: int) -> Choices:
    """Fit multinomial logistic regression with a small ridge; return a function to probabilities."""
    x, hit = np.concatenate([np.ones((len(inputs), 1)), inputs], 1), np.eye(count)[choice]
    ridge = np.full((x.shape[1], 1), 1.0 / len(x))
    ridge[0] = 0

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weight = flat.reshape(x.shape[1], count)
        probability = _softmax(x @ weight)
        value = -np.log(probability[np.arange(len(x)), choice] + 1e-300).mean()
        value += 0.5 * (ridge * weight**2).sum()
        return float(value), (x.T @ (probability - hit) / len(x) + ridge * weight).ravel()

    found = optimize.minimize(loss, np.zeros(x.shape[1] * count), jac=True, method="L-BFGS-B", options={"maxiter": 100})
    weight = found.x.reshape(x.shape[1], count)
    return lambda inputs: np.maximum(_softmax(weight[0] + inputs @ weight[1:]), 1e-6)


def _softmax(x: Float[np.ndarray, "row choice"]) -> Float[np.ndarray, "row choice"]:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)
