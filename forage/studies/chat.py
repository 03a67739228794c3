"""Talking to a language model: a run's policy, the base model, or one of a directory (`forage chat`)."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import os
import statistics
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from forage.agents.language.base import LanguageAgent
from forage.config.environment import resolve_environment
from forage.config.ranges import check_call
from forage.config.references import read_model
from forage.config.resolve import from_config
from forage.config.saved import load
from forage.core import prng
from forage.core.errors import ForageError
from forage.core.host import Conversation
from forage.core.ports import Environment
from forage.core.spaces import Tokens
from forage.core.text import named
from forage.data.text.rows import read_rows
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.form import Context, Form
from forage.environments.text.own.prompts import open_prompt
from forage.environments.text.sets import SPLITS
from forage.loop.policy import Policy
from forage.memory.texts import TextSet
from forage.nn.language.directory import ends
from forage.nn.language.generate import generate, pad_left
from forage.nn.language.peft import tokenizer_directory
from forage.nn.transformer import Transformer
from forage.ops.sampling import Sampling
from forage.runs.run import Run

ROOM = 64  # prompts are padded to a multiple of it, as each length is compiled once
PUT = (
    "tokenizer",
    "chat",
    "instruct",
    "system",
    "enable_thinking",
    "chat_template_kwargs",
    "date",
    "history",
)  # options of an environment that say how it puts its texts
LONGEST = 256  # tokens of an answer of a model that was trained in no environment


@dataclasses.dataclass(eq=False)
class Talk:
    """A dialogue with a language model. It remembers the turns of one conversation."""

    network: Transformer
    form: Form
    stop: tuple[int, ...]  # tokens that end an answer
    new: int  # tokens of an answer, at most
    sampling: Sampling
    turns: int | None = 1  # answers of one conversation; `None`: any number
    allowed: Bool[Array, " vocabulary"] | None = None  # tokens that may be written
    seed: int = 0  # of what is drawn
    home: dict[str, Any] | None = None  # the configuration of the environment that it learned in
    options: dict[str, Any] = dataclasses.field(default_factory=dict)  # how another one is to put its texts
    as_it_stands: bool = False  # a text is read without a line break behind it, where no template makes it a prompt
    said: tuple[Context, tuple[int, ...]] | None = None  # the conversation so far: the last context, and its answer
    answers: int = 0  # of this conversation
    drawn: int = 0  # answers in all

    def say(self, text: str) -> str:
        """Return the answer to a text. Raise `ForageError` if the conversation has become too long to read."""
        if self.answers == self.turns:
            self.begin()
        begin = functools.partial(open_prompt, self.form) if self.as_it_stands else self.form.begin
        read = begin(text) if self.said is None else self.form.extend(*self.said, text)
        written = self.write(read.tokens)
        foreign = bool(written) and written[-1] in self.stop and written[-1] not in self.form.stop
        self.said, self.answers = (read, written[:-1] if foreign else written), self.answers + 1
        return self.text(written)

    def begin(self) -> None:
        """Start a new conversation."""
        self.said, self.answers = None, 0

    def write(self, tokens: tuple[int, ...]) -> tuple[int, ...]:
        """Return the tokens of the answer to a context."""
        most = self.network.architecture.longest - self.new
        if len(tokens) > most:
            raise ForageError(
                f"What was said takes {len(tokens)} tokens, and the model reads {most} before an answer; say less, or "
                f"begin a new conversation."
            )
        prompts, mask = pad_left([tokens], min(-(-len(tokens) // ROOM) * ROOM, most))
        key = jax.random.fold_in(prng.key(self.seed), self.drawn)
        self.drawn += 1
        read = jnp.asarray(prompts), jnp.asarray(mask)
        written = generate(self.network, read[0], key, self.new, self.sampling, read[1], self.stop, self.allowed)
        return tuple(np.asarray(written.tokens[0])[np.asarray(written.mask[0])].tolist())

    def text(self, tokens: tuple[int, ...]) -> str:
        """Return the text of an answer, without the token that ends it."""
        return self.form.tokenizer.decode([token for token in tokens if token not in self.stop], special=True)

    def problems(self, environment: str | None = None, **options: Any) -> Iterator[Conversation]:
        """Pose problems that are held out from training, one after the other: those of an environment, or its own.

        `options`: of the environment, such as `level`.
        """
        if environment is None and self.home is None:
            raise ForageError(
                "This model learned in no environment; name one whose problems to pose, such as text:addition."
            )
        texts = str(environment).lower().startswith("text:")  # others have no tokenizer, and are refused below
        config: dict[str, Any] = {"id": environment, "options": self.options if texts else {}}
        if environment is None and self.home is not None:
            config = self.home
        name, build, _ = resolve_environment(config["id"], dict(config["options"]) | options)
        batch = None if isinstance(build, Environment) else build(1)
        if not isinstance(batch, TextEnvironment):
            raise ForageError(f"{name} poses no problems in text; name one such as text:addition.")
        if batch.form.tokenizer.vocabulary > self.network.architecture.vocabulary:
            raise ForageError(f"{name} reads and writes with a tokenizer that this model does not know.")
        return (one for one, _ in play_problems(self, batch))

    def look(self, environment: str, number: int, **options: Any) -> Look:
        """Answer `number` prompts of an environment, and return the conversations with the means of their scores.

        Answers without a reward count in no mean of rewards. Raise `ForageError` if none has one.
        """
        name, build, _ = resolve_environment(environment, options)
        batch = None if isinstance(build, Environment) else build(1)
        if not isinstance(batch, TextEnvironment):
            raise ForageError(f"{name} has no prompts; name some such as text:prompts.jsonl.")
        if batch.form.tokenizer.vocabulary > self.network.architecture.vocabulary:
            batch.close()
            raise ForageError(f"{name} reads and writes with a tokenizer that this model does not know.")
        said: list[Conversation] = []
        scores: dict[str, list[float]] = {"reward": []}
        played = play_problems(self, batch)
        with contextlib.closing(played):
            for conversation, info in itertools.islice(played, number):
                said.append(conversation)
                scores["reward"].append(math.nan if conversation.reward is None else conversation.reward)
                for column, values in info.items():
                    scores.setdefault(column, []).append(float(values[0]))
            reason = f", as {batch.no_reward_reason}" if batch.no_reward_reason else ""
        known = {column: [value for value in values if value == value] for column, values in scores.items()}
        if not known["reward"]:
            raise ForageError(
                f"None of the {number} answers to {name} has a reward{reason}; mend that, and look again."
            )
        means = {column: statistics.fmean(values) for column, values in known.items() if values}
        return Look(said, means, number - len(known["reward"]))


class Look(NamedTuple):
    """Conversations with a policy, and the means of their scores by name."""

    conversations: list[Conversation]
    scores: dict[str, float]
    no_reward: int = 0  # answers without a reward, which its mean leaves out


def play_problems(talk: Talk, environment: TextEnvironment) -> Generator[tuple[Conversation, dict[str, Any]]]:
    """Play one conversation after the other, without end; yield each with the environment's numbers of it."""
    talk = dataclasses.replace(talk, new=min(talk.new, environment.answer))  # a chunk's tokens where it has chunks
    try:
        environment.examine()
        observation: Any = environment.reset(talk.seed)
        while True:
            context = observation["context"][0]
            action = np.full((1, environment.answer), Tokens.PAD, np.int32)
            if context.any():
                written = talk.write(tuple((context[context != Tokens.PAD] - 1).tolist()))
                if written[-1] in talk.stop and written[-1] not in environment.stop:
                    written = (*written[:-1], environment.ends)
                action[0, : len(written)] = np.array(written, np.int32) + 1
            step, observation = environment.step(action)
            if step.terminated[0] or step.truncated[0]:
                yield environment.conversations()[0], step.info
    finally:
        environment.close()


def chat(
    source: str | os.PathLike[str],
    temperature: float | None = None,
    seed: int | None = None,
    checkpoint: str | int | None = None,
    tokens: int | None = None,
) -> Talk:
    """Return a dialogue with a run's policy, with the base model `forage`, or with a model in a directory.

    Texts have the form that the run's environment gave them, and answers are drawn as the run was evaluated.
    `temperature`: what logits are divided by; 0 for the most probable tokens. `seed`: which seed's policy, else that
    of the best. `checkpoint`: `best`, or the step of one that the run has kept. `tokens`: those of an answer, at most.

    Examples:
        >>> forage.chat("forage").say("Compute 3 + 4.")  # doctest: +SKIP
    """
    check_call(chat, locals())
    if tokens is not None and tokens < 1:
        raise ForageError(f"An answer has 1 token or more, not {tokens}.")
    if temperature is not None:
        Sampling(temperature).check()
    is_run = any((Path(source) / name).exists() for name in ("agent.npz", "versions.json"))
    found = of_run(Run(source), seed, checkpoint) if is_run else of_model(os.fspath(source))
    if temperature is not None:
        found.sampling = found.sampling._replace(temperature=temperature)
    if tokens is not None:
        found.new = tokens
    longest = found.network.architecture.longest
    if found.new >= longest:
        raise ForageError(
            f"An answer of {found.new} tokens leaves no room for a prompt; the model reads {longest}, so ask for "
            f"fewer, such as {longest // 2}."
        )
    return found


def language_policy(run: Run, seed: int | None = None, checkpoint: str | int | None = None) -> Policy:
    """Load the policy of a run on text. Raise `ForageError` for another kind of run."""
    policy = load(run.directory, seed, checkpoint=checkpoint)
    if not isinstance(policy.agent, LanguageAgent):
        raise ForageError(
            f"{run.directory} is a run of {type(policy.agent).__name__}, which writes no text; name one of a language "
            f"model, such as of grpo."
        )
    if not policy.agent.writes:
        raise ForageError(f"{run.directory} is a reward model, which writes no text; name a run of sft, dpo or grpo.")
    one_network(policy, run)
    return policy


def one_network(policy: Policy, run: Run) -> None:
    """Raise `ForageError` if the policy of a run is not one transformer."""
    if not isinstance(policy.state.network, Transformer):
        raise ForageError(
            f"{run.directory} has a policy of several networks, such as of each role, and not one alone; "
            f"of at-grpo name a run with policies=shared."
        )


class Home(NamedTuple):
    """The form of the texts that a policy has learned from."""

    form: Form
    stop: tuple[int, ...]  # tokens that end an answer
    longest: int  # tokens of an answer, at most
    turns: int | None  # answers of one conversation; `None`: any number
    as_it_stands: bool = False  # prompts without a template have no line break behind them


def home_of(run: Run) -> Home:
    """Return the form of a run's texts: of the recorded ones, or as its environment puts them."""
    memory = run.part("memory")
    if isinstance(memory, TextSet):
        form = Form(named.tokenizer(memory.tokenizer), memory.chat)
        rows = read_rows(memory.file, memory.row_kinds).rows if Path(memory.file).exists() else []
        stands = not memory.chat and lacks_line_breaks(rows)
        return Home(form, form.stop, min(LONGEST, memory.longest // 2), None if memory.chat else 1, stands)
    environment = text_environment(run)
    environment.close()
    stands = environment.prompts is not None and lacks_line_breaks(environment.prompts.rows[SPLITS[0]])
    return Home(environment.form, environment.stop, environment.longest, environment.turns, stands)


def lacks_line_breaks(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a prompt of some rows is a text without a line break at its end, or there are no rows."""
    prompts = [row.get("prompt", row.get("text")) for row in rows]
    return not prompts or any(isinstance(one, str) and not one.endswith("\n") for one in prompts)


def text_environment(run: Run) -> TextEnvironment:
    """Return one environment of a run on text, for its tokenizer and the form of its texts."""
    build = from_config(run.config, where=run.directory).environment
    batch = None if isinstance(build, Environment) else build(1)
    if not isinstance(batch, TextEnvironment):
        raise ForageError(f"{run.directory} was trained on {run.config['spec']['name']}, which has no text.")
    return batch


def of_run(run: Run, seed: int | None, checkpoint: str | int | None) -> Talk:
    """Return a dialogue with the policy of a run."""
    policy, learned = language_policy(run, seed, checkpoint), home_of(run)
    assert isinstance(policy.agent, LanguageAgent)
    sampling = policy.agent.sampling(float(policy.agent.temperature) if policy.sampled else 0.0)
    home = run.config["environment"] if "id" in run.config["environment"] else None
    options = {} if home is None else home["options"]
    network = policy.state.network
    reads = network.architecture.longest
    fits = home is not None and learned.longest < reads  # rows are as long as what a model reads, prompts included
    return Talk(
        network,
        learned.form,
        learned.stop,
        learned.longest if fits else min(learned.longest, reads // 2),
        sampling,
        learned.turns,
        policy.state.known,
        home=home,
        options={name: options[name] for name in PUT if name in options},
        as_it_stands=learned.as_it_stands,
    )


def of_model(source: str) -> Talk:
    """Return a dialogue with a model that is of no run."""
    network, words = read_model(source), source if source == named.FORAGE else str(tokenizer_directory(source))
    tokenizer = named.tokenizer(words)
    form = Form(tokenizer, tokenizer.template is not None)
    stop = tuple(dict.fromkeys((*form.stop, *ends(network))))
    if not stop:
        raise ForageError(f"The model {source} has no token that ends a text, so that no answer would end.")
    allowed = jnp.arange(network.architecture.vocabulary) < tokenizer.vocabulary
    new, turns = min(LONGEST, network.architecture.longest // 2), None if form.chat else 1
    options = {"tokenizer": words} | ({"chat": True, "instruct": True} if form.chat else {})
    return Talk(network, form, stop, new, Sampling(0.0), turns, allowed, options=options)
