"""Adapters in the files of PEFT: `adapter_config.json` and `adapter_model.safetensors`, read and written.

A projection of a rank r adds scale (x A) B, with scale = alpha / r, or alpha / sqrt(r) where `use_rslora` is set;
`rank_pattern` and `alpha_pattern` name ranks and alphas of single modules. Where a family's file has several
projections in one tensor, they have one A and each a part of B; adapters that learned apart are written as one of the
sum of their ranks, which computes the same.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from forage.core import records
from forage.core.errors import ForageError
from forage.core.text.named import FORAGE
from forage.nn.language import lora
from forage.nn.language.tensors import projection_name, read_json, safetensors, write_json
from forage.nn.transformer import Projection, Transformer, projections

VARIANTS = (
    "use_dora",
    "lora_bias",
    "modules_to_save",
    "trainable_token_indices",
    "target_parameters",
    "layer_replication",
    "alora_invocation_tokens",
)
"""Settings of PEFT's adapters whose computation Forage's adapters lack."""
PREFIX = "base_model.model."  # what the names of adapters begin with
CONFIGURATION, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"


def holds_adapters(directory: Path) -> bool:
    """Return whether a directory holds adapters, and no whole model."""
    return (directory / CONFIGURATION).exists() and not (directory / "config.json").exists()


def split_source(source: str | Path) -> tuple[Path, Path | None]:
    """Return the directory that a source names, and the one of its base if it is `ADAPTERS@BASE`."""
    path = Path(source).expanduser()
    adapters, at, base = str(source).rpartition("@")
    if path.exists() or not at or not holds_adapters(Path(adapters).expanduser()):
        return path, None
    return Path(adapters).expanduser(), Path(base).expanduser()


def absolute_source(source: str) -> str:
    """Return a source with absolute paths."""
    directory, base = split_source(source)
    return str(directory.absolute()) + (f"@{base.absolute()}" if base else "")


def find_base(directory: Path, base: Path | None) -> Path:
    """Return the directory of the model that adapters belong to. Raise `ForageError` if it is not there."""
    if base is not None:
        return base
    named = read_json(directory / CONFIGURATION, "").get("base_model_name_or_path")
    for path in [] if not named else [Path(named).expanduser(), directory / named]:
        if path.is_dir():
            return path
    said = f"{named!r}, which is no directory here" if named else "no base"
    raise ForageError(
        f"{CONFIGURATION} in {directory} names {said}; give the model that the adapters belong to behind an @: "
        f"{directory}@BASE."
    )


def tokenizer_directory(source: str | Path) -> Path:
    """Return the directory of a model's tokenizer: of adapters without one it is their base's."""
    directory, base = split_source(source)
    if holds_adapters(directory) and not (directory / "tokenizer.json").exists():
        return find_base(directory, base)
    return directory


def describe_no_model(source: str) -> str:
    """Return the sentence about a source that is no model, with the command that downloads one of such a name."""
    path = Path(source).expanduser()
    said = f"A model is {FORAGE}, a directory with a transformer, or a run of one, and {source} is none"
    if path.parent.is_dir():
        return said
    name = f"{path.parent.name}/{path.name}"  # as models of Hugging Face's hub are called
    return f"{said}; one of Hugging Face's hub is downloaded first, as in hf download {name} --local-dir {path.name}"


def tokenizer_name(source: str) -> str:
    """Return the tokenizer of a model by its source, `forage`, a directory or a run: `forage`, or a directory.

    Raise `ForageError` for a source that is none of these.
    """
    if source == FORAGE:
        return FORAGE
    path = tokenizer_directory(source)
    if not path.is_dir():
        raise ForageError(
            f"{describe_no_model(source)}; with a model that is an object give the tokenizer of recorded text too."
        )
    if not (path / "agent.npz").exists():
        return str(path.absolute())
    config = records.read_config(path)
    memory = config.get("memory", {})
    return memory.get("tokenizer") or (config["environment"].get("options") or {}).get("tokenizer", FORAGE)


def load_adapters(network: Transformer, directory: str | Path) -> Transformer:
    """Return the transformer with the adapters of a directory, of PEFT's or of `save_adapters`.

    Raise `ForageError` in one sentence for a directory without them, for another method than LoRA or a variant of it
    that would compute something else, and for tensors that do not fit the transformer.
    """
    directory = Path(directory)
    config = read_json(directory / CONFIGURATION, f"{directory} holds no adapters: it has no {CONFIGURATION}.")
    check_method(config, f"{CONFIGURATION} in {directory}", network.architecture.family)
    if not (directory / WEIGHTS).exists():
        other = " (adapter_model.bin may run code as it is read)" if (directory / "adapter_model.bin").exists() else ""
        raise ForageError(f"{directory} lacks {WEIGHTS}{other}.")
    tensors = safetensors("load_file")(directory / WEIGHTS)
    architecture, used = network.architecture, set()

    def adapt(layer: int, ours: str, projection: Projection) -> Projection:
        module = projection_name(architecture, layer, ours)
        names = tuple(f"{PREFIX}{module}.{part}.weight" for part in ("lora_A", "lora_B"))
        if not set(names) & set(tensors):
            return projection
        rank, scale = rank_and_scale(config, module)
        members = fused_members(network, layer, ours)
        inputs = projection.weight.shape[0]
        outputs = sum(width for _, width in members)
        for name, shape in zip(names, ((rank, inputs), (outputs, rank)), strict=True):
            if name not in tensors or tensors[name].shape != shape:
                was = tensors[name].shape if name in tensors else "not there"
                raise ForageError(f"The tensor {name!r} in {directory} has to have the shape {shape}; it is {was}.")
            used.add(name)
        first = sum(width for name, width in members[: [name for name, _ in members].index(ours)])
        a, b = (np.ascontiguousarray(tensors[name].T) for name in names)
        b = np.ascontiguousarray(b[:, first : first + projection.weight.shape[1]])
        return Projection(projection.weight, projection.bias, jnp.asarray(a), jnp.asarray(b), scale)

    network = lora.map_projections(lora.merge_adapters(network), adapt)
    if left := sorted(set(tensors) - used):
        raise ForageError(f"The adapters in {directory} have a tensor without a place here, {left[0]!r}.")
    return network


def check_method(config: dict[str, Any], where: str, family: str) -> None:
    """Raise `ForageError` for another method than LoRA, and for variants with another computation."""
    if config.get("peft_type") != "LORA":
        raise ForageError(f"{where} names the method {config.get('peft_type')!r}; Forage reads 'LORA'.")
    variants = [*VARIANTS, *([] if family == "gpt2" else ["fan_in_fan_out"])]  # GPT-2's files have matrices that way
    if found := [name for name in variants if config.get(name)]:
        raise ForageError(f"{where} sets {found[0]}, which Forage's adapters do not have.")
    if config.get("bias", "none") != "none":
        raise ForageError(f"{where} has biases that were learned too, which Forage's adapters do not have.")
    if missing := [name for name in ("r", "lora_alpha") if name not in config]:
        raise ForageError(f"{where} lacks {missing[0]!r}.")


def rank_and_scale(config: dict[str, Any], module: str) -> tuple[int, float]:
    """Return the rank and the scale of the adapter of a module."""

    def look_up(patterns: dict[str, Any] | None, usual: Any) -> Any:
        fitting = (value for key, value in (patterns or {}).items() if re.match(rf"(.*\.)?({key})$", module))
        return next(fitting, usual)

    rank, alpha = look_up(config.get("rank_pattern"), config["r"]), look_up(config.get("alpha_pattern"), None)
    alpha = config["lora_alpha"] if alpha is None else alpha
    return rank, alpha / (rank**0.5 if config.get("use_rslora") else rank)


def fused_members(network: Transformer, layer: int, ours: str) -> list[tuple[str, int]]:
    """Return the projections that lie in one tensor of a file with one of a layer, itself too, and their outputs."""
    architecture = network.architecture
    own = projection_name(architecture, layer, ours)
    sizes = projections(architecture, layer)
    return [
        (name, outputs) for name, (_, outputs, _) in sizes.items() if projection_name(architecture, layer, name) == own
    ]


def save_adapters(network: Transformer, directory: str | Path, base: str | None = None) -> Path:
    """Write the adapters alone, as PEFT reads them, and return the directory.

    `base`: the directory of the model that they belong to, which PEFT and `load_adapters` look for. Raise `ForageError`
    for a transformer without adapters.
    """
    save_file = safetensors("save_file")
    architecture, tensors = network.architecture, {}
    found: dict[str, tuple[int, float]] = {}
    for layer, block in enumerate(network.blocks):
        for ours in projections(architecture, layer):
            module = projection_name(architecture, layer, ours)
            members = fused_members(network, layer, ours)
            parts = [(getattr(block, name), width) for name, width in members]
            if module in found or all(part.lora_a is None for part, _ in parts):
                continue
            a, b, scale = join_adapters(parts)
            tensors[f"{PREFIX}{module}.lora_A.weight"] = np.ascontiguousarray(a.T)
            tensors[f"{PREFIX}{module}.lora_B.weight"] = np.ascontiguousarray(b.T)
            found[module] = a.shape[1], a.shape[1] * scale
    if not found:
        raise ForageError("This transformer has no adapters to save; train it with --rank.")
    (rank, alpha), _ = Counter(found.values()).most_common(1)[0]
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / WEIGHTS, {"format": "pt"})
    ends = 2 if architecture.family == "gpt2" else 1  # GPT-2 has two modules named c_proj
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "rank_pattern": {module: own[0] for module, own in found.items() if own[0] != rank},
        "alpha_pattern": {module: own[1] for module, own in found.items() if own[1] != alpha},
        "lora_dropout": 0.0,
        "target_modules": sorted({".".join(module.split(".")[-ends:]) for module in found}),
        "bias": "none",
        "fan_in_fan_out": architecture.family == "gpt2",
        "inference_mode": True,
    }
    write_json(directory / CONFIGURATION, config)
    return directory


def join_adapters(parts: list[tuple[Projection, int]]) -> tuple[np.ndarray, np.ndarray, float]:
    """Return A, B and the scale of one adapter that computes those of several projections side by side."""
    there = [(part, np.asarray(part.lora_a), np.asarray(part.lora_b)) for part, _ in parts if part.lora_a is not None]
    scale = there[0][0].scale
    alike = len(there) == len(parts) and all(
        part.scale == scale and np.array_equal(a, there[0][1]) for part, a, _ in there
    )
    if alike:
        return there[0][1], np.concatenate([b for _, _, b in there], axis=1), scale
    whole, columns = [], iter(there)
    for part, width in parts:
        if part.lora_a is not None:
            own, _, b = next(columns)
            whole.append((own.scale / scale * b).astype(b.dtype))
        else:
            whole.append(np.zeros((0, width), there[0][2].dtype))
    rows = np.zeros((sum(len(b) for b in whole), sum(width for _, width in parts)), there[0][2].dtype)
    row = column = 0
    for b in whole:
        rows[row : row + len(b), column : column + b.shape[1]] = b
        row, column = row + len(b), column + b.shape[1]
    return np.concatenate([a for _, a, _ in there], axis=1), rows, scale
