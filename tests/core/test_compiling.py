"""Runs that differ in numbers alone share a compiled program."""

import copy
import os
import re
import signal
import subprocess
import sys
import threading
import time

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces
from tiers import gate_cases

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.core import compiling
from forage.core.compiling import IN_ORDER, QUICK, SUMS_IN_ONE_PIECE, WIDE_VECTORS, kind, known_options
from forage.core.errors import InterruptedCompiling
from forage.core.mesh import ONE, mesh_of
from forage.core.types import Spec
from forage.environments import spec_of
from forage.environments.adapters.on_host import OnHost
from forage.environments.classic.cartpole import CartPole
from forage.loop.device import programs as device
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.programs import batch_seeds
from forage.loop.device.runner import DeviceRunner
from forage.loop.host.runner import HostRunner
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same

traced = []


def test_options_of_one_program_do_not_reach_those_of_others(monkeypatch):
    asked, devices = [], mesh_of(ONE, jax.devices())
    monkeypatch.setattr(device, "known_options", lambda options: asked.append(dict(options)) or {})
    for once in (True, False):
        device.jit_program.__wrapped__("kind", devices, lambda *_: None, (), True, once=once)
    common = IN_ORDER | SUMS_IN_ONE_PIECE | WIDE_VECTORS
    assert asked == [common | QUICK, common]
    assert not set(QUICK) & set(IN_ORDER)


KEEPS = pytest.mark.skipif(
    not compiling.keep_freed_memory(compiling.KEPT_MEMORY), reason="the allocator is not glibc's, or is set already"
)

RUN_OF_ONE_BLOCK = """
import ctypes, resource, sys
{imported}
import jax, jax.numpy as jnp
from forage.core import compiling

size = {size}
program = jax.jit(lambda x: jnp.sin(x[:, None] * x) @ x).lower(jnp.ones(size)).compile()
assert program.memory_analysis().temp_size_in_bytes >= 4 * size**2
cleared = []
for _ in range(8):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    jax.block_until_ready(program(jnp.ones(size)))
    cleared.append((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / (4 * size**2 / 4096))
library = ctypes.CDLL(None)
library.malloc_stats()
print(min(cleared))
"""
"""A program with one large block of temporary numbers: prints the share of its pages that the system cleared, at the
best call, and to its errors glibc's description of each arena."""


@KEEPS
@pytest.mark.parametrize(
    ("imported", "size", "shared"),
    [
        pytest.param("import forage.core.compiling", 3500, False, id="47 MiB"),
        pytest.param("import forage.agents.language.base", 5000, True, id="95 MiB of a language agent"),
    ],
)
def test_temporary_arrays_are_not_cleared_at_every_call(imported, size, shared):
    code = RUN_OF_ONE_BLOCK.format(imported=imported, size=size)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 0.1
    assert (ran.stderr.count("Arena") == 1) is shared  # programs of other agents have an arena of their own


ARENAS_OF_A_RUN = """
import ctypes, jax
from forage.config.resolve import resolve

resolve("grpo", "text:addition", steps=64, seeds=[0])
jax.devices()
ctypes.CDLL(None).malloc_stats()
"""


@KEEPS
def test_a_language_agent_has_one_arena_from_its_first_program_on():
    """A thread with an arena before its import would leave XLA's threads to take turns between two."""
    ran = subprocess.run([sys.executable, "-c", ARENAS_OF_A_RUN], capture_output=True, text=True, check=True)
    assert ran.stderr.count("Arena") == 1


class TracedPPO(PPO):
    """Records each trace."""

    def learn(self, state, batch, clock, key):
        traced.append(self)
        return super().learn(state, batch, clock, key)


def weights(runner, learning_rate=1e-3):
    """Return the agent's weights after two iterations, and the number of its traces."""
    agent = TracedPPO(
        num_envs=2, rollout_length=4, minibatches=1, epochs=1, hidden_sizes=(4,), learning_rate=learning_rate
    )
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), LastRollout(), spec_of(CartPole(), "CartPole-v1"))
    if runner == "device":
        run = DeviceRunner(batch_seeds(DeviceLoop(learner, CartPole(), Same(), Reset()), {}), [0], 16)
    else:
        run = HostRunner([learner], lambda num_envs: OnHost(CartPole(), num_envs), [0], 16)
    before = len(traced)
    run.begin()
    run.advance(2)
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(run.agent_states().network)]), len(traced) - before


@pytest.mark.parametrize("runner", gate_cases(["device", "host"], ["device"]))
@pytest.mark.thorough
def test_another_number_is_not_traced_again_and_counts(runner, no_programs):
    first, traces = weights(runner)
    assert traces
    other, traces = weights(runner, learning_rate=1e-1)
    assert not traces
    again, traces = weights(runner)
    assert not traces
    assert np.array_equal(first, again) and not np.allclose(first, other)


@pytest.mark.parametrize("runner", gate_cases(["device", "host"], ["device"]))
@pytest.mark.thorough
def test_a_class_whose_code_was_replaced_is_traced_again(runner, monkeypatch):
    """As in a notebook after a file was edited."""
    before, _ = weights(runner)

    def lazy(self, state, batch, clock, key):
        traced.append(self)
        _, *rest = PPO.learn(self, state, batch, clock, key)
        return state, *rest

    monkeypatch.setattr(TracedPPO, "learn", lazy)
    after, traces = weights(runner)
    assert traces and not np.array_equal(before, after)


def test_kinds_differ_by_structure_and_class_and_not_by_numbers():
    agent, same = PPO(hidden_sizes=(4,)), PPO(hidden_sizes=(4,), learning_rate=0.5)
    assert kind(agent) == kind(same) and hash(kind(agent)) == hash(kind(same))
    assert kind(agent) != kind(PPO(hidden_sizes=(5,)))
    assert kind(agent) != kind(TracedPPO(hidden_sizes=(4,)))


SPACES = {
    "box": spaces.Box(-1, 1, (2,), np.float32),
    "nearly the same box": spaces.Box(-1, np.nextafter(np.float32(1), np.float32(2)), (2,), np.float32),
    "larger box": spaces.Box(-1, 1, (3,), np.float32),
    "double box": spaces.Box(-1, 1, (2,), np.float64),
    "discrete": spaces.Discrete(3),
    "discrete from 1": spaces.Discrete(3, start=1),
    "choices": spaces.MultiDiscrete([3, 2]),
    "dictionary": spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 1, (2,))}),
    "other dictionary": spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 2, (2,))}),
    "tuple": spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2))),
}


def test_specs_are_equal_when_they_say_the_same_to_the_bit():
    def spec(space: gymnasium.Space, **more) -> Spec:
        return Spec("x", space, spaces.Discrete(2), **more)

    specs = [spec(space) for space in SPACES.values()]
    assert len(set(specs)) == len(SPACES)
    for name, one in zip(SPACES, specs, strict=True):
        space = copy.deepcopy(SPACES[name])
        space.seed(1)
        assert spec(space) == one and hash(spec(space)) == hash(one), name
    assert spec(SPACES["box"]) != spec(SPACES["box"], horizon=3)
    assert spec(SPACES["box"]) != Spec("y", SPACES["box"], spaces.Discrete(2))


def build(function, *arguments, **options):
    """Compile a function with compiler options."""
    return jax.jit(function).lower(*arguments).compile(compiler_options=known_options(options))


def test_an_option_that_xla_does_not_know_is_left_out(monkeypatch):
    options = QUICK | IN_ORDER | SUMS_IN_ONE_PIECE
    assert known_options(options | {"xla_no_such_option": True}) == known_options(options)
    found = int(build(lambda x: x + 1, np.int32(1), **options, xla_no_such_option=True)(1))
    assert found == 2
    # Asked once: nothing is compiled for the same question.
    monkeypatch.setattr(compiling, "_nothing", lambda: pytest.fail("asked again"))
    assert known_options(options)


def test_unoptimised_code_is_shorter():
    """Loops are neither unrolled nor vectorised, the slow part of compiling well."""
    own = np.float32(np.random.default_rng().random())  # compiled anew: a program out of the cache tells no size

    def function(x):
        x = x + own
        for i in range(4):
            x = jax.lax.fori_loop(0, 3 + i, lambda _, x, i=i: jnp.sort(jnp.tanh(x * (1 + i)))[::-1] * jnp.sin(x), x)
        return x

    def size(options):
        return len(build(function, np.ones(64, np.float32), **options).runtime_executable().serialize())

    assert size({"xla_backend_optimization_level": 0}) < 0.95 * size({"xla_backend_optimization_level": 3})


def test_sums_in_one_piece_take_fewer_kernels():
    def kernels(options):
        program = build(lambda x: jnp.sum(jnp.tanh(x)), np.ones(1000, np.float32), **options)
        return len(re.findall(r" fusion\(| reduce\(| reduce-window\(", program.as_text().split("ENTRY")[1]))

    assert known_options(SUMS_IN_ONE_PIECE | WIDE_VECTORS) == SUMS_IN_ONE_PIECE | WIDE_VECTORS
    assert kernels(SUMS_IN_ONE_PIECE) < kernels({})


@pytest.fixture
def endless(monkeypatch):
    """Compiling takes until the test is over."""
    begun, over = threading.Event(), threading.Event()

    def compile_slowly(*arguments, **options):
        begun.set()
        over.wait(60)
        return real(*arguments, **options)

    real = compiling._compile
    monkeypatch.setattr(compiling, "_compile", compile_slowly)
    monkeypatch.setattr(compiling, "SAID_AFTER", 0.3)
    yield begun
    over.set()
    for work in [*compiling.Background.left]:
        work.ended.wait(60)


def test_compiling_is_stopped_by_a_signal_and_says_that_it_takes_long(endless, monkeypatch, capsys):
    before = signal.signal(signal.SIGTERM, lambda number, frame: compiling.stop.ask("SIGTERM"))
    own = np.float32(np.random.default_rng().random())  # compiled anew: one out of the cache is there at once
    sent = []

    def send():
        assert endless.wait(60)
        time.sleep(0.7)  # longer than a small program takes
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=send).start()
    try:
        with pytest.raises(InterruptedCompiling, match=r"Stopped by SIGTERM while a program was compiled\."):
            jax.jit(lambda x: x + own)(1)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert time.monotonic() - sent[0] < 2
    assert not compiling.stop.by
    assert re.match(r"Compiling jit__lambda\w* has taken 0 s and goes on; Ctrl-C ends it\.\n", capsys.readouterr().err)


def test_tracing_is_stopped_by_a_signal():
    def function(x):
        compiling.stop.ask("Ctrl-C")
        pytest.fail("went on")

    with pytest.raises(InterruptedCompiling, match="Stopped by Ctrl-C"):
        jax.jit(function)(1)
    compiling.stop.ask("Ctrl-C")  # where nothing is traced or compiled, whoever asked is heard later
    assert compiling.stop.by == "Ctrl-C"
    compiling.stop.by = ""


def test_a_small_program_is_compiled_in_spite_of_a_stop(monkeypatch):
    """The run then stops at its next report, and continues bit for bit."""
    monkeypatch.setattr(compiling.stop, "by", "Ctrl-C")
    own = np.float32(np.random.default_rng().random())
    monkeypatch.setattr(compiling, "STOPPED_AFTER", 60)
    assert jax.jit(lambda x: x * 0 + own)(1) == own
    assert compiling.stop.by == "Ctrl-C"


def test_work_in_the_background_comes_in_order_and_raises():
    order = []
    first = compiling.Background(lambda: time.sleep(0.05) or order.append(1))
    second = compiling.Background(lambda: order.append(2) or 7, first)
    assert second.result() == 7
    assert order == [1, 2]
    with pytest.raises(ZeroDivisionError):
        compiling.Background(lambda: 1 / 0).result()
    assert not compiling.Background.left


@pytest.mark.parametrize(("command_over", "end"), [(False, (0, "compiled")), (True, (3, ""))])
def test_a_script_waits_for_programs_and_a_command_does_not(command_over, end):
    """Python aborts if it ends while a thread is within XLA."""
    code = f"""
import time
from forage.core import compiling
compiling.Background(lambda: time.sleep(0.5) or print("compiled", end="", flush=True))
compiling.exit_code = {3 if command_over else None}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=small.environment())
    assert (done.returncode, done.stdout) == end, done.stderr
