"""OpenES: its estimator by hand, refusals, and learning."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces
from jax.flatten_util import ravel_pytree
from tiers import gate_cases

from forage.agents.evolution.open_es import OpenES, centred_ranks, gradient
from forage.config import registry
from forage.config.resolve import resolve
from forage.core.types import Clock, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers.together import EnvironmentCopies

small.keep_compiled()
SPEC = Spec("Test", spaces.Box(-1, 1, (2,)), spaces.Discrete(3))
CLOCK = Clock(jnp.int32(12), jnp.float32(1200))
KEY = jax.random.key(0)
QUICK: dict[str, Any] = {"num_envs": 8, "hidden_sizes": (4,)}


@pytest.mark.parametrize(
    ("returns", "ranks"),
    [
        ([30, 10, 20], [0.5, -0.5, 0]),
        ([5, 5, 1, 9], [0, 0, -0.5, 0.5]),  # ranks 1 and 2 of 0 to 3 are shared
        ([7, 7, 7, 7], [0, 0, 0, 0]),
    ],
)
def test_ranks_are_centred_and_shared(returns, ranks):
    np.testing.assert_allclose(small.compute(centred_ranks, jnp.array(returns, jnp.float32)), ranks, atol=1e-7)


def test_the_gradient_is_that_of_the_formula():
    """-(x^2 + y^2) around (1, 2), with the draws (1, 0) and (0, 1) and sigma 1/2.

    Returns are -6.25, -7.25 | -4.25, -3.25 and ranks -1/6, -1/2 | 1/6, 1/2, so the sum over n is (-1/3, -1) / 4.
    """
    population = jnp.array([[1.5, 2], [1, 2.5], [0.5, 2], [1, 1.5]])
    found = small.compute(lambda p: gradient(p, -(p**2).sum(1), 0.5), population)
    np.testing.assert_allclose(found, [-1 / 12, -1 / 4], rtol=1e-6)


def test_the_gradient_of_a_quadratic_points_to_its_top():
    mean, noise = jnp.array([3.0, 4.0]), 0.1 * jax.random.normal(KEY, (1000, 2))
    population = jnp.concatenate([mean + noise, mean - noise])
    found = small.compute(lambda p: gradient(p, -(p**2).sum(1), 0.1), population)
    assert found @ np.array([-0.6, -0.8]) / np.linalg.norm(found) > 0.999


def test_pairs_of_an_even_function_cancel():
    noise = jax.random.normal(KEY, (50, 2))
    population = jnp.concatenate([noise, -noise])
    assert (small.compute_exactly(lambda p: gradient(p, (p**4).sum(1), 1.0), population) == 0).all()


@pytest.mark.thorough
def test_a_population_is_of_mirrored_pairs():
    agent = OpenES(num_envs=400, episodes=2, sigma=0.1, hidden_sizes=(8,))
    state, population = small.at_once(lambda: (s := agent.init(KEY, SPEC), agent.ask(s, KEY)))
    for mean, members in zip(jax.tree.leaves(state.network), jax.tree.leaves(population), strict=True):
        assert members.shape == (200, *mean.shape)
        np.testing.assert_allclose(
            (members[:100] + members[100:]) / 2, jnp.broadcast_to(mean, (100, *mean.shape)), atol=1e-6
        )
    differences = jax.tree.map(lambda members, mean: members - mean, population, state.network)
    assert np.concatenate([leaf.ravel() for leaf in jax.tree.leaves(differences)]).std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_equal_returns_teach_nothing_but_decay(decay):
    """The first step of Adam is as long as the learning rate in every parameter that has a gradient."""
    agent = OpenES(**QUICK, weight_decay=decay, learning_rate=1e-3)

    def learn():
        state = agent.init(KEY, SPEC)
        return state, agent.tell(state, agent.ask(state, KEY), jnp.ones(8), CLOCK)

    before, after = small.at_once(learn)
    for old, new in zip(jax.tree.leaves(before.network), jax.tree.leaves(after.network), strict=True):
        np.testing.assert_allclose(new, old - (1e-3 * jnp.sign(old) if decay else 0), atol=2e-6)


def test_steps_are_those_of_the_authors_program():
    """Its gradient is not divided by sigma, relative to the weight decay (es_distributed/es.py)."""
    agent = OpenES(**QUICK, weight_decay=0.1)
    returns = jnp.array([[3.0, 1, 4, 1, 5, 9, 2, 6], [8.0, 2, 8, 1, 7, 3, 5, 4]])

    def learn():
        state, told = agent.init(KEY, SPEC), []
        for number in range(2):
            population = agent.ask(state, jax.random.fold_in(KEY, number))
            members = jax.vmap(lambda member: ravel_pytree(member)[0])(population)
            told.append((ravel_pytree(state.network)[0], members))
            state = agent.tell(state, population, returns[number], CLOCK)
        return told, ravel_pytree(state.network)[0]

    told, found = small.at_once(learn)
    first = second = 0.0
    theta = told[0][0]
    for time, ((_, members), paid) in enumerate(zip(told, returns, strict=True), 1):
        rank = np.asarray(small.compute(centred_ranks, paid))
        noise = (members[:4] - members[4:]) / (2 * agent.sigma)
        slope = -(rank[:4] - rank[4:]) @ noise / 8 + 0.1 * theta
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        rate = agent.learning_rate * np.sqrt(1 - 0.999**time) / (1 - 0.9**time)
        theta = theta - rate * first / (np.sqrt(second) + 1e-8)
    np.testing.assert_allclose(found, theta, atol=2e-5)


def check_refused(
    words: str, environment: Any = "CartPole-v1", options: dict[str, Any] | None = None, **more: Any
) -> None:
    with pytest.raises(ForageError, match=words):
        resolve("open-es", environment, seeds=1, agent_options=QUICK | (options or {}), **more).runner()


def test_what_cannot_be_is_refused():
    check_refused("take a num_envs that 4 divides, not 6", options={"num_envs": 6, "episodes": 2})
    check_refused("sigma of open-es is above 0", options={"sigma": 0.0})
    check_refused(
        "last up to 500 steps; give it a rollout_length of 500 or more, not 100", options={"rollout_length": 100}
    )
    check_refused("runs on the host; use a native environment such as CartPole-v1", "gymnasium:CartPole-v1")
    check_refused(
        "OpenES needs one agent, and EnvironmentCopies has 2; ppo learns there", EnvironmentCopies(CartPole(), 2)
    )
    check_refused("visits cannot be counted; leave visits out", "tabular:Chain-5", visits=True)


@pytest.mark.parametrize(
    ("port", "name"),
    [
        ("behaviour", "epsilon-greedy"),
        ("memory", "uniform"),
        ("rewards", "rnd"),
        ("starts", "archive"),
    ],
)
def test_parts_without_use_are_refused(port, name):
    part = registry.build(port, name, {})
    check_refused(f"plays itself, so --{port} {name} has no use there; leave it out", **{port: part})


@pytest.mark.thorough
@pytest.mark.parametrize("environment", gate_cases(["Pendulum-v1", "grid:Empty-5x5"], ["Pendulum-v1"]))
def test_other_spaces_work(environment):
    sizes = {"hidden_sizes": (4,)} if environment == "Pendulum-v1" else {}
    runner = resolve("open-es", environment, seeds=2, agent_options={"num_envs": 4} | sizes).runner()
    runner.begin()
    report = runner.advance(2)
    assert report.agent_finite.all() and report.environment_finite.all() and (report.episodes.count >= 8).all()


@pytest.mark.thorough
def test_it_learns_to_balance():
    setup = resolve("open-es", "CartPole-v1", steps=320_000, seeds=5, agent_options={"hidden_sizes": (16,)})
    runner = setup.runner()
    runner.begin()
    runner.advance(10)
    assert runner.steps == 320_000
    assert (runner.evaluate(20, 500, seed=1).returns.mean(1) >= 475).all()
