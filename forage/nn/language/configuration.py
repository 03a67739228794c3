"""A transformer's `config.json`: read to an `Architecture`, and written from one.

Where a file says nothing, what transformers 5.24 takes counts (`USUAL`, from models/*/configuration_*.py). Rotary
positions are read in their older and their newer form, and written in both.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from forage.core.errors import ForageError
from forage.nn.language.architecture import FAMILIES, Architecture
from forage.nn.language.positions import Rope

SIZES = {
    "vocabulary": "vocab_size",
    "width": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "inner": "intermediate_size",
    "length": "max_position_embeddings",
    "epsilon": "rms_norm_eps",
}
GPT2_SIZES = SIZES | {
    "width": "n_embd",
    "layers": "n_layer",
    "heads": "n_head",
    "inner": "n_inner",
    "length": "n_positions",
    "epsilon": "layer_norm_epsilon",
}
CLASSES = {
    "llama": "Llama",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "qwen3_moe": "Qwen3Moe",
    "smollm3": "SmolLM3",
    "phi3": "Phi3",
    "olmo2": "Olmo2",
    "granite": "Granite",
    "gemma2": "Gemma2",
    "gemma3_text": "Gemma3",
    "gpt2": "GPT2",
}
"""The beginning of the names of a family's classes."""
CLASSIFIER, STEPS, LANGUAGE = "ForSequenceClassification", "ForTokenClassification", "ForCausalLM"
WITHOUT_STEPS = "olmo2", "granite", "gemma3_text"
"""Families that have no class for token classification in transformers."""
CLASS_NAMES = {("gpt2", LANGUAGE): "GPT2LMHeadModel", ("gemma3_text", CLASSIFIER): f"Gemma3Text{CLASSIFIER}"}
GEMMA = {"tie_word_embeddings": True, "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 4096}
USUAL: dict[str, dict[str, Any]] = {
    "mistral": {"num_key_value_heads": 8, "sliding_window": 4096},
    "qwen3": {"head_dim": 128},
    "qwen3_moe": {"num_key_value_heads": 4, "sliding_window": 4096, "moe_intermediate_size": 768}
    | {"num_experts_per_tok": 8},
    "smollm3": {"num_key_value_heads": 4, "rope_theta": 2e6, "tie_word_embeddings": True},
    "phi3": {"original_max_position_embeddings": 4096},
    "gemma2": GEMMA | {"final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0},
    "gemma3_text": GEMMA | {"rope_theta": 1e6},
    "gpt2": {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "layer_norm_epsilon": 1e-5}
    | {"activation_function": "gelu_new", "n_inner": None},
    "qwen2": {"attention_bias": True},
}
ACTIVATIONS = {"silu": ("swish", "silu"), "gelu": ("gelu_new", "gelu_pytorch_tanh")}
"""Names of an activation in files: the last is the usual one, and the first GPT-2's."""
REFUSED = {
    "scale_attn_by_inverse_layer_idx": True,
    "scale_attn_weights": False,
    "add_cross_attention": True,
    "use_bidirectional_attention": True,
}
"""Settings whose computation Forage lacks."""
SLIDING, FULL = "sliding_attention", "full_attention"


def read_architecture(config: dict[str, Any], directory: Path) -> Architecture:
    """Return the sizes that a configuration names. Raise `ForageError` for an unsupported configuration."""
    where = f"config.json in {directory}"
    family = config.get("model_type")
    if family not in FAMILIES:
        text = " Of a model that reads pictures too, take the text model alone." if "text_config" in config else ""
        raise ForageError(f"{where} names the model_type {family!r}; Forage reads {', '.join(FAMILIES)}.{text}")
    check_quantisation(config, where)
    said = {**USUAL.get(family, {}), **config}
    sizes = sizes_named(family)
    if missing := [name for name in sizes.values() if name not in said]:
        raise ForageError(f"{where} lacks {missing[0]!r}.")
    usual = ACTIVATIONS[FAMILIES[family].activation]
    names = [said.get(key) for key in ("hidden_activation", "hidden_act", "activation_function")]
    if (activation := next(filter(None, names), usual[-1])) not in usual:
        raise ForageError(f"{where} names the activation {activation!r}; Forage reads {usual[-1]!r} of {family}.")
    if refused := [name for name, value in REFUSED.items() if said.get(name) is value]:
        raise ForageError(f"{where} sets {refused[0]} to {said[refused[0]]}, which Forage does not compute.")
    found = {ours: said[theirs] for ours, theirs in sizes.items()}
    found["inner"] = found["inner"] or 4 * found["width"]
    layers = found["layers"]
    rotated = unrotated_layers(said, layers) if family == "smollm3" else ()
    rope, local = read_ropes(said, where)
    return Architecture(
        **found,
        **read_scales(said),
        **read_experts(said, layers),
        family=family,
        key_heads=0 if family == "gpt2" else said.get("num_key_value_heads") or 0,
        head_size=said.get("head_dim") or 0,
        rope=rope,
        local_rope=local,
        attention_bias=bool(said.get("attention_bias", False)) or family == "qwen2",
        mlp_bias=bool(said.get("mlp_bias", False)),
        windows=read_windows(said, layers, rotated),
        rotated=rotated,
        tied=bool(said.get("tie_word_embeddings", False)),
    ).canonical()


def sizes_named(family: str) -> dict[str, str]:
    """Return the names of sizes in a family's files, by the fields of an `Architecture`."""
    return GPT2_SIZES if family == "gpt2" else SIZES


def check_quantisation(config: dict[str, Any], where: str) -> None:
    """Raise `ForageError` if a configuration describes quantised weights, with their method and bits."""
    said = config.get("quantization_config")
    if not said:
        return
    bits = 4 if said.get("load_in_4bit") else 8 if said.get("load_in_8bit") else said.get("bits")
    method = " ".join(str(x) for x in (said.get("quant_method"), bits and f"with {bits} bits") if x)
    raise ForageError(
        f"{where} describes quantised weights{f' ({method})' if method else ''}; Forage reads float32, bfloat16 and "
        f"float16. Take the directory that they were made from, with --rank to train it in less memory."
    )


def read_scales(said: dict[str, Any]) -> dict[str, Any]:
    """Return the scales and bounds that a configuration names."""
    scales: dict[str, Any] = {}
    if said["model_type"] == "granite":
        scales = {
            "attention_scale": float(said.get("attention_multiplier", 1.0)),
            "embedding_scale": float(said.get("embedding_multiplier", 1.0)),
            "residual_scale": float(said.get("residual_multiplier", 1.0)),
            "logit_divisor": float(said.get("logits_scaling", 1.0)),
        }
    if FAMILIES[said["model_type"]].caps:
        scales = {
            "attention_scale": said["query_pre_attn_scalar"] ** -0.5,
            "attention_cap": float(said.get("attn_logit_softcapping") or 0),
            "logit_cap": float(said.get("final_logit_softcapping") or 0),
        }
    return scales


def read_experts(said: dict[str, Any], layers: int) -> dict[str, Any]:
    """Return the numbers of experts that a configuration names."""
    if not FAMILIES[said["model_type"]].experts:
        return {}
    every, alone = said.get("decoder_sparse_step", 1), said.get("mlp_only_layers") or ()
    return {
        "experts": said.get("num_experts") or said.get("num_local_experts") or 128,  # by releases of transformers
        "chosen": said["num_experts_per_tok"],
        "expert_inner": said["moe_intermediate_size"],
        "normalised": bool(said.get("norm_topk_prob", False)),
        "dense": tuple(layer in alone or (layer + 1) % every != 0 for layer in range(layers)),
    }


def unrotated_layers(said: dict[str, Any], layers: int) -> tuple[bool, ...]:
    """Return the mask of a SmolLM3's layers that use positions."""
    every = said.get("no_rope_layer_interval", 4)
    listed = said.get("no_rope_layers") or [(layer + 1) % every != 0 for layer in range(layers)]
    found = tuple(bool(entry) for entry in listed[:layers])
    return () if all(found) else found


def read_windows(said: dict[str, Any], layers: int, rotated: tuple[bool, ...]) -> tuple[int, ...]:
    """Return the number of tokens in each layer's attention window."""
    family = said["model_type"]
    asked = family in ("mistral", "phi3", "gemma2", "gemma3_text")  # others have a window only where a flag says so
    size = said.get("sliding_window")
    if FAMILIES[family].windows == "none" or not size or not (asked or said.get("use_sliding_window", False)):
        return ()
    if FAMILIES[family].windows == "all":
        return (size,) * layers
    kinds = said.get("layer_types")
    if kinds is None and family == "smollm3":
        kinds = [FULL if not rotated or rotated[layer] else SLIDING for layer in range(layers)]
    if kinds is None and asked:
        every = 2 if family == "gemma2" else said.get("sliding_window_pattern", 6)
        kinds = [SLIDING if (layer + 1) % every else FULL for layer in range(layers)]
    if kinds is None:
        first = said.get("max_window_layers", 28)
        kinds = [SLIDING if layer >= first else FULL for layer in range(layers)]
    found = tuple(size if kind == SLIDING else 0 for kind in kinds)
    return found if any(found) else ()


def read_ropes(said: dict[str, Any], where: str) -> tuple[Rope, Rope | None]:
    """Return the rotary positions of all layers, and of those with a window where they have others."""
    if not FAMILIES[said["model_type"]].rotary:
        return Rope(), None
    older, newer = said.get("rope_scaling") or {}, said.get("rope_parameters") or {}
    base = said.get("rope_theta") or 10_000.0
    if not FAMILIES[said["model_type"]].local_rope:
        return read_rope(older or newer, base, said, where), None
    near = said.get("rope_local_base_freq") or 10_000.0
    whole = {**(newer.get(FULL) or {}), **older}
    return read_rope(whole, base, said, where), read_rope(newer.get(SLIDING) or {}, near, said, where)


def read_rope(named: dict[str, Any], base: float, said: dict[str, Any], where: str) -> Rope:
    """Return the rotary positions that one dictionary of a configuration names."""
    base = named.get("rope_theta") or base
    kind = named.get("rope_type", named.get("type", "default"))
    share = named.get("partial_rotary_factor", said.get("partial_rotary_factor")) or 1.0
    if said["model_type"] == "phi3":
        kind = "longrope" if kind in ("su", "yarn") else kind  # older names of the same
    elif share != 1:
        raise ForageError(f"{where} turns {share} of each head; of {said['model_type']} Forage turns whole heads.")
    if kind == "default":
        return Rope(base, share=share)
    original = said.get("original_max_position_embeddings") or named.get("original_max_position_embeddings")
    original = original or said["max_position_embeddings"]
    factor = named.get("factor") or said["max_position_embeddings"] / original
    if kind in ("linear", "dynamic"):
        return Rope(base, kind, named.get("factor", 1.0), original=original if kind == "dynamic" else 0)
    if kind == "llama3":
        return Rope(base, kind, named["factor"], named["low_freq_factor"], named["high_freq_factor"], original)
    gain = named.get("attention_factor")
    if kind == "yarn":
        gain = yarn_gain(factor, named) if gain is None else gain
        turns = named.get("beta_slow") or 1, named.get("beta_fast") or 32
        return Rope(base, kind, factor, *turns, original, gain=gain, rounded=bool(named.get("truncate", True)))
    if kind == "longrope":
        if gain is None:
            gain = math.sqrt(1 + math.log(factor) / math.log(original)) if factor > 1 else 1.0
        short, long = (tuple(map(float, named.get(name) or ())) for name in ("short_factor", "long_factor"))
        return Rope(base, kind, factor, original=original, share=share, gain=gain, short=short, long=long)
    raise ForageError(
        f"{where} scales rotary positions by {kind!r}; Forage has default, linear, dynamic, llama3, yarn and longrope."
    )


def yarn_gain(factor: float, named: dict[str, Any]) -> float:
    """Return the factor of cosine and sine that YaRN's paper suggests, or its ratio for two scales."""

    def scale(weight: float) -> float:
        return 0.1 * weight * math.log(factor) + 1 if factor > 1 else 1.0

    one, other = named.get("mscale"), named.get("mscale_all_dim")
    return scale(one) / scale(other) if one and other else scale(1.0)


def write_architecture(
    architecture: Architecture, read: dict[str, Any] | None, dtype: str, kind: str = LANGUAGE
) -> dict[str, Any]:
    """Return a configuration: the original one if it is equivalent, or a new one.

    `kind`: the end of the name of its class in transformers.
    """
    family = architecture.family
    classes = [CLASS_NAMES.get((family, kind), f"{CLASSES[family]}{kind}")]
    if read is not None and kind != LANGUAGE:  # which has no head over the vocabulary, tied or not
        architecture = architecture._replace(tied=read_architecture(read, Path()).tied)
    if read is not None and read_architecture(read, Path()).canonical() == architecture.canonical():
        names = [name for name in ("dtype", "torch_dtype") if name in read] or ["dtype"]
        named = read.get("architectures") or ()
        was = next((one for one in (CLASSIFIER, STEPS) if any(name.endswith(one) for name in named)), LANGUAGE)
        own = {} if was == kind else {"architectures": classes}
        return {**read, **own, **dict.fromkeys(names, dtype)}
    config = {
        "architectures": classes,
        "model_type": family,
        **{theirs: getattr(architecture, ours) for ours, theirs in sizes_named(family).items()},
        "tie_word_embeddings": architecture.tied,
        "initializer_range": 0.02,
        "use_cache": True,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "dtype": dtype,
    }
    choices, names = architecture.choices, ACTIVATIONS[architecture.choices.activation]
    if not choices.rotary:
        return config | {"activation_function": names[0]}
    config["hidden_act" if choices.activation == "silu" else "hidden_activation"] = names[-1]
    config |= {
        "num_key_value_heads": architecture.kv_heads,
        "head_dim": architecture.size,
        **write_ropes(architecture),
        **write_windows(architecture),
        **write_scales(architecture),
    }
    if len(choices.attention_bias) > 1:
        config["attention_bias"] = architecture.attention_bias
    if choices.mlp_bias:
        config["mlp_bias"] = architecture.mlp_bias
    if family == "smollm3":
        config["no_rope_layers"] = [int(architecture.turns(layer)) for layer in range(architecture.layers)]
    if choices.experts:
        config |= {
            "num_experts": architecture.experts,
            "num_experts_per_tok": architecture.chosen,
            "moe_intermediate_size": architecture.expert_inner,
            "norm_topk_prob": architecture.normalised,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [n for n in range(architecture.layers) if not architecture.is_sparse(n)],
        }
    return config


def write_windows(architecture: Architecture) -> dict[str, Any]:
    """Return the windows of layers as a configuration has them."""
    windows = architecture.windows or (0,) * architecture.layers
    size, family, choices = max(windows), architecture.family, architecture.choices
    if choices.windows == "none":
        return {}
    found: dict[str, Any] = {"sliding_window": size or None}
    if family in ("qwen2", "qwen3", "smollm3", "qwen3_moe"):
        found["use_sliding_window"] = size > 0
    if choices.windows == "each":
        found["layer_types"] = [SLIDING if window else FULL for window in windows]
    if family in ("qwen2", "qwen3"):
        full = [layer for layer, window in enumerate(windows) if not window]
        found["max_window_layers"] = max(full, default=-1) + 1
    return found


def write_scales(architecture: Architecture) -> dict[str, Any]:
    """Return scales and bounds as a configuration has them."""
    attention = architecture.attention_scale or architecture.size**-0.5
    if architecture.family == "granite":
        return {
            "attention_multiplier": attention,
            "embedding_multiplier": architecture.embedding_scale,
            "residual_multiplier": architecture.residual_scale,
            "logits_scaling": architecture.logit_divisor,
        }
    if architecture.choices.caps:
        scalar = attention**-2
        return {
            "query_pre_attn_scalar": round(scalar) if abs(scalar - round(scalar)) < 1e-6 else scalar,
            "attn_logit_softcapping": architecture.attention_cap or None,
            "final_logit_softcapping": architecture.logit_cap or None,
        }
    return {}


def write_ropes(architecture: Architecture) -> dict[str, Any]:
    """Return the rotary positions as both forms of a configuration have them."""
    rope, local = architecture.rope, architecture.local_rope
    scaling = write_rope(rope)
    found: dict[str, Any] = {
        "rope_theta": rope.base,
        "rope_scaling": None if rope.kind == "default" else scaling,
        "rope_parameters": {**scaling, "rope_theta": rope.base},
    }
    if architecture.family == "phi3":
        found["partial_rotary_factor"] = found["rope_parameters"]["partial_rotary_factor"] = rope.share
        found["original_max_position_embeddings"] = rope.original or architecture.length
    if architecture.choices.local_rope:
        near = local or rope
        nested = {FULL: found["rope_parameters"], SLIDING: {**write_rope(near), "rope_theta": near.base}}
        found |= {"rope_parameters": nested, "rope_local_base_freq": near.base}
    return found


def write_rope(rope: Rope) -> dict[str, Any]:
    """Return the kind and the numbers of rotary positions, without the base."""
    said: dict[str, Any] = {"rope_type": rope.kind}
    if rope.kind != "default":
        said["factor"] = rope.factor
    if rope.kind == "llama3":
        said |= {"low_freq_factor": rope.low, "high_freq_factor": rope.high}
    if rope.kind == "yarn":
        said |= {"beta_slow": rope.low, "beta_fast": rope.high, "truncate": rope.rounded}
    if rope.kind == "longrope":
        said |= {"short_factor": list(rope.short), "long_factor": list(rope.long)}
    if rope.kind in ("yarn", "longrope"):
        said["attention_factor"] = rope.gain
    if rope.original:
        said["original_max_position_embeddings"] = rope.original
    return said
