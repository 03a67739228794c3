"""The runner on the device: an advance without retracing, and the assignment of members to devices."""

import jax
import numpy as np
import pytest
import small

from forage.config.resolve import resolve
from forage.core import checkpoint
from forage.core.mesh import Shape, shape_for
from forage.loop.device import runner as device
from forage.loop.device.runner import DeviceRunner
from forage.runs.capacity import bytes_of


def test_an_advance_traces_nothing_and_sends_no_numbers(monkeypatch):
    name, environment, options = small.AGENTS["ppo"]
    runner = resolve(name, environment, steps=64, seeds=[3, 7], agent_options=options).runner()
    assert isinstance(runner, DeviceRunner)
    runner.begin()
    runner.advance(1)

    def trace(*_, **__):
        pytest.fail("The program is there, and was asked for its shapes.")

    monkeypatch.setattr(DeviceRunner, "shapes", trace)
    monkeypatch.setattr(jax, "jit", trace)
    assert runner.advance(1).agent_finite.all() and runner.steps == 2 * runner.steps_per_iteration
    for leaf in jax.tree.leaves(runner.varied):
        assert set(leaf.sharding.device_set) == set(runner.mesh.devices.flat)


@pytest.mark.parametrize(
    ("members", "devices", "count", "each"),
    [(5, 1, 1, 5), (5, 2, 2, 3), (5, 3, 3, 2), (5, 4, 3, 2), (5, 8, 5, 1), (6, 4, 3, 2), (7, 4, 4, 2), (24, 4, 4, 6)],
)
def test_members_are_on_as_many_devices_as_make_the_run_shorter(members, devices, count, each):
    assert shape_for(members, 1, devices) == (count, 1, 1) and -(-members // count) == each
    shared = shape_for(members, 1, devices, doubles=False).seed
    assert shared == max(n for n in range(1, devices + 1) if members % n == 0)  # there, nothing is run twice


def test_agents_have_alone_the_shapes_that_they_have_in_a_state():
    setup = resolve(
        "ppo", "CartPole-v1", steps=64, seeds=3, sweep={"discount": [0.9, 0.99]}, normalise_observation=True
    )
    runner = setup.runner(learns=False)
    assert isinstance(runner, DeviceRunner)
    whole = jax.tree.leaves(runner.shapes(placed=True).learner.agent)
    alone = runner.agent_shapes(len(runner.places))
    assert [(x.shape, x.dtype) for x in jax.tree.leaves(alone)] == [(x.shape, x.dtype) for x in whole]
    assert jax.tree.leaves(runner._agent_placements(alone)) == [x.sharding for x in whole]


def numbers(tree):
    """The leaves of a tree, in NumPy."""
    return [np.asarray(jax.random.key_data(x) if checkpoint.is_key(x) else x) for x in jax.tree.leaves(tree)]


@pytest.mark.thorough
def test_members_in_places_left_over_are_seen_by_nobody(monkeypatch, tmp_path):
    """Three members on two devices, with one of them run twice, equal the first three of four."""
    name, environment, options = small.AGENTS["ppo"]

    def runner_of(rates, devices):
        monkeypatch.setattr(device, "shape_of", lambda *_: Shape(devices, 1))
        made = resolve(name, environment, steps=64, seeds=[3], agent_options=options, sweep={"learning_rate": rates})
        return made.runner()

    runner, four = runner_of([1e-3, 1e-2, 1e-1], 2), runner_of([1e-3, 1e-2, 1e-1, 1e-4], 2)
    assert runner.mesh.size == 2 and runner.places.tolist() == [0, 1, 2, 0] and runner.rows == 3 and four.rows is None
    assert bytes_of(runner) == bytes_of(four)  # what it takes is counted as it is
    reports = []
    for each in (runner, four):
        each.begin()
        reports.append(numbers([each.advance(2), each.evaluate(2, 5, 1), each.agent_states()]))
    for ours, theirs in zip(*reports, strict=True):
        assert len(ours) == 3
        np.testing.assert_array_equal(ours, theirs[:3])

    path = tmp_path / "state.npz"
    checkpoint.save_tree(path, runner.state, {"steps": runner.steps}, rows=runner.rows)
    alone = runner_of([1e-3, 1e-2, 1e-1], 1)
    for other in (alone, runner):  # on one device and back
        state, header = checkpoint.load_tree(path, other.shapes())
        other.restore(state, header["steps"])
        for ours, theirs in zip(numbers(other.state), numbers(four.state), strict=True):
            assert len(ours) == len(other.places)
            np.testing.assert_array_equal(ours, theirs[other.places])
        checkpoint.save_tree(path, other.state, header, rows=other.rows)
    ours, theirs = numbers(runner.advance(1)), numbers(four.advance(1))
    assert all(np.array_equal(one, other[:3]) for one, other in zip(ours, theirs, strict=True))
