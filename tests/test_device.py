"""The device road: what an advance does not do again."""

import jax
import pytest
import small

from forage import setup
from forage.device import DeviceRoad


def test_an_advance_traces_nothing_and_sends_no_numbers(monkeypatch):
    name, environment, options = small.AGENTS["ppo"]
    road = setup.make_setup(name, environment, steps=64, seeds=[3, 7], agent_options=options).road()
    assert isinstance(road, DeviceRoad)
    road.begin()
    road.advance(1)

    def traced(*_, **__):
        pytest.fail("The program is there, and was asked for its shapes.")

    monkeypatch.setattr(DeviceRoad, "shapes", traced)
    monkeypatch.setattr(jax, "jit", traced)
    assert road.advance(1).agent_finite.all() and road.steps == 2 * road.steps_per_iteration
    for leaf in jax.tree.leaves(road.varied):
        assert set(leaf.sharding.device_set) == set(road.mesh.devices.flat)
