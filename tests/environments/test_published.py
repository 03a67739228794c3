"""Our versions of environments of bsuite, POPGym and MO-Gymnasium against the packages' own.

Random draws of a package are copied into our state; then both play the same actions.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beside import Beside, assert_beside

from forage.environments import make
from forage.environments.classic.deep_sea_treasure import CONVEX_TREASURES, treasure_map
from forage.environments.memory.cards import CardsState
from forage.environments.memory.memory_chain import MemoryChainState
from forage.environments.memory.umbrella import Umbrella, UmbrellaState

EPISODES, KEY = 30, jax.random.key(0)


class Episode(NamedTuple):
    """A package's record of one episode; leaves after the first two are `[time, ...]`."""

    state: Any  # ours, as the package began
    first: Any  # observation
    actions: np.ndarray
    observations: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray


def episode(state: Any, first: Any, rows: list[Any]) -> Episode:
    """Of rows `(action, observation, reward, terminated, truncated)`."""
    state = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.int32), state)
    return Episode(state, np.squeeze(first), *(np.array(column) for column in zip(*rows, strict=True)))


def compare(env: Any, episodes: list[Episode], see: Callable[[Any], Any] = lambda seen: seen) -> Beside:
    """Return our steps from the package's first states; `see` converts our observations to its form."""
    play = jax.jit(lambda state, actions: jax.lax.scan(lambda s, a: env.step(s, a, KEY), state, actions)[1])
    steps = [jax.device_get(play(one.state, jnp.asarray(one.actions, jnp.int32))) for one in episodes]
    first = [env._observe(one.state, *([KEY] if isinstance(env, Umbrella) else [])) for one in episodes]
    return {
        "first observations": ([see(np.asarray(seen)[None])[0] for seen in first], [one.first for one in episodes]),
        "observations": ([see(step.observation) for step in steps], [one.observations for one in episodes]),
        "rewards": ([step.reward for step in steps], [one.rewards for one in episodes]),
        "ends": (
            [(step.terminated, step.truncated) for step in steps],
            [(one.terminated, one.truncated) for one in episodes],
        ),
    }


def bsuite_episode(reference: Any, state: Callable[[Any], Any], choose: Callable[[int], int]) -> Episode:
    """Play one of bsuite's environments, with its first state converted by `state`."""
    told, rows = reference.reset(), []
    begun, first = state(reference), told.observation
    while not told.last():
        action = choose(len(rows))
        told = reference.step(action)
        rows.append((action, np.squeeze(told.observation), told.reward, told.last(), False))
    return episode(begun, first, rows)


def bsuite_episodes(reference: Any, state: Callable[[Any], Any]) -> list[Episode]:
    random, number = np.random.default_rng(0), reference.action_spec().num_values
    return [bsuite_episode(reference, state, lambda _: random.integers(number)) for _ in range(EPISODES)]


def gymnasium_episodes(reference: Any, state: Callable[[list[Any]], Any]) -> list[Episode]:
    """Play one of Gymnasium's kind at random; `state` returns our first state from all observations."""
    random, episodes = np.random.default_rng(0), []
    for number in range(EPISODES):
        seen, rows, over = [reference.reset(seed=number)[0]], [], False
        while not over:
            action = random.integers(reference.action_space.n)
            observation, reward, terminated, truncated, _ = reference.step(action)
            rows.append((action, observation, reward, terminated, truncated))
            seen.append(observation)
            over = terminated or truncated
        episodes.append(episode(state(seen), seen[0], rows))
    return episodes


Played = tuple[list[Episode], Beside]


def deep_sea(env: Any) -> Played:
    from bsuite.environments.deep_sea import DeepSea

    reference, begun = DeepSea(env.size, mapping_seed=42), lambda _: env.reset(KEY)[0]
    # Right all the way, which chance does not find.
    best = bsuite_episode(reference, begun, lambda time: int(reference._action_mapping[time, time]))
    played = [best, *bsuite_episodes(reference, begun)]
    return played, compare(env, played)


def memory_chain(env: Any) -> Played:
    from bsuite.environments.memory_chain import MemoryChain

    reference = MemoryChain(env.memory_length, env.num_bits, seed=0)
    played = bsuite_episodes(reference, lambda it: MemoryChainState(np.array(it._context), it._query, 0))
    return played, compare(env, played)


def umbrella(env: Any) -> Played:
    """Compare without the coins tossed at each step: the rewards before the last, and the distractors."""
    from bsuite.environments.umbrella_chain import UmbrellaChain

    reference = UmbrellaChain(env.chain_length, env.num_distractors, seed=0)
    played = bsuite_episodes(reference, lambda it: UmbrellaState(it._need_umbrella, it._has_umbrella, 0))
    played = [one._replace(first=one.first[:3], observations=one.observations[:, :3]) for one in played]
    found = dict(compare(env, played, lambda seen: seen[:, :3]))
    mine, theirs = found.pop("rewards")
    return played, found | {"last rewards": ([one[-1] for one in mine], [one[-1] for one in theirs])}


def discounting_chain(env: Any) -> Played:
    from bsuite.environments.discounting_chain import DiscountingChain

    played = bsuite_episodes(DiscountingChain(env.bonus), lambda _: env.reset(KEY)[0])
    return played, compare(env, played)


def repeat_previous(env: Any) -> Played:
    from popgym.envs.repeat_previous import RepeatPrevious

    played = gymnasium_episodes(RepeatPrevious(env.num_decks, env.k), lambda seen: CardsState(np.array(seen), 0))
    return played, compare(env, played, lambda seen: seen.argmax(-1))


def autoencode(env: Any) -> Played:
    from popgym.envs.autoencode import Autoencode

    def deck(seen: list[Any]) -> CardsState:
        return CardsState(np.array([suit for _, suit in seen[: env.num_cards]]), 0)

    played = gymnasium_episodes(Autoencode(env.num_decks), deck)
    return played, compare(env, played, lambda seen: np.stack([seen[:, 0], seen[:, 1:].argmax(-1)], -1))


def treasure(env: Any, id: str = "deep-sea-treasure-concave-v0") -> Played:
    import mo_gymnasium

    played = gymnasium_episodes(mo_gymnasium.make(id), lambda _: env.reset(KEY)[0])
    return played, compare(env, played, lambda seen: 10 * seen)


def convex_treasure(env: Any) -> Played:
    return treasure(make("DeepSeaTreasure-v0", treasure_map=treasure_map(CONVEX_TREASURES)), "deep-sea-treasure-v0")


CASES: dict[str, tuple[str, Callable[[Any], Played]]] = {
    "DeepSea-10": ("bsuite", deep_sea),
    "DeepSea-30": ("bsuite", deep_sea),
    "memory:MemoryLength-10": ("bsuite", memory_chain),
    "memory:MemorySize-20": ("bsuite", memory_chain),
    "memory:Umbrella-30": ("bsuite", umbrella),
    "memory:Discounting": ("bsuite", discounting_chain),
    "memory:RepeatPreviousEasy": ("popgym", repeat_previous),
    "memory:RepeatPreviousMedium": ("popgym", repeat_previous),
    "memory:AutoencodeEasy": ("popgym", autoencode),
    "memory:AutoencodeMedium": ("popgym", autoencode),
    "DeepSeaTreasure-v0": ("mo_gymnasium", treasure),
    "DeepSeaTreasure-v0 convex": ("mo_gymnasium", convex_treasure),
}


@pytest.mark.parametrize("name", CASES)
def test_every_step_equals_the_package(name: str) -> None:
    package, play = CASES[name]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    played, found = play(make(name.partition(" ")[0]))
    assert_beside(found, **{part: 1e-6 for part in found if part != "ends"})
    assert len({one.rewards.sum() for one in played}) > 1, "all episodes were alike"
