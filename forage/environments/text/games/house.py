"""LMRL-Gym's text navigation: carry an object through a house to its place."""

from __future__ import annotations

import dataclasses
import random
from typing import ClassVar

from forage.environments.text.games.game import EXECUTED, Turn, check_whole, one_of, running

OPPOSITE = {"north": "south", "south": "north", "east": "west", "west": "east"}
STEPS = {"north": (-1, 0), "south": (1, 0), "east": (0, 1), "west": (0, -1)}
ROOMS = ("bedroom", "office", "bathroom", "living room", "kitchen", "dining room", "garden", "backyard")
# Rooms, the direction from the first to the second: LMRL-Gym's house.
PASSAGES = (
    ("bedroom", "west", "living room"),
    ("living room", "west", "dining room"),
    ("dining room", "west", "kitchen"),
    ("kitchen", "north", "garden"),
    ("living room", "south", "office"),
    ("office", "east", "bathroom"),
    ("bedroom", "south", "bathroom"),
    ("kitchen", "west", "backyard"),
)
# What stands where, whether it can be closed, and what lies on or in it.
FURNITURE = (
    ("bedroom", "table", False, ("bowl",)),
    ("office", "chest", True, ("utensils",)),
    ("living room", "table", False, ("stale food", "fresh food")),
    ("dining room", "table", False, ("coffee cup", "plate")),
    ("kitchen", "fridge", True, ("fruit",)),
)
FOOD = ("stale food", "fresh food", "fruit")


@dataclasses.dataclass
class Furniture:
    """A piece of furniture: a table with objects on it, or a container for them."""

    name: str
    closes: bool
    open: bool
    things: list[str]


@dataclasses.dataclass
class House:
    """A house of rooms; the stale food on the living room's table belongs into the fridge.

    The quest ends with the food in the closed fridge and a reward of 1; eating the food loses. All other rewards are 0.
    LMRL-Gym lets TextWorld write the descriptions; here they are our own, with the same rooms, passages, objects and
    commands. With `sees="all"` the player reads its room and the room's content; with `sees="commands"` only the result
    of its command and the possible commands (LMRL-Gym's partial view). A generated house has another plan for each
    seed, and another object and container.
    """

    names: ClassVar[tuple[str, ...]] = EXECUTED

    layout: str = "lmrl"  # LMRL-Gym's house, or "generated"
    sees: str = "all"  # or "commands"
    horizon: int = 50  # commands, our own limit

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("A house's layout", self.layout, ("lmrl", "generated"))
        one_of("What a house's player sees", self.sees, ("all", "commands"))
        check_whole("A house's horizon", self.horizon, 1, 10_000)
        self.over = True

    def begin(self, seed: int) -> str:
        """Begin a game in a random room."""
        draw = random.Random(seed)
        self.ways: dict[str, dict[str, str]] = {room: {} for room in ROOMS}
        for here, direction, there in PASSAGES if self.layout == "lmrl" else tree_house(draw):
            self.ways[here][direction] = there
            self.ways[there][OPPOSITE[direction]] = here
        self.furniture = {room: Furniture(name, shut, not shut, list(has)) for room, name, shut, has in FURNITURE}
        self.thing, source, goal = "stale food", "living room", "kitchen"
        if self.layout == "generated":
            source, goal = draw.choice(["bedroom", "living room", "dining room"]), draw.choice(["office", "kitchen"])
            self.thing = draw.choice(self.furniture[source].things)
        self.goal = self.furniture[goal]
        self.room, self.held = draw.choice(ROOMS), []
        self.turns, self.over = 0, False
        place = self.furniture[source].name
        quest = f"Put the {self.thing} from the {place} in the {source} into the {self.goal.name} in the {goal}"
        return f"{quest}, and close it.\n{self.scene()}"

    def scene(self) -> str:
        """Return the description of the room and the possible commands."""
        commands = f"Commands: {', '.join(self.commands())}."
        if self.sees == "commands":
            return commands
        said = [f"You are in the {self.room}."]
        if piece := self.furniture.get(self.room):
            if piece.closes and not piece.open:
                said.append(f"There is a closed {piece.name}.")
            else:
                where, having = ("in" if piece.closes else "on"), " and ".join(f"the {one}" for one in piece.things)
                said.append(f"There is a {piece.name}; {where} it: {having or 'nothing'}.")
        said.append(f"You carry {' and '.join(f'the {one}' for one in self.held) or 'nothing'}.")
        return f"{' '.join(said)} {commands}"

    def commands(self) -> list[str]:
        """Return all commands that are possible now."""
        found = [f"go {direction}" for direction in sorted(self.ways[self.room])]
        if piece := self.furniture.get(self.room):
            if piece.closes:
                found.append(f"{'close' if piece.open else 'open'} {piece.name}")
            if piece.open:
                found += [f"take {one} from {piece.name}" for one in piece.things]
                found += [
                    f"{'insert' if piece.closes else 'put'} {one} {'into' if piece.closes else 'on'} {piece.name}"
                    for one in self.held
                ]
        return found + [f"eat {one}" for one in self.held if one in FOOD]

    def reply(self, text: str) -> Turn:
        """Carry out a command."""
        running(self.over)
        self.turns += 1
        command = " ".join(text.split())
        possible = command in self.commands()
        self.told = {"executed": float(possible)}
        done = self.act(command) if possible else "That is not possible."
        lost = command == f"eat {self.thing}" and self.thing not in self.held and done != "That is not possible."
        won = self.goal.closes and not self.goal.open and self.thing in self.goal.things
        self.over = won or lost or self.turns >= self.horizon
        if self.over:
            return f"{done} {'You have done it.' if won else 'You have not done it.'}", float(won), True
        return f"{done}\n{self.scene()}", 0.0, False

    def act(self, command: str) -> str:
        """Carry out a possible command, and return its result as text."""
        verb, _, rest = command.partition(" ")
        piece = self.furniture.get(self.room)
        if verb == "go":
            self.room = self.ways[self.room][rest]
            return f"You go {rest}."
        if verb == "eat":
            self.held.remove(rest)
            return f"You eat the {rest}."
        assert piece is not None  # as all other commands need one
        if verb in ("open", "close"):
            piece.open = verb == "open"
            return f"You {verb} the {piece.name}."
        thing = rest.removesuffix(f" {piece.name}").rpartition(" ")[0]
        giver, taker = (piece.things, self.held) if verb == "take" else (self.held, piece.things)
        giver.remove(thing)
        taker.append(thing)
        return f"You {verb} the {thing}."


def tree_house(draw: random.Random) -> list[tuple[str, str, str]]:
    """Return the passages of a house of rooms on a grid, each next to an earlier one."""
    rooms = draw.sample(ROOMS, len(ROOMS))
    at = {(0, 0): rooms[0]}
    passages = []
    for room in rooms[1:]:
        places = [(y, x, d) for y, x in at for d, (a, b) in STEPS.items() if (y + a, x + b) not in at]
        y, x, direction = draw.choice(places)
        at[y + STEPS[direction][0], x + STEPS[direction][1]] = room
        passages.append((at[y, x], direction, room))
    return passages
