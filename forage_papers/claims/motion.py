"""Following a motion is learned sooner from any of its frames: Peng and others (2018)."""

from __future__ import annotations

from typing import Any

from jaxtyping import Array, Key, PyTree

from forage.core.types import Step
from forage.environments.classic.pendulum import Pendulum
from forage.environments.wrappers.base import WrapperState
from forage.environments.wrappers.motion import Motion, record
from forage.starts.reference import Reference
from forage.studies.claims.claim import Arm, Claim, Paper, Scale, evaluated
from forage.studies.claims.played import FOLDER, swing_up
from forage_papers.rewards.tracking import Tracking

QUICK: dict[str, Any] = {"num_envs": 8, "rollout_length": 256, "minibatches": 16, "epochs": 10, "learning_rate": 1e-3}
QUICK |= {"discount": 0.95, "entropy_coefficient": 0.0}
FRAMES = 120


class Followed(Motion):
    """A motion whose tracking is the score as well."""

    def step(self, state: WrapperState, action: PyTree[Array], key: Key[Array, ""]) -> tuple[WrapperState, Step]:
        state, step = super().step(state, action, key)
        return state, step._replace(reward=step.info["tracking"])


def followed() -> Followed:
    """Return the pendulum with the clip of its swing up, which is recorded where it is not there."""
    file = FOLDER / "swing-up-motion.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        record(Pendulum(), swing_up, file, FRAMES)
    return Followed(Pendulum(), str(file), (0, 1), (2,), least=0.3)


CLAIM = Claim(
    title="DeepMimic: Example-Guided Deep Reinforcement Learning of Physics-Based Character Skills",
    authors="Peng, Abbeel, Levine, van de Panne",
    year=2018,
    arxiv="1804.02717",
    statement="A policy follows a motion longer from its first frame on where it learned from episodes that begin in "
    "any frame.",
    environment=followed,
    arms={
        "from the first frame": Arm("ppo", QUICK, lambda: {"rewards": Tracking()}),
        "from any frame": Arm("ppo", QUICK, lambda: {"rewards": Tracking(), "starts": Reference()}),
    },
    treatment="from any frame",
    baselines=("from the first frame",),
    measure=evaluated,
    measured="tracking summed over the motion",
    laptop=Scale(60_000, tuple(range(1000, 1005))),
    smoke=Scale(2048, (1000, 1001)),
    paper=Paper("a humanoid in Bullet", 60_000_000, 1, "days on many cores", lacks="the simulator and motion capture"),
    note="A rule's swing up of a pendulum, in place of a humanoid's motion capture. Both arms end where the motion is "
    "lost.",
)
