"""The language policy's network: logits by NumPy, its cache, its answers and their scores, adapters, files."""

import json
import math

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small
from language_helpers import draw
from tiers import gate_cases

from forage.core.types import ForageError
from forage.nn.language import lora
from forage.nn.language.architecture import Architecture
from forage.nn.language.directory import ends, with_tokens
from forage.nn.language.generate import (
    SharedPrefix,
    generate,
    last_hidden,
    log_probabilities,
    pad_left,
    read_prompts,
    write_tokens,
)
from forage.nn.language.peft import load_adapters, save_adapters
from forage.nn.language.positions import Rope
from forage.nn.transformer import ACTIVATIONS, Transformer, normalise, scale_numbers
from forage.ops.sampling import Sampling

small.keep_compiled()
LLAMA = Architecture(11, 8, 2, 4, 12, length=32, key_heads=2, attention_bias=True, mlp_bias=True, tied=False)
SCALED = LLAMA._replace(rope=Rope(100.0, "llama3", 4.0, 1.0, 4.0, 12))
QWEN3 = Architecture(11, 8, 2, 2, 12, length=32, family="qwen3", key_heads=1, head_size=6, windows=(0, 3))
ONE_LAYER = QWEN3._replace(layers=1, windows=(3,))


def by_hand(network, tokens):
    """The logits of one text, in NumPy, one token and one head at a time."""
    a = network.architecture
    network = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), network)
    frequency = [a.rope.base ** (-2 * i / a.size) for i in range(a.size // 2)]
    if a.rope.kind == "llama3":
        for i, f in enumerate(frequency):
            wavelength = 2 * np.pi / f
            share = np.clip((a.rope.original / wavelength - a.rope.low) / (a.rope.high - a.rope.low), 0, 1)
            frequency[i] = (1 - share) * f / a.rope.factor + share * f

    def norm(x, scale):
        return scale * x / np.sqrt(np.mean(x**2) + a.epsilon)

    def linear(layer, x):
        return x @ layer.weight + (0 if layer.bias is None else layer.bias)

    def turn(x, position):
        first, second = x[: a.size // 2], x[a.size // 2 :]
        cosine, sine = np.cos(position * np.array(frequency)), np.sin(position * np.array(frequency))
        return np.concatenate([first * cosine - second * sine, second * cosine + first * sine])

    x = [network.table[token] for token in tokens]
    for number, block in enumerate(network.blocks):
        inner = [norm(row, block.attention_norm) for row in x]
        parts = {name: [linear(getattr(block, name), row).reshape(-1, a.size) for row in inner] for name in NAMES}
        for name, scale in (("queries", block.query_norm), ("keys", block.key_norm)):
            if scale is not None:
                parts[name] = [np.stack([norm(head, scale) for head in row]) for row in parts[name]]
            parts[name] = [np.stack([turn(head, t) for head in row]) for t, row in enumerate(parts[name])]
        for t in range(len(tokens)):
            first = max(t + 1 - (a.window(number) or len(tokens)), 0)
            heads = []
            for head in range(a.heads):
                shared = head // (a.heads // a.kv_heads)
                logit = [parts["queries"][t][head] @ parts["keys"][s][shared] for s in range(first, t + 1)]
                weight = np.exp(np.array(logit) / np.sqrt(a.size))
                weight /= weight.sum()
                seen = [row[shared] for row in parts["values"][first : t + 1]]
                heads.append(sum(w * value for w, value in zip(weight, seen, strict=True)))
            x[t] = x[t] + linear(block.out, np.concatenate(heads))
            h = norm(x[t], block.mlp_norm)
            gate = linear(block.gate, h)
            x[t] = x[t] + linear(block.down, gate / (1 + np.exp(-gate)) * linear(block.up, h))
    head = network.table if network.head is None else network.head
    return np.stack([head @ norm(row, network.norm) for row in x])


NAMES = "queries", "keys", "values"
TEXT = np.array([[5, 1, 7, 7, 2, 9, 3, 0], [4, 4, 8, 1, 6, 2, 10, 5]], np.int32)
KINDS = {"scaled": SCALED, "qwen3": QWEN3}


@pytest.mark.parametrize("kind", gate_cases(KINDS, ["scaled"]))
def test_logits_by_hand(kind):
    network = draw(KINDS[kind])
    found = small.compute(network, TEXT)
    np.testing.assert_allclose(found, [by_hand(network, row) for row in TEXT], rtol=1e-4, atol=1e-4)
    assert np.std(found) > 0.3


def test_padding_and_holes_count_in_no_position():
    network = draw(QWEN3)
    mask = np.array([[0, 0, 1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 0, 0, 1]], bool)

    def run_both(tokens):
        cache = network.cache(2, 10)
        blocks = []
        for start, stop in ((0, 3), (3, 8)):
            hidden, cache = network.extend(cache, tokens[:, start:stop], jnp.asarray(mask)[:, start:stop])
            blocks.append(network.logits(hidden))
        return network(tokens, jnp.asarray(mask)), jnp.concatenate(blocks, axis=1), cache.following

    full, stepped, following = small.compute(run_both, TEXT)
    np.testing.assert_allclose(stepped[mask], full[mask], atol=1e-5)
    np.testing.assert_array_equal(following, mask.sum(1))
    for row in range(2):
        np.testing.assert_allclose(full[row][mask[row]], by_hand(network, TEXT[row][mask[row]]), rtol=1e-4, atol=1e-4)


SAMPLINGS = {
    "plain": Sampling(),
    "all": Sampling(temperature=0.8, top_k=6, top_p=0.9, min_p=0.02),
    "greedy": Sampling(temperature=0),
}


@pytest.mark.parametrize("name", gate_cases(SAMPLINGS, ["all"]))
def test_what_is_written_has_the_probability_that_one_pass_says(name, monkeypatch):
    if name != "all":  # the cache grows twice, which takes longer to compile
        monkeypatch.setattr("forage.nn.language.generate.SHORTEST", 4)
    network, sampling, stop = draw(ONE_LAYER), SAMPLINGS[name], (3, 8)
    prompts, mask = pad_left([TEXT[0][:5], TEXT[1][:2], [7], TEXT[1][:3]])
    allowed = jnp.arange(11) != 4
    if name == "greedy":  # it never writes 3 or 8; the third text is made to end at its second token, the others go on
        endless = generate(network, prompts, None, 9, sampling, mask, allowed=allowed)
        stop = (3, int(endless.tokens[2, 1]))
    written = generate(network, prompts, jax.random.key(2), 9, sampling, mask, stop, allowed)
    tokens, there, log_p = map(np.asarray, written)
    whole, seen = np.concatenate([prompts, tokens], 1), np.concatenate([mask, there], 1)
    scored, entropy = small.compute(lambda *a: log_probabilities(network, a[0], sampling, a[1], allowed), whole, seen)
    np.testing.assert_allclose(scored[:, 5:][there], log_p[there], atol=1e-5)
    assert (log_p[~there] == 0).all() and (scored[:, 5:][~there] == 0).all() and (tokens[~there] == 0).all()
    assert 4 not in tokens[there] and there[:, 0].all() and not there.all()
    for row, kept in zip(tokens, there, strict=True):  # what ends a row is its last token, and nothing else is
        assert not np.isin(row[kept][:-1], stop).any() and (kept.all() or row[kept][-1] in stop)
    assert np.isfinite(log_p).all() and (log_p <= 1e-6).all() and (entropy >= -1e-5).all()
    if name == "greedy":
        logits = np.where(allowed, small.compute(network, whole, seen), -np.inf)
        np.testing.assert_array_equal(logits[:, 4:-1].argmax(-1)[there], tokens[there])


@pytest.mark.thorough
def test_padding_may_stand_anywhere_and_noise_may_be_drawn_late(monkeypatch):
    network = draw(QWEN3)
    prompts, mask = pad_left([TEXT[0][:5], TEXT[1][:2]])
    behind = np.stack([np.roll(row, -shift) for row, shift in zip(prompts, (0, 3), strict=True)])
    one = generate(network, prompts, jax.random.key(2), 6, mask=mask)
    two = generate(network, behind, jax.random.key(2), 6, mask=np.arange(5) < [[5], [2]])
    monkeypatch.setattr("forage.nn.language.generate.AT_ONCE", 0)
    jax.clear_caches()
    three = generate(network, prompts, jax.random.key(2), 6, mask=mask)
    for other in (two, three):
        np.testing.assert_array_equal(one.tokens, other.tokens)
        np.testing.assert_allclose(one.log_probability, other.log_probability, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("stop", [(3, 8), tuple(range(11)), ()], ids=["some", "all", "none"])
def test_turns_go_on_from_the_cache(stop):
    network, sampling, columns = draw(QWEN3), Sampling(temperature=0.8, top_p=0.9), 3 + 2 * 4 + 2
    answer = jnp.array([[5, 9], [7, 0]]), jnp.array([[True, True], [True, False]])
    prompts, mask = pad_left([TEXT[0][:3], TEXT[1][:2]])

    def talk(prompts, mask):
        hidden, cache = network.extend(network.cache(2, columns), prompts, mask)
        first, cache = write_tokens(network, cache, last_hidden(hidden, mask), jax.random.key(1), 4, sampling, stop)
        tokens, there = (jnp.concatenate([x[:, -1:], y], 1) for x, y in zip(first[:2], answer, strict=True))
        hidden, cache = network.extend(cache, tokens, there)
        second, _ = write_tokens(network, cache, last_hidden(hidden, there), jax.random.key(2), 4, sampling, stop)
        whole, seen = (
            jnp.concatenate(parts, 1) for parts in zip((prompts, mask), first[:2], answer, second[:2], strict=True)
        )
        return (first, second), log_probabilities(network, whole, sampling, seen)[0]

    (first, second), scored = small.compute(talk, prompts, mask)
    for turn, begins in ((first, 3), (second, 9)):
        expected = np.where(turn.mask, turn.log_probability, 0)
        np.testing.assert_allclose(np.where(turn.mask, scored[:, begins : begins + 4], 0), expected, atol=1e-5)
        assert turn.mask[:, 0].all() and (stop != tuple(range(11)) or turn.mask.sum() == 2)


@pytest.mark.thorough
def test_numbers_of_16_bits_are_rounded_once_where_transformers_rounds_them_once():
    x = jnp.linspace(-3, 3, 41, dtype=jnp.bfloat16)
    wide = np.asarray(x, np.float64)
    sigmoid, inner = 1 / (1 + np.exp(-wide)), math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * wide**2) / np.cosh(inner) ** 2
    expected = {
        "silu": (wide * sigmoid, sigmoid * (1 + wide * (1 - sigmoid))),
        "gelu": (wide * (1 + np.tanh(inner)) / 2, (1 + np.tanh(inner)) / 2 + wide * slope / 2),
    }
    for name, numbers in expected.items():
        value, pull = jax.vjp(ACTIVATIONS[name], x)
        for found, number in zip((value, *pull(jnp.ones_like(x))), numbers, strict=True):
            assert found.dtype == jnp.bfloat16 and np.array_equal(found, number.astype(jnp.bfloat16))
    # Granite's factors are no numbers of 16 bits, and OLMo-2 scales before it rounds, as Llama does not.
    assert np.array_equal(scale_numbers(x, 0.3), (wide * 0.3).astype(jnp.bfloat16))
    scale = jnp.linspace(0.7, 1.3, 41, dtype=jnp.bfloat16)
    normed, factor = wide / np.sqrt(np.mean(wide**2) + 1e-6), np.asarray(scale, np.float64)
    for family, number in (("olmo2", normed * factor), ("llama", normed.astype(jnp.bfloat16).astype(float) * factor)):
        found = normalise(x, scale, None, LLAMA._replace(family=family))
        assert np.array_equal(found, number.astype(jnp.bfloat16))


def test_first_weights_are_small():
    network = small.at_once(lambda: Transformer(jax.random.key(0), LLAMA._replace(width=64, inner=128, layers=3)))
    block = network.blocks[1]
    for weight, deviation in ((network.table, 0.02), (block.up.weight, 0.02), (block.down.weight, 0.02 / 6**0.5)):
        assert abs(np.std(weight) / deviation - 1) < 0.1
    assert (block.attention_norm == 1).all() and (block.queries.bias == 0).all()


def test_prompts_of_a_group_are_read_once_where_they_are_alike(monkeypatch):
    network, read = draw(ONE_LAYER), []
    extend = Transformer.extend
    monkeypatch.setattr(
        Transformer,
        "extend",
        lambda self, cache, tokens, *a: read.append(len(tokens)) or extend(self, cache, tokens, *a),
    )
    alike = np.array([[0, 4, 6], [0, 4, 6], [1, 2, 3], [1, 2, 3]])
    other = np.array([[0, 4, 6], [1, 4, 6], [1, 2, 3], [1, 2, 3]])  # which differ in padding alone
    once = jax.jit(lambda tokens: read_prompts(network, tokens, tokens > 0, 2))
    each = jax.jit(lambda tokens: read_prompts(network, tokens, tokens > 0))
    for tokens in (alike, other):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), once(tokens), each(tokens))
    assert read == [2, 4, 4]
    assert jax.eval_shape(once, other[:3])[0].shape[0] == 3 and read[3:] == [3]


@pytest.mark.thorough
def test_scoring_in_chunks_and_with_less_memory_is_the_same():
    network = draw(SCALED)

    def loss(table, **how):
        changed = equinox.tree_at(lambda one: one.table, network, table)
        return log_probabilities(changed, TEXT, Sampling(temperature=0.7), **how)[0].sum()

    plain = small.compute(jax.value_and_grad(loss), network.table)
    less = small.compute(jax.value_and_grad(lambda table: loss(table, chunk=5, remat=True)), network.table)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), plain, less)


@pytest.mark.thorough
def test_scoring_the_last_columns_alone_is_the_same():
    network, mask = draw(SCALED), np.arange(8) >= np.array([[2], [0]])

    def loss(table, **how):
        changed = equinox.tree_at(lambda one: one.table, network, table)
        log_p, entropy = log_probabilities(changed, TEXT, Sampling(temperature=0.7), mask, **how)
        return (log_p[:, -3:] ** 2).sum() + entropy[:, -3:].sum()

    whole = small.compute(jax.value_and_grad(loss), network.table)
    last = small.compute(jax.value_and_grad(lambda table: loss(table, wanted=3)), network.table)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), whole, last)


@pytest.mark.parametrize(("architecture",), gate_cases([(SCALED,), (QWEN3,)], [(QWEN3,)]))
def test_what_rows_begin_with_is_read_once_to_the_same_numbers(architecture):
    network = draw(architecture)
    tokens = np.array([[1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 9, 9, 8, 7], [4, 6, 2, 1, 3, 3, 1], [4, 6, 2, 5, 0, 0, 0]])
    mask = np.ones(tokens.shape, bool)
    mask[:2, 0], mask[1, 4], mask[3, 4:] = False, False, False  # padding in front, between tokens and behind

    warmth = Sampling(temperature=jnp.linspace(0.5, 2, 16).reshape(4, 4, 1))  # each token has its own

    def loss(table, **how):
        changed = equinox.tree_at(lambda one: one.table, network, table)
        log_p, entropy = log_probabilities(changed, tokens, warmth, mask, wanted=4, **how)
        return (log_p**2).sum() + entropy.sum(), log_p

    group = {"together": SharedPrefix(prompts=2), "remat": True, "chunk": 5}
    each = small.compute(jax.value_and_grad(loss, has_aux=True), network.table)
    once = small.compute(jax.value_and_grad(lambda table: loss(table, **group), has_aux=True), network.table)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=5e-5), each, once)  # slopes of up to 30
    one = jax.eval_shape(lambda: log_probabilities(network, jnp.asarray(tokens[:, :4]), wanted=1, **group)[0])
    assert one.shape == (4, 1)
    with pytest.raises(ForageError, match="have in common is read once where `wanted` says"):
        log_probabilities(network, tokens, mask=mask, **group)


@pytest.mark.parametrize("by_turn", [True, False])
@pytest.mark.thorough
def test_a_conversation_is_read_once_to_the_same_numbers(by_turn):
    network, over = draw(SCALED), [0] * 9
    # Three turns of a long conversation and of one that ends after its first; answers have up to three tokens.
    first = [[0, 0, 0, 0, 1, 2, 3, 4, 0], [0, 0, 0, 0, 5, 6, 7, 8, 9]]
    second = [[0, 1, 2, 3, 4, 9, 2, 0, 0], over]
    third = [[1, 2, 3, 4, 9, 2, 6, 5, 0], over]
    cut = [[2, 3, 4, 9, 2, 8, 6, 5, 0], over]  # what had no room for the first token

    def run_both(*turns):
        tokens = jnp.array(turns if by_turn else list(zip(*turns, strict=True))).reshape(-1, 9)
        mask = tokens > 0

        def loss(table, **how):
            changed = equinox.tree_at(lambda one: one.table, network, table)
            log_p, entropy = log_probabilities(changed, tokens, Sampling(temperature=0.7), mask, wanted=3, **how)
            return (log_p**2).sum() + entropy.sum(), log_p

        told = {"together": SharedPrefix(turns=len(turns), by_turn=by_turn), "remat": True}
        each = small.compute(jax.value_and_grad(loss, has_aux=True), network.table)
        once = small.compute(jax.value_and_grad(lambda table: loss(table, **told), has_aux=True), network.table)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), each, once)
        return (once[0][1] != 0).sum()

    assert run_both(first, second, third) == run_both(first, second, cut) == 2 + 3 + 1 + 2


def test_adapters_alone_learn_and_can_be_merged():
    network = draw(ONE_LAYER)

    def all_of_it(tokens):
        adapted = lora.add_adapters(network, jax.random.key(3), rank=2, alpha=6.0, projections=("queries", "down"))
        adapters, rest = lora.split_adapters(adapted)

        def spread(some):
            logits = equinox.combine(some, rest)(tokens)
            return logits.std(), logits

        slope, same = jax.grad(spread, has_aux=True)(adapters)
        moved = equinox.combine(jax.tree.map(lambda x, g: x + 3 * g, adapters, slope), rest)
        return network(tokens), same, moved(tokens), lora.merge_adapters(moved)(tokens), slope, moved

    before, same, after, merged, slope, moved = small.compute(all_of_it, TEXT)
    np.testing.assert_allclose(same, before, atol=1e-6)
    np.testing.assert_allclose(after, merged, atol=1e-4)
    assert np.abs(after - before).max() > 0.01
    assert sorted({leaf.shape for leaf in jax.tree.leaves(slope)}) == [(2, 8), (2, 12), (8, 2), (12, 2)]
    one, old = moved.blocks[0].down, network.blocks[0].down
    np.testing.assert_allclose(one.scale * one.lora_a @ one.lora_b, 3.0 * one.lora_a @ one.lora_b)
    np.testing.assert_array_equal(one.weight, old.weight)


def same_bytes(a, b):
    pairs = zip(*map(jax.tree.leaves, (a, b)), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16], ids=["float32", "bfloat16"])
def test_files_hold_every_bit(dtype, tmp_path):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    network = with_tokens(draw(SCALED, dtype), end=3, pad=0)
    again = Transformer.load(network.save(tmp_path))
    assert same_bytes(network, again) and again.dtype == dtype and ends(again) == (3,)
    assert again.architecture == SCALED.canonical()
    config = (tmp_path / "config.json").read_text()
    again.save(tmp_path)
    assert (tmp_path / "config.json").read_text() == config


CHANGES = {
    "unknown": ({"model_type": "bert"}, r"names the model_type 'bert'; Forage reads llama, mistral, qwen2, "),
    "lacking": ({"hidden_size": None}, r"lacks 'hidden_size'"),
    "activation": ({"hidden_act": "gelu"}, r"names the activation 'gelu'; Forage reads 'silu' of llama"),
    "rope": ({"rope_scaling": {"rope_type": "ntk", "factor": 2}}, r"scales rotary positions by 'ntk'"),
    "missing": ({"num_hidden_layers": 3}, r"lack the tensor 'model\.layers\.2\."),
    "left": ({"num_hidden_layers": 1}, r"have a tensor that Forage has no place for, 'model\.layers\.1\."),
    "shape": ({"intermediate_size": 13}, r"layers\.0\.mlp\.\w+\.weight' in \S+ has the shape \(\d+, \d+\), and config"),
    "tied": ({"tie_word_embeddings": True}, r"has a head of its own, and tie_word_embeddings of its config\.json says"),
    "quantised": ({"quantization_config": {"bits": 4}}, r"describes quantised weights"),
    "heads": ({"num_key_value_heads": 3}, r"4 heads cannot share 3 of keys"),
}


def test_directories_that_cannot_be_read(tmp_path):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    with pytest.raises(ForageError, match=r"holds no transformer: it has no config\.json"):
        Transformer.load(tmp_path)
    draw(SCALED).save(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    for change, sentence in CHANGES.values():
        changed = {name: value for name, value in (config | change).items() if value is not None or name not in change}
        path.write_text(json.dumps(changed))
        with pytest.raises(ForageError, match=sentence):
            Transformer.load(tmp_path)
    path.write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ForageError, match="is no file of safetensors"):
        Transformer.load(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ForageError, match="holds no weights that Forage reads"):
        Transformer.load(tmp_path)


def test_adapters_in_files(tmp_path):
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    network = draw(QWEN3)
    adapted = small.at_once(lambda: lora.add_adapters(network, jax.random.key(3), 2, 6.0, ("queries", "down")))
    again = load_adapters(network, save_adapters(adapted, tmp_path))
    assert same_bytes(adapted, again) and again.blocks[1].down.scale == 3.0
    path = tmp_path / "adapter_config.json"
    config = json.loads(path.read_text())
    for change, sentence in (
        ({"peft_type": "IA3"}, "names the method 'IA3'; Forage reads 'LORA'"),
        ({"use_dora": True}, "sets use_dora, which Forage's adapters do not have"),
        ({"bias": "all"}, "has biases that were learned too"),
        ({"r": 4}, r"has to have the shape \(4, 8\); it is \(2, 8\)"),
    ):
        path.write_text(json.dumps(config | change))
        with pytest.raises(ForageError, match=sentence):
            load_adapters(network, tmp_path)
    with pytest.raises(ForageError, match="This transformer has no adapters to save"):
        save_adapters(network, tmp_path)
    path.unlink()
    with pytest.raises(ForageError, match=r"holds no adapters: it has no adapter_config\.json"):
        load_adapters(network, tmp_path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"heads": 3, "key_heads": 0}, "of width 8 has no 3 equal heads"),
        ({"key_heads": 3}, "4 heads cannot share 3 of keys"),
        ({"head_size": 3}, "a head of 3 is odd"),
        ({"layers": 0}, "layers of a transformer is 1 or more, not 0"),
        ({"family": "lama"}, "no family of transformers 'lama'. Did you mean 'llama'?"),
        ({"windows": (0, 3)}, "of the family llama cannot have windows"),
        ({"family": "qwen3", "mlp_bias": True}, "of the family qwen3 cannot have biases in its MLPs"),
        ({"family": "qwen2", "attention_bias": False}, "cannot have attention_bias=False"),
        ({"rotated": (True, False)}, "of the family llama cannot have layers without positions"),
        ({"windows": (3,)}, "windows has an entry for each of the 2 layers, or none"),
        ({"rope": Rope(kind="yarm")}, "Rotary positions of the kind 'yarm' are unknown"),
        ({"rope": Rope(kind="llama3")}, "'llama3' need original > 0"),
    ],
    ids=str,
)
def test_sizes_that_do_not_fit(change, sentence):
    with pytest.raises(ForageError) as error:
        LLAMA._replace(mlp_bias=False)._replace(**change).check()
    assert sentence in str(error.value)


def test_what_cannot_be_written():
    network = jax.eval_shape(lambda: Transformer(jax.random.key(0), QWEN3))
    asked = {
        "fit into the 32 that this transformer reads; write at most 27": {"new": 30},
        "new, how many tokens are written, is 1 or more": {"new": 0},
        "Tokens are drawn with a key": {"key": None},
        "top_p of a sampler": {"sampling": Sampling(top_p=2.0)},
        "Prompts are token ids, `batch time`": {"tokens": np.zeros(3, np.int32)},
        r"padded first, by left_padded\(prompts\)": {"tokens": [[1], [1, 2]]},
        "A prompt has the token 11, and this transformer knows 11": {"tokens": np.array([[1, 11]])},
        "A prompt has one token or more that is no padding": {"mask": np.zeros((1, 5), bool)},
        r"has their shape, \(1, 5\), and not \(1, 4\)": {"mask": np.ones((1, 4), bool)},
        "allowed says which of the 11 tokens may be drawn": {"allowed": np.zeros(11, bool)},
    }
    usual = {"tokens": np.ones((1, 5), np.int32), "key": jax.random.key(0), "new": 4}
    for sentence, change in asked.items():
        with pytest.raises(ForageError, match=sentence):
            generate(network, **{**usual, **change})
    with pytest.raises(ForageError, match="There is no text to read"):
        pad_left([[1], []])
    with pytest.raises(ForageError, match="A text of 3 tokens does not fit into 2"):
        pad_left([[1, 2, 3]], 2)
    with pytest.raises(ForageError, match="is too long for this transformer, which reads 32"):
        jax.eval_shape(lambda: network(jnp.zeros((1, 33), jnp.int32)))
    with pytest.raises(ForageError, match=r"A block has no projection 'query'\. Did you mean 'queries'"):
        lora.add_adapters(network, jax.random.key(0), projections=("query",))


def test_attention_by_hand():
    """Two heads of queries share one of keys: one looks for the token itself, the other for the one before."""
    tiny = Architecture(2, 4, 1, 2, 2, length=8, family="smollm3", key_heads=1, head_size=2, rotated=(False,))
    network = small.at_once(lambda: Transformer(jax.random.key(0), tiny))
    c = math.sqrt(2) / 4 * math.log(3)  # keys of length 2 and queries of 2 c make logits of 0 and log 3
    queries = np.zeros((4, 4), np.float32)
    queries[0, 0] = queries[1, 1] = queries[1, 2] = queries[0, 3] = c
    where = lambda n: (n.table, n.blocks[0].queries.weight, n.blocks[0].keys.weight)  # noqa: E731
    network = equinox.tree_at(where, network, (2 * jnp.eye(2, 4), jnp.asarray(queries), jnp.eye(4, 2)))
    found = small.compute(network.attention, jnp.array([[0, 0, 1]]), jnp.array([[False, True, True]]))
    assert found.shape == (1, 1, 2, 3, 3)
    np.testing.assert_allclose(found[0, 0, 0, 1:, 1:], [[1, 0], [0.25, 0.75]], rtol=1e-4)
    np.testing.assert_allclose(found[0, 0, 1, 1:, 1:], [[1, 0], [0.75, 0.25]], rtol=1e-4)
    np.testing.assert_allclose(found[0, 0, :, 1:, 0], 0, atol=1e-6)  # nothing looks at padding
