"""Re-distillation: a run's own answers as rows, on which the model that it began from is fine-tuned."""

from __future__ import annotations

import os
from pathlib import Path

from forage.core import prng
from forage.core.spaces import Tokens
from forage.core.types import ForageError
from forage.data.text.rows import write_rows
from forage.environments.text.environment import TextEnvironment
from forage.runs.run import Run
from forage.studies.asking import SIDE_BY_SIDE, LoadedRun, ask, problems_of, with_temperature


def write_answers(
    directory: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    problems: int = 1000,
    answers: int = 1,
    right: bool = True,
    member: int = 0,
    temperature: float | None = None,
    seed: int = 0,
) -> Path:
    """Write a run's answers to training problems as JSONL, with `prompt`, `completion` and `reward`; return the path.

    `right`: right answers alone. `member`: the seed of the run, counted from 0. Answers are drawn as in training, or at
    another `temperature`. Then `forage train sft --data ANSWERS` fine-tunes the model that the run began from; with all
    answers, `forage train reward-weighted` learns from their rewards.

    Source: "Towards Revealing the Effectiveness of Small-Scale Fine-tuning in R1-style Reinforcement Learning" (2025),
    of which the abstract was read, github.com/on1262/deep-reasoning: fine-tuning on 500 or 1,000 answers of a policy
    after reinforcement learning nearly reaches it. How the paper chooses among answers could not be looked up.

        >>> write_answers("runs/grpo-text-addition", "answers.jsonl")  # doctest: +SKIP
    """
    run = Run(directory)
    loaded = LoadedRun.from_run(run)
    if not 0 <= member < len(loaded.states):
        raise ForageError(f"{directory} has the seeds 0 to {len(loaded.states) - 1}, and no {member}.")
    if min(problems, answers) < 1:
        raise ForageError(f"There are answers to 1 problem or more, and 1 or more to each; not {problems}, {answers}.")
    environment = loaded.environment(min(SIDE_BY_SIDE, problems * answers))
    try:
        if environment.turns > 1:
            raise ForageError(f"{environment.name} takes several turns, and rows have one answer; name another run.")
        environment.reset(prng.EVALUATION_AGAIN + seed)
        asked = problems_of(environment, problems, prng.EVALUATION_AGAIN + seed)
        agent = with_temperature(loaded.agent, temperature)
        heard = ask(agent, loaded.states[member], environment, asked, answers, seed=seed)
        rows = [
            {"prompt": prompt_of(environment, problem), "completion": text, "reward": float(truth)}
            for problem, texts, truths in zip(asked, heard.texts, heard.truth, strict=True)
            for text, truth in zip(texts, truths, strict=True)
            if text and (truth >= 1 or not right)
        ]
    finally:
        environment.close()
    if not rows:
        raise ForageError(
            f"{directory} has no right answer to {len(asked)} problems; give right=False for all of them."
        )
    return write_rows(path, rows)


def prompt_of(environment: TextEnvironment, problem: int) -> str:
    """Return the prompt of a problem, by its seed."""
    context = environment.begin(0, problem)["context"]
    return environment.tokenizer.decode((context[context != Tokens.PAD] - 1).tolist(), special=True)
