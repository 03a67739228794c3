"""How fast does a language model of half a billion random weights write and learn on an accelerator?

    python benchmarks/gpu.py --only text        # both sides, each in a process of its own

The shape is that of Qwen2.5-0.5B (its config.json: 24 layers, 896 wide, 14 heads of queries and 2 of keys, MLPs of
4,864, 151,936 tokens, tied), in bfloat16. Groups of 16 answers of 1,024 new tokens to prompts of 64. `transformers`
generates eagerly, as TRL calls it, and learns with PyTorch's fused AdamW and its own attention; both sides make the
same clipped loss of GRPO over the same rows. PyTorch is asked for by that side alone.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

SIZES = {"vocabulary": 151_936, "width": 896, "layers": 24, "heads": 14, "key_heads": 2, "inner": 4864}
PROMPT, NEW, GROUP = 64, 1024, 16
SIZED = {
    "text/generate 16": (16, 2),
    "text/generate 64": (64, 2),
    "text/generate 256": (256, 1),
    "text/update 16": (16, 5),
}
"""Answers side by side, and how often they are measured after the first time."""

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
    """Return the seconds of the first call and the mean of the following ones."""
    began = time.perf_counter()
    repeat(0)
    first = time.perf_counter() - began
    with alone():
        repeat(1)
        began = time.perf_counter()
        for number in range(times):
            repeat(2 + number)
        return {"seconds_first": first, "seconds": (time.perf_counter() - began) / times}


def by_forage(part: str, rows: int, times: int) -> dict[str, Any]:
    """Write or learn with Forage's transformer."""
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
        **SIZES, length=32_768, family="qwen2", rope=Rope(base=1_000_000.0), attention_bias=True, tied=True
    )
    network = Transformer(jax.random.key(0), architecture, jnp.bfloat16)
    tokens = jax.random.randint(jax.random.key(1), (rows, PROMPT), 2, architecture.vocabulary)
    if part == "generate":
        return timed(
            lambda number: jax.block_until_ready(generate(network, tokens, jax.random.key(number), NEW).tokens), times
        )
    answers = jax.random.randint(jax.random.key(2), (rows, NEW), 2, architecture.vocabulary)
    whole = jnp.concatenate([tokens, answers], axis=1)
    advantage = jax.random.normal(jax.random.key(3), (rows, 1))
    there, mask = jnp.ones(whole.shape, bool), jnp.ones(answers.shape, bool)
    optimiser = make_named_optimiser("adamw", 1e-6, 1.0)

    def loss(network: Transformer) -> jax.Array:
        now, _ = log_probabilities(network, whole, PLAIN, there, remat=True, wanted=NEW)
        return policy_loss("clip", now, jax.lax.stop_gradient(now), advantage, mask, "sequence-mean")

    @jax.jit
    def update(network: Transformer, state: Any) -> tuple[Transformer, Any]:
        return optimiser.step(jax.grad(loss)(network), state, network)

    held = [network, jax.jit(optimiser.init)(network)]

    def repeat(_: int) -> None:
        held[:] = jax.block_until_ready(update(*held))

    return timed(repeat, times)


def by_transformers(part: str, rows: int, times: int) -> dict[str, Any]:
    """Write or learn with transformers and PyTorch."""
    import torch
    from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=SIZES["vocabulary"],
        hidden_size=SIZES["width"],
        intermediate_size=SIZES["inner"],
        num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"],
        num_key_value_heads=SIZES["key_heads"],
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
    )
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config).to("cuda", torch.bfloat16)
    tokens = torch.randint(2, SIZES["vocabulary"], (rows, PROMPT), device="cuda")
    if part == "generate":
        model.eval()
        how = GenerationConfig(
            max_new_tokens=NEW,
            min_new_tokens=NEW,
            do_sample=True,
            top_k=0,
            pad_token_id=0,
            eos_token_id=1,
            disable_compile=True,  # as TRL has it
        )

        def write(_: int) -> None:
            with torch.no_grad():
                model.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), generation_config=how)
            torch.cuda.synchronize()

        return timed(write, times) | {"peak_bytes": torch.cuda.max_memory_allocated()}
    answers = torch.randint(2, SIZES["vocabulary"], (rows, NEW), device="cuda")
    whole, advantage = torch.cat([tokens, answers], 1), torch.randn(rows, 1, device="cuda")
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    model.train()
    model.gradient_checkpointing_enable()

    def repeat(_: int) -> None:
        logits = model(input_ids=whole, logits_to_keep=NEW + 1).logits[:, :-1]
        now = -torch.nn.functional.cross_entropy(logits.transpose(1, 2).float(), answers, reduction="none")
        ratio = torch.exp(now - now.detach())
        each = -torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        each.mean(1).mean().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        torch.cuda.synchronize()

    return timed(repeat, times) | {"peak_bytes": torch.cuda.max_memory_allocated()}


def measure(name: str) -> dict[str, Any]:
    """Measure a row of one side, `text/generate 64, forage`; tokens are those that were written or learned from."""
    row, _, side = name.partition(", ")
    rows, times = SIZED[row]
    part = row.removeprefix("text/").split()[0]
    found = {"forage": by_forage, "transformers": by_transformers}[side](part, rows, times)
    return found | {"tokens_per_second": rows * NEW / found["seconds"]}
