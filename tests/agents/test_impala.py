"""IMPALA's loss against numbers worked by hand, with time limits; and the information stored in acting."""

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

from forage.agents.policy_gradient.impala import IMPALA, PolicyInfo
from forage.config.resolve import resolve
from forage.core.types import AGENT, GONE, GUIDE, Batch, Clock, Experience, ForageError, Spec
from forage.ops.returns import lambda_returns

SPEC = Spec("Table", spaces.Discrete(2), spaces.Discrete(2))
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
PLAIN = IMPALA(
    num_envs=1, rollout_length=4, discount=0.5, entropy_coefficient=0.1, hidden_sizes=(2,), activation="relu"
)
# In state 0 the logits (0, ln 3) give probabilities 1/4 and 3/4 and the value is 2; in state 1 they are 1/2 and -1.
H0 = -(0.25 * np.log(0.25) + 0.75 * np.log(0.75))
LOG_PI = np.log([0.75, 0.25, 0.25, 0.75])  # of the four actions below, all in state 0

LOSS = jax.jit(jax.value_and_grad(PLAIN.loss, has_aux=True))


def table():
    """Return a network with the one-hot state as features and tables as last layers."""
    network = small.zeros(lambda: PLAIN.init(jax.random.key(0), SPEC)).network
    where = lambda n: (n.torsos.body.layers[0].weight, n.actor.weight, n.critic.weight)  # noqa: E731
    tables = np.stack([np.eye(2)] * 2), np.array([[0.0, np.log(3)], [0.0, 0.0]]), np.array([[2.0], [-1.0]])
    return equinox.tree_at(where, network, tables)


def rollout(end, source=(AGENT,) * 4):
    """Four steps of one environment with ratios 2, 1/2, 1, 4 and rewards 1, 2, 3, 4.

    The second ends as `end` says and leads to state 1 if it ends; the third is terminated; the fourth leads to state 1.
    """
    column = lambda x, dtype: jnp.asarray(np.asarray(x, dtype)[:, None])  # noqa: E731
    noted = PolicyInfo((), column(LOG_PI - np.log([2, 0.5, 1, 4]), np.float32))
    return Experience(
        observation=column([0] * 4, np.int32),
        action=column([1, 0, 0, 1], np.int32),
        reward=column([1, 2, 3, 4], np.float32),
        next_observation=column([0, 1 if end else 0, 1, 1], np.int32),
        terminated=column([0, end == "terminated", 1, 0], bool),
        truncated=column([0, end == "truncated", 0, 0], bool),
        source=column(source, np.int32),
        policy_info=noted,
        version=column([0] * 4, np.int32),
    )


# The last two targets, for every end of the second step: 3, its task is over; 4 - 1/2.
# Their advantages: 1 * (3 - 2); 1 * (3.5 - 2).
TABLE = {
    # Errors 0; 1/2 (2 + 2/2 - 2) = 1/2. Targets 2 + 1/2 + 1/4 (3 - 2) = 2.75 and 2 + 0 + 1/2 0.75.
    "": ([2.375, 2.75, 3, 3.5], [1 + 2.75 / 2 - 2, 0.5 * (2 + 3 / 2 - 2), 1, 1.5]),
    # Nothing comes after: error 1/2 (2 - 2) = 0.
    "terminated": ([2, 2, 3, 3.5], [0, 0, 1, 1.5]),
    # The value of state 1 stands for what would have come: error 1/2 (2 - 1/2 - 2) = -1/4, and the trace is cut.
    "truncated": ([1.875, 1.75, 3, 3.5], [1 + 1.75 / 2 - 2, 0.5 * (2 - 1 / 2 - 2), 1, 1.5]),
}


@pytest.mark.parametrize("end", TABLE)
def test_the_loss_by_hand(end):
    target, advantage = map(np.array, TABLE[end])
    (total, (metrics, error)), gradient = LOSS(table(), None, rollout(end))
    policy_loss, value_loss = -(advantage * LOG_PI).sum(), 0.5 * ((target - 2) ** 2).sum()
    np.testing.assert_allclose(total, policy_loss + 0.5 * value_loss - 0.1 * 4 * H0, rtol=1e-5)
    np.testing.assert_allclose(metrics["policy_loss"], policy_loss / 4, rtol=1e-5)
    np.testing.assert_allclose(metrics["value_loss"], value_loss / 4, rtol=1e-5)
    np.testing.assert_allclose(metrics["rho"], (1 + 0.5 + 1 + 1) / 4, rtol=1e-6)
    np.testing.assert_allclose(error, [np.abs(advantage).mean()], rtol=1e-5)
    # Targets, advantages and ratios are constants of the gradient.
    np.testing.assert_allclose(gradient.critic.bias, [0.5 * (2 - target).sum()], rtol=1e-5)
    ascent = (advantage * (np.array([1, 0, 0, 1]) - 0.75)).sum()
    np.testing.assert_allclose(gradient.actor.bias[1] + 0.1 * 4 * entropy_slope(), -ascent, rtol=1e-5)


def entropy_slope():
    """The derivative of the entropy in state 0 by the second logit: -p (ln p + H)."""
    return -0.75 * (np.log(0.75) + H0)


@jax.jit
def find_targets(agent, network, experience):
    return agent.targets(agent.apply_to_rollout(network, None, experience), experience)


def targets(agent, experience):
    return [np.asarray(x)[:, 0] for x in find_targets(agent, table(), experience)]


def test_without_correction_every_ratio_is_one():
    plain = dataclasses.replace(PLAIN, correct=False)
    target, advantage = targets(plain, rollout("truncated"))
    np.testing.assert_allclose(target, [1.75, 1.5, 3, 3.5], rtol=1e-6)
    np.testing.assert_allclose(advantage, [1 + 1.5 / 2 - 2, -0.5, 1, 1.5], rtol=1e-6)


def test_ratios_are_clipped_apart():
    """rho = 2, 1/2, 1, 3 and c = 2, 1/2, 1, 2."""
    target, advantage = targets(dataclasses.replace(PLAIN, clip_rho=3.0, clip_c=2.0), rollout(""))
    np.testing.assert_allclose(target, [2 + 0.5 * 2 * 0.75, 2.75, 3, 2 + 3 * 1.5], rtol=1e-6)
    np.testing.assert_allclose(advantage, [2 * 0.375, 0.75, 1, 3 * 1.5], rtol=1e-6)


@pytest.mark.parametrize("source", [GUIDE, GONE])
def test_actions_of_another_teach_no_policy(source):
    experience = rollout("truncated", (AGENT, source, AGENT, AGENT))
    target, _ = targets(PLAIN, experience)
    # Before a step that was lost, the value of state 0 stands for what would have come.
    first = 1.75 if source == GUIDE else 1 + 2 / 2
    np.testing.assert_allclose(target, [first, 1.5, 3, 3.5], rtol=1e-6)
    gradient = LOSS(table(), None, experience)[1]
    advantage = np.array([1 + 1.5 / 2 - 2 if source == GUIDE else 0, 0, 1, 1.5])
    ascent = (advantage * (np.array([1, 0, 0, 1]) - 0.75)).sum()
    np.testing.assert_allclose(gradient.actor.bias[1] + 0.1 * 3 * entropy_slope(), -ascent, rtol=1e-5)
    errors = (2 - target) * (1 if source == GUIDE else np.array([1, 0, 1, 1]))
    np.testing.assert_allclose(gradient.critic.bias, [0.5 * errors.sum()], rtol=1e-5)


@pytest.mark.thorough
def test_one_step_of_rmsprop():
    agent = dataclasses.replace(PLAIN, learning_rate=0.1, rms_decay=0.75, rms_epsilon=0.5)
    state = small.at_once(lambda: agent.init(jax.random.key(0), SPEC))._replace(network=table())
    batch = Batch(rollout("truncated"), jnp.ones(1), jnp.zeros(1, jnp.int32))
    gradient = jax.jit(jax.grad(agent.loss, has_aux=True))(table(), None, batch.experience)[0]
    after, metrics, _ = jax.jit(agent.learn)(state, batch, CLOCK, jax.random.key(0))
    for old, new, g in zip(*map(jax.tree.leaves, (table(), after.network, gradient)), strict=True):
        np.testing.assert_allclose(new, old - 0.1 * g / np.sqrt(0.25 * g**2 + 0.5), rtol=1e-5, atol=1e-6)
    assert after.updates == 1 and metrics["lag"] == 0


@pytest.mark.parametrize(
    ("environment", "options"),
    first(
        1,
        [
            ("CartPole-v1", {}),
            ("CartPole-masked", {"gru_size": 4}),
            ("Pendulum-v1", {"normalise_observation": True}),
        ],
    ),
)
def test_behind_the_last_rollout_it_is_the_synchronous_update(environment, options):
    """Read again by the network that acted, ratios are 1, and V-trace's targets are the returns with lambda 1."""
    options = {"num_envs": 3, "rollout_length": 30, "hidden_sizes": (8,)} | options
    setup = resolve("impala", environment, steps=400, seeds=1, agent_options=options)
    loop = setup.loop()
    state = jax.jit(loop.init)(jax.random.key(0))
    step = jax.jit(loop.iterate)
    for i in range(3):  # in the middle of episodes, after some updates
        state, _ = step(state, Clock(jnp.int32(90 * i), jnp.float32(400)))
    experience = jax.jit(loop.next_rollout)(state, Clock(jnp.int32(270), jnp.float32(400)))
    agent, acting = loop.agent, state.learner.agent
    read = jax.jit(agent.apply_to_rollout)(acting.network, acting.norm, experience)
    assert experience.ended.any() or environment == "Pendulum-v1"
    np.testing.assert_allclose(read.log_ratio, 0, atol=3e-5)
    goes_on = ~np.asarray(experience.ended)[:-1]
    np.testing.assert_allclose(read.next_value[:-1][goes_on], read.value[1:][goes_on], atol=1e-5)
    over = jax.vmap(lambda *x: lambda_returns(*x, agent.discount, 1.0), in_axes=1, out_axes=1)
    returns = over(experience.reward, read.next_value, experience.terminated, experience.truncated)
    target, advantage = jax.jit(agent.targets)(read, experience)
    np.testing.assert_allclose(target, returns, rtol=1e-4, atol=2e-4)
    np.testing.assert_allclose(advantage, returns - read.value, rtol=1e-4, atol=3e-4)
    estimates = jax.jit(agent.estimate)(acting, experience)
    np.testing.assert_allclose(estimates.advantage, advantage, rtol=1e-4, atol=1e-4)
    assert (np.asarray(experience.version) == 3).all()


def test_what_cannot_be_is_refused():
    with pytest.raises(ForageError, match=r"clip_c of IMPALA is at most clip_rho, and 2 is not at most 1"):
        check(dataclasses.replace(PLAIN, clip_c=2.0), SPEC)
    with pytest.raises(ForageError, match="Only numbers can be normalised"):
        check(dataclasses.replace(PLAIN, normalise_observation=True), SPEC)
    with pytest.raises(ForageError, match="rms-decay of impala is from 0 to below 1"):
        resolve("impala", "CartPole-v1", agent_options={"rms_decay": 1.0})
