"""Members side by side: settings with a seed each, in one compiled program, or one after another on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from forage.config.setup import Setup, prepare_devices
from forage.core import prng
from forage.core.ports import Environment, Rewards
from forage.core.types import ForageError
from forage.loop.device.runner import DeviceRoad, vary
from forage.loop.host.runner import HostRoad
from forage.loop.learner import Report
from forage.runs.capacity import check_memory
from forage.runs.scoring import step_limit
from forage.studies.tuning.space import OUTSIDE, with_settings

Settings = Mapping[str, float]


class Batch:
    """Members that differ in traced numbers, `settings[i]`, and in their seed, `seeds[i]`; `setup` has the rest."""

    def __init__(
        self,
        setup: Setup,
        settings: Sequence[Settings],
        seeds: Sequence[int],
        episodes: int,
        rewards: Rewards | None = None,
    ):
        """`rewards` say what several rewards are worth together, for all members alike; unless said, the setup's."""
        self.setup, self.settings, self.seeds, self.episodes = setup, [dict(s) for s in settings], list(seeds), episodes
        self.rewards = rewards or setup.rewards
        self.broken = np.zeros(len(seeds), bool)  # something is not finite, or its environment failed
        self.why = [""] * len(seeds)  # in a sentence, where one is known
        self.steps = 0  # that each member was trained, or would have been
        self.road: DeviceRoad | HostRoad
        if isinstance(setup.environment, Environment):
            prepare_devices(len(seeds))
            self.road = DeviceRoad(self.varied(), self.seeds, setup.steps)
        else:
            setup.check_host()
            self.road = HostRoad(self.learners(), setup.environment, self.seeds, setup.steps, setup.way)
        check_memory(self.road)
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
        """Trains every member up to this share of the run. One that breaks is the only one to do so."""
        target = max(1, round(self.iterations * share))
        each = self.road.steps_per_iteration
        if isinstance(self.road, HostRoad):
            for index, experiment in enumerate(self.road.experiments):
                self._attempt(index, lambda e=experiment: e.advance(max(0, target - e.steps // each)))
        elif (ahead := target - self.road.steps // each) > 0:
            self._hear(np.arange(len(self.seeds)), self.road.advance(ahead))
        self.steps = target * each

    def _attempt(self, index: int, work: Callable[[], Any]) -> Any:
        """Does what concerns one member on the host. If its environment fails, the member is broken from then on."""
        if self.broken[index]:
            return None
        try:
            done = work()
        except ForageError as error:
            self.broken[index], self.why[index] = True, str(error)
            return None
        if isinstance(done, Report):
            self._hear([index], done)
        return done

    def _hear(self, members: Sequence[int] | Int[np.ndarray, " member"], report: Report) -> None:
        environment, learned = (np.atleast_1d(x) for x in (report.environment_finite, report.agent_finite))
        for index, whole, sane in zip(members, environment, learned, strict=True):
            if self.broken[index] or (whole and sane):
                continue
            self.broken[index] = True
            self.why[index] = f"What the agent learned became NaN with seed {self.seeds[index]}."
            if not whole:
                self.why[index] = f"{self.setup.name} returned NaN or infinity with seed {self.seeds[index]}."

    def evaluate(self) -> np.ndarray:
        """Each member's mean evaluation return; minus infinity where it broke."""
        limit, sampled = step_limit(self.setup), self.setup.evaluation_actions == "sampled"
        if isinstance(self.road, HostRoad):
            road = self.road
            played = [
                self._attempt(i, lambda e=e: road.evaluate_one(e, self.episodes, limit, prng.TUNING, sampled)[0])
                for i, e in enumerate(road.experiments)
            ]
            shape = next((found.shape for found in played if found is not None), (self.episodes,))
            returns = np.array([np.full(shape, -np.inf) if found is None else found for found in played], float)
        else:
            returns = np.asarray(self.road.evaluate(self.episodes, limit, prng.TUNING, sampled)[0], float)
        # What broke counts for nothing, and infinities would make NaN of what several rewards are worth together.
        finite = np.isfinite(returns.reshape(len(returns), -1)).all(1) & ~self.broken
        returns[~finite] = 0.0
        return np.where(finite, self.rewards.score(returns, self.setup.spec).mean(1), -np.inf)

    def keep(self, rows: Sequence[int]) -> None:
        """Goes on with these members alone."""
        rows = list(rows)
        self.settings, self.seeds = [self.settings[row] for row in rows], [self.seeds[row] for row in rows]
        self.broken, self.why = self.broken[rows], [self.why[row] for row in rows]
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
        failed = self.broken
        self.settings, self.broken = [dict(s) for s in settings], self.broken[source]
        self.why = [self.why[i] for i in source]
        if isinstance(self.road, HostRoad):
            learners = self.learners()
            states = [jax.tree.map(jnp.copy, self.road.experiments[i].state) for i in source]
            for index, experiment in enumerate(self.road.experiments):
                experiment.learner, experiment.state = learners[index], states[index]
                if failed[index] and not self.broken[index]:  # its environments stand in the middle of a step
                    experiment.steps, experiment.pending = self.steps, None
                    self._attempt(index, experiment.begin_episodes)
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


def repeated(
    setup: Setup, settings: Sequence[Settings], seeds: Sequence[int], episodes: int, rewards: Rewards | None = None
) -> Batch:
    """A batch of every setting with every seed, setting after setting."""
    members = [s for s in settings for _ in seeds]
    return Batch(setup, members, list(seeds) * len(settings), episodes, rewards)
