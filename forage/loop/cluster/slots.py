"""Environments that do not wait for each other: each slot of a batch gets its next step as soon as it is ready.

A slot is a lane of a worker on this machine, or all lanes of an actor of a cluster. It is asked for a step when there
is an action for it, and whoever has answered first is heard first, as in EnvPool (Weng et al., 2022, "EnvPool: A Highly
Parallel Reinforcement Learning Environment Execution Engine", arXiv 2206.10558). No slot has more than one step under
way, so there is never more in shared memory than one step of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, PyTree

from forage.core.errors import ForageError
from forage.core.host import HostEnvironment, HostStep
from forage.core.types import Step
from forage.loop.cluster.pool import Pool, join_batches
from forage.loop.cluster.process import Lane, Worker, WorkerGone
from forage.loop.cluster.worker import Exchange


class WorkerSlot:
    """Neighbouring environments that step together, and whether they are at it."""

    def __init__(self, worker: Worker, place: int, lanes: Sequence[Lane]):
        self.worker, self.place, self.lanes = worker, place, lanes
        self.rows = slice(lanes[0].first, lanes[-1].rows.stop)
        self.number = 0  # of the newest step that was asked for
        self.under_way = False
        self.actions: list[np.ndarray] = []  # its rows of what all share: views, made once
        self.written: list[np.ndarray] = []

    def open(self, shared: Exchange) -> None:
        """Take its rows of the shared arrays."""
        own = jax.tree.map(lambda x: x[self.rows], shared)
        self.actions, self.numbers = jax.tree.leaves(own.action), own.number
        self.written, self.structure = jax.tree.flatten(own._replace(action=(), place=(), number=(), measured=()))

    def copy_arrays(self) -> Exchange:
        """Return copies of its results."""
        return jax.tree.unflatten(self.structure, [leaf.copy() for leaf in self.written])


class SlotResults(NamedTuple):
    """The results of a slot."""

    rows: slice  # its environments among all
    result: HostStep | None  # leaves [env, ...]; `None`: its worker was replaced while it had nothing to do
    observation: PyTree[np.ndarray]  # what to act on next
    lost: bool = False  # its worker was replaced, and what the step did is not known
    no_reward: Bool[np.ndarray, " env"] | None = None  # whose episode ended without a reward; `None`: nowhere
    unjudged: Bool[np.ndarray, " env"] | None = None  # whose episode ended and could not be judged; `None`: nowhere

    @property
    def left_out(self) -> Bool[np.ndarray, " env"]:
        """Return the mask of steps that are no transitions."""
        rows = np.full(self.rows.stop - self.rows.start, self.lost)
        return rows if self.no_reward is None else rows | self.no_reward

    @property
    def not_judged(self) -> Bool[np.ndarray, " env"]:
        """Return the mask of episodes that ended and could not be judged."""
        return np.zeros(self.rows.stop - self.rows.start, bool) if self.unjudged is None else self.unjudged


class Slots(Pool):
    """A pool whose slots step independently: `tell`, then `hear` until no slot is busy."""

    apart: ClassVar[bool] = True

    ready: Callable[[float | None], list[tuple[Any, int]]] | None = None
    """The function that waits for slots: see `Worker.listening`. `None` if it has to be rebuilt."""

    def __init__(self, build: Callable[[int], HostEnvironment], num_envs: int, *how: Any, **named: Any):
        """Start workers as a `Pool` does."""
        super().__init__(build, num_envs, *how, **named)
        self.slots = [WorkerSlot(worker, i, lanes) for worker in self.workers for i, lanes in enumerate(worker.slots)]
        for slot in self.slots:
            slot.open(self.shared_arrays)
        self.by_row = {slot.rows.start: slot for slot in self.slots}
        self.own = {worker: [slot for slot in self.slots if slot.worker is worker] for worker in self.workers}
        self.dead: list[Worker] = []  # that were found to be gone
        self.told_to = 0  # steps of slots

    def tell(self, rows: Sequence[slice], action: PyTree[np.ndarray]) -> None:
        """Ask these slots for a step each. Leaves of `action` are `[env, ...]`; only their rows are read."""
        shared, actions = self.shared_arrays, jax.tree.leaves(action)
        for slot in [self.by_row[one.start] for one in rows]:
            for to, new in zip(slot.actions, actions, strict=True):
                to[...] = new[slot.rows]
            slot.number, slot.under_way = int(slot.numbers[0]) + 1, True
            self.told_to += 1
            self.taken = self.told_to // len(self.slots)
            if slot.worker in self.dead or slot.lanes[0] in self.anew:
                continue
            try:
                slot.worker.begin_step(slot.number, shared, slot.place)
            except WorkerGone:
                self.dead.append(slot.worker)

    def hear(self) -> list[SlotResults]:
        """Wait for some of the busy slots, and return their results.

        Raise `ForageError` if an environment failed, once nothing is under way any more.
        """
        found, failed = self._receive_results()
        while failed and any(slot.under_way for slot in self.slots):
            self._receive_results()
        if failed:
            raise ForageError(failed)
        return found

    def _send(self, action: PyTree[np.ndarray]) -> None:
        self.tell([slot.rows for slot in self.slots], action)

    def _receive(self, action: PyTree[np.ndarray]) -> HostStep:
        found: dict[int, SlotResults] = {}
        while any(slot.under_way for slot in self.slots):
            for one in self.hear():
                if one.result is None:  # it had stepped already, and its episode is cut there
                    step = found[one.rows.start].result.step  # type: ignore[union-attr]
                    step = step._replace(truncated=~step.terminated)
                    one = one._replace(result=HostStep(step, one.observation))
                found[one.rows.start] = one
        each = [found[start] for start in sorted(found)]
        lost = np.concatenate([one.left_out for one in each])
        no_reward = np.concatenate([one.left_out & (not one.lost) for one in each])
        unjudged = np.concatenate([one.not_judged for one in each])
        self._lost = lost if lost.any() else None
        self._no_reward = no_reward if no_reward.any() else None
        self._unjudged = unjudged if unjudged.any() else None
        return join_batches([one.result for one in each])

    def _renew_worker(self, worker: Worker, seed: int | None = None) -> list[PyTree[np.ndarray]]:
        self.ready = None
        return super()._renew_worker(worker, seed)

    def close(self) -> None:
        self.slots, self.by_row, self.own = [], {}, {}  # whose views would keep the shared memory
        super().close()

    def _receive_results(self) -> tuple[list[SlotResults], str]:
        """Return the results of the slots that have answered by now, at least one, and the error message."""
        found, failed = [], ""
        for slot in self.slots if self.anew else ():
            if slot.under_way and slot.lanes[0] in self.anew:
                found += self._restart_slot(slot)
        self.ready = self.ready or type(self.workers[0]).listening(self.workers)
        for worker, place in self.ready(0 if self.dead or found else None):
            slot = self.own[worker][place]
            try:
                failed = worker.end_step(slot.number, self.shared_arrays, place) or failed
            except WorkerGone:
                self.dead += [worker] if worker not in self.dead else []
                continue
            slot.under_way = False
            found.append(self._slot_results(slot))
        if self.dead:
            for worker in self.dead:
                found += self._replace_worker(worker)
            self.dead = []
        return found, failed

    def _restart_slot(self, slot: WorkerSlot) -> list[SlotResults]:
        """Return the results of a slot whose worker was replaced before it got its step, which is lost.

        Nothing, where that worker is gone as well.
        """
        self.anew.difference_update(slot.lanes)
        try:
            observation = join_batches([lane.ask("reset", self._own_seed()) for lane in slot.lanes])
        except WorkerGone:
            self.dead += [slot.worker] if slot.worker not in self.dead else []
            return []
        slot.under_way = False
        return [self._lost_step(slot, observation)]

    def _lost_step(self, slot: WorkerSlot, observation: PyTree[np.ndarray]) -> SlotResults:
        """Return a lost step: the only known value is the first observation of the next episode."""
        written = slot.copy_arrays()
        nothing: Any = {name: np.full_like(values, np.nan) for name, values in written.info.items()}
        over: Any = np.zeros_like(written.terminated)
        step = Step(observation, np.zeros_like(written.reward), over, ~over, nothing)
        return SlotResults(slot.rows, HostStep(step, observation), observation, lost=True)

    def _slot_results(self, slot: WorkerSlot) -> SlotResults:
        """Return the results that a slot has written."""
        shared = slot.copy_arrays()
        step = Step(shared.led_to, shared.reward, shared.terminated, shared.truncated, shared.info)
        no_reward, unjudged = (mask if mask.any() else None for mask in (shared.no_reward, shared.unjudged))
        observation = shared.led_to
        if step.terminated.any() or step.truncated.any():
            ended = (step.terminated | step.truncated).reshape(len(shared.reward), -1).all(1)
            observation = jax.tree.map(
                lambda led_to, first: np.where(ended.reshape(-1, *[1] * (led_to.ndim - 1)), first, led_to),
                shared.led_to,
                shared.observation,
            )
        return SlotResults(slot.rows, HostStep(step, observation), observation, False, no_reward, unjudged)

    def _replace_worker(self, worker: Worker) -> list[SlotResults]:
        """Replace a worker that is gone, and return the results of its slots.

        A step that one had taken, but had not told, counts, and its episode is cut there; one under way is lost.
        """
        began, found = self._renew_worker(worker), []
        self.anew.difference_update(worker.lanes)
        for slot in self.own[worker]:
            observation = join_batches([began[lane.place] for lane in slot.lanes])
            if not slot.under_way:
                found.append(SlotResults(slot.rows, None, observation))
                continue
            slot.under_way = False
            if self.shared_arrays.number[slot.rows.start] != slot.number:
                found.append(self._lost_step(slot, observation))
                continue
            shown = self._slot_results(slot)
            assert shown.result is not None
            step = shown.result.step._replace(truncated=~shown.result.step.terminated)
            found.append(shown._replace(result=HostStep(step, observation), observation=observation))
        return found
