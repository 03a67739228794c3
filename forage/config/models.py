"""Pretrained transformers by name: the base model, a directory of Hugging Face's, or the policy of a run."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import jax
import numpy as np

from forage.config.saved import load_policy
from forage.core.text.named import FORAGE
from forage.core.types import ForageError
from forage.nn.language import base, pretrained
from forage.nn.language.pretrained import Pretrained, Tree
from forage.nn.transformer import Transformer

HELD: dict[str, Transformer] = {}
"""Models read by `taken`, by hash, until a run starts with them: large models are not read twice."""


def taken(part: Tree) -> Tree:
    """Return a part with the sizes of each pretrained transformer in it, and the hash of its weights.

    What was taken before stays, as the files may be gone where a run is only evaluated.
    """

    def one(model: Pretrained) -> Pretrained:
        if model.sizes:
            return model
        source = model.source if model.source == FORAGE else str(Path(model.source).expanduser().absolute())
        network = read(source)
        found = digest(network)
        HELD[found] = network
        return dataclasses.replace(model, source=source, sha256=found, sizes=pretrained.sizes_of(network))

    return pretrained.map_pretrained(part, one)


def with_weights(part: Tree) -> Tree:
    """Return a part with the weights of each pretrained transformer in it. Raise `ForageError` for changed ones."""

    def one(model: Pretrained) -> Pretrained:
        if model.weights is not None:
            return model
        if model.sha256 in HELD:  # taken out, as no two parts may give away one array
            return dataclasses.replace(model, weights=HELD.pop(model.sha256))
        network = read(model.source)
        if digest(network) != model.sha256:
            raise ForageError(
                f"The weights of the model {model.source} have changed since this run began from them; put them back, "
                f"or train again."
            )
        return dataclasses.replace(model, weights=network)

    whole = pretrained.map_pretrained(part, one)
    HELD.clear()
    return whole


def read(source: str) -> Transformer:
    """Return the transformer of a source. Raise `ForageError` if there is none."""
    if source == FORAGE:
        return base.load()
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
