"""Transformers with random weights far from their initial ones, drawn in NumPy without compiling."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from forage.nn.language.architecture import Architecture
from forage.nn.language.positions import Rope
from forage.nn.transformer import Transformer

RECORDED = Path(__file__).parent / "families.json"
"""Logits that transformers computes of `draw(OURS[family])` after `TEXT`, of the first six tokens."""
TEXT = np.array([[5, 41, 7, 7, 32, 19, 3, 60, 11]], np.int32)

SMALL = Architecture(61, 32, 2, 4, 40)
LONGROPE = Rope(1e4, "longrope", 4.0, original=32, share=0.75, gain=1.2, short=(1.0, 1.1, 1.3), long=(1.0, 2.0, 3.0))
OURS = {
    "llama": Architecture(61, 32, 2, 4, 40, key_heads=2, tied=False, rope=Rope(5e4, "llama3", 8.0, 1.0, 4.0, 16)),
    "mistral": Architecture(61, 32, 2, 4, 40, family="mistral", windows=(5, 5)),
    "qwen2": Architecture(61, 32, 2, 4, 40, family="qwen2", attention_bias=True, windows=(0, 5)),
    "qwen3": Architecture(61, 32, 2, 4, 40, family="qwen3", head_size=12, rope=Rope(1e4, "linear", 2.0)),
    "smollm3": Architecture(61, 32, 2, 4, 40, family="smollm3", rotated=(True, False), mlp_bias=True),
    "phi3": SMALL._replace(family="phi3", length=64, rope=LONGROPE),
    "olmo2": SMALL._replace(family="olmo2", key_heads=2, rope=Rope(1e4, "yarn", 4.0, 1, 8, 16, gain=1.1)),
    "granite": SMALL._replace(
        family="granite", attention_scale=0.3, embedding_scale=5.0, residual_scale=0.4, logit_divisor=3.0
    ),
    "gemma2": SMALL._replace(
        family="gemma2", windows=(5, 0), attention_cap=2.0, logit_cap=3.0, head_size=12, attention_scale=10**-0.5
    ),
    "gemma3_text": SMALL._replace(
        family="gemma3_text", windows=(5, 0), local_rope=Rope(100.0), head_size=12, rope=Rope(1e6, "linear", 8.0)
    ),
    "gpt2": SMALL._replace(length=64, family="gpt2", attention_bias=True, mlp_bias=True),
    "qwen3_moe": SMALL._replace(
        family="qwen3_moe",
        dense=(True, False),
        windows=(5, 5),
        experts=5,
        chosen=2,
        expert_inner=20,
        normalised=True,
    ),
}
"""A small architecture of each family, whose choices all count."""


def draw(architecture, dtype=jnp.float32, seed=0):
    """Return a transformer with random norms and biases."""
    like = jax.eval_shape(lambda: Transformer(jax.random.key(0), architecture, dtype))
    generator = np.random.default_rng(seed)

    def fill(path, leaf):
        centre = 1.0 if "norm" in jax.tree_util.keystr(path) else 0.0
        return jnp.asarray(centre + 0.4 * generator.normal(size=leaf.shape), leaf.dtype)

    return jax.tree_util.tree_map_with_path(fill, like)
