"""Every bonus with every kind of agent: one turn of the loop by its shapes, and one turn run."""

import itertools

import jax
import jax.numpy as jnp
import pytest
from reward_helpers import KEY
from tiers import gate_cases

from forage.agents.actor_critic.sac import SAC
from forage.agents.policy_gradient.ppo import PPO
from forage.agents.q_learning.dqn import DQN
from forage.behaviours.policy import AgentPolicy
from forage.config import part_options, registry
from forage.core.types import Clock, Spec
from forage.environments import make
from forage.loop.device.loop import DeviceLoop
from forage.loop.learner import Learner
from forage.memory.rollout import LastRollout
from forage.memory.uniform import UniformReplay
from forage.rewards.bonuses.base import Bonus
from forage.rewards.scaling import Scale
from forage.starts.reset import Reset
from forage.tasks.same import Same

BONUSES = {n: c for n, t in registry.parts("rewards").items() if issubclass(c := registry.load(t), Bonus)}
SMALL = {"hidden_sizes": (8,), "minibatch_size": 8, "embedding_size": 4}


def small(cls):
    """A bonus with networks that compile in no time."""
    known = {field.name for field in part_options.fields(cls)}
    return cls(inner=Scale(0.5), **{name: value for name, value in SMALL.items() if name in known})


AGENTS = {
    "ppo": (lambda: PPO(num_envs=2, rollout_length=4, minibatches=1, hidden_sizes=(8,)), "grid:Empty-5x5"),
    "dqn": (lambda: DQN(num_envs=2, hidden_sizes=(8,)), "tabular:Chain-5"),
    "sac": (lambda: SAC(num_envs=2, hidden_sizes=(8,)), "Pendulum-v1"),
    "ppo, masks": (lambda: PPO(num_envs=2, rollout_length=4, minibatches=1, hidden_sizes=(8,)), "CartPole-masked"),
}

ONCE = list(zip(BONUSES, itertools.cycle(AGENTS)))  # each bonus with one kind of agent


def loop_of(rewards, agent, environment):
    environment = make(environment)
    spec = Spec("Here", environment.observation_space, environment.action_space, horizon=environment.horizon)
    memory = LastRollout() if agent.on_policy else UniformReplay(capacity=64)
    learner = Learner(agent, AgentPolicy(), rewards, memory, spec)
    learner.check()
    return DeviceLoop(learner, environment, Same(), Reset())


def shapes(tree):
    return jax.tree.map(lambda x: (x.shape, x.dtype), tree)


@pytest.mark.parametrize(("name", "agent"), gate_cases(itertools.product(BONUSES, AGENTS), ONCE))
def test_a_turn_keeps_the_shape_of_everything(name, agent):
    make_agent, environment = AGENTS[agent]
    loop = loop_of(small(BONUSES[name]), make_agent(), environment)
    clock = Clock(jnp.int32(0), jnp.float32(1000))
    before = jax.eval_shape(loop.init, KEY)
    after, tally = jax.eval_shape(loop.iterate, before, clock)
    assert shapes(after) == shapes(before)
    assert {"bonus", "bonus_weight"} <= tally.metrics.keys()
