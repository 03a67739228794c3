"""Directories of Hugging Face's: `config.json` and weights as safetensors, read and written.

What is read keeps its bytes: a directory that is loaded and saved again holds the same tensors under the same names,
and the same configuration, also what of it means nothing here. `generation_config.json` is kept with it.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from forage.core.errors import ForageError
from forage.core.text.tokenizer import named_ends
from forage.nn.language import lora
from forage.nn.language.architecture import Architecture
from forage.nn.language.positions import Rope
from forage.nn.transformer import Projection, Transformer

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
VARIANTS = "use_dora", "rank_pattern", "alpha_pattern", "modules_to_save", "fan_in_fan_out", "trainable_token_indices"
"""Settings of PEFT's adapters whose computation Forage's adapters lack."""
PEFT = "base_model.model."  # what the names of adapters begin with
VECTORS = {
    "attention_norm": "input_layernorm.weight",
    "mlp_norm": "post_attention_layernorm.weight",
    "query_norm": "self_attn.q_norm.weight",
    "key_norm": "self_attn.k_norm.weight",
}
WHOLE = {"table": "model.embed_tokens.weight", "norm": "model.norm.weight", "head": "lm_head.weight"}
CLASSES = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
}
SIZES = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "length": "max_position_embeddings",
    "epsilon": "rms_norm_eps",
}


def load_transformer(directory: Path, dtype: Any = None) -> Transformer:
    """Read a transformer from a directory. See `Transformer.load`."""
    config = read_json(directory / "config.json", f"{directory} holds no transformer: it has no config.json.")
    architecture = read_architecture(config, directory)
    generation = directory / "generation_config.json"
    beside = read_json(generation, "") if generation.exists() else None
    architecture.check()
    files = json.dumps({"config": config, "generation": beside})
    tensors = read_tensors(directory)
    if len(kinds := {str(tensor.dtype) for tensor in tensors.values()}) > 1 and dtype is None:
        raise ForageError(f"The weights in {directory} are of several dtypes, {', '.join(sorted(kinds))}; say which.")
    # A matrix is turned as it is read, by NumPy, so that one in bfloat16 keeps its bits and nothing is compiled.
    like = jax.eval_shape(lambda: Transformer(jax.random.key(0), architecture, files=files))
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    found, used = [], set()
    for path, leaf in leaves:
        name, matrix = tensor_name(path)
        if name not in tensors:
            raise ForageError(f"The weights in {directory} lack the tensor {name!r}.")
        tensor = tensors[name].T if matrix else tensors[name]
        if tensor.shape != leaf.shape:
            wanted = leaf.shape[::-1] if matrix else leaf.shape
            raise ForageError(
                f"The tensor {name!r} in {directory} has the shape {tensors[name].shape}, and config.json asks for "
                f"{wanted}."
            )
        found.append(jnp.asarray(np.ascontiguousarray(tensor), dtype))
        used.add(name)
    check_unused(tensors, used, directory)
    return jax.tree_util.tree_unflatten(structure, found)


def save_transformer(network: Transformer, directory: Path) -> Path:
    """Write a transformer to a directory. See `Transformer.save`."""
    save_file = safetensors("save_file")
    network = lora.merge_adapters(network)
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(network)[0]:
        name, matrix = tensor_name(path)
        tensors[name] = np.ascontiguousarray(np.asarray(leaf).T if matrix else np.asarray(leaf))
    part = directory / "model.safetensors.part"
    save_file(tensors, part, {"format": "pt"})
    files = json.loads(network.files)
    config = write_architecture(network.architecture, files.get("config"), str(network.dtype))
    write_json(directory / "config.json", config)
    if files.get("generation") is not None:
        write_json(directory / "generation_config.json", files["generation"])
    for stale in (*directory.glob("model-*-of-*.safetensors"), directory / "model.safetensors.index.json"):
        stale.unlink(missing_ok=True)
    os.replace(part, directory / "model.safetensors")
    return directory


def with_tokens(
    network: Transformer, end: int | Sequence[int] | None, pad: int | None, begin: int | None = None
) -> Transformer:
    """Return the transformer with the tokens that end, fill and begin a text in its configuration."""
    if isinstance(end, Sequence):
        end = list(end) if len(end) > 1 else end[0] if end else None
    files = json.loads(network.files)
    config = write_architecture(network.architecture, files.get("config"), str(network.dtype))
    tokens = {"eos_token_id": end, "pad_token_id": pad, "bos_token_id": begin}
    files = {"config": {**config, **tokens}, "generation": {**(files.get("generation") or {}), **tokens}}
    changed = copy.copy(network)
    object.__setattr__(changed, "files", json.dumps(files))  # which is static, so that no tree function reaches it
    return changed


def ends(network: Transformer) -> tuple[int, ...]:
    """Return the tokens that end a text, as the configuration names them; none if it names none."""
    files = json.loads(network.files)
    return named_ends(files.get("generation"), files.get("config"))


# Adapters


def save_adapters(network: Transformer, directory: str | Path) -> Path:
    """Write the adapters alone, as PEFT reads them, and return the directory.

    Raise `ForageError` for a transformer without any, and for adapters of different ranks or scales.
    """
    save_file = safetensors("save_file")
    tensors, kinds, names = {}, set(), set()
    for layer, block in enumerate(network.blocks):
        for ours, theirs in PROJECTIONS.items():
            projection = getattr(block, ours)
            if projection.lora_a is None:
                continue
            stem = f"{PEFT}model.layers.{layer}.{theirs}"
            tensors[f"{stem}.lora_A.weight"] = np.ascontiguousarray(np.asarray(projection.lora_a).T)
            tensors[f"{stem}.lora_B.weight"] = np.ascontiguousarray(np.asarray(projection.lora_b).T)
            kinds.add((projection.lora_a.shape[1], projection.scale))
            names.add(theirs.rpartition(".")[2])
    if len(kinds) != 1:
        several = "Adapters of one file have one rank and one scale."
        raise ForageError(several if kinds else "This transformer has no adapters to save.")
    rank, scale = kinds.pop()
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / "adapter_model.safetensors", {"format": "pt"})
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": None,
        "r": rank,
        "lora_alpha": rank * scale,
        "lora_dropout": 0.0,
        "target_modules": sorted(names),
        "bias": "none",
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    write_json(directory / "adapter_config.json", config)
    return directory


def load_adapters(network: Transformer, directory: str | Path) -> Transformer:
    """Return the transformer with the adapters of a directory, of PEFT's or of `save_adapters`.

    Raise `ForageError` in one sentence for a directory without them, for another method than LoRA or a variant of it
    that would compute something else, and for tensors that do not fit the transformer.
    """
    directory = Path(directory)
    config = read_json(
        directory / "adapter_config.json", f"{directory} holds no adapters: it has no adapter_config.json."
    )
    where = f"adapter_config.json in {directory}"
    if config.get("peft_type") != "LORA":
        raise ForageError(f"{where} names the method {config.get('peft_type')!r}; Forage reads 'LORA'.")
    if found := [name for name in VARIANTS if config.get(name)]:
        raise ForageError(f"{where} sets {found[0]}, which Forage's adapters do not have.")
    if config.get("bias", "none") != "none":
        raise ForageError(f"{where} has biases that were learned too, which Forage's adapters do not have.")
    rank = config["r"]
    scale = config["lora_alpha"] / (rank**0.5 if config.get("use_rslora") else rank)
    if not (directory / "adapter_model.safetensors").exists():
        raise ForageError(f"{directory} lacks adapter_model.safetensors.")
    tensors = safetensors("load_file")(directory / "adapter_model.safetensors")
    used = set()

    def adapt(layer: int, ours: str, projection: Projection) -> Projection:
        stem = f"{PEFT}model.layers.{layer}.{PROJECTIONS[ours]}"
        names = f"{stem}.lora_A.weight", f"{stem}.lora_B.weight"
        if not set(names) & set(tensors):
            return projection
        inputs, outputs = projection.weight.shape
        for name, shape in zip(names, ((rank, inputs), (outputs, rank)), strict=True):
            if name not in tensors or tensors[name].shape != shape:
                was = tensors[name].shape if name in tensors else "not there"
                raise ForageError(f"The tensor {name!r} in {directory} has to have the shape {shape}; it is {was}.")
            used.add(name)
        a, b = (jnp.asarray(np.ascontiguousarray(tensors[name].T)) for name in names)
        return Projection(projection.weight, projection.bias, a, b, scale)

    network = lora.map_projections(lora.merge_adapters(network), adapt)
    if left := sorted(set(tensors) - used):
        raise ForageError(f"The adapters in {directory} have a tensor without a place here, {left[0]!r}.")
    return network


# Configuration


def read_architecture(config: dict[str, Any], directory: Path) -> Architecture:
    """Return the sizes that a configuration names. Raise `ForageError` for an unsupported configuration."""
    where = f"config.json in {directory}"
    family = config.get("model_type")
    if family not in CLASSES:
        raise ForageError(f"{where} names the model_type {family!r}; Forage reads {', '.join(CLASSES)}.")
    if missing := [name for name in SIZES.values() if name not in config]:
        raise ForageError(f"{where} lacks {missing[0]!r}.")
    if (activation := config.get("hidden_act", "silu")) != "silu":
        raise ForageError(f"{where} names the activation {activation!r}; Forage reads 'silu'.")
    if config.get("quantization_config"):
        raise ForageError(f"{where} describes quantised weights; Forage reads float32, bfloat16 and float16.")
    layers = config["num_hidden_layers"]
    rotated = unrotated_layers(config, layers) if family == "smollm3" else ()
    return Architecture(
        **{ours: config[theirs] for ours, theirs in SIZES.items()},
        family=family,
        key_heads=key_heads(config),
        head_size=config.get("head_dim") or (128 if family == "qwen3" else 0),
        rope=read_rope(config, where),
        attention_bias=family == "qwen2" or bool(config.get("attention_bias", False)),
        mlp_bias=bool(config.get("mlp_bias", False)),
        windows=read_windows(config, layers, rotated),
        rotated=rotated,
        tied=bool(config.get("tie_word_embeddings", family == "smollm3")),
    ).canonical()


def key_heads(config: dict[str, Any]) -> int:
    """Return the number of heads of keys; 0 for the number of query heads."""
    usual = {"mistral": 8, "smollm3": 4}.get(config["model_type"], 0)  # as transformers has it where nothing is said
    return config.get("num_key_value_heads", usual) or 0


def unrotated_layers(config: dict[str, Any], layers: int) -> tuple[bool, ...]:
    """Return the mask of a SmolLM3's layers that use positions."""
    every = config.get("no_rope_layer_interval", 4)
    listed = config.get("no_rope_layers") or [(layer + 1) % every != 0 for layer in range(layers)]
    found = tuple(bool(entry) for entry in listed[:layers])
    return () if all(found) else found


def read_windows(config: dict[str, Any], layers: int, rotated: tuple[bool, ...]) -> tuple[int, ...]:
    """Return the number of tokens in each layer's attention window."""
    family = config["model_type"]
    size = config.get("sliding_window", 4096 if family == "mistral" else None)
    if family == "llama" or not size or (family != "mistral" and not config.get("use_sliding_window", False)):
        return ()
    if family == "mistral":
        return (size,) * layers
    kinds = config.get("layer_types")
    if kinds is None and family == "smollm3":
        kinds = ["full_attention" if not rotated or rotated[i] else "sliding_attention" for i in range(layers)]
    if kinds is None:
        first = config.get("max_window_layers", 28)
        kinds = ["sliding_attention" if layer >= first else "full_attention" for layer in range(layers)]
    found = tuple(size if kind == "sliding_attention" else 0 for kind in kinds)
    return found if any(found) else ()


def read_rope(config: dict[str, Any], where: str) -> Rope:
    """Return the rotary positions that a configuration names, in its older or its newer form."""
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    usual = 2_000_000.0 if config["model_type"] == "smollm3" else 10_000.0
    base = rope.get("rope_theta") or config.get("rope_theta") or usual
    kind = rope.get("rope_type", rope.get("type", "default"))
    share = rope.get("partial_rotary_factor", config.get("partial_rotary_factor")) or 1.0
    if share != 1:
        raise ForageError(f"{where} turns {share} of each head; Forage turns whole heads.")
    if kind == "default":
        return Rope(base)
    original = rope.get("original_max_position_embeddings") or config["max_position_embeddings"]
    if kind in ("linear", "dynamic"):
        return Rope(base, kind, rope.get("factor", 1.0), original=original if kind == "dynamic" else 0)
    if kind == "llama3":
        return Rope(base, kind, rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"], original)
    raise ForageError(f"{where} scales rotary positions by {kind!r}; Forage has default, linear, dynamic and llama3.")


def write_architecture(architecture: Architecture, read: dict[str, Any] | None, dtype: str) -> dict[str, Any]:
    """Return a configuration: the original one if it is equivalent, or a new one."""
    if read is not None and read_architecture(read, Path()).canonical() == architecture.canonical():
        names = [name for name in ("dtype", "torch_dtype") if name in read] or ["dtype"]
        return {**read, **dict.fromkeys(names, dtype)}
    family = architecture.family
    config = {
        "architectures": [CLASSES[family]],
        "model_type": family,
        **{theirs: getattr(architecture, ours) for ours, theirs in SIZES.items()},
        "num_key_value_heads": architecture.kv_heads,
        "head_dim": architecture.size,
        "hidden_act": "silu",
        "tie_word_embeddings": architecture.tied,
        "initializer_range": 0.02,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "dtype": dtype,
        **write_rope(architecture),
    }
    if family in ("llama", "qwen3", "smollm3"):
        config["attention_bias"] = architecture.attention_bias
    if family in ("llama", "smollm3"):
        config["mlp_bias"] = architecture.mlp_bias
    size = max(architecture.windows, default=0)
    if family != "llama":
        config["sliding_window"] = size or None
    if family in ("qwen2", "qwen3", "smollm3"):
        windows = architecture.windows or (0,) * architecture.layers
        config["use_sliding_window"] = size > 0
        config["layer_types"] = ["sliding_attention" if window else "full_attention" for window in windows]
    if family in ("qwen2", "qwen3"):
        full = [layer for layer in range(architecture.layers) if not architecture.window(layer)]
        config["max_window_layers"] = max(full, default=-1) + 1
    if family == "smollm3":
        config["no_rope_layers"] = [int(architecture.turns(layer)) for layer in range(architecture.layers)]
    return config


def write_rope(architecture: Architecture) -> dict[str, Any]:
    """Return the rotary positions as both forms of a configuration have them."""
    rope = architecture.rope
    scaling: dict[str, Any] = {"rope_type": rope.kind}
    if rope.kind != "default":
        scaling["factor"] = rope.factor
    if rope.kind == "llama3":
        scaling |= {"low_freq_factor": rope.low, "high_freq_factor": rope.high}
    if rope.original:
        scaling["original_max_position_embeddings"] = rope.original
    older = None if rope.kind == "default" else scaling
    return {
        "rope_theta": rope.base,
        "rope_scaling": older,
        "rope_parameters": {**scaling, "rope_theta": rope.base},
    }


# Weights


def tensor_name(path: tuple[Any, ...]) -> tuple[str, bool]:
    """Return Hugging Face's name for a leaf of a transformer, and whether it is stored (outputs, inputs) there."""
    names: list[Any] = [getattr(part, "name", getattr(part, "idx", None)) for part in path]
    if names[0] in WHOLE:
        return WHOLE[names[0]], False
    layer = f"model.layers.{names[1]}."
    if names[2] in VECTORS:
        return layer + VECTORS[names[2]], False
    return f"{layer}{PROJECTIONS[names[2]]}.{names[3]}", names[3] == "weight"


def read_tensors(directory: Path) -> dict[str, np.ndarray]:
    """Return the tensors of a directory by their names, from one file or from several."""
    load_file = safetensors("load_file")
    index = directory / "model.safetensors.index.json"
    if index.exists():
        files = sorted(set(read_json(index, "")["weight_map"].values()))
    elif (directory / "model.safetensors").exists():
        files = ["model.safetensors"]
    else:
        raise ForageError(
            f"{directory} holds no weights that Forage reads: there is no model.safetensors, and files of other kinds "
            f"may run code."
        )
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


def check_unused(tensors: dict[str, np.ndarray], used: set[str], directory: Path) -> None:
    """Raise `ForageError` for a tensor without a place, which a transformer of this configuration would not use."""
    for name in sorted(set(tensors) - used):
        if name.endswith("rotary_emb.inv_freq"):
            continue  # older directories keep what follows from the configuration
        if name == WHOLE["head"]:
            if np.array_equal(tensors[name].view(np.uint8), tensors[WHOLE["table"]].view(np.uint8)):
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
    """Return the content of a file. Raise `ForageError` for a file that is missing, or is no JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ForageError(missing) from None
    except ValueError as error:
        raise ForageError(f"{path} is no JSON: {error}.") from None


def write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
