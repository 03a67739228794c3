"""Workers that act by themselves: they are sent parameters, play whole rollouts, and write these into shared memory.

Inference beside the environments, as the actors of Espeholt et al. (2018), "IMPALA: Scalable Distributed Deep-RL with
Importance Weighted Actor-Learner Architectures", arXiv 1802.01561. Each lane is told which rollouts to play, one after
the other, and with which parameters; it begins the next as soon as one is through, and waits for no other lane.

A worker that dies is replaced, and plays what it had not finished anew. The first step of that is no transition
(`GONE`), and ends the episodes that died with it.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import pickle
import shutil
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from forage.core import prng
from forage.core.checkpoint import generator_of
from forage.core.compiling import Flat, kind, on_host, shared
from forage.core.errors import ForageError
from forage.core.host import HostEnvironment
from forage.core.mesh import bits, is_key
from forage.core.ports import Decision, Hidden
from forage.core.types import GONE, Clock, Experience, Step
from forage.loop.cluster.block import Block
from forage.loop.cluster.pool import Pool, joined
from forage.loop.cluster.process import Gone, Lane, Process, Worker
from forage.loop.cluster.worker import CALL, main
from forage.loop.cluster.worker import Lane as WorkerLane
from forage.loop.host.loop import decide

LEARN, PLAY, REMEMBER, REMIND = "learn", "play", "remember", "remind"  # what a player is told beside what a lane is

OURS = "forage"  # generator, which is an object that cannot be sent

SHARED_MEMORY = Path("/dev/shm")  # where a system has its arrays in a file system of their own

COMPILING = threading.Lock()
"""Held by the first of a worker's threads that plays: the others use its program, where it fits them."""


class Shelf(NamedTuple):
    """What the learner and the players write for each other: arrays, or their shapes.

    There is a place for each rollout that is under way, and for the parameters that it may be played with.
    """

    rollout: Experience  # leaves [place, time, env, ...]
    lost: Any  # [place, time, env]: where a worker died
    visited: Any  # [place, time, env]: where on the environments' map each step led to
    keys: Any  # [place, time, env, ...]: the numbers of random keys
    parameters: list[Any]  # leaves [place, ...] of what acting depends on
    stopped: Any  # [1]: whether nobody needs any more what is under way


class Leaf(NamedTuple):
    """What a player has to know of a leaf of what acts: of a parameter, or of what acting does not depend on."""

    shape: jax.ShapeDtypeStruct  # of its numbers
    needed: bool
    generator: str | None  # of random keys; `None`: it holds none
    weak: bool  # its dtype gives way to others', as that of a number in Python


class Lesson(NamedTuple):
    """All that players need to act, but for the parameters."""

    actor: bytes  # a learner and its state, with the numbers of leaves in their place
    leaves: tuple[Leaf, ...]
    shelf: Shelf  # shapes
    total_steps: int


class Order(NamedTuple):
    """A rollout to play."""

    place: int  # on the shelf
    parameters: int  # their place there
    version: int  # of the parameters; no two that differ have the same
    steps: int  # of the run, before it
    anew: bool = False  # a worker died, and so the first step is lost


def act_rows(
    actor: Flat,
    hidden: Hidden,
    ended: Bool[Array, "row *agent"],
    observation: PyTree[Array],
    words: Int[Array, "row word"],
    first: Int[Array, ""],
    clock: Clock,
) -> tuple[PyTree[Array], Decision]:
    """Choose actions in neighbouring environments, from number `first` on. `words`: the numbers of their keys."""
    return decide(
        actor, hidden, ended, observation, clock, prng.from_data(words), first + jnp.arange(len(words), dtype=jnp.int32)
    )


class Player(WorkerLane):
    """A lane of a worker that acts in its environments."""

    def answer(self, what: str, *told: Any) -> Any:
        own = {LEARN: self.learn, PLAY: self.play, REMEMBER: self.remember, REMIND: self.remind}
        if what in own:
            return own[what](*told)
        found = super().answer(what, *told)
        if what == CALL and told[0] in ("reset", "restore"):
            self.shown: PyTree[np.ndarray] = found
        if what == CALL and told[0] == "reset":
            self.ended = np.ones_like(self.ended)
        return found

    def learn(self, lesson: bytes, name: str) -> None:
        """Learn how to act, and open the shelf of this name."""
        self.lesson: Lesson = pickle.loads(lesson)
        self.shelf_block = Block(self.lesson.shelf, name)
        shelf: Shelf = self.shelf_block.arrays
        self.stopped, self.parameters = shelf.stopped, shelf.parameters
        rows = slice(self.first, self.first + self.num_envs)
        own = jax.tree.map(lambda x: x[:, :, rows], shelf._replace(parameters=[], stopped=()))
        self.keys, self.lost, self.visited = own.keys, own.lost, own.visited
        self.written = jax.tree.leaves(own.rollout._replace(version=()))
        _, self.length, self.all_envs = shelf.lost.shape

        learner, _ = actor = pickle.loads(self.lesson.actor)
        self.structure, self.spec, self.version = jax.tree.structure(actor), learner.spec, -1
        self.act = shared(kind(learner), act_rows)
        # Products of a matrix with one row are rounded otherwise than with several.
        self.times = 2 if self.num_envs == 1 < self.all_envs else 1
        many = lambda x: jnp.broadcast_to(x, (self.num_envs * self.times, *x.shape))  # noqa: E731
        self.hidden = jax.tree.map(many, learner.hidden())
        self.ended = np.ones(own.rollout.terminated.shape[2:], bool)

    def load(self, order: Order) -> None:
        """Take the parameters that a rollout is to be played with."""
        if order.version == self.version:
            return
        numbers, leaves = iter(self.parameters), []
        for leaf in self.lesson.leaves:
            found = (
                next(numbers)[order.parameters].copy() if leaf.needed else np.zeros(leaf.shape.shape, leaf.shape.dtype)
            )
            if leaf.generator is not None:
                generator = prng.FUSED if leaf.generator == OURS else leaf.generator
                leaves.append(jax.random.wrap_key_data(jnp.asarray(found), impl=generator))
            else:
                leaves.append(jax.device_put(found.item() if leaf.weak and not found.ndim else found))
        self.actor, self.version = Flat(tuple(leaves), self.structure), order.version

    def play(self, order: Order) -> None:
        """Play a rollout, and write it onto the shelf; leave off where nobody needs it any more."""
        self.load(order)
        keys, first = self.keys[order.place].copy(), np.int32(self.first)
        for time in range(self.length):
            if self.stopped[0] or orphaned():
                return
            clock: Any = Clock(np.int32(order.steps + time * self.all_envs), np.float32(self.lesson.total_steps))  # type: ignore[arg-type]
            seen = self.shown
            ended, shown, words = self.repeated((self.ended, seen, keys[time]))
            with COMPILING if not time else contextlib.nullcontext():
                executed, decision = self.act(self.actor, self.hidden, ended, shown, words, first, clock)
            self.hidden = decision.hidden
            executed, action, aux, source, memo = self.own(
                on_host((executed, decision.action, decision.aux, decision.source, decision.memo))
            )
            lost = order.anew and not time
            if lost:
                step, source = self.nothing(), np.full_like(source, GONE)
            else:
                result = self.environment.step(executed)
                step, self.shown = result.step, result.observation
            self.ended = step.terminated | step.truncated
            self.keep(order.place, time, (seen, action, aux, source, memo), step)
            self.lost[order.place, time] = lost
            if self.environment.places is not None:
                self.visited[order.place, time] = self.environment.place

    def repeated(self, tree: PyTree[np.ndarray]) -> PyTree[np.ndarray]:
        """Return what is true of each environment for as many as the program acts in."""
        return tree if self.times == 1 else jax.tree.map(lambda x: np.repeat(x, self.times, 0), tree)

    def own(self, tree: PyTree[np.ndarray]) -> PyTree[np.ndarray]:
        """Return the rows of the lane's own environments."""
        return tree if self.times == 1 else jax.tree.map(lambda x: x[: self.num_envs], tree)

    def nothing(self) -> Step:
        """Return a step in which episodes end that died with a worker."""
        reward, over = self.mine.reward, np.zeros_like(self.ended)
        info = {name: np.full(self.num_envs, np.nan, np.float32) for name in self.spec.info_names}
        return Step(self.shown, np.zeros_like(reward), over, ~over, info)  # type: ignore[arg-type]

    def keep(self, place: int, time: int, done: tuple[Any, ...], step: Step) -> None:
        """Write a step onto the shelf."""
        observation, action, aux, source, memo = done
        agents = self.spec.num_agents
        info: Any = step.info
        if agents > 1:
            info = {name: np.broadcast_to(info[name][:, None], self.ended.shape) for name in info}
        leaves = jax.tree.leaves(
            Experience(
                observation=observation,
                action=action,
                reward=step.reward,
                next_observation=step.observation,
                terminated=step.terminated,
                truncated=step.truncated,
                source=source,
                aux=aux,
                memo=memo,
                info={name: info[name] for name in self.spec.info_names},
            )
        )
        for to, new in zip(self.written, leaves, strict=True):
            to[place, time] = new

    def remember(self) -> tuple[PyTree[np.ndarray], np.ndarray]:
        """Return what is remembered in each environment, random keys as numbers, and where an episode has ended."""
        return self.own(on_host(jax.tree.map(bits, self.hidden))), np.asarray(self.ended)

    def remind(self, hidden: PyTree[np.ndarray], ended: np.ndarray) -> None:
        """Go on with what `remember` returned."""
        self.hidden, self.ended = keyed(self.repeated(hidden), self.hidden), np.array(ended)

    def close(self) -> None:
        super().close()
        if hasattr(self, "shelf_block"):
            self.keys = self.lost = self.visited = self.stopped = np.zeros(0)  # in place of views of the block
            self.written, self.parameters = [], []
            self.shelf_block.close()


def check_room(name: str, shapes: PyTree[jax.ShapeDtypeStruct]) -> None:
    """Raise `ForageError` where shared memory cannot hold arrays: writing beyond its end would kill the process."""
    wanted = sum(math.prod(x.shape) * np.dtype(x.dtype).itemsize for x in jax.tree.leaves(shapes))
    if SHARED_MEMORY.is_dir() and wanted > (free := shutil.disk_usage(SHARED_MEMORY).free):
        raise ForageError(
            f"Rollouts of {name} that workers play take {wanted / 1e6:,.0f} MB of shared memory, and {SHARED_MEMORY} "
            f"has {free / 1e6:,.0f} MB; give a smaller --ahead, fewer environments or shorter rollouts."
        )


def keyed(tree: PyTree[np.ndarray], like: PyTree[Any]) -> PyTree[Array]:
    """Return a tree whose random keys were numbers; `like` has keys where those are."""

    def leaf(numbers: np.ndarray, like: Any) -> Array:
        array = jnp.asarray(numbers)
        return jax.random.wrap_key_data(array, impl=generator_of(like)) if is_key(like) else array

    return jax.tree.map(leaf, tree, like)


def generator_name(key: Any) -> str:
    """Return the name of the generator that random keys (or their shapes) are of."""
    found = generator_of(key)
    return found if isinstance(found, str) else OURS


def orphaned() -> bool:
    """Return whether whoever started this process is gone."""
    parent = multiprocessing.parent_process()
    return parent is not None and os.getppid() != parent.pid


def play_main(build: Callable[[int], HostEnvironment], lanes: list[tuple[int, int]], pipes: list[Connection]) -> None:
    """Run a worker whose lanes are players, on one thread of XLA each: workers are as many as there is room for."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ["NPROC"] = "1"  # threads of XLA's own
    main(build, lanes, pipes, Player)


class PlayerProcess(Process):
    """A process whose lanes are players."""

    main: ClassVar[Callable[..., None]] = staticmethod(play_main)


class Players(Pool):
    """A pool that plays rollouts: `teach` once, then `publish` parameters, `play`, `hear` and read the shelf."""

    apart: ClassVar[bool] = True
    process: ClassVar[type[Process]] = PlayerProcess

    def __init__(
        self, build: Callable[[int], HostEnvironment], num_envs: int, workers: int, threads: int = 1, ray: bool = False
    ):
        self.told_how: tuple[bytes, str] | None = None
        self.shelf_block: Block | None = None
        self.orders: dict[int, Order] = {}  # by number, from 1 on: those that not all lanes are known to have played
        self.asked = 0  # orders
        self.failed: dict[int, str] = {}  # what was wrong in an environment, by order
        super().__init__(build, num_envs, workers, threads, ray)
        self.done = dict.fromkeys(self.lanes, 0)  # the newest order that each has played

    @property
    def shelf(self) -> Shelf:
        """Return the arrays that players write to."""
        assert self.shelf_block is not None
        return self.shelf_block.arrays

    def teach(self, lesson: Lesson) -> None:
        """Tell all players how to act. Raise `ForageError` where one dies of it, or the shelf has no room."""
        check_room(self.name, lesson.shelf)
        self.shelf_block = Block(lesson.shelf)
        self.told_how = pickle.dumps(lesson), self.shelf_block.name
        for lane in self.lanes:
            with contextlib.suppress(Gone):  # which is heard at once
                lane.tell(LEARN, *self.told_how)
        for lane in self.lanes:
            self._begun(lane)

    def _open(self, lane: Lane) -> None:
        super()._open(lane)
        if self.told_how is not None:
            lane.tell(LEARN, *self.told_how)
            lane.answer()

    def publish(self, place: int, leaves: Sequence[Any]) -> None:
        """Write parameters to a place that no rollout under way is played with."""
        for to, new in zip(self.shelf.parameters, leaves, strict=True):
            to[place] = new

    def play(self, order: Order) -> int:
        """Have a rollout played, once those before it are. Return its number."""
        self.asked += 1
        self.orders[self.asked] = order
        for lane in self.lanes:
            with contextlib.suppress(Gone):  # it is replaced when it is waited for
                lane.tell(PLAY, order)
        return self.asked

    def hear(self, number: int) -> None:
        """Wait until all have played the rollout of this number. Raise `ForageError` where an environment failed."""
        for lane in self.lanes:
            self._until(lane, number)
        self._check_played(number)
        for old in [n for n in self.orders if n <= number]:
            del self.orders[old]
            self.taken += self.shelf.lost.shape[1]

    def _until(self, lane: Lane, number: int) -> None:
        while self.done[lane] < number:
            try:
                self._next(lane)
            except Gone:
                self._replace(lane.worker)

    def _next(self, lane: Lane) -> None:
        """Wait for the next rollout of a lane, which is through with it as well where its environments failed."""
        number = self.done[lane] + 1
        try:
            lane.answer()
        except ForageError as error:
            self.failed.setdefault(number, str(error))
        self.done[lane] = number

    def _check_played(self, number: int) -> None:
        """Raise `ForageError` where environments failed up to the rollout of this number."""
        for one in sorted(self.failed):
            if one <= number:
                raise ForageError(self.failed[one])

    def _replace(self, worker: Worker) -> None:
        """Replace a worker that is gone, and have it play what it had not finished."""
        for lane in worker.lanes:  # what it had finished it may have said
            with contextlib.suppress(Gone):
                while self.done[lane] < self.asked:
                    self._next(lane)
        self._renewed(worker)
        for lane in worker.lanes:
            for number in range(self.done[lane] + 1, self.asked + 1):
                with contextlib.suppress(Gone):
                    lane.tell(PLAY, self.orders[number]._replace(anew=number == self.done[lane] + 1))

    def recall(self) -> None:
        """Have all leave off what is under way, whose arrays then mean nothing."""
        if self.shelf_block is None:
            return
        self.shelf.stopped[0] = True
        for worker in self.workers:
            try:
                for lane in worker.lanes:
                    while self.done[lane] < self.asked:
                        self._next(lane)
            except Gone:
                self.done |= dict.fromkeys(worker.lanes, self.asked)
                self._renewed(worker)
        self.orders.clear()
        self.failed.clear()
        self.shelf.stopped[0] = False

    def remembered(self) -> tuple[PyTree[np.ndarray], np.ndarray]:
        """Return what players remember in all environments, and where an episode has ended, once all is played.

        Raise `ForageError` where an environment failed.
        """
        for lane in self.lanes:
            self._until(lane, self.asked)
        self._check_played(self.asked)
        parts = []
        for lane in self.lanes:
            lane.tell(REMEMBER)
            parts.append(lane.answer())
        return joined(parts)

    def remind(self, hidden: PyTree[np.ndarray], ended: np.ndarray) -> None:
        """Have players go on with what they remembered."""
        for lane in self.lanes:
            lane.tell(REMIND, jax.tree.map(lambda x, rows=lane.rows: x[rows], hidden), ended[lane.rows])
            lane.answer()

    def _reset(self, seed: int) -> PyTree[np.ndarray]:
        self.recall()
        return super()._reset(seed)

    def _restore(self, snapshot: bytes) -> PyTree[np.ndarray]:
        self.recall()
        return super()._restore(snapshot)

    def _ask(self, lane: Lane, name: str, *arguments: Any) -> Any:
        self._until(lane, self.asked)  # answers come in the order of what was asked
        return super()._ask(lane, name, *arguments)

    def _send(self, action: PyTree[np.ndarray]) -> None:
        raise ForageError(f"The workers of {self.name} choose its actions themselves; have them play rollouts.")

    def close(self) -> None:
        if self.shelf_block is not None:
            self.shelf.stopped[0] = True  # so that all listen
        super().close()
        if self.shelf_block is not None:
            self.shelf_block.close()
            self.shelf_block = None
