"""`forage export`: write a run's policy for other programs."""

from __future__ import annotations

from typing import Any

from forage.cli.arguments import checkpoint_of, nothing_left
from forage.config import options
from forage.core.errors import ForageError

HELP = """\
forage export RUN OUTPUT [OPTIONS]

Writes the policy of a run for programs without Forage. A language policy becomes a Hugging Face directory, which
transformers and others load (extra `language`). Any other becomes a file: policy.npz acts in plain NumPy, policy.onnx
in an ONNX runtime (extra `onnx`), and policy.safetensors holds the weights by name (extra `safetensors`).

  --peft                 a language policy that learned with --rank: its adapters alone, as PEFT reads them
  --seed N               the seed of the policy; by default the best
  --checkpoint best|N    a kept policy, of the best evaluation or of step N; by default the newest
  --actions greedy | sampled   the kind of actions; by default as in the run's evaluation. Files act greedily
  --dtype float32 | bfloat16 | float16   of a language policy's weights; by default that of the model it began from,
                         and float32 writes them as they learned
  --trust                use the maker's code and addresses named in the run; they are shown and remembered

Examples
  forage export runs/TEXT my-model
  forage export runs/NAME policy.npz
"""


def run(positional: list[str], words: options.Words) -> None:
    """Run `forage export`."""
    if len(positional) != 2:
        raise ForageError("forage export takes a run and where to write its policy: forage export runs/NAME my-model.")
    known = {"seed": int, "actions": str, "peft": bool, "dtype": str}
    values: dict[str, Any] = {
        name: options.parse(name, words.pop(name), kind) for name, kind in known.items() if name in words
    }
    checkpoint = checkpoint_of(words)
    nothing_left(words, "export", [*known, "checkpoint"])
    from forage.studies.export import export

    print(export(positional[0], positional[1], checkpoint=checkpoint, **values))
