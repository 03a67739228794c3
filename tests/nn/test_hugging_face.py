"""The transformer against Hugging Face's, with the same random weights: logits, greedy texts, files read and written.

It needs what `make test` does not install: pip install 'forage-rl[test,language,transformers]'.
"""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from language_helpers import draw

from forage.core.text.chat import CHATML, CHATML_TOKENS
from forage.core.text.own import BytePairs
from forage.core.text.tokenizer import Tokenizer
from forage.nn.language.architecture import Architecture
from forage.nn.language.directory import ends, load_adapters, save_adapters, with_tokens
from forage.nn.language.generate import generate
from forage.nn.language.positions import Rope
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
    """Return a model of Hugging Face with random weights, norms and biases included."""
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


def ask(model, tokens, mask):
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
    np.testing.assert_allclose(found[mask], ask(model, tokens, mask)[mask], atol=1e-4)

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
    network = draw(OURS[family])
    with_tokens(network, end=2, pad=0).save(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    tokens, mask = prompts()
    np.testing.assert_allclose(small.compute(network, tokens, mask)[mask], ask(model, tokens, mask)[mask], atol=1e-4)
    written = generate(network, tokens, new=8, sampling=Sampling(temperature=0), mask=mask, stop=(2,))
    ids, there = torch.tensor(tokens).long(), torch.tensor(mask).long()
    expected = model.generate(ids, attention_mask=there, max_new_tokens=8, do_sample=False)[:, tokens.shape[1] :]
    np.testing.assert_array_equal(np.asarray(written.tokens)[:, : expected.shape[1]], expected)
    again = Transformer.load(tmp_path)
    assert again.architecture == network.architecture.canonical()
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
    ours, other = small.compute(network, tokens, mask)[mask], ask(model, tokens, mask)[mask]
    error, their_error = np.abs(ours - exact).mean(), np.abs(other - exact).mean()
    assert error < 2 * their_error < 0.5, (error, their_error)  # rounding, and no more of it than there


def test_several_files_are_read(tmp_path):
    model = theirs("qwen2")
    model.save_pretrained(tmp_path / "one")
    model.save_pretrained(tmp_path / "many", max_shard_size="20KB")
    assert (tmp_path / "many" / "model.safetensors.index.json").exists()
    one, many = (jax.tree.leaves(Transformer.load(tmp_path / name)) for name in ("one", "many"))
    assert all(jnp.array_equal(a, b) for a, b in zip(one, many, strict=True))


MANY = """{%- set count = namespace(n=0) -%}
{%- for message in messages %}
    {%- if message.role == 'system' %}{% continue %}{% endif %}
    {%- set count.n = count.n + 1 %}
{{ count.n }} {{ message | tojson }}{% generation %}{{ message.content | trim }}{% endgeneration %}{{ eos_token }}
{% endfor %}
{% if tools %}{{ tools | tojson(indent=2) }}{% endif %}"""
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Adds <é>.", "parameters": {}}}]


@pytest.mark.parametrize("template", [CHATML, MANY], ids=["chatml", "many"])
def test_a_dialogue_is_the_same_text_there(template, tmp_path):
    texts = ["what is 12+30? it is 42.", "and what is 7+7? it is 14. naïve"] * 2
    tokenizer = BytePairs.learn(texts, 300, special=CHATML_TOKENS, template=template)
    network = draw(OURS["llama"]._replace(vocabulary=tokenizer.vocabulary, length=512))
    with_tokens(network, tokenizer.end, tokenizer.pad).save(tokenizer.save(tmp_path))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    messages = [{"role": "system", "content": "Count."}, {"role": "user", "content": " what is 日本+naïve? "}]
    text = tokenizer.chat(messages, tools=TOOLS)
    assert theirs.apply_chat_template(messages, tools=TOOLS, tokenize=False, add_generation_prompt=True) == text
    tokens = tokenizer.encode(text)
    asked = theirs(text, return_tensors="pt", add_special_tokens=False, return_token_type_ids=False)
    assert asked["input_ids"][0].tolist() == tokens == Tokenizer.load(tmp_path).encode(text)
    assert (theirs.pad_token_id, theirs.eos_token_id) == (0, 1)

    written = generate(network, [tokens], new=12, sampling=Sampling(temperature=0), stop=(tokenizer.end,))
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    expected = model.generate(**asked, max_new_tokens=12, do_sample=False)[0, len(tokens) :]
    assert tokenizer.decode(written.tokens[0]) == theirs.decode(expected, skip_special_tokens=True)


@pytest.mark.filterwarnings("ignore")  # PEFT calls what transformers has deprecated
def test_adapters_are_those_of_peft(tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    theirs("qwen2").save_pretrained(tmp_path / "base")
    config = peft.LoraConfig(r=3, lora_alpha=6, target_modules=["q_proj", "down_proj"], init_lora_weights=False)
    torch.manual_seed(1)
    model = peft.get_peft_model(theirs("qwen2"), config).eval()
    model.save_pretrained(tmp_path / "theirs")
    network = load_adapters(Transformer.load(tmp_path / "base"), tmp_path / "theirs")
    tokens, mask = prompts()
    expected = ask(model, tokens, mask)[mask]
    np.testing.assert_allclose(small.compute(network, tokens, mask)[mask], expected, atol=1e-4)
    assert np.abs(ask(theirs("qwen2"), tokens, mask)[mask] - expected).max() > 0.1

    save_adapters(network, tmp_path / "ours")
    again = peft.PeftModel.from_pretrained(theirs("qwen2"), tmp_path / "ours").eval()
    np.testing.assert_array_equal(ask(again, tokens, mask)[mask], expected)
    network.save(tmp_path / "merged")
    whole = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
    np.testing.assert_allclose(ask(whole, tokens, mask)[mask], expected, atol=1e-4)


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
