"""Memory and credit probes: the best possible return is reached by a policy written by hand, and not without memory."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forage.core.types import ForageError
from forage.environments import make
from forage.environments.memory.autoencode import Autoencode
from forage.environments.memory.cards import CardsState
from forage.environments.memory.discounting_chain import PAYDAYS, DiscountingChain
from forage.environments.memory.ids import ENTRIES
from forage.environments.memory.key_to_door import MOVES, WALLS, KeyToDoor, cells_of
from forage.environments.memory.memory_chain import MemoryChain
from forage.environments.memory.repeat_previous import RepeatPrevious
from forage.environments.memory.tmaze import TMaze
from forage.environments.memory.umbrella import Umbrella

pytestmark = pytest.mark.thorough

KEY = jax.random.key(0)
NONE = jnp.zeros((), jnp.int32)


def play(env, policy, state, observation, memory, steps, key=KEY):
    """The return of `policy(memory, observation, time) -> (memory, action)`."""

    def advance(carry, inputs):
        state, observation, memory, over = carry
        time, key = inputs
        memory, action = policy(memory, observation, time)
        state, step = env.step(state, action, key)
        reward = jnp.where(over, 0.0, step.reward)
        return (state, step.observation, memory, over | step.terminated), reward

    inputs = (jnp.arange(steps), jax.random.split(key, steps))
    (_, _, _, over), rewards = jax.lax.scan(advance, (state, observation, memory, jnp.zeros((), bool)), inputs)
    return rewards.sum(), over


# T-maze


def tmaze_memory(env):
    """Reads the sign, walks to the junction, and turns by the sign."""

    def policy(sign, observation, time):
        sign = jnp.where((observation[0] == 0) & (observation[1] != 0), observation[1].astype(jnp.int32), sign)
        turn = jnp.where(sign > 0, 1, 3)
        back = time < env.oracle_length
        return sign, jnp.where(back, 2, jnp.where(observation[0] == 1, turn, 0))

    return policy


@pytest.mark.parametrize("fields", [{}, {"oracle_length": 1}, {"oracle_length": 3}, {"delay": 4}, {"penalty": 0.0}])
def test_tmaze_best_return_with_memory(fields):
    env = TMaze(corridor_length=5, **fields)

    def one(key):
        state, observation = env.reset(key)
        return play(env, tmaze_memory(env), state, observation, NONE, env.horizon)

    returns, over = jax.jit(jax.vmap(one))(jax.random.split(KEY, 16))
    np.testing.assert_allclose(returns, 1.0, atol=1e-6)
    assert over.all()


@pytest.mark.parametrize("oracle_length", [0, 1])
def test_tmaze_best_return_without_memory(oracle_length):
    """All 4^6 deterministic policies over the six observations there are: the best earns 1/2 on average."""
    env = TMaze(corridor_length=3, oracle_length=oracle_length)
    policies = jnp.array(list(itertools.product(range(4), repeat=6)))

    def without_memory(table):
        def policy(memory, observation, time):
            return memory, table[(3 * observation[0] + observation[1] + 1).astype(jnp.int32)]

        return policy

    def both_goals(table):
        returns = []
        for goal in (-1, 1):
            state, _ = env.reset(KEY)
            state, observation = env._look(state._replace(goal=jnp.int32(goal), read=jnp.zeros((), bool)))
            returns.append(play(env, without_memory(table), state, observation, NONE, env.horizon)[0])
        return (returns[0] + returns[1]) / 2

    means = jax.jit(jax.vmap(both_goals))(policies)
    assert means.max() == 0.5
    assert means.min() < -0.9


def test_tmaze_step_by_step():
    """The active maze with a corridor of 2: start at x = 1, sign at 0, junction at 3, 5 steps."""
    env = TMaze(corridor_length=2, oracle_length=1)
    assert (env.horizon, env.memory_length, env.credit_length) == (5, 3, 5)
    state, observation = env.reset(KEY)
    state = state._replace(goal=jnp.int32(-1))
    assert observation.tolist() == [0, 0]
    seen, rewards = [], []
    for action in (1, 2, 0, 0, 3):  # bumps into a wall, reads the sign late, arrives late
        state, step = env.step(state, jnp.int32(action), KEY)
        seen.append(step.observation.tolist())
        rewards.append(float(step.reward))
    assert seen == [[0, 0], [0, -1], [0, 0], [0, 0], [0, 0]]
    assert rewards == [0, -0.5, -0.5, -0.5, 0]
    # The sign shows once.
    state, _ = env.reset(KEY)
    for action in (2, 0, 2):
        state, step = env.step(state, jnp.int32(action), KEY)
    assert int(state.x) == 0 and step.observation.tolist() == [0, 0]


def test_tmaze_lengths_can_be_batched():
    lengths = jnp.array([2, 5, 9])

    def one(length):
        env = TMaze(corridor_length=length)
        state, observation = env.reset(KEY)
        return play(env, tmaze_memory(env), state, observation, NONE, 10)

    returns, over = jax.jit(jax.vmap(one))(lengths)
    np.testing.assert_allclose(returns, 1.0, atol=1e-6)
    assert over.all()


# Cards

ORDERS = jnp.array(list(itertools.permutations(range(4))), jnp.int32)
"""Every order of a deck with one card of each suit."""

TABLES = jnp.array(list(itertools.product(range(4), repeat=4)))
"""Every way to answer to the four suits without memory."""


def over_all_decks(env, policy, memory=NONE):
    def one(order):
        state = CardsState(order, jnp.zeros((), jnp.int32))
        return play(env, policy, state, env._observe(state), memory, env.horizon)[0]

    return jax.vmap(one)(ORDERS)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_repeat_previous_best_returns(k):
    env = RepeatPrevious(ranks=1, k=k)

    def remember(memory, observation, time):
        memory = jnp.roll(memory, 1).at[0].set(jnp.argmax(observation).astype(jnp.int32))
        return memory, memory[k - 1]

    with_memory = jax.jit(lambda: over_all_decks(env, remember, jnp.zeros(4, jnp.int32)))()
    np.testing.assert_allclose(with_memory, 1.0, atol=1e-6)

    def mean(table):
        return over_all_decks(env, lambda memory, seen, time: (memory, table[jnp.argmax(seen)])).mean()

    best = jax.jit(jax.vmap(mean))(TABLES).max()
    cards = env.num_cards
    np.testing.assert_allclose(best, 1.0 if k == 1 else 2 * (cards / 4) / (cards - 1) - 1, atol=1e-6)


def test_autoencode_best_returns():
    env = Autoencode(ranks=1)

    def remember(memory, observation, time):
        seen = jnp.argmax(observation[1:]).astype(jnp.int32)
        memory = jnp.where((observation[0] == 1) | (time == 3), jnp.roll(memory, 1).at[0].set(seen), memory)
        reciting = observation[0] == 0
        return jnp.where(reciting, jnp.roll(memory, -1), memory), memory[0]

    with_memory = jax.jit(lambda: over_all_decks(env, remember, jnp.zeros(4, jnp.int32)))()
    np.testing.assert_allclose(with_memory, 1.0, atol=1e-6)

    def mean(table):
        return over_all_decks(env, lambda memory, seen, time: (memory, table[jnp.argmax(seen[1:])])).mean()

    best = jax.jit(jax.vmap(mean))(TABLES).max()
    np.testing.assert_allclose(best, 1.5 / 4 - 0.5, atol=1e-6)


def test_decks_are_whole_and_shuffled():
    for env, length in ((RepeatPrevious(num_decks=2, k=32), 103), (Autoencode(num_decks=2), 207)):
        states, _ = jax.vmap(env.reset)(jax.random.split(KEY, 64))
        suits = np.asarray(states.suits)
        assert env.horizon == length
        assert all((np.bincount(deck) == 26).all() for deck in suits)
        assert len({deck.tobytes() for deck in suits}) == 64


# bsuite's chains


def test_memory_chain_shows_and_asks_once():
    env = MemoryChain(memory_length=4, num_bits=3)
    state, _ = env.reset(KEY)
    state = state._replace(bits=jnp.array([0, 1, 1]), query=jnp.int32(2))
    seen = [env._observe(state).tolist()]
    for time in range(5):
        state, step = env.step(state, jnp.int32(1), KEY)
        seen.append(step.observation.tolist())
        assert float(step.reward) == (1.0 if time == 4 else 0.0) and bool(step.terminated) == (time == 4)
    shown = [-1.0, 1.0, 1.0]
    assert seen[0] == seen[1] == [1.0, 0.0, *shown]
    assert seen[2:] == [[0.75, 0, 0, 0, 0], [0.5, 0, 0, 0, 0], [0.25, 2, 0, 0, 0], [0, 0, 0, 0, 0]]


def test_memory_chain_best_returns():
    """At the last decision all pairs of bits look the same for a given question: half of the answers are right."""
    env = MemoryChain(memory_length=3, num_bits=2)
    decisions, rewards = {}, {}
    for bits in itertools.product((0, 1), repeat=2):
        for query in (0, 1):
            state, _ = env.reset(KEY)
            state = state._replace(bits=jnp.array(bits), query=jnp.int32(query), time=jnp.int32(3))
            decisions.setdefault(query, []).append(env._observe(state).tolist())
            for action in (0, 1):
                reward = float(env.step(state, jnp.int32(action), KEY)[1].reward)
                rewards.setdefault((query, action), []).append(reward)
                assert reward == (1.0 if action == bits[query] else -1.0)  # with memory it is always right
    assert all(one == all_[0] for all_ in decisions.values() for one in all_)
    assert all(np.mean(values) == 0 for values in rewards.values())


def test_umbrella_pays_the_first_choice_at_the_end():
    """With the forecast as the first choice the last reward is 1, for any later actions; otherwise a coin decides."""

    def last(chain_length, heed, key):
        env = Umbrella(chain_length=chain_length, num_distractors=2)
        state, observation = env.reset(key)
        first = jnp.where(heed, observation[0], 1.0)

        def advance(state, inputs):
            time, key = inputs
            action = jnp.where(time == 0, first, 1 - first).astype(jnp.int32)
            state, step = env.step(state, action, key)
            return state, (step.reward, step.terminated)

        return jax.lax.scan(advance, state, (jnp.arange(6), jax.random.split(jax.random.fold_in(key, 1), 6)))[1]

    count = 400
    run = jax.jit(jax.vmap(last, (None, None, 0)))
    for length in (1, 2, 6):
        rewards, terminated = run(length, True, jax.random.split(KEY, count))
        assert (rewards[:, length - 1] == 1).all()
        assert terminated[:, length - 1].all() and not terminated[:, : length - 1].any()
        if length > 1:
            noise = rewards[:, : length - 1]
            assert set(np.unique(noise)) == {-1.0, 1.0} and abs(noise.mean()) < 5 / np.sqrt(noise.size)
        blind, _ = run(length, False, jax.random.split(KEY, count))
        assert abs(blind[:, length - 1].mean()) < 5 / np.sqrt(count)


def test_discounting_chain_returns():
    env = DiscountingChain(bonus=3)

    def one(first):
        def policy(memory, observation, time):
            return memory, jnp.where(time == 0, first, time % 5)

        def advance(carry, time):
            state, observation = carry
            state, step = env.step(state, policy(None, observation, time)[1], KEY)
            return (state, step.observation), step.reward

        return jax.lax.scan(advance, env.reset(KEY), jnp.arange(env.horizon))[1]

    rewards = np.asarray(jax.jit(jax.vmap(one))(jnp.arange(5)))
    np.testing.assert_allclose(rewards.sum(1), [1, 1, 1, 1.1, 1], atol=1e-6)
    assert [int(np.flatnonzero(row)[0]) + 1 for row in rewards] == list(PAYDAYS)


# Key to door


def distances(target, walls):
    """Steps to `target` from every cell that reaches it."""
    found, front = {tuple(target): 0}, [tuple(target)]
    while front:
        cell = front.pop(0)
        for move in MOVES:
            near = (cell[0] + move[0], cell[1] + move[1])
            inside = 0 <= near[0] < walls.shape[0] and 0 <= near[1] < walls.shape[1]
            if inside and not walls[near] and near not in found:
                found[near] = found[cell] + 1
                front.append(near)
    return found


def step_towards(position, target, walls):
    """The first move of a shortest way."""
    steps = distances(target, walls)
    return next(
        action
        for action, move in enumerate(MOVES)
        if steps.get((position[0] + move[0], position[1] + move[1]), 99) < steps[tuple(position)]
    )


def test_key_and_door_take_no_memory():
    """One table from observations to actions reaches every key from every start, and then the door."""
    env = KeyToDoor(num_apples=0)
    step = jax.jit(env.step)
    table = {}
    lookout = (3, 5)  # from here every key is in sight

    def act(state, observation):
        position = tuple(int(value) for value in state.position)
        room = int(env.room(state.time))
        if room == 2:
            action = 0
        elif room == 0 and observation[..., 1].any():
            action = step_towards(position, tuple(int(value) for value in state.key), WALLS[0])
        elif room == 0 and position != lookout and position[0] >= 3:
            action = step_towards(position, lookout, WALLS[0])
        else:
            action = table.get(np.asarray(observation).tobytes(), 0)
        return table.setdefault(np.asarray(observation).tobytes(), action), action

    first, _ = env.reset(KEY)
    for start in cells_of(0, "+"):
        for key in cells_of(0, "k"):
            state = first._replace(position=jnp.asarray(start), key=jnp.asarray(key))
            observation = env._observe(state)
            while not bool(state.has_key) and int(state.time) < env.explore_steps:
                known, wanted = act(state, observation)
                assert known == wanted  # the same sight always asks for the same move
                state, out = step(state, jnp.int32(known), KEY)
                observation = out.observation
                assert float(out.reward) == 0
            assert bool(state.has_key)
    # From the last key on: past the orchard and through the door, north all the way.
    rewards = []
    while int(state.time) < env.horizon:
        state, out = step(state, jnp.int32(0), KEY)
        rewards.append(float(out.reward))
    assert sum(rewards) == 5.0 and bool(out.terminated)


def test_without_the_key_the_door_stays_shut():
    env = KeyToDoor(explore_steps=2, orchard_steps=3, door_steps=8)
    state, _ = env.reset(KEY)
    state = state._replace(position=jnp.array([5, 3]), key=jnp.array([1, 7]))
    total = 0.0
    for _ in range(env.horizon):
        state, step = env.step(state, jnp.int32(0 if int(state.time) >= 5 else 1), KEY)
        total += float(step.reward)
    assert total == 0.0 and state.position.tolist() == [2, 5] and bool(step.terminated)


def test_apples_grow_again():
    env = KeyToDoor(explore_steps=1, orchard_steps=60, num_apples=22)
    state, _ = env.reset(KEY)
    step = jax.jit(env.step)
    # Beside the apple at (5, 7): to it, then against the wall below, so that it is eaten as soon as it hangs again.
    eaten = []
    for _ in range(1 + 60):
        action = 3 if int(state.time) in (1, 2) else 1
        state, out = step(state, jnp.int32(action), KEY)
        eaten += [int(state.time) - 1] * int(out.reward)
    assert eaten == [2, 24, 46]


def test_every_id_is_made():
    for name in ENTRIES:
        env = make(name)
        _, observation = jax.eval_shape(env.reset, KEY)
        assert observation.shape == env.observation_space.shape
        assert env.horizon > 1
    assert make("memory:tmaze-50").horizon == 51
    assert make("memory:TMazeActive-50", corridor_length=70).horizon == 73
    assert make("memory:RepeatPreviousHard").num_cards == 156


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TMaze(corridor_length=0), ["TMaze", "corridor_length 0", "from 1 up"]),
        (lambda: TMaze(oracle_length=-1), ["oracle_length -1"]),
        (lambda: TMaze(corridor_length=2.5), ["corridor_length of TMaze", "whole number", "2.5"]),
        (lambda: TMaze(penalty="much"), ["penalty of TMaze", "a number, not 'much'"]),
        (lambda: RepeatPrevious(k=52), ["card 52 of 52", "up to 51"]),
        (lambda: RepeatPrevious(num_decks=0), ["num_decks 0"]),
        (lambda: Autoencode(ranks=-2), ["ranks -2"]),
        (lambda: Umbrella(num_distractors=-1), ["num_distractors -1", "from 0 up"]),
        (lambda: MemoryChain(num_bits=0), ["num_bits 0"]),
        (lambda: DiscountingChain(bonus=5), ["no branch 5", "0 to 4"]),
        (lambda: KeyToDoor(num_apples=23), ["23 apples", "22 trees"]),
        (lambda: KeyToDoor(door_steps=0), ["door_steps 0"]),
    ],
)
def test_impossible_sizes_are_refused(make, words):
    with pytest.raises(ForageError) as error:
        make()
    assert all(word in str(error.value) for word in words), error.value
