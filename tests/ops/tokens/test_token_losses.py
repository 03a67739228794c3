"""Losses of tokens and their corrections by hand: values, gradients, and none through other writers' tokens."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.ops.tokens import advantages, losses, masks, off_policy, preferences, supervised

ALL = np.ones((1, 2), bool)


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def with_slope(function, x):
    """The losses, and the gradient of their sum, compiled at once."""

    def total(x):
        loss = function(x)
        return loss.sum(), loss

    (_, loss), slope = jax.jit(jax.value_and_grad(total, has_aux=True))(x)
    return loss, slope


def one(name, ratio, advantage, **numbers):
    """Return the losses of tokens with these ratios and old log-probability -1, and their sum's gradient in log pi."""
    now = np.log(np.float32([ratio])) - 1
    rest = np.full_like(now, -1), np.float32([advantage]), np.ones(now.shape, bool)
    loss, slope = with_slope(lambda x: losses.LOSSES[name](x, *rest, **numbers), now)
    return loss[0], slope[0]


def test_clip_on_either_side():
    """Of ratio and sign: too high and good stands still, too high and bad comes back; and the reverse below."""
    loss, slope = one("clip", [1.5, 1.5, 0.5, 0.5], [1, -1, 1, -1], low=0.2, high=0.28)
    close(loss, [-1.28, 1.5, -0.5, 0.8])
    close(slope, [0, 1.5, -0.5, 0])


def test_a_ceiling_bounds_bad_tokens_alone():
    loss, slope = one("clip", [1.5, 1.5], [1, -1], ceiling=1.4)
    close(loss, [-1.2, 1.4])
    close(slope, [0, 0])


@pytest.mark.parametrize(
    ("name", "ratio", "advantage", "loss", "slope"),
    [
        ("reinforce", [2.0], [3.0], [-3 * (np.log(2) - 1)], [-3]),
        ("unclipped", [2.0], [3.0], [-6], [-6]),
        # The ratio of 6 is cut to 5, and nothing flows through it: the slope is -5 A, not 0 and not -6 A.
        ("cispo", [6.0, 2.0], [1, -1], [-5 * (np.log(6) - 1), 2 * (np.log(2) - 1)], [-5, 2]),
        # At ratio 1 the gate is 2 / tau, and its slope 1.
        ("sapo", [1.0, 1.0], [1, -1], [-2, 2 / 1.05], [-1, 1]),
        # w = 1, so phi = 1.
        ("vespo", [1.0], [2.0], [2], [-2]),
        # w = 2: phi = 2^2 exp(3 (1 - 2)) where good
        ("vespo", [2.0], [1.0], [-4 * np.exp(-3) * (np.log(2) - 1)], [-4 * np.exp(-3)]),
        # The geometric mean of 4 and 1 is 2, beyond 1 + 4e-4; the slope of the other sign is 2 / 2 at each token.
        ("gspo", [4.0, 1.0], [1, 1], [-1.0004, -1.0004], [0, 0]),
        ("gspo", [4.0, 1.0], [-1, -1], [2, 2], [2, 2]),
        ("gspo-token", [4.0, 1.0], [-1, -1], [2, 2], [2, 2]),
        # exp(log 4 + log 1) = 4 for the whole answer, at each of its two tokens
        ("clip-sequence", [4.0, 1.0], [-1, -1], [4, 4], [8, 8]),
    ],
)
def test_table(name, ratio, advantage, loss, slope):
    found, gradient = one(name, ratio, advantage)
    close(found, loss)
    close(gradient, slope)


def test_geometric_mean_is_of_clipped_ratios():
    """Logarithms 0.6 and -0.6, good: 0.4 and -0.6, with mean -0.1; bad: 0.6 and -0.4, mean 0.1."""
    for sign, mean in ((1.0, -0.1), (-1.0, 0.1)):
        now, old = np.float32([[0.6, -0.6]]), np.zeros((1, 2), np.float32)
        close(losses.gmpo(now, old, np.float32([[sign]]), ALL), -sign * np.exp(np.full((1, 2), mean)))


@pytest.mark.parametrize(
    ("rule", "length", "expected"),
    [
        ("sequence-mean", None, 3.5),  # (6 + 1) / 2
        ("token-mean", None, 2.25),  # 9 / 4
        ("constant", 4, 1.125),  # 9 / (2 x 4)
        ("sequence-sum", None, 4.5),  # 9 / 2
    ],
)
def test_aggregation(rule, length, expected):
    loss = np.float32([[6, np.nan, np.nan], [0, 0, 3]])
    mask = np.array([[True, False, False], [True, True, True]])
    close(masks.aggregate(loss, mask, rule, length), expected)
    # Turns that are left when an episode is over are no answers, however many there may be
    empty = np.zeros((7, 3), bool)
    waiting = np.concatenate([empty[:2], mask, empty[2:]]), np.concatenate([0 * empty[:2], loss, np.nan * empty[2:]])
    close(masks.aggregate(waiting[1].astype(np.float32), waiting[0], rule, length), expected)
    close(masks.aggregate(np.full((7, 3), np.nan, np.float32), empty, rule, length), 0)


def test_nothing_flows_through_what_the_policy_did_not_write():
    """An infinite or NaN entry in any array changes no loss and has a gradient of exactly 0."""
    random = np.random.default_rng(0)
    mask = np.array([[True, True, False], [False, False, False]])
    now, old = random.uniform(-2, -0.1, (2, 2, 3)).astype(np.float32)
    advantage = np.float32([[1], [-1]])
    logits, teacher = random.normal(size=(2, 2, 3, 4)).astype(np.float32)
    token = random.integers(0, 4, (2, 3))

    def everything(now, old, logits, teacher):
        found = {name: masks.token_mean(f(now, old, advantage, mask), mask) for name, f in losses.LOSSES.items()}
        found["sampler"] = masks.token_mean(off_policy.sampler_weight(now, old, mask, "sequence-truncate"), mask)
        found["fine-tuning"] = masks.token_mean(supervised.cross_entropy(logits, token, mask), mask)
        found["rover"] = masks.token_mean(supervised.rover(logits, teacher, token, advantage, mask), mask)
        for way in supervised.DIRECTIONS:
            found[way] = masks.token_mean(supervised.distillation(logits, teacher, mask, way), mask)
        return jnp.stack(list(found.values()))

    broken = [np.where(mask, x, bad).astype(np.float32) for x, bad in ((now, -np.inf), (old, np.nan))]
    broken += [np.where(mask[..., None], x, np.nan).astype(np.float32) for x in (logits, teacher)]

    def weigh(now, logits, old, teacher):
        found = everything(now, old, logits, teacher)
        return found @ (1 + jnp.sqrt(jnp.arange(1.0, len(found) + 1))), found  # weights that cancel nowhere

    both = jax.jit(jax.value_and_grad(weigh, argnums=(0, 1), has_aux=True))
    (_, clean), expected = both(now, logits, old, teacher)
    (_, found), gradients = both(broken[0], broken[2], broken[1], broken[3])
    close(found, clean)
    for gradient, as_it_was in zip(gradients, expected, strict=True):
        close(gradient, as_it_was)
        gradient = np.asarray(gradient)
        assert (gradient[~mask] == 0).all() and (gradient[mask] != 0).any()


def test_the_first_ratio_is_exactly_one():
    now = np.float32([[-0.3, -1.7]])
    close(losses.unclipped_loss(now, now, np.float32([[2]]), ALL), [[-2, -2]], 0)


def test_weights_of_another_sampler():
    """Ratios 2 and 1/4, of the whole answer 1/2."""
    old, sampler = np.log(np.float32([[2, 0.25]])), np.zeros((1, 2), np.float32)
    close(off_policy.sampler_weight(old, sampler, ALL, "token-truncate", 0.0, 1.5), [[1.5, 0.25]])
    close(off_policy.sampler_weight(old, sampler, ALL, "token-mask", 0.5, 2.5), [[2, 0]])
    close(off_policy.sampler_weight(old, sampler, ALL, "sequence-truncate", 0.6, 2.0), [[0.6, 0.6]])
    close(off_policy.sampler_weight(old, sampler, ALL, "sequence-mask", 0.4, 2.0), [[0.5, 0.5]])


def test_bad_answers_from_afar_are_left_out():
    """The policy has moved away by 0.5 a token on the average; good answers stay."""
    now, sampler = np.float32([[-2, -2]] * 2), np.float32([[-1, -2]] * 2)
    mask = np.ones((2, 2), bool)
    close(off_policy.near_sequences(now, sampler, np.float32([1, -1]), mask, 0.4), [[1], [0]])
    close(off_policy.near_sequences(now, sampler, np.float32([1, -1]), mask, 0.6), [[1], [1]])


def test_high_entropy_tokens():
    """Of 1 to 5 the quantile 0.6 is 3.4."""
    mask = np.array([[True] * 5 + [False]])
    found = losses.high_entropy(np.float32([[3, 1, 5, 2, 4, 9]]), mask, 0.4)
    np.testing.assert_array_equal(found, [[False, False, True, False, True, False]])


def test_weights_multiply_losses():
    now, mask = np.zeros((2, 1), np.float32), np.ones((2, 1), bool)
    weight = np.float32([[0], [1]])
    found = losses.policy_loss("unclipped", now, now, np.float32([[1], [3]]), mask, "sequence-mean", weight=weight)
    close(found, -1.5)


ZERO = np.zeros((1, 2), np.float32)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: losses.policy_loss("ppo", ZERO, ZERO, ZERO, ALL), "no loss of tokens 'ppo'; there are reinforce"),
        (lambda: masks.aggregate(ZERO, ALL, "mean"), "no aggregation 'mean'"),
        (lambda: masks.aggregate(ZERO, ALL, "constant"), "needs a length"),
        (lambda: masks.aggregate(ZERO, ALL, "token-mean", 4), "no other one takes it"),
        (lambda: losses.gmpo(ZERO, ZERO, ZERO, ALL), "one advantage for each answer"),
        (lambda: losses.high_entropy(ZERO, ALL, 0.0), "above 0"),
        (lambda: off_policy.sampler_weight(ZERO, ZERO, ALL, "clip"), "no correction of the sampler 'clip'"),
    ],
)
def test_bad_input_is_one_sentence(call, said):
    with pytest.raises(ForageError, match=said):
        call()


PAGE = (Path(__file__).parents[3] / "docs" / "tokens.md").read_text()


def test_the_example_of_the_page_runs():
    names = {}
    exec(PAGE.split("```python\n")[1].split("```")[0], names)
    close(names["loss"], 0)  # the first ratio is 1, and advantages of a group sum to 0


def test_the_page_lists_every_name():
    tables = [advantages.ADVANTAGES, losses.LOSSES, masks.AGGREGATIONS, preferences.PREFERENCES]
    tables += [off_policy.CORRECTIONS, supervised.DIRECTIONS, supervised.SELECTIONS]
    for name in (name for table in tables for name in table):
        assert f"| `{name}` |" in PAGE, name
