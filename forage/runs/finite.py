"""Whether all numbers of a run are finite, and who turned bad where one is not."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from forage.config.registry import short_name
from forage.config.setup import Setup
from forage.core.types import ForageError
from forage.loop import soundness
from forage.loop.learner import Report
from forage.loop.runner import Runner
from forage.loop.soundness import NotFinite, Unsound, learned_sentence
from forage.runs.checkpoints import Checkpoints
from forage.runs.display import Progress

PATIENCE = 120.0  # seconds of training that are played again at most, to find who turned bad


class Traced(NamedTuple):
    """The turn of the loop in which something was not finite any more."""

    before: int  # the step it began at
    environment: np.ndarray  # whether each seed's was finite
    learned: np.ndarray  # and what it has learned


class Finite:
    """Looks at what each turn of the loop reports."""

    def __init__(self, setup: Setup, runner: Runner, checkpoints: Checkpoints, display: Progress):
        self.setup, self.runner, self.checkpoints, self.display = setup, runner, checkpoints, display

    def check(self, report: Report, before: int, seconds: float) -> None:
        """Raise `Unsound` if something is not finite, before it is saved: who turned bad, where and when.

        `before`: the step at which the reported turns began; `seconds` in the loop until now.
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
        where = f"between steps {self.runner.since(member, before):,} and {after:,}"
        seed = self.setup.members[member]["seed"]
        if not environment[member]:
            raise Unsound(f"{self.setup.name} returned NaN or infinity {where} with seed {seed}; mend the environment.")
        part, bad = self.runner.search(member) or ("agent", None)
        raise Unsound(learned_sentence(part, bad, where, seed))

    def trace(self, before: int, seconds: float) -> Traced | str | None:
        """Play again from the newest checkpoint, turn by turn from step `before` on, until something is not finite.

        Training is the same bit for bit, so the same turns bad again. Returns a sentence where it was seen in what was
        experienced, else the turn, after which the runner stands; `None` if that takes too long or does not show it.
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
            return None  # what is known without it is said
        found = soundness.search_rollout(rollout, self.setup.spec.num_agents)
        if found is None:
            return Traced(start, environment, learned)
        step = start + (found.time + 1) * self.setup.agent.num_envs
        who = f"{short_name(self.setup.agent)} chose" if found.ours else f"{self.setup.name} returned"
        advice = "a smaller learning rate often helps" if found.ours else "mend the environment"
        return (
            f"{who} {found.bad.value} as {found.bad.entry} at step {step:,} in environment {found.env} with seed "
            f"{self.setup.members[member]['seed']}; {advice}."
        )

    def unsaved(self, error: NotFinite) -> str:
        """Say what kept a state from being saved."""
        seed, where = self.setup.members[error.member]["seed"], f"by step {self.runner.steps:,}"
        if error.part in soundness.LEARNED:
            return learned_sentence(error.part, error.bad, where, seed)
        return (
            f"{self.setup.name} returned {error.bad.value} as {error.bad.entry} {where} with seed {seed}; mend the "
            f"environment."
        )
