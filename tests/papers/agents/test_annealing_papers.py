"""Agents of papers anneal their learning rate as the core's do (`test_annealing`)."""

import test_annealing as core
from agent_rows import AGENTS
from tiers import repeat

core.ELSEWHERE.add("ppo-lagrangian")  # learns by PPO's method, from more than a transition of zeros

test_the_rate_falls_linearly_to_its_final_share = repeat(
    core.test_the_rate_falls_linearly_to_its_final_share, [name for name in AGENTS if core.anneals(name)]
)
