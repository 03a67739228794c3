"""The predicted speed of a run on other numbers of cores, computed from pieces that are measured here.

A run with environments on the host proceeds in turns. In each turn actions are chosen for all environments, each worker
receives a message, steps its environments one after the other, and answers; after `rollout_length` turns the agent
learns. Workers queue for the first process, which sends and receives one message after the other, so a turn takes

    act + max over workers w of (sent_w + wait + steps of w's environments + answered after w) + keep

Times of steps are drawn from the measured ones, as a turn waits for the slowest of many, and are scaled by the slowdown
measured here when every core steps. On one core there are no workers, and a turn is as measured. A run of native
environments is one program for each seed, with a core for each seed. No number is fitted: `benchmarks/plan.py` compares
predictions for this machine's cores with measurements.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from forage.config.resolve import resolve
from forage.config.run_config import RunConfig
from forage.core import prng, spaces
from forage.core.errors import ForageError
from forage.core.host import HostEnvironment
from forage.core.mesh import ONE, parse_mesh, prepare_devices
from forage.loop.cluster.pool import Pool, check_sent
from forage.loop.device.runner import DeviceRunner
from forage.loop.host.runner import HostRunner
from forage.loop.runner import time_shares
from forage.runs import capacity
from forage.runs.training import check_devices

TURNS = 400  # that are drawn for each prediction
SECONDS = 2.0  # that each piece is measured for
ROLLOUTS = 3  # at least, of each run that is measured
MOST = 8  # processes that step at once
LONG = 2_000_000_000  # steps of a run that never ends


class Pieces(NamedTuple):
    """The times of a run on the host, in seconds."""

    num_envs: int  # of the run as it was asked for
    rollout_length: int
    act: tuple[float, float]  # of one turn: fixed, and for each environment
    keep: tuple[float, float]  # likewise, with what brings actions to the host
    learn: tuple[float, float]  # after a rollout, by environments likewise
    alone: tuple[float, float, float, float]  # all three and steps, with `num_envs` where everything shares one core
    overlaps: bool  # it learns while environments step
    steps: Float[np.ndarray, " step"]  # of a batch of one environment, as they were measured
    once: float  # of such a step, what a larger batch takes once
    beside: float  # what a larger batch adds to an environment's own step, for each
    crowded: float  # how many times as long a step takes while all cores step
    message: float  # that the first process needs to send to and hear from one worker
    wait: float  # until a worker that is told has begun, and is heard when it is done


class Prediction(NamedTuple):
    """The predicted speed on a number of cores, and the shares of a turn's time."""

    cores: int
    workers: int  # 0: the first process steps
    num_envs: int
    speed: float  # steps of environments a second
    shares: dict[str, float]


def plan(
    agent: str,
    environment: Any,
    cores: list[int],
    agent_options: dict[str, Any] | None = None,
    environment_options: dict[str, Any] | None = None,
    seeds: int = 1,
    data: str | None = None,
) -> list[Prediction]:
    """Predict the speed of a run on each number of cores. On the host its environments are at least as many as cores.

    A run that learns from a file of `data` has no environment steps, and its speed is of updates. Raise `ForageError`
    for fewer cores than one.
    """
    if not cores or min(cores) < 1:
        raise ForageError(f"A run is on 1 core or more, not {min(cores, default=0)}.")
    options = dict(agent_options or {})
    setup = resolve(
        agent,
        environment,
        steps=LONG,
        seeds=seeds,
        agent_options=options,
        environment_options=environment_options,
        data=data,
    )
    if setup.on_device:
        alone = native_speed(setup)
        return [of_seeds(alone, seeds, each) for each in cores]
    pieces = measure_pieces(setup, functools.partial(with_envs, agent, environment, options, environment_options))
    return [predict(pieces, each) for each in cores]


def memory_of(
    agent: str,
    environment: Any,
    agent_options: dict[str, Any] | None = None,
    environment_options: dict[str, Any] | None = None,
    seeds: int = 1,
    mesh: str | None = None,
    data: str | None = None,
) -> dict[str, int]:
    """Predict the bytes of a run of a language agent by their use, with `peak` and `free`.

    `response` is there where the default number of an answer's tokens would not fit: the number that does.

    `mesh`: of the devices that share its model; the bytes are those of each of them. Nothing is allocated, and no
    weights are read but for their sizes. Raise `ForageError` if the run will not fit.
    """
    shape = ONE if mesh is None else parse_mesh(mesh)
    prepare_devices(1, shape)

    def configure(**own: Any) -> RunConfig:
        options = {**(environment_options or {}), **own}
        return resolve(
            agent,
            environment,
            steps=LONG,
            seeds=seeds,
            agent_options=agent_options,
            environment_options=options,
            data=data,
        )

    setup = configure()
    if mesh is not None:
        check_devices(dataclasses.replace(setup, mesh=mesh), None)
    learner = setup.learner()
    learner.check()
    made, spec = setup.agent, setup.spec
    if not capacity.working_bytes(made, spec):
        return {}
    needed = {"agent": seeds * capacity.part_bytes(capacity.state_shapes(made, spec), shape)}
    if data is not None:
        needed["memory"] = capacity.tree_bytes(learner.memory)
    devices = jax.local_devices()[: shape.of_seed]
    free = capacity.free_on(devices)
    free = None if free is None else free // shape.of_seed
    if shorter := capacity.shorter_answers(setup, lambda: needed, free, shape):
        setup = configure(response=shorter)
        made, spec = setup.agent, setup.spec
    working = capacity.working_bytes(made, spec, shape)
    capacity.check_update(made, spec, needed, working, free, capacity.device_words(devices, shape.of_seed), shape)
    found = {"state": needed.pop("agent"), **needed, **working}
    found["peak"] = capacity.peak_bytes({"state": found["state"], **needed}, working)
    found |= {"response": shorter} if shorter else {}
    return found if free is None else found | {"free": free}


def memory_line(found: dict[str, int], mesh: str | None = None) -> str:
    """Return a predicted memory as a line of text, of each device of a mesh if there is one."""
    uses = [
        f"{use} {capacity.byte_text(size)}" for use, size in found.items() if use not in ("peak", "free", "response")
    ]
    free = f" of {capacity.byte_text(found['free'])} that are free" if "free" in found else ""
    where = "" if mesh is None else f" on each device of {parse_mesh(mesh)}"
    words = f"memory: about {capacity.byte_text(found['peak'])}{where}{free}: {', '.join(uses)}"
    if "response" not in found:
        return words
    return f"{words}; with answers of at most {found['response']} tokens, as longer ones would not fit (--env.response)"


def check_gpus(asked: int | None) -> None:
    """Raise `ForageError` for other GPUs than those that are here."""
    if asked is None:  # without a look at the devices, on which JAX would settle
        return
    here = sum(device.platform == "gpu" for device in jax.devices())
    if asked != here:
        have = f"{here} are here" if here else "none is here"
        raise ForageError(
            f"What a GPU takes has to be measured on it, and {have}, not {asked}; call forage plan where the run is to "
            f"be, or leave out gpus."
        )


def with_envs(agent: str, environment: Any, options: Any, environment_options: Any, num_envs: int) -> RunConfig:
    """Return a run of one seed in `num_envs` environments that learns from its first rollout on."""
    more = {"num_envs": num_envs}
    made = resolve(agent, environment, steps=LONG, seeds=1, agent_options=options | more,
                      environment_options=environment_options)  # fmt: skip
    if made.agent.on_policy or not made.agent.learning_starts:
        return made
    more["learning_starts"] = made.agent.batch_size * made.agent.segment
    return resolve(agent, environment, steps=LONG, seeds=1, agent_options=options | more,
                      environment_options=environment_options)  # fmt: skip


def native_speed(setup: RunConfig) -> float:
    """Measure steps a second of one seed on the device: of a native environment, or updates from a data set."""
    one = setup.runner_of([setup.seeds[0]], {}, 1)
    assert isinstance(one, DeviceRunner)
    one.begin()
    one.advance(1)
    count, taken, began = 1, 0, time.perf_counter()
    while (passed := time.perf_counter() - began) < SECONDS:
        one.advance(count)
        taken, count = taken + count, min(2 * count, 1 << 16)
    return taken * one.steps_per_iteration / passed


def of_seeds(alone: float, seeds: int, cores: int) -> Prediction:
    """Return the speed of all seeds, each on its own core as long as there are enough."""
    at_once = min(seeds, cores)
    waves = math.ceil(seeds / at_once)
    return Prediction(cores, 0, 0, alone * seeds / waves, {"loop": 1.0})


def measure_pieces(setup: RunConfig, make: Callable[[int], RunConfig]) -> Pieces:
    """Measure the pieces of a run on the host; `make` returns the run with another number of environments."""
    agent = setup.agent
    few = agent.num_envs
    turns = {count: turn(make(count), SECONDS) for count in (few, 2 * few)}
    alone = on_one_core(make, few)
    act, keep, learn = (fit_line({count: found[i] for count, found in turns.items()}) for i in range(3))
    assert not setup.native
    build: Callable[[int], HostEnvironment] = setup.environment  # type: ignore[assignment]
    own, batch = measure_steps(build, 1), measure_steps(build, few)
    message, wait = messages(build, float(own.mean()))
    more = float(np.median(batch)) - few * float(np.median(own))  # than as many steps of batches of one
    once, beside = max(0.0, -more) / max(1, few - 1), max(0.0, more) / few
    crowded = crowd(build, float(np.median(own)), message, wait)
    length, overlaps = agent.rollout_length, not agent.on_policy
    return Pieces(few, length, act, keep, learn, alone, overlaps, own, once, beside, crowded, message, wait)


def on_one_core(make: Callable[[int], RunConfig], num_envs: int) -> tuple[float, float, float, float]:
    """Measure a turn as `turn` does, in a process that starts on one core, if the system can pin it there.

    Threads that were made for several cores and are kept to one afterwards are slower than those that know of one.
    """
    context = multiprocessing.get_context("spawn")
    near, far = context.Pipe()
    keeps = jax.config.jax_compilation_cache_dir is not None  # type: ignore[attr-defined]
    process = context.Process(target=_turn_elsewhere, args=(make, num_envs, SECONDS, keeps, far))
    check_sent(make)
    with one_core():
        process.start()
    far.close()
    try:
        found = near.recv()
    except EOFError:
        raise ForageError("The process that measures what one core takes has died; is there memory for it?") from None
    finally:
        process.join()
    if isinstance(found, str):
        raise ForageError(found)
    return found


def _turn_elsewhere(make: Callable[[int], RunConfig], num_envs: int, seconds: float, keeps: bool, far: Any) -> None:
    from forage.runs.training import use_compilation_cache

    if keeps:  # compiled programs, as the process that began this one does
        use_compilation_cache()
    try:
        far.send(turn(make(num_envs), seconds))
    except ForageError as error:
        far.send(str(error))


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """Pin this thread, and the processes that it starts, to one core meanwhile, if the system can do so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def fit_line(points: dict[int, float]) -> tuple[float, float]:
    """Return the line through two points as its height at zero and its slope, neither below zero."""
    (x, low), (y, high) = sorted(points.items())
    slope = max(0.0, (high - low) / (y - x))
    return max(0.0, low - slope * x), slope


def turn(setup: RunConfig, seconds: float) -> tuple[float, float, float, float]:
    """Measure a run without workers: seconds of acting and keeping in a turn, of learning after a rollout, of steps."""
    runner = setup.runner()
    assert isinstance(runner, HostRunner)
    try:
        runner.begin()
        loop = runner.loops[0]
        while loop.steps <= setup.agent.learning_starts:
            runner.advance(1)
        runner.advance(1)  # all is compiled
        began, rollouts, learned = time.perf_counter(), [], []
        while time.perf_counter() - began < seconds or len(rollouts) < ROLLOUTS:
            before = runner.activity_seconds
            runner.advance(1)
            rollouts.append(
                {name: seconds - before.get(name, 0.0) for name, seconds in runner.activity_seconds.items()}
            )
        # Medians, as something else may run meanwhile.
        spent = {name: statistics.median(one[name] for one in rollouts) for name in rollouts[0]}
        if loop.pending is not None:  # what learning takes by itself, and not what is left of it after a step
            for _ in range(5):
                start = time.perf_counter()
                loop.learn(loop.pending, loop.clock(loop.steps))
                jax.block_until_ready(loop.flat.leaves)
                learned.append(time.perf_counter() - start)
        turns = setup.agent.rollout_length
        learn = statistics.median(learned) if learned else spent["learn"]
        keep = spent["keep"] + spent.get("transfer", 0.0)
        return spent["act"] / turns, keep / turns, learn, spent["step"] / turns
    finally:
        runner.close()


def actions_of(environment: HostEnvironment) -> Callable[[], Any]:
    """Return a function that draws actions for a batch."""
    draw = jax.jit(lambda key: jax.vmap(lambda k: spaces.sample(environment.spec.action_space, k))(
        jax.random.split(key, environment.num_envs)))  # fmt: skip
    few = [jax.tree.map(np.asarray, draw(prng.key(number))) for number in range(16)]
    count = iter(range(1 << 62))
    return lambda: few[next(count) % len(few)]


def measure_steps(build: Callable[[int], HostEnvironment], num_envs: int) -> Float[np.ndarray, " step"]:
    """Measure steps of a batch in this process."""
    environment, took = build(num_envs), []
    try:
        environment.reset(0)
        draw, began = actions_of(environment), time.perf_counter()
        while (start := time.perf_counter()) - began < SECONDS / 2 or len(took) < 20:
            environment.step(draw())
            took.append(time.perf_counter() - start)
    finally:
        environment.close()
    return np.array(took[len(took) // 10 :])


def messages(build: Callable[[int], HostEnvironment], step: float) -> tuple[float, float]:
    """Measure the first process's time for a message to a worker, and the delay that it adds to a worker's step."""
    spoken, took = [], []
    for workers in (1, 2):
        pool = Pool(build, workers, workers)
        try:
            pool.reset(0)
            draw, began = actions_of(pool), time.perf_counter()
            while time.perf_counter() - began < SECONDS / 2 or len(took) < 20:
                action = draw()
                start = time.perf_counter()
                pool.send(action)
                sent = time.perf_counter()
                if workers == 2:
                    time.sleep(4 * step + 1e-3)  # both are done, so that hearing does not wait
                heard = time.perf_counter()
                pool.receive()
                done = time.perf_counter()
                if workers == 2:
                    spoken.append((sent - start + done - heard) / 2)
                else:
                    took.append(done - start)
        finally:
            pool.close()
    message = float(np.median(spoken))
    return message, max(0.0, float(np.median(took)) - message - step)


def crowd(build: Callable[[int], HostEnvironment], step: float, message: float, wait: float) -> float:
    """Measure the slowdown of a step while every core steps, as cores may share computing units."""
    workers = min(cores_here(), MOST)
    if workers < 2:
        return 1.0
    took = measure_steps(lambda num_envs: Pool(build, num_envs, num_envs), workers)
    return max(1.0, (float(np.median(took)) - wait - message * (workers + 1) / 2) / step)


def cores_here() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def batch_times(pieces: Pieces, drawn: Float[np.ndarray, "*turn env"]) -> Float[np.ndarray, "*turn"]:
    """Return the times of batches, from the times of their environments' own steps."""
    count = drawn.shape[-1]
    return drawn.sum(-1) + count * pieces.beside - (count - 1) * pieces.once


def predict(pieces: Pieces, cores: int) -> Prediction:
    """Predict the speed of a run on `cores` cores, one of them for the first process, from simulated turns."""
    num_envs = max(pieces.num_envs, cores)
    workers = 0 if cores == 1 else min(cores, num_envs)
    act, keep, learn = (fixed + each * num_envs for fixed, each in (pieces.act, pieces.keep, pieces.learn))
    if workers:
        mean = float(simulate_turns(pieces, num_envs, workers, np.random.default_rng(0)).mean())
    else:
        act, keep, learn, mean = pieces.alone
    learning = learn / pieces.rollout_length  # of each turn
    if pieces.overlaps and cores > 1:
        first = max(0.0, learn - mean)  # what is left of it when the first turn's steps are taken
        learning = first / pieces.rollout_length
    speaking = min(mean, workers * pieces.message)
    total = act + keep + mean + learning
    parts = {"act": act, "keep": keep, "step": mean - speaking, "messages": speaking, "learn": learning}
    shares = {name: seconds / total for name, seconds in parts.items()}
    return Prediction(cores, workers, num_envs, num_envs / total, shares)


def simulate_turns(
    pieces: Pieces, num_envs: int, workers: int, chance: np.random.Generator
) -> Float[np.ndarray, " turn"]:
    """Simulate the times of turns with workers, which receive messages and answer in the same order."""
    sizes = np.array([len(part) for part in np.array_split(np.arange(num_envs), workers)])
    half = pieces.message / 2
    turns = max(20, min(TURNS, 2_000_000 // num_envs))
    own = np.zeros((turns, workers))
    for size in np.unique(sizes):
        which = sizes == size
        own[:, which] = batch_times(pieces, chance.choice(pieces.steps, (turns, int(which.sum()), int(size))))
    own *= pieces.crowded
    place = np.arange(1, workers + 1)
    done = half * place + pieces.wait + own
    return (done + half * (workers - place + 1)).max(1)


def plan_lines(found: list[Prediction], unit: str = "steps") -> list[str]:
    """Return predictions as a table of text. `unit`: of the speed, `steps` or `updates`."""
    native = not any(one.num_envs for one in found)
    rows = [("cores", f"{unit}/s") if native else ("cores", "workers", "environments", "steps/s", "a turn's time")]
    for one in found:
        told, speed = time_shares(one.shares), f"{one.speed:,.0f}" if one.speed >= 10 else f"{one.speed:.2g}"
        rows.append((f"{one.cores:,}", speed) if native else
                    (f"{one.cores:,}", f"{one.workers:,}", f"{one.num_envs:,}", speed, told))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def row_line(row: tuple[str, ...]) -> str:
        cells = [text.rjust(width) for text, width in zip(row[:4], widths, strict=False)]
        return "  ".join([*cells, *row[4:]])

    return [row_line(row) for row in rows]
