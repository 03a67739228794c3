"""Agents and parts of papers stop anywhere and continue as if never stopped, as the core's do (`test_resume`)."""

import json
from pathlib import Path

import pytest
import test_resume as core
from agent_rows import AGENTS
from test_resume import Case, check_places, part, reward, setup_of
from tiers import repeat

import forage_papers
from forage.config.registry import part_class
from forage.config.resolve import from_config
from forage.core.types import ForageError
from forage.rewards.verifiers.base import TextRewards
from forage_papers.behaviours.guide import Guide
from forage_papers.starts.snapshot import Snapshot

CASES: dict[str, Case] = {
    "ppo-archive": Case("ppo", lambda: {"starts": part("starts", "archive", capacity=8)}),
    **{name: Case(name) for name in AGENTS if name != "ppo-lagrangian"},
    "ppo-latent": Case(
        "ppo", lambda: {"starts": part("starts", "latent-go-explore", capacity=16, neighbours=3, burst=5)}
    ),
    "dqn-prioritised-reshuffled": Case(
        "dqn",
        lambda: {"memory": part("memory", "prioritised-reshuffled", capacity=32)},
    ),
    "dqn-reshuffled": Case(
        "dqn",
        lambda: {"memory": part("memory", "reshuffled", capacity=32)},
        options={"recycle_interval": 5, "dormant_threshold": 0.3, "count_dormant": True},
    ),
    "dqn-dyna": Case(
        "dqn",
        lambda: {"memory": part("memory", "dyna", capacity=64, outcomes=3)},
        options={"n_step": 1},
        environment="tabular:Garnet-20",
    ),
    "dqn-lesson": Case(
        "dqn",
        lambda: {"behaviour": part("behaviour", "action-advice", capacity=32, batch_size=4, hidden_sizes=(4,))},
    ),
    "ppo-lagrangian": Case(
        "ppo-lagrangian",
        lambda: {"rewards": part("rewards", "weighted", names=("reward",), weights=(1.0,))},
    ),
    "ppo-guided": Case(
        "ppo",
        lambda: {
            "behaviour": Guide(core.lean, steps=5, stages=2, episodes=1),
            "rewards": part("rewards", "normalise-return"),
            "tasks": part("tasks", "contexts", train=("length=0.2:1.0", "force=linear:5:15:300")),
        },
        given=("behaviour",),
    ),
    "dqn-shifted": Case(
        "dqn",
        lambda: {"memory": part("memory", "shifted", pixels=1)},
        environment="minatar:Breakout",
        without=("hidden_sizes",),
    ),
    "host-takeover": Case(
        "dqn-gru",
        lambda: {"behaviour": part("behaviour", "takeover", fraction=0.6, takes=0.05, gives=0.01)},
        environment="CartPole-v1",  # native, and stepped on the host
    ),
    "ppo-explores": Case("ppo", lambda: {"starts": part("starts", "go-explore", capacity=16, explore=0.5, burst=5)}),
    "ppo-taught": Case(
        "ppo",
        lambda: {"starts": Snapshot(core.lean, episodes=2, steps=8, every=3, share=0.7, truncate=4)},
        given=("starts",),
    ),
    "host-archive": Case(
        "ppo",
        lambda: {"starts": part("starts", "go-explore", capacity=16, cells="binned", burst=5), "visits": True},
        environment="gymnasium:CartPole-v1",
    ),
}
# Every rewards part stops and resumes, without a row of its own, but for those of text, most of which keep no state.
CASES |= {
    f"ppo-{name}": Case("ppo", lambda name=name: {"rewards": reward(name)})
    for name in forage_papers.PARTS["rewards"]
    if not issubclass(part_class("rewards", name), TextRewards)
}
core.CASES |= CASES
test_resumed_is_as_if_never_stopped = pytest.mark.thorough(repeat(core.test_resumed_is_as_if_never_stopped, CASES))

ELSEWHERE = {
    "data/test_offline_papers.py": (
        *("f-dvl", "recoil", "sac-rnd", "o-dice", "cfpi", "guided-flows", "sung", "sung-cql", "ldcq"),
        "trajectory-transformer",
    ),
    "agents/test_iq_learn.py": ("iq-learn", "iq-learn-sac"),
    "agents/language/test_relatives_of_rows.py": (
        *("remax", "lite-ppo", "grpo-tcr", "tti", "max-rl", "pass-at-k", "max-at-k", "raft"),
    ),
    "agents/language/test_recorded_rewards.py": ("reward-weighted", "oreo"),
    "agents/language/test_online_dpo.py": ("online-dpo", "xpo"),
    "agents/language/test_recorded_text_papers.py": ("kto", "simpo", "cpo", "orpo"),
    "agents/test_residual_agents.py": ("residual-sac", "residual-td3", "residual-ppo", "dsrl"),
    "agents/test_rpi.py": ("rpi",),
    "agents/test_varl.py": ("varl",),
    "agents/test_ppo_imitation.py": ("ppo-imitation",),
    "agents/test_procedure_cloning.py": (),  # which names its class
    "agents/language/test_relatives_papers.py": (
        *("grpo-lambda", "entropy-shaped", "bapo", "lp-reg", "a-star-po", "rover", "rl-plus"),
    ),
    "agents/language/test_weighed_rules.py": (*("siren", "egsw", "prioritised-kl", "pacs", "grao", "velocity-rank"),),
    "agents/language/test_exploring_rules.py": ("cde", "kdrl"),
    "agents/language/test_clip_cov.py": ("clip-cov",),
    "agents/language/test_code_rl.py": ("code-rl",),
    "agents/language/test_eepo.py": ("eepo",),
    "agents/language/test_glam.py": ("glam",),
    "agents/language/test_ilql.py": ("ilql", "mc-returns"),
    "agents/language/test_logit_q.py": ("logit-q",),
    "agents/language/test_nlpo.py": ("nlpo",),
    "agents/language/test_judged_rules.py": ("oreal", "istar", "iterative-dpo", "borda-dpo"),
    "agents/language/test_language_agents_papers.py": ("language-es",),
    "agents/language/test_ampo.py": ("ampo",),
    "agents/language/test_d3s.py": ("d3s",),
    "agents/language/test_trees.py": ("vine-ppo", "fr3e", "tree-rl"),
    "agents/language/test_attn_rl.py": ("attn-rl",),
    "agents/language/test_turns.py": ("loop", "archer"),
    "agents/language/test_at_grpo.py": ("at-grpo",),
}
"""Agents that need a file or another run to learn from, and the tests that stop and resume them."""


def test_every_agent_is_stopped_and_resumed():
    agents = [name for name in forage_papers.PARTS["agent"] if name != "procedure-cloning"]
    check_places(CASES.values(), ELSEWHERE, Path(__file__).parents[1], agents)


def test_a_part_that_is_a_python_object_must_be_given_again():
    config = json.loads(json.dumps(setup_of(CASES["ppo-guided"]).config()))
    with pytest.raises(ForageError, match=r"guide's policy was a Python object.*resume\(directory, behaviour="):
        from_config(config)
