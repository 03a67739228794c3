"""Language models between Forage and transformers: a model trained in either gives the same text in the other.

It needs packages that `make test` does not install: pip install 'forage-rl[test,language,transformers]'.
"""

import itertools

import jax
import numpy as np
import pytest
import small

import forage
from forage.core.text import named
from forage.core.text.chat import CHATML, CHATML_TOKENS
from forage.core.text.own import BytePairs
from forage.nn.language import base
from forage.nn.language.architecture import Architecture
from forage.nn.language.directory import with_tokens
from forage.nn.transformer import Transformer

pytestmark = pytest.mark.thorough
torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")
pytest.importorskip("jinja2", reason="jinja2 is not installed")
qwen = pytest.importorskip("transformers.models.qwen2.tokenization_qwen2")
small.keep_compiled()


def command(capsys, *words):
    """Run a command, assert its success, and return its output."""
    code, out, error = small.run_command(capsys, *words)
    assert code == 0, error
    return out


def differ(one, other):
    """Whether a weight of two networks differs."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return any((np.asarray(a) != np.asarray(b)).any() for a, b in pairs)


def text_there(directory, prompt, chat, new):
    """The text that transformers writes greedily after a prompt, put as the policy knows it."""
    words = transformers.AutoTokenizer.from_pretrained(directory)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory).eval()
    if chat:
        asked = [{"role": "user", "content": prompt}]
        read = words.apply_chat_template(asked, add_generation_prompt=True, return_dict=True, return_tensors="pt")
    else:
        read = words(prompt + "\n", add_special_tokens=False, return_tensors="pt")
    tokens = read["input_ids"]
    with torch.no_grad():
        written = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=new, do_sample=False)[
            0, tokens.shape[1] :
        ]
    stop = model.generation_config.eos_token_id
    return words.decode([token for token in written.tolist() if token != stop])


def agree(trained, exported, chat):
    """Return the answers to some held-out problems, asserted equal here, there, and for the directory read here."""
    talk, again = forage.chat(trained, temperature=0), forage.chat(exported, temperature=0)
    again.new = talk.new
    answers = set()
    for one in itertools.islice(talk.problems(), 5):
        (_, prompt), (_, answer) = one.said
        again.begin()  # a model of no run remembers what was said
        assert text_there(exported, prompt, chat, talk.new) == talk.say(prompt) == again.say(prompt) == answer
        answers.add(answer)
    return answers


def test_a_trained_run_writes_the_same_there(tmp_path, capsys):
    where = tmp_path / "run", tmp_path / "exported"
    words = ["--steps", 512, "--seeds", 1, "--evaluation-episodes", 4, "--directory", where[0]]
    command(capsys, "train", "grpo", "text:addition", "--learning-rate", 1e-4, *words)
    command(capsys, "export", *where)
    assert differ(Transformer.load(where[1]), base.load_base())  # it has learned
    answers = agree(*where, chat=False)
    assert len(answers) > 1 and all("</answer>" in answer for answer in answers)


def test_a_trained_run_writes_the_same_there_in_a_chat(tmp_path, capsys):
    ours = named.tokenizer("forage")
    words = BytePairs(ours.pairs, [*list(ours.special)[2:], *CHATML_TOKENS], CHATML)
    small_one = Architecture(vocabulary=520, width=32, layers=2, heads=4, inner=48, key_heads=2, length=256)
    network = jax.tree.map(lambda x: x if x.ndim == 1 else 10 * x, Transformer(jax.random.key(0), small_one))
    model, where = tmp_path / "model", (tmp_path / "run", tmp_path / "exported")
    with_tokens(network, words.end, words.pad).save(words.save(model))
    given = ["--model", model, "--env.tokenizer", model, "--env.chat", "true", "--learning-rate", 3e-3]
    given += ["--steps", 512, "--seeds", 1, "--evaluation-episodes", 4, "--directory", where[0]]
    command(capsys, "train", "sft", "text:addition", *given)
    command(capsys, "export", *where)
    assert len(agree(*where, chat=True)) > 1


TEXTS = ["Compute 12 + 30 - 7.\n<answer>35</answer>", "What is 4 * (9 - 2)?\n<answer>28</answer>"] * 3


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_what_was_made_there_learns_and_answers_here(family, tmp_path, capsys):
    made, where = tmp_path / "made", (tmp_path / "run", tmp_path / "exported")
    pieces, before = tokenizers.Tokenizer(tokenizers.models.BPE()), tokenizers.pre_tokenizers
    # AutoTokenizer splits texts for a Qwen2 by Qwen's rule, whatever tokenizer.json says (transformers 5.24).
    rule = before.Split(tokenizers.Regex(qwen.PRETOKENIZE_REGEX), "isolated")
    pieces.pre_tokenizer = before.Sequence([rule, before.ByteLevel(add_prefix_space=False, use_regex=False)])
    pieces.decoder = tokenizers.decoders.ByteLevel()
    alphabet = before.ByteLevel.alphabet()
    special = ["<|endoftext|>", *CHATML_TOKENS]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    pieces.train_from_iterator(TEXTS, trainer)
    words = transformers.PreTrainedTokenizerFast(
        tokenizer_object=pieces, pad_token="<|endoftext|>", eos_token="<|im_end|>", chat_template=CHATML
    )
    words.save_pretrained(made)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes |= {"num_key_value_heads": 2, "max_position_embeddings": 1024, "initializer_range": 0.3}
    tokens = {"bos_token_id": None, "eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, vocab_size=len(words), **sizes, **tokens)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(made)

    put = ["--env.tokenizer", made, "--env.chat", "true", "--env.instruct", "true", "--env.response", 12]
    given = ["--seeds", 1, "--steps", 32, "--num-envs", 8, "--evaluation-episodes", 4, *put]
    trained = ["--model", made, "--group-size", 4, "--entropy-coefficient", 0.1, "--directory", where[0]]
    command(capsys, "train", "grpo", "text:arithmetic", *given, *trained)
    command(capsys, "export", *where)
    assert differ(Transformer.load(made), Transformer.load(where[1]))
    assert (where[1] / "tokenizer.json").read_bytes() == (made / "tokenizer.json").read_bytes()
    agree(*where, chat=True)

    talk = forage.chat(made, tokens=8)
    assert talk.say("What is 12 + 30?") == text_there(made, "What is 12 + 30?", True, 8)
    out = command(capsys, "chat", made, "text:arithmetic", "--number", 1, "--tokens", 8)
    assert out.count("reference") == out.count("reward") == 1
