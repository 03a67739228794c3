"""Beam search against exhaustive search, in a model with few sequences."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import small

from forage_papers.agents.offline.beam import Layout, Search, keep_likely, search_beam

small.keep_compiled()
STATES, CHOICES, TOKENS, HORIZON, DISCOUNT = 3, 3, 5, 4, 0.9
DRAW = np.random.default_rng(0)
PAYS = DRAW.integers(0, TOKENS, (STATES, CHOICES))  # tokens of rewards, of values, and the next state
WORTH = DRAW.integers(0, TOKENS, (STATES, CHOICES))
TO = DRAW.integers(0, STATES, (STATES, CHOICES))
REWARD, VALUE = DRAW.normal(size=TOKENS), 3 * DRAW.normal(size=TOKENS)
LAYOUT = Layout(1, 1)


def extend(memory, token, place):
    """The next token is certain after observations and rewards, and uniform over actions."""
    state, action = memory
    state = token if place == 0 else state
    action = token if place == 1 else action
    follows = [None, PAYS, WORTH, TO][place]
    if follows is None:
        logits = jnp.broadcast_to(jnp.where(jnp.arange(TOKENS) < CHOICES, 0.0, -1e3), (len(token), TOKENS))
    else:
        logits = 1e3 * jax.nn.one_hot(jnp.asarray(follows)[state, action], TOKENS)
    return (state, action), logits


def exhaustive(start):
    """The best worth of all sequences of actions, and the first action of the best."""
    found = []
    for actions in itertools.product(range(CHOICES), repeat=HORIZON):
        state, total = start, 0.0
        for time, action in enumerate(actions):
            total += DISCOUNT**time * REWARD[PAYS[state, action]]
            value, state = VALUE[WORTH[state, action]], TO[state, action]
        found.append((total + DISCOUNT**HORIZON * value, actions[0]))
    return max(found)


def test_it_finds_the_best_of_all_sequences():
    beams = 1500  # all of them are kept, and enough to draw each of 81 sequences
    search = Search(HORIZON, beams, 1, DISCOUNT, 0.0)

    def run(start):
        token = jnp.full(beams, start)
        memory, logits = extend((token, token), token, 0)
        return search_beam(
            extend, memory, logits, LAYOUT, search, jnp.asarray(REWARD), jnp.asarray(VALUE), jax.random.key(0)
        )

    found = small.compute(jax.vmap(run), jnp.arange(STATES))
    for start in range(STATES):
        worth, action = exhaustive(start)
        np.testing.assert_allclose(found.worth[start], worth, rtol=1e-4)
        assert found.action[start, 0] == action


def test_the_least_likely_tokens_are_cut_off():
    logits = np.log([0.05, 0.5, 0.15, 0.3])
    kept = [
        (small.compute(lambda cut=cut: keep_likely(jnp.asarray(logits), cut)) > -100).tolist()
        for cut in (0.1, 0.4, 0.6)
    ]
    assert kept == [[False, True, True, True], [False, True, False, True], [False, True, False, False]]
