"""A process that steps environments: lanes, each a batch on a separate thread, with commands through a pipe.

Arrays come and go in shared memory (`Exchange`); the pipe carries a step's number, once for all lanes, and back when
the last of them has taken it, whatever else is asked for, and, by its end, the news that the process is gone.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, NoReturn

import gymnasium
import jax
import numpy as np
from jaxtyping import PyTree

from forage.core import spaces
from forage.core.errors import ForageError, show_warning, words_of
from forage.core.host import HostEnvironment, Quit, array_dtype
from forage.core.types import Spec
from forage.loop.cluster import reaper
from forage.loop.cluster.block import Block

MAKE, CALL, OPEN, CLOSE = "make", "call", "open", "close"  # what a lane is told
DONE, FAILED = "done", "failed"  # and what it answers

NUMBER = struct.Struct("<q")
"""A step's number: as a message, it asks a worker for that step, or confirms that all its lanes have taken it."""

TOLD = (
    *(
        "evaluation_episodes",
        "evaluation_envs",
        "in_words",
        "map_shape",
        "returns",
        "may_save",
        "seeded",
        "num_starts",
        "pass_length",
        "difficulty",
    ),
    *("kinds", "hints", "limits", "max_answer_tokens", "frames_per_second", "info_names"),
)
"""The attributes that a batch reports once for all its environments."""


class Exchange(NamedTuple):
    """The actions and results of a batch of environments: arrays `env ...`, or their shapes."""

    action: PyTree[Any]
    led_to: PyTree[Any]  # the observation that each step led to
    observation: PyTree[Any]  # what to act on next, in the rows where an episode ended
    reward: Any
    terminated: Any
    truncated: Any
    no_reward: Any  # whose episode ended without a reward
    unjudged: Any  # whose episode ended and could not be judged
    info: dict[str, Any]
    place: Any
    number: Any  # of the newest step that was taken
    measured: dict[str, Any]  # what a lane has counted, in the first of its rows


def exchange(spec: Spec, num_envs: int, measured: Sequence[str] = ()) -> Exchange:
    """Return the shapes of the actions and results of a batch of environments.

    `measured`: names of the numbers that lanes count.
    """
    rows = (num_envs,) if spec.num_agents == 1 else (num_envs, spec.num_agents)

    def batched_shape(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((*rows, *shape), np.dtype(dtype))

    def nested_shapes(space: Any) -> PyTree[jax.ShapeDtypeStruct]:
        if isinstance(space, gymnasium.spaces.Dict):
            return {name: nested_shapes(inner) for name, inner in space.items()}
        return batched_shape(space.shape or (), array_dtype(space))

    action = jax.tree.map(
        lambda x: batched_shape(x.shape, x.dtype), jax.eval_shape(lambda: spaces.example(spec.action_space))
    )
    reward = (len(spec.reward_names),) if spec.reward_names else ()
    observation = nested_shapes(spec.observation_space)
    flag, number = batched_shape((), bool), jax.ShapeDtypeStruct((num_envs,), np.dtype(np.float32))
    mask = jax.ShapeDtypeStruct((num_envs,), np.dtype(bool))
    info = dict.fromkeys(spec.info_names, number)
    place = jax.ShapeDtypeStruct((num_envs,), np.dtype(np.int32))
    steps = jax.ShapeDtypeStruct((num_envs,), np.dtype(np.int64))
    counts = dict.fromkeys(measured, jax.ShapeDtypeStruct((num_envs,), np.dtype(np.float64)))
    return Exchange(
        action,
        observation,
        observation,
        batched_shape(reward, np.float32),
        flag,
        flag,
        mask,
        mask,
        info,
        place,
        steps,
        counts,
    )


class Lane:
    """A batch of environments of a worker: rows `first` to `first + num_envs` of the whole."""

    def __init__(self, build: Callable[[int], HostEnvironment], num_envs: int, first: int):
        self.build, self.num_envs, self.first = build, num_envs, first
        self.asked: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self.block: Block | None = None

    def work(self) -> None:
        """Run the calls in the queue on this thread, until `None` ends it."""
        while (do := self.asked.get()) is not None:
            do()
        self.close()

    def answer(self, what: str, *told: Any) -> Any:
        """Carry out a request, and return the answer."""
        if what == MAKE:
            self.environment = self.build(self.num_envs)
            self.environment.first = self.first
            return description(self.environment)
        if what == OPEN:
            self.open(*told)
            return None
        assert what == CALL
        name, *arguments = told
        found = getattr(self.environment, name)
        return found(*arguments) if callable(found) else found

    def open(self, shapes: Exchange, name: str | None) -> None:
        """Take the lane's rows of the block of this name; without one, arrays of its own."""
        if name is None:
            self.mine: Exchange = jax.tree.map(lambda x: np.zeros((self.num_envs, *x.shape[1:]), x.dtype), shapes)
        else:
            self.block = Block(shapes, name)
            rows = slice(self.first, self.first + self.num_envs)
            self.mine = jax.tree.map(lambda x: x[rows], self.block.arrays)
        self.actions, self.structure = jax.tree.flatten(self.mine.action)  # trees are walked slowly, at every step
        self.led_to, self.observation = jax.tree.leaves(self.mine.led_to), jax.tree.leaves(self.mine.observation)

    def step(self, number: int) -> None:
        """Take the actions in the block, and write the results and, at last, the step's number."""
        mine, environment = self.mine, self.environment
        result = environment.step(jax.tree.unflatten(self.structure, [action.copy() for action in self.actions]))
        step = result.step
        write_leaves(self.led_to, step.observation)
        if result.observation is not step.observation:
            write_leaves(self.observation, result.observation)
        mine.reward[:], mine.terminated[:], mine.truncated[:] = step.reward, step.terminated, step.truncated
        mine.no_reward[:] = False if environment.no_reward is None else environment.no_reward
        mine.unjudged[:] = False if environment.unjudged is None else environment.unjudged
        for name, values in mine.info.items():
            values[:] = step.info[name]
        if environment.map_shape is not None:
            mine.place[:] = environment.map_position
        self.write_counts()
        mine.number[:] = number

    def write_counts(self) -> None:
        """Write the counts of the environments into shared memory."""
        if self.mine.measured:
            for name, number in self.environment.metrics().items():
                self.mine.measured[name][0] = number

    def close(self) -> None:
        environment = getattr(self, "environment", None)
        if environment is not None:
            with contextlib.suppress(Exception, SystemExit):
                environment.close()
        if self.block is not None:
            self.mine = None  # type: ignore[assignment]
            self.actions, self.led_to, self.observation = [], [], []  # views of the block, too
            self.block.close()


class Worker:
    """The lanes of this process, the first on its main thread, and the pipe to the pool."""

    def __init__(self, lanes: list[Lane], pipe: Connection, first: int = 0):
        """`first`: the place of the first lane."""
        self.lanes, self.pipe, self.first = lanes, pipe, first
        self.lock = threading.Lock()
        self.left, self.failed = 0, ""  # of a step: lanes that have not finished, and what was wrong in one

    def work(self) -> None:
        """Serve the requests of the pipe until it closes."""
        threads = [threading.Thread(target=lane.work, daemon=True) for lane in self.lanes[1:]]
        for thread in threads:
            thread.start()
        with contextlib.suppress(EOFError, OSError):  # the other side is gone
            while True:
                message = self.pipe.recv_bytes()
                if len(message) == NUMBER.size:
                    (number,), (self.left, self.failed) = NUMBER.unpack(message), (len(self.lanes), "")
                    for lane in self.lanes[1:]:
                        lane.asked.put(functools.partial(self.step, lane, number))
                    self.step(self.lanes[0], number)
                    continue
                place, *asked = pickle.loads(message)
                if asked[0] == CLOSE:
                    break
                if place != self.first:
                    self.lanes[place - self.first].asked.put(functools.partial(self.call, place, *asked))
                else:
                    self.call(place, *asked)
        for lane in self.lanes[1:]:
            lane.asked.put(None)
        self.lanes[0].close()
        for thread in threads:
            thread.join()

    def step(self, lane: Lane, number: int) -> None:
        """Take a step in a lane. The last lane to finish reports it, or the error of one of them."""
        failed = ""
        try:
            lane.step(number)
        except BaseException as error:
            failed = sentence(error)
        with self.lock:
            self.left -= 1
            self.failed = self.failed or failed
            last = not self.left
        if last:
            self.say(pickle.dumps(self.failed) if self.failed else NUMBER.pack(number))

    def call(self, place: int, *asked: Any) -> None:
        """Answer a request to the lane at this place."""
        self.say(answer_of(self.lanes[place - self.first], place, *asked))

    def say(self, message: bytes) -> None:
        with contextlib.suppress(OSError), self.lock:  # nobody may be there any more to hear it
            self.pipe.send_bytes(message)


class RemoteActor:
    """The lanes of a worker that is called from another machine: arrays come with each call, and go with its answer."""

    def __init__(self, build: bytes, lanes: list[tuple[int, int]]):
        jax.config.update("jax_platforms", "cpu")
        warnings.showwarning = show_warning
        self.lanes = [Lane(pickle.loads(build), *lane) for lane in lanes]
        self.threads = [ThreadPoolExecutor(1) for _ in lanes]  # an environment may want to stay on its thread

    def call(self, message: bytes) -> bytes:
        """Answer a request to a lane, as a worker's process does."""
        place, *asked = pickle.loads(message)
        return self.threads[place].submit(answer_of, self.lanes[place], place, *asked).result()

    def step(self, number: int, action: PyTree[np.ndarray]) -> tuple[str, Exchange]:
        """Take a step in all lanes. Return the error of one of them, or an empty text, and the results of the step."""
        first, failed = self.lanes[0].first, ""

        def take(lane: Lane) -> None:
            rows = slice(lane.first - first, lane.first - first + lane.num_envs)
            jax.tree.map(lambda to, new: np.copyto(to, new[rows]), lane.mine.action, action)
            lane.step(number)

        for step in [thread.submit(take, lane) for thread, lane in zip(self.threads, self.lanes, strict=True)]:
            try:
                step.result()
            except BaseException as error:
                failed = failed or sentence(error)
        return failed, jax.tree.map(lambda *x: np.concatenate(x), *(lane.mine for lane in self.lanes))

    def close(self) -> None:
        for thread, lane in zip(self.threads, self.lanes, strict=True):
            thread.submit(lane.close).result()


def write_leaves(leaves: list[np.ndarray], tree: PyTree[np.ndarray]) -> None:
    """Write the leaves of a tree into these."""
    for to, new in zip(leaves, jax.tree.leaves(tree), strict=True):
        to[...] = new


def answer_of(lane: Lane, place: int, *asked: Any) -> bytes:
    """Return a lane's answer, or its error, with its place."""
    try:
        return pickle.dumps((place, DONE, lane.answer(*asked)))
    except BaseException as error:
        return pickle.dumps((place, FAILED, sentence(error)))


def description(environment: HostEnvironment) -> dict[str, Any]:
    """Return the attributes of a batch that hold for all its environments, and its spec."""
    told = {name: getattr(environment, name) for name in TOLD}
    told |= {"spec": environment.spec, "measured": tuple(environment.metrics())}
    return told | {"saved": type(environment)._snapshot is not HostEnvironment._snapshot}


def sentence(error: BaseException) -> str:
    """Describe an error in one sentence. After a call of `sys.exit`, end the process."""
    if isinstance(error, SystemExit | Quit):
        leave(error.code)
    if isinstance(error, ForageError):
        return str(error)
    return f"A worker failed with {words_of(error)}."


def leave(code: Any) -> NoReturn:
    """End this process from any of its threads, as `sys.exit` does in the first one."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(0 if code is None else code & 0xFF if isinstance(code, int) else 1)


def main(
    build: Callable[[int], HostEnvironment],
    lanes: list[tuple[int, int]],
    pipes: list[Connection],
    mark: str,
    kind: type[Lane] = Lane,
) -> None:
    """Run the lanes of a worker, each `(num_envs, first)`, until the pipes close.

    With a pipe for each lane, each is a worker by itself, on a thread of its own: nobody hands messages on.
    """
    jax.config.update("jax_platforms", "cpu")  # an accelerator is the learner's
    warnings.showwarning = show_warning
    stand_apart(pipes, mark)
    made = [kind(build, *lane) for lane in lanes]
    if len(pipes) == 1:
        Worker(made, pipes[0]).work()
        return
    alone = [Worker([lane], pipe, place) for place, (lane, pipe) in enumerate(zip(made, pipes, strict=True))]
    threads = [threading.Thread(target=worker.work, daemon=True) for worker in alone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def stand_apart(pipes: list[Connection], mark: str) -> None:
    """Let this process and the programs that it starts be found, and ended, together and apart from all others."""
    # Ctrl-C, and closing it, reach all processes of a terminal. Who is worked for saves first, and then ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        for pipe in pipes:  # whose end is not known while a program holds it
            os.set_inheritable(pipe.fileno(), False)
    os.environ[reaper.MARK] = mark
