"""The archive: a uniform sample of visited states, in which episodes begin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config.ranges import check_ranges
from forage.core.ports import RolloutReport, RolloutStates
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.rewards.environment import EnvironmentReward
from forage.tasks.same import Same
from forage_papers.starts.archive import Archive

CAPACITY = 20
SPEC = Spec("CartPole", CartPole().observation_space, CartPole().action_space)


@jax.jit
def offer_all(archive, key, eligible):
    """Offers the places 0, 1, 2 ... (`rollout env` of them) to an empty archive."""
    rollouts, envs = eligible.shape
    state = small.at_once(lambda: archive.init(key, CartPole(), SPEC, 1))
    state = state._replace(places=(jnp.full(archive.capacity, -1), jnp.full(archive.capacity, -1)))

    def offer(state, inputs):
        places, eligible, key = inputs
        return archive.offer(state, (places, 10 * places), eligible, key), None

    places = jnp.arange(rollouts * envs).reshape(rollouts, envs)
    return jax.lax.scan(offer, state, (places, eligible, jax.random.split(key, rollouts)))[0]


def test_the_archive_is_a_uniform_sample_of_what_was_offered():
    eligible = jnp.ones((8, 10), bool).at[2].set(False).at[:, 3].set(False)
    archive = Archive(capacity=CAPACITY)
    keys = jax.random.split(jax.random.key(0), 400)
    state = jax.vmap(lambda key: offer_all(archive, key, eligible))(keys)
    kept, beside = (np.asarray(x) for x in state.places)
    allowed = np.flatnonzero(eligible)

    np.testing.assert_array_equal(state.seen, len(allowed))
    np.testing.assert_array_equal(beside, 10 * kept)  # leaves of one place stay together
    assert all(len(set(row)) == CAPACITY for row in kept)
    assert set(kept.ravel()) == set(allowed)
    # Each is kept with probability 20 / 63 = 0.317; the standard error over 400 archives is 0.023.
    share = np.array([(kept == place).any(1).mean() for place in allowed])
    np.testing.assert_allclose(share, CAPACITY / len(allowed), atol=0.1)


def test_the_archive_fills_in_order_and_forgets_nothing_before_it_is_full():
    state = offer_all(Archive(capacity=CAPACITY), jax.random.key(0), jnp.ones((3, 5), bool).at[1, 2].set(False))
    assert sorted(state.places[0].tolist()) == [-1] * 6 + [place for place in range(15) if place != 7]


@jax.jit
def begin_many(archive, state, environment, keys):
    return jax.vmap(lambda key: archive.begin(state, environment, key, jnp.int32(0)))(keys)


def test_an_empty_archive_resets():
    archive, environment = Archive(capacity=4, probability=1.0), CartPole(reset_range=0.01)
    state = small.at_once(lambda: archive.init(jax.random.key(0), environment, SPEC, 3))
    keys = jax.random.split(jax.random.key(1), 50)
    _, observation, _ = begin_many(archive, state, environment, keys)
    assert jnp.abs(observation).max() <= 0.01 and len(np.unique(observation[:, 0])) == 50


@pytest.mark.thorough
def test_probability_mixes_returns_with_resets():
    environment = CartPole()
    archive = Archive(capacity=4, probability=0.3)
    env_state, _ = environment.reset(jax.random.key(0))
    far = env_state._replace(variables=jnp.array([1.0, 0.0, 0.0, 0.0]))
    state = small.at_once(lambda: archive.init(jax.random.key(0), environment, SPEC, 3))
    places = jax.tree.map(lambda x: x[None], (far, far.variables))
    state = archive.offer(state, places, jnp.array([True]), jax.random.key(2))
    keys = jax.random.split(jax.random.key(1), 1000)
    begun, observation, _ = begin_many(archive, state, environment, keys)
    returned = observation[:, 0] == 1.0
    assert abs(returned.mean() - 0.3) < 0.08  # five standard errors
    np.testing.assert_array_equal(begun.variables, observation)


def test_an_ended_episode_leaves_nothing():
    environment = CartPole()
    archive = Archive(capacity=8)
    envs = jnp.arange(3.0)
    states = jax.vmap(lambda x: environment.reset(jax.random.key(0))[0]._replace(variables=jnp.full(4, x)))(envs)
    observation = jnp.broadcast_to(envs[:, None], (2, 3, 4))
    flags = jnp.zeros((2, 3), bool)
    rollout = Experience(
        observation=observation,
        action=jnp.zeros((2, 3)),
        reward=jnp.zeros((2, 3)),
        next_observation=observation.at[0].set(-1.0),
        terminated=flags.at[1, 1].set(True),
        truncated=flags.at[1, 2].set(True).at[0, 0].set(True),
        source=jnp.zeros((2, 3)),
        policy_info=(),
    )
    visited = RolloutStates(jax.tree.map(lambda x: x[None], states), (), rollout.ended[-1:], flags[0])
    clock = Clock(jnp.int32(0), jnp.float32(1))
    state = small.at_once(lambda: archive.init(jax.random.key(0), environment, SPEC, 3))
    state = archive.report(state, rollout, RolloutReport(environment, visited, clock, jax.random.key(1)))
    assert state.seen == 1
    np.testing.assert_array_equal(state.places[1][0], jnp.zeros(4))
    np.testing.assert_array_equal(state.places[0].variables[0], jnp.zeros(4))


@pytest.mark.parametrize(
    ("arguments", "words"), [((0, 0.5), "capacity of it is 1 or more"), ((8, 1.5), "probability of it is from 0 to 1")]
)
def test_mistakes_are_named(arguments, words):
    with pytest.raises(ForageError, match=words):
        check_ranges(Archive(*arguments), "it")


@pytest.mark.thorough
def test_in_the_loop_episodes_begin_only_where_the_agent_has_been():
    environment = CartPole(max_steps=30)
    agent = PPO(num_envs=4, rollout_length=3, epochs=1, minibatches=1, hidden_sizes=(8,))
    spec = Spec("CartPole", environment.observation_space, environment.action_space)
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), small.KeptRollout(), spec)
    loop = DeviceLoop(learner, environment, Same(), Archive(capacity=64, probability=1.0))

    @jax.jit
    def run(loop):
        def turn(carry, _):
            state, clock = carry
            state, tally = loop.iterate(state, clock)
            clock = clock._replace(steps=clock.steps + loop.steps_per_iteration)
            return (state, clock), (tally, (state.learner.memory, state.actors.at, state.starts.seen))

        clock = Clock(jnp.int32(0), jnp.float32(1e6))
        state = loop.init(jax.random.key(0))
        _, (tallies, log) = jax.lax.scan(turn, (state, clock), None, 60)
        return jax.tree.map(lambda x: x.sum(0), tallies), log

    tally, (rollouts, at, seen) = jax.device_get(run(loop))
    assert not tally.faults and tally.episodes.count > 20

    # The flow of time in each environment: what led to what, and where something new began.
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rollouts)
    ended = flat.terminated | flat.truncated
    visited = {tuple(row) for row in flat.next_observation[~ended].tolist()}
    final = {tuple(row) for row in flat.next_observation[ended].tolist()}
    begun = flat.observation[1:][ended[:-1]]
    time = np.repeat(np.arange(60), 3)[1:, None].repeat(4, axis=1)[ended[:-1]]
    later = begun[time > 3]  # the archive is empty until the first rollout is over
    assert len(later) > 20
    places = [tuple(row) for row in later.tolist()]
    assert all(place in visited and place not in final for place in places)
    assert len(set(places)) > 5
    # State and observation belong together, and an episode that just ended adds nothing.
    np.testing.assert_array_equal(at.env_state.variables, at.observation)
    last = (rollouts.terminated | rollouts.truncated)[:, -1]
    np.testing.assert_array_equal(seen, np.cumsum((~last).sum(-1)))
