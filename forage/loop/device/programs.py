"""The programs that a runner on the device compiles: the loop and evaluation for all seeds."""

from __future__ import annotations

import functools
from collections.abc import Hashable
from typing import Any

import equinox
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from forage.core import mesh
from forage.core.compiling import IN_ORDER, QUICK, SUMS_IN_ONE_PIECE, WIDE_VECTORS, known_options
from forage.core.types import Clock, Experience
from forage.loop.device.evaluate import play_episodes
from forage.loop.device.loop import DeviceLoop
from forage.loop.device.state import DeviceState
from forage.loop.learner import ChunkStats, LearnerState, Report
from forage.loop.runner import EvaluationEpisodes, Numbers, with_numbers
from forage.loop.soundness import sound


class SeedBatch(equinox.Module):
    """A loop whose `members` leaves (`seed ...`, `None` elsewhere) differ from seed to seed."""

    common: DeviceLoop
    members: PyTree[Array | None]


def batch_seeds(loop: DeviceLoop, numbers: Numbers) -> SeedBatch:
    """Give seeds numbers of their own, by dotted path such as `learner.agent.discount`; arrays stay as they are."""
    nobody = jax.tree.map(lambda _: None, loop)
    arrays = {
        path: values if isinstance(values, jax.Array) else jnp.array(values, jnp.float32)
        for path, values in numbers.items()
    }
    return SeedBatch(loop, with_numbers(nobody, arrays, is_leaf=lambda x: x is None))


def over_seeds(varied: SeedBatch, function: Any, *arguments: Any) -> Any:
    """Map `function(loop, *arguments)` over seeds; batches only those leaves that differ."""
    return jax.vmap(lambda member, *rest: function(equinox.combine(member, varied.common), *rest))(
        varied.members, *arguments
    )


def advance(
    varied: SeedBatch, state: DeviceState, clock: Clock, iterations: Int[Array, ""]
) -> tuple[DeviceState, Clock, Report]:
    """Run `iterations` turns of the loop for every seed (leaves `seed ...`). One compilation serves any number."""

    @jax.jit  # traced once, for its shapes and for the loop
    def turn(varied: SeedBatch, state: DeviceState, clock: Clock) -> tuple[DeviceState, ChunkStats]:
        # The clock stays outside the `vmap`: what depends on it alone is computed once for all seeds.
        return over_seeds(varied, lambda e, state: e.iterate(state, clock), state)

    def body(_: Int[Array, ""], carry: tuple[DeviceState, Clock, Float[Array, "tally"]]):
        state, clock, total = carry
        state, tally = turn(varied, state, clock)
        clock = clock._replace(steps=clock.steps + varied.common.steps_per_iteration)
        return state, clock, total + ravel_pytree(tally)[0]  # one array: a dozen small sums would each be a kernel

    shapes = jax.eval_shape(turn, varied, state, clock)[1]
    nothing, unravel = ravel_pytree(jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes))
    state, clock, total = jax.lax.fori_loop(0, iterations, body, (state, clock, nothing))
    tally = unravel(total)
    updates = jnp.maximum(tally.metrics["updates"], 1)
    metrics = {name: v if name == "updates" else v / updates for name, v in tally.metrics.items()}
    latest = over_seeds(varied, lambda e, state: e.latest(state), state)
    found = jax.vmap(sound)(state.learner)
    report = Report(tally.episodes, metrics, tally.faults == 0, found, latest, tally.infos)
    return lay_out(varied, state), clock, report


def init(varied: SeedBatch, keys: Key[Array, " seed"]) -> DeviceState:
    """Return the first state of every seed."""
    return lay_out(varied, over_seeds(varied, lambda e, key: e.init(key), keys))


def lay_out(varied: SeedBatch, state: DeviceState) -> DeviceState:
    """Lay a state (leaves `seed ...`) out over the devices of each seed, and leave none of that to XLA."""
    shape = mesh.traced_shape()
    return state if shape == mesh.ONE else mesh.constrain(state, leaf_axes(varied, state, shape))


def leaf_axes(varied: SeedBatch, state: DeviceState, shape: mesh.Shape) -> PyTree[P]:
    """Return the axes of the mesh along which the devices of a seed divide each leaf (`seed ...`).

    Of what is remembered the transitions lie with their environments. Parts may keep more by environment, of which
    every device has a copy. Weights that say how they are divided lie in parts.
    """
    axes = env_axes(varied, state)

    def by_env(x: Any, axis: int, spec: P) -> P:
        return P(*[None] * axis, mesh.ENV) if axis and x.shape[axis] % shape.env == 0 else spec

    return jax.tree.map(by_env, state, axes, mesh.partition_tree(state, shape, before=1))


def env_axes(varied: SeedBatch, state: DeviceState) -> PyTree[int]:
    """Return the axis of each leaf (`seed ...`) that counts environments; 0: there is none."""
    learner = varied.common.learner
    streams = learner.agent.num_envs * learner.spec.num_agents

    def node_axes(node: Any) -> Any:
        by_env = isinstance(node, Experience) and node.terminated.shape[2:3] == (streams,)
        return jax.tree.map(lambda _: 2 if by_env else 0, node)

    axes = jax.tree.map(lambda _: 0, state)
    memory = jax.tree.map(node_axes, state.learner.memory, is_leaf=lambda node: isinstance(node, Experience))
    learner = axes.learner._replace(memory=memory)
    return axes._replace(learner=learner, actors=jax.tree.map(lambda _: 1, state.actors))


def next_rollout(varied: SeedBatch, state: DeviceState, clock: Clock) -> Experience:
    """Return the rollout that the next turn will collect, for every seed."""
    return over_seeds(varied, lambda e, state: e.next_rollout(state, clock), state)


def evaluate(
    episodes: int,
    max_steps: int,
    varied: SeedBatch,
    learner: LearnerState,
    keys: Key[Array, " seed"],
    sampled: Bool[Array, ""],
) -> EvaluationEpisodes:
    """Play evaluation episodes for every seed. One compilation serves greedy and sampled actions."""

    def one(loop: DeviceLoop, state: LearnerState, key: Key[Array, ""]) -> Any:
        return play_episodes(loop, state, key, episodes, max_steps, sampled=sampled)

    return over_seeds(varied, one, learner, keys)


def evaluate_points(
    episodes: int,
    max_steps: int,
    varied: SeedBatch,
    learner: LearnerState,
    keys: Key[Array, " seed"],
    points: PyTree[Array | None],
    sampled: Bool[Array, ""],
) -> EvaluationEpisodes:
    """Play evaluation episodes for every seed in each of many environments."""

    def one(loop: DeviceLoop, state: LearnerState, key: Key[Array, ""]) -> Any:
        return jax.vmap(lambda point: play_episodes(loop, state, key, episodes, max_steps, point, sampled))(points)

    return over_seeds(varied, one, learner, keys)


def measure(varied: SeedBatch, learner: LearnerState, clock: Clock) -> dict[str, Array]:
    """Return the metrics of the held episodes of a data set for every seed."""
    return over_seeds(varied, lambda loop, state: loop.measure(state, clock), learner)


def agent_only(agent: PyTree[Array]) -> LearnerState:
    """Return a learner with its agent only, which is sufficient for evaluation."""
    return LearnerState(agent, (), (), ())


@functools.lru_cache(maxsize=128)
def jit_program(
    kind: Hashable,
    devices: jax.sharding.Mesh,
    function: Any,
    inputs: tuple[bool, ...],
    outputs: Any,
    settings: tuple[int, ...] = (),
    donate: bool = False,
    once: bool = False,
) -> Any:
    """Jit `function(*settings, varied, *inputs) -> outputs`; `True` marks values with a seed axis, shared by devices.

    Runners of one `kind` of loop share it, and with it what JAX has traced and compiled: a run that differs from
    one before it in numbers alone begins at once. The kinds used last are kept. What runs `once` is compiled quickly
    rather than well. What devices share of a seed is left to XLA (`core/mesh.py`).
    """

    def place(split: bool) -> Any:
        return P("seed") if split else P()

    tree = SeedBatch(P(), P("seed"))  # type: ignore[arg-type]  # a prefix of the pytree
    mapped = jax.shard_map(
        functools.partial(function, *settings),
        mesh=devices,
        in_specs=(tree, *map(place, inputs)),
        out_specs=jax.tree.map(place, outputs),
        axis_names={mesh.SEED} if mesh.Shape(*devices.devices.shape).of_seed > 1 else set(devices.axis_names),
        check_vma=False,
    )
    options: dict[str, Any] = {**IN_ORDER}
    if devices.devices.flat[0].platform == "cpu":
        options |= SUMS_IN_ONE_PIECE | WIDE_VECTORS
    if once:
        options |= QUICK
    return jax.jit(mapped, donate_argnums=(1,) if donate else (), compiler_options=known_options(options))
