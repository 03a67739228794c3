"""Choosing among several answers to a problem at test time, compared with answers at random."""

from __future__ import annotations

import abc
import collections
import dataclasses
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from forage.agents.language.base import AnswerRows, LanguageAgent
from forage.config.ranges import check_call
from forage.config.references import load_models, take_models
from forage.core import prng
from forage.core.loading import load_class
from forage.core.spaces import Tokens
from forage.core.types import ForageError, Spec
from forage.environments.text.environment import TextEnvironment
from forage.evaluation.passing import Choosing, choosing
from forage.nn.language.scorer import text_scores
from forage.rewards.verifiers.scorer import Scorer
from forage.runs.run import Run, write_json
from forage.runs.scoring import check_episodes
from forage.studies.asking import (
    SIDE_BY_SIDE,
    AnswerScores,
    LoadedRun,
    ask,
    no_reward_lines,
    problems_of,
    with_temperature,
)

AT_ONCE = 32
"""Answers that a model reads at once."""


class Candidates(NamedTuple):
    """The answers to one problem, of which the best are looked for."""

    rows: AnswerRows  # their tokens, behind the prompt
    texts: list[str]
    read: list[str | None]  # the answer that each gives, as the verifier reads it; none: it gives none
    agent: LanguageAgent
    state: Any  # of the agent that wrote them


class Chooser(abc.ABC):
    """A rule that orders the answers to a problem, the first one to try in front."""

    @abc.abstractmethod
    def order(self, told: Candidates) -> Int[np.ndarray, " answer"]:
        """Return the numbers of the answers, the first one to try in front."""


class Majority(Chooser):
    """Self-consistency: the most frequent answer is tried first, and then the next most frequent one.

    Source: Wang et al., 2022, "Self-Consistency Improves Chain of Thought Reasoning in Language Models", arXiv
    2203.11171.
    """

    def order(self, told: Candidates) -> Int[np.ndarray, " answer"]:
        counts = collections.Counter(one for one in told.read if one is not None)
        first = {one: told.read.index(one) for one in counts}
        ranks = [
            (one is None, one is not None and first[one] != place, -counts[one] if one is not None else 0, place)
            for place, one in enumerate(told.read)
        ]
        return np.array(sorted(range(len(ranks)), key=ranks.__getitem__))


class Certainty(Chooser):
    """Self-certainty: the answer with the largest mean divergence of the policy from even odds is tried first.

        certainty = mean over tokens of -1/V sum_v log(V pi(v))

    Source: Kang, Zhao, Song, 2025, "Scalable Best-of-N Selection for Large Language Models via Self-Certainty", arXiv
    2502.18581, equation 9, of one answer alone; the vote among answers that it orders there is not here. The paper's
    pages could not be looked up.
    """

    def order(self, told: Candidates) -> Int[np.ndarray, " answer"]:
        def certainty(rows: AnswerRows) -> Float[Array, " row"]:
            logits = told.agent.logits(told.state.network, rows)
            known = jnp.pad(told.state.known, (0, max(logits.shape[-1] - len(told.state.known), 0)))
            count = known.sum()
            log_p = jax.nn.log_softmax(jnp.where(known, logits.astype(jnp.float32), -jnp.inf))
            apart = -jnp.where(known, log_p + jnp.log(count), 0.0).sum(-1) / count
            return jnp.where(rows.wrote, apart, 0.0).sum(1) / jnp.maximum(rows.wrote.sum(1), 1)

        return np.argsort(-in_parts(certainty, told.rows), kind="stable")


class BestOf(Chooser):
    """Best of n: the answer of the highest score by a reward model is tried first.

    Source: Stiennon et al., 2020, "Learning to Summarize from Human Feedback", arXiv 2009.01325.
    """

    def __init__(self, judge: str, spec: Spec):
        (scorer,) = load_models(take_models([Scorer(judge=judge)]))
        self.model = scorer.reward_model
        self.model.check_reads(spec, "The reward model reads texts")
        if self.model.of_steps:
            raise ForageError(f"{judge} scores steps; name a run of reward-model, which scores whole answers.")

    def order(self, told: Candidates) -> Int[np.ndarray, " answer"]:
        network, head = self.model.weights, self.model.head
        assert network is not None and head is not None
        score = in_parts(lambda rows: text_scores(network, head, rows.tokens, rows.there), told.rows)
        return np.argsort(-score, kind="stable")


RULES = {"majority": Majority, "certainty": Certainty}


def make_chooser(name: str, spec: Spec) -> Chooser:
    """Make the rule of a name: `majority`, `certainty`, `best:RUN` with a reward model, or `module:Class`."""
    kind, _, rest = name.partition(":")
    if kind == "best" and rest:
        return BestOf(rest, spec)
    if name in RULES:
        return RULES[name]()
    own = load_class(name) if rest and kind not in (*RULES, "best") else None
    if isinstance(own, type) and issubclass(own, Chooser):
        return own()
    raise ForageError(
        f"There is no rule {name!r} to choose answers by; there are majority, certainty, best:RUN with a reward model, "
        f"and file.py:Class or module:Class of your own, a subclass of forage.studies.choosing.Chooser."
    )


@dataclasses.dataclass(frozen=True)
class ChoiceResult:
    """The share of problems solved by answers that a rule chooses."""

    title: str
    rule: str
    choosing: Choosing
    no_reward: int = 0  # answers without a reward

    def __str__(self) -> str:
        counted = self.choosing
        what = f"{counted.problems} problems, {counted.drawn} answers to each, tried in the order of {self.rule}"
        return "\n".join([f"{self.title}, {what}", str(counted), *no_reward_lines(self.no_reward)])

    def data(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        return {"rule": self.rule, **self.choosing.data(), "no_reward": self.no_reward}


def choose(
    directory: str | os.PathLike[str],
    rule: str = "majority",
    answers: int = 64,
    *,
    problems: int = 100,
    seed: int = 0,
    temperature: float | None = None,
) -> ChoiceResult:
    """Draw `answers` to each of some problems that are held out, let a rule say in which order to try them, and compare
    the share of problems solved by the first k with that of k answers drawn at random. Write choose.json, too.

    Examples:
        >>> choose("runs/grpo-text-countdown", "majority", 16)  # doctest: +SKIP
    """
    check_call(choose, locals())
    check_episodes(problems)
    if answers < 2:
        raise ForageError(f"There is nothing to choose among {answers} answers; draw 2 or more.")
    run = Run(directory)
    loaded = LoadedRun.from_run(run)
    agent = with_temperature(loaded.agent, temperature)
    assert isinstance(agent, LanguageAgent)
    environment = loaded.environment(min(SIDE_BY_SIDE, problems * answers))
    try:
        chooser = make_chooser(rule, environment.spec)
        if environment.turns > 1:
            raise ForageError(f"{environment.name} takes several turns, and answers of one are chosen; name another.")
        environment.examine()
        environment.reset(prng.EVALUATION_AGAIN + seed)
        asked = problems_of(environment, problems, prng.EVALUATION_AGAIN + seed)
        right, without = [], 0
        for number, state in enumerate(loaded.states):
            heard = ask(agent, state, environment, asked, answers, seed=number + 1)
            without += heard.no_reward
            each = []
            for n, said in enumerate(parse_answers(environment, asked, heard)):
                told = Candidates(answer_rows(heard, n), heard.texts[n], said, agent, state)
                each.append(heard.truth[n][chooser.order(told)])
            right.append(each)
    finally:
        environment.close()
    found = ChoiceResult(run.title, rule, choosing(np.array(right) >= 1), without)
    how = {"seed": seed, "temperature": temperature, "seeds": loaded.setup.seeds}
    write_json(run.directory / "choose.json", found.data() | how)
    return found


def answer_rows(heard: AnswerScores, problem: int) -> AnswerRows:
    """Return the answers to a problem as rows, behind its prompt."""
    whole = np.concatenate([heard.context[problem], heard.action[problem]], axis=1)
    wrote = heard.action[problem] != Tokens.PAD
    one = np.ones(wrote.shape, np.float32)
    return AnswerRows(np.maximum(whole - 1, 0), whole != Tokens.PAD, wrote, 0 * one, one)  # type: ignore[arg-type]


def parse_answers(environment: TextEnvironment, problems: list[int], heard: AnswerScores) -> list[list[str | None]]:
    """Return the answer in each text, as its verifier reads it; to a prompt of a file, the text itself."""
    found: list[list[str | None]] = []
    for problem, texts in zip(problems, heard.texts, strict=True):
        environment.begin(0, problem)
        world = environment.worlds[0]
        family, posed = getattr(world, "family", None), getattr(world, "problem", None)

        def extract(text: str, family: Any = family, posed: Any = posed) -> str | None:
            if family is None or posed is None:
                return text.strip() or None
            inner = family.extract(text)
            value = None if inner is None else family.parse_answer(posed, inner)
            return None if value is None else repr(value)

        found.append([extract(text) for text in texts])
    return found


def in_parts(function: Any, rows: AnswerRows) -> Float[np.ndarray, " row"]:
    """Apply a compiled function to rows, a few at once; the last rows are filled up and left out again."""
    count = len(rows.tokens)
    size = min(AT_ONCE, count)
    filled = jax.tree.map(lambda x: np.concatenate([x, np.repeat(x[-1:], -count % size, 0)]), rows)
    compiled = jax.jit(function)
    parts = [
        np.asarray(compiled(jax.tree.map(lambda x, n=n: x[n : n + size], filled)))
        for n in range(0, count + -count % size, size)
    ]
    return np.concatenate(parts)[:count]
