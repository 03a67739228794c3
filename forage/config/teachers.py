"""Teachers by name: the directory of a run, or a solver, in place of a policy."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from forage.behaviours.dagger import DAgger
from forage.config.saved import load_policy
from forage.core import frozen, prng, spaces
from forage.core.frozen import Frozen, Tree
from forage.core.ports import Behaviour, Environment, Starts
from forage.core.types import ForageError, Spec
from forage.data.files import fingerprint
from forage.environments.grid.core import GridWorld
from forage.environments.grid.solve import solve
from forage.environments.wrappers.base import Wrapper
from forage.starts.cell_archive import flattened
from forage.starts.snapshot import Snapshot, Snapshots, play

SOLVER = "solver"


def taught(starts: Starts, environment: Environment) -> Starts:
    """Return the starts with their teacher in place of its name. Raise `ForageError` if there is none of
    that name.
    """
    if not isinstance(starts, Snapshot) or not isinstance(starts.teacher, str):
        return starts
    if starts.teacher != SOLVER:
        return dataclasses.replace(starts, teacher=load_policy(starts.teacher))
    return dataclasses.replace(starts, teacher=solved(environment, starts))


def with_hashes(behaviour: Behaviour) -> Behaviour:
    """Return the behaviour with the hash of its expert's agents, if that is a run and has none yet."""
    if not isinstance(behaviour, DAgger) or not isinstance(behaviour.expert, str) or behaviour.sha256:
        return behaviour  # what was sealed before may be gone where a run is only evaluated
    path = Path(behaviour.expert).expanduser().absolute()
    load_policy(path)
    return dataclasses.replace(behaviour, expert=str(path), sha256=fingerprint(path / "agent.npz"))


def taken(part: Tree) -> Tree:
    """Return a part with the agent, and its hash, of each run whose policy it, or a part within it, acts with.

    Agents taken earlier stay, as their run may be gone when this one is only evaluated.
    """

    def one(policy: Frozen) -> Frozen:
        if policy.agent is not None or policy.function is not None:
            return policy
        path = Path(policy.run).expanduser().absolute()
        agent = load_policy(path).agent
        return dataclasses.replace(policy, run=str(path), sha256=fingerprint(path / "agent.npz"), agent=agent)

    return frozen.map_frozen_policies(part, one)


def with_weights(part: Tree, spec: Spec) -> Tree:
    """Return a part with the weights of each run that it, or a part within it, takes its policy from.

    Raise `ForageError` if such a run is gone, has learned more since, or is of another environment.
    """

    def one(policy: Frozen) -> Frozen:
        if policy.weights is not None or policy.function is not None:
            return policy
        found, path = load_policy(policy.run), policy.run
        if fingerprint(Path(path) / "agent.npz") != policy.sha256:
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
    if fingerprint(Path(path) / "agent.npz") != behaviour.sha256:
        raise ForageError(
            f"The agent of {path} has changed since this run began to learn from it; put it back, or train again."
        )
    check_plays(policy.spec, spec, str(path), "an expert")
    return dataclasses.replace(behaviour, expert=(policy.agent, jax.tree.map(jnp.asarray, policy.state)))


def solved(environment: Environment, starts: Snapshot) -> Snapshots:
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

            return play(environment, start, act, jnp.int32(0), key, steps, starts.every, starts.discount)

        played = jax.vmap(one)(start, actions, keys)
        return flattened(played)

    start = jax.tree.map(lambda x: x[found], (states, observations))
    return replay(start, jnp.asarray(actions), keys[found])
