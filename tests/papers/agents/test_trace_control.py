"""Control with trajectory-aware traces: its policies and one update by hand, and the values it must come to."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from small import compute

from forage.config.resolve import resolve
from forage.core.types import AGENT, GONE, PERSON, Batch, Clock, Experience, ForageError, Spec
from forage.environments import make
from forage.environments.tabular.values import optimal
from forage.ops.returns import TRACES
from forage_papers.agents.tabular.trace_control import TraceControl, TraceControlState, nearly_greedy

SPEC = Spec("Table", spaces.Discrete(3), spaces.Discrete(2))
CLOCK, KEY = Clock(jnp.int32(0), jnp.float32(10)), jax.random.key(0)
Q = np.array([[1.0, 2.0], [4.0, 3.0], [0.0, 8.0]], np.float32)


def rollout(actions, source=(0, 0, 0)):
    """States 0, 1, 2 and the end, with rewards 1, 2, 3."""
    column = lambda x, dtype: np.array(x, dtype)[:, None]  # noqa: E731
    e = Experience(
        column([0, 1, 2], np.int32), column(actions, np.int32), column([1, 2, 3], np.float32),
        column([1, 2, 0], np.int32), column([0, 0, 1], bool), column([0, 0, 0], bool), column(source, np.int32), (),
    )  # fmt: skip
    return Batch(e, jnp.ones(1), jnp.arange(1))


def test_policies_are_greedy_but_for_a_share():
    q = np.array([[1.0, 2.0, 2.0], [3.0, 9.0, 1.0]], np.float32)
    mask = np.array([[1, 1, 1], [1, 0, 1]], bool)
    found = compute(nearly_greedy, q, mask, 0.3)
    np.testing.assert_allclose(found, [[0.1, 0.45, 0.45], [0.7 + 0.15, 0, 0.15]], rtol=1e-6)
    assert not compute(nearly_greedy, q, np.zeros((2, 3), bool), 0.3).any()  # at an end


@pytest.mark.parametrize("trace", TRACES)
def test_one_update_by_hand(trace):
    """Greedy actions have probability 0.95 to learn and 0.8 to act, the others 0.05 and 0.2."""
    agent = TraceControl(
        learning_rate=0.5, discount=0.5, trace=trace, trace_lambda=0.5, acting_epsilon=0.4, target_epsilon=0.1
    )
    after, metrics, error = compute(agent.learn, TraceControlState(Q), rollout([1, 1, 1]), CLOCK, KEY)
    value = np.array([0.95 * 4 + 0.05 * 3, 0.95 * 8 + 0.05 * 0, 0])  # of what each step led to
    delta = np.array([1, 2, 3]) + 0.5 * value - [2, 3, 8]
    low, high = 0.05 / 0.2, 0.95 / 0.8  # the ratios of the second step and of the third
    weight = {  # of the third step, as the first hears it
        "retrace": 0.5 * low * 0.5, "recursive-retrace": 0.5 * 0.5 * low * high,
        "truncated-is": 0.25 * low * high, "rbis": low * high,
    }[trace]  # fmt: skip
    second = low if trace == "rbis" else 0.5 * low  # of the second, as the first hears it
    third = 0.5  # of the third, as the second hears it: lambda, for its ratio is above 1
    third = min(0.5, high) if trace == "rbis" else third
    weight = min(0.25, second * high) if trace == "rbis" else weight
    expected = [
        delta[0] + 0.5 * second * delta[1] + 0.25 * weight * delta[2],
        delta[1] + 0.5 * third * delta[2],
        delta[2],
    ]
    np.testing.assert_allclose(error, [np.abs(expected).mean()], rtol=1e-5)
    moved = np.zeros((3, 2))
    moved[[0, 1, 2], [1, 1, 1]] = 0.5 * np.array(expected)
    np.testing.assert_allclose(after.q, Q + moved, rtol=1e-5)
    assert np.isfinite(metrics["q"])


def test_actions_of_another_get_ratio_one():
    def run_learn(source, acting, target=0.1):
        agent = TraceControl(learning_rate=0.5, acting_epsilon=acting, target_epsilon=target)
        return compute(agent.learn, TraceControlState(Q), rollout([1, 1, 0], (source,) * 3), CLOCK, KEY)[0].q

    np.testing.assert_allclose(run_learn(PERSON, 0.4), run_learn(AGENT, 0.1), rtol=1e-6)  # acting as it learns
    # What the agent itself never does, another did, whoever is named.
    for source in (PERSON, AGENT):
        assert np.isfinite(run_learn(source, 0.0, 0.0)).all()


def test_visits_add_up_and_those_who_left_say_nothing():
    agent = TraceControl(learning_rate=0.5, discount=0.0, target_epsilon=0.0)
    e = rollout([1, 1, 0], source=(0, 0, GONE))
    e = e._replace(experience=e.experience._replace(observation=np.array([[0], [0], [2]], np.int32)))
    after, _, _ = compute(agent.learn, TraceControlState(Q), e, CLOCK, KEY)
    np.testing.assert_allclose(after.q, [[1, 2 + 0.5 * (1 - 2) + 0.5 * (2 - 2)], Q[1], Q[2]], rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("trace", TRACES)
def test_it_comes_to_the_values_of_the_best_policy(trace):
    setup = resolve(
        "trace-control", "tabular:GridWorld-3x4", steps=200_000, seeds=1,
        agent_options={"trace": trace, "target_epsilon": 0.0, "acting_epsilon": 0.3, "learning_rate": 0.02,
                       "discount": 0.9, "initial_deviation": 1.0},
    )  # fmt: skip
    runner = setup.runner()
    runner.begin()
    runner.advance(200_000 // runner.steps_per_iteration)
    q = jax.device_get(runner.agent_states()).q[0]
    table = make("tabular:GridWorld-3x4")
    wrong = np.abs(q.max(-1) - optimal(table, 0.9).values)
    assert wrong[~np.asarray(table.terminal)].max() < 0.12


def test_what_it_cannot_do():
    with pytest.raises(ForageError, match="trace of TraceControl is one of retrace"):
        TraceControl(trace="rtrace")
    with pytest.raises(ForageError, match="TraceControl needs numbered states"):
        check(TraceControl(), Spec("Box", spaces.Box(-1.0, 1.0, (2,)), SPEC.action_space))
