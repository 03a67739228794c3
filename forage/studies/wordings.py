"""Whether a run of text learned problems or prompts: problems that it trained on, held-out ones, and other wordings.

The protocol of prompt overfitting is that of Aissi et al. (2024), arXiv 2410.19920; see
`forage.environments.text.wordings`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from forage.config.ranges import check_call
from forage.core import prng
from forage.core.ports.checking import check_agent
from forage.core.spaces import Tokens
from forage.evaluation.passing import Passing, passing
from forage.runs.run import Run, write_json
from forage.runs.scoring import check_episodes
from forage.studies.asking import SIDE_BY_SIDE, AnswerScores, LoadedRun, ask, no_reward_lines, problems_of

ROOM = 64  # tokens that a wording may add to a prompt

TRAINED, HELD_OUT = "trained on", "held out"


@dataclasses.dataclass(frozen=True)
class WordingAccuracy:
    """The accuracy of a run and of the model that it began from, in each condition."""

    title: str
    conditions: dict[str, Passing]  # at one try; by what was asked
    no_reward: int = 0  # answers of both models without a reward

    def drop(self, name: str) -> float:
        """Return the drop in accuracy from held-out problems in the trained wording to this condition."""
        return float(self.conditions[HELD_OUT].trained.value[0] - self.conditions[name].trained.value[0])

    def __str__(self) -> str:
        rows = [["problems", "accuracy", "first model", "drop"]]
        for name, one in self.conditions.items():
            drop = "" if name in (TRAINED, HELD_OUT) else f"{self.drop(name):.3f}"
            rows.append([name, one.trained.words(0), one.first.words(0), drop])
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = ["  " + "  ".join(x.ljust(w) for x, w in zip(row, widths, strict=True)).rstrip() for row in rows]
        left = no_reward_lines(self.no_reward)
        number = next(iter(self.conditions.values())).problems
        return "\n".join([f"{self.title}, up to {number} problems, the most probable answer to each", *lines, *left])

    def data(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {
            name: {
                "accuracy": {end: float(part[0]) for end, part in one.trained._asdict().items()},
                "first": {end: float(part[0]) for end, part in one.first._asdict().items()},
                "drop": self.drop(name),
                "problems": one.problems,
            }
            for name, one in self.conditions.items()
        }


def reword(
    directory: str | os.PathLike[str], wordings: Sequence[str] = (), *, problems: int = 100, seed: int = 0
) -> WordingAccuracy:
    """Ask a run, and the model that it began from, problems that training draws, problems that are held out, and the
    latter in other wordings; all unless named. Write wordings.json, too.

    Both write the most probable answer. The problems are the same for all, and those of the wordings the held-out ones.

    Examples:
        >>> reword("runs/grpo-text-addition", ["tags", "other-words"])  # doctest: +SKIP
    """
    from forage.environments.text.wordings import WORDINGS, RewordedWorld, wording

    check_call(reword, {"directory": directory, "problems": problems, "seed": seed})
    check_episodes(problems)
    changes = {name: wording(name).change for name in wordings or WORDINGS}
    run = Run(directory)
    trained = LoadedRun.from_run(run)
    rows, start = min(SIDE_BY_SIDE, problems), prng.EVALUATION_AGAIN + seed
    plain = trained.environment(rows)
    writes = plain.action_space
    assert isinstance(writes, Tokens)
    environment = trained.environment(rows, context=plain.context + ROOM, response=writes.length)
    plain.close()
    check_agent(trained.agent, environment.spec)
    worlds, found, without = environment.worlds, {}, 0
    try:
        for name in (TRAINED, HELD_OUT, *changes):
            if name == HELD_OUT:
                environment.examine()
            change = changes.get(name)
            environment.worlds = [RewordedWorld(world, change) for world in worlds] if change else worlds
            environment.reset(start)
            asked = problems_of(environment, problems, start)
            first, *ours = (
                ask(trained.agent, state, environment, asked, 1, greedy=True)
                for state in (trained.first, *trained.states)
            )
            found[name] = compare_accuracy(ours, first)
            without += sum(one.no_reward for one in (first, *ours))
    finally:
        environment.close()
    result = WordingAccuracy(run.title, found, without)
    write_json(run.directory / "wordings.json", result.data() | {"seed": seed, "seeds": trained.setup.seeds})
    return result


def compare_accuracy(ours: list[AnswerScores], first: AnswerScores) -> Passing:
    """Return the accuracy of a run's seeds and of the first model on the same problems."""
    return passing(np.stack([one.right for one in ours]), first.right, 1)
