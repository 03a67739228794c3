"""Environments of the development set that no package has, or whose package needs a word more than an id."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class DoorKey(gymnasium.Wrapper):
    """MiniGrid's DoorKey-5x5 without its text: 7 x 7 cells of three numbers each."""

    def __init__(self, render_mode: str | None = None):
        import minigrid  # noqa: F401
        from minigrid.wrappers import ImgObsWrapper

        super().__init__(ImgObsWrapper(gymnasium.make("MiniGrid-DoorKey-5x5-v0", render_mode=render_mode)))


class Breakout(gymnasium.Wrapper):
    """MinAtar's Breakout with the actions that have an effect."""

    def __init__(self, render_mode: str | None = None):
        import minatar.gym

        if "MinAtar/Breakout-v1" not in gymnasium.registry:
            minatar.gym.register_envs()
        super().__init__(gymnasium.make("MinAtar/Breakout-v1", render_mode=render_mode))


class Rider(gymnasium.Env):
    """A body of two links on a wheel that drives forward and must not fall over.

    Links are point masses on rods without weight, equations of motion those of a cart with a double pendulum, whose hip
    has a motor and a weak spring. Actions are the push of the wheel and the torque of the hip. The reward is the way
    forward, as far as 3 metres a second, less a little for the effort: about 250 for an episode of 1,000 steps. A fall
    ends the episode and costs 100. One step in fifty a gust pushes the body.
    """

    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    observation_space = spaces.Box(-np.inf, np.inf, (7,), np.float32)
    metadata: dict[str, Any] = {"render_modes": []}

    GRAVITY, WHEEL, LOWER, UPPER, LONG, SHORT = 9.81, 1.0, 0.6, 0.5, 0.6, 0.5
    SECONDS, PARTS, LIMIT, FALLEN, FASTEST = 0.02, 2, 1000, 0.6, 3.0

    def __init__(self, render_mode: str | None = None):
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.speed, self.steps = 0.0, 0
        self.lower, self.upper, self.turn, self.bend = self.np_random.uniform(-0.05, 0.05, 4).tolist()
        return self.seen(), {}

    def seen(self) -> np.ndarray:
        at = (self.speed, math.sin(self.lower), math.sin(self.upper), math.sin(self.upper - self.lower))
        return np.array((*at, math.cos(self.lower), self.turn, self.bend), np.float32)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        push, torque = (min(max(float(one), -1.0), 1.0) for one in action)
        if self.np_random.random() < 0.02:
            self.turn += self.np_random.normal(0.0, 0.3)
        way = 0.0
        for _ in range(self.PARTS):
            self.move(12.0 * push, 4.0 * torque, self.SECONDS / self.PARTS)
            way += min(self.speed, self.FASTEST) * self.SECONDS / self.PARTS
        self.steps += 1
        fell = abs(self.lower) > self.FALLEN or abs(self.upper) > self.FALLEN
        reward = 5.0 * way - 0.02 * (push * push + torque * torque) - (100.0 if fell else 0.0)
        return self.seen(), reward, fell, not fell and self.steps >= self.LIMIT, {}

    def move(self, push: float, torque: float, seconds: float) -> None:
        """Go on for so long, with a step of the semi-implicit Euler method."""
        both, l1, l2 = self.LOWER + self.UPPER, self.LONG, self.SHORT
        between = self.lower - self.upper
        torque = torque + 3.0 * between - 0.2 * (self.bend - self.turn)  # of the motor, the spring and its friction
        sine, cosine = math.sin(between), math.cos(between)
        a, b, c = self.WHEEL + both, both * l1 * math.cos(self.lower), self.UPPER * l2 * math.cos(self.upper)
        d, e, f = both * l1 * l1, self.UPPER * l1 * l2 * cosine, self.UPPER * l2 * l2
        coupled = self.UPPER * l1 * l2 * sine
        r1 = push - 0.5 * self.speed + both * l1 * math.sin(self.lower) * self.turn**2
        r1 += self.UPPER * l2 * math.sin(self.upper) * self.bend**2
        r2 = both * self.GRAVITY * l1 * math.sin(self.lower) - coupled * self.bend**2 - torque
        r3 = self.UPPER * self.GRAVITY * l2 * math.sin(self.upper) + coupled * self.turn**2 + torque
        whole = a * (d * f - e * e) - b * (b * f - c * e) + c * (b * e - c * d)
        self.speed += seconds * (r1 * (d * f - e * e) - b * (r2 * f - r3 * e) + c * (r2 * e - r3 * d)) / whole
        turn = a * (r2 * f - r3 * e) - r1 * (b * f - c * e) + c * (b * r3 - c * r2)
        bend = a * (d * r3 - e * r2) - b * (b * r3 - c * r2) + r1 * (b * e - c * d)
        self.turn += seconds * turn / whole
        self.bend += seconds * bend / whole
        self.lower += seconds * self.turn
        self.upper += seconds * self.bend


Probabilities = Callable[[np.ndarray], np.ndarray]
"""The probability of each action in each of some observations."""


class Blackjack(gymnasium.Wrapper):
    """Gymnasium's Blackjack, seen as three numbers: the sum, the dealer's card and whether an ace counts as 11."""

    def __init__(self, render_mode: str | None = None):
        super().__init__(gymnasium.make("Blackjack-v1", render_mode=render_mode))
        self.observation_space = spaces.Box(0.0, np.array([31, 11, 1], np.float32), dtype=np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        observation, info = self.env.reset(seed=seed, options=options)
        return np.array(observation, np.float32), info

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        return np.array(observation, np.float32), float(reward), terminated, truncated, info

    @staticmethod
    def value(probabilities: Probabilities | None = None) -> float:
        """Return the mean return of a policy (`None`: of the best one), from the whole tree of the game."""
        states = [(total, dealer, ace) for ace in (0, 1) for total in range(4, 22) for dealer in CARDS]
        more: dict[tuple[int, int, int], float] = {}  # the probability of asking for a card
        if probabilities is not None:
            rows = probabilities(np.array(states, np.float32))
            more = {state: float(row[1]) for state, row in zip(states, rows, strict=True)}
        outcome = {dealer: dealt(dealer, dealer == 1) for dealer in CARDS}

        @functools.cache
        def value(total: int, dealer: int, ace: int, natural: bool = False) -> float:
            if total > 21:
                return -1.0
            stand = sum(p * np.sign(total - other) for other, p in outcome[dealer].items())
            if natural:  # loses to nothing, and draws with the like
                stand = 1 - {1: CARDS[10], 10: CARDS[1]}.get(dealer, 0.0)
            hit = 0.0
            for card, p in CARDS.items():
                hard, soft = total - 10 * ace + card, int(ace or card == 1)
                soft *= hard <= 11
                hit += p * value(hard + 10 * soft, dealer, soft)
            one_more = float(hit > stand) if probabilities is None else more[total, dealer, ace]
            return one_more * hit + (1 - one_more) * stand

        mean = 0.0
        for (one, p), (two, q), (dealer, r) in itertools.product(CARDS.items(), repeat=3):
            ace = int(1 in (one, two))
            mean += p * q * r * value(one + two + 10 * ace, dealer, ace, {one, two} == {1, 10})
        return mean


CARDS = dict.fromkeys(range(1, 10), 1 / 13) | {10: 4 / 13}
"""The probability of each card of Blackjack; an ace is 1."""


def dealt(total: int, ace: bool) -> dict[int, float]:
    """Return the probabilities of the dealer's sums, who draws up to 17; 0 stands for more than 21."""
    best = total + 10 if ace and total + 10 <= 21 else total
    if best >= 17:
        return {best if best <= 21 else 0: 1.0}
    found: dict[int, float] = {}
    for card, p in CARDS.items():
        for final, q in dealt(total + card, ace or card == 1).items():
            found[final] = found.get(final, 0.0) + p * q
    return found


class Higher(gymnasium.Env):
    """A game of cards: is the next one higher (action 0) or lower (1)? It may be put aside (2) for a new one, twice.

    Of 13 cards, and the same card loses. Seen are the card, the cards that may still be put aside, and the number of
    players at the table, which means nothing. The reward is 1 or -1 at the end.
    """

    action_space = spaces.Discrete(3)
    observation_space = spaces.Box(0.0, np.array([13, 2, 6], np.float32), dtype=np.float32)
    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, render_mode: str | None = None):
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.card, self.left, self.players = int(self.np_random.integers(1, 14)), 2, int(self.np_random.integers(1, 7))
        return self.seen(), {}

    def seen(self) -> np.ndarray:
        return np.array([self.card, self.left, self.players], np.float32)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        before, self.card = self.card, int(self.np_random.integers(1, 14))
        if action == 2 and self.left:
            self.left -= 1
            return self.seen(), 0.0, False, False, {}
        won = self.card > before if action == 0 else self.card < before if action == 1 else False
        return self.seen(), 1.0 if won else -1.0, True, False, {}

    @staticmethod
    def value(probabilities: Probabilities | None = None) -> float:
        """Return the mean return of a policy (`None`: of the best one), from the whole tree of the game."""
        after = -1.0  # the value of putting aside
        for left in range(3):
            states = [(card, left, players) for card in range(1, 14) for players in range(1, 7)]
            each = np.array([[2 * (13 - card) / 13 - 1, 2 * (card - 1) / 13 - 1, after] for card, _, _ in states])
            if probabilities is None:
                after = float(each.max(1).mean())
            else:
                after = float((probabilities(np.array(states, np.float32)) * each).sum(1).mean())
        return after
