"""The learner's state between rollouts."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from gymnasium import spaces
from small import PPO as OPTIONS

from forage.agents.actor_critic.sac import SAC
from forage.agents.policy_gradient.ppo import PPO
from forage.behaviours.policy import AgentPolicy
from forage.config.resolve import resolve
from forage.core.ports import Agent
from forage.core.spaces import MixedSpace
from forage.core.types import Clock, ForageError
from forage.environments import spec_of
from forage.environments.adapters.on_host import OnHost
from forage.environments.classic.cartpole import CartPole
from forage.loop.device.loop import DeviceLoop
from forage.loop.host.loop import HostLoop, HostOptions
from forage.loop.learner import Learner
from forage.loop.policy import Policy
from forage.memory.rollout import LastRollout
from forage.memory.uniform import UniformReplay
from forage.rewards.environment import EnvironmentReward
from forage.rewards.scaling import NormaliseReturn
from forage.starts.reset import Reset
from forage.tasks.same import Same


class Former(AgentPolicy):
    """Has a signature of its own."""

    def act(self, state, agent, hidden, observation, key):
        return 0, hidden, (), 0


def test_an_on_policy_run_carries_no_rollout():
    """Its last one would be as large as the agent, in every state and checkpoint, and it is never read again."""
    setup = resolve("ppo", "CartPole-v1", steps=100, seeds=1, agent_options=OPTIONS)
    assert jax.tree.leaves(setup.runner().shapes().learner.memory) == []


def test_a_behaviour_with_another_signature_is_refused():
    setup = resolve("ppo", "CartPole-v1", steps=100, seeds=1, agent_options=OPTIONS, behaviour=Former())
    with pytest.raises(ForageError, match=r"Former\.act takes \(state, agent, .*is called with \(state, hidden, obs"):
        setup.runner()


class HeardReset(Reset):
    """Keeps the estimates."""

    needs_estimates = on_host = True

    def report(self, state, rollout, review):
        return review.estimates


class RatedLastRollout(LastRollout):
    """Keeps the rollout and its estimates."""

    needs_estimates = True

    def rate(self, state, estimates, clock):
        return state, estimates

    def sample(self, state, size, length, moment):
        return super().sample(state[0], size, length, moment)

    def report(self, state, batch, errors):
        return state

    def after_updates(self, state):
        return state


def test_a_memory_is_told_of_each_agent_and_starts_of_their_mean():
    """Both estimates are of rewards as the agent learns from them, which here depend on the rollout itself."""
    environment = small.Pair()
    agent = PPO(num_envs=3, rollout_length=4, epochs=1, minibatches=1, hidden_sizes=(8,))
    learner = Learner(agent, AgentPolicy(), NormaliseReturn(), RatedLastRollout(), spec_of(environment, "Pair"))
    loop = DeviceLoop(learner, environment, Same(), HeardReset())
    loop.check()

    def run(loop):
        state = loop.init(jax.random.key(0))
        after = loop.iterate(state, Clock(jnp.int32(0), jnp.float32(1e6)))[0]
        rollout, estimates = after.learner.memory
        rollout = learner.relabel(after.learner.rewards, rollout)
        return estimates, agent.estimate(state.learner.agent, rollout), after.starts

    streams, wanted, means = small.compute(run, loop)
    assert streams.value.shape == (4, 6) and means.value.shape == (4, 3)
    for found, right, mean in zip(streams, wanted, means, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(mean, found.reshape(4, 3, 2).mean(-1), rtol=1e-4, atol=1e-5)


def test_on_the_host_starts_are_told_before_the_agent_learns():
    environment = CartPole()
    agent = PPO(num_envs=2, rollout_length=4, epochs=1, minibatches=1, hidden_sizes=(8,))
    learner = Learner(agent, AgentPolicy(), EnvironmentReward(), small.KeptRollout(), spec_of(environment, "Pole"))
    loop = HostLoop(learner, OnHost(environment, 2, "Pole"), 0, 100, HostOptions(HeardReset()))
    loop.begin()
    before = jax.device_get(loop.state.agent)
    loop.iterate()
    wanted = small.compute(agent.estimate, before, loop.state.memory)
    for found, right in zip(loop.starts.state.part, wanted, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


def test_agents_that_do_not_judge_are_named():
    setup = resolve("dqn", "CartPole-v1", steps=2000, seeds=1)

    class RatedReplay(UniformReplay):
        needs_estimates = True

    learner = Learner(setup.agent, setup.behaviour, setup.rewards, RatedReplay(), setup.spec)
    with pytest.raises(ForageError, match=r"RatedReplay needs an agent with value estimates .* DQN has none; ppo does"):
        learner.check()
    with pytest.raises(ForageError, match="DQN does not judge its rollouts; an agent that does is ppo"):
        Agent.estimate(setup.agent, None, None)


class CriticOfBefore(SAC):
    """An agent with the arguments of a loss one by one."""

    def actor_loss(self, actor, critics, state, observation, noise, counts=None, key=None):
        return 0.0, (0.0, 0.0)


class StartsOfBefore(Reset):
    """Starts with a class variable of their port by a former name."""

    heeds = True


class AgentOfBefore(PPO):
    """An agent with a class variable of its port by a former name."""

    hears_rewards = True


class ActorOfBefore(PPO):
    """An agent with the arguments of `act` one by one."""

    def act(self, state, hidden, observation, key, explore, noise=None):
        return 0, hidden, ()


@pytest.mark.parametrize("environment", ["CartPole-v1", "gymnasium:CartPole-v1"])
@pytest.mark.parametrize(
    ("agent", "parts", "words"),
    [
        ("ppo", {"starts": StartsOfBefore()}, "StartsOfBefore defines heeds, which is called follows_steps now"),
        (AgentOfBefore(), {}, "AgentOfBefore defines hears_rewards, which is called return_conditioned now"),
        (
            ActorOfBefore(),
            {},
            r"ActorOfBefore\.act takes \(state, hidden, .* \(state, inputs\); inputs\.observation, inp",
        ),
    ],
)
def test_a_former_contract_is_refused(environment, agent, parts, words):
    with pytest.raises(ForageError, match=words):
        resolve(agent, environment, steps=64, seeds=1, **parts).runner()


def test_a_loss_with_former_arguments_is_refused():
    words = r"CriticOfBefore\.actor_loss takes .* with \(actor, state, inputs\); see forage\.agents\.actor_critic\.sac"
    with pytest.raises(ForageError, match=words):
        resolve(CriticOfBefore(), "Pendulum-v1", steps=64, seeds=1).runner()


def test_a_policy_of_a_former_contract_is_refused():
    with pytest.raises(
        ForageError, match=r"ActorOfBefore\.act takes \(state, hidden, .* fields of forage\.core\.ports"
    ):
        Policy(ActorOfBefore(), (), spec_of(CartPole(), "Pole"))


BOUNDED = spaces.Box(np.float32([-2, 0]), np.float32([2, 1]))


@pytest.mark.parametrize(
    ("space", "actions", "share"),
    [
        (BOUNDED, [[-2, 0.5], [1.999, 1.2], [0, 0.5], [2, 0]], 1 / 2),  # the last row is not learned from
        (MixedSpace(spaces.MultiDiscrete([3]), BOUNDED, BOUNDED), [[2, 0, 1], [0, 0, 0.5]] * 2, 1 / 3),
        (spaces.Discrete(2), [0, 1, 1, 0], None),
        (spaces.Box(-np.inf, np.inf, (2,)), [[0, 0]] * 4, None),
    ],
    ids=["box", "mixed", "choices", "open"],
)
def test_the_share_of_actions_at_their_bounds(space, actions, share):
    counts = jnp.array([[True], [True], [True], [False]])
    rollout = types.SimpleNamespace(action=jnp.asarray(actions)[:, None], counts=counts)
    learner = types.SimpleNamespace(spec=types.SimpleNamespace(action_space=space))
    found = Learner.share_at_bounds(learner, rollout)
    assert found == ({} if share is None else {"actions_at_bounds": pytest.approx(share)})
