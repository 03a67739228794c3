"""Environments on the host in separate processes, as one batch with the interface of any other.

A batch is cut into lanes, one for each thread of each worker, which hold neighbouring environments and step them
together. A step is sent to all workers and waited for; environments are seeded by their place in the whole batch, so
what comes back is, bit by bit, what one process would have made of those that seed each environment by itself.

A worker that dies is replaced, whatever it was asked for, and so is one that does not answer in time, which is killed.
What its environments were doing is lost, and said to be: the step that they were in, or between two steps the next one,
is no transition (`lost`), and new episodes begin there.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree, UInt8

from forage.core.arrays import check_alike
from forage.core.errors import ForageError
from forage.core.host import Conversation, HostEnvironment, HostStep
from forage.core.types import Step
from forage.loop.cluster.actors import RayWorker, check_ray
from forage.loop.cluster.block import Block
from forage.loop.cluster.process import Guard, Lane, Process, Worker, WorkerGone
from forage.loop.cluster.silence import Silence
from forage.loop.cluster.worker import OPEN, Exchange, exchange

PER_CORE = 8  # workers that a machine is asked to bear, at most
MOST_REPLACED, WITHIN = 100, 1000  # workers, and steps within which so many deaths mean that something else is wrong
IN_A_ROW = 10  # deaths of one worker without a step between them, which mean the same
TRIES = 3  # times that a worker may die of one question
PATIENCE = 600.0  # seconds in which a worker answers, unless a person says how many


def print_nothing(text: str) -> None:
    """Print no text."""


class Pool(HostEnvironment):
    """A batch of environments that workers step."""

    apart: ClassVar[bool] = False
    """Lanes are asked one by one, and not all at once."""

    process: ClassVar[type[Process]] = Process
    """The workers, where they are processes of this machine."""

    examines: bool = False
    """Its episodes are those that evaluation plays."""

    singly: bool = False
    """They are judged one by one."""

    def __init__(
        self,
        build: Callable[[int], HostEnvironment],
        num_envs: int,
        workers: int,
        threads: int = 1,
        ray: bool = False,
        step_timeout: float = PATIENCE,
        note: Callable[[str], None] = print_nothing,
    ):
        """Start `workers` processes with `threads` lanes each. `build` makes a batch; it is sent to the processes.

        `ray`: they are actors of a Ray cluster, which may be on other machines. `step_timeout`: seconds within which a
        worker answers, or is replaced. `note` says who was replaced, and why. Raise `ForageError` if there are more
        lanes than environments, and where `build` cannot be sent.
        """
        check_workers(build, num_envs, workers, threads, ray)
        sizes = [len(part) for part in np.array_split(np.arange(num_envs), workers * threads)]
        each = [sizes[i * threads : (i + 1) * threads] for i in range(workers)]
        firsts = np.cumsum([0, *map(sum, each[:-1])]).tolist()
        kind = RayWorker if ray else self.process
        self.guard = Guard()
        self.workers: list[Worker] = [
            kind(build, *own, self.apart, self.guard) for own in zip(each, firsts, strict=True)
        ]
        self.lanes = [lane for worker in self.workers for lane in worker.lanes]
        self.replaced, self.seed, self.taken = 0, 0, 0
        self.deaths: deque[int] = deque(maxlen=MOST_REPLACED)  # the steps in which the newest were
        self.row: dict[Worker, tuple[int, int]] = {}  # the step in which each died last, and how often in that one
        self.anew: set[Lane] = set()  # whose worker was replaced between two steps, so that the next step is lost
        self.note = note
        self._lost: Bool[np.ndarray, " env"] | None = None
        self._no_reward: Bool[np.ndarray, " env"] | None = None
        self._unjudged: Bool[np.ndarray, " env"] | None = None
        self.block: Block | None = None
        self.silence = Silence(self.workers, step_timeout)
        try:
            for worker in self.workers:
                worker.start()
            self.silence.start()
            told, *others = [self._describe_lane(lane) for lane in self.lanes]
            spec = told["spec"]
            for lane, other in zip(self.lanes[1:], others, strict=True):
                ours, theirs = ((one.observation_space, one.action_space) for one in (spec, other["spec"]))
                check_alike(spec.name, ours, theirs, f"copy {lane.first + 1}")
            super().__init__(
                spec.name,
                spec.observation_space,
                spec.action_space,
                num_envs,
                spec.horizon,
                spec.reward_names,
                spec.num_agents,
            )
            self.told, self.shapes = told, exchange(spec, num_envs, told["measured"])
            self.counted = dict.fromkeys(told["measured"], 0.0)  # by workers that are no more
            self.block = Block(self.shapes, what=f"A step of {num_envs} environments of {spec.name} in workers")
            for worker in self.workers:
                self._open_arrays(worker)
        except BaseException:
            self.close()
            raise
        self.evaluation_episodes = told["evaluation_episodes"]  # type: ignore[misc]
        self.evaluation_envs, self.in_words = told["evaluation_envs"], told["in_words"]  # type: ignore[misc]

    @property
    def shared_arrays(self) -> Exchange:
        """Return the arrays that workers write to."""
        assert self.block is not None
        return self.block.arrays

    def _describe_lane(self, lane: Lane) -> dict[str, Any]:
        """Return a lane's description of the environments that it made, after restarts of its worker if needed.

        Raise `ForageError` if that dies again and again.
        """
        worker, how = lane.worker, ""
        for last in [False] * (TRIES - 1) + [True]:
            try:
                found = lane.answer()
            except WorkerGone:
                how = worker.how_it_ended()
                if last:
                    break
                self.replaced += 1
                worker.end()
                worker.start()
                for earlier in worker.lanes[: lane.place]:  # those have been heard
                    with contextlib.suppress(WorkerGone):
                        earlier.answer()
            else:
                worker.starting = lane is not worker.lanes[-1]
                return found
        raise ForageError(
            f"A worker {how} before it had made its environments, {TRIES} times; without workers the same run says why."
        )

    def _open_arrays(self, worker: Worker) -> None:
        """Have a worker's lanes open the shared arrays, or those of its replacement if it is gone."""
        try:
            for lane in worker.lanes:
                self._open(lane)
        except WorkerGone:
            self._renew_worker(worker)

    def _open(self, lane: Lane) -> None:
        assert self.block is not None
        lane.tell(OPEN, self.shapes, self.block.name if lane.worker.shares_memory else None)
        lane.answer()
        if self.examines:
            lane.ask("examine")
        if self.singly:
            lane.ask("judge_singly")

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        self.seed, self._lost, self._no_reward, self._unjudged = seed, None, None, None
        self.anew.clear()
        self.shared_arrays.number[:] = 0  # steps are counted anew, and no lane has taken the first
        return join_batches([self._reset_lanes(worker, seed) for worker in self.workers])

    def _reset_lanes(self, worker: Worker, seed: int) -> PyTree[np.ndarray]:
        """Reset the environments of a worker, or of its replacement if it is gone."""
        try:
            return join_batches([lane.ask("reset", seed) for lane in worker.lanes])
        except WorkerGone:
            return join_batches(self._renew_worker(worker, seed))

    def _send(self, action: PyTree[np.ndarray]) -> None:
        jax.tree.map(np.copyto, self.shared_arrays.action, action)
        self._lost = self._no_reward = self._unjudged = None
        self.taken += 1
        self._gone = [worker for worker in self.workers if worker.lanes[0] in self.anew]
        for worker in self.workers:
            if worker in self._gone:
                continue
            try:
                worker.begin_step(self._steps + 1, self.shared_arrays)
            except WorkerGone:
                self._gone.append(worker)

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        failed = ""
        for worker in self.workers:
            if worker in self._gone:
                continue
            try:
                failed = worker.end_step(self._steps, self.shared_arrays) or failed
            except WorkerGone:
                self._gone.append(worker)
        if failed:  # raised once all have answered
            raise ForageError(failed)
        for worker in self._gone:
            self._lose(worker)
        return self._result()

    def _result(self) -> HostStep:
        """Return copies of the results that the workers wrote."""
        shared = self.shared_arrays
        led_to, info = jax.tree.map(np.array, (shared.led_to, shared.info))
        step = Step(led_to, shared.reward.copy(), shared.terminated.copy(), shared.truncated.copy(), info)
        if shared.no_reward.any():
            self._no_reward = shared.no_reward.copy()
            self._lost = self._no_reward if self._lost is None else self._lost | self._no_reward
        if shared.unjudged.any():
            self._unjudged = shared.unjudged.copy()
        ended = (step.terminated | step.truncated).reshape(self.num_envs, -1).all(1)
        if not ended.any():
            return HostStep(step, led_to)

        def first_result(led_to: np.ndarray, first: np.ndarray) -> np.ndarray:
            found = led_to.copy()
            found[ended] = first[ended]
            return found

        return HostStep(step, jax.tree.map(first_result, led_to, shared.observation))

    def _lose(self, worker: Worker) -> None:
        """Begin new episodes in the environments of a worker that ended in the middle of a step, or before it.

        Lanes that had finished keep their step, whose episodes are cut there; that of the others is lost.
        """
        shared = self.shared_arrays
        silent = [lane for lane in worker.lanes if shared.number[lane.first] != self._steps]
        lost = np.zeros(self.num_envs, bool) if self._lost is None else self._lost
        for lane, began in zip(worker.lanes, self._begin_anew(worker), strict=True):
            rows = lane.rows

            def put(to: np.ndarray, new: np.ndarray, rows: slice = rows) -> None:
                to[rows] = new

            jax.tree.map(put, shared.observation, began)
            if lane in silent:
                jax.tree.map(put, shared.led_to, began)
                shared.reward[rows], shared.terminated[rows] = 0, False
                shared.no_reward[rows] = shared.unjudged[rows] = False
                lost[rows] = True
                for values in shared.info.values():
                    values[rows] = np.nan
            shared.truncated[rows] = ~shared.terminated[rows]
        self._lost = lost

    def _begin_anew(self, worker: Worker) -> list[PyTree[np.ndarray]]:
        """Begin episodes in a worker that is gone, or that was replaced since the last step. Return its lanes'
        observations.
        """
        was_replaced = self.anew.issuperset(worker.lanes)
        self.anew.difference_update(worker.lanes)
        if was_replaced:
            with contextlib.suppress(WorkerGone):
                return [lane.ask("reset", self._own_seed()) for lane in worker.lanes]
        return self._renew_worker(worker)

    def _own_seed(self) -> int:
        """Return the seed of the newest replacement."""
        return int(np.random.SeedSequence([self.seed, self.replaced]).generate_state(1)[0] >> 1)

    def _renew_worker(self, worker: Worker, seed: int | None = None) -> list[PyTree[np.ndarray]]:
        """Replace a worker, repeatedly if the new one dies at once. Return its lanes' observations after a reset.

        Without a seed they begin from one that this replacement has for itself.
        """
        while True:
            how = worker.how_it_ended()
            self._check_deaths(worker, how)
            self.replaced += 1
            self.deaths.append(self.taken)
            if worker.overdue or self.replaced.bit_count() == 1:  # the 1st, the 2nd, the 4th, ...
                self.note(
                    f"A worker {how} and is replaced ({self.replaced:,} so far); what environments {worker.rows.start} "
                    f"to {worker.rows.stop - 1} of {self.name} were doing is lost, and episodes begin there."
                )
            worker.end()
            for name, values in self.shared_arrays.measured.items():
                self.counted[name] += values[worker.rows].sum()
                values[worker.rows] = 0
            worker.start()
            with contextlib.suppress(WorkerGone):
                for lane in worker.lanes:
                    lane.answer()
                worker.starting = False
                for lane in worker.lanes:
                    self._open(lane)
                return [lane.ask("reset", self._own_seed() if seed is None else seed) for lane in worker.lanes]

    def _check_deaths(self, worker: Worker, how: str) -> None:
        """Raise `ForageError` if workers die so often that their environments must be the cause."""
        step, times = self.row.get(worker, (-1, 0))
        self.row[worker] = self.taken, times + 1 if step == self.taken else 1
        longer = " or give a longer --step-timeout" if worker.overdue else ""
        if self.row[worker][1] > IN_A_ROW:
            raise ForageError(
                f"A worker of {self.name} has been replaced {IN_A_ROW} times within one step, and the last one {how}; "
                f"look at its environments without workers{longer}."
            )
        if len(self.deaths) == MOST_REPLACED and self.taken - self.deaths[0] < WITHIN:
            raise ForageError(
                f"{MOST_REPLACED} workers of {self.name} have died within {WITHIN:,} steps and been replaced, and the "
                f"last one {how}; its environments take their process down, so look at them without workers{longer}."
            )

    def _replace_between(self, worker: Worker) -> None:
        """Replace a worker that is gone between two steps, of which the next is lost then."""
        self._renew_worker(worker)
        self.anew.update(worker.lanes)

    def _ask(self, lane: Lane, name: str, *arguments: Any) -> Any:
        """Send a lane a request between two steps, to the replacement of its worker if that is gone."""
        return self._persist(lane, name, lambda: lane.ask(name, *arguments))

    def _persist(self, lane: Lane, name: str, ask: Callable[[], Any]) -> Any:
        """Return the result of `ask`. Raise `ForageError` if each worker dies of it."""
        how = ""
        for _ in range(TRIES):
            try:
                return ask()
            except WorkerGone:
                how = lane.worker.how_it_ended()
                self._replace_between(lane.worker)
        raise ForageError(
            f"A worker of {self.name} {how} each of {TRIES} times that its environments were asked to {name}; look at "
            f"them without workers."
        )

    def _at_home(self, index: int) -> tuple[Lane, int]:
        """Return the lane of an environment, and its place there."""
        lane = next(lane for lane in self.lanes if lane.first <= index < lane.first + lane.num_envs)
        return lane, index - lane.first

    @property
    def lost(self) -> Bool[np.ndarray, " env"] | None:
        return self._lost

    @property
    def lost_reason(self) -> str:
        return super().lost_reason if self._no_reward is None else self._ask(self.lanes[0], "lost_reason")

    @property
    def no_reward(self) -> Bool[np.ndarray, " env"] | None:
        return self._no_reward

    @property
    def no_reward_reason(self) -> str:
        return self._first_reason("no_reward_reason")

    @property
    def unjudged(self) -> Bool[np.ndarray, " env"] | None:
        return self._unjudged

    @property
    def unjudged_reason(self) -> str:
        return self._first_reason("unjudged_reason")

    def _first_reason(self, name: str) -> str:
        """Return the reason of the first lane that has one; empty if none has."""
        return next(filter(None, (self._ask(lane, name) for lane in self.lanes)), "")

    @property
    def left(self) -> bool:
        return any(worker.left for worker in self.workers)

    def metrics(self) -> dict[str, np.ndarray]:
        counts = {name: self.counted[name] + values.sum() for name, values in self.shared_arrays.measured.items()}
        found = counts | {"workers_replaced": self.replaced}
        return {name: np.float32(number) for name, number in found.items()}  # type: ignore[misc]

    @property
    def goal_reward(self) -> Any:
        return self.told["spec"].goal_reward

    @property
    def map_shape(self) -> tuple[int, ...] | None:
        return self.told["map_shape"]

    @property
    def map_position(self) -> Int[np.ndarray, " env"]:
        return self.shared_arrays.place.copy()

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

    @property
    def may_save(self) -> bool:
        return self.told["may_save"]

    def _take(self, index: int) -> bytes | None:
        lane, own = self._at_home(index)
        state = self._ask(lane, "take", own)
        return None if lane in self.anew else state

    def _put(self, index: int, state: bytes | None) -> PyTree[np.ndarray]:
        lane, own = self._at_home(index)
        return self._ask(lane, "put", own, state)

    @property
    def seeded(self) -> bool:
        return self.told["seeded"]

    @property
    def num_starts(self) -> int:
        return self.told["num_starts"]

    @property
    def pass_length(self) -> int:
        return self.told["pass_length"]

    @property
    def difficulty(self) -> Float[np.ndarray, " number"]:
        return self.told["difficulty"]

    @property
    def hints(self) -> float:
        return self.told["hints"]

    @property
    def kinds(self) -> Int[np.ndarray, " number"]:
        return self.told["kinds"]

    @property
    def prompt_lengths(self) -> Int[np.ndarray, " number"]:
        return self._ask(self.lanes[0], "prompt_lengths")

    @property
    def limits(self) -> dict[str, int]:
        return self.told["limits"]

    def _limit(self, index: int, values: Mapping[str, int]) -> None:
        lane, own = self._at_home(index)
        self._ask(lane, "limit", own, dict(values))

    def _begin(self, index: int, seed: int, number: int | None, hint: float) -> PyTree[np.ndarray]:
        lane, own = self._at_home(index)
        return self._ask(lane, "begin", own, seed, number, hint)

    @property
    def max_answer_tokens(self) -> int:
        return self.told["max_answer_tokens"]

    def _branch(self, index: int, tokens: np.ndarray) -> PyTree[np.ndarray]:
        lane, own = self._at_home(index)
        return self._ask(lane, "branch", own, tokens)

    def examine(self) -> None:
        self.examines = True
        for lane in self.lanes:
            self._ask(lane, "examine")

    def judge_singly(self) -> None:
        self.singly = True
        for lane in self.lanes:
            self._ask(lane, "judge_singly")

    def conversations(self) -> list[Conversation]:
        return [one for lane in self.lanes for one in self._ask(lane, "conversations")] if self.in_words else []

    def expert_episode(self) -> Conversation | None:
        return self._ask(self.lanes[0], "expert_episode")

    def _render(self) -> UInt8[np.ndarray, "height width 3"]:
        return self._ask(self.lanes[0], "render")

    def _snapshot(self) -> bytes | None:
        if not self.told["saved"]:
            return None
        parts = [self._ask(lane, "snapshot") for lane in self.lanes]
        if any(part is None for part in parts):
            return None
        whole = b"".join([struct.pack("<I", len(parts)), *(struct.pack("<Q", len(p)) + p for p in parts)])
        # Behind the parts, where there are any: the lanes whose next step is lost.
        return whole + (bytes(lane in self.anew for lane in self.lanes) if self.anew else b"")

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
        shown = [self._restore_worker(worker, parts) for worker in self.workers]
        self.anew = {lane for lane, anew in zip(self.lanes, snapshot[at:], strict=False) if anew}
        return join_batches(shown)

    def _restore_worker(self, worker: Worker, parts: Sequence[bytes]) -> PyTree[np.ndarray]:
        """Return the observations of a worker, or of its replacement, after its lanes are restored from a snapshot."""
        own = [(lane, parts[self.lanes.index(lane)]) for lane in worker.lanes]
        ask = lambda: [lane.ask("restore", part) for lane, part in own]  # noqa: E731
        return join_batches(self._persist(worker.lanes[0], "restore", ask))

    def close(self) -> None:
        self.silence.stop()
        for worker in self.workers:
            worker.ask_to_end()
        for worker in self.workers:
            worker.end()
        self.guard.close()
        if self.block is not None:
            self.block.close()
            self.block = None


def join_batches(parts: Sequence[PyTree[np.ndarray]]) -> PyTree[np.ndarray]:
    """Join the arrays of neighbouring environments into one batch."""
    return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def check_workers(
    build: Callable[[int], HostEnvironment], num_envs: int, workers: int, threads: int, ray: bool = False
) -> None:
    """Raise `ForageError` for more workers than environments or than the machine allows, and for code that cannot be
    sent.
    """
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
    """Raise `ForageError` for a builder of environments that cannot be sent to other processes."""
    try:
        pickle.dumps(build)
    except Exception as error:
        raise ForageError(
            f"The environment cannot be sent to worker processes ({type(error).__name__}: {error}); define it at the "
            f"top level of a module, or name it as file.py:Class."
        ) from None
