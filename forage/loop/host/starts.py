"""Starts and tasks on the host.

A state is a ticket for what the simulator saved, and starts parts keep tickets. A task is one of the environment's
numbered beginnings, and may have a hint.
"""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any, NamedTuple

import equinox
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import prng, spaces, team
from forage.core.compiling import QUICK, jit_shared, kind, known_options
from forage.core.host import HostEnvironment, HostStep
from forage.core.ports import Environment, RolloutReport, RolloutStates, Starts, Tasks, ValueEstimates
from forage.core.schedule import at_fraction
from forage.core.storage import packing
from forage.core.types import Clock, Experience, ForageError, Spec, Step

LIMITS = ("turns", "context", "response")
"""Limits of an episode that tasks may lower."""
FRESH = -1
"""The number of the ticket for a reset."""


class Ticket(NamedTuple):
    """Stands for a state of a simulator."""

    number: Int[Array, "*shape"]
    place: Int[Array, "*shape"]  # on the environment's map
    seed: Int[Array, "*shape"] | tuple[()] = ()  # of a reset that can be repeated
    prefix: Int[Array, "*shape time"] | tuple[()] = ()  # tokens that the next answer begins with, padded behind


Seen = tuple[Ticket, Bool[np.ndarray, " env"]]
"""The states after a step: tickets, and the mask of episodes that are gone."""


class HostedEnvironment(Environment):
    """An environment on the host as parts see it: spaces, a map, numbers, and resets to a fresh ticket.

    A task is shaped like it: it may set `number`, `hint` where the environment gives hints, and limits of an episode;
    the rest is `None`.
    """

    spec: Spec = equinox.field(static=True)
    map: tuple[int, ...] | None = equinox.field(static=True, default=None)
    seeded: bool = equinox.field(static=True, default=False)  # tickets for a reset say with which seed
    num_starts: int = equinox.field(static=True, default=0)  # how many beginnings there are to choose among
    hints: float = equinox.field(static=True, default=0.0)  # the largest share of a solution that can be given away
    max_answer_tokens: int = equinox.field(
        static=True, default=0
    )  # tokens that an answer may begin with; 0: tickets hold none
    difficulty: Float[Array, " number"] | tuple[()] = ()  # of each beginning, from 0 to 1
    kinds: Int[Array, " number"] | tuple[()] = ()  # of each, from 0
    lengths: Int[Array, " number"] | tuple[()] = ()  # tokens of the prompt of each, for tasks with `reads_prompts`
    number: Int[Array, ""] | tuple[()] = ()  # which of them an episode begins with
    hint: Float[Array, ""] | tuple[()] = ()  # the share of its solution that is given away
    turns: Int[Array, ""] | tuple[()] = ()  # the largest number of texts that the policy writes in an episode
    context: Int[Array, ""] | tuple[()] = ()  # of tokens that later turns read
    response: Int[Array, ""] | tuple[()] = ()  # of tokens of an answer
    slot: Int[Array, ""] | tuple[()] = ()  # in `next`: how many groups began since the tasks learned; in `report`: all

    @classmethod
    def from_environment(
        cls,
        environment: HostEnvironment,
        spec: Spec,
        seeded: bool = False,
        tasks: Tasks | None = None,
        heeds: bool = False,
    ) -> HostedEnvironment:
        """Return an environment on the host as parts see it: with its numbers only if `tasks` choose among them, and
        with the beginnings of answers only if starts use written tokens.
        """
        written = environment.max_answer_tokens if heeds else 0
        if tasks is None:
            return cls(spec, environment.map_shape, seeded, max_answer_tokens=written)
        difficulty: Any = np.asarray(environment.difficulty, np.float32)
        numbers: Any = {"number": np.int32(0), "hint": np.float32(0), "slot": np.int32(0)}
        numbers |= {"num_starts": environment.num_starts, "hints": environment.hints}
        numbers |= {"kinds": environment.kinds}
        numbers |= {"lengths": environment.prompt_lengths} if tasks.reads_prompts else {}
        numbers |= {name: np.int32(most) for name, most in environment.limits.items()}
        return cls(spec, environment.map_shape, True, max_answer_tokens=written, difficulty=difficulty, **numbers)

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        return self.spec.observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        return self.spec.action_space

    @property
    def reward_names(self) -> tuple[str, ...]:
        return self.spec.reward_names

    @property
    def num_agents(self) -> int:
        return self.spec.num_agents

    @property
    def horizon(self) -> int | None:
        return self.spec.horizon

    @property
    def map_shape(self) -> tuple[int, ...] | None:
        return self.map

    def map_position(self, state: Ticket) -> Int[Array, ""]:
        return state.place

    def stored_observation(self, observation: PyTree[Array]) -> tuple[()]:
        return ()

    def reset(self, key: Key[Array, ""]) -> tuple[Ticket, PyTree[Array]]:
        seen = team.repeat(spaces.example(self.observation_space), self.num_agents)
        seed = jax.random.randint(key, (), 0, jnp.iinfo(jnp.int32).max) if self.seeded else ()
        prefix = jnp.zeros(self.max_answer_tokens, jnp.int32) if self.max_answer_tokens else ()
        return Ticket(jnp.int32(FRESH), jnp.int32(0), seed, prefix), seen

    def step(self, state: Ticket, action: PyTree[Array], key: Key[Array, ""]) -> tuple[Ticket, Step]:
        raise ForageError("What runs on the host cannot be stepped by a starts part; use one that only goes back.")


class TasksState(NamedTuple):
    """The checkpointed state of tasks. Its leaves are those that a task sets."""

    part: Any
    key: Key[Array, ""]  # of the run; that of each group is folded from it
    group: Int[Array, ""]  # the number of the newest group, which may still be filled
    newest: PyTree[Array | None]  # its task
    current: PyTree[Array | None]  # of the episodes under way, leaves `env ...`
    first: Int[Array, ""]  # the first group that began since the part learned


class HostStartsState(NamedTuple):
    """The checkpointed state of starts, without the simulator's states."""

    part: Any
    start_ids: PyTree[Array]  # of the episodes under way, leaves `env ...`
    next: np.ndarray  # the number of the next ticket
    key: Key[Array, ""]
    begun: np.ndarray  # episodes that began so far
    tasks: TasksState | tuple[()] = ()  # where tasks choose among numbered beginnings


def begin_tickets(
    part: Starts,
    state: Any,
    world: HostedEnvironment,
    key: Key[Array, ""],
    index: Int[Array, " env"],
    task: PyTree[Array] = None,
) -> tuple[Key[Array, ""], Ticket, PyTree[Array]]:
    key, begin_key = jax.random.split(key)
    keys = jax.random.split(begin_key, index.size)

    def one(key: Key[Array, ""], index: Int[Array, ""], task: PyTree[Array]) -> Any:
        return part.begin(state, world if task is None else equinox.combine(task, world), key, index)

    ticket, _, start_id = jax.vmap(one)(keys, index, task)
    return key, ticket, start_id


def draw_tasks(
    part: Tasks,
    state: TasksState,
    world: HostedEnvironment,
    index: Int[Array, " env"],
    over: Bool[Array, " env"],
    size: int,
) -> TasksState:
    """Draw the tasks of the episodes that begin where one is `over`: one for each group of `size`.

    A group that was begun before the part learned, and is not full yet, keeps its task.
    """
    group = index // size

    def one(group: Int[Array, ""]) -> PyTree[Array | None]:
        asked = dataclasses.replace(world, slot=group - state.first)
        return part.next(state.part, asked, jax.random.fold_in(state.key, group))

    def select_rows(condition: Bool[Array, " env"], yes: Array, no: Array) -> Array:
        return jnp.where(condition.reshape(-1, *[1] * (no.ndim - 1)), yes, no)

    drawn = jax.tree.map(lambda kept, x: select_rows(group == state.group, kept, x), state.newest, jax.vmap(one)(group))
    current = jax.tree.map(lambda new, old: select_rows(over, new, old), drawn, state.current)
    last = jnp.argmax(jnp.where(over, index, -1))
    newest = jax.tree.map(lambda x: x[last], drawn)
    return state._replace(group=group[last], newest=newest, current=current)


def report(
    part: Starts,
    state: Any,
    world: HostedEnvironment,
    rollout: Experience,
    visited: RolloutStates,
    clock: Clock,
    key: Key[Array, ""],
    estimates: ValueEstimates | None,
) -> tuple[Key[Array, ""], Any]:
    key, report_key = jax.random.split(key)
    return key, part.report(state, rollout, RolloutReport(world, visited, clock, report_key, estimates))


def teach_tasks(
    part: Tasks,
    state: Any,
    world: HostedEnvironment,
    rollout: Experience,
    visited: RolloutStates,
    clock: Clock,
    key: Key[Array, ""],
    estimates: ValueEstimates | None,
) -> Any:
    """Return the state of tasks after they learned from a rollout. `key`: the same as in `report`."""
    _, report_key = jax.random.split(key)
    review = RolloutReport(world, visited, clock, jax.random.fold_in(report_key, prng.TASKS), estimates)
    return part.report(state, rollout, review)


def call_on_step(part: Starts, state: Any, action: PyTree[Array], policy_info: PyTree[Array], reward: Array) -> Any:
    return part.on_step(state, action, policy_info, reward)


def onward(part: Starts, reward: Float[Array, " env"]) -> Int[Array, " env"]:
    return part.source_environments(reward)


def cut(part: Starts, start_ids: PyTree[Array], lengths: Int[Array, " env"]) -> Bool[Array, " env"]:
    return jax.vmap(part.cut)(start_ids, lengths)


class HostStarts:
    """Starts episodes at states chosen by one part and with tasks chosen by another, in the environments of one seed.

    What the part would keep of a state is its ticket. A state is saved when its ticket is made; once a rollout was
    reported, those whose tickets are nowhere in the part's state are forgotten, and the others are compressed.

    Tasks that adapt learn from a rollout before the episodes after it begin, so that these are of what was learned.
    """

    def __init__(self, part: Starts, environment: HostEnvironment, spec: Spec, seed: int, tasks: Tasks | None = None):
        self.part, self.tasks, self.environment = part, tasks, environment
        self.now, self.tasks_now = (
            at_fraction(part, 0.0),
            at_fraction(tasks, 0.0),
        )  # the parts as they are in this rollout
        self.world = HostedEnvironment.from_environment(environment, spec, part.repeats, tasks, part.follows_steps)
        self.anew = part.repeats or tasks is not None  # a reset is one that this class asks for
        self.size = max(part.group, 1)
        same = kind((part, tasks, self.world))
        self.begin = jit_shared(same, begin_tickets)
        self.reported, self.cut = jit_shared(same, report, donate_argnums=1), jit_shared(same, cut)
        self.drawn, self.studied = jit_shared(same, draw_tasks, static_argnums=5), jit_shared(same, teach_tasks)
        self.heeded, self.joined = jit_shared(same, call_on_step), jit_shared(same, onward)
        self.num_envs = environment.num_envs
        self.seed, self.order = int(seed), (-1, np.zeros(0, int))  # of the run; a pass, and the order of it
        self.saved: dict[int, bytes] = {}
        self.state: HostStartsState = jax.jit(self.initial, compiler_options=known_options(QUICK))(prng.key(seed))
        self.seen: list[Seen] = []
        self.start_ids: list[PyTree[np.ndarray]] = []  # of the episode that each step belongs to
        self.played: list[PyTree[np.ndarray]] = []  # the task of that episode
        self.waiting: tuple[Any, Any] | None = None  # what `begin_anew` is told once the tasks have learned

    @property
    def needs_estimates(self) -> bool:
        """Return whether a part needs the agent's estimates of each rollout."""
        return self.part.needs_estimates or (self.tasks is not None and self.tasks.needs_estimates)

    def initial(self, key: Key[Array, ""]) -> HostStartsState:
        tasks = self.initial_tasks(jax.random.fold_in(key, prng.TASKS))
        key, part_key = jax.random.split(jax.random.fold_in(key, prng.STARTS))
        part = self.now.init(part_key, self.world, self.world.spec, self.num_envs)
        task = tasks.current if isinstance(tasks, TasksState) else None
        key, _, start_ids = begin_tickets(self.now, part, self.world, key, jnp.arange(self.num_envs), task)
        begun = 0 if self.anew else self.num_envs
        return HostStartsState(part, start_ids, jnp.int32(0), key, jnp.int32(begun), tasks)  # type: ignore[arg-type]

    def initial_tasks(self, key: Key[Array, ""]) -> TasksState | tuple[()]:
        if self.tasks_now is None:
            return ()
        key, part_key = jax.random.split(key)
        part = self.tasks_now.init(part_key, self.world)
        example = jax.tree.map(jnp.asarray, self.tasks_now.next(part, self.world, key))
        current = jax.tree.map(lambda x: jnp.broadcast_to(x, (self.num_envs, *x.shape)), example)
        return TasksState(part, key, jnp.int32(-1), example, current, jnp.int32(0))

    def first(self, observation: PyTree[np.ndarray]) -> PyTree[np.ndarray]:
        """Return the first observations of a run, in place of those of the environments' own reset."""
        every = np.ones(self.num_envs, bool)
        return self.begin_anew(observation, every, ~every) if self.anew else observation

    def restore(self, state: HostStartsState, saved: bytes) -> None:
        self.state, self.waiting = state, None
        self.saved = split_states(saved)

    def follow(self, clock: Clock) -> None:
        """Put the numbers of this moment in place of the parts' schedules."""
        self.now, self.tasks_now = at_fraction(self.part, clock.fraction), at_fraction(self.tasks, clock.fraction)

    def dump(self) -> bytes:
        """Return the simulator's states, for a checkpoint."""
        return join_states(self.saved)

    def after_step(
        self,
        result: HostStep,
        age: Int[np.ndarray, " env"],
        action: PyTree[Array] = (),
        policy_info: PyTree[Array] = (),
        last: bool = False,
    ) -> HostStep:
        """Truncate episodes, then restart those that ended. `age`: steps before this one.

        `action` and `policy_info` are the agent's, for a part with `on_step`. After the `last` step of a rollout,
        episodes begin in `restart_waiting` if the tasks adapt.
        """
        step = result.step
        told = team.as_one(step, self.world.num_agents)
        self.start_ids.append(jax.tree.map(np.asarray, self.state.start_ids))
        if isinstance(self.state.tasks, TasksState):
            self.played.append(jax.tree.map(np.asarray, self.state.tasks.current))
        over = np.asarray(told.terminated | told.truncated)
        cuts = np.zeros(self.num_envs, bool)
        if self.part.cuts:
            cuts = ~over & np.asarray(self.cut(self.now, self.state.start_ids, age + 1))
        if self.part.every_state:
            self.seen.append(self.make_tickets(over, self.environment.map_position))
        if cuts.any():
            step = step._replace(truncated=team.truncate_teams(step, cuts))
        if self.part.follows_steps:
            self.state = self.state._replace(
                part=self.heeded(self.now, self.state.part, action, policy_info, told.reward)
            )
        observation = result.observation
        if self.part.joins:
            observation = self.join(observation, np.where(over | cuts, -np.inf, told.reward).astype(np.float32))
        if last and self.tasks is not None and self.tasks.adapts:
            self.waiting = over | cuts, cuts
            return HostStep(step, observation)
        return HostStep(step, self.begin_anew(observation, over | cuts, cuts))

    def join(self, observation: PyTree[np.ndarray], reward: Float[np.ndarray, " env"]) -> PyTree[np.ndarray]:
        """Return the observations after episodes moved to the part's chosen states; `reward`: -inf for ended
        episodes.
        """
        source, there = np.asarray(self.joined(self.now, reward)), reward > -np.inf
        moved = np.flatnonzero(there & there[source] & (source != np.arange(len(source))))
        states = {index: self.environment.take(index) for index in set(source[moved].tolist())}
        observation = jax.tree.map(np.copy, observation) if moved.size else observation
        for index in moved.tolist():
            state = states[int(source[index])]
            if state is None:  # it is lost, and the episode stays where it is
                continue
            seen = self.environment.put(index, state)
            for batch, one in zip(jax.tree.leaves(observation), jax.tree.leaves(seen), strict=True):
                batch[index] = one
        return observation

    def restart_waiting(self, observation: PyTree[np.ndarray]) -> PyTree[np.ndarray]:
        """Return the observations after the start of the episodes that waited for the tasks to learn."""
        waiting, self.waiting = self.waiting, None
        return observation if waiting is None else self.begin_anew(observation, *waiting)

    def make_tickets(self, gone: Bool[np.ndarray, " env"], place: Int[np.ndarray, " env"]) -> Seen:
        """Return tickets for the current states of the environments, except those whose episode is gone already."""
        if not self.environment.returns:  # nothing but resets is asked for there
            gone = np.ones_like(gone)
        first, gone = int(self.state.next), np.array(gone)
        for index in np.flatnonzero(~gone).tolist():
            state = self.environment.take(index)
            if state is None:
                gone[index] = True
            else:
                self.saved[first + index] = state
        number = np.where(gone, FRESH, first + np.arange(self.num_envs)).astype(np.int32)
        self.state = self.state._replace(next=np.int32(first + self.num_envs))  # pyrefly: ignore[bad-argument-type]
        seed = np.zeros_like(number) if self.world.seeded else ()
        prefix = np.zeros((len(number), self.world.max_answer_tokens), np.int32) if self.world.max_answer_tokens else ()
        return Ticket(number, place, seed, prefix), gone  # type: ignore[arg-type]

    def begin_anew(
        self, observation: PyTree[np.ndarray], over: Bool[np.ndarray, " env"], stands: Bool[np.ndarray, " env"]
    ) -> PyTree[np.ndarray]:
        """Begin the episodes in place of those that are `over`. Where one still `stands`, no reset came yet."""
        self.waiting = None
        if not over.any():
            return observation
        index = np.asarray(self.state.begun + np.cumsum(over) - 1, np.int32)  # where `over`; of the rest not used
        tasks = self.state.tasks
        if isinstance(tasks, TasksState):
            tasks = self.drawn(self.tasks_now, tasks, self.world, index, over, self.size)
        task: Any = tasks.current if isinstance(tasks, TasksState) else None
        key, ticket, start_ids = self.begin(self.now, self.state.part, self.world, self.state.key, index, task)
        ticket, start_ids, task = jax.device_get((ticket, start_ids, task))
        observation = jax.tree.map(np.copy, observation)
        groups = index // self.size
        for index in np.flatnonzero(over).tolist():
            number = int(ticket.number[index])
            if number == FRESH and not (stands[index] or self.anew):
                continue
            if number == FRESH and task is not None:
                seen = self.begin_task(index, int(ticket.seed[index]), task, int(groups[index]))
            elif number == FRESH and self.anew:
                seen = self.environment.begin(index, int(ticket.seed[index]), self.number_in_pass(int(groups[index])))
            else:
                seen = self.environment.put(index, None if number == FRESH else unpack_state(self.saved[number]))
            if self.world.max_answer_tokens and np.any(ticket.prefix[index]):
                seen = self.environment.branch(index, np.asarray(ticket.prefix[index]))
            for batch, one in zip(jax.tree.leaves(observation), jax.tree.leaves(seen), strict=True):
                batch[index] = one
        start_ids = jax.tree.map(
            lambda new, old: np.where(over.reshape(-1, *[1] * (new.ndim - 1)), new, old),
            start_ids,
            self.state.start_ids,
        )
        begun = np.int32(self.state.begun + over.sum())
        self.state = self.state._replace(key=key, start_ids=start_ids, begun=begun, tasks=tasks)  # pyrefly: ignore[bad-argument-type]
        return observation

    def number_in_pass(self, group: int) -> int | None:
        """Return the number of a group's beginning where these are played in passes, each in an order by the seed."""
        count = self.environment.pass_length
        if not count:
            return None
        turn, place = divmod(group, count)
        if (turn, count) != (self.order[0], len(self.order[1])):
            self.order = turn, np.random.default_rng([self.seed, turn]).permutation(count)
        return int(self.order[1][place])

    def begin_task(self, index: int, seed: int, tasks: Any, group: int) -> PyTree[np.ndarray]:
        """Begin an episode of a group with its task (leaves `env ...`), and return its first observation."""
        task = jax.tree.map(lambda x: x[index], tasks)
        limits = {name: getattr(task, name) for name in LIMITS if name in self.environment.limits}
        lowered = {name: int(value) for name, value in limits.items() if value is not None}
        if lowered:
            self.environment.limit(index, lowered)
        number = self.number_in_pass(group) if task.number is None else int(task.number)
        hint = 0.0 if task.hint is None else round(float(task.hint), 6)
        return self.environment.begin(index, seed, number, hint)

    def report(
        self,
        rollout: Experience,
        clock: Clock,
        fresh: Bool[np.ndarray, " env"],
        estimates: ValueEstimates | None = None,
    ) -> None:
        """Report a rollout (leaves `time env ...`) to the parts, and forget the states that starts do not store.

        `fresh`: where its first step began an episode, also because the one before was lost.
        `estimates`: the agent's, for a part with `needs_estimates`.
        """
        if not self.part.every_state:
            self.seen = [self.make_tickets(np.asarray(rollout.ended[-1]), np.zeros(self.num_envs, np.int32))]
        env_states, gone = jax.tree.map(lambda *x: np.stack(x), *self.seen)
        start_ids = jax.tree.map(lambda *x: np.stack(x), *self.start_ids)
        played = jax.tree.map(lambda *x: np.stack(x), *self.played) if self.played else None
        visited = RolloutStates(env_states, start_ids, gone, fresh, played)  # type: ignore[arg-type]
        self.seen, self.start_ids, self.played = [], [], []
        state = self.state
        if isinstance(tasks := state.tasks, TasksState):
            groups: Any = np.int32(tasks.group) + 1
            world = dataclasses.replace(self.world, slot=groups - np.int32(tasks.first))
            learned = self.studied(self.tasks_now, tasks.part, world, rollout, visited, clock, state.key, estimates)
            first: Any = np.int32(-(-int(state.begun) // self.size))
            self.state = state = state._replace(tasks=tasks._replace(part=learned, first=first))
        key, part = self.reported(self.now, state.part, self.world, rollout, visited, clock, state.key, estimates)
        self.state = self.state._replace(part=part, key=key)
        tickets = jax.tree.leaves(part, is_leaf=lambda x: isinstance(x, Ticket))
        held = [np.asarray(x.number).ravel() for x in tickets if isinstance(x, Ticket)]
        held = np.unique(np.concatenate(held)) if held else []
        self.saved = {n: pack_state(self.saved[n]) for n in map(int, held) if n != FRESH}


ZLIB = b"\x78\x01"
"""The first bytes of a compressed state; a pickle and a zip archive begin differently."""


def join_states(states: dict[int, bytes]) -> bytes:
    """Return the states in one piece: how many, their numbers, their lengths, and then themselves."""
    head = [len(states), *states, *map(len, states.values())]
    return np.array(head, "<i8").tobytes() + b"".join(states.values())


def split_states(data: bytes) -> dict[int, bytes]:
    """Invert `join_states`, without running any code. Raise `ForageError` for other data."""
    if not data:
        return {}
    count = int(np.frombuffer(data, "<i8", 1)[0]) if len(data) >= 8 else -1
    begin = 8 * (1 + 2 * count)
    if count < 0 or len(data) < begin:
        raise ForageError("The simulator's states in this checkpoint cannot be read; another version wrote them.")
    head = np.frombuffer(data, "<i8", 2 * count, 8)
    ends = begin + np.cumsum(head[count:])
    if (head[count:] < 0).any() or (int(ends[-1]) if count else begin) != len(data):
        raise ForageError("The simulator's states in this checkpoint cannot be read; another version wrote them.")
    starts = [begin, *ends[:-1].tolist()]
    return {int(n): data[a:b] for n, a, b in zip(head[:count], starts, ends.tolist(), strict=False)}


def pack_state(state: bytes) -> bytes:
    return state if state.startswith(ZLIB) else zlib.compress(state, 1)


def unpack_state(state: bytes) -> bytes:
    return packing.inflate(state) if state.startswith(ZLIB) else state
