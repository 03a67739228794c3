"""A lane of a worker that acts by itself: it plays whole rollouts, with parameters that lie in shared memory.

`players.py` tells it which.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, PyTree

from forage.core import prng
from forage.core.checkpoint import generator_of
from forage.core.compiling import Flat, jit_shared, kind, on_host
from forage.core.host import HostEnvironment
from forage.core.mesh import bits, is_key
from forage.core.ports import Decision, HiddenState
from forage.core.types import GONE, Clock, Experience, Step
from forage.loop.cluster.block import Block
from forage.loop.cluster.worker import CALL, Lane, main
from forage.loop.host.programs import decide

LEARN, PLAY, REMEMBER, REMIND = "learn", "play", "remember", "remind"  # what a player is told beside what a lane is

OURS = "forage"  # generator, which is an object that cannot be sent

COMPILING = threading.Lock()
"""Held by the first of a worker's threads that plays: the others use its program, where it fits them."""


class SharedBuffers(NamedTuple):
    """Arrays that the learner and the players write for each other, or their shapes.

    There is a place for each rollout that is under way, and for the parameters that it may be played with.
    """

    rollout: Experience  # leaves [place, time, env, ...]
    lost: Any  # [place, time, env]: where a worker died
    visited: Any  # [place, time, env]: where on the environments' map each step led to
    keys: Any  # [place, time, env, ...]: the numbers of random keys
    parameters: list[Any]  # leaves [place, ...] of what acting depends on
    stopped: Any  # [1]: whether nobody needs any more what is under way
    progress: Any  # [env]: how many steps of each environment's lane have begun and ended, together


class Leaf(NamedTuple):
    """A leaf of the learner and its state, as far as a player has to know it."""

    shape: jax.ShapeDtypeStruct  # of its numbers
    needed: bool
    generator: str | None  # of random keys; `None`: it holds none
    weak: bool  # its dtype gives way to others', as that of a number in Python


class ActingData(NamedTuple):
    """The data that players need to act, except the parameters."""

    actor: bytes  # a learner and its state, with the numbers of leaves in their place
    leaves: tuple[Leaf, ...]
    shelf: SharedBuffers  # shapes
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
    hidden: HiddenState,
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


class RolloutWorker(Lane):
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
        """Load the policy's description, and open the shelf of this name."""
        self.lesson: ActingData = pickle.loads(lesson)
        self.shelf_block = Block(self.lesson.shelf, name)
        shelf: SharedBuffers = self.shelf_block.arrays
        self.stopped, self.parameters = shelf.stopped, shelf.parameters
        rows = slice(self.first, self.first + self.num_envs)
        own = jax.tree.map(lambda x: x[:, :, rows], shelf._replace(parameters=[], stopped=(), progress=()))
        self.progress = shelf.progress[rows]
        self.progress[:] = 0
        self.keys, self.lost, self.visited = own.keys, own.lost, own.visited
        self.written = jax.tree.leaves(own.rollout._replace(version=()))
        _, self.length, self.all_envs = shelf.lost.shape

        learner, _ = actor = pickle.loads(self.lesson.actor)
        self.structure, self.spec, self.version = jax.tree.structure(actor), learner.spec, -1
        self.act = jit_shared(kind(learner), act_rows)
        # Products of a matrix with one row are rounded otherwise than with several.
        self.times = 2 if self.num_envs == 1 < self.all_envs else 1
        many = lambda x: jnp.broadcast_to(x, (self.num_envs * self.times, *x.shape))  # noqa: E731
        self.hidden = jax.tree.map(many, learner.init_hidden())
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
        """Play a rollout, and write it onto the shelf; stop early if it is no longer needed."""
        self.load(order)
        keys, first = self.keys[order.place].copy(), np.int32(self.first)
        for time in range(self.length):
            if self.stopped[0] or orphaned():
                return
            clock: Any = Clock(np.int32(order.steps + time * self.all_envs), np.float32(self.lesson.total_steps))  # type: ignore[arg-type]
            seen = self.shown
            ended, shown, words = self.repeat_copies((self.ended, seen, keys[time]))
            with COMPILING if not time else contextlib.nullcontext():
                executed, decision = self.act(self.actor, self.hidden, ended, shown, words, first, clock)
            self.hidden = decision.hidden
            executed, action, policy_info, source, behaviour_info = self.own(
                on_host((executed, decision.action, decision.policy_info, decision.source, decision.behaviour_info))
            )
            lost = order.anew and not time
            if lost:
                step, source = self.nothing(), np.full_like(source, GONE)
            else:
                self.progress += 1
                result = self.environment.step(executed)
                self.progress += 1
                self.write_counts()
                step, self.shown = result.step, result.observation
            self.ended = step.terminated | step.truncated
            self.keep(order.place, time, (seen, action, policy_info, source, behaviour_info), step)
            self.lost[order.place, time] = lost
            if self.environment.map_shape is not None:
                self.visited[order.place, time] = self.environment.map_position

    def repeat_copies(self, tree: PyTree[np.ndarray]) -> PyTree[np.ndarray]:
        """Repeat the leaves of each environment for the number of copies that the program acts in."""
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
        observation, action, policy_info, source, behaviour_info = done
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
                policy_info=policy_info,
                behaviour_info=behaviour_info,
                info={name: info[name] for name in self.spec.info_names},
            )
        )
        for to, new in zip(self.written, leaves, strict=True):
            to[place, time] = new

    def remember(self) -> tuple[PyTree[np.ndarray], np.ndarray]:
        """Return the memory of each environment, random keys as numbers, and the mask of ended episodes."""
        return self.own(on_host(jax.tree.map(bits, self.hidden))), np.asarray(self.ended)

    def remind(self, hidden: PyTree[np.ndarray], ended: np.ndarray) -> None:
        """Continue from the result of `remember`."""
        self.hidden, self.ended = restore_keys(self.repeat_copies(hidden), self.hidden), np.array(ended)

    def close(self) -> None:
        super().close()
        if hasattr(self, "shelf_block"):
            # In place of views of the block:
            self.keys = self.lost = self.visited = self.stopped = self.progress = np.zeros(0)
            self.written, self.parameters = [], []
            self.shelf_block.close()


def restore_keys(tree: PyTree[np.ndarray], like: PyTree[Any]) -> PyTree[Array]:
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
    """Return whether the process that started this one is gone."""
    parent = multiprocessing.parent_process()
    return parent is not None and os.getppid() != parent.pid


def play_main(
    build: Callable[[int], HostEnvironment], lanes: list[tuple[int, int]], pipes: list[Connection], mark: str
) -> None:
    """Run a worker whose lanes are players, on one thread of XLA each: workers are as many as there is room for."""
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    os.environ["NPROC"] = "1"  # threads of XLA's own
    main(build, lanes, pipes, mark, RolloutWorker)
