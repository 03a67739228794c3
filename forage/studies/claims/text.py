"""What claims about agents of language have in common: problems in text, the base model, and a laptop's minutes."""

from __future__ import annotations

from typing import Any

from forage.studies.claims.claim import FRESH, Scale

ENVIRONMENT = "text:countdown"
OPTIONS = {"num_envs": 64, "learning_rate": 3e-4}
"""Of every arm's agent: answers of a rollout, and the step size of Adam for a model of a million parameters."""

LAPTOP = Scale(19_200, FRESH[:5])  # 300 rollouts
SMOKE = Scale(128, (1000, 1001))
NOTE = (
    "The base model of a million parameters on Countdown with three numbers, in place of a model of billions on "
    "mathematics; 300 rollouts of 64 answers. "
)


def parts() -> dict[str, Any]:
    """Return the level of the problems, and enough episodes of evaluation to tell an accuracy."""
    return {"environment_options": {"level": 1}, "evaluation_episodes": 200}
