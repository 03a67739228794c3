"""Seeds and environments on a mesh of devices: its shape, and numbers equal to those of one device.

The devices are four virtual ones of the CPU, in a process of its own: JAX settles on its devices at their first use.
`python tests/loop/test_mesh.py` prints the table of docs/devices.md.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import small

from forage.config.resolve import resolve
from forage.core import checkpoint
from forage.core.mesh import Shape, shape_for
from forage.memory.uniform import UniformReplay
from forage.runs.capacity import bytes_of, copies

PPO = {"num_envs": 4, "rollout_length": 8, "minibatches": 2, "epochs": 2, "hidden_sizes": (8,)}
REPLAY = {"num_envs": 4, "rollout_length": 4, "batch_size": 8, "learning_starts": 32, "hidden_sizes": (8,)}
SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "ppo": ("CartPole-v1", PPO),
    "dqn": ("CartPole-v1", REPLAY),
    "sac": ("Pendulum-v1", REPLAY),
}
ITERATIONS = 4
SHAPES = {1: (1, 4, 1), 2: (2, 2, 1), 5: (1, 4, 1), 8: (4, 1, 1)}
"""Seeds, and the mesh of four devices that suits them."""


def setup_of(agent: str, seeds: int, **options: Any) -> Any:
    environment, given = SETTINGS[agent]
    memory = {} if agent == "ppo" else {"memory": UniformReplay(128)}
    return resolve(agent, environment, steps=1000, seeds=seeds, agent_options=given | options, **memory)


def numbers(tree: Any) -> list[np.ndarray]:
    return [np.asarray(jax.random.key_data(x) if checkpoint.is_key(x) else x) for x in jax.tree.leaves(tree)]


def difference(one: Any, other: Any) -> float:
    """Return the largest difference of two trees of the same numbers."""
    pairs = zip(numbers(one), numbers(other), strict=True)
    return max(float(np.abs(a.astype(float) - b.astype(float)).max(initial=0.0)) for a, b in pairs)


def relative_difference(one: Any, other: Any) -> float:
    """Return the largest difference of two trees of the same numbers, of large ones as a share of them."""
    pairs = [(a.astype(float), b.astype(float)) for a, b in zip(numbers(one), numbers(other), strict=True)]
    return max(float((np.abs(a - b) / np.maximum(np.abs(b), 1.0)).max(initial=0.0)) for a, b in pairs)


def run_on(tree: Any) -> list[int]:
    """Return the numbers of devices and of different parts of each non-empty leaf."""
    leaves = [x for x in jax.tree.leaves(tree) if x.size]
    return sorted({(len(x.sharding.device_set), len({str(s.index) for s in x.addressable_shards})) for x in leaves})


def collectives(runner: Any) -> list[tuple[str, int]]:
    """Return the communication in the loop: operations, and the size of the largest part."""
    found = []
    for line in runner._loop().result().as_text().splitlines():
        if said := re.search(r"= (.*?) (all-gather|all-reduce|all-to-all|reduce-scatter)(?:-start)?\(", line):
            shapes = re.findall(r"\w+\[([\d,]*)\]", said[1])
            found.append((said[2], max(math.prod(int(n) for n in shape.split(",") if n) for shape in shapes)))
    return found


def train_agent(agent: str, seeds: int, compared: bool) -> dict[str, Any]:
    """Train on all devices, and on one of them; return measurements of both."""
    setup = setup_of(agent, seeds)
    runner = setup.runner()
    runner.begin()
    runner.advance(ITERATIONS)
    state = runner.state
    played = runner.evaluate(4, 20, 1) if seeds == 1 and compared else None
    said: dict[str, Any] = {
        "shape": runner.shape,
        "said": runner.spread,
        "actors": run_on(state.actors),
        "memory": run_on(state.learner.memory),
        "agent": run_on(state.learner.agent),
        "collectives": collectives(runner),
    }
    if not compared:
        return said
    alone = setup.runner(1)
    alone.begin()
    alone.advance(ITERATIONS)
    said["apart"] = difference(runner.state, alone.state)
    if played is not None:
        said["played_apart"] = difference(played, alone.evaluate(4, 20, 1))
        with tempfile.TemporaryDirectory() as folder:  # each goes on from what the other saved
            for one in (runner, alone):
                one.save(Path(folder) / f"{len(one.devices)}.npz", {"steps": one.steps})
            runner.load(Path(folder) / "1.npz")
            alone.load(Path(folder) / "4.npz")
        runner.advance(1), alone.advance(1)
        said["resumed_apart"], said["resumed_on"] = difference(runner.state, alone.state), run_on(runner.state.actors)
    return said


def move_by(agent: str) -> dict[str, Any]:
    """Train one seed on eight devices, continue with two and then with one, and compare with one throughout."""
    setup = setup_of(agent, 1, num_envs=8, **({} if agent == "ppo" else {"learning_starts": 64}))
    alone = setup.runner(1)
    alone.begin()
    said: dict[str, Any] = {"apart": [], "devices": []}
    with tempfile.TemporaryDirectory() as folder:
        file, runner = Path(folder) / "state.npz", None
        for devices in (8, 2, 1):
            saved, runner = runner is not None, setup.runner(devices)
            if saved:
                runner.load(file)
            else:
                runner.begin()
            runner.advance(ITERATIONS), alone.advance(ITERATIONS)
            said["apart"].append(relative_difference(runner.state, alone.state))
            said["devices"].append(run_on(runner.state.actors))
            runner.save(file, {"steps": runner.steps})
    return said


def in_process(code: str, devices: int = 4) -> Any:
    """Return the JSON that code prints in a process with `devices` devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    environment = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    places = [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
    environment |= {"XLA_FLAGS": flags, "PYTHONPATH": os.pathsep.join(places)}
    code = f"import json, test_mesh; print(json.dumps({code}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=small.PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.thorough
@pytest.mark.parametrize("agent", ["ppo", "dqn"])
def test_one_seed_on_four_devices_is_that_on_one(agent):
    found = in_process(f"test_mesh.train_agent({agent!r}, 1, True)")
    assert found["shape"] == [1, 4, 1] and found["actors"] == [[4, 4]] and found["agent"] == [[4, 1]]
    assert found["said"] == "on 4 devices, 4 of which share each seed's environments"
    assert found["apart"] < 1e-5 and found["played_apart"] < 1e-5
    assert found["resumed_apart"] < 1e-5 and found["resumed_on"] == [[4, 4]]
    if agent == "dqn":
        assert found["memory"] == [[4, 4]]
    # No device gathers a rollout or the ring: 32 transitions of 4 numbers, and 128 of 4.
    kinds = {kind for kind, _ in found["collectives"]}
    assert "all-reduce" in kinds and all(size <= 16 for kind, size in found["collectives"] if kind == "all-gather")


@pytest.mark.thorough
@pytest.mark.parametrize("agent", ["ppo", "dqn", "sac"])
def test_a_run_moves_from_eight_devices_to_two_to_one(agent):
    found = in_process(f"test_mesh.move_by({agent!r})", devices=8)
    assert found["devices"] == [[[8, 8]], [[2, 2]], [[1, 1]]]
    assert max(found["apart"]) < 1e-5, found["apart"]


@pytest.mark.thorough
def test_five_seeds_on_four_devices_are_those_on_one():
    found = in_process("test_mesh.train_agent('ppo', 5, True)")
    assert found["shape"] == [1, 4, 1] and found["actors"] == [[4, 4]] and found["apart"] < 1e-5


@pytest.mark.parametrize(("seeds", "shape"), SHAPES.items())
def test_all_four_devices_are_used(seeds, shape):
    assert shape_for(seeds, 4, 4, doubles=False) == shape_for(seeds, 8, 4) == shape


@pytest.mark.parametrize(
    ("seeds", "num_envs", "devices", "shape"),
    [
        (1, 6, 4, (1, 3)),  # what does not divide is left out
        (1, 1, 4, (1, 1)),
        (5, 1, 4, (3, 1)),  # one seed runs twice
        (5, 6, 4, (2, 2)),
        (3, 8, 8, (1, 8)),
        (6, 8, 4, (2, 2)),
        (16, 8, 4, (4, 1)),
    ],
)
def test_the_shape_leaves_each_device_least_to_do(seeds, num_envs, devices, shape):
    assert shape_for(seeds, num_envs, devices) == Shape(*shape)


def test_a_device_that_shares_a_seed_counts_its_copies():
    runner, alone = setup_of("dqn", 2).runner(Shape(2, 2)), setup_of("dqn", 2).runner(Shape(1, 1))
    assert runner.shape == (2, 2, 1)
    assert {copies(x.sharding) for x in jax.tree.leaves(runner.shapes(placed=True).actors)} == {1}
    shared, whole = bytes_of(runner), bytes_of(alone)
    assert shared["agent"] == 2 * whole["agent"] and shared["pool"] == 2 * whole["pool"]
    assert all(shared[part] == whole[part] for part in ("memory", "actors", "rollout"))


def test_what_does_not_divide_is_said():
    runner = setup_of("ppo", 1, num_envs=6, minibatches=1).runner(4)
    assert runner.shape == (1, 3, 1)
    assert runner.spread == "on 3 devices of 4, which is how 1 seeds with num_envs 6 can be shared out evenly"


if __name__ == "__main__":
    for agent in SETTINGS:
        for seeds in SHAPES:
            print(agent, seeds, in_process(f"test_mesh.train_agent({agent!r}, {seeds}, True)"), flush=True)
