"""How fast does a language model of half a billion random weights write and learn on an accelerator?

    python benchmarks/gpu.py --only "text/generate 16" "text/step 16"     # on one GPU, at most ten minutes
    python benchmarks/gpu.py --only text                                  # all rows, both sides
    python benchmarks/gpu.py --only small --platform cpu                  # a million weights, in a few minutes

Each side runs in a process of its own; where PyTorch or transformers is missing its rows say so, and the others stand.
The shape is that of Qwen2.5-0.5B (its config.json: 24 layers, 896 wide, 14 heads of queries and 2 of keys, MLPs of
4,864, 151,936 tokens, tied), in bfloat16. Groups of 16 answers of 1,024 new tokens to prompts of 64. `transformers`
generates eagerly, as TRL calls it, and learns with PyTorch's fused AdamW and its own attention; both sides make the
same clipped loss of GRPO over as many tokens. A step writes answers and learns from them, with advantages drawn by
chance. The small shape has 1.1 million weights in float32, and answers of 64 tokens to prompts of 24.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Shape(NamedTuple):
    """A model with random weights, and the lengths of its texts."""

    sizes: dict[str, int]
    prompt: int
    new: int
    dtype: str
    remat: bool


SHAPES = {
    "text": Shape(
        {"vocabulary": 151_936, "width": 896, "layers": 24, "heads": 14, "key_heads": 2, "inner": 4864},
        *(64, 1024, "bfloat16", True),
    ),
    "small": Shape(
        {"vocabulary": 512, "width": 128, "layers": 5, "heads": 4, "key_heads": 4, "inner": 384},
        *(24, 64, "float32", False),
    ),
}
SIZED = {
    "text/generate 16": (16, 1),
    "text/generate 64": (64, 2),
    "text/generate 256": (256, 1),
    "text/update 16": (16, 5),
    "text/step 16": (16, 1),
    "small/generate 64": (64, 2),
    "small/update 64": (64, 2),
    "small/step 64": (64, 2),
}
"""Answers side by side, and how often they are measured after the second time."""

ROWS = [f"{row}, {side}" for row in SIZED for side in ("forage", "transformers")]


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Wait until no other row is being measured, where `FORAGE_GPU_LOCK` names a file; others may compile meanwhile."""
    if not (name := os.environ.get("FORAGE_GPU_LOCK")):
        yield
        return
    import fcntl

    with open(name, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def timed(repeat: Callable[[int], Any], times: int) -> dict[str, Any]:
    """Return the seconds of the first call, and the mean of those after the second, by the clock and of all cores."""
    began = time.perf_counter()
    repeat(0)
    first = time.perf_counter() - began
    with alone():
        repeat(1)
        began = time.perf_counter(), time.process_time()
        for number in range(times):
            repeat(2 + number)
        seconds, worked = time.perf_counter() - began[0], time.process_time() - began[1]
        return {"seconds_first": first, "seconds": seconds / times, "core_seconds": worked / times}


def by_forage(shape: Shape, part: str, rows: int, times: int) -> dict[str, Any]:
    """Write, learn or do both with Forage's transformer."""
    import jax
    import jax.numpy as jnp

    from forage.nn.language.architecture import Architecture
    from forage.nn.language.generate import generate, log_probabilities
    from forage.nn.language.positions import Rope
    from forage.nn.transformer import Transformer
    from forage.ops.optimiser import make_named_optimiser
    from forage.ops.sampling import PLAIN
    from forage.ops.tokens.losses import policy_loss

    architecture = Architecture(
        **shape.sizes, length=32_768, family="qwen2", rope=Rope(base=1_000_000.0), attention_bias=True, tied=True
    )
    network, new = Transformer(jax.random.key(0), architecture, jnp.dtype(shape.dtype)), shape.new
    tokens = jax.random.randint(jax.random.key(1), (rows, shape.prompt), 2, architecture.vocabulary)
    answers = jax.random.randint(jax.random.key(2), (rows, new), 2, architecture.vocabulary)
    advantage = jax.random.normal(jax.random.key(3), (rows, 1))
    there, mask = jnp.ones((rows, shape.prompt + new), bool), jnp.ones(answers.shape, bool)
    optimiser = make_named_optimiser("adamw", 1e-6, 1.0)

    def loss(network: Transformer, answers: jax.Array) -> jax.Array:
        whole = jnp.concatenate([tokens, answers], axis=1)
        now, _ = log_probabilities(network, whole, PLAIN, there, remat=shape.remat, wanted=new)
        return policy_loss("clip", now, jax.lax.stop_gradient(now), advantage, mask, "sequence-mean")

    @jax.jit
    def update(network: Transformer, state: Any, answers: jax.Array) -> tuple[Transformer, Any]:
        return optimiser.step(jax.grad(loss)(network, answers), state, network)

    held = [network, jax.jit(optimiser.init)(network)]

    def repeat(number: int) -> None:
        written = answers
        if part != "update":
            written = generate(held[0], tokens, jax.random.key(number), new).tokens
        if part != "generate":
            held[:] = update(*held, written)
        jax.block_until_ready((written, held))

    return timed(repeat, times)


def by_transformers(shape: Shape, part: str, rows: int, times: int) -> dict[str, Any]:
    """Write, learn or do both with transformers and PyTorch, on a GPU where PyTorch has one."""
    import torch
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    sizes, new = shape.sizes, shape.new
    config = Qwen2Config(
        vocab_size=sizes["vocabulary"],
        hidden_size=sizes["width"],
        intermediate_size=sizes["inner"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["key_heads"],
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config).to(device, getattr(torch, shape.dtype))
    tokens = torch.randint(2, sizes["vocabulary"], (rows, shape.prompt), device=device)
    answers = torch.randint(2, sizes["vocabulary"], (rows, new), device=device)
    advantage = torch.randn(rows, 1, device=device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    if shape.remat:
        model.gradient_checkpointing_enable()
    how = GenerationConfig(
        max_new_tokens=new,
        min_new_tokens=new,
        do_sample=True,
        top_k=0,
        pad_token_id=0,
        eos_token_id=1,
        disable_compile=True,  # as TRL has it
    )

    def write() -> torch.Tensor:
        model.eval()
        with torch.no_grad():
            whole = model.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), generation_config=how)
        return whole[:, shape.prompt :]

    def learn(answers: torch.Tensor) -> None:
        model.train()
        logits = model(input_ids=torch.cat([tokens, answers], 1), logits_to_keep=new + 1).logits[:, :-1]
        now = -torch.nn.functional.cross_entropy(logits.transpose(1, 2).float(), answers, reduction="none")
        ratio = torch.exp(now - now.detach())
        each = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        each.mean(1).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    def repeat(_: int) -> None:
        written = answers if part == "update" else write()
        if part != "generate":
            learn(written)
        if device == "cuda":
            torch.cuda.synchronize()

    found = timed(repeat, times)
    return found | ({"peak_bytes": torch.cuda.max_memory_allocated()} if device == "cuda" else {})


def measure(name: str) -> dict[str, Any]:
    """Measure a row of one side, `text/generate 64, forage`; tokens are those that were written or learned from."""
    row, _, side = name.partition(", ")
    rows, times = SIZED[row]
    kind, part = row.split()[0].split("/")
    shape = SHAPES[kind]
    found = {"forage": by_forage, "transformers": by_transformers}[side](shape, part, rows, times)
    return found | {"tokens_per_second": rows * shape.new / found["seconds"]}
