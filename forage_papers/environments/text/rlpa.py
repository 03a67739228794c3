"""RLPA: a user with a hidden profile, which each reply infers and answers to.

Zhao, Sui, Hu, Guo, Liu, Li, Zhao, Qin, Liu (2025), "Teaching Language Models to Evolve with Users: Dynamic Profile
Modeling for Personalized Alignment", arXiv 2505.15456, by the authors' program, github.com/XingYuSSS/RLPA
(`multi_turn_rfn.py`). Each turn the policy writes

    <profile>        and then        <response>
    - name: value                    its reply
    </profile>                       </response>

and is paid, for that turn,

    F1 of the profile's points and the user's + 1 if the user would talk on, else 0;    0 for any other form

with precision over the points that it wrote and recall over all that the user has, the ones that were not told yet
included. Differences: there models play the user, count the points that agree, and judge the response by five criteria
of which none may fail; here all three are programs. The user tells a wish where it is asked for, one a turn; points
agree where name and value do; and the user talks on where a response has at most `longest` words, repeats none before,
and either asks for a wish that was not told or names a value that the user has, and none that the user has not. There
the best of four replies is the one that the conversation goes on from, as with `at-grpo --starts.onward best`, and PPO
learns of each reply alone.
"""

from __future__ import annotations

import dataclasses
import random
import re
from typing import ClassVar

from forage.environments.text.games.game import EXECUTED, Turn, check_whole, running
from forage.environments.text.games.user import BOOKING, Wish

FORM = re.compile(r"<profile>\n(.*?)</profile>\s*<response>\n(.*?)</response>", re.DOTALL)
OPENING = "Hello."
DULL = "Hm."


@dataclasses.dataclass
class RLPA:
    """A talk with a user whose profile is hidden; rewards are for inferring it and for answering to it."""

    names: ClassVar[tuple[str, ...]] = (*EXECUTED, "profile", "response")

    slots: tuple[Wish, ...] = BOOKING
    rounds: int = 5  # texts of a talk; 10 in the paper
    longest: int = 30  # words of a response that the user still reads

    def __post_init__(self) -> None:
        """Check the sizes."""
        self.slots = tuple(self.slots)
        check_whole("The number of rounds", self.rounds, 1, 1000)
        check_whole("The length of a response", self.longest, 1, 1000)
        self.tries, self.over = self.rounds, True

    def begin(self, seed: int) -> str:
        """Begin a talk, with a newly drawn profile."""
        draw = random.Random(seed)
        self.profile = {slot.name: draw.choice(slot.values) for slot in self.slots}
        self.told_slots: list[str] = []
        self.said: list[str] = []
        self.turn, self.over = 0, False
        return OPENING

    def reply(self, text: str) -> Turn:
        """Return the user's next words and the reward of a turn."""
        running(self.over)
        self.turn += 1
        self.over = self.turn >= self.rounds
        found = FORM.search(text)
        if found is None:
            self.told = {"executed": 0.0, "profile": 0.0, "response": 0.0}
            return DULL, 0.0, self.over
        points, response = self.agreement(found[1]), found[2].strip()
        liked = self.likes(response)
        self.told = {"executed": 1.0, "profile": points, "response": liked}
        self.said.append(response)
        asked = next((slot for slot in self.slots if self.asks(slot, response)), None)
        if asked is None:
            return DULL, points + liked, self.over
        self.told_slots.append(asked.name)
        return asked.says.format(self.profile[asked.name]), points + liked, self.over

    def agreement(self, written: str) -> float:
        """Compute the F1 of the points of a profile: twice those that agree, over those of both."""
        lines = [line.strip() for line in written.splitlines() if line.strip()]
        right = {f"- {name}: {value}" for name, value in self.profile.items()}
        return 2 * len(right & set(lines)) / (len(right) + len(lines))

    def asks(self, slot: Wish, response: str) -> bool:
        """Return whether a response asks for a slot that is still hidden."""
        return slot.name not in self.told_slots and not words_of(response).isdisjoint(slot.asked)

    def likes(self, response: str) -> float:
        """Return 1 if the user would talk on after a response, else 0."""
        words = words_of(response)
        mine = {value.lower() for value in self.profile.values()}
        others = {value.lower() for slot in self.slots for value in slot.values} - mine
        asking = any(self.asks(slot, response) for slot in self.slots)
        dull = not response or len(response.split()) > self.longest or response in self.said
        return float(not dull and (asking or (bool(words & mine) and words.isdisjoint(others))))

    def expert(self) -> str:
        """Return the profile so far, and a question for the next slot or a value of the profile."""
        points = "".join(f"- {name}: {self.profile[name]}\n" for name in self.told_slots)
        left = next((slot for slot in self.slots if slot.name not in self.told_slots), None)
        values = " ".join(self.profile[name] for name in self.told_slots[: self.turn - len(self.slots) + 1])
        response = f"{left.asked[0]}?" if left else f"So {values}."
        return f"<profile>\n{points}</profile>\n<response>\n{response}\n</response>"


def words_of(text: str) -> set[str]:
    """Return the words and times of a text, in small letters."""
    return set(re.findall(r"[a-z]+|\d+:\d+", text.lower()))
