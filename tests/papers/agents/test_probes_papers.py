"""Every agent of papers passes every probe, as the core's agents do (`test_probes`).

`PYTHONPATH=tests:tests/agents python tests/papers/agents/test_probes_papers.py [RUNNER ...]` prints what was found of
all agents beside what is right.
"""

import sys
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import pytest
import test_probes as probes
from test_probes import (
    AT_RANDOM,
    CAREFREE,
    COLD,
    CRITIC,
    DISCOUNT,
    EXPLORE,
    FORGETS,
    GREEDY_AT_LAST,
    LUCK,
    OFFLINE,
    PPO_SIZES,
    REPLAYED,
    STEADY,
    ZOOMING,
    Trial,
    best_allowed,
)
from tiers import repeat

import forage_papers
from forage.core.frozen import FrozenPolicy
from forage.core.ports import Agent
from forage.data.demonstrations import Demonstrations
from forage.environments.tabular.probes import HIGH, LOW, PROBES
from forage.nn.critics import each_value
from forage.nn.normalise import apply_norm
from forage_papers.agents.actor_critic.adaptive_ratio_sac import AdaptiveRatioSAC
from forage_papers.agents.actor_critic.maxinfo_sac import MaxInfoSAC
from forage_papers.agents.actor_critic.mdpo_off import MDPOOff
from forage_papers.agents.actor_critic.mex import MEX
from forage_papers.agents.actor_critic.offline.fql import FQL
from forage_papers.agents.actor_critic.offline.sac_rnd import SACRND
from forage_papers.agents.actor_critic.offline_to_online.dsrl import DSRL
from forage_papers.agents.actor_critic.offline_to_online.e2o import E2O
from forage_papers.agents.actor_critic.offline_to_online.expo import EXPO
from forage_papers.agents.actor_critic.offline_to_online.h2o import H2O
from forage_papers.agents.actor_critic.offline_to_online.residual import Residual, ResidualSAC, ResidualTD3
from forage_papers.agents.actor_critic.offline_to_online.ro2o import RO2O
from forage_papers.agents.actor_critic.offline_to_online.sung import SUNG, SUNGCQL
from forage_papers.agents.actor_critic.offline_to_online.varl import VARL
from forage_papers.agents.actor_critic.rrs import RRS
from forage_papers.agents.actor_critic.sac_flow import SACFlow
from forage_papers.agents.offline.cfpi import CFPI
from forage_papers.agents.offline.f_dvl import FDVL
from forage_papers.agents.offline.guided_flows import GuidedFlows
from forage_papers.agents.offline.o_dice import ODICE
from forage_papers.agents.offline.recoil import ReCOIL
from forage_papers.agents.policy_gradient.mdpo import MDPO
from forage_papers.agents.policy_gradient.residual_ppo import ResidualPPO
from forage_papers.agents.q_learning.cqn_as import CQNAS
from forage_papers.agents.q_learning.ensemble_c51 import EnsembleC51
from forage_papers.agents.q_learning.iterated_dqn import IteratedDQN
from forage_papers.agents.q_learning.langevin_dqn import LangevinDQN
from forage_papers.agents.streaming.base import Stream
from forage_papers.agents.streaming.stream_ac import StreamAC
from forage_papers.agents.streaming.stream_q import StreamQ
from forage_papers.agents.tabular.episodic_control import EpisodicControl


def mdpo(**settings: Any) -> MDPO:
    usual = {"num_envs": 16, "rollout_length": 8, "minibatches": 1, "hidden_sizes": (16,), "learning_rate": 1e-2}
    return MDPO(**usual, **settings, epochs=4, entropy_coefficient=0.01, discount=DISCOUNT)


CAREFUL = {"critics": 3, "neighbours": 2, "caution": 1e-3, "policy_smoothness": 1e-3}
NO_BASE = {"critics": 2, "target_subset": 0, "policy_delay": 2, "residual_scale": 1.0, "critic_warmup": 0}
NO_BASE |= {"base": lambda observation: jnp.ones(1)}  # the middle of [-1, 3]: corrections reach all of it
AROUND = {"critics": 2, "target_subset": 0, "policy_delay": 1, "base_polyak": 0.05, "critic_norm": "none"}
AROUND |= {"candidates": 4, "edited": 4, "edit_scale": 1.0, "flow_steps": 4}  # edits reach all actions


class Noise(Agent):
    """A policy with its noise as actions, around the middle of [-1, 3]."""

    on_policy: ClassVar[bool] = False
    num_envs: int = 1
    rollout_length: int = 1

    def check(self, spec):
        pass

    def noise(self, spec):
        return (1,)

    def init(self, key, spec):
        return jnp.ones(1)

    def act(self, state, inputs):
        return jnp.clip(state + (0.0 if inputs.noise is None else inputs.noise), LOW, HIGH), inputs.hidden, ()

    def learn(self, state, batch, clock, key):
        raise NotImplementedError


UNHEEDED = {"advisor": lambda observation, action: action, "cutoff": 1000}
STEERED = {"base": FrozenPolicy("noise", agent=Noise(), weights=jnp.ones(1)), "magnitude": 2.0, "critic_norm": "none"}
STEERED |= {"distil_interval": 1}
INCURIOUS = {"initial_information": 1e-3, "learn_information": False, "members": 2}  # and what is learned as well
FLOWING = {"value_sizes": (32, 32), "noise_sizes": (16,), "flow_steps": 2, "learn_temperature": False}
STREAM: dict[str, Any] = {"hidden_sizes": (32,), "discount": DISCOUNT, "scale_reward": False, "sparsity": 0.0}
STREAM |= {"kappa": 20.0}  # from single transitions values jump about with the usual, where chance decides
FAR = {"expectile": 0.99, "components": 1, "trust": 8.0, "pessimism": 0.0}  # as far from the data's behaviour as can be
FREE = {"penalty": 1e-3, "taught_updates": 100, "novelty_hidden": 32}

AGENTS = {
    "mdpo": Trial(mdpo(), 20_000),
    "i-dqn": Trial(IteratedDQN(**REPLAYED, n_step=1, dueling=False, chain=3, copy_interval=32), 12_000, EXPLORE),
    "ensemble-c51": Trial(
        EnsembleC51(**REPLAYED, n_step=1, dueling=False, atoms=51, low=-4.0, high=8.0, members=3), 12_000, EXPLORE
    ),
    "stream-q": Trial(StreamQ(**STREAM), 30_000, GREEDY_AT_LAST),
    "stream-ac": Trial(StreamAC(**STREAM), 30_000),
    "mdpo-off": Trial(MDPOOff(**CRITIC, **COLD, sgd_steps=16, step_size=10.0), 10_000),
    "e2o": Trial(E2O(**CRITIC, **COLD, critics=3, target_entropy=-3.0), 10_000),
    "ro2o": Trial(RO2O(**CRITIC, **COLD, **CAREFUL, target_entropy=-3.0), 10_000),
    "h2o": Trial(H2O(**CRITIC, **COLD, classifier_sizes=(8,), target_entropy=-3.0), 10_000),
    "residual-sac": Trial(ResidualSAC(**CRITIC, **COLD, **NO_BASE, target_entropy=-3.0), 10_000),
    "residual-td3": Trial(ResidualTD3(**CRITIC, **NO_BASE, exploration_noise=0.3, target_noise=0.2), 10_000),
    "residual-ppo": Trial(
        ResidualPPO(**PPO_SIZES, discount=DISCOUNT, base=lambda observation: jnp.ones(1), residual_scale=1.0), 12_000
    ),
    "varl": Trial(VARL(**CRITIC, **COLD, **UNHEEDED, target_entropy=-3.0), 10_000),
    "expo": Trial(EXPO(**CRITIC, **COLD, **AROUND, target_entropy=-3.0), 10_000),
    "dsrl": Trial(DSRL(**CRITIC, **COLD, **STEERED, target_entropy=-3.0), 10_000),
    "adaptive-ratio-sac": Trial(
        AdaptiveRatioSAC(**CRITIC, **COLD, target_entropy=-3.0, check_interval=64, window=16, gap=1.0), 30_000
    ),
    "fql": Trial(FQL(**CRITIC, alpha=0.01, critic_norm="none"), 10_000),
    "sac-flow": Trial(SACFlow(**CRITIC, **COLD, **FLOWING), 10_000),
    "cqn-as": Trial(CQNAS(**ZOOMING, sequence=2), 24_000, AT_RANDOM),
    "maxinfo-sac": Trial(MaxInfoSAC(**CRITIC, **COLD, **INCURIOUS, target_entropy=-3.0), 10_000),
    "mex": Trial(MEX(**CRITIC, exploration_noise=0.3), 10_000),
    "rrs": Trial(RRS(**CRITIC, exploration_noise=0.3, redraw_interval=64), 10_000),
    "langevin-dqn": Trial(LangevinDQN(**REPLAYED, inverse_temperature=1e6), 10_000, EXPLORE),
    "episodic-control": Trial(
        EpisodicControl(discount=DISCOUNT, capacity=32, num_envs=8, rollout_length=8), 4000, EXPLORE
    ),
}
FROM_DATA = {
    "recoil": Trial(  # from all actions, beside demonstrations of the best
        ReCOIL(**OFFLINE, demonstrations=Demonstrations("probes"), discount=DISCOUNT, most_value=1.0, beta=30.0), 8000
    ),
    "f-dvl": Trial(FDVL(**OFFLINE, optimism=0.98, beta=100.0, discount=DISCOUNT), 20_000),
    "o-dice": Trial(  # whose backward gradient leaves states alone that the best policy does not see
        ODICE(**OFFLINE, value_sizes=(32, 32), optimism=0.5, strength=0.0, discount=DISCOUNT), 12_000
    ),
    "cfpi": Trial(CFPI(**OFFLINE, **FAR, discount=DISCOUNT), 20_000),
    "sac-rnd": Trial(SACRND(**(CRITIC | STEADY), **COLD, **FREE, target_entropy=-3.0), 8000),
    "fql": Trial(FQL(**(CRITIC | STEADY), alpha=0.01), 8000),
    "sung": Trial(SUNG(**(CRITIC | STEADY), alpha=1000.0, density_hidden=32), 8000),
    "sung-cql": Trial(SUNGCQL(**(CRITIC | STEADY), **COLD, **CAREFREE, target_entropy=-3.0, density_hidden=32), 8000),
}
FROM_EPISODES = {
    "guided-flows": Trial(
        GuidedFlows(horizon=3, flow_steps=5, hidden_sizes=(32, 32), learning_rate=3e-3, discount=DISCOUNT), 1500
    ),
}
ELSEWHERE = {
    "ucbvi": "Likewise: test_tabular_agents.py.",
    "psrl": "Likewise: test_tabular_agents.py.",
    "maxent": "It learns to see all states alike, and no values: test_tabular_agents.py.",
    "trace-control": "It needs numbered states, and is compared with exact values: test_trace_control.py.",
    "rpi": "It is PPO whose advantages have another baseline, of oracles: test_rpi.py.",
    "ppo-imitation": "It is PPO and then the cloning of bc, which have rows: test_ppo_imitation.py.",
    "ldcq": "It values skills of several steps, which episodes of one or two do not hold: test_ldcq.py.",
    "grpo-lambda": "Likewise: language/test_relatives.py.",
    "entropy-shaped": "Likewise: language/test_relatives.py.",
    "bapo": "Likewise: language/test_relatives.py.",
    "lp-reg": "Likewise: language/test_relatives.py.",
    "a-star-po": "Likewise: language/test_relatives.py.",
    "rover": "Likewise: language/test_relatives.py.",
    "rl-plus": "Likewise: language/test_relatives.py.",
    "ampo": "Likewise: language/test_ampo.py.",
    "language-es": "Likewise: language/test_language_agents.py.",
    "d3s": "It writes text, which probes do not take: language/test_d3s.py.",
    "vine-ppo": "Likewise: language/test_trees.py.",
    "fr3e": "Likewise: language/test_trees.py.",
    "tree-rl": "Likewise: language/test_trees.py.",
    "attn-rl": "Likewise: language/test_attn_rl.py.",
    "loop": "Likewise: language/test_turns.py.",
    "at-grpo": "Likewise: language/test_at_grpo.py.",
    "archer": "Likewise: language/test_turns.py.",
    "procedure-cloning": "It sees nothing but pictures of grids: test_procedure_cloning.py.",
}
"""Agents without a row, and the reason why a probe cannot check them."""

CONTINUOUS = (
    *("mdpo-off", "e2o", "ro2o", "h2o", "residual-sac", "residual-td3", "residual-ppo", "varl", "expo", "dsrl"),
    *("cqn-as", "fql", "sac-flow", "adaptive-ratio-sac", "mex", "rrs", "maxinfo-sac"),
)
TRIALS = dict.fromkeys(("device", "host", "together"), AGENTS) | {"data": FROM_DATA, "episodes": FROM_EPISODES}
for runner, trials in TRIALS.items():
    probes.TRIALS[runner] |= trials


# Values, read from the states of agents


def no_value(agent: Agent, state: Any, hidden: Any, observation: Any, action: Any) -> Any:
    """Values of ReCOIL are of another reward, those of O-DICE have a price in them."""
    return jnp.nan


def of_choices(agent: Any, state: Any, hidden: Any, observation: Any, action: Any) -> Any:
    return best_allowed(agent.action_values(state, hidden, observation), observation)


def of_stream(agent: Any, state: Any, hidden: Any, observation: Any, action: Any) -> Any:
    return state.critic(apply_norm(state.statistics.norm, observation))[0]


def of_corrected_policy(agent: ResidualPPO, state: Any, hidden: Any, observation: Any, action: Any) -> Any:
    return state.network.value(agent.look(state, observation), None)[0]


def of_pair(agent: Any, state: Any, hidden: Any, observation: Any, action: Any) -> Any:
    """Return the critics' mean value of the observation and the action, as each agent shows them to its critics."""
    if isinstance(agent, RRS):
        state = state._replace(critics=jax.tree.map(lambda x: x[agent.shifts.index(0.0)], state.critics))
    observation = apply_norm(state.norm, observation)
    if isinstance(agent, Residual):
        observation = agent.look(state, observation)
    actions = state.base.actions if isinstance(agent, DSRL) else state.actor.actions
    batch = jax.tree.map(lambda x: x[None], (observation, actions.to_unit(action)))
    return each_value(state.critics, *batch).mean()


probes.MORE_ESTIMATES += [
    ((ReCOIL, ODICE, GuidedFlows), no_value),
    ((StreamQ, LangevinDQN, EnsembleC51, EpisodicControl), of_choices),
    (StreamAC, of_stream),
    (ResidualPPO, of_corrected_policy),
    ((RRS, Residual, DSRL, FQL), of_pair),
]
probes.ASK_FOR_LENGTH.append(EpisodicControl)


def obstacle(agent: Agent, probe: str, form: str, runner: str) -> str | None:
    """Return the reason why a probe cannot check an agent of papers; `None` if it can."""
    if isinstance(agent, Stream) and runner == "together":
        return "A stream is that of one agent."
    if isinstance(agent, ReCOIL) and form == "continuous":
        return "Its continuous actions have not been looked at; its discrete ones have a row."
    if isinstance(agent, EpisodicControl) and probe in ("coin", "termination", "truncation", "delay"):
        return LUCK
    if isinstance(agent, ODICE) and form == "continuous":
        return "It clones whatever is better than the data on average, which of many actions is not the best."
    if isinstance(agent, ODICE) and probe == "delay":
        return "Its weights are of single steps, so it takes luck, of which the second action has some, for skill."
    if isinstance(agent, GuidedFlows) and (probe, form) == ("delay", "continuous"):
        return "Its action is the mean of those that lead from one state to the next, of which the best is not."
    if isinstance(agent, GuidedFlows) and probe != "delay":
        return "It tells actions by the states that they lead to, and here all lead to the same."
    # Which member is followed, or the planned actions, do not say what was seen.
    if isinstance(agent, EnsembleC51 | CQNAS) and PROBES[probe].needs == "memory":
        return FORGETS
    return None


probes.MORE_REASONS.append(obstacle)
CASES = probes.list_cases(TRIALS, CONTINUOUS)
test_agent_passes_probe = pytest.mark.thorough(repeat(probes.test_agent_passes_probe, CASES))


def test_every_agent_has_a_row_or_a_reason():
    probes.check_rows(TRIALS, ELSEWHERE, forage_papers.PARTS["agent"])


if __name__ == "__main__":
    for runner in sys.argv[1:] or ("device", "host", "data", "episodes", "evolution"):
        print(f"### {runner.capitalize()}\n\n{probes.table(runner)}\n", flush=True)
