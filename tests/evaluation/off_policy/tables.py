"""Helpers for tests of off-policy evaluation: a tiny MDP, all its trajectories, its exact values."""

from __future__ import annotations

import numpy as np

from forage.data.logged import LoggedEpisodes


class Tiny:
    """Three states, two actions, `horizon` steps; state 2 is the end. All in NumPy, to check against by enumeration."""

    transition = np.array(
        [[[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], [[0.7, 0.2, 0.1], [0.2, 0.2, 0.6]], [[0, 0, 1.0], [0, 0, 1.0]]]
    )
    reward = np.array([[1.0, -2.0], [0.5, 3.0], [0.0, 0.0]])
    initial = np.array([0.6, 0.4, 0.0])
    behaviour = np.array([[0.7, 0.3], [0.4, 0.6], [0.5, 0.5]])
    target = np.array([[0.2, 0.8], [0.9, 0.1], [0.5, 0.5]])

    def __init__(self, horizon: int):
        self.horizon = horizon

    def exact(self, discount: float) -> float:
        """The target's return within the horizon, by backward induction."""
        values = np.zeros(3)
        for _ in range(self.horizon):
            q = self.reward + discount * self.transition @ values
            values = np.append((self.target * q).sum(1)[:2], 0.0)
        return float(self.initial @ values)

    def trajectories(self) -> tuple[LoggedEpisodes, np.ndarray]:
        """All trajectories as one log, each an episode, and their probabilities under the behaviour."""
        paths = [([], s, p) for s, p in enumerate(self.initial) if p > 0]
        whole = []
        for step in range(self.horizon):
            longer = []
            for rows, s, p in paths:
                for a in range(2):
                    for after in range(3):
                        chance = p * self.behaviour[s, a] * self.transition[s, a, after]
                        if chance > 0:
                            over, cut = after == 2, after != 2 and step == self.horizon - 1
                            row = (s, a, self.reward[s, a], after, over, cut, self.behaviour[s, a])
                            (whole if over or cut else longer).append(([*rows, row], after, chance))
            paths = longer
        columns = list(zip(*(row for rows, _, _ in whole for row in rows), strict=True))
        eye = np.eye(3)
        log = LoggedEpisodes(
            eye[list(columns[0])],
            np.array(columns[1]),
            np.array(columns[2]),
            eye[list(columns[3])],
            np.array(columns[4]),
            np.array(columns[5]),
            np.array(columns[6]),
            np.repeat(np.arange(len(whole)), [len(rows) for rows, _, _ in whole]),
        )
        return log, np.array([p for _, _, p in whole])

    def policy(self, observation: np.ndarray) -> np.ndarray:
        return observation @ self.target


def three_steps() -> tuple[LoggedEpisodes, np.ndarray]:
    """Two episodes in one state: actions 0, 1, 0 paying 1, 2, 4, and 1, 1 paying 3, 5. The target's table, one row.

    The behaviour takes action 0 with 1/2 and 1 with 1/4, then 1/2; the target 0 with 1/4 and 1 with 3/4.
    Ratios: 1/2, 3, 1/2 and 3/2, 3/2; so weights 1/2, 3/2, 3/4 and 3/2, 9/4.
    """
    log = LoggedEpisodes(
        np.ones((5, 1)),
        np.array([0, 1, 0, 1, 1]),
        np.array([1.0, 2.0, 4.0, 3.0, 5.0]),
        np.ones((5, 1)),
        np.array([False, False, True, False, True]),
        np.zeros(5, bool),
        np.array([0.5, 0.25, 0.5, 0.5, 0.5]),
    )
    return log, np.array([[0.25, 0.75]])
