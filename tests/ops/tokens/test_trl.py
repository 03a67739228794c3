"""Losses, their gradients and advantages against TRL's own numbers on a stored batch.

`data/make_trl_numbers.py` made them with TRL; the file says with which version. Nothing of TRL is needed here.
"""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.ops.tokens import advantages, divergence, lengths, losses, masks, off_policy, preferences, supervised

STORED = json.loads((Path(__file__).parent / "data" / "trl_numbers.json").read_text())
B = {name: np.asarray(value) for name, value in STORED["batch"].items()}
B = {name: value.astype(np.float32) if value.dtype == float else value for name, value in B.items()}
MASK, ADVANTAGE = B["mask"].astype(bool), B["advantage"][:, None]
OLD, REFERENCE, SAMPLER = B["old_log_probability"], B["reference"], B["sampler_log_probability"]


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=tolerance, atol=tolerance)


def policy(name, aggregation="token-mean", mask=MASK, weight=None, **numbers):
    length = 8 if aggregation == "constant" else None
    return lambda now: losses.policy_loss(name, now, OLD, ADVANTAGE, mask, aggregation, length, weight, **numbers)


def with_kl(now, gradient, old):
    penalty = divergence.kl_loss(now, REFERENCE, MASK, "k3", gradient, old)
    return policy("clip", high=0.28)(now) + 0.1 * masks.token_mean(penalty, MASK)


def is_near(now):
    weight = off_policy.near_sequences(now, SAMPLER, B["advantage"], MASK, 0.05)
    return policy("clip", weight=weight, high=0.28)(now)


def with_entropy(now):
    return policy("clip", high=0.28)(now) - 0.1 * masks.token_mean(B["entropy"], MASK)


# TRL masks the loss of tokens of low entropy, and divides by the number of all.
HIGH = np.asarray(losses.high_entropy(B["entropy"], MASK, 0.3)).astype(np.float32)

POLICY = {
    "grpo": policy("clip", "sequence-mean", high=0.28),
    "bnpo": policy("clip", high=0.28),
    "dr_grpo": policy("clip", "constant", high=0.28),
    "dapo": policy("clip", high=0.28),
    "luspo": policy("gspo", "sequence-sum"),
    "gspo": policy("gspo", "sequence-mean"),
    "gmpo": policy("gmpo", "sequence-mean"),
    "cispo": policy("cispo", ceiling=1.1),
    "sapo": policy("sapo", "sequence-mean"),
    "vespo": policy("vespo"),
    "delta": policy("clip", high=0.28, ceiling=1.35),
    "kl": lambda now: with_kl(now, "own", None),
    "kl-weighted": lambda now: with_kl(now, "weighted", OLD),
    "high-entropy": policy("clip", weight=HIGH, high=0.28),
    "entropy": with_entropy,
    "off-policy-mask": is_near,
    "rloo": policy("clip-sequence", "sequence-mean", high=0.28),
}


@pytest.fixture(scope="module")
def results():
    """All losses and gradients, compiled at once."""
    now = jnp.asarray(B["log_probability"])
    return jax.jit(lambda x: {name: jax.value_and_grad(loss)(x) for name, loss in POLICY.items()})(now)


def test_every_number_of_the_file_is_compared():
    assert POLICY.keys() == STORED["policy"].keys()


@pytest.mark.parametrize("name", POLICY)
def test_policy_loss_and_gradient(results, name):
    loss, gradient = results[name]
    close(loss, STORED["policy"][name]["loss"])
    close(gradient, STORED["policy"][name]["gradient"])


def test_advantages():
    trl = STORED["advantages"]
    for scale, name in (("group", "grpo"), ("batch", "lite-ppo"), ("none", "dr-grpo"), ("rloo", "rloo")):
        close(advantages.group_advantage(name, B["reward"]), trl[scale])
    close(advantages.reinforce_plus_plus(advantages.rloo(B["reward"])), trl["rloo-normalised"])


def test_weights_of_another_sampler():
    for rule in off_policy.CORRECTIONS:
        weight = off_policy.sampler_weight(OLD, SAMPLER, MASK, rule, 0.7, 1.4)
        close(np.where(MASK, weight, 0), np.where(MASK, STORED["corrections"][rule], 0))


def test_preferences():
    trl = STORED["preferences"]
    own, other = (supervised.log_probability_of_tokens(B[name], B["token"]) for name in ("logits", "teacher"))
    sums = [x for values in (own, other) for x in jnp.split(masks.sequence_sum(values, MASK), 2)]
    means = [x for values in (own, other) for x in jnp.split(masks.sequence_mean(values, MASK), 2)]
    for name, kind, arrays in (("dpo", "sigmoid", sums), ("ipo", "ipo", means), ("hinge", "hinge", sums)):
        close(preferences.preference_loss(name, *arrays, beta=0.3), trl[kind])
    close(preferences.preference_loss("robust-dpo", *sums, beta=0.3, smoothing=0.1), trl["robust"])
    text = supervised.cross_entropy(B["logits"][:3], B["token"][:3], MASK[:3])
    close(masks.token_mean(text, MASK[:3]), trl["sft"])

    pair = B["chosen"], B["rejected"]
    close(preferences.simpo(*pair, beta=2.0, margin=0.5), trl["simpo"])
    close(preferences.cpo(*pair, jnp.float32(0), beta=0.3), trl["cpo"])
    likelihood = -jnp.mean(B["chosen"])
    close(preferences.preference_loss("cpo", *pair, likelihood, beta=0.3, scale=0.7), trl["cpo-likelihood"])


def test_every_preference_of_the_file_is_compared():
    """XPO and smoothed labels of DPO are not among them, as this version of TRL has neither."""
    compared = {"sigmoid", "robust", "ipo", "hinge", "sft", "simpo", "cpo", "cpo-likelihood", "kto"}
    assert compared == STORED["preferences"].keys()


def test_divergence_in_the_reward():
    found = divergence.kl_in_reward(B["advantage"], OLD, REFERENCE, MASK, 0.1)
    close(found, STORED["charged"])


def test_kto():
    """The answers to other prompts are the same ones, moved on by one."""
    moved = jnp.roll(B["token"], 1, 0)
    own, other, own_moved, other_moved = (
        masks.sequence_sum(supervised.log_probability_of_tokens(B[name], token), MASK)
        for token in (B["token"], moved)
        for name in ("logits", "teacher")
    )
    baseline = preferences.kto_baseline(own_moved, other_moved)
    wanted = np.array([True, False] * 3)
    loss = preferences.preference_loss("kto", own, other, wanted, baseline, beta=0.3, unwanted_weight=1.5)
    close(loss, STORED["preferences"]["kto"])


def test_distillation():
    for share, direction in (("0", "forward"), ("0.3", "mixed"), ("1", "reverse")):
        tokens = supervised.distillation(B["logits"], B["teacher"], MASK, direction, 0.3, 1.5)
        close(masks.token_mean(tokens, MASK), STORED["distillation"][share])


def test_overlong():
    close(lengths.overlong(np.array([3, 6, 8, 10, 12]), 10, 4), STORED["overlong"])
