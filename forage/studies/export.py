"""A run's policy as files for other programs (`forage export`)."""

from __future__ import annotations

import os
from pathlib import Path

from forage.agents.language.base import LanguageAgent
from forage.config.ranges import check_call
from forage.config.saved import load
from forage.core.errors import ForageError, nearest
from forage.nn.language.export import write_adapters, write_model
from forage.nn.language.tensors import DTYPES
from forage.runs.run import Run
from forage.studies.chat import home_of, one_network


def export(
    directory: str | os.PathLike[str],
    output: str | os.PathLike[str],
    seed: int | None = None,
    checkpoint: str | int | None = None,
    actions: str | None = None,
    peft: bool = False,
    dtype: str | None = None,
) -> Path:
    """Write the policy of a run to `output`, and return its path.

    A language policy becomes a Hugging Face directory: the transformer, adapters merged into it, and its tokenizer, so
    that `transformers` loads it and writes the same text; a reward model becomes one for sequence classification. Its
    weights have the dtype of the model that learning began from, or `dtype`: float32 writes them as they learned. Any
    other becomes an .npz, .onnx or .safetensors file, by the suffix; see `Policy.export`. `seed`: which seed's policy,
    else that of the best. `checkpoint`: `best`, or the step of one that the run has kept. `actions`: `greedy` or
    `sampled`, else as the run was evaluated. `peft`: write the adapters of a run with a `rank` alone, as a directory of
    PEFT's.
    """
    check_call(export, locals())
    run, path = Run(directory), Path(output)
    policy = load(run.directory, seed, actions, checkpoint=checkpoint)
    if peft and dtype is not None:
        raise ForageError("Adapters are exported in float32, as they learned; leave out dtype.")
    if peft and not (isinstance(policy.agent, LanguageAgent) and policy.agent.rank):
        raise ForageError(f"{run.directory} has no adapters to export; PEFT's directories are of runs with --rank.")
    if not isinstance(policy.agent, LanguageAgent):
        if dtype is not None:
            raise ForageError("dtype is of the weights of a language policy; leave it out.")
        if not path.suffix:
            raise ForageError(
                f"{type(policy.agent).__name__} is no language model, and is exported as a file: .npz, .onnx or "
                f".safetensors."
            )
        return policy.export(path)
    if path.suffix in (".npz", ".onnx", ".safetensors") or path.is_file():
        raise ForageError(f"A language policy is exported as a directory, and {path.name} is the name of a file.")
    one_network(policy, run)
    tokenizer = home_of(run).form.tokenizer
    if peft:
        return write_adapters(policy.state.network, tokenizer, path, policy.agent.base_model.source)
    head = None if policy.agent.writes else policy.state.head
    if dtype is not None and dtype not in DTYPES:
        raise ForageError(f"Weights are exported as {', '.join(DTYPES)}, not {dtype!r}{nearest(dtype, DTYPES)}")
    return write_model(policy.agent.masters(policy.state), tokenizer, path, head, dtype)
