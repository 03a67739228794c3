"""DQN against hand-worked tables, and on a task that takes one step."""

import dataclasses

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from small import at_once, compute, zeros

from forage.agents.q_learning.dqn import DQN
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.core.ports import ActInputs, Environment
from forage.core.types import GONE, Batch, Clock, Experience, ForageError, Spec, Step
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.programs import advance, batch_seeds, over_seeds
from forage.loop.learner import Learner
from forage.memory.prioritised import PrioritisedReplay
from forage.memory.uniform import UniformReplay
from forage.nn.networks import GRUState
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same

STATES = 5
SPEC = Spec("Table", spaces.Discrete(STATES), spaces.Discrete(2))
ONLINE = np.array([[1.0, 2.0], [3.0, 5.0], [6.0, 4.0], [0.5, 0.0], [2.0, 7.0]], np.float32)
TARGET = np.array([[10.0, 20.0], [50.0, 30.0], [70.0, 40.0], [5.0, 8.0], [60.0, 90.0]], np.float32)
CLOCK = Clock(jnp.int32(0), jnp.float32(100))


def table(agent, values):
    """Return a network with the one-hot state as features, so that its last layer is the table of Q."""
    network = zeros(lambda: agent.init(jax.random.key(0), SPEC)).network
    where = lambda n: (n.torso.body.layers[0].weight, n.advantage.layers[0].weight)  # noqa: E731
    return equinox.tree_at(where, network, (np.eye(STATES), values))


def segment(observation, action, reward, next_observation, terminated, truncated, policy_info=()):
    """One segment, as a batch of one."""
    column = lambda x, dtype: np.asarray(x, dtype)[:, None]  # noqa: E731
    experience = Experience(
        column(observation, jnp.int32), column(action, jnp.int32), column(reward, jnp.float32),
        column(next_observation, jnp.int32), column(terminated, bool), column(truncated, bool),
        jnp.zeros((len(reward), 1), jnp.int32), policy_info,
    )  # fmt: skip
    return jax.device_put(Batch(experience, np.ones(1), np.zeros(1, jnp.int32)))


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize(
    ("ended", "value", "double_value"),
    [
        # Q(0, 1) = 2; rewards 1, 2, 4, discount 0.5. Bootstrap from state 3: Q' 8, or 5 of the action ONLINE prefers.
        (None, 1 + 1 + 1 + 8 / 8, 1 + 1 + 1 + 5 / 8),
        ("terminated", 1 + 1, 1 + 1),  # at the second step: nothing after
        ("truncated", 1 + 1 + 70 / 4, 1 + 1 + 70 / 4),  # state 2: both prefer action 0
    ],
)
def test_targets_of_three_steps(double, ended, value, double_value):
    agent = DQN(discount=0.5, dueling=False, double=double, n_step=3, hidden_sizes=(STATES,))
    ends = {"terminated": [0, 0, 0], "truncated": [0, 0, 0]}
    if ended:
        ends[ended] = [0, 1, 0]
    # After the end the segment goes on with another episode, which must not matter.
    observation = [0, 1, 4 if ended else 2]
    batch = segment(observation, [1, 0, 1], [1, 2, 4], [1, 2, 3], **ends)
    loss, (error, _) = compute(agent.loss, table(agent, ONLINE), table(agent, TARGET), batch)
    expected = (double_value if double else value) - 2
    np.testing.assert_allclose(error, [[expected]], rtol=1e-6)
    huber = 0.5 * expected**2 if abs(expected) < 1 else abs(expected) - 0.5
    np.testing.assert_allclose(loss, huber, rtol=1e-6)


@pytest.mark.parametrize("double", [False, True])
def test_one_step_targets_differ_where_the_networks_disagree(double):
    agent = DQN(discount=0.5, dueling=False, double=double, n_step=1, hidden_sizes=(STATES,))
    batch = segment([0], [0], [3], [1], [0], [0])
    _, (error, _) = compute(agent.loss, table(agent, ONLINE), table(agent, TARGET), batch)
    np.testing.assert_allclose(error, [[3 + 0.5 * (30 if double else 50) - 1]], rtol=1e-6)


def test_weights_multiply_the_loss_and_errors_are_returned():
    agent = DQN(discount=0.5, dueling=False, double=False, n_step=1, hidden_sizes=(STATES,))
    one, other = segment([0], [0], [3], [1], [0], [0]), segment([1], [1], [-2], [2], [1], [0])
    batch = jax.tree.map(lambda a, b: jnp.concatenate([a, b], -1), one, other)._replace(weight=np.array([0.25, 1.0]))
    state = at_once(lambda: agent.init(jax.random.key(0), SPEC))._replace(
        network=table(agent, ONLINE), target=table(agent, TARGET)
    )
    loss, _ = compute(agent.loss, state.network, state.target, batch)
    np.testing.assert_allclose(loss, (0.25 * (27 - 0.5) + 1.0 * (7 - 0.5)) / 2, rtol=1e-6)
    _, _, errors = compute(agent.learn, state, batch, CLOCK, jax.random.key(0))
    np.testing.assert_allclose(errors, [27, 7], rtol=1e-6)  # sizes, without the weights
    left = batch._replace(experience=batch.experience._replace(source=np.array([[GONE, 0]])))
    _, _, errors = compute(agent.learn, state, left, CLOCK, jax.random.key(0))
    np.testing.assert_allclose(errors, [0, 7], rtol=1e-6)  # there is nothing to learn where an agent had left


@pytest.mark.parametrize("double", [False, True])
def test_masked_actions_are_never_chosen_nor_hoped_for(double):
    space = spaces.Dict({"observation": spaces.Discrete(STATES), "action_mask": spaces.MultiBinary(2)})
    agent = DQN(discount=0.5, dueling=False, double=double, n_step=1, hidden_sizes=(STATES,))
    state = at_once(lambda: agent.init(jax.random.key(0), Spec("Masked", space, SPEC.action_space)))
    state = state._replace(network=table(agent, ONLINE), target=table(agent, TARGET))
    for mask, action in ([1, 1], 1), ([1, 0], 0), ([0, 1], 1):
        observation = {"observation": jnp.int32(4), "action_mask": jnp.array(mask, jnp.int8)}
        assert int(agent.act(state, ActInputs((), observation, jax.random.key(0), explore=True))[0]) == action

    def batch(mask, terminated):
        batch = segment([0], [0], [3], [2], [terminated], [0])
        see = lambda o, m: {"observation": o, "action_mask": jnp.array([[m]], jnp.int8)}  # noqa: E731
        experience = batch.experience
        observation, after = see(experience.observation, [1, 1]), see(experience.next_observation, mask)
        return batch._replace(experience=experience._replace(observation=observation, next_observation=after))

    for mask, terminated, value in ([1, 1], 0, 70), ([0, 1], 0, 40), ([0, 0], 1, 0):  # at an end nothing is allowed
        _, (error, _) = compute(agent.loss, state.network, state.target, batch(mask, terminated))
        np.testing.assert_allclose(error, [[3 + 0.5 * value - 1]], rtol=1e-6)


def test_dueling_streams_add_up():
    agent = DQN(hidden_sizes=(8,))
    network = at_once(lambda: agent.init(jax.random.key(1), SPEC)).network
    features = network.torso(jnp.int32(3))
    q, advantage = network.q(features), network.advantage(features)
    np.testing.assert_allclose(q.mean(), network.state_value(features)[0], rtol=1e-5)
    np.testing.assert_allclose(q[1] - q[0], advantage[1] - advantage[0], rtol=1e-4)


def test_target_network_follows_at_its_interval_and_rate():
    agent = DQN(
        n_step=1, target_update_interval=20, rollout_length=10, target_rate=0.5, dueling=False, hidden_sizes=(STATES,)
    )
    start = at_once(lambda: agent.init(jax.random.key(0), SPEC))
    batch = segment([0], [0], [3], [1], [0], [0])
    once, *_ = compute(agent.learn, start, batch, CLOCK, jax.random.key(0))
    twice, *_ = compute(agent.learn, once, batch, CLOCK, jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, once.target, start.target)
    half = jax.tree.map(lambda old, new: 0.5 * (old + new), start.target, twice.network)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), twice.target, half)
    hard = dataclasses.replace(agent, target_rate=1.0)
    twice, *_ = compute(hard.learn, once, batch, CLOCK, jax.random.key(0))
    jax.tree.map(np.testing.assert_array_equal, twice.target, twice.network)


RECURRENT = DQN(
    gru_size=4, burn_in=1, unroll=3, n_step=2, hidden_sizes=(3,), activation="tanh", discount=0.5, double=True
)


def replay_memory(network, hidden, observations, actions):
    """Q after each of these observations and the actions before them, one at a time."""
    values = []
    for observation, action in zip(observations, actions, strict=True):
        before = GRUState(hidden, jnp.asarray(action, jnp.float32))
        hidden = network.gru(before, network.torso(jnp.int32(observation)))
        values.append(network.q(hidden))
    return values


@pytest.mark.parametrize("ended", ["terminated", "truncated"])
@pytest.mark.thorough
def test_sequences_forget_at_ends_and_bootstrap_within_the_episode(ended):
    agent, discount = RECURRENT, 0.5
    network, target = at_once(lambda: [agent.init(jax.random.key(i), SPEC).network for i in range(2)])
    start = np.array([0.3, -0.2, 0.5, 0.1])
    nothing, left, right = [0, 0], [1, 0], [0, 1]
    before = GRUState(
        jnp.broadcast_to(start, (5, 1, 4)) + jnp.arange(5)[:, None, None],  # only the first is to be used
        jnp.array([right, left, right, nothing, right], jnp.float32)[:, None],
    )
    ends = {"terminated": [0] * 5, "truncated": [0] * 5}
    ends[ended] = [0, 0, 1, 0, 0]
    # States 0 1 2 end in 4; a new episode goes 3 1 and then sees 0.
    reward = [1.0, 2.0, 4.0, 8.0, 16.0]
    batch = segment([0, 1, 2, 3, 1], [0, 1, 0, 1, 1], reward, [1, 2, 4, 1, 0], **ends, policy_info=before)
    _, (error, _) = compute(agent.loss, network, target, batch)

    def chain(network):
        first = replay_memory(network, start, [0, 1, 2, 4], [right, left, right, left])
        return first, replay_memory(network, jnp.zeros(4), [3, 1, 0], [nothing, right, right])

    (first, second), (later_first, later_second) = compute(chain, network), compute(chain, target)
    end_value = float(later_first[3][jnp.argmax(first[3])]) if ended == "truncated" else 0.0
    goals = [
        2 + discount * 4 + discount**2 * end_value,  # two steps from step 1 reach the end
        4 + discount * end_value,  # from step 2 only one
        8 + discount * 16 + discount**2 * float(later_second[2][jnp.argmax(second[2])]),
    ]
    estimates = [float(first[1][1]), float(first[2][0]), float(second[0][1])]
    np.testing.assert_allclose(error[:, 0], np.array(goals) - np.array(estimates), rtol=1e-5)
    sizes = np.abs(error[:, 0])
    np.testing.assert_allclose(agent.surprise(jnp.abs(error)), [0.9 * sizes.max() + 0.1 * sizes.mean()], rtol=1e-5)


@pytest.mark.thorough
def test_the_surprise_of_a_sequence_is_that_of_its_steps_that_count():
    state = at_once(lambda: RECURRENT.init(jax.random.key(0), SPEC))
    policy_info = GRUState(jnp.zeros((5, 1, 4)), jnp.zeros((5, 1, 2)))
    batch = segment(
        [0, 1, 2, 3, 1],
        [0] * 5,
        [1.0, 2.0, 50.0, 70.0, 0.0],
        [1, 2, 3, 1, 3],
        [0] * 5,
        [0] * 5,
        policy_info=policy_info,
    )
    _, (error, _) = compute(RECURRENT.loss, state.network, state.target, batch)
    source = np.array([0, 0, 0, GONE, GONE])[:, None]  # the first warms up, the next three are learned from
    batch = batch._replace(experience=batch.experience._replace(source=source))
    found = compute(RECURRENT.learn, state, batch, CLOCK, jax.random.key(0))[2]
    np.testing.assert_allclose(found, RECURRENT.surprise(jnp.abs(error) * np.array([[1], [1], [0]])), rtol=1e-5)


def test_no_gradient_flows_through_the_burn_in():
    network = at_once(lambda: RECURRENT.init(jax.random.key(0), SPEC)).network
    assert RECURRENT.segment == 5

    def gradient_of_first(burn_in):
        """Return the gradient of the weights that see state 0, which occurs at the first step only."""
        agent = dataclasses.replace(RECURRENT, burn_in=burn_in)
        policy_info = GRUState(jnp.zeros((5, 1, 4)), jnp.zeros((5, 1, 2)))
        batch = segment([0, 1, 2, 3, 1], [0] * 5, [1.0] * 5, [1, 2, 4, 1, 3], [0] * 5, [0] * 5, policy_info=policy_info)
        gradient = compute(jax.grad(agent.loss, has_aux=True), network, network, batch)[0]
        return gradient.torso.body.layers[0].weight[0]

    assert not gradient_of_first(1).any()
    assert gradient_of_first(0).any()


def test_hidden_state_is_stored_as_it_was_before_the_step():
    state = at_once(lambda: RECURRENT.init(jax.random.key(0), SPEC))
    hidden = GRUState(np.array([0.3, -0.2, 0.5, 0.1]), np.array([0.0, 1.0]))
    _, after, stored = RECURRENT.act(state, ActInputs(hidden, jnp.int32(2), jax.random.key(0), explore=True))
    jax.tree.map(np.testing.assert_array_equal, stored, hidden)
    heard = jnp.concatenate([state.network.torso(jnp.int32(2)), hidden.action])
    expected = state.network.gru.step(hidden.features, state.network.gru.inputs(heard))
    np.testing.assert_allclose(after.features, expected, rtol=1e-6)
    np.testing.assert_array_equal(RECURRENT.observe_action(state, after, jnp.int32(0)).action, [1, 0])
    np.testing.assert_array_equal(RECURRENT.observe_action(state, after, jnp.int32(0)).features, after.features)


def test_what_it_cannot_do():
    with pytest.raises(ForageError) as error:
        check(DQN(), Spec("Pendulum-v1", spaces.Box(-1, 1, (3,)), spaces.Box(-2, 2, (1,))))
    assert str(error.value) == "DQN needs a Discrete action space, and Pendulum-v1 has Box(1,); try ppo, sac or td3."
    with pytest.raises(ForageError, match="count from 0"):
        check(DQN(), Spec("Off", spaces.Discrete(2), spaces.Discrete(2, start=1)))
    with pytest.raises(ForageError, match=r"after 24 steps, not 20"):
        check(DQN(num_envs=8, n_step=3, learning_starts=20), SPEC)
    check(DQN(num_envs=8, n_step=3, learning_starts=24), SPEC)


class Match(Environment):
    """One step: reward 1 for the action that the observation names."""

    @property
    def observation_space(self):
        return spaces.Discrete(3)

    @property
    def action_space(self):
        return spaces.Discrete(3)

    def reset(self, key):
        cue = jax.random.randint(key, (), 0, 3)
        return cue, cue

    def step(self, state, action, key):
        return state, Step(state, (action == state).astype(jnp.float32), jnp.bool_(True), jnp.bool_(False), {})


@pytest.mark.parametrize("Memory", [UniformReplay, PrioritisedReplay])
@pytest.mark.thorough
def test_learns_one_step_in_place_with_two_seeds(Memory):
    agent = DQN(learning_rate=1e-2, rollout_length=1, batch_size=32, learning_starts=50, hidden_sizes=(16,), n_step=2)
    environment, seeds, capacity = Match(), 2, 40_000
    spec = Spec("Match", environment.observation_space, environment.action_space)
    learner = Learner(agent, EpsilonGreedy(end=1.0), EnvironmentReward(), Memory(capacity=capacity), spec)
    learner.check()
    loop = batch_seeds(DeviceLoop(learner, environment, Same(), Reset()), {})
    keys = jax.vmap(jax.random.key)(jnp.arange(seeds))
    state = over_seeds(loop, lambda e, key: e.init(key), keys)
    clock = Clock(jnp.int32(0), jnp.float32(600))
    program = jax.jit(advance, donate_argnums=1).lower(loop, state, clock, 600).compile()
    # A step costs the same whatever the capacity: no part of the memory is copied on the way.
    assert program.memory_analysis().temp_size_in_bytes < capacity * seeds
    state, _, report = program(loop, state, clock, 600)
    np.testing.assert_array_equal(report.metrics["updates"], 551)

    def greedy(state, cue):
        return agent.act(state, ActInputs((), cue, jax.random.key(0), explore=False))[0]

    chosen = jax.vmap(lambda state: jax.vmap(lambda cue: greedy(state, cue))(jnp.arange(3)))(state.learner.agent)
    np.testing.assert_array_equal(chosen, np.broadcast_to(np.arange(3), (seeds, 3)))
    q = jax.vmap(lambda s: jax.vmap(s.network)(jnp.arange(3)))(state.learner.agent)
    np.testing.assert_allclose(q, np.broadcast_to(np.eye(3), (seeds, 3, 3)), atol=0.2)
