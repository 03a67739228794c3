"""A time limit is no end: Pardo, Tavakoli, Levdik and Kormushev (2017)."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Key, PyTree

from forage.core.types import Step
from forage.environments import make
from forage.environments.wrappers import TimeLimit
from forage.environments.wrappers.base import Wrapper
from forage.runs.run import Run
from forage.studies import robustness
from forage.studies.claims.claim import Arm, Claim, Paper, Scale

OPTIONS = {"hidden_sizes": (64, 64), "batch_size": 128, "learning_rate": 1e-3}
LACKS = "a MuJoCo task cut short in JAX, as the mistake is made by a wrapper that goes around native environments"


class Ended(Wrapper):
    """Says that an episode terminated where it was only cut: the mistake."""

    def step(self, state: Any, action: PyTree[Array], key: Key[Array, ""]) -> tuple[Any, Step]:
        state, step = self.environment.step(state, action, key)
        return state, step._replace(terminated=step.terminated | step.truncated, truncated=step.truncated & False)


def cut() -> TimeLimit:
    return TimeLimit(make("Pendulum-v1"), 20)  # pyrefly: ignore[bad-argument-type]


def ended() -> Ended:
    return Ended(cut())


def in_full(run: Run) -> list[float]:
    """Return each seed's mean return in episodes of the usual 200 steps."""
    was: Any = {"taken-for-an-end": ended, "value-goes-on": cut}[run.directory.name]
    whole: Any = make("Pendulum-v1")
    result = robustness.evaluate_under(run.directory, instead={"in full": whole}, environment=was(), episodes=32)
    return result.points[-1].returns


CLAIM = Claim(
    title="Time Limits in Reinforcement Learning",
    authors="Pardo, Tavakoli, Levdik, Kormushev",
    year=2017,
    arxiv="1712.00378",
    statement="Going on with the value where a time limit cuts an episode does better than taking it for an end.",
    environment=cut,
    arms={
        "taken for an end": Arm("td3", OPTIONS, environment=ended),
        "value goes on": Arm("td3", OPTIONS),
    },
    treatment="value goes on",
    baselines=("taken for an end",),
    measure=in_full,
    measured="return of whole episodes",
    laptop=Scale(10_000, tuple(range(1000, 1005))),
    smoke=Scale(1200, (1000, 1001)),
    paper=Paper("gymnasium:Hopper-v5", 1_000_000, 40, "a GPU and days", lacks=LACKS),
    note="TD3 on Pendulum cut after 20 of its 200 steps, in place of PPO on MuJoCo tasks.",
)
