"""The loop on the host: environments in Python or C++ are stepped here; acting and learning are jitted for one seed.

While the environments simulate a step, the device learns: an off-policy agent's updates are dispatched between
handing out actions and receiving what they brought, so they act with parameters that are one rollout old for one
step. An on-policy agent always acts with what it has just learned. `runner.py` runs it for many seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Key, PyTree

from forage.core import mesh, prng, team
from forage.core.bounds import bounded_leaves
from forage.core.checkpoint import Bytes
from forage.core.compiling import Flat, jit_shared, kind, on_device, on_host
from forage.core.errors import RunInterrupted, warn
from forage.core.host import HostEnvironment
from forage.core.ports import Agent, HiddenState, Starts, Tasks
from forage.core.storage.packing import PickledState
from forage.core.types import GONE, Clock, Experience, ForageError, Step
from forage.loop import visits
from forage.loop.host.onlooker import InterventionRecorder
from forage.loop.host.programs import TurnMetrics, act, estimate, init_learner, learn, observe_actions, observe_rewards
from forage.loop.host.starts import HostedEnvironment, HostStarts, HostStartsState
from forage.loop.learner import Episodes, Learner, LearnerState, Report
from forage.loop.runner import Watch
from forage.loop.soundness import Unsound, find_nonfinite, learned_sentence, sound
from forage.loop.visits import Visits


class HostState(NamedTuple):
    """The state of one seed's run, except its environments."""

    steps: Int[np.ndarray, ""]  # taken; after a failure the seeds may differ
    key: Key[Array, ""]
    learner: LearnerState
    pending: Experience  # the rollout that is not learned from yet, `time env ...`
    is_pending: Bool[np.ndarray, ""]  # whether there is one
    hidden: HiddenState  # leaves [env, ...]
    ended: Bool[np.ndarray, "env *agent"]  # whether the next step begins an episode
    episode_return: np.ndarray  # [env, *objectives]
    episode_length: np.ndarray  # [env]
    environment: np.ndarray  # the environments' own snapshot as bytes; empty when they cannot be saved
    starts: HostStartsState | tuple[()]  # where episodes begin as a part says
    kept: np.ndarray  # the simulator's states that the part keeps, as bytes
    visits: Visits | tuple[()]  # where the agent has been, in a run that is asked to measure it
    onlooker: np.ndarray | tuple[()] = ()  # what a behaviour that intervenes remembers, as bytes
    ahead: Any = ()  # of a loop whose workers act ahead of the learner: see `ahead.py`


class HostOptions(NamedTuple):
    """The options of a run on the host."""

    starts: Starts | None = None  # where episodes begin; `None`: as the environment resets
    measured: bool = False  # visits are counted
    tasks: Tasks | None = None  # which of the numbered beginnings; `None`: any. They need `starts`
    shape: mesh.Shape | None = None  # of the mesh of devices that learns; `None`: one device


PLAIN = HostOptions()
count = jax.jit(visits.count_visits)


def cut_before_lost(rollout: Experience, lost: Bool[np.ndarray, "time env"]) -> Experience:
    """Truncate the episodes of a rollout that a lost step follows: their last step did not lead to it."""
    if not lost[1:].any():
        return rollout
    truncated = np.array(rollout.truncated)
    follows = lost[1:].reshape(*lost[1:].shape, *[1] * (truncated.ndim - 2))
    truncated[:-1] |= follows & ~np.asarray(rollout.terminated[:-1])
    return rollout._replace(truncated=truncated)  # type: ignore[arg-type]


class HostLoop:
    """The loop for one seed."""

    def __init__(
        self, learner: Learner, environment: HostEnvironment, seed: int, total_steps: int, way: HostOptions = PLAIN
    ):
        self.mesh = None if way.shape is None else mesh.mesh_of(way.shape, jax.local_devices())
        self.learner = learner
        same = kind(learner)
        self.begun = self.program(same, init_learner, once=True)
        self.act = self.program(same, act, static_argnames="explore")
        self.learned = self.program(same, learn, donate_argnames="state")
        self.estimate = self.program(same, estimate)
        self.acted = self.program(same, observe_actions)
        self.paid = self.program(same, observe_rewards)
        self.sound = self.program("sound", sound, once=True)
        self.onlooker: InterventionRecorder | None = None
        if learner.behaviour.on_host:
            self.onlooker = InterventionRecorder(learner.behaviour, learner.spec, environment.num_envs, seed)
        self.way = way
        self.starts: HostStarts | None = None
        if way.starts is not None:
            self.starts = HostStarts(way.starts, environment, learner.spec, seed, way.tasks)
        self.visits = visits.no_visits(HostedEnvironment(learner.spec, environment.map_shape)) if way.measured else ()
        self.environment = environment
        self.seed = seed
        self.total_steps = total_steps
        self.steps = 0
        self.episodes = 0  # that ended here, in this sitting
        self.watch = Watch()
        self.overlap = not learner.agent.on_policy
        self.first_hidden = learner.init_hidden()
        self.observation: PyTree[np.ndarray] = None
        self.bounded = bool(bounded_leaves(learner.spec.observation_space))
        self.shown: PyTree[np.ndarray] | None = None  # what the newest rollout led to, where it has bounds
        self.key: Any = None
        self.flat = Flat.flatten(None)  # the state, flattened
        self.hidden: Any = None
        self.pending: Experience | None = None
        self.unwell: int | None = None  # the step before which a metric was not finite, in the newest chunk

    def program(self, same: Hashable, function: Any, **options: Any) -> Callable[..., Any]:
        """Return a compiled function of learners of one kind, which runs on the mesh of the run if there is one."""
        program = jit_shared(same, function, in_order=self.mesh is not None, **options)
        if self.mesh is None:
            return program

        def run(*arguments: Any, **options: Any) -> Any:
            with mesh.on_mesh(self.mesh):
                return program(*arguments, **options)

        return run

    @property
    def learner(self) -> Learner:
        return self._learner

    @learner.setter
    def learner(self, learner: Learner) -> None:
        # Attributes of parts are looked up slowly, and numbers are handed to the device once.
        learner = mesh.place_weights(learner, self.mesh)
        self._learner, self.agent, self.spec = learner, learner.agent, learner.spec
        self.rollout_length = learner.agent.rollout_length
        self.versioned = type(learner.agent).version is not Agent.version
        self.numbers = Flat.flatten(on_device(learner))
        self.acting: tuple[Any, Any, int] | None = None  # see `actor`

    @property
    def state(self) -> Any:
        return self.flat.tree

    @state.setter
    def state(self, state: Any) -> None:
        self.flat = Flat.flatten(mesh.place_weights(state, self.mesh))

    def actor(self) -> Flat:
        """Return the result of `actor_of`, from leaves that are flattened already."""
        structure = self.flat.structure
        if self.acting is None or self.acting[0] is not structure:
            whole = self._learner, self.state._replace(rewards=(), memory=())
            agent, behaviour, *_ = structure.children()
            self.acting = structure, jax.tree.structure(whole), agent.num_leaves + behaviour.num_leaves
        _, acting, count = self.acting
        return Flat((*self.numbers.leaves, *self.flat.leaves[:count]), acting)

    def begin(self) -> None:
        num_envs, names = self.environment.num_envs, self.learner.spec.reward_names
        self.key, self.state = self.begun(self.learner, prng.key(self.seed), self.example_start_id)
        self.hidden = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_envs, *x.shape)), self.first_hidden)
        self.ended = np.ones(self.flags, bool)
        self.episode_return = np.zeros((num_envs, len(names)) if names else num_envs, np.float32)
        self.episode_length = np.zeros(num_envs, np.int32)
        self.observation = self.environment.reset(self.seed)
        if self.starts is not None:
            self.observation = self.starts.first(self.observation)
        if self.onlooker is not None:
            self.onlooker.begin()

    def advance(self, iterations: int) -> Report:
        objectives = self.episode_return.shape[1:]
        self.count, self.total, self.length = 0, np.zeros(objectives), 0
        self.infos = {name: np.zeros(2) for name in self.environment.info_names}
        learned: list[TurnMetrics | None] = []
        began = self.steps
        self.watch.start()
        for _ in range(iterations):
            try:
                learned.append(self.iterate())
            except (Unsound, RunInterrupted):
                raise
            except ForageError as error:
                raise self.blame_action(error) from error
        found: list[TurnMetrics | None] = jax.device_get(learned)
        self.watch.lap("learn")
        unwell = [number for number, m in enumerate(found) if m and not np.isfinite(m.values).all()]
        each = self.rollout_length * self.environment.num_envs
        # Only tells where to look, once something was found not to be finite.
        self.unwell = began + unwell[0] * each if unwell else None
        metrics = [m for m in found if m]
        updates, means = 0.0, {}
        if metrics:
            names = metrics[0].names
            nothing = np.zeros(len(names), np.float32)
            weights = [m.values[names.index("updates")] for m in metrics]
            updates = sum(map(float, weights))
            total = sum((m.values * weight for m, weight in zip(metrics, weights, strict=True)), nothing)
            means = dict(zip(names, total / max(updates, 1), strict=True))
        latest = jax.device_get(visits.measures(self.visits)) if isinstance(self.visits, Visits) else {}
        if self.onlooker is not None:
            latest |= self.onlooker.metrics()
        latest |= self.environment.metrics()
        healthy = np.asarray(self.sound(self.state._replace(memory=())))
        self.watch.lap("keep")
        return Report(
            Episodes(np.float32(self.count), np.asarray(self.total, np.float32), np.float32(self.length)),  # type: ignore[arg-type]
            means | {"updates": np.float32(updates)},  # type: ignore[operator]
            np.bool_(True),  # type: ignore[arg-type]  # every step was checked as it came
            healthy,  # type: ignore[arg-type]
            latest,  # type: ignore[arg-type]
            {name: (total, count) for name, (total, count) in self.infos.items()},  # type: ignore[arg-type]
        )

    def blame_action(self, error: ForageError) -> ForageError:
        """If a non-finite action made the environment fail, return the error for that action instead."""
        found = find_nonfinite(self.state, None)
        if found is None:
            return error
        part, bad = found
        return Unsound(learned_sentence(part, bad, f"before step {self.steps:,}", self.seed))

    def iterate(self) -> TurnMetrics | None:
        """Collect one rollout and learn; with overlap, from the rollout before. Return the metrics."""
        agent, environment, spec = self.agent, self.environment, self.spec
        if agent.whole_episodes and self.episode_length.any():
            self.begin_episodes()
        clock, fresh = self.clock(self.steps), self.episode_length == 0
        environment.clock = clock
        if self.starts is not None:
            self.starts.follow(clock)
        rollout, places, metrics = self.collect()
        if self.bounded:
            self.shown = rollout.next_observation
        told = team.as_one(rollout, spec.num_agents)
        if self.onlooker is not None:
            self.onlooker.count(rollout)
        if self.starts is not None:
            estimates = None
            if self.starts.needs_estimates:
                key = jax.random.split(self.key)[1]  # with which an on-policy agent will learn from this rollout
                estimates = self.estimate(self.learner, self.state, rollout, clock, key)
            self.starts.report(told, clock, fresh, estimates)
            self.observation = self.starts.restart_waiting(self.observation)
        if isinstance(self.visits, Visits):
            self.visits = count(self.visits, places if environment.map_shape else (), told, clock)
        self.steps += self.rollout_length * environment.num_envs
        if self.overlap:
            self.pending = rollout
            return metrics
        return self.learn(rollout, clock)

    def collect(self) -> tuple[Experience, np.ndarray, TurnMetrics | None]:
        """Step all environments for a rollout, and learn from the rollout before meanwhile, where there is one.

        Return the rollout (`time env ...`), the places that were visited, empty if visits are not counted, and the
        metrics of what was learned.
        """
        environment, spec, watch = self.environment, self.spec, self.watch
        steps: list[Any] = []
        places: list[Any] = []
        losses, unjudged = np.zeros((2, self.rollout_length, environment.num_envs), bool)
        metrics: TurnMetrics | None = None
        seen: Flat | None = None
        for time in range(self.rollout_length):
            now = self.clock(self.steps + time * environment.num_envs)
            observation = self.observation
            watch.lap("keep")
            if seen is None:  # actions wait for the learner either way, and so it is known how long
                jax.block_until_ready(self.flat.leaves)
                watch.lap("learn")
                seen, version = self.actor(), self.version()
            self.key, executed, decision = self.act(seen, self.hidden, self.ended, observation, now, self.key)
            self.hidden = decision.hidden
            jax.block_until_ready(executed)
            watch.lap("act")
            executed, action, policy_info, source, behaviour_info = on_host(
                (executed, decision.action, decision.policy_info, decision.source, decision.behaviour_info)
            )
            if self.onlooker is not None:
                executed, action, policy_info, source = self.onlooker.ask(
                    observation, executed, action, source, self.ended, now, policy_info, lambda: self.state.agent
                )
                self.hidden = self.acted(seen, self.hidden, action)
            watch.lap("transfer")
            environment.send(executed)
            watch.lap("step")
            if self.pending is not None:
                earlier = self.clock(self.steps - self.rollout_length * environment.num_envs)
                metrics = self.learn(self.pending, earlier)
                self.pending = seen = None  # what acts next has learned more
            result = environment.receive()
            watch.lap("step")
            lost = environment.lost
            if lost is not None:
                losses[time] = lost
                self.check_lost(lost)
                source = np.where(self.for_agents(lost), GONE, np.asarray(source)).astype(np.int32)
            if environment.unjudged is not None:
                unjudged[time] = environment.unjudged
            start_ids = self.start_ids()  # before other episodes begin
            if self.starts is not None:
                last = time == self.rollout_length - 1
                result = self.starts.after_step(result, self.episode_length, action, policy_info, last)
            if self.way.measured:
                places.append(environment.map_position)
            step, self.observation = result.step, result.observation
            steps.append(
                Experience(
                    observation=observation,
                    action=action,
                    reward=step.reward,
                    next_observation=step.observation,
                    terminated=step.terminated,
                    truncated=step.truncated,
                    source=source,  # type: ignore[arg-type]
                    policy_info=policy_info,
                    info={name: self.for_agents(step.info[name]) for name in spec.info_names},
                    behaviour_info=behaviour_info,
                    start_id=start_ids,
                    version=version,  # type: ignore[arg-type]
                )
            )
            self.account(step, lost)
        rollout = jax.tree.map(lambda *x: np.stack(x), *steps)
        self.check_judged(rollout, unjudged)
        rollout = cut_before_lost(rollout, losses)
        return rollout, np.stack(places) if places else np.zeros(0, np.int32), metrics

    def check_lost(self, lost: Bool[np.ndarray, "*time env"]) -> None:
        """Raise `ForageError` if steps were lost and the agent cannot leave them out."""
        agent, environment = self.learner.agent, self.environment
        if lost.any() and not agent.leaves_out:
            raise ForageError(
                f"{type(agent).__name__} cannot leave out a step that was lost: {environment.lost_reason} in "
                f"{environment.name}. Mend that, or take an agent that can, such as grpo."
            )

    def check_judged(self, rollout: Experience, unjudged: Bool[np.ndarray, "time env"]) -> None:
        """Raise `ForageError` if no episode that ended in a rollout could be judged."""
        if not unjudged.any():
            return
        ended = np.asarray(rollout.terminated | rollout.truncated).reshape(*unjudged.shape, -1).all(-1)
        if not (ended & ~unjudged).any():
            count, name = int(unjudged.sum()), self.environment.name
            which = f"None of the {count} episodes" if count > 1 else "The only episode"
            raise ForageError(
                f"{which} of a rollout of {name} could {'' if count > 1 else 'not '}be judged, as "
                f"{self.environment.unjudged_reason}; mend it, and resume the run."
            )

    def learn(self, rollout: Experience, clock: Clock) -> TurnMetrics:
        self.watch.lap("keep")
        self.key, self.flat, metrics = self.learned(self.numbers, self.flat, rollout, clock, self.key)
        self.watch.lap("learn")
        return metrics

    def account(self, step: Any, lost: Bool[np.ndarray, " env"] | None = None) -> None:
        """Add a step to the running episodes, and ended episodes to the totals, except lost ones."""
        self.ended = step.terminated | step.truncated
        step = team.as_one(step, self.spec.num_agents)
        self.episode_return = self.episode_return + step.reward
        self.episode_length = self.episode_length + 1
        over = step.terminated | step.truncated
        if lost is not None:
            over = over & ~lost
            self.episode_return[lost] = 0
            self.episode_length[lost] = 0
        if over.any():
            self.count += int(over.sum())
            self.episodes += int(over.sum())
            for name, sums in self.infos.items():
                said = step.info[name][over]
                said = said[~np.isnan(said)]
                sums += said.sum(), len(said)
            self.total = self.total + self.episode_return[over].sum(0)
            self.length += int(self.episode_length[over].sum())
            self.episode_return[over] = 0
            self.episode_length[over] = 0

    def recount(self, rollout: Experience, lost: Bool[np.ndarray, "time env"]) -> None:
        """Add the steps of a rollout to episodes in the order of time, as if all had stepped together."""
        for time in range(self.rollout_length):
            infos: Any = {name: self.of_envs(np.asarray(values[time])) for name, values in rollout.info.items()}
            step: Any = Step((), rollout.reward[time], rollout.terminated[time], rollout.truncated[time], infos)
            self.account(step, lost[time] if lost[time].any() else None)

    def of_envs(self, values: np.ndarray) -> np.ndarray:
        """Reduce values that are equal for all agents of an environment to one per environment."""
        return values if values.ndim == 1 else values[:, 0]

    def start_ids(self) -> PyTree[np.ndarray]:
        """Return the start_ids of the running episodes (leaves `env *agent ...`), for an agent that uses them."""
        if self.starts is None or not self.agent.needs_start_ids:
            return ()
        start_ids, agents = jax.tree.map(np.asarray, self.starts.state.start_ids), self.learner.spec.num_agents
        return start_ids if agents == 1 else jax.tree.map(lambda x: np.repeat(x[:, None], agents, 1), start_ids)

    def version(self) -> Int[np.ndarray, "env *agent"] | tuple[()]:
        """Return the version of the policy that acts next, for an agent that wants it."""
        if not self.versioned:
            return ()
        version = on_host(self.agent.version(self.state.agent))
        return jax.tree.map(lambda x: np.broadcast_to(x, self.flags), version)

    @property
    def example_start_id(self) -> PyTree[Array]:
        """Return an example of one start_id, for an agent that wants them."""
        if self.starts is None or not self.learner.agent.needs_start_ids:
            return ()
        return jax.tree.map(lambda x: x[0], self.starts.state.start_ids)

    @property
    def flags(self) -> tuple[int, ...]:
        """Return the shape of the flags of ended episodes."""
        agents = self.spec.num_agents
        return (self.environment.num_envs,) if agents == 1 else (self.environment.num_envs, agents)

    def for_agents(self, values: Any) -> Any:
        """Repeat the values of each environment for its agents."""
        return values if self.spec.num_agents == 1 else np.broadcast_to(values[:, None], self.flags)

    def clock(self, steps: int) -> Clock:
        return Clock(np.int32(steps), np.float32(self.total_steps))  # type: ignore[arg-type]

    def blank_rollout(self, state: LearnerState) -> Experience:
        shape = (self.learner.agent.rollout_length, *self.flags)
        example = self.learner.example(state.agent, state.behaviour, self.example_start_id)
        return jax.tree.map(lambda x: jnp.zeros(shape + x.shape, x.dtype), example)

    def save(self, with_environment: bool = True) -> HostState:
        """Return the state to continue from. After a failure the environments are left out: new episodes begin then."""
        snapshot = (self.environment.snapshot() if with_environment else None) or b""
        return HostState(
            np.int32(self.steps),  # type: ignore[arg-type]
            self.key,
            self.state,
            self.blank_rollout(self.state) if self.pending is None else self.pending,
            np.bool_(self.pending is not None),  # type: ignore[arg-type]
            self.hidden,
            self.ended,
            self.episode_return,
            self.episode_length,
            np.frombuffer(snapshot, np.uint8),
            () if self.starts is None else self.starts.state,
            np.frombuffer(b"" if self.starts is None else self.starts.dump(), np.uint8),
            self.visits,
            () if self.onlooker is None else np.frombuffer(self.onlooker.dump(), np.uint8),
        )

    def shapes(self) -> HostState:
        num_envs, names = self.environment.num_envs, self.learner.spec.reward_names
        key, learner = jax.eval_shape(self.begun, self.learner, prng.key(0), self.example_start_id)
        hidden = jax.tree.map(lambda x: jax.ShapeDtypeStruct((num_envs, *x.shape), x.dtype), self.first_hidden)
        return HostState(
            np.zeros((), np.int32),
            key,
            learner,
            jax.eval_shape(self.blank_rollout, learner),
            np.zeros((), bool),
            hidden,
            np.zeros(self.flags, bool),
            np.zeros((num_envs, len(names)) if names else num_envs, np.float32),
            np.zeros(num_envs, np.int32),
            Bytes(),  # type: ignore[arg-type]
            () if self.starts is None else jax.eval_shape(self.starts.initial, prng.key(0)),
            Bytes(),  # type: ignore[arg-type]
            self.visits,
            () if self.onlooker is None else Bytes(),  # type: ignore[arg-type]
        )

    def restore(self, saved: HostState) -> None:
        self.key, self.state, self.hidden = saved.key, saved.learner, saved.hidden
        self.ended, self.episode_return = np.array(saved.ended), np.array(saved.episode_return)
        self.episode_length = np.array(saved.episode_length)
        self.steps = int(saved.steps)
        self.pending = saved.pending if saved.is_pending else None
        self.visits = saved.visits
        if self.onlooker is not None:
            self.onlooker.restore(saved.onlooker.tobytes())  # type: ignore[union-attr]
        if self.starts is not None:
            self.starts.restore(saved.starts, saved.kept.tobytes())  # type: ignore[arg-type]
        if saved.environment.size:
            try:
                self.observation = self.environment.restore(saved.environment.tobytes())
            except PickledState as error:
                warn(f"{error} Unfinished episodes begin anew.")
                self.begin_episodes()
        else:  # what the run said when it started: these environments cannot be saved, so new episodes begin
            self.begin_episodes()

    def forget(self) -> None:
        """Drop the collected steps that are not learned from yet."""
        self.pending = None

    def begin_episodes(self) -> None:
        """Begin new episodes in place of the unfinished ones, which were lost."""
        self.observation = self.environment.reset(self.seed + self.steps)
        self.ended = np.ones_like(self.ended)
        self.episode_return, self.episode_length = self.episode_return * 0, self.episode_length * 0
        if self.pending is not None:
            truncated = jnp.asarray(self.pending.truncated).at[-1].set(~self.pending.terminated[-1])
            self.pending = self.pending._replace(truncated=truncated)
        else:
            self.state = self.learner.truncate(self.state, self.clock(self.steps))
        if self.starts is not None:
            every = np.ones(self.environment.num_envs, bool)
            self.observation = self.starts.begin_anew(self.observation, every, ~every)
