"""The host's adapters against their libraries: two environments, each compared with one of the library's own of the
same seed. See `conformance.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from conformance import Case, PlayedRecord, Row, SeenRecord, has_ended, same, tell
from small import differing

from forage.core import spaces
from forage.core.host import HostEnvironment, seeds
from forage.environments import make

SEED, BESIDE = 3, 2
ON = 3  # steps that are played after an end


class HostDriver:
    """One environment of a library, driven as its own documentation does. A subclass for each."""

    def __init__(self, id: str, **options: Any):
        raise NotImplementedError

    def seed(self, seed: int, index: int) -> int:
        """Return the library's seed for environment `index` of a batch that is reset with `seed`."""
        return seeds(seed, BESIDE)[index]

    def reset(self, seed: int | None) -> SeenRecord:
        """Starts an episode; without a seed, the one after another."""
        raise NotImplementedError

    def step(self, action: Any) -> SeenRecord:
        raise NotImplementedError


class Trail(NamedTuple):
    """The results of one environment of a batch, across its ends."""

    first: tuple[Any, SeenRecord]
    steps: list[tuple[Any, SeenRecord]]
    following: list[
        tuple[Any, SeenRecord | None]
    ]  # what to act on next, and what the library's reset said where one ended


class HostCase(Case):
    """`Played` is of environment 0; `more` are the trails of all, beyond its end."""

    def __init__(self, row: Row):
        super().__init__(row)
        self.environment = self.make(row.id, row.options)
        self.spec = self.environment.spec

    def play(self, limit: int | None, most: int, act: Callable[[int], Any] | None) -> PlayedRecord:
        host = self.make(self.row.id, self.options(limit), BESIDE)
        drivers = [self.driver(limit) for _ in range(BESIDE)]
        observation = host.reset(SEED)
        trails = [
            Trail((at(observation, index), driver.reset(driver.seed(SEED, index))), [], [])
            for index, driver in enumerate(drivers)
        ]
        end = None
        for time in range(most):
            action = self.action(host, time, observation)
            if act is not None and end is None:
                action[0] = act(time)
            step, observation = host.step(action)
            for index, (driver, trail) in enumerate(zip(drivers, trails, strict=True)):
                seen = driver.step(action[index])
                trail.steps.append((at(step, index), seen))
                fresh = driver.reset(None) if has_ended(seen) else None
                trail.following.append((at(observation, index), fresh))
            if end is None and any(has_ended(each) for each in trails[0].steps[-1]):
                end = time + 1
            if end is not None and time + 1 >= end + ON:
                break
        host.close()
        return PlayedRecord(trails[0].first, trails[0].steps[:end], trails)

    def action(self, host: HostEnvironment, time: int, observation: Any) -> Any:
        axes = (host.num_envs,) if host.num_agents == 1 else (host.num_envs, host.num_agents)
        return np.array(self.sample_case(time, observation, axes))

    def make(self, id: str, options: Mapping[str, Any], num_envs: int = 1) -> Any:
        factory: Any = make(id, **options)
        return factory.build(num_envs)

    def horizon(self, limit: int | None) -> int | None:
        host = self.make(self.row.id, self.options(limit))
        host.close()
        return host.horizon

    def contract(self) -> None:
        """Shapes and dtypes are looked at in every step (`host.Check`)."""

    def goes_on(self, played: PlayedRecord) -> None:
        """The next observation to act on is the first one of the library's next episode."""
        last, _ = played.steps[-1]
        next, fresh = played.more[0].following[len(played.steps) - 1]
        same(spaces.split_mask(next)[0], fresh.observation, self.row.tolerance, "observation after an end")
        assert differing(next, last.observation), "what the last step led to is the start of the next episode"

    def batch(self) -> None:
        apart = 0
        for played in self.episodes:
            for index, trail in enumerate(played.more):
                left: Any = np.False_
                for time, ((step, seen), (next, fresh)) in enumerate(zip(trail.steps, trail.following, strict=True)):
                    what = f"step {time} of environment {index}"
                    left = tell(step, seen, left, self.row.tolerance, what)
                    if fresh is None:
                        assert not differing(next, step.observation), f"{what} was changed"
                    else:
                        same(spaces.split_mask(next)[0], fresh.observation, self.row.tolerance, f"start after {what}")
                        left = np.False_
            ends = [[fresh is not None for _, fresh in trail.following] for trail in played.more]
            apart += sum(one != other for one, other in zip(*ends, strict=True))
        assert self.row.terminates or apart, "both environments always ended together"

    def check_saved(self) -> str | None:
        options = self.options(self.row.cut if self.row.limit else None)  # so that episodes end on the way
        first, second = (self.make(self.row.id, options, BESIDE) for _ in range(2))
        observation = first.reset(SEED)
        observation = first.step(self.action(first, 0, observation)).observation
        snapshot = first.snapshot()
        assert (snapshot is not None) == self.row.saves
        if snapshot is None:
            return "the state cannot be saved"
        other = second.reset(SEED + 1)
        for time in range(3):
            other = second.step(self.action(second, time, other)).observation
        assert not differing(second.restore(snapshot), observation)
        for time in range(1, 20):
            action = self.action(first, time, observation)
            on = first.step(action)
            assert not differing(on, second.step(action)), f"step {time} after loading"
            observation = on.observation
        return None

    def pictures(self) -> Sequence[Any]:
        observation = self.environment.reset(SEED)
        first = self.environment.render()
        for time in range(3):
            observation = self.environment.step(self.action(self.environment, time, observation)).observation
        return first, self.environment.render()


def at(tree: Any, index: int) -> Any:
    """One environment's part of a batch."""
    return jax.tree.map(lambda x: np.array(x[index]), tree)
