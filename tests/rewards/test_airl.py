"""Adversarial inverse reinforcement learning: its form and its rewards by hand, and the supported agents."""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
import small
from reward_helpers import CLOCK, KEY, spec_of
from test_gail import SMALL, SPEC, rollout, rows, show, write_file
from tiers import first

from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.sac_discrete import SACDiscrete
from forage.agents.policy_gradient.ppo import PPO
from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.rewards.adversarial.airl import AIRL
from forage.rewards.scaling import Scale

LOG = np.log(0.25)


def policy(observation, action):
    """Chooses 1 in one of four cases."""
    return jnp.where(action == 1, LOG, np.log(0.75))


def pass_through(sight, *inputs):
    """A network's output in NumPy: one hidden layer of tanh."""
    first, last = sight.head.layers
    hidden = np.tanh(np.concatenate(inputs, 1) @ np.asarray(first.weight) + np.asarray(first.bias))
    return (hidden @ np.asarray(last.weight) + np.asarray(last.bias))[:, 0]


def by_hand(rewards, state, experience):
    """f(s, a, s') of transitions (leaves `row ...`); a step that ends leads to the absorbing state, 0, 0, 1."""
    mean, deviation = np.asarray(state.norm.mean), np.sqrt(np.asarray(state.norm.variance))
    both = experience.observation, experience.next_observation
    now, after = (np.clip((np.asarray(x) - mean) / deviation, -10, 10) for x in both)
    ends, zero = np.asarray(experience.terminated)[:, None].astype(float), np.zeros((len(now), 1))
    after = np.where(ends > 0, 0, after)
    action = np.eye(2)[np.asarray(experience.action)]
    inputs = (now, zero) if rewards.state_only else (now, action, zero)
    network, discount = state.network, rewards.discount
    later, before = pass_through(network.potential, after, ends), pass_through(network.potential, now, zero)
    return pass_through(network.reward, *inputs) + discount * later - before


@pytest.mark.parametrize("state_only", first(1, [True, False]))
def test_what_is_paid_and_the_loss_by_hand(state_only):
    rewards = AIRL(show(16), state_only=state_only, absorbing=False, gradient_penalty=0.0, discount=0.9, **SMALL)
    state = small.at_once(lambda: rewards.init(KEY, SPEC, 4))
    own, theirs = (type(state.kept)(*(getattr(e, n) for n in state.kept._fields)) for e in (rows(16, -1), rows(16, 1)))
    _, metrics = small.compute(lambda s, a, b: rewards.update(s, a, b, KEY, policy), state, own, theirs)
    mine, good = (by_hand(rewards, state, e) - np.asarray(policy(None, e.action)) for e in (rows(16, -1), rows(16, 1)))
    loss = np.log1p(np.exp(-good)).mean() + np.log1p(np.exp(mine)).mean()  # D / (1 - D) = exp f / pi
    np.testing.assert_allclose(metrics["discriminator_loss"], loss, rtol=1e-4)

    def turn(state, rollout):
        state, rewards_info, _ = rewards.learn(state, rollout, CLOCK, KEY, policy)
        return state, rewards_info, rewards.relabel(state, rollout._replace(rewards_info=rewards_info)).reward

    state, rewards_info, paid = small.compute(turn, state, rollout())
    flat = rows(32, -1.0)
    log = np.where(flat.action == 1, LOG, np.log(0.75))
    np.testing.assert_allclose(rewards_info.reshape(-1), log, rtol=1e-5)
    np.testing.assert_allclose(paid.reshape(-1), by_hand(rewards, state, flat) - log, rtol=1e-4, atol=1e-5)


def test_the_absorbing_state_has_a_potential():
    rewards = AIRL(show(16), entropy=False, discount=0.9, **SMALL)
    state = small.at_once(lambda: rewards.init(KEY, SPEC, 4))
    found = small.compute(rewards.relabel, state, rollout(32, -1.0, True)).reward.reshape(-1)
    nothing, one = np.zeros((1, 2)), np.ones((1, 1))
    h = pass_through(state.network.potential, nothing, one)
    beyond = pass_through(state.network.reward, nothing, nothing, one) + 0.9 * h - h
    np.testing.assert_allclose(found, by_hand(rewards, state, rows(32, -1.0, True)) + 9 * beyond, rtol=1e-4, atol=1e-5)


BOX = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
AGENTS = {
    "ppo": (PPO(hidden_sizes=(8,)), gymnasium.spaces.Discrete(3)),
    "sac-discrete": (SACDiscrete(hidden_sizes=(8,)), gymnasium.spaces.Discrete(3)),
    "ppo, continuous": (PPO(hidden_sizes=(8,)), BOX),
    "sac": (SAC(hidden_sizes=(8,)), BOX),
}


@pytest.mark.parametrize("name", first(2, AGENTS))
def test_agents_say_how_probable_their_actions_are(name):
    """Over all actions the probabilities sum to 1, and an agent's own draws have the mean of their density."""
    agent, space = AGENTS[name]
    spec = spec_of()
    spec = type(spec)(spec.name, spec.observation_space, space)
    state = small.at_once(lambda: agent.init(KEY, spec))
    seen = np.ones(2, np.float32)

    def density(actions):
        return agent.log_probability(state, jnp.broadcast_to(seen, (len(actions), 2)), actions)

    if space is not BOX:
        found = small.compute(density, np.arange(3, dtype=np.int32))
        np.testing.assert_allclose(np.exp(found).sum(), 1, rtol=1e-5)
        np.testing.assert_allclose(
            np.exp(found), small.compute(lambda: agent.probabilities(state, seen, True)), rtol=1e-4
        )
        return
    reach = 5 if name.startswith("ppo") else 1  # PPO's Gaussians go beyond the box
    line = (np.arange(200) + 0.5) / 100 - 1
    grid = reach * np.stack(np.meshgrid(line, line), -1).reshape(-1, 2).astype(np.float32)
    inside = small.compute(density, grid)
    np.testing.assert_allclose(np.exp(inside).mean() * (2 * reach) ** 2, 1, rtol=0.02)


@pytest.mark.thorough
@pytest.mark.parametrize(("agent", "environment"), [("ppo", "CartPole-v1"), ("sac", "Pendulum-v1")])
def test_resumed_is_as_if_never_stopped(agent, environment, tmp_path):
    _, _, options = small.AGENTS[agent]
    rewards = AIRL(write_file(tmp_path / "a.npz", environment), **SMALL)
    setup = resolve(agent, environment, steps=320, seeds=[3, 7], rewards=rewards, agent_options=options)
    again, runner, _ = small.resume_run(setup, tmp_path, 4)
    assert small.differing(runner.state, again.state) == []


def test_who_cannot_say_is_refused(tmp_path):
    data = write_file(tmp_path / "a.npz")

    def check_refused(words, agent, rewards, **options):
        with pytest.raises(ForageError, match=words):
            resolve(agent, "CartPole-v1", seeds=1, steps=4000, rewards=rewards, agent_options=options).runner()

    check_refused("which DQN here cannot say; use an agent that draws its actions", "dqn", AIRL(data))
    check_refused("which PPO here cannot say", "ppo", AIRL(data), gru_size=4)
    check_refused("Scale around it does not pass that on", "ppo", Scale(0.5, inner=AIRL(data)))
    check_refused("Scale around it does not pass that on", "ppo", Scale(0.5, inner=Scale(2.0, inner=AIRL(data))))
