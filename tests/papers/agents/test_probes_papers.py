"""Every agent of papers passes every probe, as the core's agents do (`test_probes`).

`PYTHONPATH=tests:tests/agents python tests/papers/agents/test_probes_papers.py [RUNNER[:AGENT,...] ...]` prints found
values of all agents beside right ones.
"""

import sys
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import pytest
import test_probes as probes
from test_probes import (
    CAREFREE,
    COLD,
    CRITIC,
    DISCOUNT,
    EXPLORE,
    FORGETS,
    GREEDY_AT_LAST,
    LUCK,
    OFF_POLICY,
    OFFLINE,
    PPO_SIZES,
    READ,
    REPLAYED,
    STEADY,
    Trial,
    best_allowed,
)
from tiers import repeat

import forage_papers
from forage.behaviours.policy import AgentPolicy
from forage.core.frozen import FrozenPolicy
from forage.core.ports import Agent
from forage.data.demonstrations import Demonstrations
from forage.environments.tabular.probes import HIGH, LOW, PROBES
from forage.nn.critics import each_value
from forage.nn.normalise import apply_norm
from forage_papers.agents.actor_critic.adaptive_ratio_sac import AdaptiveRatioSAC
from forage_papers.agents.actor_critic.bro import BRO
from forage_papers.agents.actor_critic.iq_learn_sac import IQLearnSAC
from forage_papers.agents.actor_critic.maxinfo_sac import MaxInfoSAC
from forage_papers.agents.actor_critic.mdpo_off import MDPOOff
from forage_papers.agents.actor_critic.mex import MEX
from forage_papers.agents.actor_critic.mr_q import MRQ
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
from forage_papers.agents.actor_critic.simba import SimBa
from forage_papers.agents.actor_critic.simba_v2 import SimBaV2
from forage_papers.agents.evolution.ars import ARS
from forage_papers.agents.offline.cfpi import CFPI
from forage_papers.agents.offline.f_dvl import FDVL
from forage_papers.agents.offline.guided_flows import GuidedFlows
from forage_papers.agents.offline.o_dice import ODICE
from forage_papers.agents.offline.recoil import ReCOIL
from forage_papers.agents.offline.trajectory_transformer import TrajectoryTransformer
from forage_papers.agents.policy_gradient.mdpo import MDPO
from forage_papers.agents.policy_gradient.ppg import PPG
from forage_papers.agents.policy_gradient.residual_ppo import ResidualPPO
from forage_papers.agents.q_learning.bootstrapped_dqn import BootstrappedDQN
from forage_papers.agents.q_learning.cqn import CQN, of_path
from forage_papers.agents.q_learning.cqn_as import CQNAS
from forage_papers.agents.q_learning.ensemble_c51 import EnsembleC51
from forage_papers.agents.q_learning.iq_learn import IQLearn
from forage_papers.agents.q_learning.iterated_dqn import IteratedDQN
from forage_papers.agents.q_learning.langevin_dqn import LangevinDQN
from forage_papers.agents.settings import EDAC, RLPD, SACN, WSRL, DroQ
from forage_papers.agents.streaming.base import Stream
from forage_papers.agents.streaming.stream_ac import StreamAC
from forage_papers.agents.streaming.stream_q import StreamQ
from forage_papers.agents.tabular.episodic_control import EpisodicControl
from forage_papers.memory.lap import LAP


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


PHASES = {"epochs": 4, "policy_rollouts": 4, "auxiliary_minibatches": 1, "auxiliary_learning_rate": 1e-3}
RESIDUAL = {"hidden_sizes": (16,), "value_sizes": (16, 16), "learning_rate": 1e-3}
QUICKER = {"learning_rate": 5e-3, "final_learning_rate": 0.1}  # of weights whose length is one
ZOOMING: dict[str, Any] = OFF_POLICY | {"batch_size": 64, "hidden_sizes": (32, 32), "n_step": 1, "weight_decay": 0.0}
ZOOMING |= {"atoms": 51, "low": -4.0, "high": 8.0, "polyak": 0.05}
AT_RANDOM = AgentPolicy(
    random_steps=1_000_000
)  # noise about what is best at first would not find what is best elsewhere
ONE_FOR_ALL: dict[str, Any] = OFF_POLICY | {"batch_size": 64, "hidden_size": 32, "latent_size": 32, "action_size": 16}
ONE_FOR_ALL |= {"encoder_learning_rate": 3e-3, "target_interval": 32, "encoder_horizon": 3, "n_step": 1}
ALONE = {"objective": "value_expert", "regularise_own": False}
AHEAD = {"past": 2, "horizon": 3, "context": 5, "beams": 32, "expand": 2, "bins": 21, "cut": 0.0, "discount": DISCOUNT}
AHEAD |= {"width": 16, "learning_rate": 1e-2, "batch_size": 32}
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
    "ppg": Trial(PPG(**PPO_SIZES, **PHASES, discount=DISCOUNT), 24_000),
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
    "droq": Trial(DroQ(**CRITIC, **COLD, policy_delay=2, target_entropy=-3.0), 10_000),
    "sac-n": Trial(SACN(**CRITIC, **COLD, critics=3, target_entropy=-3.0), 10_000),
    "edac": Trial(EDAC(**CRITIC, **COLD, critics=3, diversity=0.1, target_entropy=-3.0), 10_000),
    "rlpd": Trial(RLPD(**CRITIC, **COLD, critics=4, policy_delay=2), 10_000),
    "wsrl": Trial(WSRL(**CRITIC, **COLD, critics=4, policy_delay=2), 10_000),
    "bro": Trial(BRO(**(CRITIC | COLD | RESIDUAL | {"quantiles": 8, "target_entropy": -3.0, "resets": ()})), 20_000),
    "simba": Trial(SimBa(**(CRITIC | COLD | RESIDUAL), target_entropy=-3.0), 20_000),
    "simba-v2": Trial(SimBaV2(**(CRITIC | COLD | RESIDUAL | QUICKER), scale_reward=False, target_entropy=-3.0), 20_000),
    "mr-q": Trial(MRQ(**ONE_FOR_ALL), 20_000, memory=LAP(capacity=4096)),
    "cqn": Trial(CQN(**ZOOMING), 24_000, AT_RANDOM),
    "bootstrapped-dqn": Trial(BootstrappedDQN(**REPLAYED, heads=4, prior_scale=1.0), 10_000, EXPLORE),
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
    "iq-learn": Trial(  # likewise, which is what it imitates
        IQLearn(**OFFLINE, **ALONE, demonstrations=Demonstrations("probes"), temperature=0.1, discount=DISCOUNT), 6000
    ),
    "iq-learn-sac": Trial(  # from data of what is best alone, as iq-learn
        IQLearnSAC(**(CRITIC | STEADY), **ALONE, demonstrations=Demonstrations("probes"), target_entropy=-3.0), 6000
    ),
}
FROM_EPISODES = {
    "guided-flows": Trial(
        GuidedFlows(horizon=3, flow_steps=5, hidden_sizes=(32, 32), learning_rate=3e-3, discount=DISCOUNT), 1500
    ),
    "trajectory-transformer": Trial(TrajectoryTransformer(**READ, **AHEAD), 800),
}
# Means are taken off observations as they come, and the first state of a probe would be none of its linear policy's.
MOVED = {"num_envs": 256, "episodes": 8, "rollout_length": 16, "normalise_observation": False, "learning_rate": 0.1}
EVOLVED = {"ars": Trial(ARS(**MOVED, sigma=0.3, top_directions=0), 120_000)}
ELSEWHERE = {
    "maddpg": "Its critics are those of a team, and one agent is none: test_maddpg.py.",
    "ucbvi": "Likewise: test_tabular_agents_papers.py.",
    "psrl": "Likewise: test_tabular_agents_papers.py.",
    "maxent": "It learns to see all states alike, and no values: test_tabular_agents_papers.py.",
    "trace-control": "It needs numbered states, and is compared with exact values: test_trace_control.py.",
    "rpi": "It is PPO whose advantages have another baseline, of oracles: test_rpi.py.",
    "ppo-imitation": "It is PPO and then the cloning of bc, which have rows: test_ppo_imitation.py.",
    "ldcq": "It values skills of several steps, which episodes of one or two do not hold: test_ldcq.py.",
    "grpo-lambda": "Likewise: language/test_relatives_papers.py.",
    "entropy-shaped": "Likewise: language/test_relatives_papers.py.",
    "bapo": "Likewise: language/test_relatives_papers.py.",
    "lp-reg": "Likewise: language/test_relatives_papers.py.",
    "a-star-po": "Likewise: language/test_relatives_papers.py.",
    "rover": "Likewise: language/test_relatives_papers.py.",
    "rl-plus": "Likewise: language/test_relatives_papers.py.",
    "oreal": "Likewise: language/test_judged_rules.py.",
    "istar": "Likewise: language/test_judged_rules.py.",
    "iterative-dpo": "Likewise: language/test_judged_rules.py.",
    "borda-dpo": "Likewise: language/test_judged_rules.py.",
    "siren": "Likewise: language/test_weighed_rules.py.",
    "egsw": "Likewise: language/test_weighed_rules.py.",
    "prioritised-kl": "Likewise: language/test_weighed_rules.py.",
    "pacs": "Likewise: language/test_weighed_rules.py.",
    "grao": "Likewise: language/test_weighed_rules.py.",
    "velocity-rank": "Likewise: language/test_weighed_rules.py.",
    "eepo": "Likewise: language/test_eepo.py.",
    "glam": "Likewise: language/test_glam.py.",
    "nlpo": "Likewise: language/test_nlpo.py.",
    "logit-q": "Likewise: language/test_logit_q.py.",
    "cde": "Likewise: language/test_exploring_rules.py.",
    "kdrl": "Likewise: language/test_exploring_rules.py.",
    "code-rl": "Likewise: language/test_code_rl.py.",
    "clip-cov": "Likewise: language/test_clip_cov.py.",
    "ampo": "Likewise: language/test_ampo.py.",
    "language-es": "Likewise: language/test_language_agents.py.",
    "kto": "It learns from recorded text: language/test_recorded_text_papers.py.",
    "cpo": "Likewise: language/test_recorded_text_papers.py.",
    "reward-weighted": "Likewise: language/test_recorded_rewards.py.",
    "ilql": "Likewise: language/test_ilql.py.",
    "mc-returns": "Likewise: language/test_ilql.py.",
    "oreo": "Likewise: language/test_recorded_rewards.py.",
    "grpo-tcr": "Likewise: language/test_relatives_papers.py.",
    "tti": "Likewise: language/test_relatives_papers.py.",
    "orpo": "Likewise: language/test_recorded_text_papers.py.",
    "simpo": "Likewise: language/test_recorded_text_papers.py.",
    "d3s": "It writes text, which probes do not take: language/test_d3s.py.",
    "vine-ppo": "Likewise: language/test_trees.py.",
    "fr3e": "Likewise: language/test_trees.py.",
    "tree-rl": "Likewise: language/test_trees.py.",
    "attn-rl": "Likewise: language/test_attn_rl.py.",
    "loop": "Likewise: language/test_turns.py.",
    "at-grpo": "Likewise: language/test_at_grpo.py.",
    "archer": "Likewise: language/test_turns.py.",
    "procedure-cloning": "It sees nothing but pictures of grids: test_procedure_cloning.py.",
    "q-learning": "It needs numbered states, and is compared with value iteration: test_q_learning.py.",
    "ppo-lagrangian": "It is PPO where nothing costs, and probes have no costs: test_ppo_lagrangian.py.",
    "remax": "Likewise: language/test_relatives_papers.py.",
    "lite-ppo": "Likewise: language/test_relatives_papers.py.",
    "max-rl": "Likewise: language/test_relatives_papers.py.",
    "pass-at-k": "Likewise: language/test_relatives_papers.py.",
    "max-at-k": "Likewise: language/test_relatives_papers.py.",
    "raft": "Likewise: language/test_relatives_papers.py.",
    "online-dpo": "Likewise: language/test_language_agents.py.",
    "xpo": "Likewise: language/test_language_agents.py.",
    "sqirl": "Its values are of the steps that are left; its plans are in test_sqirl.py.",
}
"""Agents without a row, and the reason why a probe cannot check them."""

CONTINUOUS = (
    *("mdpo-off", "e2o", "ro2o", "h2o", "residual-sac", "residual-td3", "residual-ppo", "varl", "expo", "dsrl"),
    *("droq", "sac-n", "edac", "rlpd", "wsrl", "simba", "simba-v2", "bro", "cqn"),
    *("cqn-as", "fql", "sac-flow", "adaptive-ratio-sac", "mex", "rrs", "maxinfo-sac"),
)
TRIALS = dict.fromkeys(("device", "host", "together"), AGENTS) | {"data": FROM_DATA, "episodes": FROM_EPISODES}
TRIALS["evolution"] = EVOLVED
for runner, trials in TRIALS.items():
    probes.TRIALS[runner] |= trials


# Values, read from the states of agents


def no_value(agent: Agent, state: Any, hidden: Any, observation: Any, action: Any) -> Any:
    """Values of ReCOIL and IQ-Learn are of another reward, those of O-DICE have a price in them."""
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


def of_plan(agent: TrajectoryTransformer, state: Any, hidden: Any, observation: Any, action: Any) -> Any:
    return agent.search_plan(state, hidden, observation, jax.random.key(0)).worth


def of_intervals(agent: CQN, state: Any, hidden: Any, observation: Any, action: Any) -> Any:
    network = state.target
    features = network.torso.rows(jax.tree.map(lambda x: x[None], observation))
    path = network.greedy(features, jax.random.key(0))
    return network.value(of_path(network.all_logits(features, path), path)).mean()


def of_encoded_pair(agent: MRQ, state: Any, hidden: Any, observation: Any, action: Any) -> Any:
    encoder = state.encoder
    states = encoder.states(jax.tree.map(lambda x: x[None], observation))
    pairs = encoder.pairs(states, state.actor.actions.action_features(action)[None])
    return state.scale * each_value(state.critics, pairs).mean()


probes.MORE_ESTIMATES += [
    ((ReCOIL, ODICE, GuidedFlows, IQLearn, IQLearnSAC), no_value),
    (TrajectoryTransformer, of_plan),
    (CQN, of_intervals),
    (MRQ, of_encoded_pair),
    ((StreamQ, LangevinDQN, EnsembleC51, BootstrappedDQN, EpisodicControl), of_choices),
    (StreamAC, of_stream),
    (ResidualPPO, of_corrected_policy),
    ((RRS, Residual, DSRL, FQL), of_pair),
]
probes.ASK_FOR_LENGTH.append(EpisodicControl)
probes.IMITATORS += [IQLearn, IQLearnSAC]


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
    if isinstance(agent, SimBaV2) and probe == "delay":
        return "It stays at an action between the two, also after 60,000 steps (0.61 for 0.80); why is not known."
    if isinstance(agent, MRQ) and probe in ("coin", "termination"):
        # At `termination` 0.75 (0.5 - 0.2 V) / c = 0.25 ((V - 0.5) / c)^0.4 with c = 0.5: V = 1.43, and 1.43 is found.
        return "Where targets are far apart Huber's loss, drawn by priority, is least elsewhere than at their mean."
    if isinstance(agent, TrajectoryTransformer):
        return missing_plan(probe, form)
    # Which head or member is followed, or the planned actions, do not say what was seen.
    if isinstance(agent, BootstrappedDQN | EnsembleC51 | CQNAS) and PROBES[probe].needs == "memory":
        return FORGETS
    return None


def missing_plan(probe: str, form: str) -> str | None:
    """Return the reason why a probe cannot check the trajectory transformer; `None` if it can."""
    if probe in ("coin", "termination", "delay", "forgetting"):
        return "A plan's states and rewards are the likeliest, where chance has others as well."
    if probe in ("action and observation", "recall"):
        return "What two tokens say together it did not learn in 1,500 updates; whether it does in more was not tried."
    if form == "continuous":
        return "Its continuous actions have not been looked at; its discrete ones have a row."
    return None


probes.MORE_REASONS.append(obstacle)
CASES = probes.list_cases(TRIALS, CONTINUOUS)
test_agent_passes_probe = pytest.mark.thorough(repeat(probes.test_agent_passes_probe, CASES))


def test_every_agent_has_a_row_or_a_reason():
    probes.check_rows(TRIALS, ELSEWHERE, forage_papers.PARTS["agent"])


if __name__ == "__main__":
    probes.print_tables(sys.argv[1:])
