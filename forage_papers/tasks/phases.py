"""Phases: the task changes at given steps of the run, without notice to the agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree

from forage.core.fields import replace, value_of
from forage.core.ports import Environment, RolloutReport, Tasks
from forage.core.ports.checking import is_text
from forage.core.ranges import Range, Ranges
from forage.core.types import Experience, ForageError


class Phases(Tasks):
    """One field of the environment with a value of its own in each phase of the run.

    Phase i is the steps n of a seed, all its environments together, with `times[i - 1] <= n < times[i]`; an episode
    is in the phase in which it begins, as far as the last rollout tells, and keeps its value to its end. So the change
    reaches each environment at the end of its episode, and an episode that never ends never changes; for changes
    within an episode there is the environment `Piecewise`. With `cycle` the phases come again, each as long as at
    first, the last one as long as the one before it.

        Phases("length", (0.5, 1.5), times=(50_000,))
        Phases("reward", (river_swim().reward, river_swim(small=1.0, large=5e-4).reward), times=(50_000,))

    Of a text environment the field is a limit: `turns` of an episode, tokens of the `context` that turns after the
    first read, or tokens of a `response`, for which observations need `--env.room true`. A step is a turn there.

    Evaluation is in the first phase, of text without limits: it is apart from training and has no clock of its own.

    Source: Jaksch, Ortner and Auer (2010), "Near-optimal Regret Bounds for Reinforcement Learning", section 6, where
    an MDP changes some number of times; Padakandla (2021), "A Survey of Reinforcement Learning Algorithms for
    Dynamically Varying Environments" (arXiv 2005.10619).

    A limit on turns that rises is ScalingInter-RL, of Xi et al. (2025), "AgentGym-RL: Training LLM Agents for
    Long-Horizon Decision Making through Multi-Turn Reinforcement Learning", arXiv 2509.08755: the authors' program
    (`StepRoundsScheduler` of `ray_trainer.py`) raises it after each 100 updates. With the agent `raft` it is the
    schedule of TTI, of Shen et al. (2025), "Thinking vs. Doing: Agents that Reason by Scaling Test-Time Interaction",
    arXiv 2506.07976: 10, 20 and 30 turns, from the first, second and fourth of 15 iterations on (the authors'
    `webvoyager_train.sh`).
    """

    example: ClassVar[str] = (
        "forage train ppo CartPole-v1 --tasks phases --tasks.field length --tasks.values 0.5,1.5 --tasks.times 100k"
    )
    ranges: ClassVar[Ranges] = {"times": Range(1), "values": Range()}

    on_host: ClassVar[bool] = True
    adapts: ClassVar[bool] = True

    field: str = equinox.field(static=True)  # which field of the environment changes
    values: tuple[float, ...] = equinox.field(converter=tuple)  # its value in each phase, a number or an array
    times: tuple[int, ...] = equinox.field(converter=tuple)  # steps of a seed at which the next phase begins
    cycle: bool = equinox.field(static=True, default=False)  # begin again after the last phase

    def __check_init__(self):
        if len(self.values) != len(self.times) + 1 or not self.times:
            raise ForageError(
                f"Phases needs one value more than times, and at least one time; "
                f"got {len(self.values)} values and {len(self.times)} times."
            )
        numbers = [time for time in self.times if isinstance(time, int | float | np.number)]
        if numbers != sorted(set(numbers)) or min(numbers, default=1) < 1:
            raise ForageError(f"Phases needs times that rise, from 1 up; got {', '.join(map(str, self.times))}.")

    def check(self, environment: Environment) -> None:
        """Raise `ForageError` for a field that the environment does not have, or values that do not fit it."""
        check_limits(type(self).__name__, environment, self.field, self.values)
        current = value_of(environment, self.field)
        for value in self.values:
            if np.shape(value) != np.shape(current):
                raise ForageError(
                    f"Phases cannot set {self.field}, whose shape is {np.shape(current)}, to a value of shape "
                    f"{np.shape(value)}; give each phase a value like {self.field} itself."
                )
            whole = not jnp.issubdtype(jnp.result_type(current), jnp.floating)
            if whole and isinstance(value, float) and value != int(value):
                raise ForageError(f"{self.field} is a whole number; Phases cannot set it to {value}.")

    def init(self, key: Key[Array, ""], environment: Environment) -> Int[Array, ""]:
        self.check(environment)
        return jnp.zeros((), jnp.int32)  # steps taken

    def phase(self, steps: Int[Array, ""]) -> Int[Array, ""]:
        """Return the index of the run's phase after these steps."""
        times = jnp.asarray(self.times, jnp.int32)
        if self.cycle:
            last = times[-1] - (times[-2] if len(self.times) > 1 else 0)
            steps = steps % (times[-1] + last)
        return (steps >= times).sum()

    def next(self, state: Int[Array, ""], environment: Environment, key: Key[Array, ""]) -> PyTree[Array | None]:
        current = value_of(environment, self.field)
        dtype = jnp.result_type(current)
        values = jnp.stack([jnp.asarray(value, dtype) for value in self.values])
        task: Any = jax.tree.map(lambda _: None, environment)
        return replace(task, environment, self.field, values[self.phase(state)])

    def report(self, state: Int[Array, ""], rollout: Experience, review: RolloutReport) -> Int[Array, ""]:
        return state + rollout.terminated.size


def check_limits(part: str, environment: Any, field: str, values: Sequence[Any]) -> None:
    """Raise `ForageError` if an environment on the host has no such limit, or a smaller one."""
    if not hasattr(environment, "num_starts"):  # a native one
        return
    known = [name for name in ("turns", "context", "response") if isinstance(getattr(environment, name), np.integer)]
    name = environment.spec.name
    if field not in known:
        raise ForageError(f"{name} has no {field} that {part} can set; {what_works(environment, field, known)}.")
    most = int(getattr(environment, field))
    for value in values:
        if not 1 <= value <= most:
            raise ForageError(
                f"{part} sets {field} of {name} to {value:g}, which has 1 to {most}; give values in between."
            )


def what_works(environment: Any, field: str, known: Sequence[str]) -> str:
    """Return the end of a sentence about a limit that an environment on the host does not have."""
    if not is_text(environment.observation_space):
        return "it runs on the host, and fields are set in native environments, such as CartPole-v1"
    if field == "response":
        return "give it --env.room true"
    if field in ("turns", "context") and not known:
        return "an episode has one turn; games such as text:guess and problems with tools have several"
    return f"its limits are {' and '.join(known) or 'none'}, and response with --env.room true"
