"""Programs that small models are taught by: their turns with and without mistakes."""

import numpy as np
import pytest

from forage.environments.text.worlds import Start
from forage_papers.claims import taught

PAPER = "forage_papers.environments.text"
WORLDS = {
    "search": ("search-qa", {"hops": 1, "people": 4}, 1.0),
    "search again": (f"{PAPER}.reseek:ReSeek", {"people": 4}, 1.5),
    "path": (f"{PAPER}.graph:GraphPaths", {"nodes": 8, "edges": 0.3, "tries": 4}, 1.0),
    "call": ("addition", {"level": 3, "tools": "calculator"}, 1.0),
    "take turns": ("addition", {"level": 2, "tools": "calculator", "roles": True}, 4.0),
    "keep state": (f"{PAPER}.mem1:MEM1", {"objectives": 2, "people": 3}, 2.0),
    "infer profile": (f"{PAPER}.rlpa:RLPA", {"rounds": 3}, 3 + 2 / 5 + 4 / 6),
}


def returns(program, careless, count):
    """Return the return of each of some episodes that a program plays."""
    environment, options, _ = WORLDS[program]
    (world, levels), generator, found = taught.open_world(environment, options), np.random.default_rng(0), []
    for number in range(count):
        world.begin(Start(levels[number % len(levels)], number))
        over, total = False, 0.0
        while not over:
            reply = world.reply(taught.PROGRAMS[program](world, generator, careless))
            over, total = reply.over, total + reply.reward
        found.append(total)
    return found


@pytest.mark.parametrize("program", WORLDS)
def test_a_program_wins_without_mistakes_and_loses_by_them(program):
    best = WORLDS[program][2]
    if program != "infer profile":  # whose first turn is the other way round
        assert returns(program, 0.0, 8) == pytest.approx([best] * 8)
    assert np.mean(returns(program, 1.0, 8)) < 0.6 * best


def test_each_turn_is_a_row_behind_all_that_was_said():
    (world, _), generator = taught.open_world("search-qa", {"hops": 1, "people": 4}), np.random.default_rng(0)
    first, second = taught.play(world, Start(0, 3), "search", generator, 0.0)
    asked = world.begin(Start(0, 3)).split()[2]
    assert first == {"prompt": f"Where does {asked} live?\n", "completion": f"<call>search: {asked}</call>"}
    assert second["prompt"].startswith(f"{first['prompt']}{first['completion']}<|end|>\n<result>1. {asked}: ")
    assert second["prompt"].endswith("</result>\n") and second["completion"].startswith("<answer>")
    # A result that is judged bad is dropped from the context
    world, _ = taught.open_world(f"{PAPER}.reseek:ReSeek", {"people": 4})
    rows = taught.play(world, Start(0, 3), "search again", np.random.default_rng(0), 0.5)
    bad = next(number for number, row in enumerate(rows) if row["completion"] == "<judge>bad</judge>")
    assert "<result>" in rows[bad]["prompt"] and "<result>" not in rows[bad + 1]["prompt"]
