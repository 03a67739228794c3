"""Memory of an update of GRPO for a large model, by the report of XLA: nothing is allocated, and no weights are needed.

    python benchmarks/language_memory.py                                # Qwen2.5-0.5B, 64 answers of 512 tokens
    python benchmarks/language_memory.py --layers 2 --answers 8         # a part of it, sooner compiled
    python benchmarks/language_memory.py --accumulate 8 --remat true    # any option of the agent

The update is that of `forage train grpo`: prompts that 8 answers share are read once, the loss and its gradient, and a
step of Adam. Arguments are weights and optimiser, which are given away; temporaries are all else.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import jax
import jax.numpy as jnp

from forage.agents.language.base import AnswerRows, LanguageState
from forage.agents.language.grpo import GRPO, LossInputs
from forage.nn.language.architecture import Architecture
from forage.nn.language.pretrained import PretrainedModel, sizes_of
from forage.nn.transformer import Transformer

QWEN = {"vocabulary": 151_936, "width": 896, "layers": 24, "heads": 14, "inner": 4864, "key_heads": 2}
"""Sizes of Qwen2.5-0.5B."""


def measure(layers: int, answers: int, prompt: int, new: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return the bytes of the compiled update, and the seconds that compiling took."""
    sizes = QWEN | {"layers": layers}
    architecture = Architecture(**sizes, length=32_768, family="qwen2", attention_bias=True, tied=True)
    network = jax.eval_shape(lambda: Transformer(jax.random.key(0), architecture))
    model = PretrainedModel("Qwen2.5-0.5B", "", sizes_of(network))
    agent = GRPO(model=model, num_envs=answers, **options)

    def update(state: LanguageState, lesson: LossInputs, rate: jax.Array, key: jax.Array) -> Any:
        return agent.descend(state, lesson, rate, key)

    vocabulary, whole = architecture.vocabulary, (answers, prompt + new)
    shape = jax.ShapeDtypeStruct
    floats, flags = shape((answers, new), jnp.float32), shape((answers, new), jnp.bool_)
    rows = AnswerRows(shape(whole, jnp.int32), shape(whole, jnp.bool_), flags, floats, floats)
    lesson = LossInputs(rows, shape((answers, 1), jnp.float32), shape((answers,), jnp.float32), floats, floats)
    optimiser = jax.eval_shape(agent.steps(1.0).init, network)
    state = LanguageState(network, optimiser, (), shape((), jnp.int32), shape((vocabulary,), jnp.bool_))
    key = jax.eval_shape(lambda: jax.random.key(0))
    began = time.perf_counter()
    compiled = jax.jit(update, donate_argnums=0).lower(state, lesson, shape((), jnp.float32), key).compile()
    report = compiled.memory_analysis()
    return {
        "layers": layers,
        "answers": answers,
        "tokens": [prompt, new],
        "options": options,
        "argument_bytes": report.argument_size_in_bytes,
        "temporary_bytes": report.temp_size_in_bytes,
        "compile_seconds": round(time.perf_counter() - began, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=QWEN["layers"])
    parser.add_argument("--answers", type=int, default=64)
    parser.add_argument("--prompt", type=int, default=128)
    parser.add_argument("--new", type=int, default=512)
    known, rest = parser.parse_known_args()
    options = {name.removeprefix("--"): json.loads(value) for name, value in zip(rest[::2], rest[1::2], strict=True)}
    print(json.dumps(measure(known.layers, known.answers, known.prompt, known.new, options)), flush=True)


if __name__ == "__main__":
    main()
