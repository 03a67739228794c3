"""A process that steps environments: lanes, each a batch of its own on a thread of its own, told what to do by a pipe.

Arrays come and go in shared memory (`Exchange`); a pipe carries a few bytes for each step, whatever else is asked for,
and, by its end, the news that the process is gone.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from jaxtyping import PyTree

from forage.core import spaces
from forage.core.errors import ForageError
from forage.core.host import HostEnvironment, array_dtype
from forage.core.types import Spec
from forage.loop.cluster.block import Block

STEP, CALL, OPEN, CLOSE = "step", "call", "open", "close"  # what a lane is told
DONE, FAILED = "done", "failed"  # and what it answers

TOLD = (
    *("evaluation_episodes", "evaluation_envs", "in_words", "places", "returns", "seeded", "numbered", "difficulty"),
    *("hints", "written", "frames_per_second", "info_names"),
)
"""What a batch says once of all its environments."""


class Exchange(NamedTuple):
    """What is done in a batch of environments, and what came of it: arrays `env ...`, or their shapes."""

    action: PyTree[Any]
    led_to: PyTree[Any]  # the observation that each step led to
    observation: PyTree[Any]  # what to act on next, in the rows where an episode ended
    reward: Any
    terminated: Any
    truncated: Any
    info: dict[str, Any]
    place: Any


def exchange(spec: Spec, num_envs: int) -> Exchange:
    """Return the shapes of what a batch of environments exchanges."""
    rows = (num_envs,) if spec.num_agents == 1 else (num_envs, spec.num_agents)

    def batched(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*rows, *shape), np.dtype(dtype))

    def nested(space: Any) -> PyTree[jax.ShapeDtypeStruct]:
        if isinstance(space, gymnasium.spaces.Dict):
            return {name: nested(inner) for name, inner in space.items()}
        return batched(space.shape or (), array_dtype(space))

    action = jax.tree.map(
        lambda x: batched(x.shape, x.dtype), jax.eval_shape(lambda: spaces.example(spec.action_space))
    )
    reward = (len(spec.reward_names),) if spec.reward_names else ()
    observation = nested(spec.observation_space)
    flag, number = batched((), bool), jax.ShapeDtypeStruct((num_envs,), np.dtype(np.float32))
    info = dict.fromkeys(spec.info_names, number)
    place = jax.ShapeDtypeStruct((num_envs,), np.dtype(np.int32))
    return Exchange(action, observation, observation, batched(reward, np.float32), flag, flag, info, place)


class Lane:
    """A batch of environments of a worker: rows `first` to `first + num_envs` of the whole."""

    def __init__(self, build: Callable[[int], HostEnvironment], num_envs: int, first: int, pipe: Connection):
        self.build, self.num_envs, self.first, self.pipe = build, num_envs, first, pipe
        self.block: Block | None = None

    def work(self) -> None:
        """Do what the pipe asks for until it closes."""
        with contextlib.suppress(EOFError, OSError, BrokenPipeError):  # the other side is gone
            try:
                self.environment = self.build(self.num_envs)
            except Exception as error:
                self.pipe.send((FAILED, sentence(error)))
                return
            self.environment.first = self.first
            self.pipe.send((DONE, description(self.environment)))
            while (asked := self.pipe.recv())[0] != CLOSE:
                try:
                    answer = (DONE, self.answer(*asked))
                except Exception as error:
                    answer = (FAILED, sentence(error))
                self.pipe.send(answer)
        self.close()

    def answer(self, what: str, *told: Any) -> Any:
        """Do what was asked for, and return the answer."""
        if what == STEP:
            return self.step(*told)
        if what == OPEN:
            shapes, name = told
            self.block = Block(shapes, name)
            rows = slice(self.first, self.first + self.num_envs)
            self.mine: Exchange = jax.tree.map(lambda x: x[rows], self.block.arrays)
            return None
        assert what == CALL
        name, *arguments = told
        found = getattr(self.environment, name)
        return found(*arguments) if callable(found) else found

    def step(self, number: int) -> int:
        """Take the actions that lie in the block, and write what came of them. Return the step's number."""
        mine, environment = self.mine, self.environment
        result = environment.step(jax.tree.map(np.array, mine.action))
        step = result.step
        jax.tree.map(np.copyto, mine.led_to, step.observation)
        if result.observation is not step.observation:
            jax.tree.map(np.copyto, mine.observation, result.observation)
        mine.reward[:], mine.terminated[:], mine.truncated[:] = step.reward, step.terminated, step.truncated
        for name, values in mine.info.items():
            values[:] = step.info[name]
        if environment.places is not None:
            mine.place[:] = environment.place
        return number

    def close(self) -> None:
        environment = getattr(self, "environment", None)
        if environment is not None:
            with contextlib.suppress(Exception):
                environment.close()
        if self.block is not None:
            self.mine = None  # type: ignore[assignment]
            self.block.close()


def description(environment: HostEnvironment) -> dict[str, Any]:
    """Return what a batch says once of all its environments, and its spec."""
    told = {name: getattr(environment, name) for name in TOLD}
    return told | {"spec": environment.spec, "saved": type(environment)._snapshot is not HostEnvironment._snapshot}


def sentence(error: Exception) -> str:
    """Return what went wrong as one sentence."""
    if isinstance(error, ForageError):
        return str(error)
    return f"A worker failed with {type(error).__name__}: {str(error) or 'no message'}."


def main(build: Callable[[int], HostEnvironment], lanes: list[tuple[int, int, Connection]]) -> None:
    """Run the lanes of a worker, each `(num_envs, first, pipe)`, until their pipes close."""
    jax.config.update("jax_platforms", "cpu")  # an accelerator is the learner's
    made = [Lane(build, *lane) for lane in lanes]
    threads = [threading.Thread(target=lane.work, daemon=True) for lane in made[1:]]
    for thread in threads:
        thread.start()
    made[0].work()
    for thread in threads:
        thread.join()
