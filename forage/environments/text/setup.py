"""Checks of the options of an environment of texts, and its worlds, the form of its texts, and their lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forage.core.errors import ForageError
from forage.core.text import named
from forage.core.text.tokenizer import Tokenizer
from forage.environments.text import worlds
from forage.environments.text.episodes.chunks import Chunks
from forage.environments.text.episodes.course import Course, Words
from forage.environments.text.form import HISTORIES, Form
from forage.environments.text.names import today
from forage.environments.text.own import prompts
from forage.environments.text.own.prompts import Prompts, PromptWorld
from forage.environments.text.tools.native import Native
from forage.environments.text.worlds import Start, World

ROLES = 2  # a caller of tools, and a solver
RESPONSE = 512, 64  # tokens of an answer to a prompt of a file: with a tokenizer of a directory, and with Forage's own
ROOM = 256, 64  # tokens of what tools answer to a text, likewise


# Options


def check_numbers(
    name: str, problems: int, parallel: int, tokens: Mapping[str, int], held_out: float, hints: float
) -> None:
    """Raise `ForageError` for numbers that no environment has. `tokens`: lengths by their options."""
    if problems < 0:
        raise ForageError(f"{name} has {problems} problems to train on; 1 or more work, and 0 for all there are.")
    if parallel < 0:
        raise ForageError(f"{name} runs 1 text or more at a time, or 0 for one a processor, not {parallel}.")
    if wrong := next((option for option, length in tokens.items() if length < 0), ""):
        raise ForageError(f"The {wrong} of {name} is 1 token or more, or 0 for what its texts take, and not below.")
    if not 0 <= held_out < 1:
        raise ForageError(f"The share of problems that {name} holds out is at least 0 and below 1, not {held_out:g}.")
    if not 0 <= hints <= 1:
        raise ForageError(f"Hints of {name} give away a share of 0 to 1 of a reference, not {hints:g}.")


def check_template(name: str, chat: bool, history: str, others: bool) -> None:
    """Raise `ForageError` for options of a chat template where none is used. `others`: further ones are given."""
    if not chat and (others or history != HISTORIES[0]):
        raise ForageError(f"{name} uses no chat template, which alone has these options; give --env.chat true.")
    if history not in HISTORIES:
        raise ForageError(f"The history of {name} is {' or '.join(HISTORIES)}, not {history!r}.")


def check_parts(name: str, chunk: int, carry: int, head: int, branches: bool, room: bool) -> None:
    """Raise `ForageError` for options about parts of answers that do not go together."""
    if (carry or head) and not chunk:
        raise ForageError(f"{name} writes whole answers, of which nothing is carried over; give it a chunk as well.")
    if room and (chunk or branches):
        raise ForageError(f"{name} shortens whole answers alone; leave out --env.room, or chunk and branches.")


def check_hints(name: str, world: World, level: int, chunk: int) -> None:
    """Raise `ForageError` if there is no reference to give hints of, or answers are written in chunks."""
    world.begin(Start(level, 0))
    if not world.reference():
        raise ForageError(f"{name} knows no reference to give hints of; leave out --env.hints.")
    if chunk:
        raise ForageError("A hint is the beginning of an answer, which chunks shorten; leave out one of the two.")


# Worlds


def prompt_worlds(
    name: str, num_envs: int, tools_used: Sequence[str], turns: int, native: Native | None, others: Mapping[str, Any]
) -> list[Any]:
    """Return worlds for the prompts of a file. Raise `ForageError` if an option of `others` is set: they have none."""
    if alien := next((option for option, value in others.items() if value), ""):
        only = ", which prompts with tools have" if alien in ("turns", "instruct") else ""
        raise ForageError(f"{name} has prompts of a file, and no option {alien}{only}; leave it out.")
    made: list[Any] = []
    for _ in range(num_envs):
        beside = made[0] if made else None
        toolbox = worlds.make_toolbox(tools_used, beside, native) if tools_used else None
        made.append(PromptWorld(toolbox, turns))
    return made


def problem_worlds(name: str, num_envs: int, evaluate: str, make: Callable[[World | None], World]) -> list[Any]:
    """Return worlds of problems or games. `make` makes each, and is given the first one, whose processes all share.

    Raise `ForageError` for a second file, `evaluate`.
    """
    if evaluate:
        raise ForageError(f"{name} makes its own problems for evaluation; a second file goes with a first one.")
    first = make(None)
    return [first, *(make(first) for _ in range(num_envs - 1))]


def make_form(
    tokenizer: Tokenizer,
    chat: bool,
    system: str,
    variables: Mapping[str, Any],
    date: str | None,
    history: str,
    world: World,
    said: str,
) -> Form:
    """Return the form of texts. Raise `ForageError` if the tokenizer, named `said`, has no token that ends one."""
    toolbox = world.toolbox
    schemas = toolbox.schemas() if toolbox is not None and toolbox.native else ()
    form = Form(tokenizer, chat, system, schemas, variables, date or today(tokenizer), history)
    if not form.stop:
        raise ForageError(f"The tokenizer {said} has no token that ends a text, and without one none can end.")
    return form


def share_prompts(
    name: str,
    made: Sequence[PromptWorld],
    target: str,
    evaluate: str,
    held_out: float,
    form: Form,
    context: int,
    instruct: bool,
) -> Prompts:
    """Read the prompts of a file, as tokens, and give them to the worlds."""
    toolbox = made[0].toolbox
    told = toolbox.description() if toolbox and instruct and not toolbox.native else ""
    found = prompts.read_prompts(target, evaluate, held_out, form, context, told, toolbox is not None)
    prompts.tell_left_out(name, found, context)
    for world in made:
        world.prompts = found
    return found


# Lengths


def prompt_lengths(found: Prompts, tokenizer: str, turns: int, context: int, response: int) -> tuple[int, int]:
    """Return the tokens of a context and of an answer to prompts of a file; those that are given stay."""
    own = tokenizer == named.FORAGE
    response = response or RESPONSE[own]
    return context or found.longest + (turns - 1) * (response + ROOM[own]), response


def make_course(
    name: str,
    words: Words,
    world: World,
    levels: range,
    hints: float,
    roles: int,
    given: tuple[int, int],
    chunks: Chunks | None,
    branches: bool,
) -> Course:
    """Return the course of episodes, with their lengths.

    `given`: tokens of a context and of an answer, each 0 for what the texts take.
    """
    context, response = given
    if not (context and response):
        rounds = world.turns // roles if roles else 1  # an expert's episode takes one turn of each role
        longest, written = words.sizes(world, levels, hints, rounds)
        context, response = context or longest, response or written
    if world.guard is not None:
        world.guard.forget()
    longest, turns = int(response), world.turns
    if chunks:
        chunks.check(name, turns == 1 and not branches)
        turns, response = chunks.turns(longest), chunks.size
        context += 0 if given[0] else chunks.head + chunks.carry
    if branches and not given[0]:
        context += response
    return Course(name, words, turns, int(context), int(response), longest, chunks, world.verified)
