"""Members side by side: settings with a seed each, in one compiled program, or one after another on the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int

from forage.config.run_config import RunConfig
from forage.core import prng
from forage.core.ports import Rewards
from forage.runs.capacity import check_memory
from forage.runs.scoring import step_limit
from forage.studies.tuning.space import OUTSIDE

Settings = Mapping[str, float]


class Batch:
    """Members that differ in traced numbers, `settings[i]`, and in their seed, `seeds[i]`; `setup` has the rest."""

    def __init__(
        self,
        setup: RunConfig,
        settings: Sequence[Settings],
        seeds: Sequence[int],
        episodes: int,
        rewards: Rewards | None = None,
    ):
        """`rewards` combine several rewards into one, the same for all members; by default the setup's."""
        self.setup, self.settings, self.seeds, self.episodes = setup, [dict(s) for s in settings], list(seeds), episodes
        self.rewards = rewards or setup.rewards
        self.broken = np.zeros(len(seeds), bool)  # something is not finite, or its environment failed
        self.why = [""] * len(seeds)  # in a sentence, where one is known
        self.steps = 0  # that each member was trained, or would have been
        self.runner = setup.runner_of(self.seeds, self.numbers())
        check_memory(self.runner, setup.names)
        self.runner.begin()

    def numbers(self) -> dict[str, list[float]]:
        """Return every member's own numbers, by their paths in the loop."""
        found = {}
        for name in self.settings[0]:
            port, _, field = name.rpartition(".")
            path = f"{port}.{field}" if port in OUTSIDE else f"learner.{port or 'agent'}.{field}"
            found[path] = [settings[name] for settings in self.settings]
        return found

    @property
    def iterations(self) -> int:
        """Turn of the loop in the whole of training."""
        return -(-self.setup.steps // self.runner.steps_per_iteration)

    def advance(self, share: float) -> None:
        """Train every member up to this share of the run. A member that breaks does not affect the others."""
        self.steps = max(1, round(self.iterations * share)) * self.runner.steps_per_iteration
        self._note(self.runner.attempt(self.steps, self.broken.tolist()))

    def _note(self, why: Sequence[str]) -> None:
        """Note for each member that broke just now the reason."""
        for index, sentence in enumerate(why):
            if sentence and not self.broken[index]:
                self.broken[index], self.why[index] = True, sentence

    def evaluate(self) -> np.ndarray:
        """Return each member's mean evaluation return, over episodes with a reward; minus infinity if it broke."""
        limit, sampled = step_limit(self.setup), self.setup.evaluation_actions == "sampled"
        returns, why = self.runner.attempt_evaluation(self.episodes, limit, prng.TUNING, sampled, self.broken.tolist())
        self._note(why)
        # What broke counts for nothing, and infinities would make NaN of what several rewards are worth together.
        finite = ~np.isinf(returns.reshape(len(returns), -1)).any(1) & ~self.broken
        returns[~finite] = 0.0
        return np.where(finite, np.nanmean(self.rewards.score(returns, self.setup.spec), axis=1), -np.inf)

    def keep(self, rows: Sequence[int]) -> None:
        """Continue with these members alone."""
        rows = list(rows)
        self.settings, self.seeds = [self.settings[row] for row in rows], [self.seeds[row] for row in rows]
        self.broken, self.why = self.broken[rows], [self.why[row] for row in rows]
        self.runner = self.runner.select(rows)

    def take_over(self, source: Int[np.ndarray, " member"], settings: Sequence[Settings]) -> None:
        """Let member i continue the learner and memory of member `source[i]`, with `settings[i]`."""
        failed = self.broken
        self.settings, self.broken = [dict(s) for s in settings], self.broken[source]
        self.why = [self.why[i] for i in source]
        self._note(self.runner.adopt(source.tolist(), self.numbers(), (failed & ~self.broken).tolist()))

    def close(self) -> None:
        self.runner.close()


def repeat_settings(
    setup: RunConfig, settings: Sequence[Settings], seeds: Sequence[int], episodes: int, rewards: Rewards | None = None
) -> Batch:
    """Return a batch of every setting with every seed, setting after setting."""
    members = [s for s in settings for _ in seeds]
    return Batch(setup, members, list(seeds) * len(settings), episodes, rewards)
