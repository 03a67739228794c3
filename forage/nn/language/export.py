"""A transformer with its tokenizer as a directory of Hugging Face's, for other programs to write with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax.numpy as jnp

from forage.core.errors import ForageError
from forage.core.text.tokenizer import Tokenizer
from forage.nn.language import lora
from forage.nn.language.directory import file_dtype, save_scorer, with_tokens
from forage.nn.language.peft import holds_adapters, save_adapters, split_source
from forage.nn.transformer import Transformer


def write_model(
    network: Transformer, tokenizer: Tokenizer, directory: Path, head: Any = None, dtype: str | None = None
) -> Path:
    """Write a transformer and its tokenizer to a directory, with the same tokens for end and padding in both.

    Tokens that the tokenizer does not have are suppressed, as they are where Forage writes. With the `head` of a reward
    model the directory is one for sequence classification. `dtype`: of the weights; `None` for that of the files that
    the transformer was read from, else its own.
    """
    network = lora.merge_adapters(network)
    if (wanted := dtype or file_dtype(network)) is not None:
        network = network.astype(jnp.dtype(wanted))
    network = with_tokens(network, tokenizer.ends, tokenizer.pad, tokenizer.begin)
    unknown = list(range(tokenizer.vocabulary, network.architecture.vocabulary))
    try:
        if head is None:
            network.save(directory)
        else:
            save_scorer(network, jnp.asarray(head, network.dtype), directory)
        tokenizer.save(directory)
        if unknown and head is None:
            path = directory / "generation_config.json"
            said = json.loads(path.read_text(encoding="utf-8")) | {"suppress_tokens": unknown}
            path.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise ForageError(f"Could not write {directory}: {error.strerror or error}.") from error
    return directory


def write_adapters(network: Transformer, tokenizer: Tokenizer, directory: Path, source: str) -> Path:
    """Write the adapters of a transformer and its tokenizer to a directory. `source`: the model that they learned on.

    Raise `ForageError` where that has adapters itself, as these would not fit its base alone.
    """
    base = Path(source).expanduser()
    if holds_adapters(split_source(source)[0]):
        raise ForageError(
            f"The adapters of this run stand on {source}, which has adapters itself; export it whole, without --peft."
        )
    try:
        save_adapters(network, directory, str(base) if (base / "config.json").exists() else None)
        tokenizer.save(directory)
    except OSError as error:
        raise ForageError(f"Could not write {directory}: {error.strerror or error}.") from error
    return directory
