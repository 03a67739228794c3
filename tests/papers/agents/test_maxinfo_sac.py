"""MaxInfoSAC: the information gain by hand, its effect and its weight, and SAC at weight zero."""

import dataclasses
import functools

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces

from forage.agents.actor_critic.sac import SAC, SACState
from forage.core.types import GONE, MODEL, NOBODY, Batch, Clock, Experience, ForageError, Spec
from forage.nn.normalise import RunningNorm
from forage_papers.agents.actor_critic.maxinfo_sac import MaxInfoSAC, forgetting

SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-1.0, 1.0, (1,), np.float32))
CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(100)), jax.random.key(0)
AGENT = MaxInfoSAC(hidden_sizes=(8,), members=3, learning_rate=3e-3, noise_variance=0.5)


@functools.cache
def beginning(**options):
    agent = dataclasses.replace(AGENT, **options)
    return agent, small.at_once(lambda: agent.init(KEY, SPEC))


def batch_of(number=32, seed=0):
    rng = np.random.default_rng(seed)
    action = rng.uniform(-1, 1, (1, number, 1))
    seen = rng.normal(size=(1, number, 3))
    none = np.zeros((1, number), bool)
    experience = Experience(
        jnp.asarray(seen, jnp.float32), jnp.asarray(action, jnp.float32), jnp.asarray(action[..., 0], jnp.float32),
        jnp.asarray(seen + action, jnp.float32), none, none, jnp.zeros((1, number), jnp.int32), (),
    )  # fmt: skip
    return jax.device_put(Batch(experience, np.ones(number), np.zeros(number, jnp.int32)))


def test_the_gain_is_what_members_disagree_about_beyond_the_noise():
    agent, state = beginning()
    inputs = state.world.inputs._replace(count=jnp.float32(9), mean=np.full(4, 0.5), variance=np.full(4, 4.0))
    world = state.world._replace(inputs=inputs)
    seen, action = np.arange(6.0).reshape(2, 3), np.array([[0.3], [-0.2]])
    asked = (np.concatenate([seen, action], axis=1) - 0.5) / 2
    members = [
        jax.tree.map(lambda x, m=m: x[m], world.ensemble.members)(jnp.asarray(asked, jnp.float32)) for m in range(3)
    ]
    expected = np.log(1 + np.var(members, axis=0) / 0.5).mean(-1)
    assert expected.shape == (2,) and (expected > 0).all()
    np.testing.assert_allclose(agent.gain(world, seen, action), expected, rtol=1e-4)
    gains = world.gains._replace(count=jnp.float32(9), mean=jnp.float32(0.1), variance=jnp.float32(0.04))
    informed = agent.information(world._replace(gains=gains), seen, action)
    np.testing.assert_allclose(informed, (expected - 0.1) / 0.2, rtol=1e-4)


@functools.cache
def run_learn(steps=150, **options):
    agent, state = beginning(**options)

    @jax.jit
    def run(state):
        def update(state, key):
            state, metrics, errors = agent.learn(state, batch_of(), CLOCK, key)
            return state, (metrics, errors)

        return jax.lax.scan(update, state, jax.random.split(KEY, steps))

    return state, *run(state)


@pytest.mark.thorough
def test_the_ensemble_learns_what_follows_and_everything_moves():
    before, after, (metrics, errors) = run_learn()
    assert metrics["world_loss"][-1] < metrics["world_loss"][0] / 2
    assert metrics["information"][-1] < metrics["information"][0]  # what is known teaches no more
    assert errors.shape == (150, 32) and np.isfinite(jax.tree.leaves(metrics)).all()
    assert after.world.inputs.count == after.world.outputs.count == 150 * 32
    assert after.world.gains.count == 2 * 150 * 32
    for name in ("actor", "target_actor", "critics", "target_critics", "log_temperature", "log_information"):
        pairs = zip(jax.tree.leaves(getattr(before, name)), jax.tree.leaves(getattr(after, name)), strict=True)
        assert all((a != b).any() for a, b in pairs), name


@pytest.mark.thorough
def test_without_information_it_is_sac():
    agent, state = beginning(initial_information=1e-30, learn_information=False)
    sac = SAC(hidden_sizes=(8,), learning_rate=3e-3)
    own = SACState(**{field.name: getattr(state, field.name) for field in dataclasses.fields(SACState)})
    after = jax.jit(lambda s: agent.learn(s, batch_of(), CLOCK, KEY)[0])(state)
    assert after.log_information == state.log_information
    # The noise is drawn otherwise, so what does not depend on it is compared: the critics where nothing follows.
    batch = batch_of()
    ends = batch._replace(experience=batch.experience._replace(terminated=~batch.experience.terminated))
    mine = jax.jit(lambda s: agent.learn(s, ends, CLOCK, KEY))(state)
    theirs = jax.jit(lambda s: sac.learn(s, ends, CLOCK, KEY))(own)
    near = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)  # noqa: E731
    jax.tree.map(near, mine[0].critics, theirs[0].critics)
    near(mine[2], theirs[2])


@pytest.mark.parametrize("slower", [False, True])
@pytest.mark.thorough
def test_the_weight_rises_when_the_policy_learns_less_than_its_target_did(slower):
    """One policy stays at 0, without disagreement; the other is far off."""
    agent, state = beginning(learn_temperature=False)

    def going(actor, to):
        where = lambda a: (a.head.weight, a.head.bias)  # noqa: E731
        return equinox.tree_at(where, actor, (0 * actor.head.weight, jnp.array([to, -20.0])))

    still, far = going(state.actor, 0.0), going(state.actor, 3.0)
    # Members of one slope each in the action alone, which agree at 0.
    members = jax.tree.map(jnp.zeros_like, state.world.ensemble.members)
    slopes = np.array([1.0, 2.0, 3.0])
    where = lambda m: (m.layers[0].weight, m.layers[1].weight)  # noqa: E731
    first, last = (w for w in where(members))
    members = equinox.tree_at(where, members, (first.at[:, 3, 0].set(1.0), last.at[:, 0, :].set(slopes[:, None])))
    world = state.world._replace(ensemble=equinox.tree_at(lambda e: e.members, state.world.ensemble, members))
    actor, target = (still, far) if slower else (far, still)
    state = state._replace(actor=actor, target_actor=target, world=world)
    after, metrics, _ = jax.jit(lambda s: agent.learn(s, batch_of(), CLOCK, KEY))(state)
    assert (after.log_information > state.log_information) == slower
    assert (metrics["information"] > 0.5) == (not slower)


@pytest.mark.thorough
def test_a_policy_is_led_to_where_members_disagree():
    _, after, _ = run_learn(steps=1)
    agent, _ = beginning()
    world = after.world

    def gain(action):
        return agent.information(world, jnp.zeros((1, 3)), action[None])[0]

    slope = jax.grad(lambda a: gain(a).sum())(jnp.array([0.4]))
    assert np.isfinite(slope).all() and slope[0] != 0  # the actor's loss follows it


@pytest.mark.parametrize(
    ("options", "observed", "words"),
    [
        ({"members": 1}, spaces.Discrete(3), "members of MaxInfoSAC is 2 or more, not 1"),
        ({}, spaces.Box(0, 255, (8, 8, 3), np.uint8), "flatten it"),
    ],
)
def test_what_it_cannot_do(options, observed, words):
    with pytest.raises(ForageError, match=words):
        check(MaxInfoSAC(**options), Spec("Here", observed, SPEC.action_space))


def test_says_what_would_work():
    with pytest.raises(ForageError, match="continuous, bounded action space"):
        check(AGENT, Spec("CartPole-v1", SPEC.observation_space, spaces.Discrete(2)))


@pytest.mark.thorough
def test_the_ensemble_learns_from_what_an_action_did_alone_and_nothing_does_from_agents_that_have_left():
    agent, state = beginning()
    learn = jax.jit(agent.learn)

    def run_learn(source, other):
        """Return the update on a batch whose last rows have this source and lead to `other` (from `other` if no agent
        was there).
        """
        batch = batch_of()
        told, last = batch.experience, np.arange(32) >= 16
        after = jnp.where(last[:, None], other, told.next_observation)
        before = jnp.where(last[:, None] & (source == GONE), other, told.observation)
        sources = np.where(last, source, 0).astype(np.int32)[None]
        batch = batch._replace(
            experience=told._replace(observation=before, next_observation=after, source=jnp.asarray(sources))
        )
        return learn(state, batch, CLOCK, KEY)

    near = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)  # noqa: E731
    for source in (NOBODY, GONE, MODEL):
        (one, _, errors), (two, *_) = (run_learn(source, other) for other in (3.0, -9.0))
        jax.tree.map(near, one.world, two.world)
        if source == GONE:
            jax.tree.map(near, one, two)
        assert (errors[:16] > 0).all() and (errors[16:] > 0).all() == (source != GONE)
        assert errors[16:].any() == (source != GONE)


def test_what_it_standardises_by_fades():
    norm = RunningNorm.from_shape(()).update(jnp.zeros(4))._replace(count=jnp.float32(3e6))
    again = forgetting(forgetting(norm).update(jnp.full(1000, 1.0)))
    assert float(again.count) == 1e6
    np.testing.assert_allclose(again.mean, 1e3 / (1e6 + 1e3), rtol=1e-4)
