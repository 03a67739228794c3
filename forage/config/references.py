"""References of parts by name: runs whose policies or models they use, files of demonstrations, a solver.

A reference is taken once, when a run is configured: the part knows the hash of its content from then on. The content is
loaded when the run is about to learn.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from forage.behaviours.dagger import DAgger
from forage.config.saved import load_policy
from forage.core import frozen, prng, spaces
from forage.core.frozen import FrozenPolicy, Tree
from forage.core.ports import Behaviour, Environment, Starts
from forage.core.text.named import FORAGE
from forage.core.types import ForageError, Spec
from forage.data.demonstrations import Demonstrations, load_demonstrations, with_hashes
from forage.data.files import file_hash
from forage.environments.grid.core import GridWorld
from forage.environments.grid.solve import solve
from forage.environments.wrappers.base import Wrapper
from forage.nn.language import base, pretrained
from forage.nn.language.pretrained import PretrainedModel
from forage.nn.transformer import Transformer
from forage.starts.cell_archive import flatten_rows
from forage.starts.snapshot import Snapshot, Snapshots, play_teacher

REFERENCES = (FrozenPolicy, Demonstrations, PretrainedModel, DAgger)
"""The parts, and parts within parts, that may name other runs or files."""


def has_references(parts: Any) -> bool:
    """Return whether parts hold a reference."""

    def refers(node: Any) -> bool:
        return isinstance(node, REFERENCES)

    return any(map(refers, jax.tree.leaves(parts, is_leaf=refers)))


def take_references(parts: dict[str, Any]) -> dict[str, Any]:
    """Return parts, by port, with the hash of each file and each run that they name, unless they have it already."""
    parts = parts | {"memory": parts["memory"].with_hashes()}
    if not has_references(parts):
        return parts
    found = take_models(take_policies(with_hashes(parts)))
    return found | {"behaviour": with_expert_hash(found["behaviour"])}


def load_references(parts: Sequence[Any], spec: Spec, learns: bool = True) -> Sequence[Any]:
    """Return parts with the content of their references, for a run that `learns`; to act alone a run needs none."""
    if not has_references(parts):
        return parts
    parts = [with_expert(part, spec, learns) if isinstance(part, Behaviour) else part for part in parts]
    return load_models(load_policies(load_demonstrations(parts, spec), spec)) if learns else parts


SOLVER = "solver"


def load_teacher(starts: Starts, environment: Environment) -> Starts:
    """Return the starts with their teacher in place of its name. Raise `ForageError` if there is none of
    that name.
    """
    if not isinstance(starts, Snapshot) or not isinstance(starts.teacher, str):
        return starts
    if starts.teacher != SOLVER:
        return dataclasses.replace(starts, teacher=load_policy(starts.teacher))
    return dataclasses.replace(starts, teacher=solution_states(environment, starts))


def with_expert_hash(behaviour: Behaviour) -> Behaviour:
    """Return the behaviour with the hash of its expert's agents, if that is a run and has none yet."""
    if not isinstance(behaviour, DAgger) or not isinstance(behaviour.expert, str) or behaviour.sha256:
        return behaviour  # what was sealed before may be gone where a run is only evaluated
    path = Path(behaviour.expert).expanduser().absolute()
    load_policy(path)
    return dataclasses.replace(behaviour, expert=str(path), sha256=file_hash(path / "agent.npz"))


def take_policies(part: Tree) -> Tree:
    """Return a part with the agent, and its hash, of each run whose policy it, or a part within it, acts with.

    Agents taken earlier stay, as their run may be gone when this one is only evaluated.
    """

    def one(policy: FrozenPolicy) -> FrozenPolicy:
        if policy.agent is not None or policy.function is not None:
            return policy
        path = Path(policy.run).expanduser().absolute()
        agent = load_policy(path).agent
        return dataclasses.replace(policy, run=str(path), sha256=file_hash(path / "agent.npz"), agent=agent)

    return frozen.map_frozen_policies(part, one)


def load_policies(part: Tree, spec: Spec) -> Tree:
    """Return a part with the weights of each run that it, or a part within it, takes its policy from.

    Raise `ForageError` if such a run is gone, has learned more since, or is of another environment.
    """

    def one(policy: FrozenPolicy) -> FrozenPolicy:
        if policy.weights is not None or policy.function is not None:
            return policy
        found, path = load_policy(policy.run), policy.run
        if file_hash(Path(path) / "agent.npz") != policy.sha256:
            raise ForageError(
                f"The agent of {path} has changed since this run began to build on it; put it back, or train again."
            )
        check_plays(found.spec, spec, path, "a base")
        return dataclasses.replace(policy, weights=jax.tree.map(jnp.asarray, found.state))

    return frozen.map_frozen_policies(part, one)


def check_plays(plays: Spec, spec: Spec, path: str, what: str) -> None:
    """Raise `ForageError` if a run's agent has other observations or actions than an environment."""
    have, wanted = ([spaces.to_json(x.observation_space), spaces.to_json(x.action_space)] for x in (plays, spec))
    if have != wanted:
        raise ForageError(
            f"The agent of {path} plays {plays.name}, which shows or takes other things than {spec.name}; a run "
            f"in {spec.name} is {what} there."
        )


def with_expert(behaviour: Behaviour, spec: Spec, learns: bool = True) -> Behaviour:
    """Return the behaviour with its expert in place of the name. Raise `ForageError` if it is another by now.

    Nobody listens to the expert of a run that does not learn, so the expert may be gone: one with any action does.
    """
    if not isinstance(behaviour, DAgger) or not isinstance(behaviour.expert, str):
        return behaviour
    if not learns:
        action = spaces.example(spec.action_space)
        return dataclasses.replace(behaviour, expert=lambda observation, key: action)
    policy, path = load_policy(behaviour.expert), behaviour.expert
    if file_hash(Path(path) / "agent.npz") != behaviour.sha256:
        raise ForageError(
            f"The agent of {path} has changed since this run began to learn from it; put it back, or train again."
        )
    check_plays(policy.spec, spec, str(path), "an expert")
    return dataclasses.replace(behaviour, expert=(policy.agent, jax.tree.map(jnp.asarray, policy.state)))


def solution_states(environment: Environment, starts: Snapshot) -> Snapshots:
    """States on the ways that the grid's own search finds through as many levels as the teacher plays episodes."""
    if not isinstance(environment, GridWorld):
        name = type(environment.environment if isinstance(environment, Wrapper) else environment).__name__
        raise ForageError(
            f"There is a solver for grid worlds as they are, such as grid:MultiRoom-N4-S5, and none for {name}; "
            f"a run's directory is a teacher anywhere."
        )
    keys = jax.random.split(prng.key(prng.SOLVED_LEVELS), starts.episodes)
    states, observations = jax.jit(jax.vmap(environment.reset))(keys)
    plans = [solve(environment, jax.tree.map(lambda x, i=i: np.asarray(x[i]), states)) for i in range(len(keys))]
    found = np.array([i for i, plan in enumerate(plans) if plan])
    if not len(found):
        raise ForageError(f"The solver found no way through {len(keys)} levels of {type(environment).__name__}.")
    steps = max(len(plan or ()) for plan in plans)
    actions = np.zeros((len(found), steps), np.int32)
    for row, i in enumerate(found):
        actions[row, : len(plans[i] or ())] = plans[i]

    @jax.jit
    def replay(start: tuple, actions: jax.Array, keys: jax.Array) -> Snapshots:
        def one(start: tuple, actions: jax.Array, key: jax.Array) -> Snapshots:
            def act(time, observation, key):
                return actions[time], time + 1

            return play_teacher(environment, start, act, jnp.int32(0), key, steps, starts.every, starts.discount)

        played = jax.vmap(one)(start, actions, keys)
        return flatten_rows(played)

    start = jax.tree.map(lambda x: x[found], (states, observations))
    return replay(start, jnp.asarray(actions), keys[found])


HELD: dict[str, Transformer] = {}
"""Models read by `take_models`, by hash, until a run starts with them: large models are not read twice."""


def take_models(part: Tree) -> Tree:
    """Return a part with the sizes of each pretrained transformer in it, and the hash of its weights.

    What was taken before stays, as the files may be gone where a run is only evaluated.
    """

    def one(model: PretrainedModel) -> PretrainedModel:
        if model.sizes:
            return model
        source = model.source if model.source == FORAGE else str(Path(model.source).expanduser().absolute())
        network = read_model(source)
        found = digest(network)
        HELD[found] = network
        return dataclasses.replace(model, source=source, sha256=found, sizes=pretrained.sizes_of(network))

    return pretrained.map_pretrained(part, one)


def load_models(part: Tree) -> Tree:
    """Return a part with the weights of each pretrained transformer in it. Raise `ForageError` for changed ones."""

    def one(model: PretrainedModel) -> PretrainedModel:
        if model.weights is not None:
            return model
        if model.sha256 in HELD:  # taken out, as no two parts may give away one array
            return dataclasses.replace(model, weights=HELD.pop(model.sha256))
        network = read_model(model.source)
        if digest(network) != model.sha256:
            raise ForageError(
                f"The weights of the model {model.source} have changed since this run began from them; put them back, "
                f"or train again."
            )
        return dataclasses.replace(model, weights=network)

    whole = pretrained.map_pretrained(part, one)
    HELD.clear()
    return whole


def read_model(source: str) -> Transformer:
    """Return the transformer of a source. Raise `ForageError` if there is none."""
    if source == FORAGE:
        return base.load_base()
    path = Path(source)
    if (path / "agent.npz").exists():
        network = getattr(load_policy(path).state, "network", None)
        if not isinstance(network, Transformer):
            raise ForageError(f"The agent of {source} is no language model; name a run of one, such as of grpo.")
        return network
    if not path.is_dir():
        raise ForageError(
            f"A model is {FORAGE}, a directory with a transformer, or a run of one, and {source} is none."
        )
    return Transformer.load(path)


def digest(network: Transformer) -> str:
    """Return a hash of the weights."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(network):
        found.update(np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()
