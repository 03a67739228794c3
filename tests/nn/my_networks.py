"""A user's own file: an encoder, an activation and an optimiser, for tests and the page."""

import equinox
import jax
import jax.numpy as jnp
import optax


class Sines(equinox.Module):
    """Sines of learned mixtures of the numbers in an observation."""

    linear: equinox.nn.Linear
    wave: object  # a function: what is no array may stand in a module, too
    size: int = equinox.field(static=True)

    def __init__(self, key, observation_space):
        self.size = 6
        self.linear = equinox.nn.Linear(observation_space.shape[0], self.size, key=key)
        self.wave = jnp.sin

    def __call__(self, observation):
        return self.wave(self.linear(observation))


class Short(Sines):
    """Gives fewer features than it declares."""

    def __call__(self, observation):
        return super().__call__(observation)[:3]


class Plain(equinox.Module):
    """Declares no size."""

    linear: equinox.nn.Linear

    def __init__(self, key, observation_space):
        self.linear = equinox.nn.Linear(observation_space.shape[0], 5, key=key)

    def __call__(self, observation):
        return jnp.tanh(self.linear(observation))


class Single(Plain):
    """Gives one number, and no vector."""

    def __call__(self, observation):
        return super().__call__(observation).sum()


class NoModule:
    """Features of weights that no optimiser sees."""

    size = 4

    def __init__(self, key, observation_space):
        self.weight = jax.random.normal(key, (4, 4))

    def __call__(self, observation):
        return observation @ self.weight


class Silent(Sines):
    """Fails without a message."""

    def __call__(self, observation):
        raise AssertionError


class Keyless(equinox.Module):
    """Is made without a key."""

    size: int = 3

    def __init__(self, observation_space):
        pass


def swish(x):
    return x * jax.nn.sigmoid(x)


def total(x):
    return x.sum()


def heavy(learning_rate):
    return optax.sgd(learning_rate, momentum=0.9, nesterov=True)
