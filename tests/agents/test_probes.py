"""Every agent passes every probe, on both runners. A new agent joins by one line in AGENTS; ELSEWHERE has the reasons
for others.

`PYTHONPATH=tests python tests/agents/test_probes.py [RUNNER[:AGENT,...] ...]` prints found values beside right ones.
"""

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiers import gate_cases

from forage.agents.actor_critic.crossq import CrossQ
from forage.agents.actor_critic.offline.cal_ql import CalQL
from forage.agents.actor_critic.offline.cql import CQL
from forage.agents.actor_critic.offline.rebrac import ReBRAC
from forage.agents.actor_critic.offline.td3_bc import TD3BC
from forage.agents.actor_critic.recurrent.base import EarlierSteps, Recurrent
from forage.agents.actor_critic.recurrent.sac import RecurrentSAC
from forage.agents.actor_critic.recurrent.td3 import RecurrentTD3
from forage.agents.actor_critic.sac import SAC
from forage.agents.actor_critic.sac_discrete import SACDiscrete, policies
from forage.agents.actor_critic.td3 import TD3
from forage.agents.actor_critic.tqc import TQC
from forage.agents.evolution.open_es import OpenES
from forage.agents.offline.bc import BC
from forage.agents.offline.decision_transformer import DecisionTransformer
from forage.agents.offline.iql import IQL
from forage.agents.policy_gradient.a2c import A2C
from forage.agents.policy_gradient.appo import APPO
from forage.agents.policy_gradient.impala import IMPALA
from forage.agents.policy_gradient.ppo import PPO
from forage.agents.policy_gradient.reinforce import Reinforce
from forage.agents.policy_gradient.rollouts import score_actions
from forage.agents.policy_gradient.trpo import TRPO
from forage.agents.q_learning.c51 import C51
from forage.agents.q_learning.discrete_bcq import DiscreteBCQ
from forage.agents.q_learning.discrete_cql import DiscreteCQL
from forage.agents.q_learning.dqn import DQN
from forage.agents.q_learning.iqn import IQN
from forage.agents.q_learning.pqn import PQN
from forage.agents.q_learning.qr_dqn import QRDQN
from forage.agents.q_learning.rainbow import Rainbow
from forage.agents.search.gumbel_search import GumbelSearch
from forage.agents.settings import DDPG, REDQ
from forage.behaviours.epsilon_greedy import EpsilonGreedy
from forage.config import registry
from forage.config.defaults import default_behaviour, default_memory
from forage.core import compiling, spaces
from forage.core.ports import ActInputs, Agent, Behaviour, Evolver, Memory, World
from forage.core.ports.checking import check_agent
from forage.core.schedule import Schedule
from forage.core.types import DATASET, Experience, ForageError, Spec
from forage.data.demonstrations import Demonstrations
from forage.environments import spec_of
from forage.environments.adapters.on_host import OnHost
from forage.environments.tabular.probes import (
    ACTIONS,
    HIGH,
    LOW,
    PROBES,
    STATES,
    OptimalChoice,
    Probe,
    combine_probes,
    solve,
)
from forage.environments.wrappers.together import EnvironmentCopies
from forage.loop.device.evolution import EvolutionLoop
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.programs import batch_seeds
from forage.loop.device.runner import DeviceRunner
from forage.loop.host.runner import HostRunner
from forage.loop.learner import Learner
from forage.loop.offline.loop import OfflineLoop
from forage.memory.dataset import OpenedDataSet
from forage.memory.episodes import Episodes
from forage.memory.queue import Queue
from forage.memory.uniform import UniformReplay
from forage.nn.critics import each_value
from forage.nn.normalise import apply_norm
from forage.rewards.environment import EnvironmentReward
from forage.starts.reset import Reset
from forage.tasks.same import Same

DISCOUNT = 0.8  # values settle within some twenty steps, and 1 / (1 - 0.8) is far from 1 / (1 - 0.8 * 0.75)


class Trial(NamedTuple):
    """An agent with quick settings, and its number of environment steps."""

    agent: Agent
    steps: int
    behaviour: Behaviour | None = None  # the agent's usual one
    memory: Memory | None = None  # as well


PPO_SIZES: dict[str, Any] = {"num_envs": 16, "rollout_length": 8, "minibatches": 1, "hidden_sizes": (16,)}
PPO_SIZES |= {"learning_rate": 1e-2}


def ppo(**settings: Any) -> PPO:
    return PPO(**PPO_SIZES, **settings, discount=DISCOUNT)


def a2c(**settings: Any) -> A2C:
    usual = {"num_envs": 16, "rollout_length": 8, "hidden_sizes": (16,), "learning_rate": 1e-2}
    return A2C(**usual, **settings, entropy_coefficient=0.01, discount=DISCOUNT)


def impala(**settings: Any) -> IMPALA:
    usual = {"num_envs": 16, "rollout_length": 8, "hidden_sizes": (16,), "learning_rate": 1e-2}
    return IMPALA(**usual, **settings, discount=DISCOUNT)


OFF_POLICY: dict[str, Any] = {
    "num_envs": 8,
    "rollout_length": 4,
    "updates_per_rollout": 4,
    "learning_starts": 512,
    "learning_rate": 3e-3,
    "discount": DISCOUNT,
}
CRITIC: dict[str, Any] = OFF_POLICY | {"batch_size": 64, "hidden_sizes": (32, 32), "polyak": 0.05}
COLD = {"initial_temperature": 1e-3}  # soft values count entropy as reward; near zero temperature they are values
# A single state has no deviation, so running statistics that lag behind a step of the weights are told thirty times too
# large: the policy acts as it learned to only once batch renormalisation has warmed up, and steps get small.
NO_TARGETS = {"polyak": 1.0, "policy_delay": 2, "batch_norm_rate": 0.1, "batch_norm_warm_up": 100}
NO_TARGETS |= {"value_sizes": (32, 32), "learning_rate": Schedule("linear:2e-3,1e-4")}
HISTOGRAM = {"bins": 41, "lowest_value": -4.0, "highest_value": 4.0}
FEW_QUANTILES = {"critics": 2, "quantiles": 8, "dropped_quantiles": 0, "value_sizes": (32, 32)}
REPLAYED: dict[str, Any] = OFF_POLICY | {"batch_size": 64, "hidden_sizes": (32,), "target_update_interval": 64}


def dqn(n_step: int = 1, **settings: Any) -> DQN:
    return DQN(**(REPLAYED | {"n_step": n_step, "dueling": False} | settings))


HISTORIES: dict[str, Any] = CRITIC | {"batch_size": 16, "unroll": 8, "lstm_size": 16, "lstm_layers": 1}
EPISODES = Episodes(capacity=4096)

WHOLE: dict[str, Any] = {"num_envs": 16, "rollout_length": 32, "hidden_sizes": (16,), "learning_rate": 1e-2}
WHOLE |= {"discount": DISCOUNT, "final_learning_rate": 1.0}
ROLLED: dict[str, Any] = {"num_envs": 16, "rollout_length": 8, "hidden_sizes": (32,), "learning_rate": 1e-2}
ROLLED |= {"discount": DISCOUNT, "minibatches": 4}
SEARCH: dict[str, Any] = {"num_envs": 16, "rollout_length": 8, "hidden_sizes": (16,), "learning_rate": 1e-2}
SEARCH |= {"discount": DISCOUNT, "simulations": 6}
EXPLORE = EpsilonGreedy(end=0.2)
GREEDY_AT_LAST = EpsilonGreedy(end=0.0, fraction=0.5)  # returns of several steps are those of the actions replayed

AGENTS = {
    "ppo": Trial(ppo(), 12_000),
    "ppo gru": Trial(ppo(gru_size=16), 120_000),
    "ppo lstm": Trial(ppo(gru_size=16, cell="lstm"), 120_000),
    "a2c": Trial(a2c(), 60_000),
    "trpo": Trial(TRPO(**PPO_SIZES, discount=DISCOUNT), 12_000),
    "appo behind": Trial(APPO(**PPO_SIZES, discount=DISCOUNT), 40_000, memory=Queue(lag=2)),
    "impala": Trial(impala(), 40_000),
    "impala gru": Trial(impala(gru_size=16), 120_000),
    "impala behind": Trial(impala(), 40_000, memory=Queue(lag=4)),
    "reinforce": Trial(Reinforce(**WHOLE), 60_000),
    "gumbel-search": Trial(GumbelSearch(**SEARCH), 12_000),
    "dqn": Trial(dqn(), 10_000, EXPLORE),
    "dqn 3-step dueling": Trial(dqn(n_step=3, dueling=True), 12_000, GREEDY_AT_LAST),
    "dqn gru": Trial(dqn(gru_size=16, burn_in=2, unroll=6, batch_size=16), 10_000, EXPLORE),
    "dqn histogram": Trial(dqn(**HISTOGRAM), 10_000, EXPLORE),
    "qr-dqn": Trial(QRDQN(**REPLAYED, n_step=1, dueling=False, quantiles=8), 12_000, EXPLORE),
    "c51": Trial(C51(**REPLAYED, n_step=1, dueling=False, atoms=51, low=-4.0, high=8.0), 12_000, EXPLORE),
    "iqn": Trial(IQN(**REPLAYED, n_step=1, dueling=False, samples=8, target_samples=8, act_samples=8), 12_000, EXPLORE),
    "rainbow": Trial(Rainbow(**REPLAYED, n_step=1, atoms=51, low=-4.0, high=8.0), 12_000, EXPLORE),
    "pqn": Trial(PQN(**ROLLED), 30_000, GREEDY_AT_LAST),
    "sac": Trial(SAC(**CRITIC, **COLD, target_entropy=-3.0), 10_000),
    "sac histogram": Trial(SAC(**CRITIC, **COLD, **HISTOGRAM, target_entropy=-3.0), 10_000),
    "redq": Trial(REDQ(**CRITIC, **COLD, critics=4, policy_delay=2, target_entropy=-3.0), 30_000),
    "tqc": Trial(TQC(**CRITIC, **COLD, **FEW_QUANTILES, target_entropy=-3.0), 10_000),
    "crossq": Trial(CrossQ(**(CRITIC | COLD | NO_TARGETS), target_entropy=-3.0), 20_000),
    "sac-discrete": Trial(SACDiscrete(**CRITIC, **COLD, target_entropy=0.0), 10_000, EXPLORE),
    "td3": Trial(TD3(**CRITIC, exploration_noise=0.3), 10_000),
    "ddpg": Trial(DDPG(**CRITIC, exploration_noise=0.3), 10_000),
    "recurrent-sac": Trial(RecurrentSAC(**HISTORIES, **COLD, target_entropy=-3.0), 20_000, memory=EPISODES),
    "recurrent-td3": Trial(RecurrentTD3(**HISTORIES, exploration_noise=0.3), 20_000, memory=EPISODES),
}

CAREFREE = {"conservatism": 1e-3, "samples": 2, "backup_samples": 1, "policy_learning_rate": 3e-3}
STEADY = {"batch_size": 128, "learning_rate": 1e-3}
OFFLINE: dict[str, Any] = {"batch_size": 128, "hidden_sizes": (32, 32), "learning_rate": 5e-4}
BEST = {"expectile": 0.99, "beta": 100.0, "polyak": 0.005}  # nearly the best of what the data tries

FROM_DATA = {
    "bc": Trial(BC(**OFFLINE), 6000),  # from data in which everybody does what is best
    "iql": Trial(IQL(**OFFLINE, **BEST, discount=DISCOUNT), 20_000),
    "dqn": Trial(dqn(double=False), 6000),
    "discrete-cql": Trial(DiscreteCQL(**REPLAYED, conservatism=1e-3), 6000),
    "discrete-bcq": Trial(DiscreteBCQ(**REPLAYED), 6000),
    "td3-bc": Trial(TD3BC(**(CRITIC | STEADY), alpha=1000.0), 8000),  # the data take all actions alike
    "rebrac": Trial(ReBRAC(**CRITIC, actor_cloning=1e-3, critic_cloning=1e-3), 6000),
    "cql": Trial(CQL(**(CRITIC | STEADY), **COLD, **CAREFREE, target_entropy=-3.0), 8000),
    "cal-ql": Trial(CalQL(**(CRITIC | STEADY), **COLD, **CAREFREE, target_entropy=-3.0, value_sizes=()), 8000),
}
"""Agents that learn from a data set, and their numbers of updates."""

READ: dict[str, Any] = {"layers": 1, "heads": 2, "dropout": 0.0, "warmup": 1, "max_gradient_norm": 1.0}
BACK = {"context": 3, "width": 32, "learning_rate": 3e-3, "episode_length": 16}
FROM_EPISODES = {
    "decision-transformer": Trial(DecisionTransformer(**READ, **BACK), 2000),
}
"""Agents that learn the episodes of a data set with all actions as sequences, and their updates."""

ELSEWHERE = {
    "vdn": "Its values are those of a team, and one agent is none; it learns the paper's game in test_vdn.py.",
    "qmix": "Likewise: test_vdn.py.",
    "grpo": "It writes text, which probes do not take: language/test_grpo.py.",
    "dr-grpo": "Likewise: language/test_relatives.py.",
    "dapo": "Likewise: language/test_relatives.py.",
    "rloo": "Likewise: language/test_relatives.py.",
    "reinforce-plus-plus": "Likewise: language/test_relatives.py.",
    "reinforce-plus-plus-baseline": "Likewise: language/test_relatives.py.",
    "gspo": "Likewise: language/test_relatives.py.",
    "cispo": "Likewise: language/test_relatives.py.",
    "gmpo": "Likewise: language/test_relatives.py.",
    "sapo": "Likewise: language/test_relatives.py.",
    "sft": "Likewise: language/test_language_agents.py.",
    "dpo": "Likewise: language/test_recorded_text.py.",
    "ipo": "Likewise: language/test_recorded_text.py.",
    "reward-model": "Likewise: language/test_recorded_text.py.",
    "process-reward": "Likewise: language/test_recorded_text.py.",
    "ppo-language": "Likewise: language/test_language_agents.py.",
    "distill": "Likewise: language/test_relatives.py.",
}
"""Agents of the registry without a row, and the reason why a probe cannot check them."""

# Of ranks, so a member's return is a mean: of single ones the luckiest action would be best.
EVOLVER = {"num_envs": 256, "episodes": 8, "rollout_length": 16, "hidden_sizes": (8,), "learning_rate": 0.02}
EVOLVED = {"open-es": Trial(OpenES(**EVOLVER, sigma=0.3), 120_000)}

CONTINUOUS = ("sac", "sac histogram", "redq", "tqc", "td3", "ddpg", "crossq", "recurrent-sac", "recurrent-td3")
FORMS = ("discrete", "continuous")
RUNNERS = {
    "device": tuple(PROBES),
    "host": ("action and observation", "truncation", "reset", "recall", "forgetting"),
    "together": ("action and observation", "truncation", "termination", "reset", "recall", "forgetting"),  # many agents
    "data": ("action and observation", "delay", "truncation", "termination", "reset", "next episode"),
    "episodes": tuple(probe for probe in PROBES if probe not in ("constant", "truncation", "reset", "mask")),
    "evolution": ("action", "action and observation", "delay", "target", "mask"),
}
TOGETHER = 3
FORGETS = "An agent without memory cannot pass: states that ask for different actions look alike."
LUCK = "It takes luck for skill: what chance once brought counts as if the action had brought it."


MORE_ESTIMATES: list[tuple[Any, Callable[..., Any]]] = []
"""Kinds of agents of another package, each with a function of `estimate`'s arguments; the first that fits is taken."""
MORE_REASONS: list[Callable[[Agent, str, str, str], str | None]] = []
"""Functions of agent, probe, form and runner: the reason why a probe cannot check an agent of another package."""
IMITATORS: list[type] = [BC]
"""Kinds of agents that learn from data of the best actions alone."""
ASK_FOR_LENGTH: list[type] = []
"""Kinds of agents that ask for the longest length of an episode."""


def estimate(agent: Agent, state: Any, hidden: Any, observation: Any, action: Any) -> Any:
    """Return the agent's value of an observation, `action` being its own choice there; NaN if it learns none.

    One branch for each kind of agent; tests of a package of parts add theirs to `MORE_ESTIMATES`.
    """
    for kinds, read in MORE_ESTIMATES:
        if isinstance(agent, kinds):
            return read(agent, state, hidden, observation, action)
    if isinstance(agent, Reinforce | BC | OpenES | DecisionTransformer):
        return jnp.nan
    if isinstance(agent, Recurrent):  # its critics remember apart from its actor: `worth`
        return jnp.nan
    if isinstance(agent, IQL):
        batch = jax.tree.map(lambda x: x[None], (observation, state.policy.actions.action_features(action)))
        return each_value(state.critics, *batch).mean()
    if isinstance(agent, GumbelSearch):
        return agent.predict(state, observation)[1]
    if isinstance(agent, PPO | IMPALA):
        network = state.network
        return network.value(observation, network.remember(hidden, observation) if network.gru else None)[0]
    if isinstance(agent, PQN):
        return best_allowed(agent.action_values(state, hidden, observation), observation)
    if isinstance(agent, DiscreteBCQ):
        return agent.action_values(state, hidden, observation).max()
    if isinstance(agent, DQN):
        features = state.network.torso(observation)
        q = state.network.q(features if state.network.gru is None else state.network.gru(hidden, features))
        return best_allowed(q, observation)
    if isinstance(agent, SACDiscrete):
        batch = jax.tree.map(lambda x: x[None], observation)
        return jnp.sum(policies(state.actor, batch)[0] * each_value(state.critics, batch).mean(0))
    if isinstance(agent, SAC | TD3):
        batch = jax.tree.map(
            lambda x: x[None], (apply_norm(state.norm, observation), state.actor.actions.to_unit(action))
        )
        return each_value(state.critics, *batch).mean()
    raise TypeError(f"Say here how to read a value from {type(agent).__name__}.")


def best_allowed(q: Any, observation: Any) -> Any:
    """Return the highest value of the actions that a mask allows."""
    mask = spaces.split_mask(observation)[1]
    return jnp.max(q if mask is None else jnp.where(mask, q, -jnp.inf))


class FoundRecord(NamedTuple):
    """An agent's estimates for one history, and the right ones."""

    expected: OptimalChoice
    value: float
    action: float

    @property
    def right(self) -> bool:
        """Return whether value and action are right: within a tenth of the value (or of 1, if larger) and a quarter of
        the action.
        """
        near = np.isnan(self.value) or abs(self.value - self.expected.value) <= 0.1 * max(1.0, abs(self.expected.value))
        return near and (self.expected.action is None or abs(self.action - self.expected.action) <= 0.25)


@functools.cache
def build(probe: str, form: str, runner: str) -> Probe:
    """Make a probe. On the device, discrete actions have a mask (all allowed except in the probe of that name)."""
    return PROBES[probe].build(form == "continuous", masked=form == "discrete" and runner in ("device", "evolution"))


@functools.cache
def spec(form: str, runner: str) -> Spec:
    return spec_of(build("constant", form, runner), f"A probe with {form} actions")


def obstacle(trial: Trial, probe: str, form: str, runner: str) -> str | None:
    """Return the reason why an agent cannot be put to a probe; `None` if it can."""
    try:
        build(probe, form, runner)
        check_agent(trial.agent, with_horizon(trial.agent, spec(form, runner)))
    except ForageError as error:
        return str(error)
    for find in MORE_REASONS:
        if reason := find(trial.agent, probe, form, runner):
            return reason
    if runner == "episodes" and (reason := missing_reason(trial.agent, probe, form)):
        return reason
    if trial.agent.looks_ahead and runner != "device":
        return "An agent that looks ahead does so in a native environment, alone."
    forgets = not jax.tree.leaves(trial.agent.init_hidden(spec(form, runner)))
    return FORGETS if PROBES[probe].needs == "memory" and forgets else None


def missing_reason(agent: Agent, probe: str, form: str) -> str | None:
    """Return the reason why a probe cannot check an agent of sequences; `None` if it can."""
    if isinstance(agent, DecisionTransformer) and probe == "delay":
        return LUCK
    if isinstance(agent, DecisionTransformer) and probe == "forgetting":
        return "Nine sums of rewards tell its actions apart, closer to one another than so small a network learns."
    if isinstance(agent, DecisionTransformer) and (probe, form) == ("recall", "continuous"):
        return "A mean comes slowly to the edge of what was tried; the discrete form asks for the same."
    no_action = isinstance(agent, DecisionTransformer) and all(
        one.action is None for one in build(probe, form, "host").optimal_values(1)
    )
    if no_action:
        return "It has no values, and one action is as good as another."
    return None


def with_horizon(agent: Agent, spec: Spec) -> Spec:
    """The spec with a longest length of an episode, longer than any, for an agent that asks for one."""
    return dataclasses.replace(spec, horizon=64) if isinstance(agent, tuple(ASK_FOR_LENGTH)) else spec


def fitting(trial: Trial, form: str, runner: str) -> list[str]:
    return [name for name in RUNNERS[runner] if obstacle(trial, name, form, runner) is None]


def learner(trial: Trial, spec: Any, environment: Probe | None = None) -> Learner:
    memory = default_memory(trial.agent) if trial.agent.on_policy else UniformReplay(capacity=4096)
    memory, spec = trial.memory or memory, with_horizon(trial.agent, spec)
    result = Learner(trial.agent, trial.behaviour or default_behaviour(trial.agent), EnvironmentReward(), memory, spec)
    result.check(environment)
    return result


def train_on_device(trial: Trial, form: str, names: Sequence[str]) -> dict[str, list[FoundRecord]]:
    """Trains on all probes at once, one in each seed, so that there is one program to compile."""
    probes = [build(name, form, "device") for name in names]
    kind = EvolutionLoop if isinstance(trial.agent, Evolver) else DeviceLoop
    loop = kind(learner(trial, spec(form, "device"), probes[0]), probes[0], Same(), Reset())
    fields = ("start", "seen", "pay", "to", "final", "cut", "allowed", "target", "curvature")
    values = {f"environment.{name}": jnp.stack([getattr(probe, name) for probe in probes]) for name in fields}
    runner = DeviceRunner(batch_seeds(loop, values), list(range(len(probes))), trial.steps)
    runner.begin()
    report = runner.advance(trial.steps // runner.steps_per_iteration)
    states = jax.device_get(runner.agent_states())
    found = {}
    for index, (name, probe) in enumerate(zip(names, probes, strict=True)):
        assert report.environment_finite[index], f"{name}: an action was taken that is not allowed"
        assert report.agent_finite[index], f"{name}: not finite"
        state = jax.tree.map(lambda x, index=index: x[index], states)
        found[name] = look(loop.learner, state, probe)
    return found


def train_on_host(trial: Trial, form: str, names: Sequence[str]) -> dict[str, list[FoundRecord]]:
    """Trains on all probes at once, side by side in one environment."""
    probe = combine_probes([build(name, form, "host") for name in names])
    one = learner(trial, spec_of(probe, f"Probes with {form} actions"))
    steps = trial.steps * len(names) // 2  # the probes share them, and what one teaches does not help the next
    runner = HostRunner([one], lambda num_envs: OnHost(probe, num_envs), [0], steps)
    runner.begin()
    report = runner.advance(steps // runner.steps_per_iteration)
    assert report.environment_finite[0] and report.agent_finite[0]
    found: dict[str, list[FoundRecord]] = {name: [] for name in names}
    for one_found in look(one, jax.device_get(runner.loops[0].state.agent), probe):
        found[names[one_found.expected.state // STATES]].append(one_found)
    return found


def train_together(trial: Trial, form: str, names: Sequence[str]) -> dict[str, list[FoundRecord]]:
    """Train many agents in one environment, each in a probe of its own, which they leave at different times."""
    probe = combine_probes([build(name, form, "together") for name in names])
    team = EnvironmentCopies(probe, TOGETHER)
    many = learner(trial, spec_of(team, f"Probes together with {form} actions"))
    # A step is one of every agent, but those that have left wait: half of what they see teaches nothing.
    steps = trial.steps * len(names) // 2
    runner = DeviceRunner(batch_seeds(DeviceLoop(many, team, Same(), Reset()), {}), [0], steps)
    runner.begin()
    report = runner.advance(steps // runner.steps_per_iteration)
    assert report.environment_finite[0] and report.agent_finite[0]
    found: dict[str, list[FoundRecord]] = {name: [] for name in names}
    one = learner(trial, spec_of(probe, "One of them"))
    for one_found in look(one, jax.tree.map(lambda x: x[0], jax.device_get(runner.agent_states())), probe):
        found[names[one_found.expected.state // STATES]].append(one_found)
    return found


def record_episodes(probe: Probe, steps: int, best: Any) -> Experience:
    """Return transitions (leaves `transition ...`) of the policy with the action `best` in each state; `None`: any
    action.
    """

    def step(state: Any, key: Any) -> tuple[Any, Experience]:
        act_key, step_key, reset_key = jax.random.split(key, 3)
        now, observation = state
        action = spaces.sample(probe.action_space, act_key, None) if best is None else best[now]
        following, outcome = probe.step(now, action, step_key)
        over = outcome.terminated | outcome.truncated
        again = jax.tree.map(
            lambda a, b: jnp.where(over, a, b), probe.reset(reset_key), (following, outcome.observation)
        )
        ends = outcome.observation, outcome.terminated, outcome.truncated
        return again, Experience(observation, action, outcome.reward, *ends, jnp.int32(DATASET), ())

    first, key = jax.random.split(jax.random.key(0))
    return jax.lax.scan(step, probe.reset(first), jax.random.split(key, steps))[1]


def train_from_data(trial: Trial, form: str, names: Sequence[str]) -> dict[str, list[FoundRecord]]:
    """Trains on all probes at once, side by side in one data set."""
    probe = combine_probes([build(name, form, "host") for name in names])
    record = jax.jit(record_episodes, static_argnums=1)
    if hasattr(trial.agent, "demonstrations"):
        shown = Demonstrations("probes", "", record(probe, 60_000, best_actions(probe)))
        trial = trial._replace(agent=dataclasses.replace(trial.agent, demonstrations=shown))
    imitates = isinstance(trial.agent, tuple(IMITATORS))
    data = record(probe, 60_000, best_actions(probe) if imitates else None)
    memory = OpenedDataSet("probes", "", data).with_returns(trial.agent, np.asarray(data.reward, float))
    at = spec_of(probe, f"Probes with {form} actions")
    one = Learner(trial.agent, default_behaviour(trial.agent), EnvironmentReward(), memory, at)
    loop = OfflineLoop(one, probe, Same(), Reset())
    loop.check()
    runner = DeviceRunner(batch_seeds(loop, {}), [0], trial.steps)
    runner.begin()
    assert runner.advance(trial.steps).agent_finite.all()
    found: dict[str, list[FoundRecord]] = {name: [] for name in names}
    for one_found in look(one, jax.tree.map(lambda x: x[0], jax.device_get(runner.agent_states())), probe):
        found[names[one_found.expected.state // STATES]].append(one_found)
    return found


def best_actions(probe: Probe) -> Any:
    """One of the best actions of each state."""
    _, actions, best = solve(probe, DISCOUNT)
    chosen = jnp.asarray(actions[best.argmax(1)])
    return chosen.astype(jnp.float32)[:, None] if probe.continuous else chosen.astype(jnp.int32)


def train_from_episodes(trial: Trial, form: str, names: Sequence[str]) -> dict[str, list[FoundRecord]]:
    """Trains on all probes at once, one data set in each seed: the return to ask for is the best of one probe."""
    probes = [build(name, form, "host") for name in names]
    at = spec_of(probes[0], f"Probes with {form} actions")
    opened = []
    for probe in probes:
        data = jax.jit(record_episodes, static_argnums=(1, 2))(probe, 20_000, None)
        opened.append(OpenedDataSet("probes", "", data).with_returns(trial.agent, np.asarray(data.reward, float)))
    one = Learner(trial.agent, default_behaviour(trial.agent), EnvironmentReward(), opened[0], at)
    loop = OfflineLoop(one, probes[0], Same(), Reset())
    loop.check()
    data = jax.tree.map(lambda *x: jnp.stack(x), *(one.data for one in opened))
    fields = {name: leaf for name, leaf in data._asdict().items() if isinstance(leaf, jax.Array)}
    values = {f"learner.memory.data.{name}": leaf for name, leaf in fields.items()}
    runner = DeviceRunner(batch_seeds(loop, values), list(range(len(probes))), trial.steps)
    runner.begin()
    assert runner.advance(trial.steps).agent_finite.all()
    states = jax.device_get(runner.agent_states())
    rows = enumerate(zip(names, probes, strict=True))
    return {name: look(one, jax.tree.map(lambda x, i=i: x[i], states), probe) for i, (name, probe) in rows}


def look(learner: Learner, state: Any, probe: Probe) -> list[FoundRecord]:
    """Leads the agent through every history, and asks for its value and its action at the end."""
    found = []
    for expected in probe.optimal_values(DISCOUNT):
        hidden = learner.agent.init_hidden(learner.spec)
        world = World(probe, jnp.int32(expected.state))
        for number, observation in zip(expected.states, expected.history, strict=True):
            value, action, hidden = ask(learner, state, hidden, observation, world)
            if learner.agent.return_conditioned:
                paid = probe.step(jnp.int32(number), action, jax.random.key(0))[1].reward
                hidden = learner.agent.observe_reward(state, hidden, paid)
        if isinstance(learner.agent, Recurrent):
            value = worth(state, [*expected.history, expected.history[-1]], action)
        found.append(FoundRecord(expected, float(value), float(np.asarray(action).reshape(()))))
    return found


@jax.jit
def worth(state: Any, seen: list[Any], action: Any) -> Any:
    """Return the value of an action after a whole history; the last observation is given twice."""
    seen = EarlierSteps(jax.tree.map(lambda *x: jnp.stack(x)[:, None], *seen))
    actions = jnp.zeros((len(seen.seen) - 1, 1)).at[-1].set(state.actor.actions.to_unit(action))
    return each_value(state.critics, seen, actions).mean(0)[-1]


@functools.partial(
    jax.jit, compiler_options=compiling.known_options(compiling.QUICK)
)  # a few times each: quickly compiled
def ask(learner: Learner, state: Any, hidden: Any, observation: Any, world: World) -> Any:
    inputs = ActInputs(hidden, observation, jax.random.key(0), explore=False, world=world)
    action, later, _ = learner.agent.act(state, inputs)
    action = spaces.clip(learner.spec.action_space, action)
    return (
        estimate(learner.agent, state, hidden, observation, action),
        action,
        learner.agent.observe_action(state, later, action),
    )


@functools.cache
def results(agent: str, form: str, runner: str, names: tuple[str, ...] = ()) -> dict[str, list[FoundRecord]]:
    """Return the records of each probe after one run on some of them, by default on every probe that fits."""
    trial = TRIALS[runner][agent]
    return TRAIN[runner](trial, form, names or fitting(trial, form, runner))


TRAIN = {
    "device": train_on_device, "host": train_on_host, "together": train_together,
    "data": train_from_data, "episodes": train_from_episodes, "evolution": train_on_device,
}  # fmt: skip
TRIALS = {runner: dict(AGENTS) for runner in ("device", "host", "together")}
TRIALS |= {"data": FROM_DATA, "episodes": FROM_EPISODES, "evolution": EVOLVED}


def list_cases(trials: Mapping[str, Mapping[str, Trial]], continuous: Collection[str]) -> list[tuple[str, ...]]:
    """Return agent, form, runner and probe of each test; many agents together have one form, that of `continuous`."""
    return [
        (agent, form, runner, probe)
        for runner, probes in RUNNERS.items()
        for agent in trials.get(runner, ())
        for form in FORMS
        for probe in probes
        if runner != "together" or form == ("continuous" if agent in continuous else "discrete")
    ]


CASES = list_cases(TRIALS, CONTINUOUS)
ROWS = {runner: dict(trials) for runner, trials in TRIALS.items()}
"""The core's rows; `TRIALS` takes those of another package too."""

GATE = [case for case in CASES if case[:3] == ("ppo", "discrete", "device")]
GATE += [("ppo", "discrete", "host", probe) for probe in ("truncation", "reset")]


@pytest.fixture
def programs(request):
    """Optimise the programs of long trials; to compile those of short ones so takes longer than to run them."""
    case = request.node.callspec.params
    if TRIALS[case["runner"]][case["agent"]].steps > AGENTS["ppo"].steps:
        request.getfixturevalue("optimised_programs")


@pytest.mark.parametrize(("agent", "form", "runner", "probe"), gate_cases(CASES, GATE))
@pytest.mark.usefixtures("programs")
def test_agent_passes_probe(agent, form, runner, probe):
    if reason := obstacle(TRIALS[runner][agent], probe, form, runner):
        pytest.skip(reason)
    # Each probe takes as many steps of a run on the host, so that one of the gate learns those of the gate alone.
    case = agent, form, runner
    few = tuple(one[3] for one in GATE if runner == "host" and one[:3] == case) if (*case, probe) in GATE else ()
    found = results(*case, few)[probe]
    wrong = "; ".join(
        f"after {len(f.expected.history)} observations value {f.value:.3f} for {f.expected.value:.3f}, "
        f"action {f.action:.2f} for {f.expected.action}"
        for f in found
        if not f.right
    )
    assert found and not wrong, f"{PROBES[probe].finds} Found {wrong}"


def check_rows(rows: Mapping[str, Mapping[str, Trial]], elsewhere: Collection[str], names: Collection[str]) -> None:
    """Check that each agent has a row or a reason, and that its rows are of its class."""
    named = {row.split(" ")[0] for trials in rows.values() for row in trials}
    assert sorted([*named, *elsewhere]) == sorted(names)
    for trials in rows.values():
        for row, trial in trials.items():
            assert registry.part_class("agent", row.split(" ")[0]) is type(trial.agent), row


def test_every_agent_has_a_row_or_a_reason():
    check_rows(ROWS, ELSEWHERE, registry.PORTS["agent"])


def plant_fault(fault: type) -> type:
    """Return a class with a planted fault. Raise `AssertionError` for a method that no class above it has."""
    above = fault.__mro__[1:]
    own = [name for name, value in vars(fault).items() if inspect.isfunction(value) and not name.startswith("__")]
    uncalled = [name for name in own if not any(name in vars(cls) for cls in above)]
    assert own and not uncalled, (
        f"{fault.__name__} plants no fault: no class above it has {uncalled or 'a method of it'}"
    )
    return fault


def test_a_fault_that_nothing_calls_is_none():
    forward = type("Forward", (PPO,), {"__module__": __name__, "forward": lambda self, network: network})
    for fault in (forward, type("Same", (PPO,), {"__module__": __name__})):
        with pytest.raises(AssertionError, match=f"{fault.__name__} plants no fault"):
            plant_fault(fault)


@plant_fault
class TruncationEnds(PPO):
    """Takes the clock's end for the task's end."""

    def learn(self, state, batch, clock, key):
        e = batch.experience
        e = e._replace(terminated=e.ended, truncated=jnp.zeros_like(e.truncated))
        return super().learn(state, batch._replace(experience=e), clock, key)


@plant_fault
class NothingEnds(PPO):
    """A faulty PPO that bootstraps beyond terminal states."""

    def learn(self, state, batch, clock, key):
        e = batch.experience
        e = e._replace(truncated=e.ended, terminated=jnp.zeros_like(e.truncated))
        return super().learn(state, batch._replace(experience=e), clock, key)


@plant_fault
class ResetLeaks(PPO):
    """A faulty PPO that takes the next episode's first observation for the next observation."""

    def learn(self, state, batch, clock, key):
        e = batch.experience
        leak = jax.tree.map(
            lambda now, after: jnp.concatenate([now[1:], after[-1:]]), e.observation, e.next_observation
        )
        return super().learn(state, batch._replace(experience=e._replace(next_observation=leak)), clock, key)


@plant_fault
class LastEpisodeRemembered(PPO):
    """Learns as if its memory were never reset, nor the action before forgotten."""

    def apply_to_rollout(self, network, norm, experience):
        read = super().apply_to_rollout(network, norm, experience)
        first, heard = read.sequence.first, read.sequence.action
        before = jnp.roll(jax.vmap(jax.vmap(network.actions.action_features))(read.action), 1, axis=0)
        before = jnp.where(first[..., None], before, heard)
        sequence = read.sequence._replace(first=jnp.zeros_like(first), action=before)
        log_probability, _, value = score_actions(network, read.observation, read.action, sequence)
        return read._replace(sequence=sequence, log_probability=log_probability, value=value)


@pytest.mark.parametrize(
    ("mistake", "agent", "passes", "fails"),
    [
        (TruncationEnds, "ppo", "termination", "truncation"),
        (NothingEnds, "ppo", "truncation", "termination"),
        (ResetLeaks, "ppo", "truncation", "reset"),
        (LastEpisodeRemembered, "ppo gru", "action", "forgetting"),
    ],
)
@pytest.mark.thorough
def test_probe_finds_its_mistake_and_no_other(mistake, agent, passes, fails):
    agent = AGENTS[agent].agent
    broken = mistake(**{field.name: getattr(agent, field.name) for field in dataclasses.fields(agent)})
    found = train_on_device(Trial(broken, 8_000), "discrete", [passes, fails])
    assert all(f.right for f in found[passes])
    assert not all(f.right for f in found[fails])


@pytest.mark.parametrize("discount", [0.5, 0.8])
@pytest.mark.thorough
def test_expected_values_are_those_worked_out_by_hand(discount):
    g = discount
    by_hand = {
        "constant": [1],
        "observation": [-1, 1],
        "discounting": [g * g, g, 1],
        "action": [1],
        "action and observation": [1, 1],
        "coin": [g, 2, 0],
        "termination": [0.5 / (1 - 0.75 * g)],
        "truncation": [0.5 / (1 - g)],
        "reset": [g * g, g, 1],
        "next episode": [3 - g, -1],
        "recall": [g * g, g * g, g, g, 1, 1],
        "forgetting": [1 + g, 2],
    }
    for form in FORMS:
        for name, values in by_hand.items():
            found = [e.value for e in build(name, form, "host").optimal_values(discount)]
            np.testing.assert_allclose(found, values, atol=1e-5, err_msg=name)
    target = build("target", "continuous", "host").optimal_values(discount)[0]
    assert target.value == pytest.approx(1, abs=1e-5) and target.action == pytest.approx(2, abs=1e-5)
    masked = [(e.value, e.action) for e in build("mask", "discrete", "device").optimal_values(discount)]
    assert masked == [(pytest.approx(-g / 2), 1), (pytest.approx(-1 / 2), 2)]


@pytest.mark.thorough
def test_playing_well_earns_the_expected_value():
    names = [name for name in PROBES if not PROBES[name].needs]
    probes = [build(name, "discrete", "host") for name in names]
    solved = [solve(probe, DISCOUNT) for probe in probes]

    def play(probe, best, key):
        """Return the discounted return of one episode without a time limit."""

        def step(carry, key):
            state, running, worth = carry
            state, outcome = probe.step(state, best[state], key)
            earned = jnp.where(running, worth * outcome.reward, 0.0)
            return (state, running & ~outcome.terminated, worth * DISCOUNT), earned

        reset_key, play_key = jax.random.split(key)
        carry = (probe.reset(reset_key)[0], True, 1.0)
        return jax.lax.scan(step, carry, jax.random.split(play_key, 60))[1].sum()

    best = jnp.stack([best.argmax(1) for _, _, best in solved])
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *probes)
    earned = jax.jit(jax.vmap(jax.vmap(play, (None, None, 0)), (0, 0, None)))(
        stacked, best, jax.random.split(jax.random.key(0), 4000)
    )
    right = [np.asarray(probe.start) @ value for probe, (value, _, _) in zip(probes, solved, strict=True)]
    np.testing.assert_allclose(earned.mean(1), right, atol=0.1)


def test_what_is_not_allowed_pays_nan():
    key = jax.random.key(0)
    masked = build("mask", "discrete", "device")
    assert np.isnan([masked.step(jnp.int32(0), jnp.int32(a), key)[1].reward for a in range(ACTIONS)]).tolist() == [
        False, False, True,
    ]  # fmt: skip
    bounded = build("target", "continuous", "device")
    outside = [bounded.step(jnp.int32(0), jnp.array([a]), key)[1].reward for a in (LOW, HIGH, LOW - 0.1, HIGH + 0.1)]
    assert np.isnan(outside).tolist() == [False, False, True, True]


def table(runner: str, agents: Sequence[str] = ()) -> str:
    """Return a markdown table: for each probe and agent the worst estimate, and in brackets the right value."""
    trials = {row: trial for row, trial in TRIALS[runner].items() if not agents or row in agents}
    columns = [(agent, form) for agent in trials for form in FORMS if fitting(trials[agent], form, runner)]
    lines = [
        "| probe | " + " | ".join(f"{agent}, {form}" for agent, form in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for probe in RUNNERS[runner]:
        cells = []
        for agent, form in columns:
            if obstacle(trials[agent], probe, form, runner):
                cells.append("")
                continue
            found = results(agent, form, runner)[probe]
            worst = max(found, key=lambda f: (not f.right, abs(f.value - f.expected.value)))
            value = "no value" if np.isnan(worst.value) else f"{worst.value:.2f} ({worst.expected.value:.2f})"
            cells.append(f"{value}{'' if worst.right else ' **fails**'}")
        lines.append(f"| {probe} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def print_tables(words: Sequence[str]) -> None:
    """Print the table of each word, a runner or a runner and agents such as `device:iqn,ppo lstm`; without any all."""
    for word in words or ("device", "host", "data", "episodes", "evolution"):
        runner, _, agents = word.partition(":")
        print(f"### {runner.capitalize()}\n\n{table(runner, agents.split(',') if agents else ())}\n", flush=True)


if __name__ == "__main__":
    print_tables(sys.argv[1:])
