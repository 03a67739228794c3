"""The transformer against Hugging Face's, with the same random weights: logits, greedy texts, files read and written.

It needs what `make test` does not install: pip install 'forage-rl[test,language,transformers]'.
"""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from language_helpers import OURS, RECORDED, TEXT, draw

from forage.core.errors import ForageError
from forage.core.text.chat import CHATML, CHATML_TOKENS
from forage.core.text.own import BytePairs
from forage.core.text.tokenizer import Tokenizer
from forage.nn.language import lora
from forage.nn.language.directory import ends, load_scorer, save_scorer, with_tokens
from forage.nn.language.generate import generate, score_texts
from forage.nn.language.peft import load_adapters, save_adapters
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
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
TWO_ROPES = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}
LONG = {
    "rope_parameters": {
        "rope_type": "longrope",
        "short_factor": [1.0, 1.1, 1.3],
        "long_factor": [1.0, 2.0, 4.0],
        "rope_theta": 1e4,
        "partial_rotary_factor": 0.75,
    },
}
MULTIPLIERS = {
    "attention_multiplier": 0.2,
    "embedding_multiplier": 6.0,
    "residual_multiplier": 0.3,
    "logits_scaling": 3.0,
}
EXPERTS = {
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 20,
    "norm_topk_prob": True,
    "head_dim": 8,
}
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
    "qwen2-yarn": ("qwen2", {"tie_word_embeddings": True, "rope_parameters": YARN}),
    "llama-yarn": ("llama", {"rope_parameters": YARN | {"attention_factor": 0.8, "beta_fast": 4, "truncate": False}}),
    "gemma2": ("gemma2", {"head_dim": 12, "query_pre_attn_scalar": 9, "sliding_window": 5} | CAPS),
    "gemma2-uncapped": ("gemma2", {"head_dim": 8, "query_pre_attn_scalar": 8, "attn_logit_softcapping": None}),
    "gemma3": ("gemma3_text", {"head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 5} | TWO_ROPES),
    "gemma3-plain": ("gemma3_text", {"head_dim": 8, "num_hidden_layers": 2, "sliding_window": 5}),
    "phi3": ("phi3", {"sliding_window": 5}),
    "phi4-mini": ("phi3", {"max_position_embeddings": 128, "original_max_position_embeddings": 64} | LONG),
    "olmo2": ("olmo2", {"tie_word_embeddings": False}),
    "olmo2-biased": ("olmo2", {"attention_bias": True, "tie_word_embeddings": True}),
    "granite": ("granite", MULTIPLIERS),
    "gpt2": ("gpt2", {"n_inner": None}),
    "gpt2-inner": ("gpt2", {"n_inner": 48, "tie_word_embeddings": False}),
    "qwen3-moe": ("qwen3_moe", EXPERTS),
    "qwen3-moe-dense": ("qwen3_moe", EXPERTS | {"norm_topk_prob": False, "mlp_only_layers": [1]} | WINDOW),
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
        ids, there = torch.tensor(tokens).long(), torch.tensor(mask).long()
        place = {"position_ids": (there.cumsum(1) - 1).clamp(min=0)} if model.config.model_type == "gpt2" else {}
        found = model(input_ids=ids, attention_mask=there, **place)  # GPT-2 counts padding unless told
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
    same = jax.tree.map(np.array_equal, jax.tree.leaves(network), jax.tree.leaves(again))
    assert all(same)


@pytest.mark.parametrize("family", OURS)
def test_recorded_logits_are_theirs(family, tmp_path):
    """FORAGE_RECORD=1 writes the records."""
    with_tokens(draw(OURS[family]), end=2, pad=0).save(tmp_path)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    found = ask(model, TEXT, np.ones(TEXT.shape, bool))[0, -1, :6]
    read = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    if os.environ.get("FORAGE_RECORD"):
        read[family] = [round(float(x), 6) for x in found]
        RECORDED.write_text("\n".join(json.dumps(read).replace("], ", "],\n").splitlines()) + "\n")
    np.testing.assert_allclose(found, read[family], atol=1e-4)


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
    assert all(np.array_equal(a, b) for a, b in zip(one, many, strict=True))


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


PATTERNS = {"rank_pattern": {"q_proj": 2, "layers.1.self_attn.v_proj": 5}, "alpha_pattern": {"o_proj": 9}}
ADAPTERS = {
    "qwen2": {"target_modules": ["q_proj", "down_proj"]},
    "llama": {"target_modules": ["q_proj", "v_proj", "o_proj"], "use_rslora": True, **PATTERNS},
    "phi4-mini": {"target_modules": ["qkv_proj", "gate_up_proj", "o_proj"], "rank_pattern": {"o_proj": 2}},
    "gpt2": {"target_modules": ["c_attn", "mlp.c_proj"], "fan_in_fan_out": True},
    "gemma2": {"target_modules": "all-linear"},
    "qwen3-moe": {"target_modules": ["q_proj", "k_proj"]},
}


@pytest.mark.filterwarnings("ignore")  # PEFT calls what transformers has deprecated
@pytest.mark.parametrize("case", ADAPTERS)
def test_adapters_are_those_of_peft(case, tmp_path):
    peft = pytest.importorskip("peft", reason="peft is not installed")
    theirs(case).save_pretrained(tmp_path / "base")
    config = peft.LoraConfig(r=3, lora_alpha=6, init_lora_weights=False, **ADAPTERS[case])
    torch.manual_seed(1)
    model = peft.get_peft_model(theirs(case), config).eval()
    model.save_pretrained(tmp_path / "theirs")
    network = load_adapters(Transformer.load(tmp_path / "base"), tmp_path / "theirs")
    tokens, mask = prompts()
    expected = ask(model, tokens, mask)[mask]
    np.testing.assert_allclose(small.compute(network, tokens, mask)[mask], expected, atol=1e-4)
    assert np.abs(ask(theirs(case), tokens, mask)[mask] - expected).max() > 0.1

    save_adapters(network, tmp_path / "ours")
    again = peft.PeftModel.from_pretrained(theirs(case), tmp_path / "ours").eval()
    np.testing.assert_allclose(ask(again, tokens, mask)[mask], expected, atol=1e-5)
    network.save(tmp_path / "merged")
    whole = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged").eval()
    np.testing.assert_allclose(ask(whole, tokens, mask)[mask], expected, atol=1e-4)


@pytest.mark.parametrize("case", ["phi4-mini", "gpt2", "qwen3-moe"])
@pytest.mark.filterwarnings("ignore")
def test_adapters_that_learned_here_are_read_by_peft(case, tmp_path):
    """Projections that share a tensor there have learned apart here, one of them not at all."""
    peft = pytest.importorskip("peft", reason="peft is not installed")
    theirs(case).save_pretrained(tmp_path / "base")
    network = small.at_once(
        lambda: lora.add_adapters(
            Transformer.load(tmp_path / "base"), jax.random.key(0), 2, 6.0, ("queries", "values", "up", "down")
        )
    )
    generator = np.random.default_rng(0)
    network = jax.tree_util.tree_map_with_path(
        lambda path, x: jnp.asarray(0.3 * generator.normal(size=x.shape), x.dtype) if lora.is_adapter(path) else x,
        network,
    )
    save_adapters(network, tmp_path / "ours")
    again = peft.PeftModel.from_pretrained(theirs(case), tmp_path / "ours").eval()
    tokens, mask = prompts()
    found = small.compute(network, tokens, mask)[mask]
    np.testing.assert_allclose(ask(again, tokens, mask)[mask], found, atol=1e-4)
    assert np.abs(ask(theirs(case), tokens, mask)[mask] - found).max() > 0.1
    here = load_adapters(Transformer.load(tmp_path / "base"), tmp_path / "ours")
    np.testing.assert_allclose(small.compute(here, tokens, mask)[mask], found, atol=1e-4)


SCORERS = ["llama", "qwen2", "qwen3", "mistral", "phi3", "gemma2", "gemma3", "gpt2", "qwen3-moe", "olmo2"]


@pytest.mark.parametrize("case", SCORERS)
def test_scores_are_those_of_their_classifiers(case, tmp_path):
    family, more = CASES[case]
    config = transformers.AutoConfig.for_model(family, **(SIZES | more), num_labels=1)
    torch.manual_seed(0)
    model = transformers.AutoModelForSequenceClassification.from_config(config).eval()
    model.save_pretrained(tmp_path / "theirs")
    tokens, mask = prompts()
    tokens = np.where(mask, tokens, 0)[:, ::-1]  # padded behind, as their classifiers expect it
    mask = mask[:, ::-1]
    network, score = load_scorer(tmp_path / "theirs")
    found = small.compute(lambda *text: score_texts(network, score, *text), tokens.copy(), mask.copy())
    np.testing.assert_allclose(found, ask(model, tokens.copy(), mask.copy())[:, 0], atol=1e-5)
    assert np.std(found) > 1e-3
    save_scorer(network, score, tmp_path / "ours")
    assert bytes_of(tmp_path / "ours") == bytes_of(tmp_path / "theirs")
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "ours").eval()
    np.testing.assert_allclose(ask(again, tokens.copy(), mask.copy())[:, 0], found, atol=1e-5)
    with pytest.raises(ForageError, match="holds a model that scores texts"):
        Transformer.load(tmp_path / "theirs")


def test_the_auxiliary_loss_of_experts_is_theirs(tmp_path):
    model = theirs("qwen3-moe-dense")
    model.save_pretrained(tmp_path)
    tokens, mask = prompts()
    with torch.no_grad():
        ids, there = torch.tensor(tokens).long(), torch.tensor(mask).long()
        expected = model(input_ids=ids, attention_mask=there, output_router_logits=True).aux_loss
    found = small.compute(Transformer.load(tmp_path).load_balance, tokens, mask)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


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
