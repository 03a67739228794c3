"""Agents and behaviours of papers in both loops, acting in NumPy and exported, with the core's tests."""

import pytest
import test_acting_in_numpy as acting
import test_behaviours_on_both as behaviours
import test_intervene as intervene
import test_loops as loops
import test_policy_export as exporting
from agent_rows import AGENTS
from test_behaviours_on_both import PENDULA, POLES, PPO, REPLAY
from tiers import repeat

import forage_papers

# A chain of values moves without a learning rate, too.
ANNEALED = [name for name in AGENTS if name in forage_papers.PARTS["agent"] and name != "i-dqn" and loops.anneals(name)]
test_the_learning_rate_is_annealed = repeat(loops.test_the_learning_rate_is_annealed, ANNEALED)

BEHAVIOURS = {
    "ez-greedy": ("ez-greedy", {"end": 1.0, "longest": 20}, "dqn", REPLAY, POLES),
    "pink": ("pink", {}, "ppo", PPO, PENDULA),
    "lesson-host": ("action-advice", {"capacity": 64, "batch_size": 4}, "dqn", REPLAY, "gymnasium:CartPole-v1"),
    "parameter-noise": ("parameter-noise", {"adaptation": 1.5}, "td3", REPLAY, PENDULA),
    "parameter-noise-host": ("parameter-noise", {}, "dqn", REPLAY, "gymnasium:CartPole-v1"),
}
behaviours.ROWS |= BEHAVIOURS
test_stopped_and_gone_on_with = repeat(behaviours.test_stopped_and_gone_on_with, BEHAVIOURS)

IN_NUMPY = ("ppo-lagrangian", "bootstrapped-dqn", "maxinfo-sac", "mex", "rrs", "langevin-dqn")
test_actions_and_memory_are_those_of_the_compiled_program = pytest.mark.thorough(
    repeat(acting.test_actions_and_memory_are_those_of_the_compiled_program, IN_NUMPY)
)
acting.COMPILED |= {"ucbvi": "operation gather", "q-learning": "draws at random", "sqirl": "draws at random"}
test_what_numpy_cannot_do_is_compiled = pytest.mark.thorough(
    repeat(acting.test_what_numpy_cannot_do_is_compiled, ["ucbvi", "q-learning", "sqirl"])
)
test_plain_numpy_acts_alike = pytest.mark.thorough(repeat(exporting.test_plain_numpy_acts_alike, ["langevin-dqn"]))

intervene.POLICY_GRADIENT |= {"ppo-lagrangian", "mdpo", "stream-ac"}
test_every_agent_learns_from_a_persons_steps_as_it_should = repeat(
    intervene.test_every_agent_learns_from_a_persons_steps_as_it_should, AGENTS
)
