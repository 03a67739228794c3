"""APPO equals PPO on a fresh rollout, corrects like IMPALA on an old one, and learns behind a queue."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from check_helpers import check
from gymnasium import spaces
from small import at_once

from forage.agents.policy_gradient.appo import APPO
from forage.agents.policy_gradient.impala import IMPALA, PolicyInfo
from forage.agents.policy_gradient.impala import RolloutOutputs as ReadByImpala
from forage.agents.policy_gradient.ppo import PPO
from forage.core import prng
from forage.core.types import AGENT, GUIDE, Batch, Clock, Experience, ForageError, Spec

SPEC = Spec("Random", spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2))
CLOCK = Clock(jnp.int32(0), jnp.float32(100))
SAME = {"num_envs": 4, "rollout_length": 8, "hidden_sizes": (8,), "discount": 0.9, "gae_lambda": 1.0}
SAME |= {"epochs": 2, "minibatches": 2, "normalise_advantage": False}


def rollout(noted, source=AGENT):
    random = np.random.default_rng(0)
    observation = random.normal(size=(9, 4, 3)).astype(np.float32)
    ends = random.integers(0, 6, (8, 4))
    return Experience(
        observation=jnp.asarray(observation[:-1]),
        action=jnp.asarray(random.integers(0, 2, (8, 4)), jnp.int32),
        reward=jnp.asarray(random.normal(size=(8, 4)), jnp.float32),
        next_observation=jnp.asarray(observation[1:]),
        terminated=jnp.asarray(ends == 0),
        truncated=jnp.asarray(ends == 1),
        source=jnp.full((8, 4), source, jnp.int32),
        policy_info=noted,
        version=jnp.zeros((8, 4), jnp.int32),
    )


def run_learn(agent, state, experience):
    batch = Batch(experience, jnp.ones(4), jnp.arange(4))
    return jax.jit(lambda state: agent.learn(state, batch, CLOCK, prng.key(1))[:2])(state)


@pytest.mark.thorough
def test_of_a_fresh_rollout_it_learns_what_ppo_does():
    agent, ppo = APPO(**SAME), PPO(**SAME)
    state = agent.init(prng.key(0), SPEC)
    log_probability = ppo.apply_to_rollout(state.network, None, rollout(())).log_probability
    found, metrics = run_learn(agent, state, rollout(PolicyInfo((), log_probability)))
    expected, _ = run_learn(ppo, ppo.init(prng.key(0), SPEC), rollout(()))
    for one, other in zip(jax.tree.leaves(found.network), jax.tree.leaves(expected.network), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert metrics["lag"] == 0 and found.updates == 1


def test_of_an_old_rollout_it_corrects_as_impala_does():
    agent = APPO(**SAME | {"epochs": 1, "minibatches": 1}, clip_rho=1.5)
    impala = IMPALA(discount=0.9, clip_rho=1.5)
    state = at_once(lambda: agent.init(prng.key(0), SPEC)._replace(updates=jnp.int32(3)))
    ratio = jnp.asarray(np.random.default_rng(1).uniform(-1, 1, (8, 4)), jnp.float32)
    own = rollout(PolicyInfo((), jnp.zeros((8, 4))))
    read = at_once(lambda: agent.apply_to_rollout(state.network, None, own))
    own = own._replace(policy_info=PolicyInfo((), read.log_probability - ratio))
    estimates = jax.jit(agent.estimates)
    advantage, target = estimates(own, read)
    seen = ReadByImpala(read.log_probability, ratio, read.value[..., 0], read.next_value[..., 0], ratio)
    expected, weighed = impala.targets(seen, own)
    np.testing.assert_allclose(target[..., 0], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(advantage[..., 0], weighed, rtol=1e-4, atol=1e-5)

    # What it learns from is what others hear that it thinks of a rollout.
    judged = jax.jit(agent.estimate)(state, own)
    np.testing.assert_allclose(judged.advantage, advantage[..., 0], rtol=1e-4, atol=1e-5)

    # What another behaviour chose has ratio 1, whatever was noted.
    others = estimates(own._replace(source=jnp.full((8, 4), GUIDE)), read)
    fresh = estimates(own._replace(policy_info=PolicyInfo((), read.log_probability)), read)
    assert (others[0] == fresh[0]).all() and (others[1] == fresh[1]).all()

    # The clip is around the policy that the update begins with, and not around the one that acted.
    _, metrics = run_learn(agent, state, own)
    assert metrics["clip_fraction"] == 0 and abs(metrics["approximate_kl"]) < 1e-6 and metrics["lag"] == 3


@pytest.mark.parametrize("options", [{"normalise_advantage": True}, {"bonus_head": True}, {"clip_c": 2.0}])
def test_what_v_trace_cannot_do_is_refused(options):
    with pytest.raises(ForageError, match=r"advantage|stream|clip_c of APPO is at most clip_rho"):
        check(APPO(**options), SPEC)
