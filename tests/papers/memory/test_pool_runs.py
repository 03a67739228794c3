"""Runs that pool rollouts: updates come when the pool is ready, and tasks ask again within an update."""

from typing import Any

import numpy as np
import pytest
from test_numbered import model

from forage.config.resolve import resolve
from forage_papers.memory.pool import RefilledPool, RolloutPool
from forage_papers.tasks.hints import Hints
from forage_papers.tasks.rising import Rising


def loop_of(environment: str, options: dict[str, Any], **parts: Any) -> Any:
    agent = {"model": model(), "num_envs": 8, "group_size": 4}
    given = {"agent_options": agent, "environment_options": options, "steps": 64, "seeds": [0]}
    loop = resolve("grpo", environment, **given, **parts).runner().loops[0]
    loop.begin()
    return loop


@pytest.mark.thorough
def test_hints_come_within_an_update() -> None:
    memory = RolloutPool(rounds=4, newest=True, group_size=4)
    loop = loop_of("text:addition", {"problems": 12, "hints": 0.75}, tasks=Hints(rounds=4), memory=memory)
    updates, hints = [], []
    for _ in range(5):
        hints.append(float(np.max(loop.starts.state.tasks.current.hint)))
        updates.append(float(loop.advance(1).metrics["updates"]))
    assert updates == [0, 0, 0, 1, 0] and hints == [0, 0.25, 0.5, 0.75, 0]  # nobody solves anything here


@pytest.mark.thorough
def test_refilled_batches_wait_for_groups_of_medium_success() -> None:
    loop = loop_of("text:addition", {}, memory=RefilledPool(low=0.0, group_size=4, most=2))
    assert [float(loop.advance(1).metrics["updates"]) for _ in range(2)] == [1, 1]  # all groups fail, and are kept
    loop = loop_of("text:addition", {}, memory=RefilledPool(group_size=4, most=2))
    assert [float(loop.advance(1).metrics["updates"]) for _ in range(3)] == [0, 0, 0]


@pytest.mark.thorough
def test_families_learn_together() -> None:
    options = {"problems": 40, "level": "0-1"}
    loop = loop_of("text:addition+sorting", options, tasks=Rising())
    report = loop.advance(2)
    assert report.metrics["updates"] == 2 and loop.starts.state.tasks.part.own.high.shape == (2,)
