"""Latent Go-Explore: density and ranks by hand, training, and the spread of starts."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check

from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config.ranges import check_ranges
from forage.core.ports import Environment, RolloutReport, RolloutStates
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.environments.classic.cartpole import CartPole
from forage.environments.classic.deep_sea import DeepSea
from forage.environments.classic.pendulum import Pendulum
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.rewards.environment import EnvironmentReward
from forage.tasks.same import Same
from forage_papers.starts.latent import Transition, density, smallest
from forage_papers.starts.latent_go_explore import LatentGoExplore, drawn_rank
from forage_papers.tasks.phases import Phases

KEY = jax.random.key(0)


def spec_of(environment: Environment) -> Spec:
    return Spec(type(environment).__name__, environment.observation_space, environment.action_space)


def test_the_kth_smallest_is_where_sorting_puts_it():
    numbers = np.asarray([3.0, 0.0, 7.5, 3.0, np.inf, 1e-30, 0.0, 2.5e30], np.float32)
    for k, wanted in enumerate(np.sort(numbers), 1):
        assert smallest(jnp.asarray(numbers), jnp.int32(k)) == wanted


@pytest.mark.thorough
def test_density_is_by_the_distance_to_the_kth_nearest():
    codes = np.random.default_rng(0).normal(size=(12, 3))
    found = np.asarray(density(jnp.asarray(codes, jnp.float32), jnp.int32(9), 4))
    distance = np.linalg.norm(codes[:9, None] - codes[:9], axis=-1)
    np.testing.assert_allclose(found[:9], -np.sort(distance, axis=1)[:, 4], rtol=1e-4)  # column 0 is itself
    assert np.isinf(found[9:]).all() and (found[9:] > 0).all()
    few = np.asarray(density(jnp.asarray(codes, jnp.float32), jnp.int32(3), 4))
    np.testing.assert_allclose(few[:3], -distance[:3, :3].max(1), rtol=1e-4)
    assert np.isfinite(density(jnp.asarray(codes, jnp.float32), jnp.int32(0), 4)).sum() == 0


@pytest.mark.parametrize(("p", "kept"), [(0.3, 4), (0.05, 1000), (0.0, 5), (0.9, 1)])
def test_ranks_follow_a_geometric_law_that_ends(p, kept):
    shares = (np.arange(20_000) + 0.5) / 20_000
    ranks = np.asarray(jax.vmap(lambda share: drawn_rank(share, jnp.float32(p), jnp.int32(kept)))(shares))
    weights = (1 - p) ** np.arange(kept)
    np.testing.assert_allclose(np.bincount(ranks, minlength=kept) / 20_000, weights / weights.sum(), atol=2e-4)


@pytest.mark.parametrize(
    ("model", "environment"),
    [("inverse", CartPole()), ("inverse", Pendulum()), ("forward", CartPole()), ("autoencoder", DeepSea(4))],
)
@pytest.mark.thorough
def test_the_encoder_learns(model, environment):
    starts = LatentGoExplore(model=model, capacity=64, neighbours=3, batch_size=32, learning_rate=3e-3)

    @jax.jit
    def run(key):
        state = starts.init(key, environment, spec_of(environment), 1)

        def step(env_state, key):
            action_key, step_key = jax.random.split(key)
            space: Any = environment.action_space
            if hasattr(space, "n"):
                action = jax.random.randint(action_key, (), 0, int(space.n))
            else:
                action = jax.random.uniform(action_key, space.shape, minval=space.low, maxval=space.high)
            before = env_state
            env_state, step = environment.step(env_state, action, step_key)
            return before, (action, step.observation)

        first, seen = environment.reset(key)
        _, (action, after) = jax.lax.scan(step, first, jax.random.split(key, 64))
        before = jax.tree.map(lambda x: jnp.broadcast_to(x, (64, *x.shape)), seen)
        transitions = Transition(before, action, after)

        def loss(latent):
            return jax.vmap(latent.loss)(transitions).mean()

        latent, _ = starts.train(state, None, transitions, jnp.int32(64), 150, key)
        return loss(state.latent), loss(latent)

    before, after = run(KEY)
    assert after < 0.6 * before


def test_what_began_in_a_kept_state_is_cut():
    starts = LatentGoExplore(burst=4)
    assert starts.cut(jnp.bool_(True), jnp.int32(4)) and not starts.cut(jnp.bool_(True), jnp.int32(3))
    assert not starts.cut(jnp.bool_(False), jnp.int32(100))


def test_the_state_that_a_burst_ends_in_is_kept():
    environment = DeepSea(4)
    starts = LatentGoExplore(capacity=8, neighbours=1, batch_size=2, latent_size=2, hidden_sizes=(4,))
    seen = np.arange(3.0, dtype=np.float32)[:, None, None, None] * np.ones((3, 1, 4, 4), np.float32)
    flags = np.zeros((3, 1), bool)
    cut, gone = np.array([[0], [1], [0]], bool), np.array([[0], [0], [1]], bool)
    rollout = Experience(seen, flags.astype(np.int32), 0.0 * flags, seen, gone, cut, flags.astype(np.int32), ())

    @jax.jit
    def run(rollout):
        state = starts.init(KEY, environment, spec_of(environment), 1)
        env_states = jax.tree.map(lambda x: jnp.broadcast_to(x, (3, 1, *x.shape)), environment.reset(KEY)[0])
        visited = RolloutStates(env_states, ~flags, gone, flags[0])
        clock = Clock(jnp.int32(0), jnp.float32(100))
        return starts.report(state, rollout, RolloutReport(environment, visited, clock, KEY)).reservoir

    reservoir = run(rollout)
    assert reservoir.seen == 2
    np.testing.assert_array_equal(reservoir.places[1].next_observation[:2, 0, 0], [0, 1])


@pytest.mark.thorough
def test_states_are_ranked_after_each_period():
    environment = DeepSea(4)
    starts = LatentGoExplore(
        capacity=8, neighbours=1, batch_size=2, latent_size=2, hidden_sizes=(4,), every=2, period=6, probability=1.0
    )
    seen = np.random.default_rng(0).random((4, 1, 4, 4)).astype(np.float32)
    flags = np.zeros((4, 1), bool)
    rollout = Experience(seen, flags.astype(np.int32), 0.0 * flags, seen, flags, flags, flags.astype(np.int32), ())

    @jax.jit
    def turn(state, rollout, steps, key):
        env_states = jax.tree.map(lambda x: jnp.broadcast_to(x, (4, 1, *x.shape)), environment.reset(KEY)[0])
        visited = RolloutStates(env_states, ~flags, flags, flags[0])
        review = RolloutReport(environment, visited, Clock(steps, jnp.float32(100)), key)
        return starts.report(state, rollout, review)

    begin = jax.jit(lambda state, key: starts.begin(state, environment, key, jnp.int32(0))[2])
    state, ranked, trained = starts.init(KEY, environment, spec_of(environment), 1), [], []
    for steps in (0, 4, 8, 12):
        assert begin(state, KEY) == (state.ranked > 0)
        before, state = state, turn(state, rollout, jnp.int32(steps), jax.random.fold_in(KEY, steps))
        ranked.append(int(state.ranked))
        moved = jax.tree.map(lambda x, y: not np.array_equal(x, y), before.latent, state.latent)
        trained.append(any(jax.tree.leaves(moved)))
    assert ranked == [0, 8, 8, 8]  # 6 steps are over in the second rollout, 12 in the third, 18 in none
    assert trained == [False, True, True, False] and state.reservoir.seen == 16


@pytest.mark.thorough
def test_starts_are_where_few_have_been():
    """In the loop: random actions rarely get deep into the sea, so starts are further out than the kept states."""
    environment = DeepSea(12)
    agent = PPO(num_envs=8, rollout_length=48, epochs=1, minibatches=1, hidden_sizes=(8,), learning_rate=0.0)
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), LastRollout(), spec_of(environment))
    starts = LatentGoExplore(capacity=256, probability=1.0, every=48, batch_size=16, hidden_sizes=(16,))
    loop = DeviceLoop(learner, environment, Same(), starts)
    loop.check()

    @jax.jit
    def run(loop):
        def turn(carry, _):
            state, clock = carry
            state, tally = loop.iterate(state, clock)
            return (state, clock._replace(steps=clock.steps + 8 * 48)), tally.faults

        carry = (loop.init(jax.random.key(1)), Clock(jnp.int32(0), jnp.float32(15 * 8 * 48)))
        (state, _), faults = jax.lax.scan(turn, carry, None, 15)
        keys = jax.random.split(KEY, 300)
        begun, seen, _ = jax.vmap(lambda key: loop.starts.begin(state.starts, environment, key, jnp.int32(0)))(keys)
        kept, transitions = state.starts.reservoir.places
        whole = (jax.vmap(environment._observe)(kept) == transitions.next_observation).all()
        return begun, kept, whole & (jax.vmap(environment._observe)(begun) == seen).all(), faults.sum()

    begun, kept, whole, faults = run(loop)
    assert faults == 0 and whole  # states and what was seen of them stay together
    assert begun.column.mean() > kept.column.mean() + 0.3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: LatentGoExplore(model="vae"), "model of LatentGoExplore is one of inverse, forward, autoencoder"),
        (lambda: LatentGoExplore(capacity=10), "neighbours of LatentGoExplore is below capacity"),
        (lambda: check_ranges(LatentGoExplore(p=1.0), "it"), "p of it is 0 or more|p of it is"),
        (lambda: check(LatentGoExplore(), CartPole(), Phases("length", (0.5, 1.0), (10,))), "--tasks same"),
    ],
)
def test_mistakes_are_named(make, words):
    with pytest.raises(ForageError, match=words):
        make()
