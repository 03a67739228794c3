"""Environments on the host in processes of their own, as one batch: whoever steps it need not know.

A batch is cut into lanes, one for each thread of each worker, which hold neighbouring environments and step them
together. A step is sent to all workers and waited for; environments are seeded by their place in the whole batch, so
what comes back is, bit by bit, what one process would have made of those that seed each environment by itself.

A worker that dies is replaced. What its environments were doing is lost, and said to be: the step is no transition
(`lost`), and new episodes begin there.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree, UInt8

from forage.core.errors import ForageError
from forage.core.host import Conversation, HostEnvironment, HostStep
from forage.core.types import Step
from forage.loop.cluster.actors import RayWorker, check_ray
from forage.loop.cluster.block import Block
from forage.loop.cluster.process import Gone, Lane, Process, Worker
from forage.loop.cluster.worker import OPEN, Exchange, exchange

PER_CORE = 8  # workers that a machine is asked to bear, at most
MOST_REPLACED, WITHIN = 100, 1000  # workers, and steps within which so many deaths mean that something else is wrong


class Pool(HostEnvironment):
    """A batch of environments that workers step."""

    apart: ClassVar[bool] = False
    """Lanes are asked one by one, and not all at once."""

    process: ClassVar[type[Process]] = Process
    """The workers, where they are processes of this machine."""

    def __init__(
        self, build: Callable[[int], HostEnvironment], num_envs: int, workers: int, threads: int = 1, ray: bool = False
    ):
        """Start `workers` processes with `threads` lanes each. `build` makes a batch; it is sent to the processes.

        `ray`: they are actors of a Ray cluster, which may be on other machines. Raise `ForageError` where there are
        more lanes than environments, and where `build` cannot be sent.
        """
        check(build, num_envs, workers, threads, ray)
        sizes = [len(part) for part in np.array_split(np.arange(num_envs), workers * threads)]
        each = [sizes[i * threads : (i + 1) * threads] for i in range(workers)]
        firsts = np.cumsum([0, *map(sum, each[:-1])]).tolist()
        kind = RayWorker if ray else self.process
        self.workers: list[Worker] = [kind(build, *own, self.apart) for own in zip(each, firsts, strict=True)]
        self.lanes = [lane for worker in self.workers for lane in worker.lanes]
        self.replaced, self.seed, self.taken = 0, 0, 0
        self.deaths: deque[int] = deque(maxlen=MOST_REPLACED)  # the steps in which the newest were
        self._lost: Bool[np.ndarray, " env"] | None = None
        self.block: Block | None = None
        try:
            for worker in self.workers:
                worker.start()
            told, *_ = [self._begun(lane) for lane in self.lanes]
            spec = told["spec"]
            super().__init__(
                spec.name,
                spec.observation_space,
                spec.action_space,
                num_envs,
                spec.horizon,
                spec.reward_names,
                spec.num_agents,
            )
            self.told, self.shapes = told, exchange(spec, num_envs)
            self.block = Block(self.shapes)
            for lane in self.lanes:
                self._open(lane)
        except BaseException:
            self.close()
            raise
        self.evaluation_episodes = told["evaluation_episodes"]  # type: ignore[misc]
        self.evaluation_envs, self.in_words = told["evaluation_envs"], told["in_words"]  # type: ignore[misc]

    @property
    def shared(self) -> Exchange:
        """Return the arrays that workers write to."""
        assert self.block is not None
        return self.block.arrays

    @staticmethod
    def _begun(lane: Lane) -> dict[str, Any]:
        try:
            return lane.answer()
        except Gone:
            raise ForageError(
                "A worker ended before it had made its environments; without workers the same run says why."
            ) from None

    def _open(self, lane: Lane) -> None:
        assert self.block is not None
        lane.tell(OPEN, self.shapes, self.block.name if lane.worker.shares_memory else None)
        lane.answer()

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        self.seed, self._lost = seed, None
        self.shared.number[:] = 0  # steps are counted anew, and no lane has taken the first
        return joined([self._reset_lanes(worker, seed) for worker in self.workers])

    def _reset_lanes(self, worker: Worker, seed: int) -> PyTree[np.ndarray]:
        """Reset the environments of a worker, of the one that replaces it where it is gone."""
        try:
            return joined([lane.ask("reset", seed) for lane in worker.lanes])
        except Gone:
            return joined(self._renewed(worker, seed))

    def _send(self, action: PyTree[np.ndarray]) -> None:
        jax.tree.map(np.copyto, self.shared.action, action)
        self._lost = None
        self.taken += 1
        self._gone: list[Worker] = []
        for worker in self.workers:
            try:
                worker.begin_step(self._steps + 1, self.shared)
            except Gone:
                self._gone.append(worker)

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        failed = ""
        for worker in self.workers:
            if worker in self._gone:
                continue
            try:
                failed = worker.end_step(self._steps, self.shared) or failed
            except Gone:
                self._gone.append(worker)
        if failed:  # raised once all have answered
            raise ForageError(failed)
        for worker in self._gone:
            self._lose(worker)
        return self._result()

    def _result(self) -> HostStep:
        """Return copies of what the workers wrote."""
        shared = self.shared
        led_to, info = jax.tree.map(np.array, (shared.led_to, shared.info))
        step = Step(led_to, shared.reward.copy(), shared.terminated.copy(), shared.truncated.copy(), info)
        ended = (step.terminated | step.truncated).reshape(self.num_envs, -1).all(1)
        if not ended.any():
            return HostStep(step, led_to)

        def begun(led_to: np.ndarray, first: np.ndarray) -> np.ndarray:
            found = led_to.copy()
            found[ended] = first[ended]
            return found

        return HostStep(step, jax.tree.map(begun, led_to, shared.observation))

    def _lose(self, worker: Worker) -> None:
        """Replace a worker that ended in the middle of a step, and begin new episodes in its environments.

        Lanes that had finished keep their step, whose episodes are cut there; that of the others is lost.
        """
        shared = self.shared
        silent = [lane for lane in worker.lanes if shared.number[lane.first] != self._steps]
        lost = np.zeros(self.num_envs, bool) if self._lost is None else self._lost
        for lane, began in zip(worker.lanes, self._renewed(worker), strict=True):
            rows = lane.rows

            def put(to: np.ndarray, new: np.ndarray, rows: slice = rows) -> None:
                to[rows] = new

            jax.tree.map(put, shared.observation, began)
            if lane in silent:
                jax.tree.map(put, shared.led_to, began)
                shared.reward[rows], shared.terminated[rows] = 0, False
                lost[rows] = True
                for values in shared.info.values():
                    values[rows] = np.nan
            shared.truncated[rows] = ~shared.terminated[rows]
        self._lost = lost

    def _renewed(self, worker: Worker, seed: int | None = None) -> list[PyTree[np.ndarray]]:
        """Replace a worker, again where the new one dies as it begins. Return what its lanes show after a reset.

        Without a seed they begin from one that this replacement has for itself.
        """
        while True:
            if len(self.deaths) == MOST_REPLACED and self.taken - self.deaths[0] < WITHIN:
                raise ForageError(
                    f"{MOST_REPLACED} workers of {self.name} have died within {WITHIN:,} steps and been replaced; its "
                    f"environments take their process down, so look at them without workers."
                )
            self.replaced += 1
            self.deaths.append(self.taken)
            worker.end()
            worker.start()
            own = np.random.SeedSequence([self.seed, self.replaced]).generate_state(1)[0] >> 1
            with contextlib.suppress(Gone):
                for lane in worker.lanes:
                    lane.answer()
                    self._open(lane)
                return [lane.ask("reset", int(own) if seed is None else seed) for lane in worker.lanes]

    def _ask(self, lane: Lane, name: str, *arguments: Any) -> Any:
        """Ask a lane for what no other could tell, so its worker has to be there."""
        try:
            return lane.ask(name, *arguments)
        except Gone:
            raise ForageError(
                f"A worker of {self.name} ended when its environments were asked to {name}; forage resume goes on "
                f"from the last checkpoint."
            ) from None

    def _at_home(self, index: int) -> tuple[Lane, int]:
        """Return the lane of an environment, and its place there."""
        lane = next(lane for lane in self.lanes if lane.first <= index < lane.first + lane.num_envs)
        return lane, index - lane.first

    @property
    def lost(self) -> Bool[np.ndarray, " env"] | None:
        return self._lost

    def measured(self) -> dict[str, np.ndarray]:
        return {"workers_replaced": np.float32(self.replaced)}  # type: ignore[dict-item]

    @property
    def places(self) -> tuple[int, ...] | None:
        return self.told["places"]

    @property
    def place(self) -> Int[np.ndarray, " env"]:
        return self.shared.place.copy()

    @property
    def info_names(self) -> tuple[str, ...]:
        return self.told["info_names"]

    @property
    def info_seen(self) -> tuple[str, ...]:
        return tuple(sorted({name for lane in self.lanes for name in self._ask(lane, "info_seen")}))

    @property
    def frames_per_second(self) -> float | None:
        return self.told["frames_per_second"]

    @property
    def returns(self) -> bool:
        return self.told["returns"]

    def _take(self, index: int) -> bytes:
        lane, own = self._at_home(index)
        return self._ask(lane, "take", own)

    def _put(self, index: int, state: bytes | None) -> PyTree[np.ndarray]:
        lane, own = self._at_home(index)
        return self._ask(lane, "put", own, state)

    @property
    def seeded(self) -> bool:
        return self.told["seeded"]

    @property
    def numbered(self) -> int:
        return self.told["numbered"]

    @property
    def difficulty(self) -> Float[np.ndarray, " number"]:
        return self.told["difficulty"]

    @property
    def hints(self) -> float:
        return self.told["hints"]

    def _begin(self, index: int, seed: int, number: int | None, hint: float) -> PyTree[np.ndarray]:
        lane, own = self._at_home(index)
        return self._ask(lane, "begin", own, seed, number, hint)

    @property
    def written(self) -> int:
        return self.told["written"]

    def _branch(self, index: int, tokens: np.ndarray) -> PyTree[np.ndarray]:
        lane, own = self._at_home(index)
        return self._ask(lane, "branch", own, tokens)

    def examine(self) -> None:
        for lane in self.lanes:
            self._ask(lane, "examine")

    def conversations(self) -> list[Conversation]:
        return [one for lane in self.lanes for one in self._ask(lane, "conversations")] if self.in_words else []

    def played(self) -> Conversation | None:
        return self._ask(self.lanes[0], "played")

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        return self._ask(self.lanes[0], "render")

    def _snapshot(self) -> bytes | None:
        if not self.told["saved"]:
            return None
        parts = [self._ask(lane, "snapshot") for lane in self.lanes]
        if any(part is None for part in parts):
            return None
        return b"".join([struct.pack("<I", len(parts)), *(struct.pack("<Q", len(p)) + p for p in parts)])

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        (count,), at, parts = struct.unpack_from("<I", snapshot), 4, []
        if count != len(self.lanes):
            raise ForageError(
                f"{self.name} was saved in {count} lanes of its workers and cannot be gone on with in "
                f"{len(self.lanes)}; give it as many workers and threads as before."
            )
        for _ in self.lanes:
            (size,) = struct.unpack_from("<Q", snapshot, at)
            parts.append(snapshot[at + 8 : at + 8 + size])
            at += 8 + size
        return joined([self._ask(lane, "restore", part) for lane, part in zip(self.lanes, parts, strict=True)])

    def close(self) -> None:
        for worker in self.workers:
            worker.end()
        if self.block is not None:
            self.block.close()
            self.block = None


def joined(parts: Sequence[PyTree[np.ndarray]]) -> PyTree[np.ndarray]:
    """Return what neighbouring environments show as what all show."""
    return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def check(
    build: Callable[[int], HostEnvironment], num_envs: int, workers: int, threads: int, ray: bool = False
) -> None:
    """Raise `ForageError` for more workers than there is work, or than the machine bears, and what cannot be sent."""
    lanes = workers * threads
    if workers < 1 or threads < 1:
        raise ForageError(f"Workers are 1 or more, with 1 thread or more each, and not {workers} with {threads}.")
    if lanes > num_envs:
        raise ForageError(
            f"{workers} workers with {threads} threads each need {lanes} environments or more, and the agent has "
            f"{num_envs}; give fewer workers, or --num-envs {lanes}."
        )
    cores = os.cpu_count() or 1
    if ray:
        check_ray()
    elif workers > PER_CORE * cores:
        raise ForageError(
            f"{workers} workers are more than a machine of {cores} cores bears; {PER_CORE * cores} or fewer work, and "
            f"environments that wait may have threads of a worker, with --worker-threads."
        )
    check_sent(build)


def check_sent(build: Any) -> None:
    """Raise `ForageError` for what makes environments and cannot be sent to other processes."""
    try:
        pickle.dumps(build)
    except Exception as error:
        raise ForageError(
            f"The environment cannot be sent to worker processes ({type(error).__name__}: {error}); define it at the "
            f"top level of a module, or name it as file.py:Class."
        ) from None
