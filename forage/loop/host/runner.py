"""The runner on the host: the loop of `loop.py` for many seeds, side by side, and their evaluation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from forage.core import checkpoint, prng, team
from forage.core.arrays import check_alike
from forage.core.compiling import on_host
from forage.core.errors import RunInterrupted
from forage.core.host import Conversation, HostEnvironment
from forage.core.mesh import ONE, Shape, place_shapes, sharing_words, size_of
from forage.core.types import Clock, Experience, ForageError, Spec
from forage.loop import soundness
from forage.loop.cluster.workers import NO_WORKERS, Workers
from forage.loop.host import async_envs, policy_lag
from forage.loop.host.loop import PLAIN, HostLoop, HostOptions, HostState
from forage.loop.host.programs import actor_of
from forage.loop.learner import Learner, LearnerState, Report
from forage.loop.runner import EvaluationEpisodes, Numbers, sum_counts, with_numbers
from forage.loop.soundness import Bad
from forage.loop.visits import Visits

MOST_LOST = 10  # deaths of workers in the episodes of an evaluation that are played side by side


class HostRunner:
    """Runs the seeds of a loop side by side, each with separate environments."""

    def __init__(
        self,
        learners: list[Learner],
        build: Callable[[int], HostEnvironment],
        seeds: list[int],
        total_steps: int,
        way: HostOptions = PLAIN,
        workers: Workers = NO_WORKERS,
    ):
        """`learners`: one for each seed, equal except for numbers. `build(num_envs)` makes a batch of environments.

        `workers` step those of training; an evaluation is played in this process, or where steps have a limit in one
        more of them.
        """
        if workers.async_envs:
            async_envs.check_async(learners[0], way)
        if workers.policy_lag is not None:
            policy_lag.check_policy_lag(learners[0], way, workers.policy_lag)
        self.seeds = seeds
        self.build = workers.evaluating(build)
        agent = learners[0].agent
        self.num_envs = agent.num_envs
        self.steps_per_iteration = agent.num_envs * agent.rollout_length
        self.failed = False
        self.loops: list[HostLoop] = []
        self._open: list[HostEnvironment] = []
        self._evaluation: HostEnvironment | None = None
        self.conversations: list[list[Conversation]] = []
        self.usual_episodes, self.in_words = HostEnvironment.evaluation_episodes, HostEnvironment.in_words
        try:
            for learner, seed in zip(learners, seeds, strict=True):
                self._open.append(workers.batch_builder(build)(agent.num_envs))
                check_copy(learner.spec, self._open[-1], "the batch that trains")
                given: Any = learner, self._open[-1], seed, total_steps, way
                if workers.policy_lag is not None:
                    loop: HostLoop = policy_lag.LaggedLoop(workers.policy_lag, *given)
                else:
                    loop = async_envs.FirstCome(*given) if workers.async_envs else HostLoop(*given)
                self.loops.append(loop)
            self.usual_episodes = self._open[0].evaluation_episodes
            self.in_words = self._open[0].in_words
        except BaseException:
            self.close()
            raise

    @property
    def steps(self) -> int:
        return min(loop.steps for loop in self.loops)

    @property
    def learner(self) -> Learner:
        return self.loops[0].learner

    @property
    def devices(self) -> list[jax.Device]:
        """Return the devices that learn."""
        return jax.local_devices()[: size_of(self.shape)]

    @property
    def shape(self) -> Shape:
        """Return the shape of the mesh of devices that learns."""
        return self.loops[0].way.shape or ONE

    @property
    def spread(self) -> str:
        """Describe the sharing of weights among devices; empty if one learns."""
        return sharing_words(self.learner, self.shape)

    @property
    def activity_seconds(self) -> dict[str, float]:
        """Return the seconds of training, by activity."""
        return sum_counts([loop.watch.spent for loop in self.loops])

    @property
    def replays(self) -> bool:
        """Training is not known to be repeated bit for bit: environments may draw from chance of their own."""
        return False

    @property
    def exact(self) -> bool:
        """Return whether the environments can be saved, so that a resumed run continues as if never stopped."""
        return self.loops[0].environment.snapshot() is not None

    @property
    def may_save(self) -> bool:
        """Return whether environments that are not exact might be so with `--env.snapshots true`."""
        return self.loops[0].environment.may_save

    @property
    def state(self) -> tuple[HostState, ...]:
        return tuple(loop.save(not (self.failed or loop.environment.left)) for loop in self.loops)

    def agent_states(self) -> PyTree[Array]:
        """Return the agents' states, leaves `seed ...`."""
        return stack_states(*(loop.state.agent for loop in self.loops))

    def load_agents(self, path: Path) -> dict[str, Any]:
        """Take the agents alone out of a checkpoint, to evaluate them. Return its header."""
        header: dict[str, Any] = {}
        for number, loop in enumerate(self.loops):
            like = loop.shapes().learner.agent
            agent, header = checkpoint.load_tree(path, like, f"[{number}].learner.agent")
            loop.state, loop.steps = LearnerState(agent, (), (), ()), header["steps"]
        return header

    def use_agents(self, agents: PyTree[Array]) -> None:
        """Take these agents (leaves `seed ...`), to evaluate them."""
        for number, loop in enumerate(self.loops):
            loop.state = LearnerState(jax.tree.map(lambda leaf, n=number: leaf[n], agents), (), (), ())

    def learner_shapes(self) -> LearnerState:
        """Return the shapes of one member's learner state."""
        return self.loops[0].shapes().learner

    def inherit(self, agents: PyTree[Array], memory: PyTree[Array] | None, steps: int) -> None:
        """Take, just after `begin`, the agents of another run, and, at the step that it counts, its memory."""
        for number, loop in enumerate(self.loops):
            loop.state = loop.state._replace(agent=jax.tree.map(lambda leaf, n=number: leaf[n], agents))
            if memory is not None:
                loop.steps = steps
                own = loop.state._replace(memory=jax.tree.map(lambda leaf, n=number: leaf[n], memory))
                loop.state = loop.learner.truncate(own, loop.clock(steps))

    @property
    def visits(self) -> np.ndarray | None:
        """Return the number of visits of each seed to each place of the environments' map, `seed *place`, if it is
        measured.
        """
        counts = [np.asarray(e.visits.counts) for e in self.loops if isinstance(e.visits, Visits)]
        places = self.loops[0].environment.map_shape
        return np.stack(counts).reshape(-1, *places) if counts and places else None

    @property
    def start_counts(self) -> np.ndarray | None:
        """Return `None`: environments on the host report only the places after steps, not the first ones."""
        return None

    def begin(self) -> None:
        for loop in self.loops:
            loop.begin()

    def advance(self, iterations: int) -> Report:
        self.failed = True  # until all is well: an exception leaves environments in the middle of a step
        until = self.steps + iterations * self.steps_per_iteration
        # A seed may be ahead where another's environment failed before.
        reports = [e.advance(max(0, until - e.steps) // self.steps_per_iteration) for e in self.loops]
        self.failed = False
        names = sorted(set().union(*(report.metrics for report in reports)))
        same = [r._replace(metrics={n: r.metrics.get(n, np.float32(0)) for n in names}) for r in reports]  # pyrefly: ignore[bad-argument-type]
        return jax.tree.map(lambda *x: np.stack(x), *same)

    def prepare(self, episodes: int, max_steps: int, soon: bool = False) -> None:
        """Compile no program in advance: those of an evaluation here are small."""

    def evaluate(self, episodes: int, max_steps: int, seed: int, sampled: bool = False) -> EvaluationEpisodes:
        """Play `episodes` evaluation episodes for every seed, in environments of their own."""
        results, self.conversations = [], []
        for loop in self.loops:
            results.append(self.evaluate_one(loop, episodes, max_steps, seed, sampled))
            assert self._evaluation is not None
            if found := self._evaluation.conversations():
                self.conversations.append(found)
        return EvaluationEpisodes(*jax.tree.map(lambda *x: np.stack(x), *results))

    def measure_validation(self) -> dict[str, np.ndarray]:
        """Return no metrics: a data set alone is learned from on the device."""
        return {}

    def evaluate_points(
        self, points: PyTree[Array | None], episodes: int, max_steps: int, seed: int, sampled: bool = False
    ) -> EvaluationEpisodes:
        """Raise `ForageError`: numbers of environments on the host cannot be set from outside."""
        raise ForageError(f"{self.learner.spec.name} is stepped on the host, where its numbers cannot be set.")

    def evaluate_one(
        self, loop: HostLoop, episodes: int, max_steps: int, seed: int, sampled: bool = False
    ) -> EvaluationEpisodes:
        """Play `episodes` evaluation episodes for one of the seeds (leaves `episode ...`), side by side.

        At most in as many environments as training has, or as the environment says where those are more.
        """
        count = min(episodes, max(self.num_envs, loop.environment.evaluation_envs))
        if self._evaluation is not None and self._evaluation.num_envs != count:
            close_environment(self._evaluation)
            self._evaluation = None
        if self._evaluation is None:
            self._evaluation = self.build(count)
            check_copy(self.learner.spec, self._evaluation, "the batch that evaluates")
            self._evaluation.examine()
        played = play_episodes(loop, self._evaluation, episodes, max_steps, seed, sampled)
        check_some_reward(self._evaluation, played)
        return played

    @property
    def current_observations(self) -> PyTree[np.ndarray] | None:
        """Return the observations after the steps of the newest rollouts, leaves `seed time env ...`; `None` before
        the first.
        """
        shown = [loop.shown for loop in self.loops]
        return None if any(one is None for one in shown) else jax.tree.map(lambda *x: np.stack(x), *shown)

    def sample(self) -> str | None:
        """Return the newest episode of training, of the first seed, in words; `None` if there is none."""
        return self.loops[0].environment.sample()

    def retire(self) -> None:
        """Free the environments of training, before an evaluation after which there is none: some open only once."""
        while self._open:
            close_environment(self._open.pop())

    def missing(self) -> dict[str, tuple[str, ...]]:
        """Return the declared names of the environments' own information that no episode has ended with, each with
        the names found instead.
        """
        environments = [loop.environment for loop in self.loops]
        seen = {name for environment in environments for name in environment.info_seen}
        never = [name for name in environments[0].info_names if name not in seen]
        return {name: tuple(sorted(seen)) for name in never} if any(e.episodes for e in self.loops) else {}

    def shapes(self) -> tuple[HostState, ...]:
        return tuple(loop.shapes() for loop in self.loops)

    def restore(self, state: tuple[HostState, ...], steps: int) -> None:
        for loop, saved in zip(self.loops, state, strict=True):
            loop.restore(saved)

    def save(self, path: Path, header: dict[str, Any]) -> None:
        """Write a checkpoint. Raise `NotFinite` if any of its values is not finite."""
        checkpoint.save_tree(path, self.state, header, soundness.check_leaf)

    def load(self, path: Path) -> dict[str, Any]:
        """Continue from a checkpoint. Return its header."""
        state, header = checkpoint.load_tree(path, self.shapes())
        self.restore(state, header["steps"])
        return header

    def array_shapes(self) -> dict[str, PyTree[Any]]:
        """Return the shapes of the arrays that training keeps in memory, by part, without making any of them."""
        states = tuple(place_shapes(loop.shapes(), loop.mesh) for loop in self.loops)
        parts = {
            part: [getattr(state.learner, part) for state in states]
            for part in ("agent", "behaviour", "rewards", "memory")
        }
        return parts | {"rollout": [s.pending for s in states], "starts": [s.starts for s in states]}

    def next_rollout(self) -> Experience:
        """Raise `ForageError`: the steps of environments on the host cannot be known in advance."""
        raise ForageError(f"{self.learner.spec.name} is stepped on the host, where nobody can look ahead.")

    def search(self, member: int) -> tuple[str, Bad] | None:
        """Find the part that has learned a number which is not finite, and the number."""
        return soundness.find_nonfinite(self.loops[member].state, None)

    def first_nonfinite(self, member: int, before: int) -> int:
        """Return the step from which on a metric was not finite, where one was; else `before`."""
        unwell = self.loops[member].unwell
        return before if unwell is None else unwell

    def attempt(self, until: int, skip: Sequence[bool]) -> list[str]:
        """Train the other members up to a step. Return the reason why each cannot continue, or an empty text."""
        each, name = self.steps_per_iteration, self.learner.spec.name

        def train(loop: HostLoop) -> str:
            report = loop.advance(max(0, until - loop.steps) // each)
            return soundness.reason_to_stop(name, loop.seed, report.environment_finite, report.agent_finite)

        found, failed = self._map_members(train, skip)
        return [why or broken or "" for why, broken in zip(failed, found, strict=True)]

    def attempt_evaluation(
        self, episodes: int, max_steps: int, seed: int, sampled: bool, skip: Sequence[bool]
    ) -> tuple[np.ndarray, list[str]]:
        """Evaluate the other members. Return the returns and, of each member that failed, the reason.

        A return is -infinity where the member failed, and NaN for an episode without a reward.
        """

        def returns_of(loop: HostLoop) -> np.ndarray:
            return np.asarray(self.evaluate_one(loop, episodes, max_steps, seed, sampled).returns, float)

        found, failed = self._map_members(returns_of, skip)
        shape = next((returns.shape for returns in found if returns is not None), (episodes,))
        return np.array([np.full(shape, -np.inf) if r is None else r for r in found], float), failed

    def _map_members(self, work: Callable[[HostLoop], Any], skip: Sequence[bool]) -> tuple[list[Any], list[str]]:
        """Call `work` for every member that is not skipped. Return its results, or `None`, and the error messages."""
        found, failed = [None] * len(self.loops), [""] * len(self.loops)
        for index, loop in enumerate(self.loops):
            if not skip[index]:
                try:
                    found[index] = work(loop)
                except RunInterrupted:
                    raise
                except ForageError as error:
                    failed[index] = str(error)
        return found, failed

    def select(self, rows: Sequence[int]) -> HostRunner:
        """Continue with these members alone, and close the environments of the others."""
        for index, loop in enumerate(self.loops):
            if index not in rows:
                close_environment(loop.environment)
                self._open = [environment for environment in self._open if environment is not loop.environment]
        self.loops = [self.loops[row] for row in rows]
        self.seeds = [self.seeds[row] for row in rows]
        return self

    def adopt(self, source: Sequence[int], numbers: Numbers, anew: Sequence[bool]) -> list[str]:
        """Give member i the learned state and memory of `source[i]`, and its own numbers.

        Those with `anew` failed in the middle of a step, and begin new episodes. Return of each why it cannot.
        """
        copied = [(jax.tree.map(jnp.copy, self.loops[i].state), self.loops[i].steps) for i in source]
        learners = vary(self.learner, numbers, len(self.seeds))
        for loop, learner, (state, steps), new in zip(self.loops, learners, copied, anew, strict=True):
            loop.learner, loop.state = learner, state
            if new:
                loop.forget()
                loop.steps = steps
        return self._map_members(HostLoop.begin_episodes, [not new for new in anew])[1]

    def close(self) -> None:
        """Free the environments. No method can be called afterwards."""
        self.retire()
        if self._evaluation is not None:
            close_environment(self._evaluation)
            self._evaluation = None


def close_environment(environment: HostEnvironment) -> None:
    """Close an environment, whose own `sys.exit` there, as of programs with a window, does not end the run."""
    with contextlib.suppress(SystemExit):
        environment.close()


def vary(learner: Learner, numbers: Numbers, members: int) -> list[Learner]:
    """Return a learner for each member, with its own numbers."""
    own = {path.removeprefix("learner."): values for path, values in numbers.items()}
    return [with_numbers(learner, {path: values[i] for path, values in own.items()}) for i in range(members)]


@jax.jit
def stack_states(*states: PyTree[Array]) -> PyTree[Array]:
    """Stack the states of seeds, in one program: leaf by leaf, every shape would be compiled for itself."""
    return jax.tree.map(lambda *x: jnp.stack(x), *states)


def play_episodes(
    loop: HostLoop,
    environment: HostEnvironment,
    episodes: int,
    max_steps: int,
    seed: int,
    sampled: bool,
) -> EvaluationEpisodes:
    """Play evaluation episodes of one seed, one in each environment at once, until there are enough."""
    rounds = -(-episodes // environment.num_envs)
    # Of both numbers and not of their sum, which neighbouring seeds and evaluations would share.
    streams = np.random.SeedSequence([seed, loop.seed]).generate_state(2 * rounds) >> 1  # below 2^31
    pairs = streams.reshape(-1, 2).tolist()
    parts = [play_once(loop, environment, max_steps, start, chance, sampled) for start, chance in pairs]
    return jax.tree.map(lambda *x: np.concatenate(x)[:episodes], *parts)


def play_once(
    loop: HostLoop, environment: HostEnvironment, max_steps: int, start: int, chance: int, sampled: bool
) -> EvaluationEpisodes:
    """Play one evaluation episode in each environment, with `start` as seed; see `DeviceLoop.evaluate`.

    Where a worker died, another episode is played. An episode without a reward has the return NaN.
    """
    learner, num_envs = loop.learner, environment.num_envs
    seen = actor_of(learner, loop.state)
    hidden = jax.tree.map(lambda x: jnp.broadcast_to(x, (num_envs, *x.shape)), learner.init_hidden(explore=False))
    observation, key = environment.reset(start), prng.key(chance)
    agents = learner.spec.num_agents
    ended = np.ones(num_envs if agents == 1 else (num_envs, agents), bool)
    running, length, no_reward = np.ones(num_envs, bool), np.zeros(num_envs, np.int32), np.zeros(num_envs, bool)
    objectives = len(learner.spec.reward_names)
    total = np.zeros((num_envs, objectives) if objectives else num_envs, np.float32)
    infos: dict[str, Any] = {name: np.full(num_envs, np.nan, np.float32) for name in environment.info_names}
    clock, losses = Clock(np.int32(0), np.float32(1)), 0  # type: ignore[arg-type]
    while running.any():
        key, executed, decision = loop.act(
            seen, hidden, ended, observation, clock, key, explore=False, sampled=np.bool_(sampled)
        )
        hidden = decision.hidden
        step, observation = environment.step(on_host(executed))
        if learner.agent.return_conditioned:
            hidden = loop.paid(seen, hidden, step.reward)
        ended = step.terminated | step.truncated
        step = team.as_one(step, agents)
        total[running] += step.reward[running]
        length += running
        for name, values in infos.items():
            values[running] = step.info[name][running]
        over = step.terminated | step.truncated
        if (unrewarded := environment.no_reward) is not None:
            no_reward |= unrewarded & running
        if (lost := environment.lost) is not None and (again := lost & running & ~no_reward).any():
            losses += 1
            if losses > MOST_LOST:
                raise ForageError(
                    f"{MOST_LOST} {environment.lost_reason} in one evaluation of {environment.name}, so it has no "
                    f"score; mend its environments, and forage evaluate plays it again."
                )
            total[again], length[again] = 0, 0
            over = over & ~again
        running &= ~over & (length < max_steps)
    total[no_reward] = np.nan
    return EvaluationEpisodes(total, length, infos, no_reward=no_reward)


def check_some_reward(environment: HostEnvironment, played: EvaluationEpisodes) -> None:
    """Raise `ForageError` if no episode of an evaluation has a reward."""
    if played.no_reward is not None and played.no_reward.all():
        reason = f", as {environment.no_reward_reason}" if environment.no_reward_reason else ""
        raise ForageError(
            f"None of the {len(played.no_reward)} evaluation episodes of {environment.name} has a reward{reason}; mend "
            f"that, and forage evaluate plays them again."
        )


def check_copy(spec: Spec, batch: HostEnvironment, which: str) -> None:
    """Raise `ForageError` if a batch of environments has other spaces than the run was made for."""
    ours = spec.observation_space, spec.action_space
    check_alike(spec.name, ours, (batch.observation_space, batch.action_space), which)
