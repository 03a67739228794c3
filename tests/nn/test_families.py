"""Families of transformers: recorded logits of each, their operators by hand, their files, and refusals."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from language_helpers import OURS, RECORDED, TEXT, draw
from tiers import gate_cases

from forage.core.types import ForageError
from forage.nn.language import lora
from forage.nn.language.architecture import FAMILIES
from forage.nn.language.configuration import read_architecture, write_architecture
from forage.nn.language.experts import Experts, load_balance
from forage.nn.language.generate import log_probabilities
from forage.nn.language.peft import join_adapters, rank_and_scale
from forage.nn.language.positions import Rope, rotate_pairs
from forage.nn.language.tensors import from_leaves, to_leaves
from forage.nn.transformer import Projection, Transformer

small.keep_compiled()


@pytest.mark.parametrize("family", gate_cases({name: name for name in OURS}, ["gemma2"]))
def test_logits_are_those_that_transformers_computed(family):
    found = small.compute(draw(OURS[family]), TEXT)[0, -1, :6]
    np.testing.assert_allclose(found, json.loads(RECORDED.read_text())[family], atol=1e-4)


@pytest.mark.parametrize("family", OURS)
def test_configurations_and_tensors_come_back(family, tmp_path):
    architecture = OURS[family].canonical()
    config = json.loads(json.dumps(write_architecture(architecture, None, "float32")))
    assert read_architecture(config, tmp_path) == architecture
    architecture.check()
    network = jax.eval_shape(lambda: Transformer(jax.random.key(0), architecture))
    network = jax.tree.map(lambda x: np.random.default_rng(0).normal(size=x.shape), network)
    tensors = from_leaves(network, architecture)
    again, used = to_leaves(tensors, network, architecture, tmp_path)
    assert used == set(tensors)
    jax.tree.map(np.testing.assert_array_equal, network, again)


@pytest.mark.thorough
@pytest.mark.parametrize("rank", [0, 2])
@pytest.mark.parametrize("family", OURS)
def test_a_step_makes_a_text_likelier(family, rank):
    network = jax.tree.map(lambda x: 0.3 * x if x.ndim > 1 else x, draw(OURS[family]))

    def step(network):
        if rank:
            network = lora.add_adapters(network, jax.random.key(0), rank, 4.0, lora.ALL)
        learned, fixed = lora.split_adapters(network) if rank else (network, None)

        def loss(learned):
            return -log_probabilities(lora.combine_adapters(learned, fixed), jnp.asarray(TEXT))[0].mean()

        before, slope = jax.value_and_grad(loss)(learned)
        size = jnp.sqrt(sum(jnp.vdot(x, x) for x in jax.tree.leaves(slope)))
        after = loss(jax.tree.map(lambda x, g: x - 0.02 * g / size, learned, slope))
        return before, after, jax.tree.map(lambda g: jnp.abs(g).max(), slope)

    before, after, slope = small.compute(step, network)
    assert after < before
    moved = [bool(x > 0) for x in jax.tree.leaves(slope)]
    assert np.isfinite(jax.tree.leaves(slope)).all()
    assert sum(moved) >= (len(moved) // 2 if rank else 0.9 * len(moved))  # A learns once B is no longer 0


def test_every_family_is_recorded():
    assert set(OURS) == set(FAMILIES) == set(json.loads(RECORDED.read_text()))


def test_yarn_by_hand():
    """Of 4 pairs, by their turns in 64 tokens: more than 8 stay, less than 1 are divided by 4, and one is mixed."""
    rope = Rope(10_000.0, "yarn", 4.0, 1.0, 8.0, 64)
    first = np.floor(8 * np.log(64 / (8 * 2 * np.pi)) / (2 * np.log(10_000)))
    last = np.ceil(8 * np.log(64 / (2 * np.pi)) / (2 * np.log(10_000)))
    assert (first, last) == (0, 2)
    plain = 10_000.0 ** -np.array([0, 0.25, 0.5, 0.75])
    expected = plain * [1, 0.5 + 0.5 / 4, 0.25, 0.25]
    np.testing.assert_allclose(rope.frequencies(8), expected, rtol=1e-6)


def test_a_part_of_a_head_is_turned():
    x = np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6)
    quarter = np.zeros((1, 1, 2), np.float32), np.ones((1, 1, 2), np.float32)
    np.testing.assert_allclose(rotate_pairs(x, *quarter)[0, 0, 0], [-2, -3, 0, 1, 4, 5])


def test_experts_by_hand():
    """Two of three experts a token, each of one unit: expert e multiplies the token by its number."""
    scale = jnp.array([1.0, 2.0, 3.0])[:, None, None]
    experts = Experts(jnp.log(jnp.array([[1.0, 2.0, 5.0]])), jnp.ones((3, 1, 1)), scale, jnp.ones((3, 1, 1)))
    found = small.compute(lambda h: experts(h, 2, True, lambda x: jnp.ones_like(x)), np.array([[1.0], [-1.0]]))
    # p = (1, 2, 5) / 8 of the first token, its inverse of the second, (10, 5, 2) / 17
    np.testing.assert_allclose(found[:, 0], [(2 * 2 + 5 * 3) / 7, -(10 * 1 + 5 * 2) / 15], rtol=1e-5)
    probability = jnp.array([[0.5, 0.4, 0.1], [0.2, 0.5, 0.3], [0.9, 0.1, 0.0]])
    mask = jnp.array([True, True, False])
    # chosen: 1 and 2, then 2 and 3; 3 (0.5 0.35 + 1 0.45 + 0.5 0.2)
    np.testing.assert_allclose(load_balance(probability, mask, 2), 3 * (0.5 * 0.35 + 0.45 + 0.5 * 0.2), rtol=1e-5)


def test_ranks_and_scales_of_modules():
    config = {"r": 4, "lora_alpha": 8, "rank_pattern": {"q_proj": 2, "layers.1.self_attn.v_proj": 1}}
    config |= {"alpha_pattern": {"v_proj": 6}}
    assert rank_and_scale(config, "model.layers.0.self_attn.q_proj") == (2, 4.0)
    assert rank_and_scale(config, "model.layers.1.self_attn.v_proj") == (1, 6.0)
    assert rank_and_scale(config, "model.layers.11.self_attn.v_proj") == (4, 1.5)
    assert rank_and_scale(config | {"use_rslora": True}, "model.layers.0.mlp.up_proj") == (4, 4.0)


def test_adapters_of_one_tensor_are_joined():
    one, two = np.array([[1.0], [2.0]]), np.array([[3.0], [5.0]])
    parts = [(Projection(None, None, a, np.ones((1, 2)), scale), 2) for a, scale in ((one, 1.0), (two, 3.0))]
    a, b, scale = join_adapters([*parts, (Projection(None, None), 1)])
    x = np.array([[1.0, 1.0]])
    np.testing.assert_allclose(scale * x @ a @ b, [[3, 3, 24, 24, 0]])
    a, b, _ = join_adapters([parts[0], parts[0]])
    assert a.shape == (2, 1)
    np.testing.assert_allclose(x @ a @ b, [[3, 3, 3, 3]])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "bitsandbytes with 4 bits"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 8}}, "weights (gptq with 8 bits); Forage reads"),
        ({"model_type": "gemma3", "text_config": {}}, "that reads pictures too, take the text model alone"),
        ({"use_bidirectional_attention": True}, "sets use_bidirectional_attention to True"),
        ({"model_type": "phi3", "rope_scaling": {"type": "longrope", "short_factor": [1.0]}}, "for each of the"),
        ({"model_type": "llama", "partial_rotary_factor": 0.5}, "turns 0.5 of each head"),
    ],
    ids=str,
)
def test_configurations_that_are_refused(change, sentence, tmp_path):
    config = write_architecture(OURS["gemma2"], None, "float32")
    config["hidden_act"] = {"gemma2": None, "gemma3": None}.get(change.get("model_type", "gemma2"), "silu")
    if config["hidden_act"]:
        config.pop("hidden_activation")
    with pytest.raises(ForageError) as error:
        read_architecture(config | change, tmp_path).check()
    assert sentence in str(error.value)


def test_files_of_other_programs_are_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(write_architecture(OURS["llama"], None, "float32")))
    for name, sentence in (
        ("model-q4.gguf", "model-q4.gguf is of llama.cpp. Forage reads safetensors"),
        ("pytorch_model.bin", "pytorch_model.bin may run code as it is read; where you trust it, transformers writes"),
    ):
        path = tmp_path / name
        path.write_bytes(b"")
        pytest.importorskip("safetensors", reason="safetensors is not installed")
        with pytest.raises(ForageError) as error:
            Transformer.load(tmp_path)
        assert sentence in str(error.value)
        path.unlink()
    with pytest.raises(ForageError, match="is a GGUF file"):
        Transformer.load(tmp_path / "model.gguf")
