"""SAC-RND: both networks and the penalty by hand, training on the data, and the places of the penalty."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces

from forage.agents.actor_critic.base import UpdateInputs
from forage.agents.actor_critic.sac import SAC
from forage.core.types import Experience, ForageError, Spec
from forage.nn.critics import each_value
from forage_papers.agents.actor_critic.offline.sac_rnd import SACRND, Bilinear, ModulatedNetwork

small.keep_compiled()
SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (8,), np.float32), spaces.Box(-2.0, 2.0, (1,), np.float32))
TAUGHT = {"novelty_hidden": 32, "novelty_size": 4, "taught_updates": 1000, "novelty_learning_rate": 3e-3}
AGENT = SACRND(hidden_sizes=(4,), batch_size=64, penalty=0.5, **TAUGHT)
KEY = jax.random.key(0)


def data(count=1024):
    """Return actions between -2 and 0 alone, with random observations."""
    random = np.random.default_rng(0)
    seen = random.uniform(-1, 1, (count, 8)).astype(np.float32)
    action = random.uniform(-2, 0, (count, 1)).astype(np.float32)
    flags = np.zeros(count, bool)
    return Experience(seen, action, np.zeros(count, np.float32), seen, flags, flags, np.zeros(count, np.int32), ())


@pytest.fixture(scope="module")
def state():
    return jax.device_get(small.at_once(lambda: AGENT.init_from_dataset(AGENT.init(KEY, SPEC), jax.device_put(data()))))


def test_the_networks_by_hand():
    seen, action = np.float32([[0.5, -1.0], [2.0, 0.1]]), np.float32([[0.3], [-0.7]])
    random, taught = jax.device_get(
        small.at_once(lambda: (ModulatedNetwork(KEY, 2, 1, 8, 3), Bilinear(jax.random.key(1), 2, 1, 8, 3)))
    )
    found = small.compute(lambda: (random(seen, action), taught(seen, action)))
    relu = lambda x: np.maximum(x, 0)  # noqa: E731
    of = lambda layer, x: x @ layer.weight + layer.bias  # noqa: E731
    x = action
    for layer in random.body.layers[:2]:
        x = relu(of(layer, x))
    scale, shift = np.split(of(random.film, seen), 2, axis=1)
    expected = of(random.last, relu(scale * of(random.body.layers[2], x) + shift))
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    x = relu(np.stack([[a @ w @ s for w in taught.weight] for a, s in zip(action, seen, strict=True)]) + taught.bias)
    for layer in taught.body.layers[:2]:
        x = relu(of(layer, x))
    np.testing.assert_allclose(found[1], of(taught.body.layers[2], x), rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
def test_what_the_data_lack_is_dear(state):
    novelty = state.novelty
    np.testing.assert_allclose(novelty.states.mean, data().observation.mean(0), atol=1e-5)
    np.testing.assert_allclose(novelty.actions.mean, data().action.mean(0) / 2, atol=1e-5)
    random = np.random.default_rng(1)
    seen = random.uniform(-1, 1, (100, 8)).astype(np.float32)
    inside, outside = (random.uniform(*ends, (100, 1)).astype(np.float32) for ends in ((-1, 0), (0.8, 1)))
    price, error, far = small.compute(
        lambda n: (n.price(seen, inside), n.error(seen, inside), n.price(seen, outside)), novelty
    )
    np.testing.assert_allclose(price, error / np.sqrt(novelty.errors.variance), rtol=1e-4)
    assert far.mean() > 4 * price.mean(), (price.mean(), far.mean())


def test_where_the_price_stands(state):
    """Against SAC with the same networks: the penalty is in the next value, times the discount, and in the actor's
    loss.
    """
    plain = SAC(hidden_sizes=(4,), critic_norm="layer", discount=AGENT.discount)
    rows, noise = data(3), np.float32([[0.3], [-1.0], [0.1]])
    ended = np.array([False, True, False])

    def run_both(agent, state):
        inputs = UpdateInputs(rows._replace(terminated=ended), rows.action, jnp.ones(3), noise, noise)
        return agent.target(state, inputs), agent.actor_loss(state.actor, state, inputs)[0]

    mine, theirs, price = small.compute(
        lambda s: (
            run_both(AGENT, s),
            run_both(plain, s),
            s.novelty.price(rows.observation, s.actor(rows.observation).from_noise(noise)[0]),
        ),
        state,
    )
    np.testing.assert_allclose(mine[0], theirs[0] - 0.99 * 0.5 * price * ~ended, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(mine[1], theirs[1] + 0.5 * price.mean(), rtol=1e-4)


@pytest.mark.thorough
def test_what_was_taught_outlives_a_reset(state):
    agent = dataclasses.replace(AGENT, reset_interval=1)
    batch = jax.tree.map(lambda x: x[None], data(4))
    later = small.compute(
        lambda s: agent.reset_networks(s, type("B", (), {"experience": batch}), jax.random.key(5), SPEC)[0],
        state._replace(updates=np.int32(2)),
    )
    assert small.differing(later.novelty, state.novelty) == []
    before, after = (each_value(s.critics, data(4).observation, data(4).action) for s in (state, later))
    assert np.abs(np.asarray(before) - np.asarray(after)).max() > 0


def test_it_sees_vectors():
    image = Spec("Image", spaces.Box(0, 1, (10, 10, 3)), SPEC.action_space)
    with pytest.raises(ForageError, match="SACRND needs vectors of numbers, and Image gives"):
        check(AGENT, image)


@pytest.mark.thorough
def test_the_policy_stays_where_the_data_are():
    """The data's rewards are 3 + a, and no action above 0 is in them: SAC moves there."""

    def choose(agent):
        rows = data()
        rows = jax.device_put(rows._replace(reward=3 + rows.action[:, 0], terminated=np.ones(1024, bool)))
        noise = jnp.zeros((1024, 1))

        def update(i, state):
            draws = jax.random.normal(jax.random.fold_in(KEY, i), (2, 1024, 1))
            return agent.update(state, UpdateInputs(rows, rows.action / 2, jnp.ones(1024), *draws))[0]

        def run():
            first = agent.init(KEY, SPEC)
            first = agent.init_from_dataset(first, rows) if isinstance(agent, SACRND) else first
            state = jax.lax.fori_loop(0, 1000, update, first)
            return state.actor(rows.observation).from_noise(noise)[0].mean()

        return float(small.compute(run))

    cold = {"hidden_sizes": (32,), "learning_rate": 3e-3, "initial_temperature": 1e-3, "target_entropy": -3.0}
    assert choose(SAC(**cold)) > 0.4
    assert choose(SACRND(**cold, novelty_hidden=32, batch_size=256, penalty=2.0)) < 0.1
