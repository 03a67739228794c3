"""Answers by difficulty, worked by hand from the authors' rule."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_numbered import model

from forage.config.resolve import resolve
from forage.core.types import ForageError
from forage.loop.host.starts import HostedEnvironment
from forage_papers.memory.pool import RolloutPool
from forage_papers.tasks.e3 import E3
from forage_papers.tasks.numbered import NumberedState, ProblemOutcomes

WORLD: Any = SimpleNamespace(num_starts=4, slot=jnp.int32(16))
HOSTED = HostedEnvironment(None, num_starts=4, number=jnp.int32(0), slot=jnp.int32(0))  # type: ignore[arg-type]


@pytest.mark.thorough
def test_hard_problems_share_what_easy_ones_do_not_need():
    part, each = E3(), jnp.full(4, 8.0)
    own = part.first(WORLD)
    assert part.share_groups(own, jnp.arange(4)).tolist() == [4, 4, 4, 4]
    own = part.update_state(own, ProblemOutcomes(each, jnp.array([8.0, 0, 4, 6]), each, each), WORLD)
    np.testing.assert_allclose(own.rank, [0, 0.75, 0.5, 0.25])  # one epoch is over: 16 groups are 4 problems
    # n = 3 and m = 5: 16 - 12 groups by rank are 2, 1.33 and 0.67 more; the one left over goes to problem 2, as
    # problem 1 has 5 already
    assert part.share_groups(own, jnp.arange(4)).tolist() == [3, 5, 5, 3]
    own = own._replace(epochs=jnp.int32(2))  # n = 2 and m = 6: 8 by rank are 4, 2.67 and 1.33, and one is left over
    assert part.share_groups(own, jnp.array([1, 2, 3, 0])).tolist() == [6, 5, 3, 2]
    state = NumberedState(jnp.zeros(4, jnp.int32), jnp.array([1, 2, 3, 0]), jnp.int32(0), jnp.int32(4), own)
    worlds = [dataclasses.replace(HOSTED, slot=jnp.int32(slot)) for slot in (0, 5, 6, 10, 11, 14, 15)]
    chosen: list[Any] = [part.next(state, world, jax.random.key(0)) for world in worlds]
    assert [int(one.number) for one in chosen] == [1, 1, 2, 2, 3, 0, 0]
    with pytest.raises(ForageError, match="give an average in between"):
        E3(repeats=7)


@pytest.mark.thorough
def test_a_run_pools_the_answers_to_a_problem():
    memory, agent = RolloutPool(rounds=1, group_size=2), {"model": model(), "num_envs": 16, "group_size": 2}
    given = {"agent_options": agent, "environment_options": {"problems": 20, "level": "0-3"}, "steps": 64}
    loop = resolve("grpo", "text:addition", tasks=E3(), memory=memory, seeds=[0], **given).runner().loops[0]
    loop.begin()
    for _ in range(3):
        report = loop.advance(1)
        assert report.metrics["updates"] == 1 and np.isfinite(report.metrics["policy_loss"])
