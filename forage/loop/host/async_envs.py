"""The loop on the host whose environments do not wait for each other within a rollout.

Whoever has stepped is given the next action together with all others that are ready by then, so a slow environment
holds nobody up, and workers step while actions are chosen for others. All wait where a rollout ends. Each environment's
random numbers are those of its own step, and so the rollout is, bit by bit, the one that `HostLoop` collects.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.core.compiling import Flat, jit_shared, kind, on_host
from forage.core.errors import ForageError
from forage.core.ports import Decision, HiddenState
from forage.core.types import GONE, Clock, Experience
from forage.loop.cluster.slots import SlotResults, Slots
from forage.loop.host.loop import HostLoop, HostOptions, cut_before_lost
from forage.loop.host.programs import TurnMetrics, decide, keys_of
from forage.loop.learner import Learner, where_tree


def act_where(
    actor: Flat,
    hidden: HiddenState,
    ended: Bool[Array, "env *agent"],
    observation: PyTree[Array],
    ready: Bool[Array, " env"],
    clock: Clock,
    keys: Key[Array, "time env"],
    time: Int[Array, " env"],
) -> tuple[PyTree[Array], Decision]:
    """Choose actions for all, and remember them where an environment is `ready`.

    `clock`, whose steps are `[env]`, and `time`, the row of `keys`, are each environment's own. Returns the actions to
    execute, and the decisions with the actions before clipping; elsewhere they mean nothing.
    """
    rows = jnp.arange(len(time))
    executed, decision = decide(actor, hidden, ended, observation, clock, keys[time, rows], rows, own_clocks=True)
    return executed, decision._replace(hidden=where_tree(ready, decision.hidden, hidden))


def check_async(learner: Learner, way: HostOptions) -> None:
    """Raise `ForageError` for agents and parts that need all environments at each step."""
    if learner.agent.rollout_length == 1:
        raise ForageError(
            f"{type(learner.agent).__name__} collects one step of all environments at a time, so none can go ahead of "
            f"others; leave out --async-envs, or give a longer --rollout-length."
        )
    if way.starts is not None or learner.behaviour.on_host:
        raise ForageError(
            "Where episodes begin as a part says, or somebody may take over, all environments step together; leave "
            "out --async-envs."
        )


class FirstCome(HostLoop):
    """The loop for one seed whose environments are slots."""

    environment: Slots

    def __init__(self, learner: Learner, *arguments: Any):
        super().__init__(learner, *arguments)
        same = kind(learner)
        self.seen: Flat | None = None  # what acts next
        self.collected: Any = None  # the rollout, as far as it is known
        self.act_where = jit_shared(same, act_where)
        self.keys_of = jit_shared(same, keys_of, static_argnames=("steps", "num_envs"))

    def collect(self) -> tuple[Experience, np.ndarray, TurnMetrics | None]:
        environment, watch, length = self.environment, self.watch, self.rollout_length
        num_envs, each = environment.num_envs, [slot.rows for slot in environment.slots]
        time = np.zeros(num_envs, np.int32)  # steps that each environment has taken in this rollout
        lost, unjudged = np.zeros((2, length, num_envs), bool)
        places = np.zeros((length, num_envs), np.int32)
        self.observation = jax.tree.map(np.array, self.observation)  # into which arrivals are written
        self.ended = self.ended.copy()
        self.collected = None
        metrics: TurnMetrics | None = None

        jax.block_until_ready(self.flat.leaves)
        watch.lap("learn")
        self.key, keys = self.keys_of(self.key, 1, num_envs)
        self.ask(each, time, keys, 0)
        if self.pending is not None:
            metrics = self.learn(self.pending, self.clock(self.steps - length * num_envs))
            self.pending = None
        self.key, keys = self.keys_of(self.key, length - 1, num_envs)
        while any(slot.under_way for slot in environment.slots):
            arrived = environment.hear()
            watch.lap("step")
            for one in arrived:
                self.keep(one, time, lost, unjudged, places)
            ready = [one.rows for one in arrived if one.result is not None and time[one.rows.start] < length]
            if ready:
                self.ask(ready, time, keys, 1)
        self.check_lost(lost)
        rollout: Any = self.collected
        self.check_judged(rollout, unjudged)
        self.recount(rollout, lost)
        rollout = cut_before_lost(rollout, lost)
        return rollout, places if self.way.measured else np.zeros(0, np.int32), metrics

    def ask(self, rows: list[slice], time: np.ndarray, keys: Key[Array, "time env"], first: int) -> None:
        """Choose actions for these slots, store their inputs, and send them. `keys` begin at step `first`."""
        watch, num_envs = self.watch, self.environment.num_envs
        watch.lap("keep")
        if not first or self.seen is None:
            jax.block_until_ready(self.flat.leaves)
            watch.lap("learn")
            self.seen, self.seen_version = self.actor(), self.version()
        ready = np.zeros(num_envs, bool)
        for one in rows:
            ready[one] = True
        steps = np.minimum(time, self.rollout_length - 1)
        clock = Clock((self.steps + steps * num_envs).astype(np.int32), np.float32(self.total_steps))  # type: ignore[arg-type]
        row = np.maximum(steps - first, 0)
        executed, decision = self.act_where(
            self.seen, self.hidden, self.ended, self.observation, ready, clock, keys, row
        )
        self.hidden = decision.hidden
        jax.block_until_ready(executed)
        watch.lap("act")
        executed, action, policy_info, source, behaviour_info = on_host(
            (executed, decision.action, decision.policy_info, decision.source, decision.behaviour_info)
        )
        watch.lap("transfer")
        self.environment.tell(rows, executed)
        told = (self.observation, action, np.asarray(source), policy_info, behaviour_info, self.seen_version)
        if self.collected is None:
            self.collected = self.blank(told)
            self.seen = None  # what acts next may have learned more
        where = np.nonzero(ready)[0]
        kept = self.collected
        for to, new in zip(
            jax.tree.leaves(
                (kept.observation, kept.action, kept.source, kept.policy_info, kept.behaviour_info, kept.version)
            ),
            jax.tree.leaves(told),
            strict=True,
        ):
            to[time[where], where] = new[where]

    def blank(self, told: tuple[Any, ...]) -> Experience:
        """Return arrays for a rollout of such observations, actions and decisions."""
        length, spec, environment = self.rollout_length, self.spec, self.environment
        many: Any = lambda x: np.zeros((length, *x.shape), x.dtype)  # noqa: E731
        observation, action, source, policy_info, behaviour_info, version = jax.tree.map(many, told)
        shared: Any = environment.shared_arrays
        infos: Any = {name: many(self.for_agents(shared.info[name])) for name in spec.info_names}
        return Experience(
            observation=observation,
            action=action,
            reward=many(shared.reward),
            next_observation=jax.tree.map(many, shared.led_to),
            terminated=many(shared.terminated),
            truncated=many(shared.truncated),
            source=source,
            policy_info=policy_info,
            info=infos,
            behaviour_info=behaviour_info,
            start_id=(),
            version=version,
        )

    def keep(
        self, arrived: SlotResults, time: np.ndarray, lost: np.ndarray, unjudged: np.ndarray, places: np.ndarray
    ) -> None:
        """Write the results of a slot into the rollout."""
        rows, kept = arrived.rows, self.collected
        at = int(time[rows.start])

        def show(to: np.ndarray, new: np.ndarray) -> None:
            to[rows] = new

        jax.tree.map(show, self.observation, arrived.observation)
        if arrived.result is None:  # its worker was replaced in between: the episode is cut behind its last step
            kept.truncated[at - 1, rows] = ~kept.terminated[at - 1, rows]
            self.ended[rows] = True
            return
        step = arrived.result.step
        kept.reward[at, rows], kept.terminated[at, rows] = step.reward, step.terminated
        kept.truncated[at, rows] = step.truncated
        self.ended[rows] = step.terminated | step.truncated
        jax.tree.map(lambda to, new: to.__setitem__((at, rows), new), kept.next_observation, step.observation)
        for name, values in kept.info.items():
            new = step.info[name]
            values[at, rows] = new if values.ndim == 2 else new[:, None]
        lost[at, rows], unjudged[at, rows] = arrived.left_out, arrived.not_judged
        kept.source[at, lost[at]] = GONE
        places[at, rows] = self.environment.shared_arrays.place[rows]
        time[rows] += 1
