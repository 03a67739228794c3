"""MDPO: divergences by their definition, both losses by their formulas, and its limits SAC and PPO."""

import dataclasses

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from critic_helpers import inputs_of
from gymnasium import spaces
from small import at_once, compute

from forage.agents.actor_critic.sac import SAC
from forage.agents.policy_gradient.ppo import Targets
from forage.agents.policy_gradient.rollouts import rollout_policy
from forage.core.types import AGENT, PERSON, Batch, Clock, Experience, ForageError, Spec
from forage.nn.distributions import BangBang, Categorical, Gaussian, MultiCategorical
from forage_papers.agents.actor_critic.mdpo_off import MDPOOff
from forage_papers.agents.policy_gradient.mdpo import MDPO

KEY = jax.random.key(0)
SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Discrete(3))
BOX = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), spaces.Box(-2.0, 2.0, (2,), np.float32))
ON = MDPO(num_envs=2, rollout_length=3, minibatches=1, epochs=2, hidden_sizes=(4,), optimiser="sgd", learning_rate=0.1,
          max_gradient_norm=1e6, discount=0.5, step_size=0.5, normalise_advantage=False)  # fmt: skip
OFF = MDPOOff(hidden_sizes=(4,), batch_size=5, initial_temperature=0.25, step_size=0.5, sgd_steps=3, optimiser="sgd")


def test_divergences_by_their_definition():
    p, q = jax.nn.softmax(jnp.array([1.0, 0.0, -1.0])), jax.nn.softmax(jnp.array([0.0, 2.0, 0.5]))
    by_hand = float(np.sum(p * (np.log(p) - np.log(q))))
    one, other = Categorical.from_logits(jnp.log(p)), Categorical.from_logits(jnp.log(q))
    np.testing.assert_allclose(one.divergence(other), by_hand, rtol=1e-5)
    two = MultiCategorical((one, other)).divergence(MultiCategorical((other, other)))
    np.testing.assert_allclose(two, by_hand, rtol=1e-5)
    masked = [Categorical.from_logits(jnp.log(x), jnp.array([True, False, True])) for x in (p, q)]
    p, q = (np.asarray(x)[[0, 2]] / (x[0] + x[2]) for x in (p, q))
    np.testing.assert_allclose(masked[0].divergence(masked[1]), np.sum(p * (np.log(p) - np.log(q))), rtol=1e-5)

    x = np.linspace(-12, 12, 401, dtype=np.float32)[:, None]
    both = Gaussian(jnp.array([0.5]), jnp.array([0.3])), Gaussian(jnp.array([-0.2]), jnp.array([-0.4]))
    f, g = (np.exp(compute(jax.vmap(one.log_probability), x)) for one in both)
    for a, b, first, second in ((*both, f, g), (*both[::-1], g, f)):
        slow = np.sum(first * (np.log(first + 1e-30) - np.log(second + 1e-30))) * (x[1] - x[0])
        np.testing.assert_allclose(a.divergence(b), slow[0], rtol=1e-3)
    ends = [BangBang(jnp.array([x])) for x in (0.3, -1.2)]
    share = [1 / (1 + np.exp(-x)) for x in (0.3, -1.2)]
    slow = share[0] * np.log(share[0] / share[1]) + (1 - share[0]) * np.log((1 - share[0]) / (1 - share[1]))
    np.testing.assert_allclose(ends[0].divergence(ends[1]), slow, rtol=1e-4)


def rollout(source=AGENT):
    """Three steps in two environments."""
    observation = jax.random.normal(KEY, (4, 2, 3))
    action = np.array([[0, 1], [1, 2], [2, 1]], np.int32)
    reward = np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 4.0]], np.float32)
    no = np.zeros((3, 2), bool)
    return Experience(observation[:3], action, reward, observation[1:], no, no, np.full((3, 2), source, np.int32), ())


@pytest.fixture(scope="module")
def results():
    """Return the state before, and the results of learning at the beginning and half-way."""
    state = at_once(lambda: ON.init(KEY, SPEC))
    batch, total = Batch(rollout(), jnp.ones(2), jnp.arange(2)), jnp.float32(120)
    learn = jax.jit(lambda clock, batch: ON.learn(state, batch, clock, KEY))
    return state, learn(Clock(jnp.int32(6), total), batch), learn(Clock(jnp.int32(66), total), batch)


def test_steps_on_policy_are_down_the_formula(results):
    state, (after, metrics, _), (_, halfway, _) = results
    e, old = rollout(), state.network
    value = jax.jit(jax.vmap(jax.vmap(lambda o: old.value(o)[0])))
    v, following = np.asarray(value(e.observation)), np.asarray(value(e.next_observation))
    delta, advantage = e.reward + 0.5 * following - v, np.zeros((3, 2))
    for t in (2, 1, 0):
        advantage[t] = delta[t] + 0.5 * 0.95 * (advantage[t + 1] if t < 2 else 0)
    target = advantage + v

    def formula(network):
        def one(observation, action, advantage, target):
            pi, before = (n.policy(n.torso(0)(observation), observation).log_probabilities for n in (network, old))
            divergence = jnp.sum(jnp.exp(pi) * (pi - before))
            pushed = -jnp.exp(pi - before)[action] * advantage + divergence / 0.5
            return pushed + 0.5 * (network.value(observation)[0] - target) ** 2 / 2

        return jax.vmap(jax.vmap(one))(e.observation, e.action, advantage, target).mean()

    step = jax.jit(lambda n: jax.tree.map(lambda x, g: x - 0.1 * g, n, jax.grad(formula)(n)))
    by_hand = step(step(old))  # of the second, the divergence has a gradient
    for ours, hand in zip(jax.tree.leaves(after.network), jax.tree.leaves(by_hand), strict=True):
        np.testing.assert_allclose(ours, hand, rtol=1e-4, atol=1e-5)
    assert metrics["approximate_kl"] > 0
    assert "clip_fraction" not in metrics
    # 60 of 120 steps were over when the second rollout began; the learning rate falls, too
    np.testing.assert_allclose([metrics["step_size"], halfway["step_size"]], [0.5, 0.25], rtol=1e-6)


def test_smaller_steps_stay_nearer(results):
    """As seen in the last of many steps: a tenth of the step size, a far smaller divergence."""
    state = results[0]
    batch, clock = Batch(rollout(), jnp.ones(2), jnp.arange(2)), Clock(jnp.int32(6), jnp.float32(120))
    many = dataclasses.replace(ON, epochs=30)
    learn = jax.jit(lambda size, batch: dataclasses.replace(many, step_size=size).learn(state, batch, clock, KEY)[1])
    far, near = (float(learn(jnp.float32(size), batch)["approximate_kl"]) for size in (0.5, 0.05))
    assert 0 < near < far / 3


def test_actions_of_others_move_no_policy(results):
    network = results[0].network
    rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rollout())
    zeros = jnp.zeros(6)

    def policy_loss(network, by_agent):
        old = jax.vmap(Categorical.from_logits)(jnp.ones((6, 3)) * jnp.array([0.0, 1.0, 2.0]))
        targets = Targets(rows.action, zeros - 1.0, zeros + 2.0, zeros + by_agent, zeros[:, None], None, None, old)
        loss, means = ON.loss(network, rows.observation, targets, None)
        return loss - ON.value_coefficient * means["value_loss"]

    slope = jax.jit(jax.grad(policy_loss))
    assert any(np.any(g) for g in jax.tree.leaves(slope(network, 1.0)))
    assert not any(np.any(g) for g in jax.tree.leaves(slope(network, 0.0)))


def test_a_deviation_that_grew_is_a_divergence():
    """Of two dimensions whose log-deviations grew by 0.1, KL is 2 (e^0.2 - 1) / 2 - 2 * 0.1 = 0.0214."""
    old = at_once(lambda: ON.init(KEY, BOX)).network
    seen = jax.random.normal(KEY, (6, 3))
    policy = compute(lambda: rollout_policy(old, seen[:, None], None))
    before = jax.tree.map(lambda x: x[:, 0], policy)
    network = equinox.tree_at(lambda n: n.log_std, old, old.log_std + 0.1)
    zeros = jnp.zeros(6)
    targets = Targets(jnp.zeros((6, 2)), zeros, zeros, zeros + 1.0, zeros[:, None], None, None, before)
    _, metrics = compute(lambda: ON.loss(network, seen, targets, None))
    np.testing.assert_allclose(metrics["approximate_kl"], np.exp(0.2) - 1 - 0.2, rtol=1e-4)


def test_a_clip_without_effect_is_refused():
    with pytest.raises(ForageError, match=r"clip 0.1 has no effect; take step_size"):
        MDPO(clip=0.1).check(SPEC)
    MDPO(clip=0.1, clip_value=True).check(SPEC)


@pytest.fixture(scope="module")
def off_policy_state():
    """Return a state with an old policy that differs from its policy, and a batch."""
    state = at_once(lambda: OFF.init(KEY, BOX))
    other = at_once(lambda: OFF.init(jax.random.key(1), BOX)).actor
    observation, noise = jax.random.normal(KEY, (5, 3)), jax.random.normal(jax.random.key(2), (5, 2))
    return state._replace(old_actor=other), observation, noise


def test_the_loss_off_policy_by_the_formula(off_policy_state):
    state, observation, noise = off_policy_state
    loss, (log_probability, *_) = compute(OFF.actor_loss, state.actor, state, inputs_of(observation, noise=noise))
    action, found = compute(lambda actor: actor(observation).from_noise(noise), state.actor)
    np.testing.assert_allclose(log_probability, found, rtol=1e-5)
    old = compute(
        lambda s: OFF.log_probability(
            s._replace(actor=s.old_actor), observation, jax.vmap(s.actor.actions.to_box)(action)
        ),
        state,
    )
    first = compute(lambda critics: jax.tree.map(lambda x: x[0], critics)(observation, action), state.critics)
    by_hand = np.mean((found - old) / 0.5 + 0.25 * old - first)
    np.testing.assert_allclose(loss, by_hand, rtol=1e-4)


def test_its_limit_is_sac(off_policy_state):
    """With t = 1 / alpha the old policy drops out, and loss and gradient are SAC's."""
    state, observation, noise = off_policy_state
    sac = SAC(hidden_sizes=(4,), policy_q="first")

    def run_both(agent):
        one = lambda actor: agent.actor_loss(actor, state, inputs_of(observation, noise=noise))[0]  # noqa: E731
        return compute(jax.value_and_grad(one), state.actor)

    limit, theirs, other = run_both(dataclasses.replace(OFF, step_size=4.0)), run_both(sac), run_both(OFF)
    for a, b in zip(jax.tree.leaves(limit), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)
    assert abs(other[0] - theirs[0]) > 1e-3


def test_the_old_policy_follows_after_so_many_updates(off_policy_state):
    state = compute(lambda: OFF.init(KEY, BOX))
    first = state.actor
    e = Experience(
        *(jax.random.normal(KEY, shape) for shape in ((1, 5, 3), (1, 5, 2), (1, 5), (1, 5, 3))),
        jnp.zeros((1, 5), bool),
        jnp.zeros((1, 5), bool), jnp.full((1, 5), PERSON), (),
    )  # fmt: skip
    batch, clock = Batch(e, jnp.ones(5), jnp.arange(5)), Clock(jnp.int32(0), jnp.float32(9))
    learn = lambda state: OFF.learn(state, batch, clock, KEY)[0]  # noqa: E731
    for update in (1, 2, 3):
        state = compute(learn, state)
        expected = first if update < 3 else state.actor
        assert equinox.tree_equal(state.old_actor, expected)
        assert not equinox.tree_equal(state.actor, first)
