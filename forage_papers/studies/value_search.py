"""Beam search over the steps of an answer, by the values of a critic (OREO at test time)."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool

from forage.agents.language.base import LanguageAgent
from forage.agents.language.ppo_language import Critic
from forage.core import prng
from forage.core.types import ForageError
from forage.nn.language.scorer import StepEnds
from forage.runs.run import Run
from forage.studies.asking import LoadedRun, ask, problems_of
from forage_papers.studies.step_writer import AT_ONCE, StepWriter, judge


class Beam(NamedTuple):
    """An answer in the making."""

    tokens: tuple[int, ...]  # counted from 1, the last one ends a step
    value: float


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The share of problems solved by a search, and by answers that are drawn."""

    searched: list[float]  # of each seed
    sampled: list[float]
    problems: int

    def __str__(self) -> str:
        lines = [
            f"{one:.3f} by search, {other:.3f} drawn" for one, other in zip(self.searched, self.sampled, strict=True)
        ]
        return "\n".join([f"share of {self.problems} problems solved, a line a seed", *lines])


def select_beams(found: list[Beam], ends: Bool[np.ndarray, " beam"], width: int) -> tuple[list[Beam], list[Beam]]:
    """Return the `width` unfinished beams of the highest value, and all finished ones."""
    left = [beam for beam, over in zip(found, ends, strict=True) if not over]
    return sorted(left, key=lambda beam: -beam.value)[:width], [b for b, over in zip(found, ends, strict=True) if over]


def search(
    directory: str | os.PathLike[str],
    *,
    width: int = 3,
    separator: str = "\n",
    steps: int = 20,
    problems: int = 100,
    seed: int = 0,
) -> SearchResult:
    """Answer problems by a beam search over steps, by the values of a run's own critic, and compare with drawn answers.

    Each of at most `width` beams goes on with `width` steps that are drawn, up to the `separator` or the end. Of those
    that have not ended the `width` of the highest value go on; those that have ended are kept. At the end, or after so
    many `steps`, the one of the highest value is the answer, and no answer is a wrong one.

    Source: Wang and others, 2024, "Offline Reinforcement Learning for LLM Multi-Step Reasoning" (OREO), arXiv
    2412.16145, as in the authors' program, github.com/jwhj/OREO (`examples/scratch/batch_sbs.py`, and with the
    separator in the text as in `batch_sbs_qwen.py`), whose numbers these are. Steps are drawn there at a temperature of
    1, here at the run's own. Values are read without the token that ends an answer, as there.

        >>> print(search("runs/oreo-scored"))  # doctest: +SKIP
    """
    if min(width, steps, problems) < 1:
        raise ForageError(f"width, steps and problems of a search are 1 or more, not {width}, {steps}, {problems}.")
    loaded = LoadedRun.from_run(Run(directory))
    if not isinstance(getattr(loaded.states[0], "critic", None), Critic):
        raise ForageError(f"{directory} has no value of tokens to search by; name a run of oreo or ppo-language.")
    agent, environment = loaded.agent, loaded.environment(min(AT_ONCE, problems))
    assert isinstance(agent, LanguageAgent)
    try:
        if environment.turns > 1:
            raise ForageError(f"{environment.name} takes several turns, and a search writes one; name another run.")
        tokenizer = environment.tokenizer
        parted = np.flatnonzero(StepEnds.from_tokenizer(tokenizer, separator, ()).ending)
        if not parted.size:
            raise ForageError(f"No token of the tokenizer has {separator!r} in it; give another separator.")
        environment.reset(prng.EVALUATION_AGAIN + seed)
        asked = problems_of(environment, problems, prng.EVALUATION_AGAIN + seed)
        prompts = [environment.begin(0, problem)["context"] for problem in asked]
        searched, sampled = [], []
        for number, state in enumerate(loaded.states):
            writer = StepWriter(agent, state, environment, parted, jax.random.key(seed + number))
            chosen = run_search(writer, prompts, width, steps)
            searched.append(float(np.mean(judge(environment, asked, chosen) >= 1)))
            sampled.append(float(np.mean(ask(agent, state, environment, asked, 1, seed=number).truth >= 1)))
    finally:
        environment.close()
    return SearchResult(searched, sampled, len(asked))


def run_search(writer: Any, prompts: list[np.ndarray], width: int, steps: int) -> list[tuple[int, ...]]:
    """Return the answer to each prompt that the search ends with; () for none."""
    beams = [[Beam((), 0.0)] for _ in prompts]
    kept: list[list[Beam]] = [[] for _ in prompts]
    for _ in range(steps):
        told = [(n, beam) for n, row in enumerate(beams) for beam in row for _ in range(width)]
        if not told:
            break
        texts, over, values = writer.write([prompts[n] for n, _ in told], [beam.tokens for _, beam in told])
        for n in range(len(prompts)):
            own = [i for i, (number, _) in enumerate(told) if number == n]
            found = [Beam(texts[i], float(values[i])) for i in own]
            beams[n], done = select_beams(found, over[own], width)
            kept[n] += done
    return [max(row, key=lambda beam: beam.value).tokens if row else () for row in kept]
