"""The runner on the device: one jitted program runs the loop for all seeds. The host is touched once a chunk."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, PyTree

from forage.core import checkpoint, mesh, prng
from forage.core.compiling import Background, kind
from forage.core.host import Conversation
from forage.core.ports import Evolver
from forage.core.types import Clock, Experience
from forage.loop import soundness, visits
from forage.loop.device import kept_programs
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.programs import (
    SeedBatch,
    advance,
    agent_only,
    batch_seeds,
    evaluate,
    evaluate_points,
    init,
    jit_program,
    leaf_axes,
    measure,
    next_rollout,
)
from forage.loop.device.state import DeviceState
from forage.loop.learner import Learner, LearnerState, Report
from forage.loop.runner import EvaluationEpisodes, Numbers, Watch
from forage.loop.soundness import Bad


class DeviceRunner:
    """Runs a loop's seeds on a mesh of this machine's devices, as many seeds on each.

    Several devices share a seed where that leaves each of them less to do: then each has some of its environments. A
    state that was saved on one shape of mesh continues on any other. Where the devices do not divide the seeds, the
    first seeds run once more in the places left over, and nobody gets to see that: results, states that are saved and
    those that are restored have a row for each seed.
    On CPU there may be a device for every seed (`jax_num_cpu_devices`), which keeps all cores busy
    with programs that are each as quick as a single seed's. Programs compile in another thread.
    """

    def __init__(
        self,
        varied: SeedBatch,
        seeds: list[int],
        total_steps: int,
        devices: mesh.Devices = None,
        several_hosts: bool = False,  # the devices are those of all processes, each of which has such a runner
    ):
        self.seeds = seeds
        self.total_steps = total_steps
        self.steps_per_iteration = varied.common.steps_per_iteration
        self.several_hosts = several_hosts
        self.here = here = jax.devices() if several_hosts else jax.local_devices()
        self.asked = len(here) if several_hosts and devices is None else devices
        self.mesh = mesh.make_mesh(len(seeds), shared_batch(varied.common)[0], here, self.asked)
        self.shape = mesh.Shape(*self.mesh.devices.shape)  # devices that share the seeds, and each seed's environments
        self.places = np.arange(-(-len(seeds) // self.shape.seed) * self.shape.seed) % len(seeds)  # the seed in each
        self.devices = list(self.mesh.devices.flat)  # how many each has decides the last bits of its numbers
        self._placement = NamedSharding(self.mesh, P(mesh.SEED))
        self.varied = self.place_on_devices(varied)
        self.steps = 0
        self.state: DeviceState | None = None  # leaves `place ...`
        self.agents: PyTree[Array] | None = None  # likewise; without the rest of a state, they can only be evaluated
        self.usual_episodes, self.in_words = 32, False
        self.conversations: list[list[Conversation]] = []
        self.watch = Watch()
        self._keys = self._spread(jax.vmap(prng.key)(jnp.array(seeds)))
        self._jitted = functools.partial(jit_program, kind(varied), self.mesh)
        self._init = self._jitted(init, (True,), True, once=True)
        self._programs: dict[Any, Background] = {}
        self._newest: Background | None = None  # of the programs that compile one at a time
        self._lowered = threading.Event()  # set once a program was lowered, and its compilation leaves Python free

    def place_on_devices(self, varied: SeedBatch) -> SeedBatch:
        """Put the loop's numbers on the devices, as every call would send them again otherwise."""
        axes = mesh.partition_tree(varied.common, self.shape)
        places = jax.tree.map(lambda spec: NamedSharding(self.mesh, spec), axes)
        return SeedBatch(mesh.put(varied.common, places), self._spread(varied.members))

    def _spread(self, tree: PyTree[Array], to: PyTree[NamedSharding] | None = None) -> PyTree[Array]:
        """Put every seed's row of the leaves in its places on the devices."""
        if len(self.places) > len(self.seeds):
            tree = jax.tree.map(lambda leaf: leaf[self.places], tree)
        return mesh.put(tree, to or self._placement)

    def _placements(self, state: DeviceState) -> PyTree[NamedSharding]:
        """Return the sharding of each leaf of a state: by seed, and along the axes that a seed's devices divide."""
        if self.shape.of_seed == 1:
            return jax.tree.map(lambda _: self._placement, state)
        return self._by_seed(leaf_axes(self.varied, state, self.shape))

    def _by_seed(self, axes: PyTree[P]) -> PyTree[NamedSharding]:
        """Return the sharding of leaves `seed ...` whose other axes are divided along `axes`."""
        return jax.tree.map(lambda spec: NamedSharding(self.mesh, P(mesh.SEED, *spec[1:])), axes)

    def _agent_placements(self, agents: PyTree[Any]) -> PyTree[NamedSharding]:
        """Return the sharding of each leaf of agents' states."""
        return self._by_seed(mesh.partition_tree(agents, self.shape, before=1))

    def _seeds(self, tree: PyTree[Array]) -> PyTree[Array]:
        """Return every seed's row of leaves `place ...`."""
        return jax.tree.map(lambda leaf: leaf[: self.rows], tree) if self.rows else tree

    def _reachable(self, tree: PyTree[Array]) -> PyTree[Array]:
        """Return leaves unchanged, or, if some of them are on other hosts, copies in this host's memory."""
        return mesh.fetch(tree) if self.several_hosts else tree

    @property
    def rows(self) -> int | None:
        """Return the number of rows of `state` that belong to the seeds; `None`: all."""
        return len(self.seeds) if len(self.places) > len(self.seeds) else None

    def _program(self, name: Any, prepare: Callable[[], tuple[Any, ...]], soon: bool = False) -> Background:
        """Return the compiled program of this name, perhaps still to come.

        `prepare` is called once. It gives the function to compile and what follows the loop among its arguments,
        of which only shapes and placement matter. `soon`: it compiles beside those before it, as nothing is done
        without it. Others compile one at a time, as the loop is needed first.
        """
        if name not in self._programs:
            function, *arguments = prepare()
            before = None if soon else self._newest
            work = functools.partial(self._compile, self._path(name), function, self.varied, *arguments)
            self._programs[name] = Background(work, before)
            self._newest = self._newest if soon else self._programs[name]
        return self._programs[name]

    def _path(self, name: Any) -> Path | None:
        """Return the file that keeps a program of this runner, if any can."""
        if self.several_hosts or self.shape.of_seed > 1:  # whose devices speak to each other
            return None
        return kept_programs.path_for((name, len(self.places), self.mesh.devices.shape), self.varied, self.devices)

    def _compile(self, path: Path | None, function: Any, *arguments: Any) -> Any:
        return kept_programs.obtain(path, function, arguments, self.devices, self._lowered.set)

    @functools.cached_property
    def _kept_init(self) -> Any:
        """Return the program of the first state if it is kept on disk: it knows the shapes without a trace."""
        path = self._path("init")
        return None if path is None else kept_programs.read_program(path, (self.varied, self._keys), self.devices)

    def _loop(self) -> Background:
        def prepare() -> tuple[Any, ...]:
            loop = self._jitted(advance, (True, False, False), (True, False, True), donate=True)
            return loop, self.shapes(placed=True), self._clock(), np.int32(0)

        return self._program("loop", prepare)

    def _evaluation(self, episodes: int, max_steps: int, soon: bool = False) -> Background:
        def prepare() -> tuple[Any, ...]:
            play = self._jitted(evaluate, (True, True, False), True, settings=(episodes, max_steps))
            agents = self.agent_shapes(len(self.places))
            agents = jax.tree.map(
                lambda x, to: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=to),
                agents,
                self._agent_placements(agents),
            )
            return play, agent_only(agents), self._keys, np.bool_(False)

        return self._program(("evaluation", episodes, max_steps), prepare, soon)

    def _clock(self) -> Clock:
        return Clock(np.int32(self.steps), np.float32(self.total_steps))  # type: ignore[arg-type]

    def begin(self) -> None:
        """Make the first state of every seed, while the loop compiles."""
        # To lower this program at once would hold up that of the loop, which takes longer.
        self._loop().wait_for(self._lowered)
        first = self._kept_init or self._compile(self._path("init"), self._init, self.varied, self._keys)
        self.state = self._in_place(first(self.varied, self._keys))

    def _in_place(self, state: DeviceState) -> DeviceState:
        """JAX spreads arrays without entries over devices as it likes, and then will not have them back so."""
        if len(self.devices) == 1:
            return state
        return jax.tree.map(lambda x, to: x if x.size else mesh.put(x, to), state, self._placements(state))

    def prepare(self, episodes: int, max_steps: int, soon: bool = False) -> None:
        """Begin to compile an evaluation: together with the loop if it comes `soon`, else while the loop trains."""
        self._evaluation(episodes, max_steps, soon)

    def advance(self, iterations: int) -> Report:
        """Take `iterations` turns of the loop. Return the report of every seed (leaves `seed ...`)."""
        program = self._loop().result()
        self.watch.start()
        state, _, report = program(self.varied, self.state, self._clock(), np.int32(iterations))
        self.state = self._in_place(state)
        report = self._seeds(mesh.fetch(report))
        self.watch.lap("loop")
        self.steps += iterations * self.steps_per_iteration
        return report

    def evaluate(self, episodes: int, max_steps: int, seed: int, sampled: bool = False) -> EvaluationEpisodes:
        """Play `episodes` evaluation episodes for every seed, greedily or with `sampled` actions."""
        keys = self._spread(prng.fold_keys(self.seeds, seed))
        program = self._evaluation(episodes, max_steps).result()
        return self._seeds(mesh.fetch(program(self.varied, agent_only(self._agents()), keys, np.bool_(sampled))))

    def measure_validation(self) -> dict[str, np.ndarray]:
        """Return the metrics of the held episodes of a data set, `seed`; empty without any."""
        if self.learner.memory.validation is None or self.state is None:
            return {}
        state = self.state.learner._replace(behaviour=(), memory=())
        look = self._jitted(measure, (True, False), True, once=True)
        return self._seeds(mesh.fetch(look(self.varied, state, self._clock())))

    def evaluate_points(
        self, points: PyTree[Array | None], episodes: int, max_steps: int, seed: int, sampled: bool = False
    ) -> EvaluationEpisodes:
        """Play as `evaluate` does, once in each of many environments, in one program.

        `points` is shaped like the environment, with leaves `point ...` where points differ and `None` elsewhere. All
        points get the same random numbers.
        """
        keys = self._spread(prng.fold_keys(self.seeds, seed))
        play = self._jitted(evaluate_points, (True, True, False, False), True, settings=(episodes, max_steps))
        return self._seeds(mesh.fetch(play(self.varied, agent_only(self._agents()), keys, points, np.bool_(sampled))))

    def sample(self) -> str | None:
        """Return `None`: native environments have no words."""
        return None

    def retire(self) -> None:
        """Keep the environments, which are part of the state."""

    def close(self) -> None:
        """Keep the arrays, which JAX frees."""

    @property
    def learner(self) -> Learner:
        return self.varied.common.learner

    @property
    def spread(self) -> str:
        """Describe the sharing of seeds among devices, and the cause of idle ones; empty if each device has its own
        seeds.
        """
        here = self.here
        asked = mesh.forced_devices() if here[0].platform == "cpu" and self.asked is None else self.asked
        quiet = here[0].platform == "cpu" and asked is None
        wanted = min(mesh.size_of(asked), len(here)) if asked else len(here)
        if words := mesh.sharing_words(self.learner, self.shape):
            return words
        used, env, what = len(self.devices), self.shape.env, shared_batch(self.varied.common)[1]
        many = f"on {used} device{'s' if used > 1 else ''}"
        if used < wanted and not quiet:
            return f"{many} of {wanted}, which is how {len(self.seeds)} seeds with {what} can be shared out evenly"
        return f"{many}, {env} of which share each seed's environments" if env > 1 else ""

    @property
    def exact(self) -> bool:
        """Return whether a resumed run continues as if never stopped."""
        return True

    @property
    def may_save(self) -> bool:
        """Return whether the environments need an option to be saved exactly; those in JAX never do."""
        return False

    @property
    def activity_seconds(self) -> dict[str, float]:
        """Return the seconds of training, by activity."""
        return dict(self.watch.spent)

    @property
    def replays(self) -> bool:
        """Training from a checkpoint again gives the same, bit for bit."""
        return True

    def agent_states(self) -> PyTree[Array]:
        """Return the agents' states, leaves `seed ...`."""
        return self._seeds(self._reachable(self._agents()))

    def _agents(self) -> PyTree[Array]:
        if self.state is not None:
            return self.state.learner.agent
        assert self.agents is not None
        return self.agents

    def load_agents(self, path: Path) -> dict[str, Any]:
        """Take the agents alone out of a checkpoint, to evaluate them. Return its header."""
        agents, header = checkpoint.load_tree(path, self.agent_shapes(len(self.seeds)), ".learner.agent")
        self.use_agents(agents)
        self.steps = header["steps"]
        return header

    def use_agents(self, agents: PyTree[Array]) -> None:
        """Take these agents (leaves `seed ...`), to evaluate them."""
        self.agents = self._spread(agents, self._agent_placements(agents))

    def agent_shapes(self, rows: int) -> PyTree[jax.ShapeDtypeStruct]:
        """Return the shapes of this number of agents' states."""
        if self._kept_init is not None:
            one = self.learner_shapes().agent
        else:
            one = jax.eval_shape(lambda learner: learner.init_agent(prng.key(0)), self.learner)
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct((rows, *x.shape), x.dtype), one)

    def learner_shapes(self) -> LearnerState:
        """Return the shapes of one member's learner state."""
        return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self.shapes().learner)

    def inherit(self, agents: PyTree[Array], memory: PyTree[Array] | None, steps: int) -> None:
        """Take, just after `begin`, the agents of another run, and, at the step that it counts, its memory."""
        assert self.state is not None
        state = self._seeds(mesh.fetch(self.state))
        learner = state.learner._replace(agent=agents)
        if memory is not None:
            clock = Clock(np.int32(steps), np.float32(self.total_steps))  # type: ignore[arg-type]
            learner = learner._replace(memory=memory)
            learner = jax.jit(jax.vmap(lambda one: self.learner.truncate(one, clock)))(learner)
        self.restore(state._replace(learner=learner), steps)

    def next_rollout(self) -> Experience:
        """Return the rollout that the next turn will collect (leaves `seed time env ...`), for inspection."""
        look = self._jitted(next_rollout, (True, False), True, once=True)
        return self._seeds(mesh.fetch(look(self.varied, self.state, self._clock())))

    @property
    def current_observations(self) -> PyTree[np.ndarray] | None:
        """Return the current observation of every environment, leaves `seed env ...`; `None` if episodes are not
        stored.
        """
        if self.state is None or not self.state.actors:
            return None
        return self._seeds(mesh.fetch(self.state.actors.at.observation))

    @property
    def visits(self) -> np.ndarray | None:
        """Return the number of visits of each seed to each place of the environment's map, `seed *place`, if it is
        measured.
        """
        measured = self.state.visits if self.state else ()
        if not isinstance(measured, visits.Visits) or not (places := self.varied.common.environment.map_shape):
            return None
        return mesh.fetch(measured.counts)[: self.rows].reshape(-1, *places)

    @property
    def start_counts(self) -> np.ndarray | None:
        """Return the number of episodes of each seed that began at each place of that map, `seed *place`."""
        measured = self.state.visits if self.state else ()
        if not isinstance(measured, visits.Visits) or not (places := self.varied.common.environment.map_shape):
            return None
        return mesh.fetch(measured.begun)[: self.rows].reshape(-1, *places)

    def shapes(self, placed: bool = False) -> DeviceState:
        """Return the shapes and dtypes of a state to `restore`; when `placed`, those of `state` with the devices it
        is on.
        """
        kept = self._kept_init
        shapes = jax.eval_shape(self._init, self.varied, self._keys) if kept is None else kept.out_info
        if not placed:
            return jax.tree.map(lambda x: jax.ShapeDtypeStruct((len(self.seeds), *x.shape[1:]), x.dtype), shapes)
        return jax.tree.map(
            lambda x, to: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=to), shapes, self._placements(shapes)
        )

    def restore(self, state: DeviceState, steps: int) -> None:
        """Continue from a saved state: leaves `seed ...`, whose further rows are ignored."""
        self.state = self._spread(state, self._placements(state))
        self.steps = steps

    def save(self, path: Path, header: dict[str, Any]) -> None:
        """Write a checkpoint. Raise `NotFinite` if any of its values is not finite.

        Of several hosts the first one writes.
        """
        state = self._reachable(self.state)
        if jax.process_index() == 0 or not self.several_hosts:
            checkpoint.save_tree(path, state, header, soundness.check_leaf, self.rows)

    def load(self, path: Path) -> dict[str, Any]:
        """Continue from a checkpoint. Return its header."""
        self.state = None  # a state may be too large to be there twice
        state, header = checkpoint.load_tree(path, self.shapes())
        self.restore(state, header["steps"])
        return header

    def array_shapes(self) -> dict[str, PyTree[jax.ShapeDtypeStruct]]:
        """Return the shapes of the arrays that training keeps in memory, by part, without making any of them."""
        state, learner = self.shapes(placed=True), self.learner
        parts = {part: getattr(state.learner, part) for part in ("agent", "behaviour", "rewards", "memory")}
        parts |= {part: getattr(state, part) for part in ("starts", "pool", "actors", "visits")}
        if isinstance(learner.agent, Evolver):
            return parts  # returns alone are kept of what is played
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), (parts["agent"], parts["behaviour"]))
        start_id = state.pool.starts.start_id if learner.agent.needs_start_ids else ()
        start_id = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[2:], x.dtype), start_id)
        count = len(self.places) * self.steps_per_iteration * learner.spec.num_agents
        environment = self.varied.common.environment
        lived = jax.eval_shape(lambda a, b, start_id: learner.example(a, b, start_id, environment), *one, start_id)
        rollout = jax.tree.map(lambda x: jax.ShapeDtypeStruct((count, *x.shape), x.dtype), lived)
        read = [leaf for leaf in jax.tree.leaves(learner.memory) if isinstance(leaf, jax.Array)]
        if read:  # data is part of the loop, which every device has a copy of
            parts["memory"] = [parts["memory"], [read] * len(self.devices)]
        return parts | {"rollout": rollout}

    def search(self, member: int) -> tuple[str, Bad] | None:
        """Find the part that has learned a number which is not finite, and the number."""
        if self.state is None:
            return None
        return soundness.find_nonfinite(self._reachable(self.state.learner), member)

    def first_nonfinite(self, member: int, before: int) -> int:
        """Return `before`: no more is known until training is repeated."""
        return before

    def missing(self) -> dict[str, tuple[str, ...]]:
        """Return an empty dictionary: every step has all named values of the environment."""
        return {}

    def attempt(self, until: int, skip: Sequence[bool]) -> list[str]:
        """Train all members up to a step. Return the reason why each member that is not skipped cannot continue, or
        empty.
        """
        ahead = (until - self.steps) // self.steps_per_iteration
        if ahead <= 0:
            return [""] * len(self.seeds)
        name, report = self.learner.spec.name, self.advance(ahead)
        environment, learned = np.asarray(report.environment_finite), np.asarray(report.agent_finite)
        rows = zip(self.seeds, skip, environment, learned, strict=True)
        return ["" if skipped else soundness.reason_to_stop(name, seed, *finite) for seed, skipped, *finite in rows]

    def attempt_evaluation(
        self, episodes: int, max_steps: int, seed: int, sampled: bool, skip: Sequence[bool]
    ) -> tuple[np.ndarray, list[str]]:
        """Evaluate all members: no environment fails here."""
        played = self.evaluate(episodes, max_steps, seed, sampled)
        returns = np.asarray(played.returns, float)
        return np.where(np.isnan(returns) & ~played.left_out(), -np.inf, returns), [""] * len(self.seeds)

    def select(self, rows: Sequence[int]) -> DeviceRunner:
        """Return a runner that continues with these members alone, perhaps on fewer devices."""
        chosen = np.array(rows)
        members, state = mesh.fetch((self.varied.members, self.state))
        varied = SeedBatch(self.varied.common, jax.tree.map(lambda leaf: leaf[chosen], members))
        seeds = [self.seeds[row] for row in rows]
        runner = DeviceRunner(varied, seeds, self.total_steps, self.asked, self.several_hosts)
        runner.restore(jax.tree.map(lambda leaf: leaf[chosen], state), self.steps)
        return runner

    def adopt(self, source: Sequence[int], numbers: Numbers, anew: Sequence[bool]) -> list[str]:
        """Give member i the learned state and memory of `source[i]`, and its own numbers."""
        self.varied = self.place_on_devices(batch_seeds(self.varied.common, numbers))
        state, rows = self.state, np.array(source)
        assert state is not None
        if (rows != np.arange(len(rows))).any():
            learner = jax.tree.map(lambda leaf: leaf[rows], mesh.fetch(state.learner))
            self.restore(state._replace(learner=learner), self.steps)
        return [""] * len(self.seeds)


def shared_batch(loop: DeviceLoop) -> tuple[int, str]:
    """Return the batch size that the devices of one seed must divide, and its name."""
    agent, memory = loop.learner.agent, loop.learner.memory
    if isinstance(agent, Evolver):
        return agent.population, f"populations of {agent.population}"
    if memory.offline:
        return agent.batch_size, f"batches of {agent.batch_size}"
    if memory.on_policy:
        return agent.num_envs, f"num_envs {agent.num_envs}"
    both = f"num_envs {agent.num_envs} and batches of {agent.batch_size}"
    return math.gcd(agent.num_envs, agent.batch_size), both
