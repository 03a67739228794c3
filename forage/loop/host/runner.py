"""The host road: the loop of `loop.py` for many seeds, one beside the other, and their evaluation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from forage.core import checkpoint, prng, team
from forage.core.host import HostEnvironment
from forage.core.types import Clock
from forage.loop.host.loop import PLAIN, HostExperiment, HostState, Way
from forage.loop.learner import Learner, LearnerState, Report
from forage.loop.visits import Visits


class HostRoad:
    """Runs the seeds of an experiment one beside the other, each with environments of its own."""

    rows: None = None  # as of `DeviceRoad`

    def __init__(
        self,
        learners: list[Learner],
        build: Callable[[int], HostEnvironment],
        seeds: list[int],
        total_steps: int,
        way: Way = PLAIN,
    ):
        """`learners`: one for each seed, the same but for numbers. `build(num_envs)` makes a batch of environments."""
        self.seeds = seeds
        self.build = build
        agent = learners[0].agent
        self.num_envs = agent.num_envs
        self.steps_per_iteration = agent.num_envs * agent.rollout_length
        self.failed = False
        self.experiments: list[HostExperiment] = []
        self._open: list[HostEnvironment] = []
        self._evaluation: HostEnvironment | None = None
        try:
            for learner, seed in zip(learners, seeds, strict=True):
                self._open.append(build(agent.num_envs))
                self.experiments.append(HostExperiment(learner, self._open[-1], seed, total_steps, way))
        except BaseException:
            self.close()
            raise

    @property
    def steps(self) -> int:
        return min(experiment.steps for experiment in self.experiments)

    @property
    def exact(self) -> bool:
        """Whether the environments can be saved, so that a resumed run continues as if never stopped."""
        return self.experiments[0].environment.snapshot() is not None

    @property
    def state(self) -> tuple[HostState, ...]:
        return tuple(experiment.save(not self.failed) for experiment in self.experiments)

    def agent_states(self) -> PyTree[Array]:
        """The agents' states, leaves `seed ...`."""
        return jax.tree.map(lambda *x: jnp.stack(x), *(experiment.state.agent for experiment in self.experiments))

    def load_agents(self, path: Path) -> dict[str, Any]:
        """Takes the agents alone out of a checkpoint, to evaluate them. Returns its header."""
        header: dict[str, Any] = {}
        for number, experiment in enumerate(self.experiments):
            like = experiment.shapes().learner.agent
            agent, header = checkpoint.load(path, like, f"[{number}].learner.agent")
            experiment.state, experiment.steps = LearnerState(agent, (), (), ()), header["steps"]
        return header

    @property
    def visits(self) -> np.ndarray | None:
        """How often each seed was at each place of the environments' map, `seed *place`, where that is measured."""
        counts = [np.asarray(e.visits.counts) for e in self.experiments if isinstance(e.visits, Visits)]
        places = self.experiments[0].environment.places
        return np.stack(counts).reshape(-1, *places) if counts and places else None

    def begin(self) -> None:
        for experiment in self.experiments:
            experiment.begin()

    def advance(self, iterations: int) -> Report:
        self.failed = True  # until all is well: an exception leaves environments in the middle of a step
        until = self.steps + iterations * self.steps_per_iteration
        # A seed may be ahead where another's environment failed before.
        reports = [e.advance(max(0, until - e.steps) // self.steps_per_iteration) for e in self.experiments]
        self.failed = False
        names = sorted(set().union(*(report.metrics for report in reports)))
        same = [r._replace(metrics={n: r.metrics.get(n, np.float32(0)) for n in names}) for r in reports]  # pyrefly: ignore[bad-argument-type]
        return jax.tree.map(lambda *x: np.stack(x), *same)

    def prepare(self, episodes: int, max_steps: int) -> None:
        """Nothing: what an evaluation compiles here is small."""

    def evaluate(
        self, episodes: int, max_steps: int, seed: int, sampled: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Play `episodes` evaluation episodes for every seed, in at most `num_envs` environments of their own."""
        played = self.played(episodes, max_steps, seed, sampled)
        return played.returns, played.lengths

    def played(self, episodes: int, max_steps: int, seed: int, sampled: bool = False) -> Played:
        """As `evaluate`, with what the environments' own information said at the episodes' last steps."""
        results = [self.evaluate_one(e, episodes, max_steps, seed, sampled) for e in self.experiments]
        return Played(*jax.tree.map(lambda *x: np.stack(x), *results))

    def evaluate_one(
        self, experiment: HostExperiment, episodes: int, max_steps: int, seed: int, sampled: bool = False
    ) -> Played:
        """Play `episodes` evaluation episodes for one of the seeds (leaves `episode ...`)."""
        count = min(episodes, self.num_envs)
        if self._evaluation is not None and self._evaluation.num_envs != count:
            self._evaluation.close()
            self._evaluation = None
        if self._evaluation is None:
            self._evaluation = self.build(count)
        return play(experiment, self._evaluation, episodes, max_steps, seed, sampled)

    def retire(self) -> None:
        """Free the environments of training, before an evaluation after which there is none: some open only once."""
        while self._open:
            self._open.pop().close()

    def missing(self) -> dict[str, tuple[str, ...]]:
        """Names of the environments' own information that no episode ended with so far, and what there was instead."""
        environments = [experiment.environment for experiment in self.experiments]
        seen = {name for environment in environments for name in environment.info_seen}
        never = [name for name in environments[0].info_names if name not in seen]
        return {name: tuple(sorted(seen)) for name in never} if any(e.episodes for e in self.experiments) else {}

    def shapes(self) -> tuple[HostState, ...]:
        return tuple(experiment.shapes() for experiment in self.experiments)

    def restore(self, state: tuple[HostState, ...], steps: int) -> None:
        for experiment, saved in zip(self.experiments, state, strict=True):
            experiment.restore(saved)

    def close(self) -> None:
        """Frees the environments. Nothing can be called afterwards."""
        self.retire()
        if self._evaluation is not None:
            self._evaluation.close()
            self._evaluation = None


class Played(NamedTuple):
    """Evaluation episodes, leaves `seed episode ...`."""

    returns: np.ndarray
    lengths: np.ndarray
    infos: dict[str, np.ndarray]  # NaN where an episode's last step did not say


def play(
    experiment: HostExperiment,
    environment: HostEnvironment,
    episodes: int,
    max_steps: int,
    seed: int,
    sampled: bool,
) -> Played:
    """Play evaluation episodes of one seed, one in each environment at once, until there are enough."""
    rounds = -(-episodes // environment.num_envs)
    # Of both numbers and not of their sum, which neighbouring seeds and evaluations would share.
    streams = np.random.SeedSequence([seed, experiment.seed]).generate_state(2 * rounds) >> 1  # below 2^31
    pairs = streams.reshape(-1, 2).tolist()
    parts = [play_once(experiment, environment, max_steps, start, chance, sampled) for start, chance in pairs]
    return jax.tree.map(lambda *x: np.concatenate(x)[:episodes], *parts)


def play_once(
    experiment: HostExperiment, environment: HostEnvironment, max_steps: int, start: int, chance: int, sampled: bool
) -> Played:
    """One evaluation episode in each environment, begun with the seed `start`; see `Experiment.evaluate`."""
    learner, state, num_envs = experiment.learner, experiment.state, environment.num_envs
    hidden = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_envs, *x.shape)), learner.hidden(explore=False))
    observation, key = environment.reset(start), prng.key(chance)
    agents = learner.spec.num_agents
    ended = np.ones(num_envs if agents == 1 else (num_envs, agents), bool)
    running, length = np.ones(num_envs, bool), np.zeros(num_envs, np.int32)
    objectives = len(learner.spec.reward_names)
    total = np.zeros((num_envs, objectives) if objectives else num_envs, np.float32)
    infos = {name: np.full(num_envs, np.nan, np.float32) for name in environment.info_names}
    clock = Clock(np.int32(0), np.float32(1))  # type: ignore[arg-type]
    for _ in range(max_steps):
        key, executed, _, hidden, _, _ = experiment.act(
            learner, state, hidden, ended, observation, clock, key, explore=False, sampled=np.bool_(sampled)
        )
        step, observation = environment.step(jax.tree.map(np.asarray, executed))
        ended = step.terminated | step.truncated
        step = team.as_one(step, agents)
        total[running] += step.reward[running]
        length += running
        for name, values in infos.items():
            values[running] = step.info[name][running]
        running &= ~(step.terminated | step.truncated)
        if not running.any():
            break
    return Played(total, length, infos)
