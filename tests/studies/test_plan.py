"""Predictions of a run's speed on other numbers of cores: turns worked by hand, and pieces that are measured."""

import numpy as np
import pytest

from forage.core.errors import ForageError
from forage.studies import plan

PIECES = plan.Pieces(
    num_envs=4,
    rollout_length=10,
    act=(1.0, 0.0),
    keep=(0.0, 0.0),
    learn=(10.0, 0.0),
    alone=(1.0, 0.0, 10.0, 8.0),
    overlaps=False,
    steps=np.array([2.0]),
    once=0.0,
    beside=0.0,
    crowded=1.0,
    message=0.0,
    wait=0.0,
)


def test_turns_worked_by_hand():
    one, two, four = (plan.predict(PIECES, cores) for cores in (1, 2, 4))
    assert (one.workers, two.workers, four.workers) == (0, 2, 4)
    assert one.speed == pytest.approx(4 / (1 + 8 + 1))  # acting, four steps, a tenth of learning
    assert two.speed == pytest.approx(4 / (1 + 4 + 1)) and four.speed == pytest.approx(4 / (1 + 2 + 1))
    assert two.shares == pytest.approx({"act": 1 / 6, "keep": 0, "step": 4 / 6, "messages": 0, "learn": 1 / 6})
    assert sum(four.shares.values()) == pytest.approx(1)

    # Each worker is told after half a message more and heard before half a message less: all end at the same time.
    speaking = plan.predict(PIECES._replace(message=0.5, wait=0.25), 2)
    assert speaking.speed == pytest.approx(4 / (1 + (0.25 + 0.25 + 4 + 0.5) + 1))
    beside = plan.predict(PIECES._replace(beside=1.0), 2)
    assert beside.speed == pytest.approx(4 / (1 + 2 * 3 + 1))
    # Of a batch of one environment's step of 2, a batch takes 0.5 once; with all cores at it, all takes half longer.
    once = PIECES._replace(once=0.5)
    assert plan.predict(once, 2).speed == pytest.approx(4 / (1 + (0.5 + 2 * 1.5) + 1))
    assert plan.predict(once._replace(crowded=1.5), 2).speed == pytest.approx(4 / (1 + 1.5 * (0.5 + 2 * 1.5) + 1))
    assert plan.predict(PIECES._replace(crowded=1.5), 1).speed == pytest.approx(one.speed)
    # Where it learns as environments step, what is left of learning is waited for once a rollout; on one core, all.
    overlapping = PIECES._replace(overlaps=True)
    assert plan.predict(overlapping, 2).speed == pytest.approx(4 / (1 + 4 + 0.6))
    assert plan.predict(overlapping, 1).speed == pytest.approx(one.speed)
    # What computes on several cores is slower where there is one.
    assert plan.predict(PIECES._replace(alone=(2.0, 1.0, 20.0, 8.0)), 1).speed == pytest.approx(4 / (2 + 1 + 8 + 2))


def test_more_cores_have_more_environments_and_wait_for_the_slowest():
    pieces = PIECES._replace(act=(1.0, 0.5), learn=(0.0, 10.0), steps=np.array([0.0, 2.0]))
    many = plan.predict(pieces, 1000)
    assert many.num_envs == many.workers == 1000
    assert many.speed == pytest.approx(1000 / (1 + 500 + 2 + 1000))  # one of a thousand takes 2, nearly always
    assert plan.fit_line({4: 3.0, 16: 9.0}) == (1.0, 0.5) and plan.fit_line({4: 3.0, 16: 2.0}) == (3.0, 0.0)
    assert plan.of_seeds(100.0, 5, 1).speed == 100.0 and plan.of_seeds(100.0, 5, 2).speed == pytest.approx(500 / 3)
    assert plan.of_seeds(100.0, 5, 64).speed == 500.0
    table = plan.plan_lines([many, plan.predict(PIECES, 1)])
    assert table[0].split() == ["cores", "workers", "environments", "steps/s", "a", "turn's", "time"]
    assert table[2].split()[:3] == ["1", "0", "4"] and "step 80%" in table[2]


@pytest.mark.parametrize(("agent", "environment"), [("ppo", "gymnasium:CartPole-v1"), ("dqn", "gymnasium:CartPole-v1"),
                                                    ("ppo", "CartPole-v1")])  # fmt: skip
@pytest.mark.thorough
def test_what_is_measured_is_positive_and_more_cores_are_said(agent, environment, monkeypatch):
    monkeypatch.setattr(plan, "SECONDS", 0.2)
    found = plan.plan(agent, environment, [1, 2], {"hidden_sizes": (8,), "num_envs": 4})
    assert [one.cores for one in found] == [1, 2] and all(one.speed > 1 for one in found)
    if ":" in environment:
        assert found[1].workers == 2 and all(0 <= share <= 1 for share in found[1].shares.values())


def test_what_cannot_be_planned_is_said():
    with pytest.raises(ForageError, match="on 1 core or more, not 0"):
        plan.plan("ppo", "CartPole-v1", [2, 0])
    with pytest.raises(ForageError, match=r"What a GPU takes has to be measured on it, and none is here, not 2;"):
        plan.check_gpus(2)
    plan.check_gpus(None)
