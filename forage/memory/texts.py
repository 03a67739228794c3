"""Recorded text: prompts, answers and preferences from a file, each row learned from once in a pass."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import equinox
import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Int

from forage.core.ports import ActContext, Agent, Environment
from forage.core.ranges import Range, Ranges, check_minibatches
from forage.core.spaces import Tokens
from forage.core.text import named
from forage.core.types import DATASET, Batch, Experience, ForageError, Spec
from forage.data.files import file_hash
from forage.data.formats import hash_lines
from forage.data.text.rows import KINDS, read_rows
from forage.data.text.source import files_of
from forage.data.text.tokens import SEPARATOR, RowEncoder, TokenRows, encode_rows, pack_rows
from forage.memory.dataset import DataSet, episodes_held_out
from forage.ops.rows import shuffle

MOST_HELD = 64  # batches of rows that are measured


class Order(NamedTuple):
    """The orders of rows in two passes: that of the newest batch's first row, and that of its last one."""

    before: Int[Array, " row"]
    after: Int[Array, " row"]


class TextSet(DataSet):
    """Rows of recorded text, as tokens: a run with it (`--data chat.jsonl`) makes an update from each batch of rows.

    Each pass over the rows has a new order, by the run's seed, and every row is in a pass once; the last batch of a
    pass goes on with the first rows of the next. Rows longer than `longest` are left out and counted. The file is not
    copied into checkpoints; the run's configuration names it and its hash.
    """

    example: ClassVar[str] = "forage train sft --memory texts --memory.file chat.jsonl"
    ranges: ClassVar[Ranges] = {"held_out": Range(0, 1, below=True), "longest": Range(2)}

    kinds: str = equinox.field(static=True, default="", kw_only=True)  # kinds of rows to learn from, with commas
    reader: str = equinox.field(static=True, default="This run", kw_only=True)  # the agent's name, for messages
    tokenizer: str = equinox.field(static=True, default=named.FORAGE, kw_only=True)  # `forage`, or a directory that has
    # one; the model's
    longest: int = equinox.field(static=True, default=1024, kw_only=True)  # tokens of a text; rows with more are left
    # out
    only_answers: bool = equinox.field(static=True, default=True, kw_only=True)  # whether the assistant's words alone
    # are learned of messages
    others: bool = equinox.field(static=True, default=False, kw_only=True)  # a preference is two rows, of which one is
    # wanted, and each row has its prompt with another row's answer beside
    packing: bool = equinox.field(static=True, default=False, kw_only=True)  # whether several short texts share a row
    separator: str = equinox.field(static=True, default=SEPARATOR, kw_only=True)  # the text behind each labelled step
    chat: bool = equinox.field(static=True, default=False, kw_only=True)  # the texts are messages; found when a run
    # begins
    held_file: str = equinox.field(static=True, default="", kw_only=True)  # further rows that are measured alone
    held_sha256: str = equinox.field(
        static=True, default="", kw_only=True
    )  # hash of that file; taken when a run begins

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` for an agent that does not learn from recorded text."""
        if not agent.texts:
            raise ForageError(
                f"{type(agent).__name__} does not learn from recorded text, which {self.file} holds; use sft, dpo or "
                f"another agent that does."
            )

    def with_hashes(self) -> TextSet:
        path = Path(self.file).expanduser().absolute()
        held = str(Path(self.held_file).expanduser().absolute()) if self.held_file else ""
        return dataclasses.replace(
            self,
            file=str(path),
            sha256=self.sha256 or hash_of(path),
            held_file=held,
            held_sha256=self.held_sha256 or (hash_of(Path(held)) if held else ""),
        )

    def ends(self, environment: dict[str, Any]) -> None:
        return None

    def rewards(self, spec: Spec) -> Any:
        """Raise `ForageError`, because recorded text has no rewards."""
        raise ForageError("Recorded text has no rewards that could be scaled; leave out --rewards.")

    def check_unchanged(self) -> None:
        for file, known in ((self.file, self.sha256), (self.held_file, self.held_sha256)):
            if known and hash_of(Path(file)) != known:
                raise ForageError(
                    f"{file} does not hold the texts that this run began with (its SHA-256 was {known[:12]}...); put "
                    f"that file back, or train again."
                )

    def read_rows(self) -> tuple[TokenRows, TokenRows | None]:
        """Return the rows to learn from and those to measure, as tokens. Raise `ForageError` for faulty ones."""
        return read_tokens(dataclasses.replace(self, sha256=self.sha256 or hash_of(Path(self.file).expanduser())))

    @property
    def is_conversational(self) -> bool:
        """Return whether the texts of the file are messages."""
        return read_rows(Path(self.file).expanduser(), self.row_kinds, self.reader).conversational

    @property
    def row_kinds(self) -> tuple[str, ...]:
        return tuple(self.kinds.split(",")) if self.kinds else tuple(KINDS)

    def spec(self) -> Spec:
        """Return the spec of the texts, with answers as actions and the tokens before them as contexts."""
        words = named.tokenizer(self.tokenizer)
        learned, _ = self.read_rows()
        response = learned.longest_answer
        context = max(learned.text.shape[-1] - response, 1)
        ends = tuple(one + 1 for one in words.ends) or None
        observed, action = (Tokens(n, words.vocabulary + 1, end=ends) for n in (context, response))
        space = spaces.Dict({"context": observed, "reference": action})
        return Spec(Path(self.file).name, space, action)

    def unlike_prompts(self, end: str, name: str) -> list[str]:
        """Warn that no prompt of the file has the text behind it that an environment's prompts have."""
        if not end:
            return []
        rows = read_rows(Path(self.file).expanduser(), self.row_kinds, self.reader).rows
        prompts = [row["prompt"] for row in rows if isinstance(row.get("prompt"), str)]
        if not prompts or any(prompt.endswith(end) for prompt in prompts):
            return []
        return [
            f"no prompt of {self.file} ends with {end!r}, as all of {name} do, so the policy is asked there in other "
            f"words than it learned; add it to each prompt"
        ]

    def describe(self, batch_size: int) -> list[str]:
        """Describe the rows in lines: their number, and those that are left out or measured."""
        learned, held = self.read_rows()
        measured = "" if held is None else f"; {len(held):,} more are measured and not learned from"
        lines = [f"from {self.file}: each step is an update from {batch_size} of {len(learned):,} rows{measured}"]
        if dropped := learned.dropped + (held.dropped if held is not None and self.held_file else 0):
            lines.append(f"{dropped:,} rows with more than {self.longest:,} tokens are left out (--longest)")
        if learned.apart:
            lines.append(
                f"in {learned.apart:,} rows the prompt alone has other tokens than at the beginning of the whole text; "
                f"there the answer begins where they differ"
            )
        return lines

    def load(self, spec: Spec) -> OpenedTextSet:
        self.check_unchanged()
        learned, held = self.read_rows()
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        validation = None if held is None else OpenedTextSet(**fields, rows=experience_of(held))
        return OpenedTextSet(**fields, rows=experience_of(learned), validation=validation, dropped=learned.dropped)


class OpenedTextSet(TextSet):
    """Recorded text after its file was read."""

    rows: Experience = None  # type: ignore[assignment]  # leaves `row ...`
    validation: OpenedTextSet | None = equinox.field(default=None, kw_only=True)
    dropped: int = equinox.field(static=True, default=0, kw_only=True)

    def check(self, agent: Agent, spec: Spec, environment: Environment | None) -> None:
        """Raise `ForageError` if there are fewer rows than a batch has."""
        super().check(agent, spec, environment)
        if hasattr(agent, "minibatches"):
            check_minibatches(agent, agent.batch_size, "rows")
        if len(self.rows.reward) < agent.batch_size:
            raise ForageError(
                f"{self.file} has {len(self.rows.reward)} rows to learn from, and a batch has {agent.batch_size}; give "
                f"more rows, or a smaller --batch-size."
            )

    def init(
        self, example: Experience, num_envs: int, rollout_length: int, spec: Spec, environment: Environment | None
    ) -> Order:
        rows = jnp.arange(len(self.rows.reward), dtype=jnp.int32)
        return Order(rows, rows)

    def advance(self, state: Order, size: int, length: int, moment: ActContext) -> Order:
        count = len(self.rows.reward)
        place = place_in_pass(moment.clock.steps, size, count)
        fresh = (place == 0) | (place + size > count)
        after = jax.lax.cond(fresh, lambda: shuffle(jax.random.bits(moment.key, (count,))), lambda: state.after)
        return Order(jnp.where(place == 0, after, state.after), after)

    def held_batches(self, size: int) -> int:
        return min(-(-len(self.rows.reward) // size), MOST_HELD)

    def sample(self, state: Any, size: int, length: int, moment: ActContext) -> Batch:
        count = len(self.rows.reward)
        if isinstance(state, Order):
            at = place_in_pass(moment.clock.steps, size, count) + jnp.arange(size)
            index = jnp.where(at < count, state.before[at % count], state.after[at % count])
        else:
            size = min(size, count)  # of rows that are measured, one batch after the other
            index = (state * size + jnp.arange(size)) % count
        return Batch(jax.tree.map(lambda x: x[index][None], self.rows), jnp.ones(len(index)), index)


def place_in_pass(updates: Int[Array, ""], size: int, count: int) -> Int[Array, ""]:
    """Return the number of rows of the present pass before the next batch."""
    return (updates % count) * (size % count) % count


def experience_of(rows: TokenRows) -> Experience:
    """Return rows as experience: leaves `row ...`, the texts of a row as its observation, its label as reward."""
    count = len(rows)
    return Experience(
        observation={
            "text": jnp.asarray(rows.text),
            "wrote": jnp.asarray(rows.wrote),
            "margin": jnp.asarray(rows.margin),
            **({} if rows.begin is None else {"begin": jnp.asarray(rows.begin)}),
            **({} if rows.step is None else {"step": jnp.asarray(rows.step)}),
        },
        action=(),
        reward=jnp.asarray(rows.label),
        next_observation=(),
        terminated=jnp.ones(count, bool),
        truncated=jnp.zeros(count, bool),
        source=jnp.full(count, DATASET, jnp.int32),
        policy_info=(),
    )


def hash_of(path: Path) -> str:
    """Return the SHA-256 of the files of recorded text that a path names."""
    files = files_of(path)
    return file_hash(files[0]) if len(files) == 1 else hash_lines([file_hash(file) for file in files])


@functools.lru_cache(maxsize=2)
def read_tokens(texts: TextSet) -> tuple[TokenRows, TokenRows | None]:
    """Return the rows of a file as tokens: those to learn from, and those to measure, if there are any.

    Kept for the same file: a run asks for its spaces first, and for its rows when it is about to learn.
    """
    encoder = RowEncoder(named.tokenizer(texts.tokenizer), texts.only_answers, texts.separator)

    def encode(file: str) -> TokenRows:
        rows = read_rows(Path(file).expanduser(), texts.row_kinds, texts.reader)
        found = encode_rows(rows, encoder, texts.longest, texts.others)
        return pack_rows(found, texts.longest) if texts.packing else found

    learned = encode(texts.file)
    if texts.held_file:
        return learned, encode(texts.held_file)
    if not texts.held_out:
        return learned, None
    kept = episodes_held_out(len(learned), texts.held_out, texts.file, "row")
    return learned.select(~kept), learned.select(kept)
