"""What the tests of behaviours share: an agent made by hand, and many actions at once."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from forage.core.ports import Agent
from forage.core.types import Clock, Spec


class Always(Agent):
    """Chooses what it is told to, and says so."""

    on_policy: ClassVar[bool] = False
    action: Any = 0
    num_envs: int = 1
    rollout_length: int = 1

    def check(self, spec):
        pass

    def init(self, key, spec):
        return ()

    def act(self, state, hidden, observation, key, explore, noise=None):
        return self.action, hidden + 1, {"explore": explore}

    def learn(self, state, batch, clock, key):
        raise NotImplementedError


class OnPolicy(Always):
    on_policy: ClassVar[bool] = True


class Values(Always):
    """Says what actions are worth: `action`, whatever it sees, and one more for each step it remembers."""

    def act(self, state, hidden, observation, key, explore, noise=None):
        return jnp.argmax(self.action).astype(jnp.int32), hidden + 1, ()

    def action_values(self, state, hidden, observation):
        return self.action + hidden


class Noisy(Always):
    """Does what the noise says, and remembers how often it was asked, and the sum of what was done last."""

    shape: tuple[int, ...] = (2,)

    def hidden(self, spec):
        return jnp.zeros(2)

    def act(self, state, hidden, observation, key, explore, noise=None):
        return noise, hidden.at[0].add(1), ()

    def acted(self, state, hidden, action):
        return hidden.at[1].set(action.sum())

    def noise(self, spec):
        return self.shape


def noise_of(behaviour, agent, spec, steps, count):
    """The noise `count steps ...` that is handed to the agent in so many episodes."""
    state = behaviour.init(jax.random.key(0), agent, spec)

    def step(hidden, key):
        action, hidden, _, source = behaviour.act(state, agent, (), hidden, jnp.zeros(2), spec, at(0.0), key)
        return behaviour.acted(agent, (), hidden, action), (action, source)

    def episode(key):
        return jax.lax.scan(step, behaviour.hidden(agent, spec), jax.random.split(key, steps))

    hidden, (noise, source) = jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), count))
    assert (source == 0).all()
    np.testing.assert_array_equal(hidden.agent[:, 0], steps)
    np.testing.assert_allclose(hidden.agent[:, 1], noise[:, -1].reshape(count, -1).sum(-1), rtol=1e-5, atol=1e-5)
    return np.asarray(noise)


BOX = spaces.Box(-1, 1, (2,))
FOUR = Spec("Four", BOX, spaces.Discrete(4))
PENDULUM = Spec("Pendulum-v1", BOX, spaces.Box(-2, 2, (1,)))


def at(share):
    """The clock at this share of a run."""
    return Clock(jnp.int32(1000 * share), jnp.float32(1000))


def actions(behaviour, agent, observation, spec, share=0.0, count=4000, hidden=6):
    """What is done in `count` independent environments; each remembers the number `hidden`."""

    def one(key):
        return behaviour.act((), agent, (), jnp.int32(hidden), observation, spec, at(share), key)

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), count))
