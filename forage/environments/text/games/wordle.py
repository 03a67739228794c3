"""LMRL-Gym's Wordle: guess a word of five letters from marks on each guess."""

from __future__ import annotations

import dataclasses
import random
import re
from collections import Counter
from typing import ClassVar

from forage.core.errors import ForageError
from forage.environments.text.games.game import EXECUTED, Turn, check_whole, running

# Common English words; LMRL-Gym draws from lists of 200, 400 or 800, which are not these.
WORDS = tuple(
    """
    about above actor admit adult after again agent agree ahead alarm album alive allow alone along amber angel
    anger angle apple april arena argue arise armor array aside audio avoid award bacon badge basic beach begin
    being below bench berry birth black blade blame blank blast blend block blood board brain brand brave bread
    break brick bride brief bring broad brown brush build bunch buyer cabin cable camel candy cargo carry catch
    cause chain chair chalk charm chart chase cheap check cheek chess chest chief child civil claim class clean
    clear climb clock cloth cloud coach coast coral couch count court cover craft crane crash cream crowd crown
    cycle daily dance delay depth diary dirty dozen draft drama dream dress drink drive eager eagle early earth
    eight elbow empty enemy enjoy enter equal error event every exact exist extra fable faith false favor fence
    fever field fifth fight final first flame flash fleet floor flour focus force forty frame fresh front fruit
    giant glass globe glove grace grade grain grand grape grass great green group guard guess guest guide happy
    heart heavy honey horse hotel house human humor ideal image index inner issue jelly jewel joint judge juice
    knife known label labor large later laugh layer learn lemon level light limit local lucky lunch magic major
    maple march match mayor metal minor model money month moral motor mount mouse mouth movie music night noble
    noise north novel nurse ocean offer olive onion opera orbit order other owner paint panel paper party peace
    pearl phone photo piano pilot pitch pizza place plain plane plant plate point pound power press price pride
    prize proof proud queen quick quiet radio raise range rapid ready reply right river robin robot rough round
    route royal salad scale scene score sense serve shade shape share sharp sheep shelf shell shirt shore short
    sight skill sleep slice slope small smart smile smoke solid sound south space spare spice spoon sport staff
    stage stair stamp start steam steel stone storm story sugar sunny table taste teach thank theme tiger title
    toast today tooth total touch tower track trade train treat trust truth twist uncle under union urban usual
    valid value video visit vital voice waste watch water whale wheat wheel white whole woman world worth young
    youth zebra
    """.split()  # noqa: SIM905
)


@dataclasses.dataclass
class Wordle:
    """A hidden word and six guesses; each guess earns -1 and the right one 0.

    A guess may be written with or without spaces between its letters. Its marks are `g` for a letter at its place, `y`
    for one elsewhere in the word, and `b` for one that is not in it. LMRL-Gym marks a letter `y` as often as it is
    guessed; `counts=True` marks it only as often as the word has it beside the right ones, as the newspaper's game
    does.
    Words that are not on the list cost a guess and get no marks.
    """

    names: ClassVar[tuple[str, ...]] = EXECUTED

    words: tuple[str, ...] = WORDS
    tries: int = 6
    counts: bool = False

    def __post_init__(self) -> None:
        """Check the words."""
        self.words = tuple(self.words)
        if not self.words or not all(re.fullmatch("[a-z]{5}", word) for word in self.words):
            raise ForageError("Wordle's words have five small letters from a to z, and there is at least one of them.")
        check_whole("Wordle's tries", self.tries, 1, 100)
        self.over = True

    def begin(self, seed: int) -> str:
        """Begin a game."""
        self.word = random.Random(seed).choice(self.words)
        self.guesses, self.over = 0, False
        return "Wordle:"

    def reply(self, text: str) -> Turn:
        """Return the marks of a guess."""
        running(self.over)
        guess = "".join(text.split())
        self.guesses += 1
        known = guess in self.words
        self.told = {"executed": float(known)}
        right = known and guess == self.word
        self.over = right or self.guesses >= self.tries
        return " ".join(marks(guess, self.word, self.counts)) if known else "", 0.0 if right else -1.0, self.over


def marks(guess: str, word: str, counts: bool) -> str:
    """Return a mark for each letter of a guess."""
    left = Counter(b for a, b in zip(guess, word, strict=True) if a != b)
    found = []
    for a, b in zip(guess, word, strict=True):
        if a == b:
            found.append("g")
        elif (left[a] > 0) if counts else (a in word):
            found.append("y")
            left[a] -= 1
        else:
            found.append("b")
    return "".join(found)
