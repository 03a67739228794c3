"""Trials side by side: every trial's every seed is a member of one compiled program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from forage.device import DeviceRoad, vary
from forage.host import HostRoad
from forage.ports import Environment
from forage.session import step_limit
from forage.setup import Setup, prepare_devices
from forage.tuning.space import with_settings

EVALUATION = 700_001  # what the episodes of an evaluation are drawn from; training never uses it
PATHS = {"agent": "learner.agent", "behaviour": "learner.behaviour", "rewards": "learner.rewards"}
PATHS |= {"memory": "learner.memory", "tasks": "tasks", "starts": "starts"}


class Batch:
    """Trials that differ in traced numbers only, each trained on the same seeds. `setup` has the rest of them."""

    def __init__(self, setup: Setup, settings: Sequence[Mapping[str, float]], seeds: Sequence[int], episodes: int):
        self.setup, self.settings, self.seeds, self.episodes = setup, [dict(s) for s in settings], list(seeds), episodes
        self.broken = np.zeros(len(settings), bool)  # something became NaN
        self.road = self.make_road()
        self.road.begin()

    def make_road(self) -> DeviceRoad | HostRoad:
        members = self.seeds * len(self.settings)  # trial after trial
        if isinstance(self.setup.environment, Environment):
            prepare_devices(len(members))
            return DeviceRoad(vary(self.setup.experiment(), self.values()), members, self.setup.steps)
        learners = [with_settings(self.setup, s).learner() for s in self.settings for _ in self.seeds]
        return HostRoad(learners, self.setup.environment, members, self.setup.steps)

    def values(self) -> dict[str, Any]:
        """Each traced number of every member, by its path in an experiment."""
        found = {}
        for name in self.settings[0]:
            port, _, field = name.rpartition(".")
            values = np.repeat([s[name] for s in self.settings], len(self.seeds))
            found[f"{PATHS[port or 'agent']}.{field}"] = jnp.array(values, jnp.float32)
        return found

    @property
    def iterations(self) -> int:
        """Turns of the loop in the whole of training."""
        return -(-self.setup.steps // self.road.steps_per_iteration)

    def advance_to(self, iteration: int) -> None:
        """Trains every trial up to this turn of the loop. One that breaks goes on unheeded."""
        ahead = iteration - self.road.steps // self.road.steps_per_iteration
        if ahead > 0:
            report = self.road.advance(ahead)
            whole = np.asarray(report.agent_finite) & np.asarray(report.environment_finite)
            self.broken |= ~whole.reshape(len(self.settings), -1).all(1)

    def evaluate(self) -> np.ndarray:
        """Mean evaluation returns, `trial seed`; minus infinity where a trial broke."""
        returns, _ = self.road.evaluate(self.episodes, step_limit(self.setup), EVALUATION)
        returns = np.asarray(returns, float)
        returns = returns.reshape(*returns.shape[:2], -1).sum(-1).mean(1)  # over objectives, then episodes
        values = returns.reshape(len(self.settings), len(self.seeds))
        return np.where(self.broken[:, None] | ~np.isfinite(values), -np.inf, values)

    def keep(self, trials: Sequence[int]) -> Batch:
        """These trials alone, as far as they have come."""
        rows = np.concatenate([np.arange(len(self.seeds)) + trial * len(self.seeds) for trial in trials])
        kept = Batch.__new__(Batch)
        kept.setup, kept.seeds, kept.episodes = self.setup, self.seeds, self.episodes
        kept.settings, kept.broken = [self.settings[trial] for trial in trials], self.broken[list(trials)]
        if isinstance(self.road, HostRoad):
            for index, experiment in enumerate(self.road.experiments):
                if index not in rows:
                    experiment.environment.close()
            self.road.experiments = [self.road.experiments[row] for row in rows]
            self.road.seeds = [self.road.seeds[row] for row in rows]
            kept.road = self.road
            return kept
        kept.road = kept.make_road()
        state = jax.device_get(self.road.state)
        kept.road.restore(jax.tree.map(lambda leaf: leaf[rows], state), self.road.steps)  # pyright: ignore[reportAttributeAccessIssue]
        return kept

    def close(self) -> None:
        if isinstance(self.road, HostRoad):
            self.road.close()
