"""Members side by side: settings with a seed each, in one compiled program, or one after another on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from forage.device import DeviceRoad, vary
from forage.host import HostRoad
from forage.ports import Environment
from forage.session import step_limit
from forage.setup import Setup, prepare_devices
from forage.tuning.space import OUTSIDE, with_settings

EVALUATION = 700_001  # what the episodes of an evaluation are drawn from; training never uses it

Settings = Mapping[str, float]


class Batch:
    """Members that differ in traced numbers, `settings[i]`, and in their seed, `seeds[i]`; `setup` has the rest."""

    def __init__(self, setup: Setup, settings: Sequence[Settings], seeds: Sequence[int], episodes: int):
        self.setup, self.settings, self.seeds, self.episodes = setup, [dict(s) for s in settings], list(seeds), episodes
        self.broken = np.zeros(len(seeds), bool)  # something became NaN
        self.road: DeviceRoad | HostRoad
        if isinstance(setup.environment, Environment):
            prepare_devices(len(seeds))
            self.road = DeviceRoad(self.varied(), self.seeds, setup.steps)
        else:
            setup.check_host()
            self.road = HostRoad(self.learners(), setup.environment, self.seeds, setup.steps, setup.way)
        self.road.begin()

    def varied(self) -> Any:
        """The experiment, with every member's own numbers."""
        values = {}
        for name in self.settings[0]:
            port, _, field = name.rpartition(".")
            path = f"{port}.{field}" if port in OUTSIDE else f"learner.{port or 'agent'}.{field}"
            values[path] = jnp.array([s[name] for s in self.settings], jnp.float32)
        return vary(self.setup.experiment(), values)

    def learners(self) -> list[Any]:
        return [with_settings(self.setup, settings).learner() for settings in self.settings]

    @property
    def iterations(self) -> int:
        """Turns of the loop in the whole of training."""
        return -(-self.setup.steps // self.road.steps_per_iteration)

    def advance(self, share: float) -> None:
        """Trains every member up to this share of the run. One that breaks goes on unheeded."""
        target = max(1, round(self.iterations * share))
        ahead = target - self.road.steps // self.road.steps_per_iteration
        if ahead > 0:
            report = self.road.advance(ahead)
            self.broken |= ~(np.asarray(report.agent_finite) & np.asarray(report.environment_finite))

    def evaluate(self) -> np.ndarray:
        """Each member's mean evaluation return; minus infinity where it broke."""
        returns, _ = self.road.evaluate(self.episodes, step_limit(self.setup), EVALUATION)
        returns = np.asarray(returns, float)
        values = returns.reshape(*returns.shape[:2], -1).sum(-1).mean(1)  # over objectives, then episodes
        return np.where(self.broken | ~np.isfinite(values), -np.inf, values)

    def keep(self, rows: Sequence[int]) -> None:
        """Goes on with these members alone."""
        rows = list(rows)
        self.settings, self.seeds = [self.settings[row] for row in rows], [self.seeds[row] for row in rows]
        self.broken = self.broken[rows]
        if isinstance(self.road, HostRoad):
            for index, experiment in enumerate(self.road.experiments):
                if index not in rows:
                    experiment.environment.close()
            self.road.experiments, self.road.seeds = [self.road.experiments[row] for row in rows], self.seeds
            return
        state, steps = jax.device_get(self.road.state), self.road.steps
        self.road = DeviceRoad(self.varied(), self.seeds, self.setup.steps)
        self.road.restore(jax.tree.map(lambda leaf: leaf[np.array(rows)], state), steps)

    def take_over(self, source: Int[np.ndarray, " member"], settings: Sequence[Settings]) -> None:
        """Member i goes on with what member `source[i]` has learned and remembers, and with `settings[i]`."""
        self.settings, self.broken = [dict(s) for s in settings], self.broken[source]
        if isinstance(self.road, HostRoad):
            states = [jax.tree.map(jnp.copy, self.road.experiments[i].state) for i in source]
            for experiment, learner, state in zip(self.road.experiments, self.learners(), states, strict=True):
                experiment.learner, experiment.state = learner, state
            return
        self.road.varied = self.road.placed(self.varied())
        state = self.road.state
        assert state is not None
        if (source != np.arange(len(source))).any():
            learner = jax.tree.map(lambda leaf: leaf[source], jax.device_get(state.learner))
            self.road.restore(state._replace(learner=learner), self.road.steps)

    def close(self) -> None:
        if isinstance(self.road, HostRoad):
            self.road.close()


def repeated(setup: Setup, settings: Sequence[Settings], seeds: Sequence[int], episodes: int) -> Batch:
    """A batch of every setting with every seed, setting after setting."""
    members = [s for s in settings for _ in seeds]
    return Batch(setup, members, list(seeds) * len(settings), episodes)
