"""A user's own agents: plain Equinox modules as actor and critic, for tests and the page."""

import equinox
import jax
import jax.numpy as jnp

from forage import SAC, TD3


class Policy(equinox.Module):
    """Two layers of Equinox's own, with a function among the leaves."""

    layers: equinox.nn.MLP

    def __init__(self, key, inputs, outputs):
        self.layers = equinox.nn.MLP(inputs, outputs, 8, 1, activation=jax.nn.silu, key=key)

    def __call__(self, observation):
        return self.layers(observation)


class Value(equinox.Module):
    """A value of an observation and an action."""

    layers: equinox.nn.MLP

    def __init__(self, key, inputs):
        self.layers = equinox.nn.MLP(inputs, "scalar", 8, 1, key=key)

    def __call__(self, observation, action):
        return self.layers(jnp.concatenate([observation, action]))


class MySAC(SAC):
    """SAC with custom networks."""

    def make_actor(self, key, spec):
        return Policy(key, 3, 2)

    def make_critic(self, key, spec, dimensions, style, outputs, bins):
        return Value(key, 3 + dimensions)


class MyTD3(TD3):
    """TD3 with a custom actor."""

    def make_actor(self, key, spec):
        return Policy(key, 3, 1)


class Wide(MySAC):
    """An actor with too many outputs."""

    def make_actor(self, key, spec):
        return Policy(key, 3, 5)


class NoModule(MySAC):
    """An actor that is a function."""

    def make_actor(self, key, spec):
        return lambda observation: observation


class Fails(MySAC):
    """A mistake in the method."""

    def make_actor(self, key, spec):
        assert spec is None


class Vector(MySAC):
    """A critic with several values."""

    def make_critic(self, key, spec, dimensions, style, outputs, bins):
        return Policy(key, 3, 2)
