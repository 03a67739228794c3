"""Ensemble-diversified critics: their loss by hand, SAC-N without diversity, and the effect of diversity."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from critic_helpers import inputs_of
from gymnasium import spaces
from small import at_once, compute

from forage.core.types import Spec
from forage.nn.critics import alignment, each_value
from forage_papers.agents.settings import EDAC, SACN

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (2,), np.float32))
AGENT = EDAC(hidden_sizes=(8,), critics=3, diversity=0.6)


@functools.cache
def critics():
    return at_once(lambda: AGENT.init(jax.random.key(0), SPEC)).critics


def batch():
    random = np.random.default_rng(0)
    return random.normal(size=(5, 3)), random.uniform(-1, 1, (5, 2)), random.normal(size=5), np.ones(5)


def test_the_loss_by_hand():
    """Gradients by differences: the critics are piecewise linear."""
    observation, action, target, _ = batch()
    weight = np.array([1.0, 2.0, 1.0, 0.0, 1.0])
    loss, report = compute(AGENT.critic_loss, critics(), inputs_of(observation, action, weight=weight), target)
    values = lambda action: np.asarray(each_value(critics(), jnp.asarray(observation), jnp.asarray(action)))  # noqa: E731
    step = 1e-2
    slopes = np.stack([values(action + step * axis) - values(action - step * axis) for axis in np.eye(2)], axis=-1)
    slopes /= np.linalg.norm(slopes, axis=-1, keepdims=True)
    alike = sum(np.sum(slopes[i] * slopes[j], axis=-1) for i in range(3) for j in range(3) if i != j) / 2
    errors = np.sum(np.mean(weight * (values(action) - target) ** 2, axis=1))
    np.testing.assert_allclose(loss, (errors + 0.6 * np.mean(weight * alike)) / 2, rtol=0.02)
    np.testing.assert_allclose(report.loss, errors / 2, rtol=1e-4)


def test_without_diversity_it_is_sac_n():
    n = SACN(hidden_sizes=(8,), critics=3)
    observation, action, target, _ = batch()
    inputs = inputs_of(observation, action)
    plain = compute(n.critic_loss, critics(), inputs, target)[0]
    assert plain == compute(dataclasses.replace(AGENT, diversity=0.0).critic_loss, critics(), inputs, target)[0]
    assert plain != compute(AGENT.critic_loss, critics(), inputs, target)[0]


def test_diversity_parts_the_critics():
    observation, action, target, _ = (jnp.asarray(x) for x in batch())
    inputs = inputs_of(observation, action)

    def run_learn(agent):
        slope = jax.grad(agent.critic_loss, has_aux=True)
        step = lambda _, c: jax.tree.map(lambda x, g: x - 0.05 * g, c, slope(c, inputs, target)[0])  # noqa: E731
        return alignment(jax.lax.fori_loop(0, 200, step, critics()), observation, action).mean()

    alike, parted = compute(lambda: (run_learn(SACN(hidden_sizes=(8,), critics=3)), run_learn(AGENT)))
    assert parted < alike - 0.5  # of 3 at most; three vectors in the plane part to -1.5
