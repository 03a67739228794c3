"""Pass@k of a run compared with its initial model, and the habits in the texts of both."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np

from forage.config.ranges import check_call
from forage.core import prng
from forage.core.types import ForageError
from forage.evaluation import habits
from forage.evaluation.passing import Passing, draw_passing, passing
from forage.runs.run import Run, write_json
from forage.runs.scoring import check_episodes
from forage.studies.asking import (
    SIDE_BY_SIDE,
    AnswerScores,
    LoadedRun,
    ask,
    data_of,
    no_reward_lines,
    problems_of,
    with_temperature,
)

MOST = 4096  # answers to a problem


@dataclasses.dataclass(frozen=True)
class PassResult:
    """Pass@k and habits of a run."""

    title: str
    passing: Passing
    trained: habits.HabitFrequency  # habits of the run's answers
    first: habits.HabitFrequency  # and of the first model's
    picture: Path
    no_reward: int = 0  # answers of both without a reward

    def __str__(self) -> str:
        counted = self.passing
        lines = [f"{self.title}, {counted.problems} problems, {counted.drawn} answers to each", str(counted)]
        for name, value in self.trained.mean.items():
            lines.append(f"  {name} in an answer: {value:.2f}, of the first model {self.first.mean[name]:.2f}")
        return "\n".join(lines + no_reward_lines(self.no_reward))

    def data(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        shown = {name: getattr(self, name)._asdict() for name in ("trained", "first")}
        return self.passing.data() | {"habits": shown, "no_reward": self.no_reward}


def pass_at(
    directory: str | os.PathLike[str],
    answers: int = 64,
    *,
    problems: int = 100,
    seed: int = 0,
    temperature: float | None = None,
) -> PassResult:
    """Draw `answers` to each of some problems that are held out, by each seed of a run and by the model that it began
    from, and estimate pass@k for k = 1, 2, 4 and so on. Write pass.json and pass.png, too.

    Both models get the same problems, and draw as in training, unless at another `temperature`.

    Examples:
        >>> pass_at("runs/grpo-text-addition", 16)  # doctest: +SKIP
    """
    check_call(pass_at, locals())
    check_episodes(problems)
    if not 1 <= answers <= MOST:
        raise ForageError(f"Pass@k draws 1 to {MOST:,} answers to each problem, not {answers:,}.")
    run = Run(directory)
    trained = LoadedRun.from_run(run)
    agent = with_temperature(trained.agent, temperature)
    environment = trained.environment(min(SIDE_BY_SIDE, problems * answers))
    try:
        environment.examine()
        environment.reset(prng.EVALUATION_AGAIN + seed)
        asked = problems_of(environment, problems, prng.EVALUATION_AGAIN + seed)
        heard = [
            ask(agent, state, environment, asked, answers, seed=number)
            for number, state in enumerate([trained.first, *trained.states])
        ]
        known = [data_of(environment, problem) for problem in asked]
    finally:
        environment.close()
    first, *ours = heard
    counted = passing(np.stack([one.right for one in ours]), first.right, answers)
    path = draw_passing(run.directory / "pass.png", counted, run.title)
    without = sum(one.no_reward for one in heard)
    found = PassResult(run.title, counted, habits_of(ours, known), habits_of([first], known), path, without)
    each = {"right": {"first": first.right.tolist(), "trained": [one.right.tolist() for one in ours]}}
    how = {"seed": seed, "temperature": temperature, "seeds": trained.setup.seeds}
    write_json(run.directory / "pass.json", found.data() | each | how)
    return found


def habits_of(heard: list[AnswerScores], known: list[dict[str, Any]]) -> habits.HabitFrequency:
    """Count the habits of all answers to the problems."""
    texts = [text for one in heard for answers in one.texts for text in answers]
    data = [problem for one in heard for answers, problem in zip(one.texts, known, strict=True) for _ in answers]
    numbers = [one if {"numbers", "target"} <= one.keys() else {} for one in data]  # Countdown's alone
    return habits.habit_frequency(texts, numbers)
