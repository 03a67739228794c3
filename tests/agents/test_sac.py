"""SAC, its discrete form and their networks, against numbers worked by hand and on tasks that take one step."""

import dataclasses
import functools
import math

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from critic_helpers import inputs_of
from gymnasium import spaces
from small import at_once, compute
from tiers import first

from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.sac_discrete import SACDiscrete
from forage.agents.actor_critic.td3 import TD3
from forage.core.ports import ActInputs
from forage.core.types import GONE, Batch, Clock, Experience, ForageError, Spec
from forage.nn.critics import each_value
from forage.nn.distributions import SquashedGaussian

BOX = spaces.Box(np.array([-1.0, 2.0], np.float32), np.array([3.0, 2.5], np.float32))
SPEC = Spec("Box", spaces.Box(-1.0, 1.0, (3,), np.float32), BOX)
MASKED = Spec(
    "Masked",
    spaces.Dict(observation=spaces.Box(-1.0, 1.0, (3,), np.float32), action_mask=spaces.MultiBinary(3)),
    spaces.Discrete(3),
)
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
AGENT = SAC(discount=0.9, polyak=0.1, hidden_sizes=(8,))
DISCRETE = SACDiscrete(discount=0.9, polyak=0.1, hidden_sizes=(8,))


@functools.cache
def beginning(agent, spec):
    return at_once(lambda: agent.init(jax.random.key(0), spec))


def constant(network, where, value):
    """Return the network with a constant output: weights zero, its last bias `value`."""
    return equinox.tree_at(where, jax.tree.map(np.zeros_like, network), np.asarray(value, jnp.float32))


def sac_state(agent, mean=(0.0, 0.0), log_std=(0.0, 0.0), values=(3.0, 5.0), targets=(7.0, 6.0)):
    """Policy N(mean, std^2) squashed, critics and target critics constant."""
    state = beginning(AGENT, SPEC)._replace(log_temperature=np.log(jnp.float32(agent.initial_temperature)))
    last = lambda critics: critics.body.layers[-1].bias  # noqa: E731
    return state._replace(
        actor=constant(state.actor, lambda actor: actor.head.bias, [*mean, *log_std]),
        critics=constant(state.critics, last, [[v] for v in values]),
        target_critics=constant(state.target_critics, last, [[v] for v in targets]),
    )


def discrete_state(agent, logits, values, targets):
    state = beginning(DISCRETE, MASKED)._replace(log_temperature=np.log(jnp.float32(agent.initial_temperature)))
    bias = lambda network: network.head.bias  # noqa: E731
    return state._replace(
        actor=constant(state.actor, bias, logits),
        critics=constant(state.critics, bias, values),
        target_critics=constant(state.target_critics, bias, targets),
    )


def transitions(observation, action, reward, terminated, truncated, weight=None):
    """Segments of one transition each, as a batch."""
    size = len(reward)
    experience = Experience(
        observation, action, jnp.asarray(reward, jnp.float32), observation,
        jnp.asarray(terminated, bool), jnp.asarray(truncated, bool), jnp.zeros(size, jnp.int32), (),
    )  # fmt: skip
    weight = np.ones(size) if weight is None else np.asarray(weight, jnp.float32)
    return jax.device_put(Batch(jax.tree.map(lambda x: x[None], experience), weight, jnp.arange(size)))


THREE = (np.zeros((3, 3)), np.full((3, 2), 2.0), [1.0, 2.0, 4.0], [False, True, False], [False, False, True])


def test_value_goes_on_through_a_time_limit_and_not_through_an_end():
    agent = dataclasses.replace(AGENT, initial_temperature=1e-12)
    _, _, error = compute(agent.learn, sac_state(agent), transitions(*THREE), CLOCK, jax.random.key(0))
    target = np.array([1 + 0.9 * 6, 2, 4 + 0.9 * 6])  # the smaller of the target critics' 7 and 6
    np.testing.assert_allclose(error, (abs(3 - target) + abs(5 - target)) / 2, rtol=1e-5)


def test_targets_without_entropy():
    """The target is the least of the drawn critics' values, without the entropy."""
    agent = SAC(discount=0.9, backup_entropy=False)
    keys = agent.critic_keys(jax.random.key(0))
    inputs = inputs_of(np.zeros((1, 3)), reward=1.0, next_noise=np.ones((1, 2)), keys=keys)
    np.testing.assert_allclose(compute(agent.target, sac_state(agent), inputs), 1 + 0.9 * 6, rtol=1e-6)


def test_target_and_losses_count_entropy():
    agent = dataclasses.replace(AGENT, initial_temperature=0.5)
    noise = np.array([[0.5, -1.0]])
    state = sac_state(agent, mean=(0.2, 0.0), log_std=(0.0, math.log(2)))
    u = np.array([0.2 + 0.5, -2.0])
    log_normal = -0.5 * np.array([0.5, -1.0]) ** 2 - np.log([1, 2]) - 0.5 * math.log(2 * math.pi)
    log_probability = np.sum(log_normal - np.log(1 - np.tanh(u) ** 2))
    inputs = inputs_of(np.zeros((1, 3)), reward=1.0, noise=noise, next_noise=noise)
    np.testing.assert_allclose(compute(agent.target, state, inputs), 1 + 0.9 * (6 - 0.5 * log_probability), rtol=1e-5)

    loss, (found, *_) = compute(agent.actor_loss, state.actor, state, inputs)
    np.testing.assert_allclose(loss, 0.5 * log_probability - 3, rtol=1e-5)
    np.testing.assert_allclose(found, [log_probability], rtol=1e-5)
    # alpha = e^x: the loss is its own slope in x. Entropy target: -1 for each of two dimensions.
    loss, slope = compute(jax.value_and_grad(lambda x: agent.temperature_loss(x, found, 2)), state.log_temperature)
    np.testing.assert_allclose([loss, slope], [-0.5 * (log_probability - 2)] * 2, rtol=1e-5)


def test_critic_loss_is_weighted():
    state = sac_state(AGENT)
    inputs = inputs_of(np.zeros((2, 3)), np.zeros((2, 2)), weight=np.array([2.0, 0.5]))
    loss, (error, _, value, _) = compute(AGENT.critic_loss, state.critics, inputs, np.array([1.0, 7.0]))
    np.testing.assert_allclose(loss, 0.5 * ((2 * 2**2 + 0.5 * 4**2) / 2 + (2 * 4**2 + 0.5 * 2**2) / 2), rtol=1e-6)
    np.testing.assert_allclose(error, [3.0, 3.0])
    np.testing.assert_allclose(value, 4.0)


def leave_out(batch, left, other):
    """Return the batch with an agent gone in its rows `left`, with observations `other` there."""
    source = jnp.where(left, GONE, 0)[None].astype(jnp.int32)
    see = lambda x: jnp.where(left[None, :, None], jnp.asarray(other, x.dtype), x)  # noqa: E731
    told = batch.experience._replace(source=source)
    seen, after = (jax.tree.map(see, o) for o in (told.observation, told.next_observation))
    return batch._replace(experience=told._replace(observation=seen, next_observation=after))


def test_nothing_is_learned_from_agents_that_have_left():
    left = np.array([False, True, True])
    pairs = [
        (AGENT, SPEC, transitions(np.ones((3, 3)), *THREE[1:]), (2.0, -7.0)),
        (DISCRETE, MASKED, transitions(mask_rows([[1, 1, 0]] * 3), np.array([0, 1, 1]), *THREE[2:]), (1, 0)),
    ]
    for agent, spec, batch, others in pairs:
        state, learn = beginning(agent, spec), jax.jit(agent.learn)
        found = [learn(state, leave_out(batch, left, other), CLOCK, jax.random.key(0)) for other in others]
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))  # also where nothing is allowed
        (one, *_, error), (two, *_, again) = found
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), one, two)
        assert one.log_temperature != state.log_temperature
        for errors in (error, again):
            assert errors[0] > 0 and not errors[1:].any()
        nothing = learn(state, leave_out(batch, np.ones(3, bool), others[0]), CLOCK, jax.random.key(0))[0]
        jax.tree.map(np.testing.assert_array_equal, nothing.actor, state.actor)
        assert nothing.log_temperature == state.log_temperature


def test_means_are_over_what_counts():
    state, counts = sac_state(AGENT, mean=(0.2, 0.0)), np.array([True, False, True])
    noise = np.array([[0.5, -1.0], [9.0, 9.0], [0.0, 2.0]])
    inputs = lambda x, counts: inputs_of(jnp.zeros((len(x), 3)), noise=x, counts=counts)  # noqa: E731
    loss = lambda x, counts: AGENT.actor_loss(state.actor, state, inputs(x, counts))  # noqa: E731
    some, (log, *_) = compute(loss, noise, counts)
    np.testing.assert_allclose(some, compute(loss, noise[counts], np.ones(2, bool))[0], rtol=1e-5)
    found = [AGENT.temperature_loss(jnp.float32(0), x, 2, *more) for x, more in ((log, (counts,)), (log[counts], ()))]
    np.testing.assert_allclose(*found, rtol=1e-5)
    discrete = discrete_state(DISCRETE, [math.log(3), 0.0, 9.0], [[1.0, 2.0, 90.0]] * 2, [[0.0] * 3] * 2)
    loss = lambda o, *counts: DISCRETE.actor_loss(discrete.actor, discrete.critics, jnp.float32(0), o, *counts)  # noqa: E731
    some, (entropy, *_) = compute(loss, mask_rows([[1, 1, 0], [0, 0, 0], [1, 0, 0]]), counts)
    np.testing.assert_allclose(some, compute(loss, mask_rows([[1, 1, 0], [1, 0, 0]]))[0], rtol=1e-5)
    target = np.array([0.5, 7.0, 0.1])
    found = DISCRETE.temperature_loss(jnp.float32(0), entropy, target, counts)
    np.testing.assert_allclose(found, (entropy - target)[counts].mean(), rtol=1e-5)
    np.testing.assert_array_equal(DISCRETE.entropy_target(discrete.actor, mask_rows([[0, 0, 0]])), [0.0])


def draw_case(actor, observation, noise):
    return actor(observation).from_noise(noise)


def test_density_integrates_to_one_and_agrees_with_the_distribution():
    state = sac_state(AGENT, mean=(0.3, 0.0), log_std=(-0.5, 0.0))
    action = jnp.linspace(-0.99999, 0.99999, 20_001)
    noise = np.stack([(jnp.arctanh(action) - 0.3) / math.exp(-0.5), np.zeros_like(action)], axis=1)
    found, log_density = compute(draw_case, state.actor, np.zeros((action.size, 3)), noise)
    np.testing.assert_allclose(found[:, 0], action, atol=1e-5)
    log_density = log_density + 0.5 * math.log(2 * math.pi)  # less that of the second dimension at its mode
    mass = np.trapezoid if hasattr(np, "trapezoid") else np.trapz
    np.testing.assert_allclose(mass(np.exp(log_density), action), 1.0, atol=1e-3)

    key, policy = jax.random.key(3), SquashedGaussian(np.array([0.3, 0.0]), np.array([-0.5, 0.0]))
    batch = compute(draw_case, state.actor, np.zeros((1, 3)), jax.random.normal(key, (2,))[None])
    for mine, theirs in zip(batch, policy.sample(key), strict=True):
        np.testing.assert_allclose(mine[0], theirs, rtol=1e-5)


def test_deviations_are_cut_or_squashed():
    outputs = [0.0, 0.0, 0.5, -30.0]  # both means, then what stands for both deviations
    for squash, expected in ((False, [0.5, -20.0]), (True, [-4 + 6 * math.tanh(0.5), -10.0])):
        agent = dataclasses.replace(AGENT, squash_deviation=squash)
        actor = constant(at_once(lambda: agent.make_actor(jax.random.key(0), SPEC)), lambda a: a.head.bias, outputs)  # noqa: B023
        np.testing.assert_allclose(compute(actor, np.zeros((1, 3))).log_std[0], expected, rtol=1e-6)
    with pytest.raises(ForageError, match="has a deviation of its own"):
        SAC(squash_deviation=True, state_dependent_noise=True)


def test_log_density_stays_finite_far_out():
    state = sac_state(AGENT, mean=(30.0, -30.0))
    action, log_density = compute(draw_case, state.actor, np.zeros((1, 3)), np.ones((1, 2)))
    assert np.isfinite(log_density).all() and np.abs(action).max() <= 1
    slope = compute(jax.grad(lambda actor: draw_case(actor, jnp.zeros((1, 3)), jnp.ones((1, 2)))[1].sum()), state.actor)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slope))


def test_an_update_moves_the_right_things():
    # With discount 0 and reward 3 the critics are right already: only a leak of the actor's loss could move them.
    agent = dataclasses.replace(AGENT, discount=0.0, learning_rate=0.1)
    state = sac_state(agent, values=(3.0, 3.0))
    batch = transitions(np.zeros((4, 3)), np.full((4, 2), 2.0), [3.0] * 4, [False] * 4, [False] * 4)
    after, metrics, _ = compute(agent.learn, state, batch, CLOCK, jax.random.key(1))
    assert jax.tree.all(jax.tree.map(np.array_equal, after.critics, state.critics))
    assert not jnp.array_equal(after.actor.head.bias, state.actor.head.bias)  # entropy pulls
    expected = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, state.target_critics, after.critics)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), after.target_critics, expected)
    # The entropy of this policy is above -2, so the temperature falls: the first step of Adam is the learning rate.
    assert metrics["entropy"] > -2
    np.testing.assert_allclose(after.log_temperature, state.log_temperature - 0.1, rtol=1e-4)


def test_actions_are_in_the_box():
    state = sac_state(AGENT, mean=(2.0, -3.0), log_std=(2.0, 2.0))
    act = lambda key, explore: AGENT.act(state, ActInputs((), np.zeros(3), key, explore))[0]  # noqa: E731
    keys = jax.random.split(jax.random.key(0), 500)
    actions = compute(jax.vmap(lambda key: act(key, True)), keys)
    assert (actions >= BOX.low).all() and (actions <= BOX.high).all()
    assert (actions.min(0) < BOX.low + 0.1).all() and (actions.max(0) > BOX.high - 0.1).all()
    np.testing.assert_allclose(act(keys[0], False), [1 + 2 * math.tanh(2), 2.25 - 0.25 * math.tanh(3)], rtol=1e-5)


def train(agent, state, draw, updates):
    """Learns from fresh batches."""

    @jax.jit
    def run(state):
        def update(state, key):
            batch_key, learn_key = jax.random.split(key)
            state, _, _ = agent.learn(state, draw(batch_key), CLOCK, learn_key)
            return state, None

        return jax.lax.scan(update, state, jax.random.split(jax.random.key(5), updates))[0]

    return run(state)


@pytest.mark.thorough
def test_learns_a_bandit():
    # Reward -|a - best|^2 in the unit box, one step.
    agent = SAC(hidden_sizes=(32, 32), learning_rate=3e-3, initial_temperature=0.1, target_entropy=-3.0)
    best = np.array([0.5, -0.4])

    def draw(key):
        unit = jax.random.uniform(key, (64, 2), minval=-1.0)
        action = unit * jnp.array([2.0, 0.25]) + jnp.array([1.0, 2.25])
        reward = -((unit - best) ** 2).sum(1)
        return transitions(jnp.zeros((64, 3)), action, reward, jnp.ones(64), jnp.zeros(64))

    state = train(agent, beginning(agent, SPEC), draw, 600)
    action = agent.act(state, ActInputs((), np.zeros(3), jax.random.key(0), False))[0]
    np.testing.assert_allclose((action - np.array([1.0, 2.25])) / np.array([2.0, 0.25]), best, atol=0.15)
    assert jnp.exp(state.log_temperature) < 0.1


@pytest.mark.parametrize("kind", first(1, [SAC, TD3]))
def test_observations_are_normalised_when_read(kind):
    agent = kind(discount=0.9, hidden_sizes=(8,), normalise_observation=True)
    spec = dataclasses.replace(SPEC, observation_space=spaces.Box(-900.0, 900.0, (3,), np.float32))
    seen = np.random.default_rng(1).normal([100, -20, 3], [30, 5, 1], (2, 8, 4, 3)).astype(np.float32)
    source = np.zeros((8, 4), np.int32)
    source[:, 3] = GONE  # which nobody saw
    nothing = np.zeros((8, 4), bool)
    action = np.full((8, 4, 2), 2.0, np.float32)
    rollout = Experience(seen[0], action, source, seen[1], nothing, nothing, source, ())
    fresh = at_once(lambda: agent.init(jax.random.key(0), spec))
    state = compute(agent.observe, fresh, rollout)
    rows = seen[0, :, :3].reshape(-1, 3)
    np.testing.assert_allclose(state.norm.mean, rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(state.norm.variance, rows.var(0), rtol=1e-4)
    assert state.norm.count == 24

    # As one that is shown normalised observations, and leaves the norm alone in learning.
    plain, blind = kind(discount=0.9, hidden_sizes=(8,)), state._replace(norm=None)
    read = lambda x: ((x - rows.mean(0)) / rows.std(0)).astype(np.float32)  # noqa: E731
    now = jax.tree.map(lambda x: x[:, 0][None], rollout)
    shown = now._replace(observation=read(now.observation), next_observation=read(now.next_observation))
    both = [
        compute(a.learn, s, jax.device_put(Batch(e, np.ones(8), np.arange(8))), CLOCK, jax.random.key(2))
        for a, s, e in ((agent, state, now), (plain, blind, shown))
    ]
    (mine, metrics, error), (theirs, _, other) = both
    np.testing.assert_allclose(error, other, rtol=1e-4)
    assert error.min() > 0 and np.isfinite(metrics["critic_loss"])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), mine.actor, theirs.actor)
    jax.tree.map(np.testing.assert_array_equal, mine.norm, state.norm)
    act = lambda a, s, x: compute(lambda x: a.act(s, ActInputs((), x, jax.random.key(0), False))[0], x)  # noqa: E731
    np.testing.assert_allclose(
        act(agent, state, seen[0, 0, 0]), act(plain, blind, read(seen[0, 0, 0])), rtol=1e-4, atol=1e-5
    )


def test_says_what_would_work():
    discrete, unbounded = spaces.Discrete(2), spaces.Box(-np.inf, np.inf, (2,), np.float32)
    says = r"^SAC needs a continuous, bounded action space, and CartPole-v1 has Discrete\(2\); try ppo, dqn or sac-"
    with pytest.raises(ForageError, match=says):
        check(AGENT, Spec("CartPole-v1", SPEC.observation_space, discrete))
    with pytest.raises(ForageError, match=r"; try ppo\.$"):
        check(AGENT, Spec("Line", SPEC.observation_space, unbounded))
    with pytest.raises(ForageError, match=r"; try ppo, sac or td3\.$"):
        check(DISCRETE, SPEC)
    check(AGENT, SPEC)
    check(DISCRETE, MASKED)


def test_twins_differ_and_see_the_same_batch():
    state = beginning(AGENT, SPEC)
    observation, action = np.ones((4, 3)), np.ones((4, 2))
    values = compute(each_value, state.critics, observation, action)
    first = jax.tree.map(lambda x: x[0], state.critics)
    np.testing.assert_allclose(values[0], first(observation, action), rtol=1e-5)
    assert not np.allclose(values[0], values[1])
    assert jax.tree.all(jax.tree.map(np.array_equal, state.critics, state.target_critics))


def mask_rows(mask):
    """Equal observations, one for each row of the mask."""
    mask = np.asarray(mask, jnp.int8)
    return {"observation": np.zeros((*mask.shape[:-1], 3)), "action_mask": mask}


def test_discrete_expectations_by_hand_with_masks():
    agent = dataclasses.replace(DISCRETE, initial_temperature=0.5)
    values, targets = [[1.0, 2.0, 90.0], [3.0, 1.5, 90.0]], [[4.0, 8.0, 90.0], [5.0, 6.0, 90.0]]
    state = discrete_state(agent, [math.log(3), 0.0, 9.0], values, targets)
    observation = mask_rows([[1, 1, 0], [1, 0, 0]])
    p = np.array([0.75, 0.25])
    goal = compute(agent.target, state, np.ones(2), observation, np.zeros(2, bool))
    np.testing.assert_allclose(goal, [1 + 0.9 * (p @ (np.array([4, 6]) - 0.5 * np.log(p))), 1 + 0.9 * 4], rtol=1e-5)
    goal = compute(agent.target, state, np.ones(2), observation, np.ones(2, bool))
    np.testing.assert_allclose(goal, [1.0, 1.0])

    arguments = (state.critics, state.log_temperature, observation)
    (loss, (entropy, *_)), gradient = compute(
        jax.value_and_grad(agent.actor_loss, has_aux=True), state.actor, *arguments
    )
    expected = p @ (0.5 * np.log(p) - np.array([1, 1.5])), -1.0
    np.testing.assert_allclose(loss, np.mean(expected), rtol=1e-5)
    np.testing.assert_allclose(entropy, [-p @ np.log(p), 0.0], atol=1e-6)
    # The mean over both rows of p (f - p.f), f = alpha log p - min Q; nothing for what is masked.
    f = 0.5 * np.log(p) - np.array([1, 1.5])
    np.testing.assert_allclose(gradient.head.bias, [*(p * (f - p @ f) / 2), 0.0], atol=1e-6)
    np.testing.assert_allclose(agent.entropy_target(state.actor, observation), [0.98 * math.log(2), 0], rtol=1e-6)
    unmasked = agent.entropy_target(state.actor, np.zeros((1, 3)))
    np.testing.assert_allclose(unmasked, 0.98 * math.log(3), rtol=1e-6)


def test_discrete_update():
    agent = dataclasses.replace(DISCRETE, initial_temperature=1e-12, learning_rate=0.1)
    state = discrete_state(agent, [0.0, 9.0, 0.0], [[1.0, 2.0, 90.0], [3.0, 1.5, 90.0]], [[4.0, 8.0, 90.0]] * 2)
    batch = transitions(mask_rows([[1, 1, 0]] * 3), np.array([0, 1, 1]), *THREE[2:], weight=[1.0, 0.0, 1.0])
    after, metrics, error = compute(agent.learn, state, batch, CLOCK, jax.random.key(0))
    later = (4 + 8 * math.exp(9)) / (1 + math.exp(9))
    target = np.array([1 + 0.9 * later, 2, 4 + 0.9 * later])
    q = np.array([[1, 2, 2], [3, 1.5, 1.5]])
    np.testing.assert_allclose(error, np.abs(q - target).mean(0), rtol=1e-5)
    loss = 0.5 * ((q - target) ** 2 @ np.array([1, 0, 1]) / 3).sum()
    np.testing.assert_allclose(metrics["critic_loss"], loss, rtol=1e-5)
    assert (after.critics.head.bias[:, 2] == 90.0).all()  # not taken, not moved, not by the actor's loss either
    # An entropy of 0.1 is too low for a target of 0.5: uphill, the temperature rises.
    slope = jax.grad(agent.temperature_loss)(jnp.log(2.0), jnp.array([0.1]), jnp.array([0.5]))
    np.testing.assert_allclose(slope, 2 * (0.1 - 0.5), rtol=1e-5)
    expected = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, state.target_critics, after.critics)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), after.target_critics, expected)


def test_discrete_never_takes_a_masked_action():
    state = discrete_state(DISCRETE, [0.0, 0.0, 50.0], [[0.0] * 3] * 2, [[0.0] * 3] * 2)
    observation = mask_rows([1, 1, 0])
    keys = jax.random.split(jax.random.key(0), 200)
    actions = compute(jax.vmap(lambda key: DISCRETE.act(state, ActInputs((), observation, key, True))[0]), keys)
    assert set(actions.tolist()) == {0, 1}
    assert DISCRETE.act(state, ActInputs((), observation, keys[0], False))[0] in (0, 1)


@pytest.mark.thorough
def test_discrete_learns_a_bandit():
    agent = SACDiscrete(hidden_sizes=(16,), learning_rate=3e-3, initial_temperature=0.1, target_entropy=0.1)
    rewards = jnp.array([0.0, 1.0, 5.0])  # the best one is not allowed

    def draw(key):
        action = jax.random.randint(key, (64,), 0, 2)
        return transitions(mask_rows([[1, 1, 0]] * 64), action, rewards[action], jnp.ones(64), jnp.zeros(64))

    state = train(agent, beginning(agent, MASKED), draw, 400)
    assert agent.act(state, ActInputs((), mask_rows([1, 1, 0]), jax.random.key(0), False))[0] == 1
    values = each_value(state.critics, mask_rows([[1, 1, 0]]))[:, 0]
    np.testing.assert_allclose(values[:, :2], [[0.0, 1.0]] * 2, atol=0.1)
