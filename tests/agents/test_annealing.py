"""The learning rate of the update, at several points of a run, for every agent that anneals it."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.agents.language.base import LanguageAgent
from forage.agents.offline.iql import IQL
from forage.config import part_options, registry
from forage.config.resolve import resolve
from forage.core.types import Batch, Clock

RATE, FINAL, TOTAL = 0.4, 0.25, 1000
DESCENTS = {"descent": 0, "optimiser": 0, "step": 3}  # methods that are given a learning rate, and at which place
ELSEWHERE = {"vdn", "qmix"}  # learn by DQN's method, from more than a transition of zeros


class FoundError(Exception):
    """Stops tracing once the update has asked for its optimiser."""


def rates(name, options, monkeypatch, moments):
    """Return the learning rates of an agent's updates after these numbers of steps."""
    agent, environment, _ = small.ROWS[name]
    options = options | {"learning_rate": RATE, "final_learning_rate": FINAL}
    setup = resolve(agent, environment, steps=TOTAL, seeds=1, agent_options=options)
    learner, spec, key = setup.learner(), setup.spec, jax.random.key(0)
    agent = learner.agent

    def at(steps):
        state = agent.init(key, spec)
        behaviour = learner.behaviour.init(key, agent, spec)
        example = learner.example(state, behaviour, environment=setup.environment)
        size = agent.num_envs * spec.num_agents if agent.on_policy else agent.batch_size
        length = agent.rollout_length if agent.on_policy else agent.segment
        rows = jax.tree.map(lambda x: jnp.zeros((length, size, *x.shape), x.dtype), example)

        def telling(place):
            def tell(self, *given):
                raise FoundError(given[place] if given else self.learning_rate)

            return tell

        with monkeypatch.context() as patched:
            for method, place in DESCENTS.items():
                if callable(getattr(type(agent), method, None)):
                    patched.setattr(type(agent), method, telling(place))
            try:
                agent.learn(state, Batch(rows, jnp.ones(size), jnp.arange(size)), Clock(steps, jnp.float32(TOTAL)), key)
            except FoundError as found:
                return jnp.asarray(found.args[0])
        raise AssertionError(f"{name} takes no step")

    return np.asarray(jax.jit(jax.vmap(at))(jnp.array(moments)))


def anneals(name):
    agent = small.ROWS[name][0]
    fields = part_options.fields(registry.part_class("agent", agent))
    return name == agent and name not in ELSEWHERE and any(field.name == "final_learning_rate" for field in fields)


ANNEALED = [name for name in small.AGENTS if anneals(name)]


@pytest.mark.parametrize("name", ANNEALED)
def test_the_rate_falls_linearly_to_its_final_share(name, monkeypatch):
    """Agents that learn from rollouts count the steps before the newest one, so that the first update has it all."""
    options = small.ROWS[name][2]
    agent = registry.part_class("agent", small.ROWS[name][0])(**options)
    rollout = agent.num_envs * agent.rollout_length if agent.on_policy else 0
    moments = np.array([rollout, rollout + 500, rollout + 900, 1000, 2000])
    share = np.minimum(np.maximum(moments - rollout, 0) / TOTAL, 1.0)
    expected = RATE * (1 - share * (1 - FINAL))
    np.testing.assert_allclose(rates(name, options, monkeypatch, moments), expected, rtol=1e-5)


def test_the_rate_of_agents_of_language_falls_linearly_too():
    """All of them ask `LanguageAgent.rate`, here of rollouts of 8 environments and 3 steps."""
    agent = SimpleNamespace(
        num_envs=8, rollout_length=3, learning_rate=RATE, final_learning_rate=FINAL, warmup_share=0.0
    )
    for steps, share in ((0, 0.0), (24, 0.0), (524, 0.5), (924, 0.9), (2000, 1.0)):
        rate = LanguageAgent.rate(agent, Clock(jnp.int32(steps), jnp.float32(TOTAL)))
        np.testing.assert_allclose(rate, RATE * (1 - share * (1 - FINAL)), rtol=1e-5)


def test_the_rate_of_iqls_policy_falls_by_half_a_cosine():
    """A step down a gradient of 1 is the rate: the whole of it, half of it half-way, and 0 at the end."""
    for anneal, shares in ((True, (1.0, 0.5, 0.0)), (False, (1.0, 1.0, 1.0))):
        agent = IQL(optimiser="sgd", learning_rate=RATE, anneal_policy=anneal)
        for steps, share in zip((0, 500, 1000), shares, strict=True):
            descent, weight = agent.policy_optimiser(Clock(jnp.int32(steps), jnp.float32(TOTAL))), jnp.zeros(1)
            found, _ = descent.step(jnp.ones(1), descent.init(weight), weight)
            np.testing.assert_allclose(found, [-RATE * share], atol=1e-7)
