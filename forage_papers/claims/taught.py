"""Small models that are taught for claims: players, searchers and callers of tools, with faults.

Each is a transformer of 0.2 million parameters, three layers of width 64, which learns from random weights to write
the turns of a program. The program makes a mistake with some probability, so what is left to learn from reward is not
to make it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from forage.core.text.named import FORAGE, tokenizer
from forage.data.text.rows import write_rows
from forage.environments.text.form import PROMPT_END
from forage.environments.text.games.search_qa import CITIES, NAMES
from forage.environments.text.names import levels_of
from forage.environments.text.workflow import ROLES, Workflow
from forage.environments.text.worlds import Start, World, make_world
from forage.nn.language.architecture import Architecture
from forage.nn.language.export import write_model
from forage.nn.transformer import Transformer
from forage.studies.claims.played import FOLDER
from forage.studies.claims.prepared import train_agent
from forage_papers.claims.language import careless_sum
from forage_papers.environments.text.mem1 import THINK, THOUGHT

END = "<|end|>"
Says = Callable[[World, np.random.Generator, float], str]
"""From a world, where a turn is due, and the probability of a mistake to the turn's text."""


def search_first(world: World, generator: np.random.Generator, careless: float) -> str:
    """Search before an answer, or, by mistake, answer with any city."""
    if generator.random() < careless:
        return f"<answer>{generator.choice(CITIES)}</answer>"
    return world.reference()


def search_again(world: World, generator: np.random.Generator, careless: float) -> str:
    """Search until the result has the answer, and judge results; by mistake, search for others and judge wrongly."""
    game: Any = world.played
    mistaken = generator.random() < careless
    if game.result and game.judges:
        return f"<judge>{'good' if (game.utility() >= game.threshold) != mistaken else 'bad'}</judge>"
    if game.answer in game.said + game.result:
        return f"<answer>{generator.choice(CITIES) if mistaken else game.answer}</answer>"
    if game.searched < game.searches:
        return f"<call>search: {generator.choice(NAMES) if mistaken else game.chain[0]}</call>"
    return f"<answer>{generator.choice(CITIES)}</answer>"


def step_on(world: World, generator: np.random.Generator, careless: float) -> str:
    """Take the next step of a shortest path, or, by mistake, a step to any node."""
    game: Any = world.played
    here = world.reference()
    return here if here and generator.random() >= careless else str(generator.choice(list(game.onward)))


def slips(generator: np.random.Generator, careless: float, hard: bool) -> bool:
    """Draw whether a mistake is made: seldom where a turn is not hard, so that the likeliest turns are partly right."""
    return bool(generator.random() < (careless if hard else 1 - careless))


def call_first(world: World, generator: np.random.Generator, careless: float) -> str:
    """Call the calculator and answer with its result, or, mostly with four digits, answer at once without carries."""
    if not slips(generator, careless, world.row["left"] >= 1000):
        return world.reference()
    return careless_sum(world.row["left"], world.row["right"], generator, 1.0)


def take_turns(world: World, generator: np.random.Generator, careless: float) -> str:
    """Call as the caller and answer as the solver, or, mostly with three digits, take the first number for both."""
    if not slips(generator, careless, world.row["left"] >= 100):
        return world.reference()
    left, calls = world.row["left"], cast(Workflow, world).taken % len(ROLES) == 0
    return f"<call>calculator: {left} + {left}</call>" if calls else f"<answer>{left}</answer>"


def keep_state(world: World, generator: np.random.Generator, careless: float) -> str:
    """Search for each person and keep all homes; by mistake, answer too early, or with any city for the last."""
    game: Any = world.played
    if generator.random() >= careless:
        return world.reference()
    known = [game.corpus.homes[name] for name in game.asked[: game.turn]]
    said = known if game.turn < game.objectives else [*known[:-1], str(generator.choice(CITIES))]
    return f"{THINK}{'; '.join(known)}{THOUGHT}<answer>{'; '.join(said)}</answer>"


def infer_profile(world: World, generator: np.random.Generator, careless: float) -> str:
    """Write the profile so far and ask on, or, mostly after the first turn, leave a point out and ask no more."""
    game: Any = world.played
    if not slips(generator, careless, game.turn > 0):
        return world.reference()
    points = "".join(f"- {name}: {game.profile[name]}\n" for name in game.told_slots[:-1])
    return f"<profile>\n{points}</profile>\n<response>\nI see.\n</response>"


PROGRAMS: dict[str, Says] = {
    "search": search_first,
    "search again": search_again,
    "path": step_on,
    "call": call_first,
    "take turns": take_turns,
    "keep state": keep_state,
    "infer profile": infer_profile,
}
"""The programs that write turns, by name."""


def taught_model(
    program: str, environment: str, options: Mapping[str, Any] | None = None, careless: float = 0.5, updates: int = 2000
) -> str:
    """Return the run of a small model that was taught to play as a program does; train it if it is missing."""
    data = played_rows(program, environment, options, careless)
    return train_agent(
        "sft",
        f"text:{environment}",
        updates,
        options={"model": untaught_model(), "learning_rate": 2e-3},
        environment_options=dict(options or {}),
        evaluation_every=updates,
        data=data,
    )


def untaught_model() -> str:
    """Return the directory of a small model with random weights; write it if it is missing."""
    place = FOLDER / "untaught-256"
    if not place.exists():
        shape = Architecture(vocabulary=512, width=64, layers=3, heads=4, key_heads=4, inner=192, length=256, tied=True)
        write_model(Transformer(jax.random.key(0), shape), tokenizer(FORAGE), place)
    return str(place)


def played_rows(
    program: str, environment: str, options: Mapping[str, Any] | None, careless: float, episodes: int = 8000
) -> str:
    """Return a file of a program's turns in an environment, each behind the conversation before it."""
    told = f"{program} {environment} {sorted((options or {}).items())} {careless} {episodes}"
    file = FOLDER / f"played-{hashlib.sha256(told.encode()).hexdigest()[:8]}.jsonl"
    if not file.exists():
        (world, levels), generator = open_world(environment, options), np.random.default_rng(0)
        starts = [Start(levels[number % len(levels)], number) for number in range(episodes)]
        store_rows(file, [row for start in starts for row in play(world, start, program, generator, careless)])
    return str(file)


def open_world(environment: str, options: Mapping[str, Any] | None) -> tuple[World, Sequence[int]]:
    """Return the world that options of a text environment make, and the levels of its problems."""
    rest = dict(options or {})
    tools, roles, level = rest.pop("tools", ""), rest.pop("roles", False), rest.pop("level", 0)
    first, last = levels_of(f"text:{environment}", level)
    used = tuple(tools.split(",")) if tools else ()
    return make_world(environment, used, team=1.0 if roles else None, options=rest), range(first, last + 1)


def play(
    world: World, start: Start, program: str, generator: np.random.Generator, careless: float
) -> list[dict[str, str]]:
    """Play an episode by a program, and return a row for each of its turns."""
    context, rows, over = f"{world.begin(start)}{PROMPT_END}", [], False
    while not over:
        text = PROGRAMS[program](world, generator, careless)
        rows.append({"prompt": context, "completion": text})
        reply = world.reply(text)
        over = reply.over
        context = f"{reply.text}\n" if reply.anew else f"{context}{text}{END}\n{reply.text}\n"
    return rows


def store_rows(file: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as JSONL into a folder that may be missing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_rows(file, rows)
