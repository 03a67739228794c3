"""REINFORCE: its gradient by hand, steps without effect, and learning."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from check_helpers import check
from gymnasium import spaces
from tiers import gate_cases

from forage.agents.policy_gradient.reinforce import Reinforce
from forage.config.resolve import resolve
from forage.core.types import AGENT, GONE, Batch, Clock, Experience, ForageError, Spec
from forage.starts.groups import GroupMark, Groups

small.keep_compiled()
SPEC = Spec("Test", spaces.Box(-1, 1, (2,)), spaces.Discrete(3))
CLOCK = Clock(jnp.int32(12), jnp.float32(1200))
AGENT_OF: dict[str, Any] = {"num_envs": 2, "rollout_length": 6, "hidden_sizes": (4,), "max_gradient_norm": 1e9}
KEY = jax.random.key(0)


def rollout(**changes: Any) -> Experience:
    """Two environments, six steps: episodes of 2, 3 and an unfinished 1 step, and of 4 and an unfinished 2."""
    ended = np.zeros((6, 2), bool)
    ended[[1, 4], 0] = ended[3, 1] = True
    observation = np.asarray(jax.random.normal(KEY, (6, 2, 2)))
    action = np.arange(12).reshape(6, 2) % 3
    reward = np.arange(12.0, dtype=np.float32).reshape(6, 2)
    mark = GroupMark(np.array([[0, 1], [0, 1], [1, 1], [1, 1], [1, 2], [2, 2]]))
    source = np.full((6, 2), AGENT)
    made = Experience(observation, action, reward, observation, ended, np.zeros_like(ended), source, (), start_id=mark)
    return made._replace(**changes)


def run_learn(agent: Reinforce, experience: Experience) -> Any:
    state = small.first_state(agent, SPEC)
    batch = Batch(experience, np.ones(2, np.float32), np.arange(2))
    return state, *small.compute(agent.learn, state, batch, CLOCK, KEY)


# Discounted by 1/2, returns are 0 + 2/2 = 1, 4 + 6/2 + 8/4 = 9, and 1 + 3/2 + 5/4 + 7/8 = 4.625.
ADVANTAGES = {
    "none": [1, 9, 4.625],
    "mean": [1 - 13.625 / 2, 9 - 5.625 / 2, 4.625 - 10 / 2],
    "group": [0, 9 - 4.625, 4.625 - 9],  # the first is alone in its group
}


@pytest.mark.parametrize("baseline", gate_cases(ADVANTAGES, ["group"]))
def test_the_gradient_is_that_of_the_formula(baseline):
    agent = Reinforce(**AGENT_OF, baseline=baseline, discount=0.5)
    experience = rollout()
    state, after, metrics, _ = run_learn(agent, experience)
    first, second, third = ADVANTAGES[baseline]
    weights = np.zeros((6, 2), np.float32)
    weights[:2, 0], weights[2:5, 0], weights[:4, 1] = first, second, third
    own = np.zeros((6, 2), bool)
    own[:5, 0] = own[:4, 1] = True

    def loss(network):
        def one(observation, action):
            return network.policy(network.torso(0)(observation), observation).log_probability(action)

        log_probability = jax.vmap(jax.vmap(one))(experience.observation, experience.action)
        return -jnp.sum(jnp.where(own, weights * log_probability, 0.0)) / own.sum()

    def step(network):
        value, gradient = jax.value_and_grad(loss)(network)
        return value, agent.optimiser(agent.learning_rate).step(gradient, state.optimiser, network)[0]

    value, expected = small.compute(step, state.network)
    for found, wanted in zip(jax.tree.leaves(after.network), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert float(metrics["policy_loss"]) == pytest.approx(float(value), rel=1e-5)
    assert float(metrics["whole_share"]) == pytest.approx(9 / 12)


def test_what_did_not_end_and_what_others_chose_teaches_nothing():
    """Neither the unfinished tails nor the actions of another change anything."""
    agent = Reinforce(**AGENT_OF, baseline="group")
    _, plain, _, _ = run_learn(agent, rollout())
    other = rollout().action.copy()
    other[5, 0], other[4:, 1] = 0, 1
    reward = rollout().reward.copy()
    reward[5, 0], reward[4:, 1] = 1e6, -1e6
    _, found, _, _ = run_learn(agent, rollout(action=other, reward=reward))
    assert not small.differing(jax.device_get(plain.network), jax.device_get(found.network))
    source = rollout().source.copy()
    source[0, 0] = GONE
    _, found, _, _ = run_learn(agent, rollout(source=source))
    assert small.differing(jax.device_get(plain.network), jax.device_get(found.network))


def test_the_advantage_of_grpo_has_no_scale():
    agent = Reinforce(**AGENT_OF, baseline="group", standardise=True)
    _, plain, _, _ = run_learn(agent, rollout())
    _, found, _, _ = run_learn(agent, rollout(reward=1000 * rollout().reward))
    for one, other in zip(jax.tree.leaves(plain.network), jax.tree.leaves(found.network), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "spec", "says"),
    [
        ({"baseline": "value"}, SPEC, "one of none, mean, group, not 'value'"),
        ({"baseline": "none", "standardise": True}, SPEC, "take baseline mean or group"),
        ({}, replace(SPEC, horizon=7), "last up to 7 steps; give it a rollout_length of 7 or more, not 6"),
        ({"normalise_observation": True}, replace(SPEC, observation_space=spaces.Discrete(4)), "can be normalised"),
    ],
)
def test_what_cannot_be_is_refused(options, spec, says):
    with pytest.raises(ForageError, match=says):
        check(Reinforce(**AGENT_OF, **options), spec)


def test_rollouts_are_as_long_as_episodes_can_be():
    assert resolve("reinforce", "Pendulum-v1").agent.rollout_length == 200
    assert resolve("reinforce", "Pendulum-v1", agent_options={"rollout_length": 600}).agent.rollout_length == 600


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ("CartPole-v1", {}),
        ("Pendulum-v1", {"normalise_observation": True, "initial_log_std": -1.0, "entropy_coefficient": 0.01}),
        ("grid:Empty-5x5", {}),
        ("small:Pair", {}),
    ],
)
@pytest.mark.thorough
def test_it_runs_with_any_actions(environment, options):
    setup = resolve(
        "reinforce", environment, steps=400, seeds=[0], wrap=[] if ":" in environment else ["time-limit:9"],
        agent_options={"num_envs": 2} | options,
    )  # fmt: skip
    runner: Any = setup.runner()
    runner.begin()
    report = runner.advance(2)
    assert report.agent_finite.all() and report.environment_finite.all()


@pytest.mark.thorough
@pytest.mark.parametrize("baseline", gate_cases(["none", "group"], ["group"]))
def test_learns_the_toy_language(baseline):
    setup = resolve(
        "reinforce", "language:Reverse-2", steps=16_000, seeds=[0, 1, 2, 3, 4], starts=Groups(8),
        agent_options={"num_envs": 64, "baseline": baseline},
    )  # fmt: skip
    runner: Any = setup.runner(1)
    runner.begin()
    runner.advance(112)
    report = runner.advance(13)
    assert (report.episodes.episode_return / report.episodes.count > 0.95).all()


@pytest.mark.thorough
def test_learns_cartpole_only_with_a_baseline():
    """After 400,000 steps, episodes of the last tenth: 5 seeds of group reach 450, without a baseline none does."""
    found = {}
    for baseline in ("none", "group"):
        setup = resolve(
            "reinforce", "CartPole-v1", steps=400_000, seeds=[0, 1, 2, 3, 4], starts=Groups(8),
            agent_options={"learning_rate": 1e-2, "baseline": baseline},
        )  # fmt: skip
        runner: Any = setup.runner(1)
        runner.begin()
        runner.advance(45)
        report = runner.advance(5)
        found[baseline] = np.asarray(report.episodes.episode_return / report.episodes.count)
    assert (found["group"] > 450).all() and (found["none"] < 400).all(), found
