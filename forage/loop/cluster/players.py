"""Workers that act by themselves: they are sent parameters, play whole rollouts, and write these into shared memory.

Inference beside the environments, as the actors of Espeholt et al. (2018), "IMPALA: Scalable Distributed Deep-RL with
Importance Weighted Actor-Learner Architectures", arXiv 1802.01561. Each lane is told which rollouts to play, one after
the other, and with which parameters; it begins the next as soon as one is through, and waits for no other lane.

A worker that dies is replaced, and plays what it had not finished anew. The first step of that is no transition
(`GONE`), and ends the episodes that died with it.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import PyTree

from forage.core.errors import ForageError, RunInterrupted
from forage.core.host import HostEnvironment
from forage.loop.cluster.block import Block
from forage.loop.cluster.player import LEARN, PLAY, REMEMBER, REMIND, ActingData, Order, SharedBuffers, play_main
from forage.loop.cluster.pool import Pool, join_batches
from forage.loop.cluster.process import Lane, Process, Worker, WorkerGone


class PlayerProcess(Process):
    """A process whose lanes are players."""

    main: ClassVar[Callable[..., None]] = staticmethod(play_main)

    progress: Any = None
    """The numbers of episodes started and ended by the environments of each, `[env]`, once they can act."""

    def steps(self, line: int) -> int | None:
        """Return the count of a line; `None` while there is none."""
        return None if self.progress is None else int(self.progress[self.lanes[line].first])

    def waits(self, line: int) -> Any | None:
        came = super().waits(line)
        return None if came is None else (came, self.steps(line))

    def is_slow(self, line: int) -> bool:
        return super().is_slow(line) or self.steps(line) == 0  # how to act is compiled before the first step


class RolloutWorkers(Pool):
    """A pool that plays rollouts: `teach` once, then `publish` parameters, `play`, `hear` and read the shelf."""

    apart: ClassVar[bool] = True
    process: ClassVar[type[Process]] = PlayerProcess

    def __init__(self, build: Callable[[int], HostEnvironment], num_envs: int, *how: Any, **named: Any):
        """Start workers as a `Pool` does."""
        self.told_how: tuple[bytes, str] | None = None
        self.shelf_block: Block | None = None
        self.orders: dict[int, Order] = {}  # by number, from 1 on: those that not all lanes are known to have played
        self.asked = 0  # orders
        self.failed: dict[int, str] = {}  # what was wrong in an environment, by order
        super().__init__(build, num_envs, *how, **named)
        self.done = dict.fromkeys(self.lanes, 0)  # the newest order that each has played

    @property
    def shelf(self) -> SharedBuffers:
        """Return the arrays that players write to."""
        assert self.shelf_block is not None
        return self.shelf_block.arrays

    def teach(self, lesson: ActingData) -> None:
        """Tell all players how to act. Raise `ForageError` if the shelf has no room in memory."""
        advice = "a smaller --policy-lag, fewer environments, shorter rollouts"
        self.shelf_block = Block(lesson.shelf, what=f"Rollouts of {self.name} that workers play", advice=advice)
        self.told_how = pickle.dumps(lesson), self.shelf_block.name
        for worker in self.workers:
            worker.starting = True
            worker.progress = self.shelf.progress  # type: ignore[attr-defined]
        for lane in self.lanes:
            with contextlib.suppress(WorkerGone):  # which is heard at once
                lane.tell(LEARN, *self.told_how)
        for worker in self.workers:
            try:
                for lane in worker.lanes:
                    lane.answer()
                worker.starting = False
            except WorkerGone:
                self._renew_worker(worker)

    def _open(self, lane: Lane) -> None:
        super()._open(lane)
        if self.told_how is not None:
            lane.tell(LEARN, *self.told_how)
            lane.answer()

    def publish(self, place: int, leaves: Sequence[Any]) -> None:
        """Write parameters to a slot that no running rollout uses."""
        for to, new in zip(self.shelf.parameters, leaves, strict=True):
            to[place] = new

    def play(self, order: Order) -> int:
        """Have a rollout played, once those before it are. Return its number."""
        self.asked += 1
        self.orders[self.asked] = order
        for lane in self.lanes:
            with contextlib.suppress(WorkerGone):  # it is replaced when it is waited for
                lane.tell(PLAY, order._replace(anew=lane in self.anew))
        self.anew.clear()
        return self.asked

    def hear(self, number: int) -> None:
        """Wait until all have played the rollout of this number. Raise `ForageError` if an environment failed."""
        for lane in self.lanes:
            self._wait_until(lane, number)
        self._check_played(number)
        for old in [n for n in self.orders if n <= number]:
            del self.orders[old]
            self.taken += self.shelf.lost.shape[1]

    def _wait_until(self, lane: Lane, number: int) -> None:
        while self.done[lane] < number:
            try:
                self._next(lane)
            except WorkerGone:
                self._replace(lane.worker)

    def _next(self, lane: Lane) -> None:
        """Wait for the next rollout of a lane, which is through with it as well where its environments failed."""
        number = self.done[lane] + 1
        try:
            lane.answer()
        except RunInterrupted:
            raise
        except ForageError as error:
            self.failed.setdefault(number, str(error))
        self.done[lane] = number

    def _check_played(self, number: int) -> None:
        """Raise `ForageError` if environments failed up to the rollout of this number."""
        for one in sorted(self.failed):
            if one <= number:
                raise ForageError(self.failed[one])

    def _replace(self, worker: Worker) -> None:
        """Replace a worker that is gone, and have the new one play its unfinished rollouts."""
        for lane in worker.lanes:  # what it had finished it may have said
            with contextlib.suppress(WorkerGone):
                while self.done[lane] < self.asked:
                    self._next(lane)
        self._renew_worker(worker)
        self.anew.update(lane for lane in worker.lanes if self.done[lane] == self.asked)
        for lane in worker.lanes:
            for number in range(self.done[lane] + 1, self.asked + 1):
                with contextlib.suppress(WorkerGone):
                    lane.tell(PLAY, self.orders[number]._replace(anew=number == self.done[lane] + 1))

    def _check_deaths(self, worker: Worker, how: str) -> None:
        if any((worker.steps(line) or 0) > 1 for line in range(worker.lines)):  # type: ignore[attr-defined]
            self.row.pop(worker, None)  # it had taken a step, in a rollout that is counted when it is over
        super()._check_deaths(worker, how)

    def recall(self) -> None:
        """Have all workers abandon their unfinished rollouts, whose arrays are invalid then."""
        if self.shelf_block is None:
            return
        self.shelf.stopped[0] = True
        for worker in self.workers:
            try:
                for lane in worker.lanes:
                    while self.done[lane] < self.asked:
                        self._next(lane)
            except WorkerGone:
                self.done |= dict.fromkeys(worker.lanes, self.asked)
                self._replace_between(worker)
        self.orders.clear()
        self.failed.clear()
        self.shelf.stopped[0] = False

    def final_memory(self) -> tuple[PyTree[np.ndarray], np.ndarray]:
        """Return the memory of all environments, and the mask of ended episodes, once all rollouts are played.

        Raise `ForageError` if an environment failed.
        """
        for lane in self.lanes:
            self._wait_until(lane, self.asked)
        self._check_played(self.asked)
        return join_batches([self._sure(lane, REMEMBER) for lane in self.lanes])

    def remind(self, hidden: PyTree[np.ndarray], ended: np.ndarray) -> None:
        """Have players continue from their remembered state."""
        for lane in self.lanes:
            self._sure(lane, REMIND, jax.tree.map(lambda x, rows=lane.rows: x[rows], hidden), ended[lane.rows])

    def _sure(self, lane: Lane, *what: Any) -> Any:
        """Send a lane a request between two rollouts, and return the answer of its worker or of a replacement."""

        def ask() -> Any:
            lane.tell(*what)
            return lane.answer()

        return self._persist(lane, what[0], ask)

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        self.recall()
        return super()._reset(seed)

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        self.recall()
        return super()._restore(snapshot)

    def _ask(self, lane: Lane, name: str, *arguments: Any) -> Any:
        for other in lane.worker.lanes:  # answers come in the order of what was asked
            self._wait_until(other, self.asked)
        return super()._ask(lane, name, *arguments)

    def _send(self, action: PyTree[np.ndarray]) -> None:
        raise ForageError(f"The workers of {self.name} choose its actions themselves; have them play rollouts.")

    def close(self) -> None:
        if self.shelf_block is not None:
            self.shelf.stopped[0] = True  # so that all listen
        super().close()
        for worker in self.workers:
            worker.progress = None  # type: ignore[attr-defined]  # a view of the shelf
        if self.shelf_block is not None:
            self.shelf_block.close()
            self.shelf_block = None
