"""Tic-tac-toe against an enumeration of every game, and perfect play against known facts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.spaces import MASK, PRESENT
from forage.environments import make, spec_of
from forage.environments.boards.solve import CELLS, POWERS, Perfect, best_moves, value
from forage.environments.boards.tic_tac_toe import LINES, TicTacToeState
from forage.environments.checking import check_environment

GAME = make("boards:TicTacToe")
KEY = jax.random.key(0)


def winner(board):
    """Return the player of a full line, 1 or 2; 0 if there is none."""
    return next((int(board[a]) for a, b, c in LINES if board[a] and board[a] == board[b] == board[c]), 0)


def enumerate_positions():
    """Return each reachable board's number of games that lead through it as nodes of the tree, and those that end."""
    level, counts, ended = {(0,) * CELLS: 1}, {}, {0: 0, 1: 0, 2: 0}
    for _ in range(CELLS + 1):
        after = {}
        for board, ways in level.items():
            counts[board] = ways
            if winner(board) or all(board):
                ended[winner(board)] += ways
                continue
            player = 1 if board.count(1) == board.count(2) else 2
            for cell in range(CELLS):
                if not board[cell]:
                    new = (*board[:cell], player, *board[cell + 1 :])
                    after[new] = after.get(new, 0) + ways
        level = after
    return counts, ended


BOARDS, GAMES = enumerate_positions()


def states(boards):
    marks = jnp.stack([boards == 1, boards == 2], 1)
    return TicTacToeState(marks, jnp.asarray(marks.sum((1, 2)) % 2, jnp.int32))


def test_the_enumeration_finds_the_known_numbers():
    assert len(BOARDS) == 5478
    assert GAMES == {0: 46_080, 1: 131_184, 2: 77_904} and sum(GAMES.values()) == 255_168


@pytest.mark.thorough
def test_every_move_in_every_position():
    check_environment(GAME, "boards:TicTacToe")
    open_boards = np.array([board for board in BOARDS if not winner(board) and not all(board)])
    boards, cells = np.repeat(open_boards, CELLS, 0), np.tile(np.arange(CELLS), len(open_boards))
    before = states(jnp.asarray(boards))
    mover = np.asarray(before.turn)
    # What the one that waits says is not heard.
    actions = np.where(np.arange(2) == mover[:, None], cells[:, None], 8 - cells[:, None])
    after, step = jax.device_get(jax.vmap(GAME.step, (0, 0, None))(before, jnp.asarray(actions), KEY))
    legal = boards[np.arange(len(boards)), cells] == 0
    expected = boards.copy()
    expected[np.arange(len(boards))[legal], cells[legal]] = mover[legal] + 1
    found = after.marks[:, 0] + 2 * after.marks[:, 1]
    np.testing.assert_array_equal(found, expected)
    assert {tuple(map(int, board)) for board in found} | {(0,) * CELLS} == set(BOARDS)
    won = np.array([winner(board) for board in expected])
    outcome = np.where(legal, (won > 0).astype(float), -1.0)
    np.testing.assert_array_equal(step.reward[np.arange(len(mover)), mover], outcome)
    np.testing.assert_array_equal(step.reward.sum(1), 0)
    over = ~legal | (won > 0) | (expected > 0).all(1)
    np.testing.assert_array_equal(step.terminated, np.stack([over, over], 1))
    assert not step.truncated.any()
    # What both see: their own marks first, who moves, and what is free.
    for player in (0, 1):
        shown, moves = step.observation["observation"][:, player], after.turn == player
        np.testing.assert_array_equal(shown[:, :9], expected == player + 1)
        np.testing.assert_array_equal(shown[:, 9:18], expected == 2 - player)
        np.testing.assert_array_equal(shown[:, 18], moves)
        np.testing.assert_array_equal(step.observation[PRESENT][:, player], moves)
        mask = np.where(moves[:, None], expected == 0, np.arange(9) == 0)
        np.testing.assert_array_equal(step.observation[MASK][:, player], mask)


def play(first, second, games=2000):
    """Return the first player's returns of games between two functions (observation, key) -> action."""

    def game(key):
        def turn(carry, key):
            state, shown, over, total = carry
            keys = jax.random.split(key)
            seen = [jax.tree.map(lambda x, i=i: x[i], shown) for i in (0, 1)]
            action = jnp.stack([first(seen[0], keys[0]), second(seen[1], keys[1])])
            state, step = GAME.step(state, action, key)
            total = total + jnp.where(over, 0.0, step.reward[0])
            return (state, step.observation, over | step.terminated[0], total), None

        start = (*GAME.reset(key), jnp.bool_(False), jnp.float32(0))
        return jax.lax.scan(turn, start, jax.random.split(key, CELLS))[0][2:]

    over, total = jax.device_get(jax.jit(jax.vmap(game))(jax.random.split(KEY, games)))
    assert over.all()
    return total


def draw(observation, key):
    mask = observation[MASK] != 0
    return jnp.argmax(jnp.where(mask, jax.random.uniform(key, mask.shape), -1)).astype(jnp.int32)


def perfect(observation, key):
    return Perfect().act((), observation, spec_of(GAME, "game"), key)[0]


def test_perfect_play():
    start, corner = (0,) * CELLS, (2, *(0,) * 8)
    table = best_moves()
    number = lambda board: int(np.dot(board, POWERS))  # noqa: E731
    assert value(start) == 0 and table[number(start)].all()  # every opening draws
    # A corner is answered in the centre alone; a side, and not the corner opposite, in places that are known too.
    np.testing.assert_array_equal(np.flatnonzero(table[number(corner)]), [4])
    # Two in a row are completed, and where one cannot win they are blocked.
    np.testing.assert_array_equal(np.flatnonzero(table[number((1, 1, 0, 2, 2, 0, 0, 0, 0))]), [2])
    np.testing.assert_array_equal(np.flatnonzero(table[number((2, 2, 0, 0, 1, 0, 0, 0, 0))]), [2])
    assert (play(perfect, perfect) == 0).all()
    for returns in (play(perfect, draw), -play(draw, perfect)):
        assert (returns >= 0).all() and returns.mean() > 0.7


def test_games_at_random_end_as_often_as_they_should():
    # Each move as likely: the first player wins 58.5 % of games, the second 28.8 %.
    returns = play(draw, draw, 20_000)
    assert (returns == 1).mean() == pytest.approx(0.585, abs=0.011)
    assert (returns == -1).mean() == pytest.approx(0.288, abs=0.011)


def test_a_picture():
    state = states(jnp.asarray([[1, 2, 0, 0, 1, 0, 0, 0, 2]]))
    picture = GAME.render(jax.tree.map(lambda x: x[0], state))
    assert picture.shape == (240, 240, 3) and len(np.unique(picture.reshape(-1, 3), axis=0)) >= 4
