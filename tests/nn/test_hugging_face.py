"""The transformer beside Hugging Face's, with the same random weights: logits, greedy texts, files read and written.

It needs torch and transformers, which `make test` does not install: pip install torch transformers.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small

from forage.nn.language.architecture import Architecture, Rope
from forage.nn.language.directory import ends, with_tokens
from forage.nn.language.generate import generate
from forage.nn.transformer import Transformer
from forage.ops.sampling import Sampling, log_distribution

pytestmark = pytest.mark.thorough
torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")
small.keep_compiled()

SIZES = {
    "vocab_size": 61,
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 16}
LINEAR, DYNAMIC = ({"rope_type": kind, "rope_theta": 1e4, "factor": 4.0} for kind in ("linear", "dynamic"))
WINDOW = {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}
CASES = {
    "llama": ("llama", {"tie_word_embeddings": False}),
    "smollm2": ("llama", {"tie_word_embeddings": True, "num_key_value_heads": 4}),
    "llama-3": ("llama", {"attention_bias": True, "mlp_bias": True, "rope_parameters": LLAMA3, "head_dim": 10}),
    "llama-linear": ("llama", {"rope_parameters": LINEAR}),
    "llama-dynamic": ("llama", {"rope_parameters": DYNAMIC}),
    "mistral": ("mistral", {"sliding_window": 5}),
    "mistral-all": ("mistral", {"sliding_window": None, "head_dim": 12}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2-window": ("qwen2", {"tie_word_embeddings": True, **WINDOW}),
    "qwen3": ("qwen3", {"head_dim": 12, "tie_word_embeddings": False}),
    "qwen3-biased": ("qwen3", {"head_dim": 8, "attention_bias": True, **WINDOW}),
    "smollm3": ("smollm3", {"no_rope_layer_interval": 2}),
    "smollm3-window": ("smollm3", {"no_rope_layer_interval": 2, "use_sliding_window": True, "sliding_window": 5}),
}


def theirs(case, dtype=torch.float32):
    """A model of theirs with random weights, norms and biases among them."""
    family, more = CASES[case]
    config = transformers.AutoConfig.for_model(family, **(SIZES | more))
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            new = 0.3 * torch.randn(weight.shape)
            weight.copy_(1 + new if "norm" in name else new)
    return model


def prompts(length=11, rows=3):
    """Prompts with padding in front, of different lengths."""
    tokens = np.random.default_rng(0).integers(3, SIZES["vocab_size"], (rows, length)).astype(np.int32)
    mask = np.arange(length) >= np.array([[0], [4], [7]])[:rows]
    return np.where(mask, tokens, 0).astype(np.int32), mask


def asked(model, tokens, mask):
    """Their logits."""
    with torch.no_grad():
        found = model(input_ids=torch.tensor(tokens).long(), attention_mask=torch.tensor(mask).long())
    return found.logits.float().numpy()


@pytest.mark.parametrize("case", CASES)
def test_logits_texts_and_files_are_theirs(case, tmp_path):
    model = theirs(case)
    model.save_pretrained(tmp_path / "theirs")
    network = Transformer.load(tmp_path / "theirs")
    tokens, mask = prompts()
    found = small.compute(network, tokens, mask)
    np.testing.assert_allclose(found[mask], asked(model, tokens, mask)[mask], atol=1e-4)

    written = generate(network, tokens, new=20, sampling=Sampling(temperature=0), mask=mask, stop=ends(network))
    ids, there = torch.tensor(tokens).long(), torch.tensor(mask).long()
    expected = model.generate(ids, attention_mask=there, max_new_tokens=20, do_sample=False)[:, tokens.shape[1] :]
    np.testing.assert_array_equal(np.asarray(written.tokens)[:, : expected.shape[1]], expected)
    assert ends(network) == (2,)

    network.save(tmp_path / "ours")
    assert bytes_of(tmp_path / "ours") == bytes_of(tmp_path / "theirs")
    read = [json.loads((tmp_path / name / "config.json").read_text()) for name in ("ours", "theirs")]
    assert read[0] == read[1]


def bytes_of(directory):
    """The names, shapes and bytes of a directory's weights."""
    from safetensors import safe_open

    with safe_open(directory / "model.safetensors", "numpy") as file:
        return {name: (file.get_tensor(name).shape, file.get_tensor(name).tobytes()) for name in file.keys()}  # noqa: SIM118


OURS = {
    "llama": Architecture(61, 32, 2, 4, 40, key_heads=2, tied=False, rope=Rope(5e4, "llama3", 8.0, 1.0, 4.0, 16)),
    "mistral": Architecture(61, 32, 2, 4, 40, family="mistral", windows=(5, 5)),
    "qwen2": Architecture(61, 32, 2, 4, 40, family="qwen2", attention_bias=True, windows=(0, 5)),
    "qwen3": Architecture(61, 32, 2, 4, 40, family="qwen3", head_size=12, rope=Rope(1e4, "linear", 2.0)),
    "smollm3": Architecture(61, 32, 2, 4, 40, family="smollm3", rotated=(True, False), mlp_bias=True),
}


@pytest.mark.parametrize("family", OURS)
def test_what_is_written_here_writes_the_same_there(family, tmp_path):
    network = Transformer(jax.random.key(0), OURS[family])
    network = jax.tree.map(lambda x: x + 0.3 * jax.random.normal(jax.random.key(1), x.shape), network)
    with_tokens(network, end=2, pad=0).save(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    tokens, mask = prompts()
    np.testing.assert_allclose(small.compute(network, tokens, mask)[mask], asked(model, tokens, mask)[mask], atol=1e-4)
    written = generate(network, tokens, new=8, sampling=Sampling(temperature=0), mask=mask, stop=(2,))
    ids, there = torch.tensor(tokens).long(), torch.tensor(mask).long()
    expected = model.generate(ids, attention_mask=there, max_new_tokens=8, do_sample=False)[:, tokens.shape[1] :]
    np.testing.assert_array_equal(np.asarray(written.tokens)[:, : expected.shape[1]], expected)
    again = Transformer.load(tmp_path)
    assert again.architecture._replace(extra="") == network.architecture._replace(extra="")
    same = jax.tree.map(lambda a, b: bool(jnp.array_equal(a, b)), jax.tree.leaves(network), jax.tree.leaves(again))
    assert all(same)


def test_bfloat16_keeps_its_bytes_and_is_near(tmp_path):
    model = theirs("qwen2", torch.bfloat16)
    model.save_pretrained(tmp_path / "theirs")
    network = Transformer.load(tmp_path / "theirs")
    assert network.dtype == jnp.bfloat16
    network.save(tmp_path / "ours")
    assert bytes_of(tmp_path / "ours") == bytes_of(tmp_path / "theirs")
    tokens, mask = prompts()
    exact = small.compute(Transformer.load(tmp_path / "theirs", jnp.float32), tokens, mask)[mask]
    ours, other = small.compute(network, tokens, mask)[mask], asked(model, tokens, mask)[mask]
    error, their_error = np.abs(ours - exact).mean(), np.abs(other - exact).mean()
    assert error < 2 * their_error < 0.5, (error, their_error)  # rounding, and no more of it than there


def test_several_files_are_read(tmp_path):
    model = theirs("qwen2")
    model.save_pretrained(tmp_path / "one")
    model.save_pretrained(tmp_path / "many", max_shard_size="20KB")
    assert (tmp_path / "many" / "model.safetensors.index.json").exists()
    one, many = (jax.tree.leaves(Transformer.load(tmp_path / name)) for name in ("one", "many"))
    assert all(jnp.array_equal(a, b) for a, b in zip(one, many, strict=True))


@pytest.mark.parametrize("options", [{"top_k": 7}, {"top_p": 0.8}, {"min_p": 0.1}, {"top_k": 9, "top_p": 0.7}], ids=str)
def test_distributions_are_those_of_their_sampler(options):
    from transformers.generation import logits_process as process

    logits = 3 * np.random.default_rng(0).normal(size=(50, 61)).astype(np.float32)
    scores = process.TemperatureLogitsWarper(0.7)(None, torch.tensor(logits))
    classes = {
        "top_k": process.TopKLogitsWarper,
        "top_p": process.TopPLogitsWarper,
        "min_p": process.MinPLogitsWarper,
    }
    for name, value in options.items():
        scores = classes[name](value)(None, scores)
    found = small.compute(lambda z: log_distribution(z, Sampling(temperature=0.7, **options)), logits)
    np.testing.assert_allclose(np.exp(found), torch.softmax(scores, -1).numpy(), atol=1e-6)
