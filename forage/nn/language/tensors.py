"""Weights as safetensors under Hugging Face's names: which tensor of a file is which array of a transformer.

Several projections may lie in one tensor (`FUSED`), and the experts of a layer in one each; a matrix lies there as
(outputs, inputs), but in GPT-2's files.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from forage.core.errors import ForageError
from forage.core.text.tokenizer import read_object
from forage.nn.language.architecture import Architecture

DTYPES = "float32", "bfloat16", "float16"
PROJECTIONS = {
    "queries": "self_attn.q_proj",
    "keys": "self_attn.k_proj",
    "values": "self_attn.v_proj",
    "out": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
"""A block's projections, and their names in Hugging Face's files."""
FUSED: dict[str, dict[str, str]] = {
    "phi3": dict.fromkeys(("queries", "keys", "values"), "self_attn.qkv_proj")
    | dict.fromkeys(("gate", "up"), "mlp.gate_up_proj"),
    "gpt2": dict.fromkeys(("queries", "keys", "values"), "attn.c_attn")
    | {"out": "attn.c_proj", "up": "mlp.c_fc", "down": "mlp.c_proj"},
}
"""The names of families that have others; projections of one name lie in one tensor, in the order of a block."""
INNER, BEHIND_ATTENTION = "input_layernorm.weight", "post_attention_layernorm.weight"
NORMS = {
    "before": {"attention_norm": INNER, "mlp_norm": BEHIND_ATTENTION},
    "behind": {"attention_after_norm": BEHIND_ATTENTION, "mlp_after_norm": "post_feedforward_layernorm.weight"},
    "both": {
        "attention_norm": INNER,
        "attention_after_norm": BEHIND_ATTENTION,
        "mlp_norm": "pre_feedforward_layernorm.weight",
        "mlp_after_norm": "post_feedforward_layernorm.weight",
    },
}
HEAD_NORMS = {"query_norm": "self_attn.q_norm.weight", "key_norm": "self_attn.k_norm.weight"}
WHOLE = {"table": "model.embed_tokens.weight", "norm": "model.norm.weight", "head": "lm_head.weight"}
GPT2_NORMS = {
    "attention_norm": "ln_1.weight",
    "attention_norm_bias": "ln_1.bias",
    "mlp_norm": "ln_2.weight",
    "mlp_norm_bias": "ln_2.bias",
}
GPT2_WHOLE = {
    "table": "transformer.wte.weight",
    "positions": "transformer.wpe.weight",
    "norm": "transformer.ln_f.weight",
    "norm_bias": "transformer.ln_f.bias",
    "head": "lm_head.weight",
}


class Place(NamedTuple):
    """The place of an array, or of one expert's part of it, in a file."""

    name: str
    turned: bool = False  # whether it is stored (outputs, inputs)
    expert: int | None = None


class Tensor(NamedTuple):
    """A tensor of a file, with the arrays that lie in it side by side."""

    turned: bool
    parts: list[tuple[int, int | None]]  # the number of each array among the leaves, and of its expert


def projection_name(architecture: Architecture, layer: int, projection: str) -> str:
    """Return the name of a projection in files, without its ending."""
    stem = "transformer.h" if architecture.family == "gpt2" else "model.layers"
    return f"{stem}.{layer}.{(PROJECTIONS | FUSED.get(architecture.family, {}))[projection]}"


def leaf_places(path: tuple[Any, ...], architecture: Architecture) -> list[Place]:
    """Return the places of a leaf of a transformer in its files."""
    names: list[Any] = [getattr(part, "name", getattr(part, "idx", None)) for part in path]
    gpt2 = architecture.family == "gpt2"
    whole = GPT2_WHOLE if gpt2 else WHOLE
    if names[0] in whole:
        return [Place(whole[names[0]])]
    layer, name = names[1], names[2]
    stem = f"transformer.h.{layer}." if gpt2 else f"model.layers.{layer}."
    vectors = GPT2_NORMS if gpt2 else NORMS[architecture.choices.placement] | HEAD_NORMS
    if name in vectors:
        return [Place(stem + vectors[name])]
    if name == "experts":
        if names[3] == "router":
            return [Place(f"{stem}mlp.gate.weight", turned=True)]
        own = f"{stem}mlp.experts.{{}}.{names[3]}_proj.weight"
        return [Place(own.format(expert), True, expert) for expert in range(architecture.experts)]
    return [Place(f"{projection_name(architecture, layer, name)}.{names[3]}", names[3] == "weight" and not gpt2)]


def file_tensors(paths: list[tuple[Any, ...]], architecture: Architecture) -> dict[str, Tensor]:
    """Return the tensors of a file for the leaves of a transformer."""
    found: dict[str, Tensor] = {}
    for number, path in enumerate(paths):
        for place in leaf_places(path, architecture):
            found.setdefault(place.name, Tensor(place.turned, [])).parts.append((number, place.expert))
    return found


def to_leaves(
    tensors: dict[str, np.ndarray], like: Any, architecture: Architecture, directory: Path
) -> tuple[Any, set[str]]:
    """Return a tree like `like` of the tensors of a directory, in NumPy, and the names of those that it took.

    Raise `ForageError` for a tensor that is missing or has another shape.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    named = file_tensors([path for path, _ in leaves], architecture)
    found: list[Any] = [{} for _ in leaves]
    for name, (turned, parts) in named.items():
        if name not in tensors:
            raise ForageError(f"The weights in {directory} lack the tensor {name!r}.")
        tensor = tensors[name].T if turned else tensors[name]
        shapes = [leaves[number][1].shape[expert is not None :] for number, expert in parts]
        ends = np.cumsum([shape[-1] for shape in shapes])
        wanted = *shapes[0][:-1], int(ends[-1])
        if tensor.shape != wanted:
            raise ForageError(
                f"The tensor {name!r} in {directory} has the shape {tensors[name].shape}, and config.json asks for "
                f"{wanted[::-1] if turned else wanted}."
            )
        for (number, expert), part in zip(parts, np.split(tensor, ends[:-1], axis=-1), strict=True):
            if expert is None:
                found[number] = np.ascontiguousarray(part)
            else:
                found[number][expert] = part
    whole = [np.stack([x[e] for e in sorted(x)]) if isinstance(x, dict) else x for x in found]
    return jax.tree_util.tree_unflatten(structure, whole), set(named)


def from_leaves(tree: Any, architecture: Architecture) -> dict[str, np.ndarray]:
    """Return the tensors of a file with the arrays of a transformer."""
    pairs = jax.tree_util.tree_flatten_with_path(tree)[0]
    leaves = [np.asarray(leaf) for _, leaf in pairs]
    found = {}
    for name, (turned, parts) in file_tensors([path for path, _ in pairs], architecture).items():
        arrays = [leaves[number] if expert is None else leaves[number][expert] for number, expert in parts]
        tensor = arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)
        found[name] = np.ascontiguousarray(tensor.T if turned else tensor)
    return found


def read_tensors(directory: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a directory by their names, from one file or from several."""
    load_file = safetensors("load_file")
    index = directory / "model.safetensors.index.json"
    if index.exists():
        files = sorted(set(read_json(index, "").get("weight_map", {}).values()))
        if not files:
            raise ForageError(f"{index} names no files of weights.")
    elif (directory / "model.safetensors").exists():
        files = ["model.safetensors"]
    else:
        raise ForageError(f"{directory} holds no weights that Forage reads: {describe_weights(directory)}")
    found = {}
    for name in files:
        if not (directory / name).exists():
            raise ForageError(f"{directory} lacks {name}, which its index names.")
        try:
            found |= load_file(directory / name)
        except Exception as error:
            raise ForageError(f"{directory / name} is no file of safetensors: {error}.") from error
    if kinds := {str(tensor.dtype) for tensor in found.values()} - set(DTYPES):
        raise ForageError(f"The weights in {directory} are {min(kinds)}; Forage reads {', '.join(DTYPES)}.")
    return found


def describe_weights(directory: Path) -> str:
    """Describe the weights of a directory without model.safetensors, and a way to such a file."""
    if found := sorted(directory.glob("*.gguf")):
        return f"{found[0].name} is of llama.cpp. {GGUF}"
    if found := sorted([*directory.glob("*.bin"), *directory.glob("*.pt"), *directory.glob("*.pth")]):
        return (
            f"there is no model.safetensors, and {found[0].name} may run code as it is read; where you trust it, "
            f"transformers writes it anew: AutoModelForCausalLM.from_pretrained(OLD).save_pretrained(NEW)."
        )
    return "there is no model.safetensors, and files of other kinds may run code."


GGUF = "Forage reads safetensors: take the directory that it was made from."


def check_file(path: Path) -> None:
    """Raise `ForageError` for a file in the place of a directory with a transformer."""
    if path.suffix == ".gguf":
        raise ForageError(f"{path} is a GGUF file, of llama.cpp. {GGUF}")
    if path.is_file():
        here = f", such as {path.parent}" if (path.parent / "config.json").exists() else ""
        raise ForageError(f"{path} is a file; name the directory with a transformer{here}.")


def check_unused(tensors: dict[str, np.ndarray], used: set[str], architecture: Architecture, directory: Path) -> None:
    """Raise `ForageError` for a tensor without a place, which a transformer of this configuration would not use."""
    table = (GPT2_WHOLE if architecture.family == "gpt2" else WHOLE)["table"]
    for name in sorted(set(tensors) - used):
        if name.endswith(("rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias")):
            continue  # older directories keep what follows from the configuration
        if name == WHOLE["head"]:
            if np.array_equal(tensors[name].view(np.uint8), tensors[table].view(np.uint8)):
                continue
            raise ForageError(
                f"{directory} has a head of its own, and tie_word_embeddings of its config.json says that it has not."
            )
        raise ForageError(f"The weights in {directory} have a tensor that Forage has no place for, {name!r}.")


def safetensors(function: str) -> Callable[..., Any]:
    """Return a function of the package that reads and writes weights. Raise `ForageError` if it is missing."""
    try:
        import safetensors.numpy
    except ImportError:
        raise ForageError("Weights as safetensors need an extra: pip install 'forage-rl[language]'.") from None
    return getattr(safetensors.numpy, function)


def read_json(path: Path, missing: str) -> dict[str, Any]:
    """Return the content of a file. Raise `ForageError` for a file that is missing, or is no JSON object."""
    if not path.exists():
        raise ForageError(missing)
    return read_object(path)


def write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
