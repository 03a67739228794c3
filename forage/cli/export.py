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

  --seed N               which seed's policy; the best
  --checkpoint best|N    the policy that the run has kept, of its best evaluation or of step N; otherwise its newest
  --actions greedy | sampled   how the policy acts; otherwise as the run is evaluated. Files act greedily
  --trust                use the code of its maker's own, and the addresses, that the run names: shown, and remembered

Examples
  forage export runs/TEXT my-model
  forage export runs/NAME policy.npz
"""


def run(positional: list[str], words: options.Words) -> None:
    """Do what the words after `forage export` ask for."""
    if len(positional) != 2:
        raise ForageError("forage export takes a run and where to write its policy: forage export runs/NAME my-model.")
    known = {"seed": int, "actions": str}
    values: dict[str, Any] = {
        name: options.parse(name, words.pop(name), kind) for name, kind in known.items() if name in words
    }
    checkpoint = checkpoint_of(words)
    nothing_left(words, "export", [*known, "checkpoint"])
    from forage.studies.export import export

    print(export(positional[0], positional[1], checkpoint=checkpoint, **values))
