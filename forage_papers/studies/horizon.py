"""The measured effective horizon of a task with discrete actions: the planning depth at which SQIRL solves it.

Laidlaw, Zhu, Russell, Dragan (2023), "The Effective Horizon Explains Deep RL Performance in Stochastic Environments",
arXiv 2312.08369, section 4. Shallow Q-iteration is run with ever more steps k of planning and ever more episodes m for
each decision, and H = k + log_A m is least over those that solve the task, A being the number of actions. To have m
of them exactly, SQIRL learns from the first whole episode of each of m environments and from no other:

    from forage_papers.studies.horizon import measure
    measure("tabular:GridWorld-3x4", solved=0.6)

Of arrays it is worked out instead: `forage.environments.tabular.horizon`.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from forage.core.ports.checking import check_agent
from forage.core.types import ForageError
from forage.environments import make, spec_of
from forage.nn.distributions import Actions
from forage.runs import training
from forage_papers.agents.q_learning.sqirl import SQIRL


class HorizonTrial(NamedTuple):
    """One run of SQIRL."""

    steps: int  # k
    episodes: int  # m
    returns: list[float]  # of each seed, in evaluation
    solved: bool  # by more than half of them


class MeasuredHorizon(NamedTuple):
    """The smallest horizon found, and all trials."""

    horizon: float  # infinite where nothing solved it
    steps: int | None
    episodes: int | None
    tried: list[HorizonTrial]


def measure_horizon(
    environment: Any,
    solved: float,
    depths: Sequence[int] = (1, 2, 3),
    episodes: Sequence[int] = (8, 32, 128),
    seeds: Sequence[int] = (0, 1, 2),
    directory: str | os.PathLike[str] | None = None,
    options: dict[str, Any] | None = None,
) -> MeasuredHorizon:
    """Run SQIRL for each k of `depths` with each m of `episodes`, in that order, skipping those that cannot do better.

    `solved`: the evaluation return from which on a task counts as solved. `options`: further options of the agent.
    Raise `ForageError` if episodes have no known end or actions are not discrete.
    """
    native: Any = make(environment) if isinstance(environment, str) else environment
    spec = spec_of(native, environment if isinstance(environment, str) else type(environment).__name__)
    if spec.horizon is None:
        raise ForageError(f"The episodes of {spec.name} have no known end; put a time limit around it.")
    # One episode is surely whole in each environment.
    usual: dict[str, Any] = {"rollout_length": 2 * spec.horizon} | (options or {})
    check_agent(SQIRL(**usual), spec)
    actions = Actions.from_space(spec.action_space).outputs
    least, found, tried = math.inf, (None, None), []
    with tempfile.TemporaryDirectory() as temporary:
        for k in sorted(depths):
            for m in sorted(episodes):
                horizon = k + math.log(m, actions) if actions > 1 else float(k)
                if horizon >= least:
                    continue
                run = training.train(
                    "sqirl",
                    environment=environment,
                    steps=m * usual["rollout_length"] * spec.horizon,
                    seeds=list(seeds),
                    directory=Path(directory or temporary) / f"{k}-{m}",
                    agent_options=usual | {"planning_depth": k, "num_envs": m, "first_only": True},
                    display="quiet",
                )
                assert run.evaluation is not None
                returns = [float(value) for value in run.evaluation["return"]]
                done = float(np.mean(np.array(returns) >= solved)) > 0.5
                tried.append(HorizonTrial(k, m, returns, done))
                if done:
                    least, found = horizon, (k, m)
    return MeasuredHorizon(least, *found, tried)
