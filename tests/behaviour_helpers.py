"""Helpers for tests of behaviours: an agent made by hand, and many actions at once."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces

from forage.core.ports import ActContext, Agent, HiddenState
from forage.core.types import Clock, Spec


class AlwaysAgent(Agent):
    """Chooses its given action, and reports it."""

    on_policy: ClassVar[bool] = False
    action: Any = 0
    num_envs: int = 1
    rollout_length: int = 1

    def check(self, spec):
        pass

    def init(self, key, spec):
        return ()

    def act(self, state, inputs):
        return self.action, inputs.hidden + 1, {"explore": inputs.explore}

    def learn(self, state, batch, clock, key):
        raise NotImplementedError


class OnPolicy(AlwaysAgent):
    on_policy: ClassVar[bool] = True


class Values(AlwaysAgent):
    """Action values of `action` in any state, and one more for each step in memory."""

    def act(self, state, inputs):
        return jnp.argmax(self.action).astype(jnp.int32), inputs.hidden + 1, ()

    def action_values(self, state, hidden, observation):
        return self.action + hidden


class Noisy(AlwaysAgent):
    """Takes the noise as its action, and remembers the number of its calls and the sum of the last action."""

    shape: tuple[int, ...] = (2,)

    def init_hidden(self, spec):
        return jnp.zeros(2)

    def act(self, state, inputs):
        return inputs.noise, inputs.hidden.at[0].add(1), ()

    def observe_action(self, state, hidden, action):
        return hidden.at[1].set(action.sum())

    def noise(self, spec):
        return self.shape


def begin(behaviour, agent, spec):
    """Return the memory at the start of an episode, as the loop makes it."""
    return HiddenState(agent.init_hidden(spec), behaviour.init_hidden(agent, spec))


def decide(behaviour, state, hidden, observation, moment):
    """Return the behaviour's decision after the agent's memory was updated with the action, as in the loop."""
    decision = behaviour.act(state, hidden, observation, moment)
    memory = moment.agent.observe_action(moment.agent_state, decision.hidden.agent, decision.action)
    return decision._replace(hidden=decision.hidden._replace(agent=memory))


def noise_of(behaviour, agent, spec, steps, count):
    """Return the noise `count steps ...` that the agent gets in `count` episodes."""
    state = behaviour.init(jax.random.key(0), agent, spec)

    def step(hidden, key):
        decision = decide(behaviour, state, hidden, jnp.zeros(2), ActContext(agent, (), spec, at(0.0), key))
        return decision.hidden, (decision.action, decision.source)

    def episode(key):
        return jax.lax.scan(step, begin(behaviour, agent, spec), jax.random.split(key, steps))

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
    """Return the actions in `count` independent environments; each has the memory `hidden`."""

    def one(key):
        moment = ActContext(agent, (), spec, at(share), key)
        return behaviour.act((), HiddenState(jnp.int32(hidden)), observation, moment)

    return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), count))
