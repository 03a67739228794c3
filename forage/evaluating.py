"""Evaluation: episodes apart from training, on random streams that training never uses."""

from __future__ import annotations

from typing import Any

import numpy as np

from forage import prng
from forage.host import HostRoad
from forage.points import free, to_float
from forage.run import Run
from forage.setup import Road, Setup
from forage.soundness import check_returns
from forage.types import ForageError


def step_limit(setup: Setup) -> int:
    """Steps after which an evaluation episode is cut, where the environment itself has no limit: Atari's."""
    return 27_000 if setup.spec.horizon is None else int(setup.spec.horizon)


def load_agents(run: Run, road: Road) -> None:
    """Puts the agents of the newest whole checkpoint on the road, and nothing else of it: to evaluate takes no more.

    Raises `ForageError` where there is none.
    """
    problems: list[ForageError] = []
    for path in reversed(run.checkpoints):
        try:
            road.load_agents(path)
            return
        except ForageError as error:
            problems.append(error)
    if problems:
        raise problems[0]
    raise ForageError(f"{run.directory} has no checkpoint yet, so there is no agent to evaluate.")


def evaluate_road(road: Road, setup: Setup, episodes: int, seed: int = prng.EVALUATION) -> dict[str, Any]:
    """Plays evaluation episodes. Returns what evaluation.json holds.

    Raises `ForageError` where a return is not finite.
    """
    limit = step_limit(setup)
    infos: dict[str, np.ndarray] = {}
    if isinstance(road, HostRoad):
        returns, lengths, infos = road.played(episodes, limit, seed)
    else:
        returns, lengths = road.evaluate(episodes, limit, seed)
    returns, lengths = np.asarray(returns, float), np.asarray(lengths)
    check_returns(setup.name, returns, [member["seed"] for member in setup.members])
    evaluation: dict[str, Any] = {"steps": road.steps, "episodes": episodes, "members": setup.members}
    evaluation["actions"] = setup.evaluation_actions
    evaluation["reward"] = setup.scored
    for i, name in enumerate(setup.spec.reward_names):
        evaluation[f"return/{name}"] = to_float(returns[..., i].mean(1))
    returns = setup.rewards.score(returns, setup.spec)
    evaluation["return"] = to_float(returns.mean(1))
    evaluation["episode_returns"] = returns.tolist()
    evaluation["episode_lengths"] = lengths.tolist()
    evaluation["cut"] = int((lengths >= limit).sum()) if setup.spec.horizon is None else 0
    evaluation["cut_after"] = limit
    evaluation |= {free(name, evaluation): [mean_of(row) for row in values] for name, values in infos.items()}
    return evaluation


def mean_of(values: np.ndarray) -> float | None:
    """The mean of the numbers among values, `None` where there are none."""
    said = values[np.isfinite(values)]
    return float(said.mean(dtype=float)) if len(said) else None


def cut_sentence(evaluation: dict[str, Any]) -> str:
    """Say how many episodes of an evaluation were cut; nothing where none was, or an older version did not count."""
    cut, every = evaluation.get("cut", 0), np.size(evaluation["episode_lengths"])
    if not cut:
        return ""
    return (
        f"{cut:,} of {every:,} episodes were cut after {evaluation['cut_after']:,} steps; the score counts what they "
        f"had brought by then"
    )
