"""Programs on disk: the names of their files, and reading them without a trace."""

import os
import threading
import time
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from small import forage

from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.core import compiling, prng
from forage.loop.device import kept_programs
from forage.loop.device.runner import DeviceRunner
from forage.memory.rollout import LastRollout
from forage.nn.layers import Linear


class OwnPPO(PPO):
    """A person's agent, whose module may do anything."""


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Keep programs in a folder of the test, as the command does."""
    monkeypatch.setattr(kept_programs, "folder", lambda: tmp_path)
    kept_programs.surroundings.cache_clear()
    yield tmp_path
    kept_programs.surroundings.cache_clear()


def test_an_evaluation_before_the_first_step_compiles_beside_the_loop():
    compiled, ended = threading.Event(), []

    def compile_program(path, function, varied):
        if function == "loop":
            assert compiled.wait(30)  # until another program was compiled meanwhile
        ended.append(function)

    fake = SimpleNamespace(_programs={}, _newest=None, _path=lambda name: None, _compile=compile_program, varied=())
    names = "loop", "soon", "late"
    programs = [DeviceRunner._program(fake, name, lambda name=name: (name,), name == "soon") for name in names]
    programs[1].result()
    assert ended == ["soon"]
    compiled.set()
    for program in programs:
        program.result()
    assert ended == ["soon", "loop", "late"]
    assert DeviceRunner._program(fake, "soon", lambda: pytest.fail("prepared twice"), True) is programs[1]


def test_the_first_state_waits_until_the_loop_is_lowered():
    calls, over = [], threading.Event()
    loop = compiling.Background(over.wait)
    function = SimpleNamespace(
        lower=lambda: calls.append("lowered") or SimpleNamespace(compile=lambda: calls.append("compiled"))
    )
    assert kept_programs.obtain(None, function, (), [], lambda: calls.append("told")) is None
    assert calls == ["lowered", "told", "compiled"]

    lowered = SimpleNamespace(wait=lambda _: calls.append("waited") or calls.count("waited") == 2)
    fake = SimpleNamespace(_loop=lambda: loop, _lowered=lowered, _kept_init=lambda *_: calls.append("made"))
    fake.varied, fake._keys, fake._in_place = (), (), lambda state: state
    DeviceRunner.begin(fake)
    assert calls[3:] == ["waited", "waited", "made"]
    over.set()
    loop.result()  # it ended, with an error, or read from a file
    DeviceRunner.begin(fake)


def path(name, *parts):
    return kept_programs.path_for(name, parts, jax.devices()[:1])


def test_a_file_is_of_all_that_decides_a_program(folder, monkeypatch):
    usual = path("loop", PPO(), LastRollout())
    assert usual is not None and usual.parent == folder
    both = jax.devices()[:1] * 2
    assert kept_programs.path_for("loop", (PPO(), LastRollout()), both) not in (None, usual)
    foreign = SimpleNamespace(platform="gpu", device_kind="", id=1, client=SimpleNamespace(platform_version=""))
    assert kept_programs.path_for("loop", (PPO(), LastRollout()), [foreign, foreign]) is None
    assert kept_programs.path_for("loop", (PPO(), LastRollout()), [foreign]) is not None
    assert path("loop", PPO(), LastRollout()) == usual
    assert path("loop", PPO(learning_rate=1.0), LastRollout()) == usual  # a number is an argument of the program
    others = [
        path("evaluation", PPO(), LastRollout()),
        path("loop", PPO(epochs=5), LastRollout()),
        path("loop", PPO(activation="relu"), LastRollout()),
        path("loop", DQN(), LastRollout()),
        path("loop", PPO(learning_rate=np.zeros(2, np.float32)), LastRollout()),
    ]
    assert None not in others
    assert len({usual, *others}) == 6


def test_sources_settings_and_variables_decide_it_too(folder, monkeypatch, tmp_path):
    source = tmp_path / "module.py"
    source.write_text("x = 1")
    monkeypatch.setattr(kept_programs, "OWN", tmp_path)

    def name():
        kept_programs.surroundings.cache_clear()
        return path("loop", PPO())

    names = [name()]
    stat = source.stat()
    source.write_text("x = 2")  # as long as before, and dated back
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    names.append(name())
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")
    names.append(name())
    jax.config.update("jax_default_matmul_precision", "highest")
    names.append(name())
    jax.config.update("jax_default_matmul_precision", None)
    with monkeypatch.context() as patch:
        patch.setattr(kept_programs, "cpu_lines", lambda: ["flags : another processor"])
        names.append(name())
    assert len(set(names)) == 5
    assert name() == names[2]


def test_programs_of_other_code_are_not_kept(folder, monkeypatch):
    assert path("loop", OwnPPO()) is None
    assert path("loop", PPO(activation=lambda x: x)) is None
    monkeypatch.undo()
    assert path("loop", PPO()) is None  # in a script of a person's, who may have replaced functions
    assert not kept_programs.is_command()


def test_a_kept_program_is_read_and_not_traced(folder):
    salt = time.time_ns() % 10**9  # so that JAX's own cache has never seen the program
    traced = []

    @jax.jit
    def program(layer, key):
        traced.append(1)
        return layer, jax.random.split(key), layer(jax.random.normal(key, (2,))) + np.float32(salt)

    file, devices = folder / "one.forage-program", jax.devices()[:1]
    arguments = Linear(prng.key(0), 2, 3), prng.key(1)
    first = kept_programs.obtain(file, program, arguments, devices)(*arguments)
    assert file.exists() and len(traced) == 1
    again = kept_programs.obtain(file, program, arguments, devices)
    for _ in range(2):  # its results are arguments as good as those that it was made with
        layer, keys, numbers = again(*arguments)
        arguments = layer, arguments[1]
    assert len(traced) == 1
    assert jax.tree.structure((layer, keys, numbers)) == jax.tree.structure(first)
    np.testing.assert_array_equal(numbers, first[2])
    np.testing.assert_array_equal(jax.random.key_data(keys), jax.random.key_data(first[1]))

    file.write_bytes(file.read_bytes()[:100])  # damaged: compiled anew
    np.testing.assert_array_equal(kept_programs.obtain(file, program, arguments, devices)(*arguments)[2], numbers)
    assert len(list(folder.glob("*.forage-program*"))) <= 1


def test_what_jax_has_read_from_its_own_cache_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(kept_programs, "compile_program", lambda function, *_, **__: (function, False))
    assert kept_programs.obtain(folder / "one.forage-program", "the program", (), ()) == "the program"
    assert not list(folder.iterdir())


@pytest.mark.thorough
@pytest.mark.parametrize("seeds", ["1", "2"])
def test_a_second_command_trains_the_same_without_tracing(seeds, tmp_path, monkeypatch):
    monkeypatch.setattr("small.PROGRAMS", tmp_path / "programs")
    rows = []
    for name in ("first", "second"):
        forage("train", "ppo", "CartPole-v1", "--steps", "20k", "--seeds", seeds, "--directory", tmp_path / name)
        lines = (tmp_path / name / "metrics.jsonl").read_text().splitlines()
        rows.append([line.split('"episodes"')[-1] for line in lines])
        files = {file: file.stat().st_mtime_ns for file in (tmp_path / "programs").glob("*.forage-program")}
        assert len(files) == 3
    assert rows[0] == rows[1]
    assert (tmp_path / "first/evaluation.json").read_text() == (tmp_path / "second/evaluation.json").read_text()
