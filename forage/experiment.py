"""The device road: collect, remember and learn inside one jitted program, with all seeds side by side.

    tasks --> starts --> ENVIRONMENT --> rewards --> memory --> agent
                              ^                                   |
                              +----------- behaviour <------------+

The host is touched once a chunk. `Learner` is the half of the loop that both roads share.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import equinox
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage import prng, spaces
from forage.ports import Agent, Behaviour, Environment, Memory, Metrics, Part, Rewards, Starts, Tasks
from forage.types import AGENT, Clock, Experience, Spec

State = Any


class Learner(Part):
    """Remember and learn: what happens to a rollout, on either road."""

    agent: Agent
    behaviour: Behaviour
    rewards: Rewards
    memory: Memory
    spec: Spec = equinox.field(static=True)

    def check(self) -> None:
        """Raises `ForageError` where parts and environment do not fit together."""
        self.rewards.check(self.spec)
        self.agent.check(self.spec)
        self.behaviour.check(self.agent, self.spec)

    def init(self, key: Key[Array, ""]) -> LearnerState:
        keys = jax.random.split(key, 3)
        agent_state = self.agent.init(keys[0], self.spec)
        behaviour_state = self.behaviour.init(keys[1], self.agent, self.spec)
        return LearnerState(
            agent_state,
            behaviour_state,
            self.rewards.init(keys[2], self.spec, self.agent.num_envs),
            self.memory.init(
                self.example(agent_state, behaviour_state), self.agent.num_envs, self.agent.rollout_length
            ),
        )

    def example(self, agent_state: State, behaviour_state: State) -> Experience:
        """One transition's shapes and dtypes, as zeros."""
        observation = spaces.example(self.spec.observation_space)
        clock = Clock(jnp.int32(0), jnp.float32(1))
        action, _, aux, _ = jax.eval_shape(
            lambda: self.behaviour.act(
                behaviour_state,
                self.agent,
                agent_state,
                self.behaviour.hidden(self.agent, self.spec),
                observation,
                self.spec,
                clock,
                prng.key(0),
            )
        )
        action, aux = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), (action, aux))
        names = self.spec.reward_names
        return Experience(
            observation=observation,
            action=action,
            reward=jnp.zeros((len(names),) if names else ()),
            next_observation=observation,
            terminated=jnp.bool_(False),
            truncated=jnp.bool_(False),
            source=jnp.int32(AGENT),
            aux=aux,
        )

    def act(
        self, state: LearnerState, hidden: PyTree[Array], observation: PyTree[Array], clock: Clock, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], PyTree[Array], PyTree[Array], Array]:
        """Chooses the action of one environment. Returns `(action, hidden, aux, source)`."""
        return self.behaviour.act(state.behaviour, self.agent, state.agent, hidden, observation, self.spec, clock, key)

    def learn(
        self, state: LearnerState, rollout: Experience, clock: Clock, key: Key[Array, ""]
    ) -> tuple[LearnerState, Metrics]:
        """Remembers a rollout (leaves `time env ...`) and learns. `clock` reads as when the rollout began.

        Metrics are means over the updates made; all are zero, and `updates` too, before `learning_starts`.
        """
        reward_key, learn_key = jax.random.split(key)
        rewards_state, reward_metrics = self.rewards.learn(state.rewards, rollout, reward_key)
        memory_state = self.memory.add(state.memory, rollout, clock)
        behaviour_state = self.behaviour.report(state.behaviour, rollout, clock)
        clock = clock._replace(steps=clock.steps + rollout.terminated.size)

        def update(carry: tuple[State, State], key: Key[Array, ""]) -> tuple[tuple[State, State], Metrics]:
            agent_state, memory_state = carry
            sample_key, learn_key = jax.random.split(key)
            batch = self.memory.sample(memory_state, self.agent.batch_size, self.agent.segment, clock, sample_key)
            batch = batch._replace(experience=self.rewards.relabel(rewards_state, batch.experience))
            agent_state, metrics, errors = self.agent.learn(agent_state, batch, clock, learn_key)
            return (agent_state, self.memory.report(memory_state, batch, errors)), metrics

        carry, updates = (state.agent, memory_state), self.agent.updates
        if updates == 1 and not self.agent.learning_starts:
            carry, metrics = update(carry, learn_key)
            metrics = metrics | {"updates": jnp.float32(1)}
        else:
            # A loop of no turns before `learning_starts` rather than a `cond`, whose branches work on copies: of what
            # a memory writes in `report`, all of it would be copied at every update. The clock is shared by all seeds,
            # so the number of turns is one number under `vmap` too. The key must depend on the turn: XLA would move
            # sampling out of the loop if it did not, and there fuse it with `add`, which then works on a copy as well.
            count = jnp.where(clock.steps >= self.agent.learning_starts, updates, 0)
            shapes = jax.eval_shape(update, carry, learn_key)[1]
            nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

            def turn(i: Int[Array, ""], loop: tuple[tuple[State, State], Metrics]):
                carry, metrics = update(loop[0], jax.random.fold_in(learn_key, i))
                return carry, jax.tree.map(jnp.add, loop[1], metrics)

            carry, total = jax.lax.fori_loop(0, count, turn, (carry, nothing))
            metrics = jax.tree.map(lambda x: x / updates, total) | {"updates": count.astype(jnp.float32)}
        return LearnerState(carry[0], behaviour_state, rewards_state, carry[1]), metrics | reward_metrics


class LearnerState(NamedTuple):
    agent: State
    behaviour: State
    rewards: State
    memory: State


class Episodes(NamedTuple):
    """Totals over the episodes that ended, to make means of."""

    count: Float[Array, ""]
    episode_return: Float[Array, "*objectives"]
    length: Float[Array, ""]


class Start(NamedTuple):
    """Where one episode begins."""

    task: PyTree[Array | None]  # the environment's leaves that this task sets
    env_state: State
    observation: PyTree[Array]


class Pool(NamedTuple):
    """Fresh starts, made in bulk and handed out as episodes end, so that no step pays for a reset it does not need."""

    starts: Start  # leaves [pool, ...]
    used: Int[Array, ""]


class Actors(NamedTuple):
    """The environments being stepped; leaves [env, ...]."""

    at: Start
    hidden: PyTree[Array]
    episode_return: Float[Array, "env *objectives"]
    episode_length: Int[Array, " env"]


class ExperimentState(NamedTuple):
    """Everything a run is, for one seed: saving these leaves saves the run."""

    key: Key[Array, ""]
    learner: LearnerState
    tasks: State
    starts: State
    pool: Pool
    actors: Actors


class Report(NamedTuple):
    """What a chunk has to say, for one seed."""

    episodes: Episodes
    metrics: Metrics  # means over the updates made
    environment_finite: Bool[Array, ""]
    agent_finite: Bool[Array, ""]


class Experiment(Part):
    """The loop. All methods are for one seed; `advance` is jitted over many."""

    learner: Learner
    environment: Environment
    tasks: Tasks
    starts: Starts

    @property
    def agent(self) -> Agent:
        return self.learner.agent

    @property
    def steps_per_iteration(self) -> int:
        return self.agent.num_envs * self.agent.rollout_length

    def check(self) -> None:
        """Raises `ForageError` where parts and environment do not fit together."""
        self.learner.check()
        self.tasks.check(self.environment)
        self.starts.check(self.environment, self.tasks)

    def init(self, key: Key[Array, ""]) -> ExperimentState:
        key, learner_key, tasks_key, starts_key, pool_key = jax.random.split(key, 5)
        learner_state = self.learner.init(learner_key)
        tasks_state = self.tasks.init(tasks_key, self.environment)
        starts_state = self.starts.init(starts_key, self.environment)
        num_envs = self.agent.num_envs
        # Twice as many starts as environments: the first half begins the run.
        starts = jax.vmap(functools.partial(self.new_start, tasks_state, starts_state))(
            jax.random.split(pool_key, num_envs + max(num_envs, 16))
        )
        hidden = self.learner.behaviour.hidden(self.agent, self.learner.spec)
        objectives = len(self.learner.spec.reward_names)
        actors = Actors(
            at=jax.tree.map(lambda x: x[:num_envs], starts),
            hidden=jax.tree.map(lambda x: jnp.broadcast_to(x, (num_envs, *x.shape)), hidden),
            episode_return=jnp.zeros((num_envs, objectives) if objectives else (num_envs,)),
            episode_length=jnp.zeros(num_envs, jnp.int32),
        )
        pool = Pool(jax.tree.map(lambda x: x[num_envs:], starts), jnp.int32(0))
        return ExperimentState(key, learner_state, tasks_state, starts_state, pool, actors)

    def new_start(self, tasks_state: State, starts_state: State, key: Key[Array, ""]) -> Start:
        task_key, start_key = jax.random.split(key)
        task = self.tasks.next(tasks_state, self.environment, task_key)
        return Start(task, *self.starts.begin(starts_state, equinox.combine(task, self.environment), start_key))

    def collect(
        self, state: ExperimentState, clock: Clock, key: Key[Array, ""]
    ) -> tuple[Pool, Actors, Episodes, Experience]:
        """Steps every environment `rollout_length` times. Returns the rollout with leaves `time env ...`."""
        num_envs, length, spec = self.agent.num_envs, self.agent.rollout_length, self.learner.spec
        first_hidden = self.learner.behaviour.hidden(self.agent, spec)
        keys = jax.random.split(key, (length, 2 * num_envs + 1))

        def one(at: Start, hidden: PyTree[Array], clock: Clock, act_key: Key[Array, ""], step_key: Key[Array, ""]):
            action, hidden, aux, source = self.learner.act(state.learner, hidden, at.observation, clock, act_key)
            environment = equinox.combine(at.task, self.environment)
            env_state, step = environment.step(at.env_state, spaces.clip(spec.action_space, action), step_key)
            experience = Experience(
                at.observation, action, step.reward, step.observation, step.terminated, step.truncated, source, aux
            )
            return Start(at.task, env_state, step.observation), hidden, experience

        def step(carry: tuple[Pool, Start, PyTree[Array]], inputs: tuple[Key[Array, " keys"], Int[Array, ""]]):
            pool, at, hidden = carry
            keys, time = inputs
            now = clock._replace(steps=clock.steps + time * num_envs)
            at, hidden, experience = jax.vmap(one, in_axes=(0, 0, None, 0, 0))(
                at, hidden, now, keys[:num_envs], keys[num_envs:-1]
            )
            ended = experience.ended
            pool, fresh = self.hand_out(state, pool, ended, keys[-1])
            hidden = select(ended, jax.tree.map(lambda x: x[None], first_hidden), hidden)
            return (pool, select(ended, fresh, at), hidden), experience

        pool = state.pool
        if self.tasks.adapts or self.starts.adapts:
            pool = pool._replace(used=jnp.int32(self.pool_size))
        carry = (pool, state.actors.at, state.actors.hidden)
        (pool, at, hidden), rollout = jax.lax.scan(step, carry, (keys, jnp.arange(length)))
        # Returns and lengths in bulk, as no step needs them: what was under way, and came in, and is not under way.
        ended, one_each = rollout.ended, jnp.ones(rollout.ended.shape, jnp.int32)
        episode_return = under_way(state.actors.episode_return, rollout.reward, ended)
        episode_length = under_way(state.actors.episode_length, one_each, ended)
        episodes = Episodes(
            ended.sum().astype(jnp.float32),
            (state.actors.episode_return + rollout.reward.sum(0) - episode_return).sum(0),
            (state.actors.episode_length + length - episode_length).sum().astype(jnp.float32),
        )
        return pool, Actors(at, hidden, episode_return, episode_length), episodes, rollout

    @property
    def pool_size(self) -> int:
        return max(self.agent.num_envs, 16)

    def hand_out(
        self, state: ExperimentState, pool: Pool, ended: Bool[Array, " env"], key: Key[Array, ""]
    ) -> tuple[Pool, Start]:
        """Returns the pool and one start for each environment; each start is handed out to one ended episode only."""
        count = ended.sum()

        def refill(pool: Pool) -> Pool:
            # The keys depend on the pool, or else XLA would make the starts outside the loop, at every step.
            keys = jax.random.split(jax.random.fold_in(key, pool.used), self.pool_size)
            return Pool(jax.vmap(functools.partial(self.new_start, state.tasks, state.starts))(keys), jnp.int32(0))

        # A loop of at most one turn rather than `cond`: under `vmap` over seeds a loop runs only while some seed
        # needs it, whereas both branches of a `cond` would run at every step.
        pool = jax.lax.while_loop(lambda pool: pool.used + count > self.pool_size, refill, pool)
        index = jnp.clip(pool.used + jnp.cumsum(ended) - 1, 0, self.pool_size - 1)
        return pool._replace(used=pool.used + count), jax.tree.map(lambda x: x[index], pool.starts)

    def iterate(self, state: ExperimentState, clock: Clock, report: Report) -> tuple[ExperimentState, Report]:
        """One turn of the loop: collect, remember, learn, and tell tasks and starts about it."""
        key, collect_key, learn_key, starts_key = jax.random.split(state.key, 4)
        pool, actors, episodes, rollout = self.collect(state, clock, collect_key)
        learner, metrics = self.learner.learn(state.learner, rollout, clock, learn_key)
        state = ExperimentState(
            key,
            learner,
            self.tasks.report(state.tasks, rollout),
            self.starts.report(state.starts, actors.at.env_state, rollout, starts_key),
            pool,
            actors,
        )
        weighted = {name: value * metrics["updates"] for name, value in metrics.items() if name != "updates"}
        report = report._replace(
            episodes=jax.tree.map(jnp.add, report.episodes, episodes),
            metrics=jax.tree.map(jnp.add, report.metrics, weighted | {"updates": metrics["updates"]}),
            environment_finite=report.environment_finite & finite((rollout.reward, rollout.next_observation)),
        )
        return state, report

    def empty_report(self, state: ExperimentState, clock: Clock) -> Report:
        """A report of nothing, to add to."""
        shapes = jax.eval_shape(lambda: self.learner.learn(state.learner, self.blank_rollout(state), clock, state.key))
        metrics = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes[1])
        episodes = Episodes(jnp.zeros(()), jnp.zeros(state.actors.episode_return.shape[1:]), jnp.zeros(()))
        return Report(episodes, metrics, jnp.bool_(True), jnp.bool_(True))

    def blank_rollout(self, state: ExperimentState) -> Experience:
        example = self.learner.example(state.learner.agent, state.learner.behaviour)
        shape = (self.agent.rollout_length, self.agent.num_envs)
        return jax.tree.map(lambda x: jnp.zeros(shape + x.shape, x.dtype), example)

    def evaluate(
        self, state: LearnerState, key: Key[Array, ""], episodes: int, max_steps: int
    ) -> tuple[Float[Array, "episode *objectives"], Int[Array, " episode"]]:
        """Plays fresh episodes with the evaluation policy, apart from training. Returns their returns and lengths.

        An episode that has not ended after `max_steps` counts as it stands.
        """
        start_key, tasks_key, key = jax.random.split(key, 3)
        tasks_state = self.tasks.init(tasks_key, self.environment)

        def begin(key: Key[Array, ""]) -> Start:
            task_key, reset_key = jax.random.split(key)
            task = self.tasks.next(tasks_state, self.environment, task_key)
            return Start(task, *equinox.combine(task, self.environment).reset(reset_key))

        at = jax.vmap(begin)(jax.random.split(start_key, episodes))
        hidden = self.agent.hidden(self.learner.spec)
        hidden = jax.tree.map(lambda x: jnp.broadcast_to(x, (episodes, *x.shape)), hidden)

        def one(at: Start, hidden: PyTree[Array], key: Key[Array, ""]):
            act_key, step_key = jax.random.split(key)
            action, hidden, _ = self.agent.act(state.agent, hidden, at.observation, act_key, explore=False)
            action = spaces.clip(self.learner.spec.action_space, action)
            env_state, step = equinox.combine(at.task, self.environment).step(at.env_state, action, step_key)
            return Start(at.task, env_state, step.observation), hidden, step

        def step(carry):
            time, at, hidden, running, total, length = carry
            keys = jax.random.split(jax.random.fold_in(key, time), episodes)
            at, hidden, step = jax.vmap(one)(at, hidden, keys)
            total = total + select(running, step.reward, 0)
            return time + 1, at, hidden, running & ~(step.terminated | step.truncated), total, length + running

        objectives = len(self.learner.spec.reward_names)
        total = jnp.zeros((episodes, objectives) if objectives else (episodes,))
        carry = (jnp.int32(0), at, hidden, jnp.ones(episodes, bool), total, jnp.zeros(episodes, jnp.int32))
        carry = jax.lax.while_loop(lambda carry: carry[3].any() & (carry[0] < max_steps), step, carry)
        return carry[4], carry[5]


def select(ended: Bool[Array, " env"], yes: PyTree[Array], no: PyTree[Array]) -> PyTree[Array]:
    """`where`, leaf by leaf, over the leading axis. Zero may stand for either tree."""
    if isinstance(yes, int):
        return select(~ended, no, yes)
    if isinstance(no, int):
        no = jax.tree.map(jnp.zeros_like, yes)

    def leaf(yes: Array, no: Array) -> Array:
        return jnp.where(ended.reshape(ended.shape + (1,) * (no.ndim - 1)), yes, no)

    return jax.tree.map(leaf, yes, no)


def under_way(
    before: Float[Array, "env *objectives"], new: Float[Array, "time env *objectives"], ended: Bool[Array, "time env"]
) -> Float[Array, "env *objectives"]:
    """What has been summed of the episodes that are not over: `new` since each one's start, and `before` if earlier."""
    later = jnp.flip(jnp.cumsum(jnp.flip(ended, 0), 0), 0)  # ends at this step or after it
    extra = (1,) * (new.ndim - 2)
    total = jnp.where((later == 0).reshape(later.shape + extra), new, 0).sum(0)
    return total + jnp.where((later[0] == 0).reshape(later.shape[1:] + extra), before, 0)


def finite(tree: PyTree[Array]) -> Bool[Array, ""]:
    """Whether every floating-point number in `tree` is finite."""
    flags = [jnp.isfinite(x).all() for x in jax.tree.leaves(tree) if jnp.issubdtype(x.dtype, jnp.floating)]
    return jnp.stack(flags).all() if flags else jnp.bool_(True)


def advance(
    varied: Varied, state: ExperimentState, clock: Clock, iterations: Int[Array, ""]
) -> tuple[ExperimentState, Clock, Report]:
    """Runs `iterations` turns of the loop for every seed (leaves `seed ...`). One compilation serves any number."""

    def turn(_: Int[Array, ""], carry: tuple[ExperimentState, Clock, Report]):
        state, clock, report = carry
        # The clock stays outside the `vmap`: what depends on it alone is computed once for all seeds.
        state, report = over_seeds(varied, lambda e, state, report: e.iterate(state, clock, report), state, report)
        return state, clock._replace(steps=clock.steps + varied.steps_per_iteration), report

    report = over_seeds(varied, lambda e, state: e.empty_report(state, clock), state)
    state, clock, report = jax.lax.fori_loop(0, iterations, turn, (state, clock, report))
    updates = jnp.maximum(report.metrics["updates"], 1)
    metrics = {name: v if name == "updates" else v / updates for name, v in report.metrics.items()}
    return state, clock, report._replace(metrics=metrics, agent_finite=jax.vmap(finite)(state.learner.agent))


class Varied(equinox.Module):
    """An experiment whose `members` leaves (`seed ...`, `None` elsewhere) differ from seed to seed."""

    common: Experiment
    members: PyTree[Array | None]

    @property
    def steps_per_iteration(self) -> int:
        return self.common.steps_per_iteration


def over_seeds(varied: Varied, function: Any, *arguments: Any) -> Any:
    """Maps `function(experiment, *arguments)` over seeds; batches only those leaves that differ."""
    return jax.vmap(lambda member, *rest: function(equinox.combine(member, varied.common), *rest))(
        varied.members, *arguments
    )


class DeviceRoad:
    """Runs an experiment's seeds on this machine's devices, as many seeds on each.

    On CPU there may be a device for every seed (`jax_num_cpu_devices`), which keeps all cores busy
    with programs that are each as quick as a single seed's.
    """

    def __init__(self, varied: Varied, seeds: list[int], total_steps: int):
        self.varied = varied
        self.seeds = seeds
        self.total_steps = total_steps
        self.steps_per_iteration = varied.steps_per_iteration
        devices = jax.local_devices()
        count = max(n for n in range(1, len(devices) + 1) if len(seeds) % n == 0)
        self.mesh = jax.sharding.Mesh(np.array(devices[:count]), ("seed",))
        self.steps = 0
        self.state: ExperimentState | None = None
        self._keys = jax.vmap(prng.key)(jnp.array(seeds))
        self._advance = self._compile(advance, (True, False, False), (True, False, True), donate=True)
        self._evaluations: dict[tuple[int, int], Any] = {}

    def _compile(
        self, function: Any, inputs: tuple[bool, ...], outputs: Any, donate: bool = False, once: bool = False
    ) -> Any:
        """Jits `function(varied, *inputs) -> outputs`; `True` marks what has a seed axis, which devices share out.

        What runs `once` is compiled quickly rather than well.
        """

        def place(split: bool) -> Any:
            return P("seed") if split else P()

        tree = Varied(P(), P("seed"))  # type: ignore[arg-type]  # a prefix of the pytree
        mapped = jax.shard_map(
            function,
            mesh=self.mesh,
            in_specs=(tree, *map(place, inputs)),
            out_specs=jax.tree.map(place, outputs),
            check_vma=False,
        )
        # In order: the pieces of an update are too small to be worth waking another thread for.
        options: dict[str, Any] = {"xla_cpu_enable_concurrency_optimized_scheduler": False}
        if once:
            options["xla_backend_optimization_level"] = 0
        return jax.jit(mapped, donate_argnums=(1,) if donate else (), compiler_options=options)

    def _init(self, varied: Varied, keys: Key[Array, " seed"]) -> ExperimentState:
        return over_seeds(varied, lambda e, key: e.init(key), keys)

    def begin(self) -> None:
        """Makes the first state of every seed."""
        self.state = self._compile(self._init, (True,), True, once=True)(self.varied, self._keys)

    def advance(self, iterations: int) -> Report:
        """Takes `iterations` turns of the loop. Returns the report of every seed (leaves `seed ...`)."""
        clock = Clock(np.int32(self.steps), np.float32(self.total_steps))  # type: ignore[arg-type]
        self.state, _, report = self._advance(self.varied, self.state, clock, np.int32(iterations))
        report = jax.device_get(report)
        self.steps += iterations * self.steps_per_iteration
        return report

    def evaluate(self, episodes: int, max_steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Plays `episodes` evaluation episodes for every seed. Returns returns `seed episode ...` and lengths."""

        def run(varied: Varied, learner: LearnerState, keys: Key[Array, " seed"]) -> Any:
            return over_seeds(varied, lambda e, state, key: e.evaluate(state, key, episodes, max_steps), learner, keys)

        if (episodes, max_steps) not in self._evaluations:
            self._evaluations[episodes, max_steps] = self._compile(run, (True, True), (True, True))
        keys = jax.vmap(lambda key: jax.random.fold_in(key, seed))(self._keys)
        return jax.device_get(self._evaluations[episodes, max_steps](self.varied, self.state.learner, keys))

    @property
    def exact(self) -> bool:
        """A resumed run continues as if never stopped."""
        return True

    def agent_states(self) -> PyTree[Array]:
        """The agents' states, leaves `seed ...`."""
        assert self.state is not None
        return self.state.learner.agent

    def shapes(self) -> ExperimentState:
        """The shapes and dtypes of `state`."""
        return jax.eval_shape(self._init, self.varied, self._keys)

    def restore(self, state: ExperimentState, steps: int) -> None:
        """Continues from a saved state."""
        self.state = jax.device_put(state, jax.sharding.NamedSharding(self.mesh, P("seed")))
        self.steps = steps


def vary(experiment: Experiment, values: dict[str, Array]) -> Varied:
    """Gives seeds their own values (`seed ...`) of fields named by dotted path, such as `learner.agent.discount`."""
    members = jax.tree.map(lambda _: None, experiment)
    for path, value in values.items():

        def where(tree: Any, path: str = path) -> Any:
            return functools.reduce(getattr, path.split("."), tree)

        members = equinox.tree_at(where, members, value, is_leaf=lambda x: x is None)
    return Varied(experiment, members)
