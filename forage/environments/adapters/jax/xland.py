"""The environments of XLand-MiniGrid: XLand's rules and goals in MiniGrid's world.

Source: Nikulin, Kurenkov, Zisman, Agarkov, Sinii, Kolesnikov (2024), "XLand-MiniGrid: Scalable Meta-Reinforcement
Learning Environments in JAX", NeurIPS, arXiv 2312.12044, https://github.com/dunnolab/xland-minigrid.
"""

# Where types are checked without the library, this file itself is taken for it.
from __future__ import annotations

from typing import Any, ClassVar

import equinox
import gymnasium
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, UInt8
from xminigrid import benchmarks, registration
from xminigrid.types import RuleSet

from forage.core.ports import Environment
from forage.core.types import ForageError, Step
from forage.environments.adapters.jax import common as foreign


class XLand(Environment):
    """One of XLand-MiniGrid's environments, without automatic resets.

    The demands of an `XLand-MiniGrid` world are its ruleset, three arrays that are traced fields here: `goal`, `rules`
    and `init_tiles`. A batch of them is a batch of tasks. Options: `benchmark` and `ruleset` name one of the library's
    benchmarks (`medium-1m`, downloaded once by the library) and a number in it; the ruleset is the library's example
    otherwise. `max_steps`, `view_size`, `height` and `width` are options too.

    - Observation: `int32[view, view, 2]`, the tile and colour of each cell in view: ids, not brightness as in `uint8`.
    - Action: forward, right, left, pick up, put down, toggle.
    - Terminated: at the goal, by the library's discount. Truncated: after `max_steps` steps.
    """

    frames_per_second: ClassVar[float] = 10.0

    library: Any = equinox.field(static=True)
    id: str = equinox.field(static=True)
    fixed: Any = equinox.field(static=True)  # the parameters, without the ruleset
    goal: Array | None
    rules: Array | None
    init_tiles: Array | None

    def __init__(self, target: str, benchmark: str = "", ruleset: int = 0, **options: Any):
        """Raise `ForageError` for an option, a benchmark or a ruleset that is not there."""
        name = f"xland:{target}"
        fixed = {"height", "width", "view_size", "max_steps", "grid_type"}
        self.library, parameters = foreign.construct(name, registration.make, target)
        known = {option for option in fixed if hasattr(parameters, option)}
        foreign.with_parameters(name, None, options, known | {"benchmark", "ruleset"})
        parameters = parameters.replace(**options)
        if parameters.max_steps is None or parameters.max_steps < 1:
            raise ForageError(f"{name}'s max_steps is a whole number from 1 up, not {parameters.max_steps!r}.")
        rules = getattr(parameters, "ruleset", None)
        if benchmark:
            if rules is None:
                raise ForageError(f"{name} has no rulesets; an environment named XLand-MiniGrid-... has.")
            rules = from_benchmark(name, benchmark, ruleset)
        self.goal, self.rules, self.init_tiles = (None, None, None)
        if rules is not None:
            self.goal, self.rules, self.init_tiles = foreign.strong((rules.goal, rules.rules, rules.init_tiles))
            parameters = parameters.replace(ruleset=None)
        self.id, self.fixed = target, parameters

    @property
    def library_parameters(self) -> Any:
        """Return the library's parameters with the ruleset in its place."""
        if self.goal is None or self.rules is None or self.init_tiles is None:
            return self.fixed
        return self.fixed.replace(ruleset=RuleSet(goal=self.goal, rules=self.rules, init_tiles=self.init_tiles))

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        return foreign.box(0, 255, self.library.observation_shape(self.fixed), np.int32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(int(self.library.num_actions(self.fixed)))

    @property
    def horizon(self) -> int:
        return int(self.fixed.max_steps)

    def reset(self, key: Key[Array, ""]) -> tuple[Any, Int[Array, "view view 2"]]:
        timestep = foreign.strong(self.library.reset(self.library_parameters, key))
        return timestep, timestep.observation.astype(jnp.int32)

    def step(self, state: Any, action: Int[Array, ""], key: Key[Array, ""]) -> tuple[Any, Step]:
        timestep = foreign.strong(self.library.step(self.library_parameters, state, action))
        terminated = timestep.last() & (timestep.discount == 0)
        truncated = timestep.last() & ~terminated
        reward = timestep.reward.astype(jnp.float32)
        return timestep, Step(timestep.observation.astype(jnp.int32), reward, terminated, truncated, {})

    def render(self, state: Any) -> UInt8[np.ndarray, "height width 3"]:
        return foreign.picture(f"xland:{self.id}", self.library.render(self.library_parameters, foreign.single(state)))


def from_benchmark(name: str, benchmark: str, ruleset: int) -> RuleSet:
    """Return one ruleset of the library's benchmarks."""
    known = benchmarks.registered_benchmarks()
    if benchmark not in known:
        raise ForageError(f"{name} has no benchmark {benchmark!r}; there are {', '.join(known)}.")
    loaded = foreign.construct(f"the benchmark {benchmark}", benchmarks.load_benchmark, benchmark)
    if not 0 <= ruleset < loaded.num_rulesets():
        raise ForageError(f"{benchmark} has the rulesets 0 to {loaded.num_rulesets() - 1}, not {ruleset}.")
    return loaded.get_ruleset(ruleset)


def ids() -> dict[str, str]:
    """Return every id of XLand-MiniGrid with a line of description."""
    return {id: describe_id(id) for id in registration.registered_environments()}


def describe_id(id: str) -> str:
    """Return a line on an environment."""
    if id.startswith("XLand-MiniGrid-"):
        rooms, size = id.removeprefix("XLand-MiniGrid-").split("-")
        return f"Goals under changing rules, in {rooms.removeprefix('R')} rooms of a {size} grid."
    return f"MiniGrid's {id.removeprefix('MiniGrid-')}, by XLand-MiniGrid."
