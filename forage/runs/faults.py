"""Checks of a run while it trains: all numbers are finite, and observations lie within their bounds."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import numpy as np

from forage.config.run_config import RunConfig
from forage.core.bounds import bounded_leaves, data_outside, farthest
from forage.core.types import ForageError
from forage.loop import soundness
from forage.loop.learner import Report
from forage.loop.runner import Runner
from forage.loop.soundness import NotFinite, Unsound, learned_sentence
from forage.runs.checkpoints import Checkpoints
from forage.runs.display import Progress

PATIENCE = 120.0  # seconds of training to replay at most in the search for the cause


class FailedIteration(NamedTuple):
    """The first iteration of the loop with a number that is not finite."""

    before: int  # the step at its start
    environment: np.ndarray  # whether each seed's environment was finite
    learned: np.ndarray  # whether each seed's learned state was finite


class Finite:
    """A check of the reports of each iteration of the loop."""

    def __init__(self, setup: RunConfig, runner: Runner, checkpoints: Checkpoints, display: Progress):
        self.setup, self.runner, self.checkpoints, self.display = setup, runner, checkpoints, display

    def check(self, report: Report, before: int, seconds: float) -> None:
        """Raise `Unsound` before a number that is not finite is saved: name the part, the place and the step.

        `before`: the step at which the reported iterations started; `seconds`: those spent in the loop until now.
        """
        environment, learned = (np.atleast_1d(x) for x in (report.environment_finite, report.agent_finite))
        if environment.all() and learned.all():
            return
        after = self.runner.steps
        traced = self.trace(before, seconds) if self.runner.replays else None
        if isinstance(traced, str):
            raise Unsound(traced)
        if traced is not None:
            (before, environment, learned), after = traced, self.runner.steps
        member = int(np.argmin(environment if not environment.all() else learned))
        where = f"between steps {self.runner.first_nonfinite(member, before):,} and {after:,}"
        seed = self.setup.members[member]["seed"]
        if not environment[member]:
            raise Unsound(f"{self.setup.name} returned NaN or infinity {where} with seed {seed}; mend the environment.")
        part, bad = self.runner.search(member) or ("agent", None)
        raise Unsound(learned_sentence(part, bad, where, seed) + self.reward_hint(report, member))

    def reward_hint(self, report: Report, member: int) -> str:
        """Return a sentence on a mean reward that is not finite, where a part gives rewards; else an empty text."""
        rewards = np.atleast_1d(report.metrics.get("reward", 0.0))
        if self.setup.names["rewards"] == "environment" or np.isfinite(rewards[member]):
            return ""
        return f" The rewards of {self.setup.names['rewards']} were {rewards[member]:g} too; look at them first."

    def trace(self, before: int, seconds: float) -> FailedIteration | str | None:
        """Train again from the newest checkpoint, iteration by iteration from step `before`, to the first non-finite
        number.

        Training is bit for bit the same, so the same iteration fails again. Return a sentence if the rollout shows the
        cause, else the iteration, with the runner after it; `None` if that takes too long or the fault does not recur.
        """
        if not self.checkpoints.kept or seconds - self.checkpoints.seconds > PATIENCE:
            return None
        self.display.note("Something is not finite; playing again from the newest checkpoint to find out what.")
        runner = self.runner
        until, each = runner.steps, runner.steps_per_iteration
        try:
            self.checkpoints.rewind(before)
            while runner.steps < until:
                report = runner.advance(1)
                environment, learned = np.asarray(report.environment_finite), np.asarray(report.agent_finite)
                if not (environment.all() and learned.all()):
                    break
            else:
                return None
            start = runner.steps - each
            self.checkpoints.rewind(start)
            rollouts = runner.next_rollout()
            member = int(np.argmin(environment if not environment.all() else learned))
            rollout = jax.tree.map(lambda leaf: leaf[member], rollouts)
            runner.advance(1)
        except (ForageError, MemoryError, jax.errors.JaxRuntimeError):
            return None  # report only the facts known without it
        found = soundness.search_rollout(rollout, self.setup.spec.num_agents)
        if found is None:
            return FailedIteration(start, environment, learned)
        step = start + (found.time + 1) * self.setup.agent.num_envs
        who = f"{self.setup.names['agent']} chose" if found.ours else f"{self.setup.name} returned"
        advice = "a smaller learning rate often helps" if found.ours else "mend the environment"
        return (
            f"{who} {found.bad.value} as {found.bad.entry} at step {step:,} in environment {found.env} with seed "
            f"{self.setup.members[member]['seed']}; {advice}."
        )

    def describe_unsaved(self, error: NotFinite) -> str:
        """Describe the number that prevented a state from being saved."""
        seed, where = self.setup.members[error.member]["seed"], f"by step {self.runner.steps:,}"
        if error.part in soundness.LEARNED:
            return learned_sentence(error.part, error.bad, where, seed)
        return (
            f"{self.setup.name} returned {error.bad.value} as {error.bad.entry} {where} with seed {seed}; mend the "
            f"environment."
        )


class Bounds:
    """A check of the newest observations after each report, until the first one is outside its box.

    At first it looks at what was read from data sets.
    """

    def __init__(self, setup: RunConfig, runner: Runner, display: Progress):
        self.name, self.runner, self.display = setup.name, runner, display
        self.space = setup.spec.observation_space
        self.leaves, self.looked_at_data = bounded_leaves(self.space), False

    def look(self) -> None:
        """Note the first observation outside its box. Agents learn from it unchanged."""
        if self.leaves and not self.looked_at_data:
            self.looked_at_data = True
            self.look_at_data()
        shown = self.runner.current_observations if self.leaves else None
        if shown is None:
            return
        for path, box in self.leaves.items():
            array = np.asarray(functools.reduce(lambda tree, key: tree[key], path, shown))
            outside = farthest(array.reshape(-1, *box.shape), box)
            if outside is not None:
                self.leaves = {}
                self.display.note(
                    f"Note: {self.name} shows observations outside the bounds that it declares: {outside.words(path)}. "
                    f"Agents learn from them as they are; forage check says more."
                )
                return

    def look_at_data(self) -> None:
        """Note a data set whose observations have another scale."""
        for file, data in self.runner.learner.memory.read_files.items():
            if said := data_outside(file, data.observation, self.space, self.name):
                self.display.note(f"Note: {said}")
