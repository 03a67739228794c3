"""Repeated questions to a language model, with its verifier's judgement of each answer.

Pass@k, habits and wordings all use this: for each problem some answers, sampled as in training or greedy, by the
policies of a run and by the model that the run started from.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from forage.config.resolve import from_config
from forage.config.run_config import RunConfig
from forage.core import prng
from forage.core.ports import ActInputs, Agent
from forage.core.schedule import at_fraction
from forage.core.spaces import Tokens
from forage.core.types import ForageError
from forage.environments import HostFactory
from forage.environments.text.environment import TextEnvironment
from forage.loop.device.host_scored import HostScoredRunner
from forage.loop.host.runner import HostRunner
from forage.runs.run import Run
from forage.runs.scoring import load_agents

SIDE_BY_SIDE = 128  # answers that are written at once
DRAWS = 10  # times as many problems as wanted are drawn before it is said that there are no more


class AnswerScores(NamedTuple):
    """The answers to some problems, and their scores."""

    truth: Float[np.ndarray, "problem answer"]  # the verifier's; of a game what its rules paid
    format: Float[np.ndarray, "problem answer"]  # 1 where the answer could be read; NaN in games
    tokens: Int[np.ndarray, "problem answer"]  # written, over all turns
    texts: list[list[str]]  # of each problem, each answer; turns on lines of their own
    context: Int[np.ndarray, "problem answer time"]  # tokens that the last text was written behind, counted from 1
    action: Int[np.ndarray, "problem answer new"]  # its tokens
    no_reward: int = 0  # answers without a reward, which are not right

    @property
    def right(self) -> Int[np.ndarray, " problem"]:
        """Return the number of right answers to each problem."""
        return (self.truth >= 1).sum(1)


@dataclasses.dataclass
class LoadedRun:
    """A run of a language model, ready to be asked: its agents, and the model that they began from."""

    run: Run
    setup: RunConfig
    agent: Agent
    first: Any  # the agent's state before it learned anything
    states: list[Any]  # the agents' states, one for each seed

    @classmethod
    def from_run(cls, run: Run) -> LoadedRun:
        """Load a run. Raise `ForageError` if it is none of text."""
        setup = from_config(run.config, where=run.directory)
        title = f"{run.directory} is a run of {run.title}"
        if setup.native:
            raise ForageError(f"{title}, which writes no text; name one of text:addition or the like.")
        if setup.sweep:
            raise ForageError(f"{run.directory} is a sweep, whose settings are different agents; ask those of one.")
        runner = setup.runner(learns=False)
        try:
            player = runner.player if isinstance(runner, HostScoredRunner) else runner
            if not (isinstance(player, HostRunner) and isinstance(player.loops[0].environment, TextEnvironment)):
                raise ForageError(f"{title}, which writes no text; name one of text:addition or the like.")
            load_agents(run, runner)
            agents, agent = runner.agent_states(), at_fraction(runner.learner.agent, 1.0)
            first = agent.init(prng.key(0), runner.learner.spec)
            states = [jax.tree.map(lambda leaf, n=n: leaf[n], agents) for n in range(len(setup.seeds))]
        finally:
            runner.close()
        return cls(run, setup, agent, first, states)

    def environment(self, rows: int, **options: Any) -> TextEnvironment:
        """Make the run's environment again with `rows` conversations side by side and changed options."""
        factory = getattr(self.setup.environment, "__self__", None)
        assert isinstance(factory, HostFactory)
        environment = dataclasses.replace(factory, options={**factory.options, **options}).build(rows)
        assert isinstance(environment, TextEnvironment)
        return environment


def problems_of(environment: TextEnvironment, wanted: int, seed: int) -> list[int]:
    """Return seeds of different problems, at most `wanted`; the same for the same `seed`."""
    found: dict[bytes, int] = {}
    for drawn in (np.random.SeedSequence(seed).generate_state(DRAWS * wanted) >> 1).tolist():
        if len(found) == wanted:
            break
        found.setdefault(environment.begin(0, drawn)["context"].tobytes(), drawn)
    return list(found.values())


def ask(
    agent: Agent,
    state: Any,
    environment: TextEnvironment,
    problems: list[int],
    answers: int,
    seed: int = 0,
    greedy: bool = False,
) -> AnswerScores:
    """Sample `answers` answers to each problem, or write the greedy one. `problems`: the seeds of the episodes."""
    rows = environment.num_envs
    asked = [(problem, answer) for problem in range(len(problems)) for answer in range(answers)]
    truth, form = (np.full((len(problems), answers), np.nan) for _ in range(2))
    tokens = np.zeros((len(problems), answers), int)
    texts = [[""] * answers for _ in problems]
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    no_reward = 0
    key = prng.key(seed)
    for start in range(0, len(asked), rows):
        part = asked[start : start + rows]
        begun = [environment.begin(index, problems[problem]) for index, (problem, _) in enumerate(part)]
        begun += [begun[-1]] * (rows - len(part))  # the last rows have nothing to say that counts
        seen = jax.tree.map(lambda *x: np.stack(x), *begun)
        paid, said = np.zeros(rows, np.float32), [[] for _ in part]
        before = written = seen["context"]
        info: dict[str, Any] = {}
        for _ in range(environment.turns):
            key, own = jax.random.split(key)
            written, before = np.asarray(answer_all(agent, state, seen, own, not greedy)), seen["context"]
            for line, row in zip(said, written, strict=False):
                line.append(text_of(environment, row))
            result = environment.step(written)
            paid, seen, info = paid + result.step.reward, result.observation, result.step.info
        kept.append((before[: len(part)], written[: len(part)]))
        no_reward += 0 if environment.no_reward is None else int(environment.no_reward[: len(part)].sum())
        for index, (problem, answer) in enumerate(part):
            game = "truth" not in info
            truth[problem, answer] = paid[index] if game else np.nan_to_num(info["truth"][index])  # NaN: no verdict
            form[problem, answer] = np.nan if game else info["format"][index]
            tokens[problem, answer] = info["tokens"][index]
            texts[problem][answer] = "\n".join(line for line in said[index] if line)
    context, action = (np.concatenate(x).reshape(len(problems), answers, -1) for x in zip(*kept, strict=True))
    return AnswerScores(truth, form, tokens, texts, context, action, no_reward)


def no_reward_lines(count: int) -> list[str]:
    """Return a line about answers without a reward; none if each has one."""
    return [f"  answers without a reward, which count as not solved: {count:,}"] if count else []


@functools.partial(jax.jit, static_argnames="drawn")
def answer_all(agent: Agent, state: Any, seen: PyTree[Array], key: Array, drawn: bool) -> Int[Array, "row time"]:
    """Write an answer in every conversation, drawn as in training or the most probable one."""
    keys = jax.random.split(key, jax.tree.leaves(seen)[0].shape[0])
    return jax.vmap(lambda observation, key: agent.act(state, ActInputs((), observation, key, drawn))[0])(seen, keys)


def text_of(environment: TextEnvironment, tokens: Int[np.ndarray, " time"]) -> str:
    """Return the text of an action, without the token that ends it."""
    written = [token - 1 for token in tokens.tolist() if token != Tokens.PAD]
    return environment.tokenizer.decode([token for token in written if token not in environment.stop], special=True)


def with_temperature(agent: Agent, temperature: float | None) -> Agent:
    """Return an agent that draws at another temperature; `None`: at its own."""
    if temperature is None:
        return agent
    if not temperature > 0:
        raise ForageError(f"Answers are drawn at a temperature above 0, not at {temperature:g}.")
    changed: dict[str, Any] = {"temperature": float(temperature)}
    return dataclasses.replace(agent, **changed)


def data_of(environment: TextEnvironment, problem: int) -> dict[str, Any]:
    """Return the data of a problem that its verifier uses, such as its numbers and target; empty for a game."""
    environment.begin(0, problem)
    return dict(getattr(getattr(environment.worlds[0], "problem", None), "data", None) or {})
