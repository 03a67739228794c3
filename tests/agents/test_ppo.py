"""PPO's loss against hand-worked numbers; it learns from the observations of acting, in minibatches, with memory."""

import dataclasses

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces
from tiers import first

from forage.agents.policy_gradient.ppo import METRICS, PPO, Targets
from forage.agents.policy_gradient.rollouts import Sequence, cut_minibatches, next_values, score_actions
from forage.core.ports import ActInputs
from forage.core.types import AGENT, GONE, GUIDE, MODEL, NOBODY, Batch, Clock, Experience, ForageError, Spec
from forage.nn.distributions import BangBang
from forage.nn.networks import GRUState
from forage.ops.rows import shuffle, standardise

SPEC = Spec("Table", spaces.Discrete(2), spaces.Discrete(2))
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
KEY = jax.random.key(1)
# In state 0 the logits (0, ln 3) give probabilities 1/4 and 3/4 and the value is 2; in state 1 they are 1/2 and -1.
PLAIN = PPO(
    clip=0.2, value_coefficient=0.5, entropy_coefficient=0.1, hidden_sizes=(2,), activation="relu", minibatches=1
)

LOSS = jax.jit(PLAIN.loss)
SLOPE = jax.jit(jax.grad(PLAIN.loss, has_aux=True))


def table():
    """Return a network with the one-hot state as features and tables as last layers."""
    network = small.zeros(lambda: PLAIN.init(jax.random.key(0), SPEC)).network
    where = lambda n: (n.torsos.body.layers[0].weight, n.actor.weight, n.critic.weight)  # noqa: E731
    tables = np.stack([np.eye(2)] * 2), np.array([[0.0, np.log(3)], [0.0, 0.0]]), np.array([[2.0], [-1.0]])
    return equinox.tree_at(where, network, tables)


def targets(action, old_probability, gain, goal, value=None):
    old = np.log(np.array(old_probability))
    ones = np.ones(len(action))
    return Targets(np.array(action), old, np.array(gain), ones, np.array(goal)[:, None], value)


H0 = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))  # entropies of both states
H1 = np.log(2)


def test_bang_bang_by_hand():
    policy = BangBang(jnp.array([np.log(3.0), 0.0]))  # 1 with probabilities 3/4 and 1/2
    low, high = policy.log_probability(jnp.array([-0.999, 1.0])), policy.log_probability(jnp.array([1.0, -1.0]))
    np.testing.assert_allclose([low, high], np.log([1 / 8, 3 / 8]), rtol=1e-6)  # ends may be told inexactly
    np.testing.assert_allclose(policy.entropy(), H0 + H1, rtol=1e-6)
    assert policy.mode().tolist() == [1.0, 1.0] and BangBang(-policy.logits).mode().tolist() == [-1.0, 1.0]
    draws = np.asarray(jax.vmap(policy.sample)(jax.random.split(KEY, 2000)))
    assert set(np.unique(draws)) == {-1.0, 1.0}
    np.testing.assert_allclose((draws == 1).mean(0), [0.75, 0.5], atol=0.05)


BOX = Spec("Box", spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Box(np.float32([-2, 0]), np.float32([4, 1])))


def test_bang_bang_plays_the_ends_of_the_ranges():
    agent = PPO(hidden_sizes=(4,), bang_bang=True)

    def play(key, explore):
        state = agent.init(jax.random.key(0), BOX)
        return agent.act(state, ActInputs((), jnp.ones(2), key, explore))[0]

    actions = jax.jit(jax.vmap(lambda key: play(key, True)))(jax.random.split(KEY, 50))
    assert {tuple(action) for action in np.asarray(actions).tolist()} == {(-2, 0), (-2, 1), (4, 0), (4, 1)}
    assert agent.noise(BOX) is None


@pytest.mark.parametrize(
    ("options", "space", "words"),
    [
        ({}, spaces.Discrete(2), "leave bang_bang out"),
        ({}, spaces.Box(-np.inf, np.inf, (1,)), "leave bang_bang out"),
        ({"state_dependent_noise": True}, BOX.action_space, "adds no noise to them"),
        ({"initial_log_std": 0.0}, BOX.action_space, "adds no noise to them"),
    ],
)
def test_bang_bang_needs_ends_and_no_noise(options, space, words):
    with pytest.raises(ForageError, match=words):
        check(PPO(bang_bang=True, **options), dataclasses.replace(BOX, action_space=space))


@pytest.mark.parametrize(
    ("old", "gain", "surrogate", "clipped"),
    first(
        2,
        [
            (0.75, 2.0, 2.0, 0),  # ratio 1
            (0.5, 2.0, 1.2 * 2, 1),  # ratio 1.5 is worth no more than 1.2
            (0.5, -2.0, 1.5 * -2, 1),  # but counts in full where it harms
            (0.9375, -2.0, -1.6, 0),  # ratio 0.8, just at the bound
            (1.0, -2.0, 0.8 * -2, 1),  # ratio 0.75: no gain from going further down
        ],
    ),
)
def test_the_loss_by_hand(old, gain, surrogate, clipped):
    given = targets([1], [old], [gain], [5.0])
    total, means = LOSS(table(), jnp.array([0]), given, None)
    ratio = 0.75 / old
    expected = [-surrogate, 0.5 * 9, H0, ratio - 1 - np.log(ratio), clipped]
    np.testing.assert_allclose([means[name] for name in METRICS], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(total, -surrogate + 0.5 * 4.5 - 0.1 * H0, rtol=1e-5)


@pytest.mark.parametrize(("gain", "least"), [(0.0, 0.0), (2.0, 1.2 * 2), (-1.0, -np.exp(20.0))])
def test_a_ratio_beyond_all_bounds_leaves_numbers(gain, least):
    """An infinite ratio times an advantage of 0 is not a number, and would be the end of a run."""
    given = targets([1, 0], [0.75, 0.25], [gain, 0.0], [2.0, -1.0])
    given = given._replace(log_probability=given.log_probability - np.array([200.0, 0.0], np.float32))
    gradient, means = SLOPE(table(), jnp.array([0, 1]), given, None)
    np.testing.assert_allclose(means["policy_loss"], -least / 2, rtol=1e-5)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves((gradient, means)))


def test_the_loss_is_a_mean_over_the_minibatch():
    given = targets([1, 0], [0.75, 0.5], [2.0, 4.0], [2.0, 1.0])
    total, _ = LOSS(table(), jnp.array([0, 1]), given, None)
    np.testing.assert_allclose(total, -3.0 + 0.5 * (0.5 * 4 / 2) - 0.1 * (H0 + H1) / 2, rtol=1e-5)


def test_entropy_and_ratios_are_of_the_agents_own_steps():
    given = targets([1, 0], [0.5, 0.25], [2.0, 0.0], [2.0, -1.0])

    def means(given):
        metrics = LOSS(table(), jnp.array([0, 1]), given, None)[1]
        return [metrics[name] for name in METRICS]

    alone = [-2.4, 0, H0, 0.5 - np.log(1.5), 1]
    np.testing.assert_allclose(means(given._replace(by_agent=np.array([1.0, 0.0]))), np.array(alone) / 2, rtol=1e-5)
    # An action that the policy would hardly have taken does no harm.
    rare = given._replace(by_agent=np.array([1.0, 0.0]), log_probability=np.array([np.log(0.5), -1e3]))
    np.testing.assert_allclose(means(rare), np.array(alone) / 2, rtol=1e-5)
    # As the policy's loss, they are means over all that counts.
    left = given._replace(by_agent=np.array([1.0, 0.0]), counts=np.array([2.0, 0.0]))
    np.testing.assert_allclose(means(left), alone, rtol=1e-5)


@pytest.mark.parametrize(("earlier", "error"), [(2.0, 0.5 * 9), (1.0, 0.5 * 3.8**2), (3.0, 0.5 * 9)])
def test_a_clipped_value_counts_the_larger_error(earlier, error):
    # The value is 2, the goal 5: from 1 it may count as 1.2 at most, from 3 as 2.8 at least, and 2 is further off.
    given = targets([1], [0.75], [0.0], [5.0], np.array([[earlier]]))
    _, means = LOSS(table(), jnp.array([0]), given, None)
    np.testing.assert_allclose(means["value_loss"], error, rtol=1e-5)


def rollout(observation, action, reward, next_observation, terminated, truncated, source):
    """Of one environment, as a batch."""
    column = lambda x, dtype: np.asarray(x, dtype)[:, None]  # noqa: E731
    experience = Experience(
        column(observation, jnp.int32), column(action, jnp.int32), column(reward, jnp.float32),
        column(next_observation, jnp.int32), column(terminated, bool), column(truncated, bool),
        column([source] * len(reward), jnp.int32), (),
    )  # fmt: skip
    return jax.device_put(Batch(experience, np.ones(1), np.zeros(1, jnp.int32)))


def test_advantages_and_bootstraps_by_hand():
    """One environment, three steps; the second is truncated in state 1, the third terminated."""
    agent = dataclasses.replace(PLAIN, num_envs=1, rollout_length=3, discount=0.5, gae_lambda=0.2)
    state = small.at_once(lambda: agent.init(jax.random.key(0), SPEC))._replace(network=table())
    batch = rollout([0, 0, 0], [1, 1, 0], [1, 2, 3], [0, 1, 1], [0, 0, 1], [0, 1, 0], AGENT)
    # V(0) = 2, V(1) = -1. Errors: 1 + 2/2 - 2 = 0; 2 - 1/2 - 2 = -0.5, not 2 + 2/2 - 2; 3 - 2 = 1.
    advantages = np.array([0 + 0.1 * -0.5, -0.5, 1.0])
    _, _, error = jax.jit(agent.learn)(state, batch, CLOCK, KEY)
    np.testing.assert_allclose(error, [np.abs(advantages).mean()], rtol=1e-5)


def test_the_bonus_has_a_value_of_its_own_that_goes_on_across_ends():
    """The same three steps, with a bonus: its returns do not end with the episodes."""
    agent = PPO(num_envs=1, rollout_length=3, minibatches=1, discount=0.5, gae_lambda=0.2, bonus_head=True)
    agent = dataclasses.replace(agent, bonus_discount=0.8)
    experience = rollout([0, 0, 0], [1, 1, 0], [1, 2, 3], [0, 1, 1], [0, 0, 1], [0, 1, 0], AGENT).experience
    experience = experience._replace(rewards={"bonus": np.array([[10.0], [20.0], [30.0]])})
    value = np.stack([np.array([2.0, 2.0, 2.0]), np.array([5.0, 6.0, 7.0])], -1)[:, None]
    after = np.stack([np.array([2.0, -1.0, -1.0]), np.array([6.0, 99.0, 8.0])], -1)[:, None]
    own, bonus = np.moveaxis(jax.jit(agent.advantages)(experience, value, after, agent.gae_lambda), -1, 0)[..., 0]
    np.testing.assert_allclose(own, [0.1 * -0.5, -0.5, 1.0], rtol=1e-6)
    # Errors: 10 + 0.8 6 - 5; 20 + 0.8 7 - 6, with the value of what begins next; 30 + 0.8 8 - 7, of what it led to.
    errors = [9.8, 19.6, 29.4]
    last = errors[1] + 0.16 * errors[2]
    np.testing.assert_allclose(bonus, [errors[0] + 0.16 * last, last, errors[2]], rtol=1e-6)


@pytest.mark.parametrize("truncated", [False, True])
def test_the_bonus_ends_where_an_agent_leaves_before_the_others(truncated):
    """It ends at the first step, is gone at the second and third, and returns at the fourth."""
    agent = PPO(num_envs=1, rollout_length=4, minibatches=1, bonus_head=True, gae_lambda=0.5, bonus_discount=0.8)
    experience = rollout([0] * 4, [1] * 4, [0] * 4, [1] * 4, [not truncated, 1, 1, 0], [truncated, 0, 0, 0], AGENT)
    experience = experience.experience._replace(
        rewards={"bonus": np.array([[10.0], [99.0], [99.0], [30.0]])},
        source=np.array([[AGENT], [GONE], [GONE], [AGENT]]),
    )
    value = np.stack([np.zeros(4), np.array([5.0, 77.0, 77.0, 7.0])], -1)[:, None]
    after = np.stack([np.zeros(4), np.array([6.0, 88.0, 88.0, 8.0])], -1)[:, None]
    bonus = jax.jit(agent.advantages)(experience, value, after, agent.gae_lambda)[:, 0, 1]
    np.testing.assert_allclose(bonus[0], 10 + (0.8 * 6 if truncated else 0) - 5, rtol=1e-6)
    np.testing.assert_allclose(bonus[3], 30 + 0.8 * 8 - 7, rtol=1e-6)


@pytest.mark.thorough
def test_the_learning_rate_falls_from_the_first_update_on():
    agent = dataclasses.replace(PLAIN, num_envs=1, rollout_length=3, epochs=1)
    state = small.at_once(lambda: agent.init(jax.random.key(0), SPEC))
    batch = rollout([0, 0, 1], [1, 1, 0], [1, 2, 3], [0, 1, 1], [0, 0, 1], [0, 1, 0], AGENT)

    def step(final, steps):
        """Return the change of one update at this step of 30."""
        clock = Clock(jnp.int32(steps), jnp.float32(30))
        after = jax.jit(dataclasses.replace(agent, final_learning_rate=final).learn)(state, batch, clock, KEY)[0]
        return np.asarray(after.network.critic.weight - state.network.critic.weight)

    full = step(1.0, 3)
    assert np.abs(full).max() > 1e-5
    for steps, share in (3, 1.0), (6, 0.9), (30, 0.1):
        np.testing.assert_allclose(step(0.0, steps), share * full, rtol=1e-3, atol=1e-7)


def test_updates_end_once_the_policy_is_far_from_the_old_one():
    agent = dataclasses.replace(PLAIN, num_envs=1, rollout_length=4, learning_rate=0.1)
    state = small.at_once(lambda: agent.init(jax.random.key(0), SPEC))
    batch = rollout([0, 0, 1, 1], [0, 1, 0, 1], [3, 1, 2, 5], [0] * 4, [1] * 4, [0] * 4, AGENT)

    def run_learn(**settings):
        later, metrics, _ = small.compute(dataclasses.replace(agent, **settings).learn, state, batch, CLOCK, KEY)
        weights = jax.tree.leaves(later.network)
        return np.concatenate([np.ravel(leaf) for leaf in weights]), float(metrics["approximate_kl"])

    whole, divergence = run_learn(epochs=4)
    assert divergence > 1e-3
    np.testing.assert_allclose(run_learn(epochs=4, target_kl=1e3)[0], whole, rtol=1e-5, atol=1e-7)
    # The first update begins at the old policy; before the second the new one is too far already.
    np.testing.assert_allclose(run_learn(epochs=4, target_kl=1e-9)[0], run_learn(epochs=1)[0], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("source", first(1, [GUIDE, NOBODY, GONE, MODEL]))
def test_advantages_are_standardised_and_entropy_is_told_of_the_agents_own_steps(source):
    agent = dataclasses.replace(PLAIN, num_envs=1, rollout_length=4, epochs=1, discount=0.0, max_gradient_norm=1e9)
    state = small.at_once(lambda: agent.init(jax.random.key(0), SPEC))._replace(network=table())

    def run_learn(other):
        """From the agent's own steps in state 0, worth 1 and -1 more than expected, and from another's in state 1."""
        batch = rollout([0, 0, 1, 1], [0, 1, 0, 0], [3, 1, other, other], [0] * 4, [1] * 4, [0] * 4, AGENT)
        experience = batch.experience._replace(source=np.array([[AGENT], [AGENT], [source], [source]]))
        return jax.jit(agent.learn)(state, batch._replace(experience=experience), CLOCK, KEY)

    little, much = run_learn(0.0), run_learn(1000.0)
    np.testing.assert_allclose(little[0].network.actor.weight, much[0].network.actor.weight, atol=1e-7)
    np.testing.assert_allclose([little[1]["policy_loss"], much[1]["policy_loss"]], 0.0, atol=1e-6)
    np.testing.assert_allclose([little[1]["entropy"], much[1]["entropy"]], H0, rtol=1e-5)


def test_only_the_agents_own_actions_move_the_policy():
    agent = dataclasses.replace(PLAIN, num_envs=1, rollout_length=2, epochs=1)
    state = small.at_once(lambda: agent.init(jax.random.key(0), SPEC))

    def run_learn(source):
        batch = rollout([0, 1], [1, 0], [1, 5], [1, 0], [0, 0], [0, 0], source)
        return jax.jit(agent.learn)(state, batch, CLOCK, KEY)[0].network

    guided, own = run_learn(GUIDE), run_learn(AGENT)
    np.testing.assert_array_equal(guided.actor.weight, state.network.actor.weight)
    assert np.abs(own.actor.weight - state.network.actor.weight).max() > 1e-5
    assert np.abs(guided.critic.weight - state.network.critic.weight).max() > 1e-5


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_shuffled_is_a_permutation_and_depends_on_its_bits(count):
    orders = [np.asarray(shuffle(jax.random.bits(jax.random.key(i), (count,)))) for i in range(4)]
    for order in orders:
        assert sorted(order) == list(range(count))
    assert count < 7 or len({tuple(order) for order in orders}) == 4


def test_standardised_within_each_minibatch():
    gain = standardise(np.array([[1.0, 3.0], [10.0, 40.0]]))
    np.testing.assert_allclose(gain, [[-1, 1], [-1, 1]], rtol=1e-5)
    gain, weight = np.array([[1.0, 900.0, 3.0], [10.0, 40.0, 50.0]]), np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(standardise(gain, weight)[0, ::2], [-1, 1], rtol=1e-5)
    assert np.isfinite(standardise(gain, weight)).all()
    for given in (gain, gain[..., None] * np.arange(2)):  # transitions, or steps of segments
        rows = given.reshape(2, -1)
        plain = (rows - rows.mean(1, keepdims=True)) / rows.std(1, keepdims=True)
        for found in (standardise(given), standardise(given, np.ones_like(given))):
            np.testing.assert_allclose(found.reshape(2, -1), plain, rtol=1e-5)


REMEMBERING = PPO(num_envs=4, rollout_length=5, minibatches=2, gru_size=3, hidden_sizes=(3,))


def replay_memory(agent, spec, actions, ended, state):
    """Experience as the loop would make it, step by step, and the log-probabilities and values on the way."""
    network, hidden = state.network, jax.vmap(lambda _: agent.init_hidden(spec))(jnp.arange(4))
    hidden = hidden._replace(features=hidden.features + 0.3)  # as after an earlier rollout
    log, auxes = [], []
    for time in range(5):
        observation = (jnp.arange(4) + time) % 2
        features = jax.vmap(network.remember)(hidden, observation)
        policy = jax.vmap(lambda f: network.policy(f, jnp.int32(0)))(features)
        unit = actions[time] if network.actions.discrete else jax.vmap(network.actions.to_unit)(actions[time])
        log.append(
            (jax.vmap(lambda p, a: p.log_probability(a))(policy, unit), jax.vmap(network.value)(observation, features))
        )
        auxes.append(hidden)
        hidden = jax.vmap(lambda h, a: agent.observe_action(state, h, a))(
            hidden._replace(features=features), actions[time]
        )
        hidden = jax.tree.map(lambda x: jnp.where(ended[time][:, None], 0.0, x), hidden)  # noqa: B023
    stack = lambda *x: jnp.stack(x)  # noqa: E731
    return jax.tree.map(stack, *log), jax.tree.map(stack, *auxes)


@pytest.mark.parametrize("space", [spaces.Discrete(2), spaces.MultiDiscrete([2, 3]), spaces.Box(-2.0, 2.0, (2,))])
@pytest.mark.thorough
def test_the_rollout_at_once_is_the_rollout_step_by_step(space):
    spec = Spec("Table", spaces.Discrete(2), space)
    state = small.at_once(lambda: REMEMBERING.init(jax.random.key(3), spec))
    space.seed(0)
    actions = np.array([[space.sample() for _ in range(4)] for _ in range(5)])
    ended = jnp.zeros((5, 4), bool).at[1, 0].set(True).at[2, 3].set(True).at[4, 1].set(True)
    (log_probability, value), policy_info = jax.jit(lambda: replay_memory(REMEMBERING, spec, actions, ended, state))()
    assert np.abs(np.asarray(policy_info.action[1:])).max() > 0 and not np.asarray(policy_info.action[2, 0]).any()
    observation = (np.arange(4)[None] + np.arange(5)[:, None]) % 2
    first = jnp.concatenate([np.zeros((1, 4), bool), ended[:-1]])
    sequence = Sequence(policy_info.features[0], first, policy_info.action)
    unit = actions
    if not state.network.actions.discrete:
        unit = jax.vmap(jax.vmap(state.network.actions.to_unit))(actions)
    again, _, value_again = jax.jit(score_actions)(state.network, observation, unit, sequence)
    np.testing.assert_allclose(again, log_probability, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(value_again, value, rtol=1e-4, atol=1e-5)


def test_minibatches_of_segments_keep_each_segment_together():
    number = np.arange(20).reshape(5, 4)  # env = number % 4, time = number // 4
    given = Targets(number, *[number.astype(jnp.float32)] * 4, None)
    sequence = Sequence(np.arange(4.0)[:, None], number > 0, number[..., None].astype(jnp.float32))
    bits = jax.random.bits(jax.random.key(0), (4,))
    observation, cut, threads = cut_minibatches(shuffle(bits), REMEMBERING.minibatches, number, given, sequence)
    assert observation.shape == (2, 5, 2) and sorted(np.asarray(observation).ravel()) == list(range(20))
    np.testing.assert_array_equal(observation, cut.action)
    np.testing.assert_array_equal(observation, cut.value_target)
    np.testing.assert_array_equal(observation, threads.action[..., 0])
    np.testing.assert_array_equal(observation > 0, threads.first)
    assert (np.diff(np.asarray(observation), axis=1) == 4).all()  # time goes on within each
    np.testing.assert_array_equal(observation[:, 0], threads.start[..., 0])


def test_minibatches_of_transitions_keep_each_transition_together():
    agent = dataclasses.replace(REMEMBERING, gru_size=0, minibatches=4)
    number = np.arange(20).reshape(5, 4)
    given = Targets(number, *[number.astype(jnp.float32)] * 4, None)
    order = shuffle(jax.random.bits(jax.random.key(0), (20,)))
    observation, cut, sequence = cut_minibatches(order, agent.minibatches, number, given, None)
    assert sequence is None and observation.shape == (4, 5)
    assert sorted(np.asarray(observation).ravel()) == list(range(20))
    np.testing.assert_array_equal(observation, cut.advantage)


def test_memory_at_the_next_observation_goes_on_from_the_action():
    state = small.at_once(lambda: REMEMBERING.init(jax.random.key(3), SPEC))
    hidden = GRUState(np.array([0.1, -0.4, 0.2]), np.array([0.0, 1.0]))
    one = lambda x, dtype=jnp.int32: jnp.full((1, 1), x, dtype)  # noqa: E731
    policy_info = jax.tree.map(lambda x: x[None, None], hidden)
    experience = Experience(
        one(0), one(0), one(0.0, float), one(1), one(0, bool), one(1, bool), one(AGENT), policy_info
    )
    value = jax.jit(next_values)(state.network, experience, one(0), one(1))

    def by_hand():
        after = GRUState(state.network.remember(hidden, jnp.int32(0)), jnp.array([1.0, 0.0]))
        return state.network.value(jnp.int32(1), state.network.remember(after, jnp.int32(1)))

    np.testing.assert_allclose(value[0, 0], jax.jit(by_hand)(), rtol=1e-5)


def test_what_it_cannot_do():
    with pytest.raises(ForageError, match="cannot cut 1024 transitions into 3 equal minibatches"):
        PPO(minibatches=3).check(SPEC)
    with pytest.raises(ForageError, match=r"cannot cut 8 environments .* into 16 equal minibatches"):
        PPO(minibatches=16, gru_size=4).check(SPEC)
    alone = PPO(num_envs=4, rollout_length=2, minibatches=8)
    with pytest.raises(ForageError, match="8 minibatches have one transition each; take fewer, or normalise_advantage"):
        alone.check(SPEC)
    dataclasses.replace(alone, normalise_advantage=False).check(SPEC)
    alone.check(dataclasses.replace(SPEC, num_agents=2))
    PPO(num_envs=4, rollout_length=2, minibatches=4, gru_size=4).check(SPEC)
    with pytest.raises(ForageError, match="Only numbers can be normalised"):
        PPO(normalise_observation=True).check(SPEC)


@pytest.mark.parametrize("extra", [{}, {"gru_size": 2}, {"value_sizes": (3,)}])
def test_the_network_prepared_for_acting_is_the_same_one(extra):
    spec = Spec("Table", spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
    agent = dataclasses.replace(PLAIN, **extra)
    observation = np.array([0.1, -0.2, 0.3], np.float32)

    def outputs(state):
        network = state.network
        features = network.features(observation)
        if agent.gru_size:
            return features, network.torso(-1)(observation)
        rows = network.rows(observation[None]), network.values(observation[None])
        return features, network.outputs(features), network.value(observation), rows

    def compare(key):
        state = agent.init(key, spec)
        return outputs(state), outputs(agent.prepare_acting(state))

    usual, prepared = small.compute(compare, KEY)
    jax.tree.map(np.testing.assert_array_equal, prepared, usual)
    assert np.ptp(np.concatenate([np.ravel(x) for x in jax.tree.leaves(usual)])) > 0
