"""The trajectory transformer: its tokens, its loss, its plans and their returns."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces
from test_sequence_agents import CLOCK, KEY, SPEC, STEPS, loop_of, record_episodes, train_agent

from forage.core.types import Batch, ForageError
from forage.loop.device.evaluate import play_episodes
from forage.loop.learner import LearnerState
from forage.memory.dataset import OpenedDataSet
from forage_papers.agents.offline.trajectory_transformer import TrajectoryTransformer

PLANS = {
    "context": 4,
    "past": 1,
    "horizon": 3,
    "beams": 8,
    "expand": 2,
    "bins": 6,
    "width": 16,
    "layers": 1,
    "heads": 2,
}
PLANNER = TrajectoryTransformer(**PLANS, dropout=0.0, warmup=1, learning_rate=1e-2, batch_size=64, discount=0.9, cut=0)


def test_numbers_become_tokens_and_tokens_numbers():
    data = (
        OpenedDataSet("chain", "", record_episodes(64))
        .with_returns(PLANNER, np.asarray(record_episodes(64).reward, float))
        .data
    )

    def work_out():
        state = PLANNER.init_from_dataset(PLANNER.init(KEY, SPEC), data)
        rows = jax.vmap(lambda one: PLANNER.row(state, one))(data)
        tokens = PLANNER.tokens(state, rows)
        return rows, tokens, jax.vmap(lambda row: jnp.take_along_axis(state.centres, row[:, None], 1)[:, 0])(tokens)

    rows, tokens, back = small.compute(work_out)
    assert rows.shape == (256, 5) and tokens.min() >= 0 and tokens.max() < 6
    np.testing.assert_array_equal(tokens[:, 2], data.action)  # a choice's token is its number
    np.testing.assert_allclose(back[:, :4], rows[:, :4], rtol=1e-5)  # rewards of two values are exact
    later = np.array([data.reward[1] + 0.9 * data.reward[2] + 0.81 * data.reward[3], 0])
    np.testing.assert_allclose(rows[[0, 3], 4], later, rtol=1e-4, atol=1e-5)
    assert np.abs(back[:, 4] - rows[:, 4]).max() < 1.0


def test_tokens_of_actions_weigh_more_by_hand():
    """The second of two segments is of an episode that is over after two transitions: ends' tokens follow."""
    agent = dataclasses.replace(PLANNER, action_weight=5.0, learning_rate=0.0)
    data = (
        OpenedDataSet("chain", "", record_episodes(64))
        .with_returns(agent, np.asarray(record_episodes(64).reward, float))
        .data
    )
    rows = jax.tree.map(lambda x: jnp.stack([x[:4], x[2:6]], 1), data)
    weight = np.array([1.0, 0.5], np.float32)

    def work_out():
        state = agent.init_from_dataset(agent.init(KEY, SPEC), data)
        network = jax.tree.map(lambda x: 20 * x if x.ndim >= 2 else x, state.network)
        state = state._replace(network=network)
        tokens = jax.vmap(jax.vmap(lambda one: agent.tokens(state, agent.row(state, one))))(rows)
        tokens = tokens.at[2:, 1].set(6).swapaxes(0, 1).reshape(2, -1)
        said = jax.nn.log_softmax(jax.vmap(network)(tokens))
        _, metrics, error = agent.learn(state, Batch(rows, weight, jnp.arange(2)), CLOCK, KEY)
        return tokens, said, metrics["model_loss"], error

    tokens, said, loss, error = small.compute(work_out)
    weights = np.tile([1, 1, 5, 1, 1], 4)  # two numbers of the observation, the action, the reward and the value
    expected = [
        -np.mean([weights[i] * said[row, i - 1, tokens[row, i]] for i in range(1, 20)]) for row in range(2)
    ]  # each token by what was said of it one place before
    np.testing.assert_allclose(error, expected, rtol=1e-4)
    np.testing.assert_allclose(loss, (expected * weight).mean(), rtol=1e-4)
    assert TrajectoryTransformer(**PLANS).action_weight == 5


def test_what_a_plan_begins_with():
    """The cached model gives the same next logits as the whole one, from fewer and from more transitions."""
    agent = dataclasses.replace(PLANNER, past=2, context=5)
    network = small.at_once(lambda: agent.init(KEY, SPEC)).network
    network = jax.tree.map(lambda x: 20 * x if x.ndim >= 2 else x, network)
    tokens = np.random.default_rng(0).integers(0, 6, 15)

    def run_both(network):
        whole = network(tokens)
        y, cache = network.encode(jnp.asarray(tokens[:7]), jnp.ones(7, bool), length=20)
        one = jax.tree.map(lambda x: x[None], cache)
        found = [(y[-1] @ network.heads[1])[None]]
        for index in range(7, 12):
            one, logits = network.extend(one, jnp.asarray(tokens[index : index + 1]), index % 5)
            found.append(logits)
        return whole[6:12], jnp.concatenate(found)

    whole, found = small.compute(run_both, network)
    np.testing.assert_allclose(found, whole, rtol=1e-3, atol=1e-3)


@pytest.mark.thorough
def test_it_plans_the_best_return():
    loop, state = loop_of(PLANNER), LearnerState(train_agent(PLANNER, 400), (), (), ())
    found = small.compute(lambda state: play_episodes(loop, state, KEY, 4, 10).returns, state)
    np.testing.assert_array_equal(found, STEPS)


def test_plans_that_are_too_long_are_refused():
    with pytest.raises(ForageError, match="longer than a context"):
        dataclasses.replace(PLANNER, horizon=4)
    with pytest.raises(ForageError, match="more than 6 bins"):
        PLANNER.check(dataclasses.replace(SPEC, action_space=spaces.Discrete(7)))
    with pytest.raises(ForageError, match="shows something else"):
        PLANNER.check(dataclasses.replace(SPEC, observation_space=spaces.Discrete(7)))
