"""Returns, advantages and value targets: each a function of one trajectory, time axis first.

Conventions shared by every function here:

- `value[t]` is V(observation[t]) and `next_value[t]` is V(next_observation[t]), both under the same parameters, so that
  `next_value[t] == value[t + 1]` wherever the episode goes on.
- `terminated[t]`: nothing comes after step t, and `next_value[t]` counts for nothing.
- `truncated[t]`: the clock ran out, and `next_value[t]` stands for everything that would have followed.
  So it does at the last step of a segment, whose continuation is not at hand.
- Nothing flows across the end of an episode, so a segment may hold several.

Batches are made by `vmap`: `jax.vmap(gae, in_axes=(1, 1, 1, 1, 1, None, None), out_axes=1)` for arrays `time env`.
Gradients flow through everything; whoever regresses on a target stops them with `jax.lax.stop_gradient`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from forage.core.types import Experience, ForageError

Scalar = float | Float[Array, ""]


def gae(
    reward: Float[Array, " time"],
    value: Float[Array, " time"],
    next_value: Float[Array, " time"],
    terminated: Bool[Array, " time"],
    truncated: Bool[Array, " time"],
    discount: Scalar,
    gae_lambda: Scalar,
) -> Float[Array, " time"]:
    """Generalised advantage estimates.

        delta_t = r_t + discount * (1 - terminated_t) * V(next_observation_t) - V(observation_t)
        A_t     = delta_t + discount * gae_lambda * (1 - ended_t) * A_{t+1}

    `gae_lambda=0` is the TD error; `gae_lambda=1` is the discounted return minus the value.
    The value target is `advantage + value`.

    Source: Schulman, Moritz, Levine, Jordan, Abbeel, 2015, "High-Dimensional Continuous Control Using Generalized
    Advantage Estimation", arXiv:1506.02438, equation 16.
    """
    _check("gae", reward, value, next_value, terminated, truncated)
    delta = reward + discount * jnp.where(terminated, 0.0, next_value) - value
    return _discounted_sum(delta, jnp.where(terminated | truncated, 0.0, discount * gae_lambda))


def n_step(
    reward: Float[Array, " n"],
    terminated: Bool[Array, " n"],
    truncated: Bool[Array, " n"],
    discount: Scalar,
) -> tuple[Float[Array, ""], Int[Array, ""], Float[Array, ""]]:
    """Folds a segment into one long transition that stops where its first episode does.

        k                  = the first ended step, or n - 1
        return             = sum_{i=0..k} discount^i * r_i
        bootstrap_discount = discount^(k+1) * (1 - terminated_k)

    Returns `(return, k, bootstrap_discount)`; the target is `return + bootstrap_discount * V(next_observation_k)`.

    Source: Sutton, 1988, "Learning to Predict by the Methods of Temporal Differences", Machine Learning 3; for
    Q-learning, Mnih et al., 2016, "Asynchronous Methods for Deep Reinforcement Learning", arXiv:1602.01783.
    """
    _check("n_step", reward, terminated, truncated)
    steps = jnp.arange(reward.shape[0])
    last = jnp.min(jnp.where(terminated | truncated, steps, steps[-1]))
    total = jnp.sum(jnp.where(steps <= last, discount**steps * reward, 0.0))
    # A comparison rather than terminated[last]: cheaper than a gather under vmap.
    return total, last, jnp.where(jnp.any(terminated & (steps == last)), 0.0, discount ** (last + 1))


def fold_segments(
    experience: Experience, steps: int, discount: Scalar
) -> tuple[Float[Array, " batch"], Int[Array, " batch"], Float[Array, " batch"], PyTree[Array]]:
    """Return `n_step` of the first steps of each segment (leaves `time batch ...`), and the observation that follows.

    That is the next observation of the step at which the fold ends.
    """
    first = jax.tree.map(lambda x: x[:steps], experience)
    total, last, left = jax.vmap(n_step, (1, 1, 1, None))(first.reward, first.terminated, first.truncated, discount)
    after = jax.tree.map(lambda x: x[last, jnp.arange(x.shape[1])], first.next_observation)
    return total, last, left, after


def lambda_returns(
    reward: Float[Array, " time"],
    next_value: Float[Array, " time"],
    terminated: Bool[Array, " time"],
    truncated: Bool[Array, " time"],
    discount: Scalar,
    trace_lambda: Scalar,
) -> Float[Array, " time"]:
    """Return the targets of TD(lambda): a geometric average of all n-step returns.

        G_t = r_t + discount * (1 - terminated_t) * M_t
        M_t = (1 - trace_lambda) * V(next_observation_t) + trace_lambda * G_{t+1}

    where V(next_observation_t) takes the place of G_{t+1} if step t is truncated or the segment's last. With a
    `trace_lambda` of 1 it is the discounted reward to go.

    Source: Sutton, 1988, "Learning to Predict by the Methods of Temporal Differences", Machine Learning 3;
    Sutton and Barto, 2018, "Reinforcement Learning: An Introduction", 2nd edition, section 12.1.
    """
    _check("lambda_returns", reward, next_value, terminated, truncated)
    trace = jnp.where(_goes_on(terminated, truncated), trace_lambda, 0.0)
    bootstrap = jnp.where(terminated, 0.0, (1.0 - trace) * next_value)
    return _discounted_sum(reward + discount * bootstrap, discount * trace)


def vtrace(
    log_ratio: Float[Array, " time"],
    reward: Float[Array, " time"],
    value: Float[Array, " time"],
    next_value: Float[Array, " time"],
    terminated: Bool[Array, " time"],
    truncated: Bool[Array, " time"],
    discount: Scalar,
    trace_lambda: Scalar = 1.0,
    clip_rho: Scalar = 1.0,
    clip_c: Scalar = 1.0,
    clip_advantage_rho: Scalar = 1.0,
) -> tuple[Float[Array, " time"], Float[Array, " time"]]:
    """Value targets and policy-gradient advantages from another policy's trajectory.

    With `ratio_t = exp(log_ratio_t) = pi(a_t | o_t) / mu(a_t | o_t)`, pi the learning and mu the acting policy:

        delta_t     = min(clip_rho, ratio_t) * (r_t + discount * (1 - terminated_t) * V(next_observation_t) - V_t)
        c_t         = trace_lambda * min(clip_c, ratio_t)
        target_t    = V_t + delta_t + discount * (1 - ended_t) * c_t * (target_{t+1} - V_{t+1})
        advantage_t = min(clip_advantage_rho, ratio_t) * (r_t + discount * (1 - terminated_t) * target_{t+1} - V_t)

    where V(next_observation_t) takes the place of target_{t+1} if step t is truncated or the segment's last.
    `clip_rho` decides which policy's value is learned (pi's when infinite), `clip_c` only how fast.
    On-policy the targets are the lambda returns. Returns `(target, advantage)`.

    Source: Espeholt et al., 2018, "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner
    Architectures", arXiv:1802.01561, equation 1, remarks 1 and 2, and section 4.2; the clips' defaults are its own.
    """
    _check("vtrace", log_ratio, reward, value, next_value, terminated, truncated)
    ratio = jnp.exp(log_ratio)
    delta = jnp.minimum(clip_rho, ratio) * (reward + discount * jnp.where(terminated, 0.0, next_value) - value)
    trace = trace_lambda * jnp.minimum(clip_c, ratio)
    target = value + _discounted_sum(delta, jnp.where(terminated | truncated, 0.0, discount * trace))

    # What wraps round to the last step is never used: a segment does not go on after it.
    next_target = jnp.where(_goes_on(terminated, truncated), jnp.roll(target, -1), next_value)
    q = reward + discount * jnp.where(terminated, 0.0, next_target)
    return target, jnp.minimum(clip_advantage_rho, ratio) * (q - value)


def retrace(
    log_ratio: Float[Array, " time"],
    reward: Float[Array, " time"],
    q: Float[Array, " time"],
    next_value: Float[Array, " time"],
    terminated: Bool[Array, " time"],
    truncated: Bool[Array, " time"],
    discount: Scalar,
    trace_lambda: Scalar = 1.0,
) -> Float[Array, " time"]:
    """Targets for action values from another policy's trajectory.

    `q[t]` is Q(o_t, a_t) of the action taken; `next_value[t]` is the mean of Q(next_observation_t, a) over the actions
    of the learning policy pi; `ratio_t = exp(log_ratio_t) = pi(a_t | o_t) / mu(a_t | o_t)`, mu the acting policy.

        delta_t  = r_t + discount * (1 - terminated_t) * next_value_t - q_t
        c_t      = trace_lambda * min(1, ratio_t)
        target_t = q_t + delta_t + discount * (1 - ended_t) * c_{t+1} * (target_{t+1} - q_{t+1})

    The first action was taken whatever pi thinks of it, so `log_ratio[0]` does not matter.

    Source: Munos, Stepleton, Harutyunyan, Bellemare, 2016, "Safe and Efficient Off-Policy Reinforcement Learning",
    arXiv:1606.02647, section 3.
    """
    _check("retrace", log_ratio, reward, q, next_value, terminated, truncated)
    delta = reward + discount * jnp.where(terminated, 0.0, next_value) - q
    next_trace = jnp.roll(trace_lambda * jnp.minimum(1.0, jnp.exp(log_ratio)), -1)
    return q + _discounted_sum(delta, jnp.where(_goes_on(terminated, truncated), discount * next_trace, 0.0))


TRACES = ("retrace", "recursive-retrace", "truncated-is", "rbis")
"""The rules of `trajectory_aware`."""

LARGEST = 30.0
"""The logarithm of the largest ratio that counts: an infinite one times a trace of zero would not be a number."""


def trajectory_aware(
    log_ratio: Float[Array, " time"],
    reward: Float[Array, " time"],
    q: Float[Array, " time"],
    next_value: Float[Array, " time"],
    terminated: Bool[Array, " time"],
    truncated: Bool[Array, " time"],
    discount: Scalar,
    trace_lambda: Scalar = 1.0,
    rule: str = "rbis",
) -> Float[Array, " time"]:
    """Targets for action values from another policy's trajectory, with traces that know all of it.

    Arguments are those of `retrace`, with the same delta. Where the episode goes on at least k steps after step t,

        target_t = q_t + sum_k discount^k beta_{t,k} delta_{t+k},    beta_{t,0} = 1

    and with the ratios ratio_{t+1} ... ratio_{t+k} of the actions since, each `rule` is

        retrace            beta_{t,k} = trace_lambda beta_{t,k-1} min(1, ratio_{t+k})
        recursive-retrace  beta_{t,k} = trace_lambda min(1, beta_{t,k-1} ratio_{t+k})
        truncated-is       beta_{t,k} = trace_lambda^k min(1, ratio_{t+1} ... ratio_{t+k})
        rbis               beta_{t,k} = min(trace_lambda^k, beta_{t,k-1} ratio_{t+k})

    `retrace`, decision by decision, is the function above: a trace once cut stays cut. The others may recover, and
    `rbis` (recency-bounded importance sampling) has the longest of them that keep below trace_lambda^k and grow no
    faster than the ratios. On-policy all are the lambda returns. Work grows with the square of the length.

    Source: Daley, White, Amato, Machado, 2023, "Trajectory-Aware Eligibility Traces for Off-Policy Reinforcement
    Learning", arXiv:2301.11321, as in the authors' algorithms.py; the paper's own pages could not be looked up.
    """
    _check("trajectory_aware", log_ratio, reward, q, next_value, terminated, truncated)
    if rule not in TRACES:
        raise ForageError(f"There is no trace {rule!r}; there are {', '.join(TRACES)}.")
    log_ratio = jnp.asarray(log_ratio)  # a NumPy array takes no traced index
    delta = reward + discount * jnp.where(terminated, 0.0, next_value) - q
    length = reward.shape[0]
    goes_on = _goes_on(terminated, truncated)
    start = jnp.arange(length)

    def add_later(carry: tuple[Array, ...], number: Int[Array, ""]) -> tuple[tuple[Array, ...], None]:
        """Add the term of the step that is `number` steps after each step."""
        beta, logarithm, alive, total = carry
        at = jnp.minimum(start + number, length - 1)
        alive = alive & goes_on[at - 1] & (start + number < length)
        ratio = jnp.exp(jnp.minimum(log_ratio[at], LARGEST))
        logarithm = logarithm + jnp.minimum(log_ratio[at], LARGEST)
        power = jnp.asarray(trace_lambda, beta.dtype) ** number
        if rule == "retrace":
            beta = trace_lambda * beta * jnp.minimum(1.0, ratio)
        elif rule == "recursive-retrace":
            beta = trace_lambda * jnp.minimum(1.0, beta * ratio)
        elif rule == "truncated-is":
            beta = power * jnp.exp(jnp.minimum(logarithm, 0.0))
        else:
            beta = jnp.minimum(power, beta * ratio)
        worth = jnp.asarray(discount, beta.dtype) ** number * beta * delta[at]
        return (beta, logarithm, alive, total + jnp.where(alive, worth, 0.0)), None

    begin = jnp.ones_like(delta), jnp.zeros_like(delta), jnp.ones(length, bool), delta
    (_, _, _, total), _ = jax.lax.scan(add_later, begin, jnp.arange(1, length))
    return q + total


def value_rescale(x: Float[Array, "*shape"], epsilon: Scalar = 1e-3) -> Float[Array, "*shape"]:
    """Squashes values of any size so that one network can hold them, reversibly.

        h(x) = sign(x) * (sqrt(|x| + 1) - 1) + epsilon * x

    A target on this scale is `value_rescale(r + discount * value_rescale_inverse(next_value))`.

    Source: Pohlen et al., 2018, "Observe and Look Further: Achieving Consistent Performance on Atari",
    arXiv:1805.11593 (epsilon 1e-2); the default is that of Kapturowski et al., 2019, "Recurrent
    Experience Replay in Distributed Reinforcement Learning" (R2D2), ICLR.
    """
    # The root's difference as a quotient: no cancellation near zero, and the slope there is right.
    return x / (jnp.sqrt(jnp.abs(x) + 1.0) + 1.0) + epsilon * x


def value_rescale_inverse(x: Float[Array, "*shape"], epsilon: Scalar = 1e-3) -> Float[Array, "*shape"]:
    """Undoes `value_rescale`.

        h^-1(x) = sign(x) * (((sqrt(1 + 4 * epsilon * (|x| + 1 + epsilon)) - 1) / (2 * epsilon))^2 - 1)

    Source: Pohlen et al., 2018, "Observe and Look Further: Achieving Consistent Performance on Atari",
    arXiv:1805.11593.
    """
    # The same formula as u^2 - 1 = (u - 1) * (u + 1) with u - 1 = slope * |x|: as written above, float32 is off by 1e-4
    # near zero, because the root is close to 1 there and the difference is divided by a small epsilon.
    root = jnp.sqrt(1.0 + 4.0 * epsilon * (jnp.abs(x) + 1.0 + epsilon))
    slope = 2.0 * (1.0 - 2.0 * epsilon / (root + 1.0 + 2.0 * epsilon)) / (root + 1.0)
    return x * slope * (slope * jnp.abs(x) + 2.0)


def _discounted_sum(x: Float[Array, " time"], decay: Float[Array, " time"]) -> Float[Array, " time"]:
    """y_t = x_t + decay_t * y_{t+1}, zero after the last.

    One multiply-add a step: everything else is done in bulk before. XLA compiles this loop for the CPU into one tight
    kernel, four to twelve times as fast as `associative_scan`; unrolling it gains nothing.
    """

    def backward(after, now):
        total = now[0] + now[1] * after
        return total, total

    return jax.lax.scan(backward, jnp.zeros((), jnp.result_type(x, decay)), (x, decay), reverse=True)[1]


def _goes_on(terminated: Bool[Array, " time"], truncated: Bool[Array, " time"]) -> Bool[Array, " time"]:
    """Return whether the step after belongs to the same episode and is at hand."""
    return ~(terminated | truncated) & (jnp.arange(terminated.shape[0]) < terminated.shape[0] - 1)


def _check(name: str, *arrays: Array) -> None:
    """Arrays that do not match would broadcast into a wrong answer."""
    shapes = [array.shape for array in arrays]
    if len(shapes[0]) != 1 or len(set(shapes)) != 1 or shapes[0][0] == 0:
        listed = ", ".join(str(shape) for shape in shapes)
        raise ForageError(
            f"{name} works on one trajectory, arrays of one shape (time,) with time at least 1, and got {listed}; "
            f"use jax.vmap over the other axes."
        )
