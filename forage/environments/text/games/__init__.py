"""Games in text, turn by turn: the small ones of LMRL-Gym, without data, and a scripted user.

Abdulhai, White, Snell, Sun, Hong, Zhai, Xu, Levine, LMRL Gym: Benchmarks for Multi-Turn Reinforcement Learning with
Language Models, 2023. Rules, rewards and limits are those of the authors' program, github.com/abdulhaim/LMRL-Gym, which
was read; the paper's own tables could not be. Its games of twenty questions, cities and car dealers need data or a
trained model that answers, and its full games of chess an engine, so they are not here.

A game is any object with `begin(seed) -> text` and `reply(text) -> (text, reward, ended)` (`game.py`). Its state is
plain Python, so copying it (`copy.deepcopy`) gives two games that continue from the same turn.
"""

from __future__ import annotations

from typing import Any

from forage.core.loading import load_class
from forage.environments.text.games.game import Game
from forage.environments.text.named import make_checked, make_part

GAMES = {
    "maze": "maze:Maze",
    "wordle": "wordle:Wordle",
    "house": "house:House",
    "endgame": "endgame:Endgame",
    "user": "user:ScriptedUser",
    "guess": "guess:Guess",
    "search-qa": "search_qa:SearchQA",
}
"""By name: the module below this folder, and the class."""


def make_game(name: str, **options: Any) -> Game:
    """Return a game by its name, with options of its class, or a person's own as `file.py:Class`.

    Raise ForageError if there is none of that name.
    """
    if ":" in name:
        return make_checked("game", name, load_class(name), options)
    return make_part("game", GAMES, __name__, name, options)
