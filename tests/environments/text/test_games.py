"""Games in text, each played by hand."""

import copy
import random
from collections import deque

import pytest

from forage.core.errors import ForageError
from forage.environments.text import games
from forage.environments.text.games.endgame import Endgame
from forage.environments.text.games.game import Game
from forage.environments.text.games.house import House
from forage.environments.text.games.maze import MOVES, Maze
from forage.environments.text.games.user import BOOKING, ScriptedUser, Wish
from forage.environments.text.games.wordle import WORDS, Wordle, marks

NOISE = ("", " ", "move left", "go west", "Qd4", "c r a n e", "Settled: day=Friday", "day?", "\x00\ud800", "x" * 999)


@pytest.mark.parametrize("name", games.GAMES)
def test_a_game_is_the_same_for_the_same_seed_and_can_be_copied(name):
    assert isinstance(games.make_game(name), Game)
    one, other, draw = games.make_game(name), games.make_game(name), random.Random(0)
    for seed in range(3):
        assert one.begin(seed) == other.begin(seed)
        ended = False
        for turn in range(200):
            said = draw.choice(NOISE)
            branch = copy.deepcopy(one) if turn == 2 else None
            answer = one.reply(said)
            assert answer == other.reply(said)
            assert branch is None or branch.reply(said) == answer
            text, reward, ended = answer
            assert isinstance(text, str) and isinstance(reward, float) and isinstance(ended, bool)
            if ended:
                break
        assert ended
        with pytest.raises(ForageError, match="The game is over"):
            one.reply("again")


# Maze


def test_the_u_maze_by_hand():
    maze = Maze("u")
    first = "The goal is at position 3, 3. Your current position is at position 3, 1. "
    assert maze.begin(0) == first + "There are walls to your right, to your left, below you."
    assert maze.reply("move left") == (first + "There are walls to your right, to your left, below you.", -1.0, False)
    assert maze.reply("go up")[1] == -4.0
    second = "The goal is at position 3, 3. Your current position is at position 2, 1. "
    assert maze.reply("move up\n") == (second + "There are walls to your right, to your left.", -1.0, False)
    for move in ("up", "right", "right", "down"):
        assert maze.reply(f"move {move}")[1:] == (-1.0, False)
    assert maze.reply("move down") == ("Success", 0.0, True)


def test_the_double_t_maze_shows_walls_alone_and_ends_after_its_horizon():
    maze = Maze(sees="walls", horizon=2)
    assert maze.begin(0) == "There are walls to your left, above you, below you."
    assert maze.reply("move right") == ("There are walls above you, below you.", -1.0, False)
    assert maze.reply("move right") == ("There is a wall above you.", -1.0, False)
    assert maze.reply("move right") == ("Failure", -1.0, True)


def test_the_double_t_maze_is_solved_in_its_shortest_way():
    maze = Maze()
    assert "position 8, 6. Your current position is at position 1, 1." in maze.begin(0)
    moves = ["right"] * 2 + ["down"] * 4 + ["right"] * 3 + ["down"] * 3
    rewards = [maze.reply(f"move {move}")[1] for move in moves]
    assert rewards == [-1.0] * 11 + [0.0]
    assert len({Maze(start="random").begin(seed) for seed in range(30)}) > 10
    assert Maze("generated", size=6).begin(0).startswith("The goal is at position ")
    assert ", 1 1" in " ".join(Maze("generated", size=6).begin(seed) for seed in range(20))  # digits stand apart


@pytest.mark.parametrize("seed", range(5))
def test_a_generated_maze_is_a_tree_and_can_be_solved(seed):
    maze = Maze("generated", size=5)
    maze.begin(seed)
    free = set(maze.free())
    edges = sum((y + a, x + b) in free for y, x in free for a, b in ((0, 1), (1, 0)))
    came = {maze.place: ()}
    queue = deque([maze.place])
    while queue:
        y, x = queue.popleft()
        for move, (a, b) in MOVES.items():
            if (y + a, x + b) in free - set(came):
                came[y + a, x + b] = (*came[y, x], move)
                queue.append((y + a, x + b))
    assert set(came) == free and edges == len(free) - 1
    assert [maze.reply(move) for move in came[maze.goal]][-1] == ("Success", 0.0, True)


# Wordle


@pytest.mark.parametrize(
    ("guess", "word", "counts", "expected"),
    [
        ("crane", "crane", False, "ggggg"),
        ("nacre", "crane", False, "yyyyg"),
        ("blimp", "crane", False, "bbbbb"),
        ("eerie", "crane", False, "yyybg"),
        ("eerie", "crane", True, "bbybg"),
        ("speed", "erase", True, "ybyyb"),
        ("geese", "eerie", True, "bgybg"),
    ],
)
def test_marks_by_hand(guess, word, counts, expected):
    assert marks(guess, word, counts) == expected


def test_wordle_by_hand():
    game = Wordle(("crane", "nacre", "crash"))
    game.begin(0)
    game.word = "crane"
    assert game.reply("c r a s h\n") == ("g g g b b", -1.0, False)
    assert game.reply("zebra") == ("", -1.0, False)
    assert game.reply("crane") == ("g g g g g", 0.0, True)
    game.begin(0)
    game.word = "crane"
    assert [game.reply("crash")[2] for _ in range(6)] == [False] * 5 + [True]
    assert len(set(WORDS)) == len(WORDS) > 300 and Wordle().begin(1) == "Wordle:"


# House


def test_the_house_by_hand():
    house = House()
    first = house.begin(0)
    quest = "Put the stale food from the table in the living room into the fridge in the kitchen, and close it."
    assert first.startswith(f"{quest}\nYou are in the ")
    house.room = "living room"
    assert house.scene() == (
        "You are in the living room. There is a table; on it: the stale food and the fresh food. You carry nothing. "
        "Commands: go east, go south, go west, take stale food from table, take fresh food from table."
    )
    assert house.reply("take the food")[0].startswith("That is not possible.\nYou are in the living room.")
    for command in ("take stale food from table", "go west", "go west", "open fridge", "insert stale food into fridge"):
        text, reward, ended = house.reply(command)
        assert not text.startswith("That") and (reward, ended) == (0.0, False)
    assert "There is a fridge; in it: the fruit and the stale food. You carry nothing." in text
    assert house.reply("close fridge") == ("You close the fridge. You have done it.", 1.0, True)


def test_who_eats_the_food_has_lost():
    house = House(sees="commands")
    house.begin(3)
    house.room = "living room"
    assert house.reply("take stale food from table")[0] == (
        "You take the stale food.\nCommands: go east, go south, go west, take fresh food from table, "
        "put stale food on table, eat stale food."
    )
    assert house.reply("eat stale food") == ("You eat the stale food. You have not done it.", 0.0, True)


@pytest.mark.parametrize("seed", range(4))
def test_a_generated_house_can_be_solved(seed):
    house = House("generated", horizon=200)
    quest = house.begin(seed).partition("\n")[0]
    assert sum(len(ways) for ways in house.ways.values()) == 14  # a tree of eight rooms, each passage from both sides
    source = next(room for room, piece in house.furniture.items() if house.thing in piece.things)
    goal = next(room for room, piece in house.furniture.items() if piece is house.goal)
    assert f" in the {source} into the " in quest and quest.endswith(f" in the {goal}, and close it.")

    def walk(to):
        came = {house.room: ()}
        queue = deque([house.room])
        while queue:
            room = queue.popleft()
            for direction, other in house.ways[room].items():
                if other not in came:
                    came[other] = (*came[room], f"go {direction}")
                    queue.append(other)
        for command in came[to]:
            assert house.reply(command)[0].startswith("You go")

    walk(source)
    house.reply(f"take {house.thing} from table")
    walk(goal)
    name = house.goal.name
    house.reply(f"open {name}")
    house.reply(f"insert {house.thing} into {name}")
    assert house.reply(f"close {name}")[1:] == (1.0, True)


# Endgame


def position(piece, king, other, black, **options):
    game = Endgame(piece, **options)
    game.begin(0)
    squares = [(ord(name[0]) - ord("a"), int(name[1]) - 1) for name in (king, other, black)]
    game.king, game.other, game.black = squares
    return game


def test_an_endgame_is_shown_as_fen():
    game = position("Q", "c3", "h1", "e8")
    assert game.fen() == "4k3/8/8/8/8/2K5/8/7Q w - - 0 1"
    assert game.reply("Qh7")[0].endswith(" w - - 2 2")


@pytest.mark.parametrize(
    ("piece", "places", "move", "expected"),
    [
        ("Q", ("f6", "a7", "h8"), "Qh7", ("Black has taken the piece: a draw.", 0.0, True)),
        ("Q", ("f6", "a7", "h8"), "Qg7#", ("Checkmate.", 1.0, True)),
        ("Q", ("f6", "a7", "h8"), "Q g 1", None),
        ("Q", ("f7", "a6", "h8"), "Qg6", ("Stalemate.", 0.0, True)),
        ("Q", ("c6", "b1", "a8"), "Qb7", ("Checkmate.", 1.0, True)),
        ("Q", ("a1", "b1", "a8"), "Qb7", ("Black has taken the piece: a draw.", 0.0, True)),
        ("R", ("g6", "a1", "h8"), "Ra8+", ("Checkmate.", 1.0, True)),
        ("R", ("g6", "a1", "h8"), "Rb2", None),
        ("R", ("b6", "a1", "a8"), "Ra7", None),
        ("Q", ("c6", "b1", "a8"), "Kb7", None),
        ("Q", ("c6", "b1", "a8"), "Qi9", None),
    ],
)
def test_endgames_by_hand(piece, places, move, expected):
    game = position(piece, *places)
    answer = game.reply(move)
    if expected is None:
        illegal = answer[1:] == (-1.0, False) and answer[0].endswith("That is no legal move.")
        assert illegal == (move in ("Rb2", "Kb7", "Qi9"))
    else:
        assert answer == expected


def test_a_rook_mates_from_a_box():
    """White's king at f7 and the rook on the g file leave the black one the h file, at last without a square."""
    game = position("R", "f7", "g1", "h7")
    assert game.escapes() == [(7, 5), (7, 7)]  # h6 and h8; g6, g7 and g8 are guarded
    game = position("R", "f7", "g6", "h8")
    assert game.escapes() == [(7, 6)]
    assert game.reply("Rg5")[0].startswith("8/5K1k/8/6R1/8/8/8/8 w")
    assert game.reply("Rh5+") == ("Checkmate.", 1.0, True)


@pytest.mark.parametrize("opponent", ["runs", "random"])
def test_starts_of_endgames_are_legal_and_they_end(opponent):
    for seed in range(20):
        game = Endgame(opponent=opponent, horizon=3)
        game.begin(seed)
        assert len({game.king, game.other, game.black}) == 3 and not game.attacked(game.black) and game.escapes()
        assert [game.reply("?")[2] for _ in range(3)] == [False, False, True]


# A user


def test_a_dialogue_by_hand():
    user = ScriptedUser(turn_cost=0.1)
    assert user.begin(0) == "Hello, I would like to book a table."
    wants = dict(user.wants)
    people, day, time, place = (wants[slot.name] for slot in BOOKING)
    assert user.reply("What day and how many?") == (f"We are {people}.", -0.1, False)
    assert user.reply("On which day?") == (f"On {day}.", -0.1, False)
    assert user.reply("WHEN, I asked?") == (f"I told you: On {day}.", -0.1, False)
    assert user.reply("At what time") == (f"At {time}.", -0.1, False)
    assert user.reply("Where?") == (f"We sit {place}.", -0.1, False)
    settled = f"Good.\nSettled: place={place}, people={people}, day={day} , time={time}"
    guess = copy.deepcopy(user)
    assert user.reply(settled) == ("Thank you, goodbye.", 1.0, True)
    assert guess.reply(f"Settled: day={day}, time=now") == ("That is not what I said, goodbye.", 0.25, True)


def test_a_user_who_is_not_asked_leaves():
    user = ScriptedUser(patience=2)
    user.begin(0)
    assert user.reply("Hello!") == ("I did not understand that.", 0.0, False)
    assert user.reply("Hello?") == ("This takes too long, goodbye.", 0.0, True)
    user.begin(0)
    assert user.reply("Settled: pets=two") == ("I do not know what you mean, goodbye.", 0.0, True)


def test_a_user_changes_his_mind_once_it_was_told():
    user = ScriptedUser(changes=1, told=4)
    first = user.begin(1)
    name = next(iter(user.later))
    was, becomes = user.wants[name], user.later[name]
    assert was in first and was != becomes
    said = user.reply("What time?")[0]
    assert said == f"I told you: At {user.wants['time']}. Sorry, I changed my mind about the {name}: {becomes}."
    settled = ", ".join(f"{slot}={value}" for slot, value in user.wants.items())
    assert user.wants[name] == becomes and user.reply(f"Settled: {settled}")[1] == 1.0


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: games.make_game("mazes"), "Did you mean 'maze'"),
        (lambda: games.make_game("maze", depth=3), "cannot be made of"),
        (lambda: Maze("triple-t"), "A maze's layout is one of double-t|A maze's layout is one of u"),
        (lambda: Maze(horizon=0), "A maze's horizon is a whole number from 1"),
        (lambda: Wordle(("four",)), "five small letters"),
        (lambda: House(sees="nothing"), "one of all, commands, not 'nothing'"),
        (lambda: Endgame("B"), "An endgame's piece is one of Q, R, not 'B'"),
        (lambda: ScriptedUser(told=5), "slots told at first is a whole number from 0 to 4"),
        (lambda: ScriptedUser((BOOKING[0], BOOKING[0])), "different names"),
        (lambda: ScriptedUser((Wish("a", ("A",), ("1", "2")),)), "of small letters"),
        (lambda: ScriptedUser((Wish("a", ("a",), ("1",)),)), "at least two values"),
        (lambda: ScriptedUser((Wish("a", ("a",), ("1", "2,3")),)), "has no comma"),
        (lambda: ScriptedUser(turn_cost=2.0), "A turn costs from 0 to 1"),
    ],
)
def test_what_cannot_be_a_game_is_refused_in_one_sentence(make, says):
    with pytest.raises(ForageError, match=says):
        make()
