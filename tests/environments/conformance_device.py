"""The device's adapters against their libraries: one environment, jitted, with the same keys. See `conformance.py`."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from conformance import Case, PlayedRecord, Row, SeenRecord, has_ended
from small import differing

from forage.core import checkpoint, fields, prng, spaces, team
from forage.environments import make
from forage.environments.checking import check_environment
from forage.environments.registry import spec_of
from forage.environments.wrappers import with_fields


class Driver:
    """A JAX library, driven as its own documentation does. A subclass for each."""

    def __init__(self, id: str, **options: Any):
        raise NotImplementedError

    def key(self, key: Any) -> Any:
        """Return the key that the library uses inside for `key`, to be passed to Forage's step."""
        return key

    def reset(self, key: Any) -> tuple[Any, SeenRecord]:
        raise NotImplementedError

    def step(self, state: Any, action: Any, key: Any) -> tuple[Any, SeenRecord]:
        raise NotImplementedError


class DeviceCase(Case):
    """`Played.more` are Forage's states, the first one first."""

    def __init__(self, row: Row):
        super().__init__(row)
        self.environment: Any = make(row.id, **row.options)
        self.spec = spec_of(self.environment, row.id)
        self.step = jax.jit(lambda environment, state, action, key: environment.step(state, action, key))
        self.reset = jax.jit(lambda environment, key: environment.reset(key))
        self.limited = functools.cache(self._with_limit)

    def _with_limit(self, limit: int | None) -> Any:
        """The environment with another time limit."""
        if limit is None:
            return self.environment
        numeric = [name for layer in fields.layers(self.environment) for name in fields.numeric_fields(layer)]
        options = self.options(limit)
        if self.row.limit in numeric:
            return with_fields(self.environment, **{self.row.limit: options[self.row.limit]})
        return make(self.row.id, **options)

    def action(self, time: int, observation: Any, act: Callable[[int], Any] | None) -> Any:
        if act is not None:
            dtype = self.spec.action_space.dtype
            return jnp.asarray(act(time), dtype if dtype != np.int64 else jnp.int32)
        agents = self.spec.num_agents
        return self.sample_case(time, observation, () if agents == 1 else (agents,))

    def play(self, limit: int | None, most: int, act: Callable[[int], Any] | None) -> PlayedRecord:
        environment, driver = self.limited(limit), self.driver(limit)
        foreign_reset, foreign_step = jax.jit(driver.reset), jax.jit(driver.step)
        key = jax.random.key(3)
        state, observation = self.reset(environment, key)
        foreign_state, first = foreign_reset(key)
        played = PlayedRecord((observation, jax.device_get(first)), [], [state])
        for time in range(most):
            key = jax.random.key(5000 + time)
            action = self.action(time, observation, act)
            state, step = self.step(environment, state, action, driver.key(key))
            foreign_state, seen = foreign_step(foreign_state, action, key)
            played.steps.append(jax.device_get((step, seen)))
            played.more.append(state)
            observation = step.observation
            if any(has_ended(each) for each in played.steps[-1]):
                break
        return played

    def make(self, id: str, options: Mapping[str, Any]) -> Any:
        return make(id, **options)

    def horizon(self, limit: int | None) -> int | None:
        return self.limited(limit).horizon

    def contract(self) -> None:
        check_environment(self.environment, self.row.id)

    def goes_on(self, played: PlayedRecord) -> None:
        """Another step continues from the end: a reset would give the state of `reset`."""
        environment = self.limited(self.row.cut if self.row.limit else None)
        observation = played.steps[-1][0].observation
        state, _ = self.step(environment, played.more[-1], self.action(0, observation, None), prng.key(77))
        fresh, _ = self.reset(environment, prng.key(77))
        assert differing(state, fresh), "the step after the end gave the state of a reset"

    def batch(self) -> None:
        action = team.repeat(spaces.example(self.spec.action_space), self.spec.num_agents)

        def roll(environment: Any, key: Any) -> Any:
            state, first = environment.reset(key)

            def advance(state: Any, key: Any) -> Any:
                state, step = environment.step(state, action, key)
                return state, step

            _, steps = jax.lax.scan(advance, state, jax.random.split(key, 2))
            return first, steps

        shapes = jax.eval_shape(roll, self.environment, prng.key(0))
        weak = [name for name, leaf in checkpoint.named_leaves(shapes) if leaf.weak_type]
        assert not weak, f"weakly typed: {weak}"
        batch = jax.jit(jax.vmap(roll, (None, 0)))(self.environment, jnp.stack([prng.key(1), prng.key(2)]))
        alone = jax.jit(roll)(self.environment, prng.key(2))
        for left, right in zip(jax.tree.leaves(batch), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(left[1], right, rtol=2e-3, atol=2e-3)

    def check_saved(self) -> str | None:
        state = self.natural.more[1]
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "state.npz"
            checkpoint.save_tree(path, state, {})
            loaded, _ = checkpoint.load_tree(path, jax.eval_shape(lambda: state))
        assert not differing(state, loaded)
        action = self.action(0, self.natural.first[0], None)
        on = [self.step(self.environment, s, action, prng.key(9)) for s in (state, loaded)]
        assert not differing(*on)
        return None

    def pictures(self) -> Sequence[Any]:
        states = self.natural.more
        return [self.environment.render(state) for state in (states[0], states[min(5, len(states) - 1)])]
