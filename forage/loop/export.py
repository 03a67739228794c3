"""A trained agent as a file that acts elsewhere: in plain NumPy, in an ONNX runtime; or its weights alone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.export import symbolic_shape

from forage.core import prng
from forage.core.checkpoint import is_key, named_leaves
from forage.core.columns import Columns
from forage.core.errors import ForageError
from forage.core.plain import dumps
from forage.core.storage import archives
from forage.loop.manifest import describe_policy, number_leaves, split_columns
from forage.loop.plain import FORMAT, OPERATIONS, ROWS, PlainPolicy, PlainProgram
from forage.loop.program import Operation, Program, ProgramSlot, trace_function, uses

if TYPE_CHECKING:
    from forage.loop.policy import Policy


def export(policy: Policy, path: str | os.PathLike[str]) -> Path:
    """Write a policy as `.npz`, `.onnx` or `.safetensors`, by the path's suffix. Return the path.

    Its manifest (`forage.loop.manifest`) is written into the file, and beside it as `policy.onnx.json`.
    """
    path = Path(path)
    writers = {".npz": to_numpy, ".onnx": to_onnx, ".safetensors": to_safetensors}
    if path.suffix not in writers:
        raise ForageError(f"A policy is exported as {', '.join(writers)}, and {path.name} is none of these.")
    manifest = describe_policy(policy, path.name)
    if path.suffix == ".onnx" and policy.spec.columns is not None:
        manifest = split_columns(manifest, policy.spec.columns)
    writers[path.suffix](policy, path, manifest)
    text = dumps(manifest, indent=1, allow_nan=False)
    archives.write_atomically(manifest_path(path), f"{text}\n".encode())
    return path


def manifest_path(path: Path) -> Path:
    """Return the path of an exported file's manifest: `policy.onnx.json` for `policy.onnx`."""
    return path.with_name(f"{path.name}.json")


def greedy(policy: Policy, batch: bool = False, nested: bool = True) -> Program:
    """Trace one greedy action: inputs and outputs are the memory's leaves, then the observation's or the action's.

    With `batch`, of as many as there are, along an axis before the others. Mixed actions are `nested` as the
    environment takes them, or vectors. Raise `ForageError` if a program cannot act so.
    """
    name = type(policy.agent).__name__
    if policy.agent.looks_ahead:
        raise ForageError(f"{name} looks ahead in the environment itself, which a file has not got.")
    policy.agent.check_unpaid("a file")

    def act(hidden: Any, observation: Any, bits: Any) -> Any:
        action, hidden = policy._decide(policy.state, hidden, observation, prng.from_data(bits), False)
        return hidden, policy._nest(action) if nested and policy._nest is not None else action

    bits = np.asarray(jax.random.key_data(prng.key(0)))
    examples = policy._start, policy._like
    if batch:
        rows = symbolic_shape("rows")
        examples = jax.tree.map(lambda x: jax.ShapeDtypeStruct((*rows, *x.shape), x.dtype), examples)
        program = trace_function(jax.vmap(act, in_axes=(0, 0, None)), *examples, bits)
    else:
        program = trace_function(act, *examples, bits)
    *inputs, key = program.inputs
    if uses(program, [key]):
        raise ForageError(f"{name} draws at random even when it acts greedily, which a file cannot.")
    return Program(program.operations, inputs, program.outputs)


def check_greedy(policy: Policy) -> None:
    """Raise `ForageError` for a policy that was scored with sampled actions, as a file acts greedily."""
    if policy.sampled:
        raise ForageError(
            f"This {type(policy.agent).__name__} was scored with sampled actions, and a file acts greedily; if you "
            f'want that, add --actions greedy, or in Python forage.load(RUN, actions="greedy").'
        )


def to_numpy(policy: Policy, path: Path, manifest: dict[str, Any]) -> None:
    """Write the policy for `PlainPolicy`: numbers, and which operations to do with them."""
    words, found = numpy_content(policy, manifest)
    arrays: dict[str, Any] = dict(found)
    text = np.frombuffer(dumps(words).encode(), np.uint8)
    archives.write_atomically(path, lambda file: np.savez(file, about=text, **arrays))


def numpy_content(policy: Policy, manifest: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the description and the arrays of a file for `PlainPolicy`."""
    check_greedy(policy)
    operations, known, results = program_words(greedy(policy, batch=True))
    memory = jax.tree.leaves(policy._start)
    words = {
        "format": FORMAT,
        "agent": manifest["agent"],
        "environment": manifest["environment"],
        "manifest": manifest,
        "observation": number_leaves(policy._like),
        "action": manifest["action_structure"],
        "memories": len(memory),
        "inputs": [[str(x.dtype), list(x.shape)] for x in jax.tree.leaves(policy._like)],
        "operations": operations,
        "results": results,
    }
    return words, known | {f"memory{i}": np.asarray(x) for i, x in enumerate(memory)}


def plain_policy(policy: Policy) -> PlainPolicy:
    """Return the policy as its exported file acts, without writing the file. Raise `ForageError` as `export` does."""
    words, arrays = numpy_content(policy, describe_policy(policy))
    return PlainPolicy.from_content(json.loads(dumps(words)), arrays)


def plain_program(policy: Policy) -> PlainProgram:
    """Return the batch program of `PlainPolicy`. Raise `ForageError` if NumPy cannot act greedily."""
    program = greedy(policy, batch=True, nested=False)
    return PlainProgram(*program_words(program), inputs=len(program.inputs))


def program_words(program: Program) -> tuple[list[Any], dict[str, np.ndarray], list[Any]]:
    """Return a program of batches in the words of `PlainProgram`: operations, the numbers they need, and results."""
    known: dict[str, np.ndarray] = {}

    def register_name(value: Any) -> int | str:
        if isinstance(value, ProgramSlot):
            return value.number
        name = f"known{len(known)}"
        known[name] = np.asarray(value)
        return name

    operations = []
    for operation in program.operations:
        name, options = in_numpy(operation)
        inputs = [register_name(value) for value in operation.inputs] + [ROWS] * (name == "broadcast")
        operations.append([name, inputs, [slot.number for slot in operation.outputs], options])
    return operations, known, [register_name(value) for value in program.outputs]


def in_numpy(operation: Operation) -> tuple[str, dict[str, Any]]:
    """Return the NumPy form of an operation: a name in `OPERATIONS`, and its options."""
    name = operation.primitive.name
    to_even = name != "round" or int(operation.params["rounding_method"]) == 1  # as NumPy rounds
    if name in NUMPY and to_even and not (name == "select_n" and len(operation.inputs) > 3):
        own, options = NUMPY[name]
        return own, options(operation)
    if name not in OPERATIONS:
        raise ForageError(
            f"This policy needs JAX's operation {name}, which plain NumPy files have not; policy.onnx may have it."
        )
    return name, {}


def _axes(operation: Operation) -> dict[str, Any]:
    return {"axes": list(operation.params["axes"])}


def _nothing(operation: Operation) -> dict[str, Any]:
    return {}


def _shape(operation: Operation) -> dict[str, Any]:
    """Return a shape with `None` for the one size that is only known when there is a batch."""
    shape = operation.shapes[0]
    unknown = [str(size) for size in shape if not isinstance(size, int)]
    if len(unknown) > 1 or (operation.primitive.name == "broadcast_in_dim" and unknown not in ([], ["rows"])):
        raise ForageError(f"This policy makes an array {shape} of a batch, which plain NumPy files have not.")
    return {"shape": [size if isinstance(size, int) else None for size in shape]}


def _first(operation: Operation) -> dict[str, Any]:
    return {"axis": operation.params["axes"][0], "dtype": str(np.dtype(operation.params["index_dtype"]))}


def _gather(operation: Operation) -> dict[str, Any]:
    """Return the axes that are looked up, and those of the rest in the result, for a lookup of whole rows."""
    table, numbers = operation.inputs[0], operation.params["dimension_numbers"]
    looked_up = list(numbers.start_index_map)
    if (
        isinstance(table, ProgramSlot)
        or looked_up != list(numbers.collapsed_slice_dims)
        or [1 if axis in looked_up else size for axis, size in enumerate(table.shape)]
        != list(operation.params["slice_sizes"])
        or "FILL" in str(operation.params["mode"])
    ):
        raise ForageError(
            "This policy looks up parts of rows (JAX's gather), which plain NumPy files have not; policy.onnx may "
            "have it."
        )
    return {"axes": looked_up, "rest": list(numbers.offset_dims)}


def _slice(operation: Operation) -> dict[str, Any]:
    params = operation.params
    strides = params["strides"] or (1,) * len(params["start_indices"])
    limit = [size if isinstance(size, int) else None for size in params["limit_indices"]]
    return {"start": params["start_indices"], "limit": limit, "strides": strides}


NUMPY: dict[str, tuple[str, Callable[[Operation], dict[str, Any]]]] = {
    "round": ("rint", _nothing),
    "integer_pow": ("integer_pow", lambda o: {"y": o.params["y"]}),
    "select_n": ("select", _nothing),
    "stop_gradient": ("same", _nothing),
    "copy": ("same", _nothing),
    "copy_p": ("same", _nothing),
    "name": ("same", _nothing),
    "convert_element_type": ("cast", lambda o: {"dtype": str(np.dtype(o.params["new_dtype"]))}),
    "reshape": ("reshape", _shape),
    "squeeze": ("reshape", _shape),
    "expand_dims": ("reshape", _shape),
    "broadcast_in_dim": ("broadcast", lambda o: _shape(o) | {"axes": list(o.params["broadcast_dimensions"])}),
    "transpose": ("transpose", lambda o: {"axes": list(o.params["permutation"])}),
    "stack": ("stack", lambda o: {"axis": o.params["axis"]}),
    "gather": ("gather", _gather),
    "concatenate": ("concatenate", lambda o: {"axis": o.params["dimension"]}),
    "unstack": ("unstack", lambda o: {"axis": o.params["axis"]}),  # of JAX 0.12 and later
    "split": ("split", lambda o: {"sizes": list(o.params["sizes"]), "axis": o.params["axis"]}),
    "slice": ("slice", _slice),
    "reduce_sum": ("sum", _axes),
    "reduce_max": ("largest", _axes),
    "reduce_min": ("smallest", _axes),
    "reduce_and": ("all", _axes),
    "reduce_or": ("any", _axes),
    "argmax": ("argmax", _first),
    "argmin": ("argmin", _first),
    "dot_general": ("dot_general", lambda o: {"axes": o.params["dimension_numbers"]}),
}
"""JAX's operations that NumPy calls otherwise, or that have options: the name here, and the options."""


def to_safetensors(policy: Policy, path: Path, manifest: dict[str, Any]) -> None:
    """Write the weights of the acting network, each by its path in the agent's state, with metadata on their origin."""
    try:
        from safetensors.numpy import save
    except ImportError:
        raise ForageError("Weights as safetensors need an extra: pip install 'forage-rl[safetensors]'.") from None
    state = policy.state
    acting = getattr(state, policy.agent.acting, state)
    weights = {
        name.removeprefix("."): np.ascontiguousarray(leaf) for name, leaf in named_leaves(acting) if not is_key(leaf)
    }
    metadata = {"forage": dumps(manifest)}
    archives.write_atomically(path, save(weights, metadata=metadata))


def by_columns(program: Callable[..., Any], table: Columns, memories: int) -> Callable[..., list[Any]]:
    """Return a program of one row that takes and gives each column of a table, after `memories` arrays of memory."""

    def act(*values: Any) -> list[Any]:
        entries = []
        for column, value in zip(table.observation, values[memories:], strict=True):
            if column.kind == "category":
                entries.append((value == np.arange(column.width, dtype=np.int32)).astype(np.float32))
            elif column.kind == "boolean":
                entries.append(value.astype(np.float32)[None])
            else:
                entries.append(((value - np.float32(column.mean)) / np.float32(column.deviation))[None])
        *hidden, action = program(*values[:memories], jnp.concatenate(entries))
        if action.ndim:
            parts = [action[i] for i in range(len(table.action))]
        else:  # one choice, or one among the combinations of several, the last column changing fastest
            parts = []
            for count in reversed(table.counts):
                rest = jax.lax.div(action, jnp.asarray(count, action.dtype))  # no `%`, which jax2onnx lacks for batches
                parts.insert(0, action - rest * count)
                action = rest
        kinds = [np.int32 if column.numbered else np.float32 for column in table.action]
        return [*hidden, *(part.astype(kind) for part, kind in zip(parts, kinds, strict=True))]

    return act


def to_onnx(policy: Policy, path: Path, manifest: dict[str, Any]) -> None:
    """Write an ONNX model of a batch: inputs and outputs are those of `greedy`, with an axis `batch` before them.

    They have the names of the manifest.
    """
    try:
        from jax2onnx import to_onnx as convert
    except ImportError:
        raise ForageError("ONNX needs an extra: pip install 'forage-rl[onnx]'.") from None
    check_greedy(policy)
    program: Callable[..., Any] = (inner := greedy(policy))
    memories = len(manifest["memory"])
    example = [*jax.tree.leaves(policy._start), *jax.tree.leaves(policy._like)]
    if policy.spec.columns is not None:
        columns = [np.zeros((), entry["dtype"]) for entry in manifest["inputs"]]
        program, example = by_columns(program, policy.spec.columns, memories), [*example[:memories], *columns]
    same = {place for place in range(memories) if inner.outputs[place] in inner.inputs}

    def act(*values: Any) -> tuple[Any, ...]:
        found = program(*values)
        # An output cannot be an input: memory that a policy hands on unchanged passes through an operation.
        return tuple(value + jnp.zeros_like(value) if place in same else value for place, value in enumerate(found))

    try:
        model = convert(
            jax.vmap(act),
            [jax.ShapeDtypeStruct(("batch", *x.shape), x.dtype) for x in example],
            model_name="policy",
            input_names=[entry["name"] for entry in [*manifest["memory"], *manifest["inputs"]]],
            output_names=[entry.get("output", entry["name"]) for entry in [*manifest["memory"], *manifest["outputs"]]],
        )
    except Exception as error:  # what jax2onnx raises for operations that it lacks has no common type
        said = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise ForageError(
            f"jax2onnx cannot write this {manifest['agent']} as ONNX ({said[:200]}); policy.npz may have it."
        ) from error
    entry = model.metadata_props.add()
    entry.key, entry.value = "forage", dumps(manifest)
    content = model.SerializeToString()
    check_model(content, act, example, manifest["agent"])
    archives.write_atomically(path, content)


def check_model(content: bytes, act: Callable[..., Any], example: list[Any], agent: str) -> None:
    """Raise `ForageError` if an ONNX model does not run, or acts otherwise than its program, on two rows of zeros.

    Without onnxruntime nothing is checked.
    """
    try:
        import onnxruntime
    except ImportError:
        return
    rows = [np.zeros((2, *x.shape), x.dtype) for x in example]
    wanted = jax.device_get(jax.jit(jax.vmap(act))(*rows))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # its warnings are about shapes that it works out again
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_inputs()]
        found = session.run(None, dict(zip(names, rows, strict=True)))
        fits = all(np.allclose(one, other, atol=1e-4) for one, other in zip(found, wanted, strict=True))
    except Exception:  # onnxruntime's errors have no common type
        fits = False
    if not fits:
        raise ForageError(f"jax2onnx writes this {agent} as a model that acts otherwise, so no file is kept.")
