"""Agents of language with another kind of learning than GRPO's: supervised, preferences, a critic, evolution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_grpo import collected, learned, model

from forage.config.setup import make_setup
from forage_papers.agents.language.evolution import LanguageES

OPTIONS = {
    "sft": {},
    "online-dpo": {"group_size": 4, "learning_rate": 1e-3},
    "xpo": {},
    "ppo-language": {"minibatches": 2},
    "language-es": {"population": 4, "sigma": 0.02, "learning_rate": 0.02},
}


def setup_of(name: str, environment: str = "text:addition", **options):
    options = {"model": model(), "num_envs": 8} | OPTIONS[name] | options
    return make_setup(name, environment, agent_options=options, steps=64, seeds=[0])


@pytest.mark.thorough
def test_members_have_opposite_noise_and_the_better_is_followed():
    agent, state, batch = collected(setup_of("language-es"), reward=[1, 0, 0, 0, 1, 0, 0, 0])
    assert isinstance(agent, LanguageES)
    first, second = (agent.noised(state.network, state.seed, jnp.int32(number)) for number in (0, 1))
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == -b).all()), first, second))
    after, metrics, _ = learned(agent, state, batch)
    assert metrics["best_member"] == 1 and np.isclose(metrics["spread"], np.std([1, 0, 0, 0]))
    # z is (3, -1, -1, -1) / sqrt 3; of the other pair nothing is left, and of the first 4 / sqrt 3.
    moved = jax.tree.map(lambda a, b: a - b, after.network, state.network)
    expected = jax.tree.map(lambda e: 0.02 / 4 * (4 / np.sqrt(3)) * e, first)
    assert jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.allclose(a, b, atol=1e-5)), moved, expected))
    assert not np.array_equal(after.seed, state.seed)
