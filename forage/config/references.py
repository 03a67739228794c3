"""References of parts by name: runs whose policies or models they use, and files of demonstrations.

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

from forage.config.saved import load_policy
from forage.core import frozen, spaces
from forage.core.frozen import FrozenPolicy, Tree
from forage.core.ports import Behaviour
from forage.core.text.named import FORAGE
from forage.core.types import ForageError, Spec
from forage.data.demonstrations import Demonstrations, load_demonstrations, with_hashes
from forage.data.files import file_hash
from forage.loop.policy import Policy
from forage.nn.language import base, lora, pretrained
from forage.nn.language.directory import load_scorer
from forage.nn.language.peft import absolute_source, describe_no_model, split_source
from forage.nn.language.pretrained import PretrainedModel
from forage.nn.language.scorer import PretrainedScorer
from forage.nn.language.tensors import check_file
from forage.nn.transformer import Transformer

REFERENCES = (FrozenPolicy, Demonstrations, PretrainedModel)
"""The parts within parts that may name other runs or files. A behaviour has `names_run` of its own."""


def has_references(parts: Any) -> bool:
    """Return whether parts hold a reference."""

    def refers(node: Any) -> bool:
        return isinstance(node, REFERENCES) or (isinstance(node, Behaviour) and node.names_run)

    return any(map(refers, jax.tree.leaves(parts, is_leaf=refers)))


def take_references(parts: dict[str, Any]) -> dict[str, Any]:
    """Return parts, by port, with the hash of each file and each run that they name, unless they have it already."""
    parts = parts | {"memory": parts["memory"].with_hashes()}
    if not has_references(parts):
        return parts
    found = take_models(take_policies(with_hashes(parts)))
    return found | {"behaviour": found["behaviour"].with_run_hash(hash_run)}


def load_references(parts: Sequence[Any], spec: Spec, learns: bool = True) -> Sequence[Any]:
    """Return parts with the content of their references, for a run that `learns`; to act alone a run needs none."""
    if not has_references(parts):
        return parts
    parts = [part.with_run(load_run, spec, learns) if isinstance(part, Behaviour) else part for part in parts]
    return load_models(load_policies(load_demonstrations(parts, spec), spec)) if learns else parts


def hash_run(run: str) -> tuple[str, str]:
    """Return the absolute path of a run and the hash of its agents. Raise `ForageError` if there is no such run."""
    path = Path(run).expanduser().absolute()
    load_policy(path)
    return str(path), file_hash(path / "agent.npz")


def load_run(run: str, sha256: str, spec: Spec, use: str, role: str) -> Policy:
    """Return the policy of a run that a part names, with a hash taken earlier.

    `use`: what this run does with it, such as `build on it`; `role`: what it is here, such as `a base`. Raise
    `ForageError` if the run is gone, has learned more since, or is of another environment.
    """
    policy = load_policy(run)
    if file_hash(Path(run) / "agent.npz") != sha256:
        raise ForageError(f"The agent of {run} has changed since this run began to {use}; put it back, or train again.")
    check_plays(policy.spec, spec, run, role)
    return policy


def take_policies(part: Tree) -> Tree:
    """Return a part with the agent, and its hash, of each run whose policy it, or a part within it, acts with.

    Agents taken earlier stay, as their run may be gone when this one is only evaluated.
    """

    def one(policy: FrozenPolicy) -> FrozenPolicy:
        if policy.agent is not None or policy.function is not None:
            return policy
        path, sha256 = hash_run(policy.run)
        return dataclasses.replace(policy, run=path, sha256=sha256, agent=load_policy(path).agent)

    return frozen.map_frozen_policies(part, one)


def load_policies(part: Tree, spec: Spec) -> Tree:
    """Return a part with the weights of each run that it, or a part within it, takes its policy from.

    Raise `ForageError` if such a run is gone, has learned more since, or is of another environment.
    """

    def one(policy: FrozenPolicy) -> FrozenPolicy:
        if policy.weights is not None or policy.function is not None:
            return policy
        found = load_run(policy.run, policy.sha256, spec, "build on it", "a base")
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


HELD: dict[str, dict[str, Any]] = {}
"""Models read by `take_models`, by hash, until a run starts with them: large models are not read twice."""


def take_models(part: Tree) -> Tree:
    """Return a part with the sizes of each pretrained transformer in it, and the hash of its weights.

    What was taken before stays, as the files may be gone where a run is only evaluated.
    """

    def one(model: PretrainedModel) -> PretrainedModel:
        if model.sizes:
            return model
        source = model.source if model.source == FORAGE else absolute_source(model.source)
        weights = read_weights(model, source)
        found = digest(weights)
        HELD[found] = weights
        return dataclasses.replace(model, source=source, sha256=found, sizes=pretrained.sizes_of(weights["weights"]))

    return pretrained.map_pretrained(part, one)


def load_models(part: Tree) -> Tree:
    """Return a part with the weights of each pretrained transformer in it. Raise `ForageError` for changed ones."""

    def one(model: PretrainedModel) -> PretrainedModel:
        if model.weights is not None:
            return model
        if model.sha256 in HELD:  # taken out, as no two parts may give away one array
            return dataclasses.replace(model, **HELD.pop(model.sha256))
        weights = read_weights(model, model.source)
        if digest(weights) != model.sha256:
            raise ForageError(
                f"The weights of the model {model.source} have changed since this run began from them; put them back, "
                f"or train again."
            )
        return dataclasses.replace(model, **weights)

    whole = pretrained.map_pretrained(part, one)
    HELD.clear()
    return whole


def read_weights(model: PretrainedModel, source: str) -> dict[str, Any]:
    """Return the fields of a model that hold its weights. Raise `ForageError` if there are none."""
    if not isinstance(model, PretrainedScorer):
        return {"weights": read_model(source)}
    network, head = read_scorer(source)
    return {"weights": network, "head": head}


def read_scorer(source: str) -> tuple[Transformer, Any]:
    """Return the transformer and the head of a reward model. Raise `ForageError` if there is none."""
    path = Path(source)
    if (path / "agent.npz").exists():
        state = load_policy(path).state
        if not hasattr(state, "head"):
            raise ForageError(
                f"The agent of {source} is no reward model; name a run of reward-model or process-reward."
            )
        return state.network, state.head
    if not path.is_dir():
        raise ForageError(f"A reward model is a run of reward-model or a directory of one, and {source} is neither.")
    return load_scorer(path)


def read_model(source: str) -> Transformer:
    """Return the transformer of a source. Raise `ForageError` if there is none."""
    if source == FORAGE:
        return base.load_base()
    path, _ = split_source(source)
    check_file(path)
    if (path / "agent.npz").exists():
        policy = load_policy(path)
        if not isinstance(getattr(policy.state, "network", None), Transformer):
            raise ForageError(f"The agent of {source} is no language model; name a run of one, such as of grpo.")
        exact = getattr(policy.agent, "masters", lambda state: state.network)  # another package's agent may lack it
        return exact(policy.state)
    if not path.is_dir():
        raise ForageError(f"{describe_no_model(source)}.")
    return lora.merge_adapters(Transformer.load(source))  # what learns has adapters of its own, or none


def digest(network: Any) -> str:
    """Return a hash of the weights."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(network):
        found.update(np.ascontiguousarray(leaf).tobytes())
    return found.hexdigest()
