"""The value of a policy that was never run, from a log of another: estimates, intervals, overlap and warnings.

For actions that are one choice, several choices or numbers. Fitted Q evaluation gives the value
(`estimators/cross_fitted_q.py`). Where the actions are choices, doubly robust and weighted importance sampling stand
beside it, with the probabilities of the log or with a fitted behaviour (`behaviour.py`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from typing import Any

import gymnasium
import jax
import numpy as np
from jaxtyping import Bool, Float, PyTree

from forage.core.types import ForageError
from forage.data.logged import EPISODE_FIELDS, OPTIONAL_FIELDS, LoggedEpisodes, Transitions
from forage.evaluation.off_policy.behaviour import Behaviour, fit_behaviours
from forage.evaluation.off_policy.encoding import Answer, PolicyActions, count_choices, number_choices
from forage.evaluation.off_policy.estimate import FEW, Estimate, estimate
from forage.evaluation.off_policy.estimators.cross_fitted_q import CrossFit, Question, TreeQ, cross_fit, pose
from forage.evaluation.off_policy.estimators.doubly_robust import Model, doubly_robust
from forage.evaluation.off_policy.estimators.importance import self_normalised_per_decision
from forage.evaluation.off_policy.policy_value import PolicyValue, find_warnings
from forage.evaluation.off_policy.target import NO_START, Target, effective_sample_size, overlap
from forage.evaluation.statistics import student_interval

MOST_ROWS = 100_000
"""Transitions of a larger log that are used: of whole episodes, chosen by chance."""
MOST_JOINT = 1024  # combinations of choices with importance weights


def estimate_value(
    data: Transitions,
    answer: Answer,
    space: gymnasium.Space[Any],
    discount: float,
    confidence: float = 0.95,
    seed: int = 0,
    options: TreeQ | None = None,
) -> PolicyValue:
    """Estimate the value of the policy `answer` from logged episodes with actions of `space`.

    Raise `ForageError` for a log of one episode, a discount of 1 or more, and actions of other kinds.
    """
    if not 0 < confidence < 1:
        raise ForageError(f"A confidence lies between 0 and 1, such as 0.95, not {confidence:g}.")
    if not data.starts.any():
        raise ForageError(NO_START.format(data.episodes))
    whole = data.transitions
    data = thin_episodes(data, MOST_ROWS, seed)
    given: list[PolicyActions] = []

    def remember(observation: PyTree[np.ndarray]) -> PolicyActions:
        given.append(answer(observation))
        return given[-1]

    asked, encoder = pose(data, remember, space, discount)
    fit = cross_fit(asked, options or TreeQ(seed=seed))
    low, high = fit.interval(confidence)

    # Behaviour: the log's probabilities, or two fits
    counts = count_choices(space)
    columns = functools.partial(_columns_of, space, counts)
    answered = np.stack([columns(part) for part in given[0].action])
    observed = asked.logged.columns[0][:, : encoder.observed]
    fits = fit_behaviours(observed, columns(data.action), counts, asked.episode, answered, asked.here.probability, seed)
    rare = float(fits[0].policy.mean())

    # Estimators that weigh by probabilities
    others: dict[str, Estimate] = {}
    moved: dict[str, float] = {}
    weighed = None
    known = data.behaviour_probability
    if counts is not None and math.prod(counts) <= MOST_JOINT:
        weigh = functools.partial(_weigh, data, given, asked, fit, counts, space, confidence, seed)
        if known is None:
            tables = [weigh(np.exp(one.logged.logarithm)) for one in fits]
            other = tables[1][0]
            moved = {name: other[name].value - x.value for name, x in tables[0][0].items() if name in other}
        else:
            tables = [weigh(known)]
        others, weighed = tables[0]

    # The log itself, and what covers the policy
    starts, episodes = data.starts, len(asked.first)
    returns = np.bincount(data.numbers, discount**data.time * data.reward, data.episodes)[starts]
    ran_out = data.truncated[data.first + data.lengths - 1]
    made = PolicyValue(
        discount=discount,
        confidence=confidence,
        value=fit.value,
        low=low,
        high=high,
        others=others,
        logged=Estimate(float(returns.mean()), *student_interval(returns, confidence), len(returns)),
        episodes=episodes,
        transitions=data.transitions,
        left_out=whole - data.transitions,
        effective_transitions=effective_sample_size(fit.weight),
        effective_episodes=effective_sample_size(np.bincount(asked.episode, fit.weight, episodes)),
        weighed_episodes=weighed,
        rare=rare,
        cut=float((discount**data.lengths * ran_out)[starts].mean()),
        behaviour=tuple(_summary(one) for one in fits) if known is None else (),
        moved=moved,
        held_out_error=fit.held_out_error,
        fitted_error=fit.fitted_error,
        shift=float(fit.per_episode.mean() - fit.value),
        warnings=(),
    )
    return dataclasses.replace(made, warnings=tuple(find_warnings(made, data, counts is not None)))


def thin_episodes(data: Transitions, most: int, seed: int = 0) -> Transitions:
    """Return whole episodes, chosen by chance, with at most `most` transitions; all of a smaller log.

    What was recorded behind a gap is chosen with its start.
    """
    if data.transitions <= most:
        return data
    lengths = np.bincount(data.origins, data.lengths)
    order = np.random.default_rng(seed).permutation(len(lengths))
    chosen = np.zeros(len(lengths), bool)
    chosen[order[np.cumsum(lengths[order]) <= most]] = True
    if chosen.sum() < 2:
        raise ForageError(f"The log's episodes are too long: two of them have more than {most:,} transitions.")
    return take_episodes(data, chosen[data.origins])


def take_episodes(data: Transitions, chosen: Bool[np.ndarray, " episode"]) -> Transitions:
    """Return some of the episodes."""
    rows = np.flatnonzero(chosen[data.numbers])
    names = [*EPISODE_FIELDS, *(name for name in OPTIONAL_FIELDS if getattr(data, name) is not None)]
    parts = {name: jax.tree.map(lambda x: x[rows], getattr(data, name)) for name in names}
    return dataclasses.replace(data, **parts, episode=np.unique(data.numbers[rows], return_inverse=True)[1])


def _columns_of(space: gymnasium.Space[Any], counts: list[int] | None, action: np.ndarray) -> np.ndarray:
    return np.asarray(action, np.float64).reshape(len(action), -1) if counts is None else number_choices(space, action)


def _summary(one: Behaviour) -> dict[str, Any]:
    return {name: getattr(one, name) for name in ("name", "log_loss", "plain_loss", "reliability")}


def _weigh(
    data: Transitions,
    given: list[PolicyActions],
    asked: Question,
    fit: CrossFit,
    counts: list[int],
    space: gymnasium.Space[Any],
    confidence: float,
    seed: int,
    behaviour: Float[np.ndarray, " row"],
) -> tuple[dict[str, Estimate], float | None]:
    """Return the estimates by `dr`, with the fit's action values, and `wpdis`, and their effective episodes.

    Both multiply ratios from the start of an episode, so what was recorded behind a gap is left out.
    """
    kept = data.starts[data.numbers]
    if not kept.all():
        data, behaviour = take_episodes(data, data.starts), behaviour[kept]

    def joint(action: np.ndarray) -> np.ndarray:
        return np.ravel_multi_index(tuple(number_choices(space, action).T), counts)

    fields = {name: getattr(data, name) for name in ("reward", "terminated", "truncated", "episode")}
    row = np.arange(data.transitions)
    logged = LoggedEpisodes(
        observation=row,
        next_observation=row,
        action=joint(data.action),
        behaviour_probability=np.minimum(behaviour, 1.0),
        **fields,
    )
    table = np.zeros((data.transitions, math.prod(counts)))
    for action, probability in zip(given[0].action, given[0].probability, strict=True):
        table[row, joint(action[kept])] += probability[kept]
    target = Target(logged, lambda rows: table[rows], asked.discount)
    reward = data.reward + asked.discount * data.truncated * fit.next_v[kept]
    told = Model(*(target.pad_episodes(x) for x in (fit.q[kept], fit.v[kept], reward)))
    estimators = {"dr": functools.partial(doubly_robust, told=told), "wpdis": self_normalised_per_decision}
    found: dict[str, Estimate] = {}
    for name, one in estimators.items():
        with contextlib.suppress(ForageError):  # products of ratios that are no numbers any more
            found |= estimate(logged, target.policy, asked.discount, {name: one}, confidence=confidence, seed=seed)
    effective = overlap(target).effective_sample_size
    if effective is None or effective < FEW:  # an interval of few heavy episodes is far too narrow
        found = {name: dataclasses.replace(one, low=None, high=None) for name, one in found.items()}
    return found, effective
