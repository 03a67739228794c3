"""Each operator against a table worked by hand, against its definition as a slow sum, and against its relatives."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import Experience, ForageError
from forage.ops import returns

gae = jax.jit(returns.gae)
n_step = jax.jit(returns.n_step)
lambda_returns = jax.jit(returns.lambda_returns)
vtrace = jax.jit(returns.vtrace)
retrace = jax.jit(returns.retrace)
trajectory_aware = jax.jit(returns.trajectory_aware, static_argnames="rule")


def close(actual, desired, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(actual), np.asarray(desired), rtol=tolerance, atol=tolerance)


# --- Tables worked by hand. Discount is 1/2 throughout. ---

REWARD = np.array([1, 2, 3, 4], np.float32)
VALUE = np.array([1, 1, 2, 2], np.float32)  # the segment stops at an observation of value 4
LOG_RATIO = np.log(np.array([2, 0.5, 1, 4], np.float32))  # clipped at 1: 1, 1/2, 1, 1
FINAL = 8  # the value of the observation that a truncated episode ends on

ENDINGS = {  # name: (terminated steps, truncated steps)
    "none": ((), ()),
    "terminated in the middle": ((1,), ()),
    "truncated in the middle": ((), (1,)),
    "terminated at the first step": ((0,), ()),
    "truncated at the first step": ((), (0,)),
    "terminated at the end": ((3,), ()),
    "truncated at the end": ((), (3,)),
    "terminated, then truncated": ((1,), (2,)),
}


def table(rows):
    """Return one test case for each way of ending: `next_value`, `terminated`, `truncated`, and the expected result."""
    assert rows.keys() == ENDINGS.keys()
    parameters = []
    for name, expected in rows.items():
        terminated, truncated = (np.isin(np.arange(4), steps) for steps in ENDINGS[name])
        next_value = np.where(truncated, FINAL, [1, 2, 2, 4]).astype(np.float32)
        parameters.append(pytest.param(next_value, terminated, truncated, expected, id=name))
    return pytest.mark.parametrize(("next_value", "terminated", "truncated", "expected"), parameters)


@table(
    {  # delta = 1 + 1/2 - 1, 2 + 1 - 1, 3 + 1 - 2, 4 + 2 - 2 = 1/2, 2, 2, 4, and a quarter of the next advantage
        "none": [1.1875, 2.75, 3, 4],
        "terminated in the middle": [0.75, 1, 3, 4],  # delta_1 = 2 - 1
        "truncated in the middle": [1.75, 5, 3, 4],  # delta_1 = 2 + 4 - 1
        "terminated at the first step": [0, 2.75, 3, 4],  # delta_0 = 1 - 1
        "truncated at the first step": [4, 2.75, 3, 4],  # delta_0 = 1 + 4 - 1
        "terminated at the end": [1.15625, 2.625, 2.5, 2],  # delta_3 = 4 - 2
        "truncated at the end": [1.21875, 2.875, 3.5, 6],  # delta_3 = 4 + 4 - 2
        "terminated, then truncated": [0.75, 1, 5, 4],  # delta_2 = 3 + 4 - 2
    }
)
def test_gae_table(next_value, terminated, truncated, expected):
    close(gae(REWARD, VALUE, next_value, terminated, truncated, 0.5, 0.5), expected)


@table(
    {  # from the end: 4 + 4/2 = 6, 3 + 6/2 = 6, 2 + 6/2 = 5, 1 + 5/2 = 3.5
        "none": [3.5, 5, 6, 6],
        "terminated in the middle": [2, 2, 6, 6],
        "truncated in the middle": [4, 6, 6, 6],  # 2 + 8/2
        "terminated at the first step": [1, 5, 6, 6],
        "truncated at the first step": [5, 5, 6, 6],  # 1 + 8/2
        "terminated at the end": [3.25, 4.5, 5, 4],
        "truncated at the end": [3.75, 5.5, 7, 8],  # 4 + 8/2
        "terminated, then truncated": [2, 2, 7, 6],  # 3 + 8/2
    }
)
def test_discounted_reward_to_go_table(next_value, terminated, truncated, expected):
    close(lambda_returns(REWARD, next_value, terminated, truncated, 0.5, 1.0), expected)


@table(
    {  # from the end: 4 + 4/2 = 6, 3 + (2 + 6)/4 = 5, 2 + (2 + 5)/4 = 3.75, 1 + (1 + 3.75)/4 = 2.1875
        "none": [2.1875, 3.75, 5, 6],
        "terminated in the middle": [1.75, 2, 5, 6],
        "truncated in the middle": [2.75, 6, 5, 6],
        "terminated at the first step": [1, 3.75, 5, 6],
        "truncated at the first step": [5, 3.75, 5, 6],
        "terminated at the end": [2.15625, 3.625, 4.5, 4],
        "truncated at the end": [2.21875, 3.875, 5.5, 8],
        "terminated, then truncated": [1.75, 2, 7, 6],
    }
)
def test_lambda_returns_table(next_value, terminated, truncated, expected):
    close(lambda_returns(REWARD, next_value, terminated, truncated, 0.5, 0.5), expected)


@table(
    {  # return, last index, bootstrap discount
        "none": [1 + 1 + 0.75 + 0.5, 3, 0.0625],
        "terminated in the middle": [1 + 1, 1, 0],
        "truncated in the middle": [1 + 1, 1, 0.25],
        "terminated at the first step": [1, 0, 0],
        "truncated at the first step": [1, 0, 0.5],
        "terminated at the end": [3.25, 3, 0],
        "truncated at the end": [3.25, 3, 0.0625],
        "terminated, then truncated": [2, 1, 0],
    }
)
def test_n_step_table(next_value, terminated, truncated, expected):
    close(n_step(REWARD, terminated, truncated, 0.5), expected)


@table(
    {  # targets and advantages; rho * delta = 1 * 1/2, 1/2 * 2, 1 * 2, 1 * 4, so that target - value, from the end, is
        # 4, 2 + 4/2 = 4, 1 + 1/2 * 4/2 = 2, 1/2 + 2/2 = 1.5
        "none": ([2.5, 3, 6, 6], [1.5, 2, 4, 4]),
        "terminated in the middle": ([1.75, 1.5, 6, 6], [0.75, 0.5, 4, 4]),  # rho * delta_1 = (2 - 1)/2
        "truncated in the middle": ([2.75, 3.5, 6, 6], [1.75, 2.5, 4, 4]),  # rho * delta_1 = (2 + 4 - 1)/2
        "terminated at the first step": ([1, 3, 6, 6], [0, 2, 4, 4]),
        "truncated at the first step": ([5, 3, 6, 6], [4, 2, 4, 4]),
        "terminated at the end": ([2.375, 2.75, 5, 4], [1.375, 1.75, 3, 2]),
        "truncated at the end": ([2.625, 3.25, 7, 8], [1.625, 2.25, 5, 6]),
        "terminated, then truncated": ([1.75, 1.5, 7, 6], [0.75, 0.5, 5, 4]),
    }
)
def test_vtrace_table(next_value, terminated, truncated, expected):
    close(vtrace(LOG_RATIO, REWARD, VALUE, next_value, terminated, truncated, 0.5), expected)


def test_vtrace_clips_each_ratio_by_its_own_bound():
    # rho = 2, 1/2, 1, 2; c = 1/2 * (2, 1/2, 1, 3); target - value from the end: 8, 2 + 1/4 * 8, 1 + 1/8 * 4, 1 + 1.5/2
    no = np.zeros(4, bool)
    target, advantage = vtrace(
        LOG_RATIO, REWARD, VALUE, np.array([1, 2, 2, 4], np.float32), no, no, 0.5, 0.5, 2.0, 3.0, 5.0
    )
    close(target, [2.75, 2.5, 6, 10])
    close(advantage, [2 * 1.25, 0.5 * 4, 1 * 6, 4 * 4])


Q = np.array([2, 1, 3, 1], np.float32)


@table(
    {  # delta = 1 + 1/2 - 2, 2 + 1 - 1, 3 + 1 - 3, 4 + 2 - 1 = -1/2, 2, 1, 5, and half the next times its clip
        "none": [2.4375, 4.75, 6.5, 6],
        "terminated in the middle": [1.75, 2, 6.5, 6],
        "truncated in the middle": [2.75, 6, 6.5, 6],
        "terminated at the first step": [1, 4.75, 6.5, 6],
        "truncated at the first step": [5, 4.75, 6.5, 6],
        "terminated at the end": [2.3125, 4.25, 5.5, 4],
        "truncated at the end": [2.5625, 5.25, 7.5, 8],
        "terminated, then truncated": [1.75, 2, 7, 6],
    }
)
def test_retrace_table(next_value, terminated, truncated, expected):
    close(retrace(LOG_RATIO, REWARD, Q, next_value, terminated, truncated, 0.5), expected)


def test_retrace_table_with_lambda():
    # corrections from the end: 5, 1 + 1/2 * 5/2, 2 + 1/2 * 2.25/2, -1/2 + 1/4 * 2.5625/2
    no = np.zeros(4, bool)
    actual = retrace(LOG_RATIO, REWARD, Q, np.array([1, 2, 2, 4], np.float32), no, no, 0.5, 0.5)
    close(actual, [1.8203125, 3.5625, 5.25, 6])


def test_n_step_longer_than_the_episode_ignores_what_follows():
    never = np.zeros(6, bool)
    ended = np.array([False, True, False, False, True, False])
    reward = np.array([1, 2, 100, np.inf, np.nan, 100], np.float32)
    close(n_step(reward, ended, never, 0.5), [2, 1, 0])
    close(n_step(reward, never, ended, 0.5), [2, 1, 0.25])
    close(n_step(reward[:1], never[:1], never[:1], 0.5), [1, 0, 0.5])


def test_segments_are_folded_to_the_end_of_their_first_episode():
    """Two of three steps are folded; the segments have no end, a terminal first step and a cut second step."""
    reward = np.array([[1.0, 2.0, 4.0], [8.0, 16.0, 32.0], [99.0, 99.0, 99.0]])
    terminated, truncated = np.zeros((3, 3), bool), np.zeros((3, 3), bool)
    terminated[0, 1] = truncated[1, 2] = True
    seen = np.arange(9).reshape(3, 3)
    segments = Experience(seen, seen, reward, seen + 10, terminated, truncated, seen, ())
    total, last, left, after = returns.fold_segments(segments, 2, 0.5)
    np.testing.assert_allclose(total, [1 + 4, 2, 4 + 16])
    assert last.tolist() == [1, 0, 1] and after.tolist() == [13, 11, 15]
    np.testing.assert_allclose(left, [0.25, 0, 0.25])


def test_value_rescale_table():
    close(returns.value_rescale(np.array([0.0, 3.0, -8.0, 99.0])), [0, 1.003, -2.008, 9.099])
    close(returns.value_rescale(np.array([3.0, -8.0]), 0.01), [1.03, -2.08])
    close(returns.value_rescale_inverse(np.array([0.0, 1.003, -2.008, 9.099])), [0, 3, -8, 99])
    close(returns.value_rescale_inverse(np.array([1.0, -2.0]), 0.0), [3, -8])


def test_value_rescale_and_its_inverse_undo_each_other():
    x = np.concatenate([-np.logspace(6, -6, 60), [0.0], np.logspace(-6, 6, 60)]).astype(np.float32)
    back = returns.value_rescale_inverse(returns.value_rescale(x))
    np.testing.assert_allclose(back, x, rtol=3e-6)  # relative, also near zero
    assert np.all(np.diff(returns.value_rescale(x)) > 0)
    close(jax.grad(returns.value_rescale)(0.0), 0.501)
    close(jax.grad(returns.value_rescale_inverse)(0.0), 1 / 0.501)


# --- Definitions, as slow forward sums in float64, on random trajectories with random endings. ---


def episode(terminated, truncated, t):
    """The last step at hand of the episode that step t belongs to."""
    while t < len(terminated) - 1 and not (terminated[t] or truncated[t]):
        t += 1
    return t


def slow_n_step_return(reward, next_value, terminated, discount, t, n):
    total = sum(discount**i * reward[t + i] for i in range(n))
    return total + (0 if terminated[t + n - 1] else discount**n * next_value[t + n - 1])


def slow_lambda_return(reward, next_value, terminated, truncated, discount, trace_lambda, t):
    steps = episode(terminated, truncated, t) - t + 1
    by_length = [slow_n_step_return(reward, next_value, terminated, discount, t, n) for n in range(1, steps + 1)]
    mixed = sum((1 - trace_lambda) * trace_lambda**i * by_length[i] for i in range(steps - 1))
    return mixed + trace_lambda ** (steps - 1) * by_length[-1]


def slow_corrected(trace, rho, reward, value, next_value, terminated, truncated, discount, t, first):
    """value_t + sum_s discount^(s-t) * (product of the traces `first` .. `first` + s - t - 1) * rho_s * delta_s."""
    total = value[t]
    for s in range(t, episode(terminated, truncated, t) + 1):
        delta = reward[s] + (0 if terminated[s] else discount * next_value[s]) - value[s]
        total += discount ** (s - t) * np.prod(trace[first : first + s - t]) * rho[s] * delta
    return total


def trajectory(seed, length=25):
    random = np.random.default_rng(seed)
    reward, value, last, log_ratio = (random.normal(size=n) for n in (length, length, 1, length))
    kind = random.choice(3, p=[0.7, 0.15, 0.15], size=length)
    terminated, truncated = kind == 1, kind == 2
    assert terminated.any()
    assert truncated.any()
    # Whatever comes after an ended step in the arrays, its own final observation has another value.
    next_value = np.where(kind == 0, np.append(value[1:], last), random.normal(size=length) * 3)
    return reward, value, next_value, terminated, truncated, log_ratio


SETTINGS = pytest.mark.parametrize(
    ("seed", "discount", "trace_lambda"),
    [(0, 0.9, 0.8), (1, 1.0, 0.5), (2, 0.0, 0.7), (3, 0.97, 1.0), (4, 0.9, 0.0), (5, 1.0, 1.0)],
)


@SETTINGS
def test_definitions(seed, discount, trace_lambda):
    reward, value, next_value, terminated, truncated, log_ratio = trajectory(seed)
    ends = (terminated, truncated)
    steps = range(len(reward))
    fast = [np.float32(x) for x in (log_ratio, reward, value, next_value)]

    expected = [slow_lambda_return(reward, next_value, *ends, discount, trace_lambda, t) for t in steps]
    close(lambda_returns(fast[1], fast[3], *ends, discount, trace_lambda), expected)

    expected = [slow_lambda_return(reward, next_value, *ends, discount, 1, t) for t in steps]
    close(lambda_returns(fast[1], fast[3], *ends, discount, 1.0), expected)

    trace, one = np.full(len(reward), trace_lambda), np.ones(len(reward))
    expected = [slow_corrected(trace, one, reward, value, next_value, *ends, discount, t, t) - value[t] for t in steps]
    close(gae(*fast[1:], *ends, discount, trace_lambda), expected)

    ratio = np.exp(log_ratio)
    trace, rho = trace_lambda * np.minimum(1.2, ratio), np.minimum(1.5, ratio)
    target = [slow_corrected(trace, rho, reward, value, next_value, *ends, discount, t, t) for t in steps]
    ended = terminated | truncated
    following = [next_value[t] if ended[t] or t == steps[-1] else target[t + 1] for t in steps]
    advantage = np.minimum(1.1, ratio) * (reward + discount * ~terminated * following - value)
    close(vtrace(*fast, *ends, discount, trace_lambda, 1.5, 1.2, 1.1), [target, advantage])

    trace = trace_lambda * np.minimum(1, ratio)
    expected = [slow_corrected(trace, one, reward, value, next_value, *ends, discount, t, t + 1) for t in steps]
    close(retrace(*fast, *ends, discount, trace_lambda), expected)

    for n in (1, 3, 25):
        total, last, bootstrap = n_step(fast[1][:n], terminated[:n], truncated[:n], discount)
        assert last == episode(terminated[:n], truncated[:n], 0)
        expected = slow_n_step_return(reward, next_value, terminated, discount, 0, int(last) + 1)
        close(total + bootstrap * next_value[last], expected)


def slow_trace(rule, trace_lambda, ratios):
    """Return the weights of the errors 0, 1, ... steps after a step, from the ratios of the actions since."""
    weights = [1.0]
    for k, ratio in enumerate(ratios, 1):
        weights.append({
            "retrace": trace_lambda * weights[-1] * min(1.0, ratio),
            "recursive-retrace": trace_lambda * min(1.0, weights[-1] * ratio),
            "truncated-is": trace_lambda**k * min(1.0, np.prod(ratios[:k])),
            "rbis": min(trace_lambda**k, weights[-1] * ratio),
        }[rule])  # fmt: skip
    return weights


@pytest.mark.parametrize("rule", returns.TRACES)
@SETTINGS
def test_definition_of_trajectory_aware_traces(rule, seed, discount, trace_lambda):
    reward, q, next_value, terminated, truncated, log_ratio = trajectory(seed)
    expected = []
    for t in range(len(reward)):
        end = episode(terminated, truncated, t)
        weights = slow_trace(rule, trace_lambda, np.exp(log_ratio[t + 1 : end + 1]))
        delta = [reward[s] + (0 if terminated[s] else discount * next_value[s]) - q[s] for s in range(t, end + 1)]
        expected.append(q[t] + sum(discount**k * w * d for k, (w, d) in enumerate(zip(weights, delta, strict=True))))
    fast = [np.float32(x) for x in (log_ratio, reward, q, next_value)]
    close(trajectory_aware(*fast, terminated, truncated, discount, trace_lambda, rule=rule), expected)


def test_a_trace_that_was_cut_recovers_and_that_of_retrace_does_not():
    """After ratios 1/2 and 4, with the product 2, Retrace gives weight 1/2, and the others the most under lambda."""
    ratio, zero, ends = np.log(np.array([1, 0.5, 4], np.float32)), np.zeros(3, np.float32), np.zeros((2, 3), bool)
    last = np.array([0, 0, 1], np.float32)  # the only delta
    found = {
        (rule, trace): float(trajectory_aware(ratio, last, zero, zero, *ends, 1.0, trace, rule=rule)[0])
        for rule in returns.TRACES
        for trace in (1.0, 0.5)
    }
    assert found == pytest.approx({
        ("retrace", 1.0): 0.5, ("recursive-retrace", 1.0): 1.0, ("truncated-is", 1.0): 1.0, ("rbis", 1.0): 1.0,
        ("retrace", 0.5): 0.125, ("recursive-retrace", 0.5): 0.5, ("truncated-is", 0.5): 0.25, ("rbis", 0.5): 0.25,
    })  # fmt: skip


def test_trajectory_aware_traces_of_retrace_and_of_what_is_never_done():
    reward, q, next_value, terminated, truncated, log_ratio = (np.asarray(x) for x in trajectory(0))
    given = (*(np.float32(x) for x in (reward, q, next_value)), terminated, truncated, 0.9, 0.7)
    close(trajectory_aware(np.float32(log_ratio), *given, rule="retrace"), retrace(np.float32(log_ratio), *given))
    td_error = given[0] + 0.9 * given[2] * ~terminated
    for rule in returns.TRACES:
        never, always = np.full_like(given[0], -np.inf), np.full_like(given[0], 1e3)
        close(trajectory_aware(never, *given, rule=rule), td_error)
        assert np.isfinite(trajectory_aware(np.where(np.arange(25) % 2, never, always), *given, rule=rule)).all()
    with pytest.raises(ForageError, match="no trace 'tb'; there are retrace"):
        returns.trajectory_aware(never, *given, rule="tb")


# --- Relatives. ---


@pytest.mark.parametrize("seed", range(3))
def test_equivalences(seed):
    reward, value, next_value, terminated, truncated, _ = (np.asarray(x) for x in trajectory(seed))
    reward, value, next_value = (np.float32(x) for x in (reward, value, next_value))
    ends = (terminated, truncated)
    given = (reward, value, next_value, *ends)

    td_error = reward + 0.9 * next_value * ~terminated - value
    close(gae(*given, 0.9, 0.0), td_error)
    to_go = lambda_returns(reward, next_value, *ends, 0.9, 1.0)
    close(gae(*given, 0.9, 1.0), to_go - value)
    close(gae(*given, 0.9, 0.7) + value, lambda_returns(reward, next_value, *ends, 0.9, 0.7))
    close(gae(*given, 0.0, 0.7), reward - value)

    on_policy = np.zeros_like(reward)
    close(vtrace(on_policy, *given, 0.9, 0.7)[0], lambda_returns(reward, next_value, *ends, 0.9, 0.7))
    close(
        vtrace(on_policy, *given, 0.9),
        [to_go] * 2 - np.stack([0 * value, value]),
    )
    close(retrace(on_policy, *given, 0.9, 0.7), lambda_returns(reward, next_value, *ends, 0.9, 0.7))

    # An action the learning policy would never take: what follows it is cut off, its own step is not.
    never = np.full_like(reward, -np.inf)
    close(retrace(never, *given, 0.9), value + td_error)
    close(vtrace(never, *given, 0.9), [value, 0 * value])

    # One overflowing ratio is a clipped ratio.
    close(retrace(np.full_like(reward, 1e3), *given, 0.9), retrace(on_policy, *given, 0.9))
    close(vtrace(np.full_like(reward, 1e3), *given, 0.9), vtrace(on_policy, *given, 0.9))


def test_the_value_of_a_terminal_observation_never_enters():
    reward, value, next_value, terminated, truncated, log_ratio = trajectory(0)
    reward, value, log_ratio = (np.float32(x) for x in (reward, value, log_ratio))
    for nonsense in (np.nan, np.inf):
        spoiled = np.where(terminated, nonsense, next_value).astype(np.float32)
        ends = (terminated, truncated)
        assert np.isfinite(gae(reward, value, spoiled, *ends, 0.9, 0.9)).all()
        assert np.isfinite(lambda_returns(reward, spoiled, *ends, 0.9, 0.9)).all()
        assert np.isfinite(vtrace(log_ratio, reward, value, spoiled, *ends, 0.9)).all()
        assert np.isfinite(retrace(log_ratio, reward, value, spoiled, *ends, 0.9)).all()


def test_batches_by_vmap_with_traced_hyperparameters():
    columns = [trajectory(seed)[:5] for seed in range(3)]
    batch = [np.stack(x, axis=1) for x in zip(*columns, strict=True)]
    batch = [x if x.dtype == bool else np.float32(x) for x in batch]
    batched = jax.jit(jax.vmap(returns.gae, in_axes=(1, 1, 1, 1, 1, None, None), out_axes=1))(*batch, 0.9, 0.8)
    assert batched.shape == (25, 3)
    assert batched.dtype == jnp.float32
    for env in range(3):
        close(batched[:, env], gae(*(x[:, env] for x in batch), 0.9, 0.8))


@pytest.mark.skipif("FORAGE_TEST_SHAPES" in os.environ, reason="refused by the annotations already")
@pytest.mark.parametrize("shape", [(4, 2), (4, 1), (3,), ()])
def test_arrays_that_do_not_match_are_refused(shape):
    no = np.zeros(4, bool)
    with pytest.raises(ForageError, match=r"gae works on one trajectory.*jax\.vmap"):
        returns.gae(REWARD, np.zeros(shape, np.float32), VALUE, no, no, 0.9, 0.9)
    with pytest.raises(ForageError, match="n_step works on one trajectory"):
        returns.n_step(REWARD, np.zeros(shape, bool), no, 0.9)
