"""The manifest of an exported policy: its inputs and outputs by name, spaces, normalisation and versions, as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from forage.core import columns, spaces
from forage.core.plain import package_version

if TYPE_CHECKING:
    from forage.loop.policy import Policy

MANIFEST = "forage-manifest-1"
"""The version of the manifest's own layout."""

PACKAGES = ("jax", "equinox", "numpy", "gymnasium")


def describe_policy(policy: Policy, file: str = "") -> dict[str, Any]:
    """Return the manifest of a policy, as plain data. `file`: the name of the file that it describes.

    `inputs` and `outputs` list arrays in the order of an ONNX model, with the names that it gives them and the shape of
    one row; each has a first axis `batch` there. `memory` lists what an agent with memory takes before the
    observation, with its value at the start of an episode, and gives back before the action. `action_structure` nests
    the numbers of the outputs as an action does, with lists for tuples. `columns` is the code of the table that the
    policy learned from (`forage.core.columns`), with the words for no, yes and missing cells.
    """
    action = policy.action_example
    start = [np.asarray(leaf) for leaf in jax.tree.leaves(policy._start)]
    inputs, outputs, memory = array_names(policy)
    table = policy.spec.columns
    words = {"missing": list(columns.MISSING), "yes": list(columns.YES), "no": list(columns.NO)}
    found = {
        "manifest": MANIFEST,
        "file": file,
        "agent": type(policy.agent).__name__,
        "environment": policy.spec.name,
        "member": policy.member,
        "actions": "sampled" if policy.sampled else "greedy",
        "agents": policy.spec.num_agents,
        "observation_space": finite_json(spaces.to_json(policy.spec.observation_space)),
        "action_space": finite_json(spaces.to_json(policy.spec.action_space)),
        "memory": [
            {"name": name, "output": f"next_{name}"} | describe_array(leaf) | {"start": leaf.tolist()}
            for name, leaf in zip(memory, start, strict=True)
        ],
        "inputs": describe_leaves(inputs, policy._like),
        "outputs": describe_leaves(outputs, action),
        "action_structure": number_leaves(action),
        "normalisation": describe_norms(getattr(policy.state, "norm", None)),
        "versions": {"forage": package_version("forage-rl")} | {name: package_version(name) for name in PACKAGES},
    }
    if table is None:
        return found
    found["inputs"][0]["columns"] = table.entries()
    found["outputs"][0]["columns"] = [column.name for column in table.action]
    return found | {"columns": table.to_json() | {"words": words}}


def split_columns(manifest: dict[str, Any], table: columns.Columns) -> dict[str, Any]:
    """Return the manifest of a model whose inputs and outputs are the columns of a table, each an array of the batch.

    A category and a yes or no are a whole number, the place of the word in `names`; a date is a number of days since
    1970 by which each month has 31.
    """
    taken = {name for entry in manifest["memory"] for name in (entry["name"], entry["output"])}

    def describe(column: columns.Column, role: str) -> dict[str, Any]:
        name = f"{role}.{column.name}" if column.name in taken else column.name
        entry = {"name": name, "dtype": "int32" if column.numbered else "float32", "shape": [], "kind": column.kind}
        return entry | ({"names": list(column.names or ("no", "yes"))} if column.numbered else {})

    split = {
        "inputs": [describe(column, "observation") for column in table.observation],
        "outputs": [describe(column, "action") for column in table.action],
    }
    return manifest | split


def finite_json(value: Any) -> Any:
    """Return plain data with infinite bounds as the texts `Infinity` and `-Infinity`, as JSON has no such numbers.

    `forage.core.spaces.from_json` reads them again.
    """
    if isinstance(value, dict):
        return {name: finite_json(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [finite_json(inner) for inner in value]
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def number_leaves(tree: Any) -> Any:
    """Return a tree of dictionaries and tuples with the number of each leaf in its place."""
    leaves, structure = jax.tree.flatten(tree)
    return jax.tree.unflatten(structure, range(len(leaves)))


def array_names(policy: Policy) -> tuple[list[str], list[str], list[str]]:
    """Return the names of the observation's leaves, of the action's and of the memory's, all of them different.

    A leaf of a dictionary has its key, or its keys with points between them; a single array is `observation` or
    `action`. A key that another array has for its name follows `observation.` instead.
    """
    action = policy.action_example
    memory = [f"memory{number}" for number in range(len(jax.tree.leaves(policy._start)))]
    outputs = [join_path("action", path) for path in paths_of(action)]
    taken = {*memory, *outputs, *(f"next_{name}" for name in memory)}
    inputs = []
    for path in paths_of(policy._like):
        name = ".".join(path) or "observation"
        while name in taken:
            name = f"observation.{name}"
        taken.add(name)
        inputs.append(name)
    return inputs, outputs, memory


def paths_of(tree: Any) -> list[tuple[str, ...]]:
    """Return the path of each leaf of nested dictionaries and sequences: its keys and its numbers."""
    return [path_steps(path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]


def path_steps(path: Iterable[Any]) -> tuple[str, ...]:
    """Return the keys and numbers of one of JAX's paths."""
    return tuple(str(getattr(step, "key", getattr(step, "idx", step))) for step in path)


def join_path(root: str, path: Iterable[str]) -> str:
    """Return a path below `root`, with points between its steps."""
    return ".".join((root, *path))


def describe_array(leaf: Any) -> dict[str, Any]:
    """Return the type and the shape of an array."""
    return {"dtype": str(leaf.dtype), "shape": list(leaf.shape)}


def describe_leaves(names: list[str], tree: Any) -> list[dict[str, Any]]:
    """Return the name, type and shape of each leaf."""
    return [{"name": name} | describe_array(leaf) for name, leaf in zip(names, jax.tree.leaves(tree), strict=True)]


def describe_norms(norms: Any) -> dict[str, Any]:
    """Return the mean and variance by which the policy itself normalises each array; empty if it does not.

    An array x becomes (x - mean) / sqrt(variance + 1e-8), between -10 and 10 (`forage.nn.normalise`).
    """
    found = jax.tree_util.tree_flatten_with_path(norms, is_leaf=is_norm)[0]
    return {
        ".".join(path_steps(path)) or "observation": {
            "mean": np.asarray(norm.mean).tolist(),
            "variance": np.asarray(norm.variance).tolist(),
        }
        for path, norm in found
    }


def is_norm(node: Any) -> bool:
    """Return whether a node of a tree is a running mean and variance."""
    return hasattr(node, "mean") and hasattr(node, "variance")
