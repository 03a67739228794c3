"""Guides of agents that look ahead, and agents of teams as guides."""

import jax
import jax.numpy as jnp
import pytest
from test_looking_ahead import CLOCK, KEY, ShuffledTasks, loop_of, table

from forage.agents.q_learning.dqn import DQN
from forage.agents.q_learning.vdn import VDN
from forage.core.types import ForageError
from forage.environments import spec_of
from forage.environments.teams.two_step import TwoStep
from forage.tasks.same import Same
from forage_papers.behaviours.guide import Guide


def test_a_guide_that_looks_ahead_is_refused_and_one_beside_it_leads():
    guide = loop_of(Same()).agent
    spec = spec_of(table(), "a table")
    loop = loop_of(Same(), behaviour=Guide((guide, guide.init(KEY, spec)), steps=2))
    with pytest.raises(ForageError, match="looks ahead"):
        loop.check()
    loop = loop_of(ShuffledTasks(), behaviour=Guide(lambda observation, key: jnp.int32(0), steps=2, schedule="random"))
    loop.check()
    rollout = jax.jit(lambda: loop.next_rollout(loop.init(KEY), CLOCK))()
    own = rollout.source == 0
    assert own.any() and not own.all() and (rollout.reward[own] == 1).all()


def test_an_agent_of_a_team_is_no_guide():
    with pytest.raises(ForageError, match="VDN acts for a whole team"):
        Guide((VDN(), ()), steps=3).check(DQN(), spec_of(TwoStep(), "two steps"))
