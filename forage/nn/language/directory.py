"""Directories of Hugging Face's: `config.json` and weights as safetensors, read and written.

What is read keeps its bytes: a directory that is loaded and saved again holds the same tensors under the same names,
and the same configuration, also what of it means nothing here. `generation_config.json` is kept with it.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from forage.core.errors import ForageError
from forage.core.text.tokenizer import named_ends
from forage.nn.language import lora, peft
from forage.nn.language.architecture import Architecture
from forage.nn.language.configuration import (
    CLASSIFIER,
    LANGUAGE,
    STEPS,
    WITHOUT_STEPS,
    read_architecture,
    write_architecture,
)
from forage.nn.language.tensors import (
    check_file,
    check_unused,
    from_leaves,
    read_json,
    read_tensors,
    safetensors,
    to_leaves,
    write_json,
)
from forage.nn.transformer import Transformer

SCORE, BIAS = "score.weight", "score.bias"  # the head of a classifier
GPT2 = {SCORE: "classifier.weight", BIAS: "classifier.bias"}
"""Names of the head of steps in directories of GPT-2."""


def load_transformer(source: str | Path, dtype: Any = None) -> Transformer:
    """Read a transformer from a directory. See `Transformer.load`."""
    directory, base = peft.split_source(source)
    if peft.holds_adapters(directory):
        return peft.load_adapters(load_transformer(peft.find_base(directory, base), dtype), directory)
    config, architecture, files, tensors = read_directory(directory, dtype)
    if SCORE in tensors:
        raise ForageError(
            f"{directory} holds a model that scores texts, a reward ({classes(config)}); name it with --rewards."
        )
    return build(tensors, architecture, files, directory, dtype)


def load_scorer(directory: Path, dtype: Any = None) -> tuple[Transformer, jax.Array]:
    """Read a transformer that scores texts, and the vector whose product with a text's last hidden state is its score.

    Such a directory is that of a class `...ForSequenceClassification` with one label, or `...ForTokenClassification`
    with two, of wrong and right steps, where the head is a matrix with the biases as its last column. The transformer
    has no head of its own. Raise `ForageError` for a directory without such a head, or with other labels.
    """
    config, architecture, files, tensors = read_directory(directory, dtype)
    tensors |= {ours: tensors.pop(theirs) for ours, theirs in GPT2.items() if theirs in tensors}
    if SCORE not in tensors:
        raise ForageError(f"{directory} holds no {SCORE}, so it scores no texts: it is of {classes(config)}.")
    score, bias = tensors.pop(SCORE), tensors.pop(BIAS, None)
    of_steps = any(name.endswith(STEPS) for name in config.get("architectures") or ())
    if score.shape != (1 + of_steps, architecture.width):
        wanted = "has two of steps, wrong and right" if of_steps else "has one: train it with num_labels=1"
        raise ForageError(f"{directory} has {score.shape[0]} labels, and a reward {wanted}.")
    network = build(tensors, architecture._replace(tied=True), files, directory, dtype)
    if not of_steps:
        return network, jnp.asarray(score[0], dtype)
    bias = np.zeros(2, score.dtype) if bias is None else bias
    return network, jnp.asarray(np.concatenate([score, bias[:, None]], axis=1), dtype)


def read_directory(directory: Path, dtype: Any) -> tuple[dict[str, Any], Architecture, str, dict[str, np.ndarray]]:
    """Return the configuration, the architecture, the configuration as text, and the tensors of a directory."""
    check_file(directory)
    config = read_json(directory / "config.json", f"{directory} holds no transformer: {describe_missing(directory)}")
    architecture = read_architecture(config, directory)
    generation = directory / "generation_config.json"
    beside = read_json(generation, "") if generation.exists() else None
    architecture.check()
    tensors = read_tensors(directory)
    if architecture.family == "gpt2" and "wte.weight" in tensors:  # as the first GPT-2 was stored
        tensors = {f"transformer.{name}": tensor for name, tensor in tensors.items()}
    if len(kinds := {str(tensor.dtype) for tensor in tensors.values()}) > 1 and dtype is None:
        raise ForageError(f"The weights in {directory} are of several dtypes, {', '.join(sorted(kinds))}; say which.")
    files = {"config": config, "generation": beside, "dtype": min(kinds)}
    return config, architecture, json.dumps(files), tensors


def describe_missing(directory: Path) -> str:
    """Describe a directory without configuration."""
    if (directory / "adapter_config.json").exists():
        return "it has adapters of another model; name it as a model, not as a reward."
    if found := sorted(directory.glob("*.gguf")):
        return f"it has no config.json, and {found[0].name} is of llama.cpp; Forage reads safetensors."
    return "it has no config.json."


def build(
    tensors: dict[str, np.ndarray], architecture: Architecture, files: str, directory: Path, dtype: Any
) -> Transformer:
    """Return a transformer of the tensors of a directory. Raise `ForageError` where they do not fit."""
    # A matrix is turned as it is read, by NumPy, so that one in bfloat16 keeps its bits and nothing is compiled.
    like = jax.eval_shape(lambda: Transformer(jax.random.key(0), architecture, files=files))
    found, used = to_leaves(tensors, like, architecture, directory)
    check_unused(tensors, used, architecture, directory)
    return jax.tree.map(lambda tensor: jnp.asarray(tensor, dtype), found)


def classes(config: dict[str, Any]) -> str:
    """Return the class that a configuration names."""
    return ", ".join(config.get("architectures") or ["no class"])


def save_transformer(network: Transformer, directory: Path) -> Path:
    """Write a transformer to a directory. See `Transformer.save`."""
    return write_directory(network, directory, LANGUAGE, {})


def save_scorer(network: Transformer, score: Any, directory: Path) -> Path:
    """Write a transformer that scores texts, as `load_scorer` and transformers read it, and return the directory.

    A `score` that is a matrix is of steps. The head over the vocabulary, if there is one, is left out. The tokens that
    `with_tokens` named are kept: without a token of padding transformers scores one text at a time.
    """
    head, family = np.asarray(score), network.architecture.family
    if head.ndim == 1:
        return write_directory(network, directory, CLASSIFIER, {SCORE: head.reshape(1, -1)})
    if family in WITHOUT_STEPS:
        raise ForageError(
            f"A reward model of steps is written for token classification, which transformers lacks for {family}."
        )
    names = GPT2 if family == "gpt2" else {name: name for name in GPT2}
    found = {SCORE: np.ascontiguousarray(head[:, :-1]), BIAS: np.ascontiguousarray(head[:, -1])}
    return write_directory(network, directory, STEPS, {names[name]: tensor for name, tensor in found.items()})


def write_directory(network: Transformer, directory: Path, kind: str, more: dict[str, np.ndarray]) -> Path:
    """Write a transformer for a class of this `kind` to a directory, with `more` tensors."""
    save_file = safetensors("save_file")
    network = lora.merge_adapters(network)
    directory.mkdir(parents=True, exist_ok=True)
    tensors = from_leaves(network, network.architecture) | more
    files = json.loads(network.files)
    config = write_architecture(network.architecture, files.get("config"), str(network.dtype), kind)
    if kind != LANGUAGE:
        tensors.pop("lm_head.weight", None)
        labels = [f"LABEL_{number}" for number in range(1 + (kind == STEPS))]
        config |= {"id2label": dict(zip(map(str, range(2)), labels, strict=False))}
        config |= {"label2id": {label: number for number, label in enumerate(labels)}}
    part = directory / "model.safetensors.part"
    save_file(tensors, part, {"format": "pt"})
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
    files |= {"config": {**config, **tokens}, "generation": {**(files.get("generation") or {}), **tokens}}
    changed = copy.copy(network)
    object.__setattr__(changed, "files", json.dumps(files))  # which is static, so that no tree function reaches it
    return changed


def ends(network: Transformer) -> tuple[int, ...]:
    """Return the tokens that end a text, as the configuration names them; none if it names none."""
    files = json.loads(network.files)
    return named_ends(files.get("generation"), files.get("config"))


def file_dtype(network: Transformer) -> str | None:
    """Return the dtype of the files that a transformer was read from; `None` if it was read from none."""
    return json.loads(network.files).get("dtype")
