"""Evaluation episodes on the host: those without a reward count in no mean, and a dead worker's are played again."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Bool

from forage.core.errors import ForageError
from forage.core.host import HostEnvironment, HostStep
from forage.core.types import Step
from forage.loop.host import runner
from forage.loop.runner import EvaluationEpisodes

REWARDS = np.float32([[1, 1, 9, 4], [2, 0, 0, 4], [0, 0, 5, 0], [0, 0, 6, 0]])  # of each step and environment
WITHOUT = np.zeros((4, 4), bool)
WITHOUT[1, 1] = True  # in the second environment no reward comes
DEAD = np.zeros((4, 4), bool)
DEAD[1, 2] = True  # in the third one a worker dies at its last step


class RewardScript(HostEnvironment):
    """Episodes of two steps with the rewards above."""

    def __init__(self, dead: np.ndarray = DEAD, without: np.ndarray = WITHOUT):
        super().__init__("scripted", gymnasium.spaces.Box(0, 1, ()), gymnasium.spaces.Discrete(2), 4, 2)
        self.dead, self.without, self.time = dead, without, 0

    @property
    def lost(self) -> Bool[np.ndarray, " env"] | None:
        lost = (self.dead | self.without)[self.time - 1]
        return lost if lost.any() else None

    @property
    def no_reward(self) -> Bool[np.ndarray, " env"] | None:
        without = self.without[self.time - 1]
        return without if without.any() else None

    @property
    def no_reward_reason(self) -> str:
        return "nobody gave one"

    def _reset(self, seed: int) -> Any:
        self.time = 0
        return np.zeros(4, np.float32)

    def _receive(self, action: Any) -> HostStep:
        seen, lost = np.zeros(4, np.float32), (self.dead | self.without)[self.time]
        reward, last = REWARDS[self.time], np.full(4, self.time % 2 == 1)
        self.time += 1
        return HostStep(Step(seen, np.where(lost, 0, reward), last & ~lost, lost, {}), seen)  # type: ignore[arg-type]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the function that plays an episode in each environment, by an agent that always takes action 0."""
    monkeypatch.setattr(runner, "actor_of", lambda *_: ())
    decision = SimpleNamespace(hidden=())

    def act(*inputs: Any, **named: Any) -> Any:
        return jax.random.key(0), jnp.zeros(4, jnp.int32), decision

    spec = SimpleNamespace(num_agents=1, reward_names=())
    learner = SimpleNamespace(
        spec=spec, agent=SimpleNamespace(return_conditioned=False), init_hidden=lambda explore: ()
    )
    loop: Any = SimpleNamespace(learner=learner, state=(), act=act)
    return lambda environment, most=2: runner.play_once(loop, environment, most, 0, 0, False)


def test_an_episode_without_a_reward_has_no_return_and_a_dead_workers_is_played_whole(play: Any) -> None:
    played = play(RewardScript())
    np.testing.assert_array_equal(played.returns, [3, np.nan, 11, 8])
    assert played.no_reward.tolist() == [False, True, False, False] and played.lengths.tolist() == [2] * 4
    assert np.nanmean(played.returns) == pytest.approx(22 / 3)
    cut = play(RewardScript(), 1)  # before anything is lost
    assert cut.returns.tolist() == [1, 1, 9, 4] and not cut.no_reward.any()


def test_an_evaluation_of_which_no_episode_has_a_reward_is_refused(play: Any) -> None:
    without = np.zeros((4, 4), bool)
    without[1] = True
    environment = RewardScript(np.zeros((4, 4), bool), without)
    with pytest.raises(
        ForageError, match=r"^None of the 4 evaluation episodes of scripted has a reward, as nobody gave"
    ):
        runner.check_some_reward(environment, play(environment))
    runner.check_some_reward(environment, play(RewardScript()))


def test_returns_without_a_reward_are_told_from_returns_that_are_not_finite() -> None:
    returns, length = np.array([[1, np.nan], [np.nan, 2]]), np.ones((2, 2), int)
    mask = np.array([[False, True], [False, False]])
    assert EvaluationEpisodes(returns, length, {}, no_reward=mask).left_out().tolist() == mask.tolist()
    assert not EvaluationEpisodes(returns, length, {}).left_out().any()
    several = EvaluationEpisodes(np.stack([returns] * 3, -1), length, {}, no_reward=mask).left_out()
    assert several.shape == (2, 2, 3) and (several == mask[..., None]).all()
