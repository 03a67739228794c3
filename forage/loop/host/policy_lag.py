"""The loop on the host whose workers act by themselves, so that they collect rollouts while the learner learns.

With `policy_lag` = N a rollout is always collected with the parameters that were there when N fewer rollouts had been
learned from: the first N + 1 with the first parameters. Workers may begin one as soon as those exist, and so nothing
depends on who is fast. With N = 0 they wait for the learner, and the loop is `HostLoop` with actions chosen elsewhere.

Each environment's random numbers are those of its own step, and a rollout is learned from with the key that follows
them, so keys do not depend on N nor on the number of workers.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections import deque
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, Key, PyTree, UInt32

from forage.core import prng
from forage.core.compiling import Flat, jit_shared, kind, on_device, on_host
from forage.core.errors import ForageError, RunInterrupted
from forage.core.mesh import bits, is_key
from forage.core.types import Clock, Experience
from forage.loop.cluster.player import ActingData, Leaf, Order, SharedBuffers, act_rows, generator_name, restore_keys
from forage.loop.cluster.players import RolloutWorkers
from forage.loop.host.loop import HostLoop, HostOptions, HostState, cut_before_lost
from forage.loop.host.programs import TurnMetrics, keys_of
from forage.loop.learner import Learner, Report
from forage.loop.program import trace_function, uses


def check_policy_lag(learner: Learner, way: HostOptions, policy_lag: int) -> None:
    """Raise `ForageError` for parts that do not allow workers to collect with this policy lag."""
    agent = learner.agent
    if agent.on_policy:
        agent.check_lag(policy_lag, "workers that act by themselves play by that", "--policy-lag 0")
    if agent.whole_episodes:
        raise ForageError(
            f"{type(agent).__name__} begins its episodes together in all environments, whose workers play each at its "
            f"own pace; leave out --policy-lag."
        )
    if way.starts is not None or learner.behaviour.on_host:
        raise ForageError(
            "Where episodes begin as a part says, or somebody may take over, the learner has to see each step; leave "
            "out --policy-lag."
        )


class AheadState(NamedTuple):
    """Facts about the rollouts of a checkpoint that are not learned from yet; leaves `ahead ...`."""

    present: np.ndarray  # []: whether there are any; there are none after a failure
    began: Key[Array, " ahead"]  # the key before each
    behind: Int[np.ndarray, " ahead"]  # updates that its policy was behind when it began
    lost: np.ndarray  # [ahead, time, env]
    visited: np.ndarray  # [ahead, time, env]


class LaggedRollout(NamedTuple):
    """A rollout, where it was lost, and which places of the environments' map were visited."""

    rollout: Experience  # leaves [time, env, ...]
    lost: np.ndarray
    visited: np.ndarray


@dataclasses.dataclass
class Request:
    """A rollout that workers are asked to play, or that a checkpoint holds."""

    began: Key[Array, ""]
    after: Key[Array, ""]  # the key with which it is learned from
    acted: int  # rollouts that the policy had learned from
    version: Any  # for `Experience.version`
    number: int = 0  # of the order
    place: int = 0  # on the shelf
    collected: LaggedRollout | None = None  # unless it is on the shelf


def keys_ahead(
    key: Key[Array, ""], steps: int, num_envs: int
) -> tuple[Key[Array, ""], Key[Array, ""], UInt32[Array, "time env word"]]:
    """Return the key with which the next rollout is learned from, that of the one after, and numbers for its steps."""
    after, keys = keys_of(key, steps, num_envs)
    return after, jax.random.split(after)[0], jax.random.key_data(keys)


class LaggedLoop(HostLoop):
    """The loop for one seed whose workers play."""

    environment: RolloutWorkers

    def __init__(self, policy_lag: int, learner: Learner, *arguments: Any):
        super().__init__(learner, *arguments)
        self.policy_lag = policy_lag
        self.overlap = False  # it is the workers who do not wait
        self.keys_ahead = jit_shared(kind(learner), keys_ahead, static_argnames=("steps", "num_envs"))
        self.requests: deque[Request] = deque()
        self.published: tuple[Any, Any] | None = None  # what workers were sent last
        self.acting_numbers: tuple[Learner, Flat] | None = None  # of a learner, what concerns acting
        self.sent = 0  # times that parameters were sent
        self.lag = 0.0  # in the mean of the newest chunk
        self.lags: list[int] = []
        self.learn_key: Any = None
        self.teach()

    def teach(self) -> None:
        """Send workers the acting part of the agent, and the shapes of a rollout."""
        _, state = jax.eval_shape(self.begun, self.learner, prng.key(0), self.example_start_id)
        actor = self.acting_part(state._replace(rewards=(), memory=()))
        blank = jax.eval_shape(self.blank_rollout, state)
        self.needed = self.depends_on(actor, blank.observation)
        try:
            parts = pickle.dumps(jax.tree.unflatten(actor.structure, range(len(actor.leaves))))
        except Exception as error:
            raise ForageError(
                f"The agent cannot be sent to worker processes ({type(error).__name__}: {error}); define what it is "
                f"made of at the top level of a module, or leave out --policy-lag."
            ) from None
        numbers = [jax.eval_shape(bits, leaf) for leaf in actor.leaves]
        each = self.rollout_length, self.environment.num_envs

        def buffer_shape(x: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((self.policy_lag + 1, *x.shape), x.dtype)

        words = jax.eval_shape(jax.random.key_data, prng.key(0))
        shelf = SharedBuffers(
            jax.tree.map(buffer_shape, blank),
            buffer_shape(jax.ShapeDtypeStruct(each, np.bool_)),
            buffer_shape(jax.ShapeDtypeStruct(each, np.int32)),
            buffer_shape(jax.ShapeDtypeStruct((*each, *words.shape), words.dtype)),
            [buffer_shape(number) for number, needed in zip(numbers, self.needed, strict=True) if needed],
            jax.ShapeDtypeStruct((1,), np.bool_),
            jax.ShapeDtypeStruct((self.environment.num_envs,), np.int64),
        )
        leaves = [
            Leaf(number, needed, generator_name(leaf) if is_key(leaf) else None, getattr(leaf, "weak_type", False))
            for leaf, number, needed in zip(actor.leaves, numbers, self.needed, strict=True)
        ]
        self.environment.teach(ActingData(parts, tuple(leaves), shelf, self.total_steps))

    def acting_part(self, state: Any) -> Flat:
        """Return the part of the learner that acts, with its state, or the shapes of that."""
        acting = dataclasses.replace(self.learner, rewards=None, memory=None)  # type: ignore[arg-type]
        return Flat.flatten((on_device(acting), state))

    def depends_on(self, actor: Flat, observation: PyTree[Any]) -> list[bool]:
        """Return for each leaf of the acting state whether actions depend on it: optimiser states need not travel."""
        one = lambda x: jax.ShapeDtypeStruct((1, *x.shape), x.dtype)  # noqa: E731
        words, number = jax.eval_shape(jax.random.key_data, prng.key(0)), jax.ShapeDtypeStruct((), np.int32)

        def act(leaves: tuple[Any, ...], *others: Any) -> Any:
            return act_rows(Flat(leaves, actor.structure), *others)

        program = trace_function(
            act,
            actor.leaves,
            jax.tree.map(one, jax.eval_shape(self.learner.init_hidden)),
            jax.ShapeDtypeStruct((1, *self.flags[1:]), np.bool_),
            jax.tree.map(lambda x: jax.ShapeDtypeStruct((1, *x.shape[2:]), x.dtype), observation),
            one(words),
            number,
            Clock(number, jax.ShapeDtypeStruct((), np.float32)),  # type: ignore[arg-type]
        )
        return [uses(program, [slot]) for slot in program.inputs[: len(actor.leaves)]]

    def advance(self, iterations: int) -> Report:
        self.lags = []
        report = super().advance(iterations)
        self.lag = float(np.mean(self.lags)) if self.lags else self.lag
        return report._replace(latest=report.latest | {"policy_lag": np.float32(self.lag)})  # type: ignore[dict-item]

    def collect(self) -> tuple[Experience, np.ndarray, TurnMetrics | None]:
        """Wait for the next rollout to learn from, while workers continue with those after it."""
        watch = self.watch
        watch.lap("keep")
        jax.block_until_ready(self.flat.leaves)
        watch.lap("learn")
        self.ask(self.policy_lag + 1)
        watch.lap("transfer")
        request = self.requests[0]
        if request.collected is None:
            self.environment.hear(request.number)
        watch.lap("step")
        rollout, lost, visited = self.collect_results(request)
        self.requests.popleft()
        self.learn_key = request.after
        self.lags.append(self.rollouts - request.acted)
        self.recount(rollout, lost)
        return cut_before_lost(rollout, lost), visited if self.way.measured else np.zeros(0, np.int32), None

    @property
    def rollouts(self) -> int:
        """Return the number of rollouts learned from."""
        return self.rollouts_of(self.steps)

    def rollouts_of(self, steps: Any) -> int:
        """Return the number of rollouts in `steps`."""
        return int(steps) // (self.rollout_length * self.environment.num_envs)

    def learn(self, rollout: Experience, clock: Clock) -> TurnMetrics:
        """Learn from a rollout with its own key, and not that of the next to be asked for."""
        following, self.key = self.key, self.learn_key
        metrics = super().learn(rollout, clock)
        self.key = following
        return metrics

    def ask(self, number: int) -> None:
        """Ask for rollouts, with the newest parameters, until `number` are requested and not learned from."""
        each = self.rollout_length * self.environment.num_envs
        while len(self.requests) < number:
            now = self.flat, self.learner
            if self.published is None or any(x is not y for x, y in zip(now, self.published, strict=True)):
                self.publish()
                self.published = now
            began, place = self.key, self.environment.asked % (self.policy_lag + 1)
            after, self.key, words = self.keys_ahead(began, self.rollout_length, self.environment.num_envs)
            self.environment.shelf.keys[place] = words
            steps = self.steps + len(self.requests) * each
            order = self.environment.play(Order(place, self.sent % (self.policy_lag + 1), self.sent, steps))
            self.requests.append(Request(began, after, self.rollouts, self.version(), order, place))

    def publish(self) -> None:
        """Send workers the newest parameters, in place of those that no player uses any more."""
        self.sent += 1
        if self.acting_numbers is None or self.acting_numbers[0] is not self.learner:
            self.acting_numbers = self.learner, self.acting_part(())
        numbers = self.acting_numbers[1].leaves
        leaves = *numbers, *self.actor().leaves[len(self.numbers.leaves) :]
        needed = [bits(leaf) for leaf, needed in zip(leaves, self.needed, strict=True) if needed]
        self.environment.publish(self.sent % (self.policy_lag + 1), on_host(needed))

    def collect_results(self, request: Request) -> LaggedRollout:
        """Return copies of the players' results, which workers overwrite in time."""
        if request.collected is not None:
            return request.collected
        shelf = self.environment.shelf
        many = lambda x: x[request.place].copy()  # noqa: E731
        rollout = jax.tree.map(many, shelf.rollout._replace(version=()))
        version = jax.tree.map(lambda x: np.broadcast_to(x, (self.rollout_length, *x.shape)).copy(), request.version)
        return LaggedRollout(rollout._replace(version=version), many(shelf.lost), many(shelf.visited))

    def save(self, with_environment: bool = True) -> HostState:
        """Return the state to continue from, with the rollouts that workers are ahead. After a failure, rollouts and
        environments are left out.
        """
        if with_environment:
            self.ask(self.policy_lag)
            try:
                hidden, self.ended = self.environment.final_memory()
                self.hidden = restore_keys(hidden, self.first_hidden)
            except RunInterrupted:
                raise
            except ForageError:  # in a rollout that is not needed yet, and says so when it is
                with_environment = False
        saved = super().save(with_environment)
        if not with_environment and self.requests:
            saved = saved._replace(key=self.requests[0].began)
        if not self.policy_lag:
            return saved._replace(pending=())  # type: ignore[arg-type]
        if not with_environment:
            return saved._replace(**self.nothing_ahead(saved.key))
        each = [self.collect_results(request) for request in self.requests]
        rollout, lost, visited = jax.tree.map(lambda *x: np.stack(x), *each)
        behind = [self.rollouts - request.acted for request in self.requests]
        began = jnp.stack([request.began for request in self.requests])
        ahead = AheadState(np.bool_(True), began, np.array(behind, np.int32), lost, visited)  # type: ignore[arg-type]
        return saved._replace(pending=rollout, ahead=ahead)

    def nothing_ahead(self, key: Key[Array, ""]) -> dict[str, Any]:
        """Return the entries of a checkpoint for an empty list of rollouts."""
        shapes = self.shapes()
        blank = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes.ahead._replace(began=()))
        began = jnp.broadcast_to(key, (self.policy_lag,))
        pending = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes.pending)
        return {"pending": pending, "policy_lag": blank._replace(began=began)}

    def shapes(self) -> HostState:
        shapes = super().shapes()
        if not self.policy_lag:
            return shapes._replace(pending=())  # type: ignore[arg-type]

        def many(x: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((self.policy_lag, *x.shape), x.dtype)

        each = jax.ShapeDtypeStruct((self.rollout_length, self.environment.num_envs), np.int32)
        ahead = AheadState(
            np.zeros((), bool),
            many(shapes.key),  # type: ignore[arg-type]
            np.zeros(self.policy_lag, np.int32),
            many(jax.ShapeDtypeStruct(each.shape, np.bool_)),  # type: ignore[arg-type]
            many(each),  # type: ignore[arg-type]
        )
        return shapes._replace(pending=jax.tree.map(many, shapes.pending), ahead=ahead)

    def restore(self, saved: HostState) -> None:
        self.requests.clear()
        self.published = None
        if self.policy_lag and saved.ahead.present:
            held = jax.tree.map(np.asarray, (saved.pending, saved.ahead.lost, saved.ahead.visited))
            for n in range(self.policy_lag):
                began = saved.ahead.began[n]
                after, *_ = self.keys_ahead(began, self.rollout_length, self.environment.num_envs)
                acted = self.rollouts_of(saved.steps) - int(saved.ahead.behind[n])
                collected = LaggedRollout(*jax.tree.map(lambda x, n=n: x[n], held))
                self.requests.append(Request(began, after, acted, (), collected=collected))
        super().restore(saved)
        if saved.environment.size:
            self.environment.remind(jax.tree.map(lambda x: np.asarray(bits(x)), saved.hidden), np.array(saved.ended))

    def begin(self) -> None:
        self.forget()
        super().begin()

    def forget(self) -> None:
        super().forget()
        if self.requests:
            self.key = self.requests[0].began
        self.requests.clear()
        self.published = None
        self.environment.recall()

    def begin_episodes(self) -> None:
        if not self.requests:
            super().begin_episodes()
            return
        # Those under way are cut behind the newest rollout, which is a checkpoint's, and are no episodes that ended.
        self.observation = self.environment.reset(self.seed + self.steps)
        newest = self.requests[-1]
        assert newest.collected is not None
        rollout, lost, _ = newest.collected
        over = (rollout.terminated[-1] | rollout.truncated[-1]).reshape(self.environment.num_envs, -1).all(1)
        truncated: Any = np.array(rollout.truncated)
        truncated[-1], lost = ~np.asarray(rollout.terminated[-1]), np.array(lost)
        lost[-1] |= ~over
        newest.collected = newest.collected._replace(rollout=rollout._replace(truncated=truncated), lost=lost)
