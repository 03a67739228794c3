"""Tokenizers by hand, their files, their templates of dialogues, and refusals."""

import itertools
import json

import numpy as np
import pytest

from forage.core.text import chat, own
from forage.core.text.own import BytePairs, Characters
from forage.core.text.tokenizer import Tokenizer
from forage.core.types import ForageError
from forage.environments.text.form import Context, Form

ODD = "Añ 12+3=15\n\n  x? <|end|>\t日本 naïve 'tis"


def test_characters_by_hand(tmp_path):
    tokenizer = Characters("0123456789+=", special=("<ask>",))
    assert tokenizer.vocabulary == 15 and tokenizer.special == {"<|pad|>": 0, "<|end|>": 1, "<ask>": 2}
    assert tokenizer.encode("1+2") == [5, 3, 6]  # "+" is the first sign, "0" the second
    assert tokenizer.encode("<ask>1", around=True) == [2, 5, 1]
    assert tokenizer.decode([2, 5, 3, 6, 1, 0]) == "1+2"
    assert tokenizer.decode([2, 5, 1], special=True) == "<ask>1<|end|>"
    again = Tokenizer.load(tokenizer.save(tmp_path))
    assert isinstance(again, Characters) and vars(again) == vars(tokenizer)


def test_the_most_frequent_pair_becomes_a_token():
    # Words and how often: aab 3, ab 2. Pairs: (a, b) 5, (a, a) 3; then (a, ab) 3; then nothing comes twice.
    a, b = ord("a"), ord("b")
    assert own.learned_pairs(["aab" for _ in range(3)] + ["ab ", "ab"], 9) == [(a, b), (a, 256)]
    tokenizer = BytePairs([(a, b), (a, 256)])
    assert tokenizer.encode("aab") == [2 + 257] and tokenizer.encode("abb") == [2 + 256, 2 + b]
    assert tokenizer.decode([2 + 257, 2 + 256]) == "aabab"


def test_merging_one_by_one_is_counting_anew():
    generator = np.random.default_rng(0)
    texts = ["".join(generator.choice(list("abc "), 40)) for _ in range(5)]
    pairs, words = own.learned_pairs(texts, 12), [list(w.encode()) for t in texts for w in own.re.findall(own.WORD, t)]
    for number, pair in enumerate(pairs):
        counts = own.Counter(p for word in words for p in itertools.pairwise(word))
        assert counts[pair] == max(counts.values()) and pair == min(p for p in counts if counts[p] == counts[pair])
        words = [own.join_pair(word, pair, 256 + number) for word in words]


@pytest.mark.parametrize("size", [0, 300])
def test_every_text_comes_back(size, tmp_path):
    texts = [ODD, "naïve naïve 日本日本", "12+3=15"]
    tokenizer = BytePairs.learn(texts, size, template=chat.CHATML) if size else BytePairs(special=("<|im_start|>",))
    tokens = tokenizer.encode(ODD)
    assert tokenizer.decode(tokens, special=True) == ODD and 1 in tokens
    assert size == 0 or len(tokens) < len(ODD.encode())
    again = Tokenizer.load(tokenizer.save(tmp_path))
    assert again.encode(ODD) == tokens and again.template == tokenizer.template
    assert again.vocabulary == tokenizer.vocabulary and again.special == tokenizer.special


def test_files_are_what_the_package_of_tokenizers_reads(tmp_path):
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    ours = {
        "bytes": BytePairs(),
        "pairs": BytePairs.learn([ODD, "naïve naïve 日本日本 12 12 the then"], 290, special=("<a>",)),
        "characters": Characters(ODD, special=("<a>",)),
    }
    for name, tokenizer in ours.items():
        theirs = tokenizers.Tokenizer.from_file(str(tokenizer.save(tmp_path / name) / "tokenizer.json"))
        for text in (ODD, " the  then<a>ñ ", "a"):
            text = "".join(c for c in text if name != "characters" or c in ODD)
            expected = tokenizer.encode(text, around=True)
            assert theirs.encode(text).ids == expected, name
            assert theirs.decode(expected) == tokenizer.decode(expected)
        config = json.loads((tmp_path / name / "tokenizer_config.json").read_text())
        (tmp_path / name / "tokenizer_config.json").write_text(json.dumps(config | {"forage_tokenizer": None}))
        wrapped = Tokenizer.load(tmp_path / name)
        assert wrapped.encode(ODD) == tokenizer.encode(ODD) and (wrapped.pad, wrapped.end) == (0, 1)
        assert wrapped.special == tokenizer.special and wrapped.vocabulary == tokenizer.vocabulary
        saved = wrapped.save(tmp_path / "again")
        assert (saved / "tokenizer.json").read_bytes() == (tmp_path / name / "tokenizer.json").read_bytes()


def test_all_tokens_end_a_text_that_the_models_files_name(tmp_path):
    """The tokenizer's own comes first; `config.json` is read if there is no `generation_config.json`."""
    directory = BytePairs(special=("<a>", "<b>")).save(tmp_path)
    assert BytePairs().ends == Tokenizer.load(directory).ends == (1,)
    for name, named, ends in (("config", [2, 1], (1, 2)), ("generation_config", [3, 10**6], (1, 3))):
        (directory / f"{name}.json").write_text(json.dumps({"eos_token_id": named}))
        assert Tokenizer.load(directory).ends == ends
    (directory / "generation_config.json").write_text(json.dumps({"eos_token_id": 1}))
    assert (Tokenizer.load(directory).ends, Tokenizer.load(directory).end) == ((1,), 1)


def test_a_text_begins_as_its_tokenizer_begins_it(tmp_path):
    """By its post-processor or its configuration; a beginning that the text has already is not put there twice."""
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    tokenizer = BytePairs(special=("<s>",))
    saved = tokenizer.save(tmp_path)
    config = json.loads((saved / "tokenizer_config.json").read_text()) | {"forage_tokenizer": None, "bos_token": "<s>"}
    around = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 2)])
    plain = tokenizers.Tokenizer.from_file(str(saved / "tokenizer.json"))
    for processor, more, opens in ((None, {}, ()), (None, {"add_bos_token": True}, (2,)), (around, {}, (2,))):
        (saved / "tokenizer_config.json").write_text(json.dumps(config | more))
        if processor:
            plain.post_processor = processor
        else:
            plain.post_processor = tokenizers.processors.TemplateProcessing(single="$A", special_tokens=[])
        plain.save(str(saved / "tokenizer.json"))
        read = Tokenizer.load(saved)
        assert (read.begin, read.opens) == (2, opens)
        text = tuple(tokenizer.encode("ab\n"))
        form = Form(read)
        assert form.begin("ab").tokens == (*opens, *text) and form.begin("<s>ab").tokens == (2, *text)
        assert form.extend(Context((5,)), (6, 1), "ab").tokens == (5, 6, 1, text[-1], *text)


ASKED = [{"role": "user", "content": "2+2?"}]


def test_dialogues_by_a_template(tmp_path):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    tokenizer = BytePairs(special=chat.CHATML_TOKENS, template=chat.CHATML)
    text = tokenizer.chat(ASKED)
    assert text == "<|im_start|>user\n2+2?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.encode(text)[0] == tokenizer.special["<|im_start|>"]
    told = [*ASKED, {"role": "assistant", "content": "4"}]
    assert tokenizer.chat(told, answer=False).endswith("assistant\n4<|im_end|>\n")
    tokenizer.template = "{{ eos_token }}{{ tools | tojson }}{% generation %}{{ name }}{% endgeneration %}"
    assert tokenizer.chat(ASKED, tools=[{"a": "<é>"}], name="x") == '<|end|>[{"a": "<é>"}]x'


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        (None, "This tokenizer has no chat template; hand it text, or write a chat_template.jinja"),
        ("{% for %}", "The chat template cannot be read: "),
        ("{{ raise_exception('no system here') }}", "refuses these messages: no system here."),
        ("{{ messages.append(1) }}", "The chat template refuses these messages: access to attribute 'append'"),
        ("{{ messages[0].content + 1 }}", "The chat template refuses these messages: "),
    ],
)
def test_templates_that_do_not_work(template, sentence):
    if template:
        pytest.importorskip("jinja2", reason="jinja2 is not installed")
    with pytest.raises(ForageError) as error:
        BytePairs(template=template).chat(ASKED)
    assert sentence in str(error.value)


def test_what_is_no_tokenizer(tmp_path):
    with pytest.raises(ForageError, match=r"holds no tokenizer: it has no tokenizer\.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    (tmp_path / "tokenizer_config.json").write_text('{"forage_tokenizer": "bytes"}')
    with pytest.raises(ForageError, match="none of Forage's tokenizers, as it says it is"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(ForageError, match=r"tokenizer_config\.json is no JSON"):
        Tokenizer.load(tmp_path)
    with pytest.raises(ForageError, match="no token for 'x'; its characters are 'ab'"):
        Characters("ab").encode("ax")
    with pytest.raises(ForageError, match="There is no token 300; this tokenizer has 258"):
        BytePairs().decode([300])
    with pytest.raises(ForageError, match="Byte pairs need 258 tokens or more"):
        BytePairs.learn(["a"], 100)
    with pytest.raises(ForageError, match="Names of special tokens differ"):
        Characters("ab", special=("<|end|>",))


def test_an_extra_that_is_missing_is_named(tmp_path, monkeypatch):
    for name in ("tokenizers", "jinja2"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ForageError, match=r"needs an extra: pip install 'forage-rl\[language\]'"):
        Tokenizer.load(tmp_path)
    chat.compile_template.cache_clear()
    with pytest.raises(ForageError, match=r"Chat templates need an extra: pip install 'forage-rl\[language\]'"):
        BytePairs(template=chat.CHATML).chat(ASKED)
