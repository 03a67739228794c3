"""The memory of recorded text: orders of passes, held rows, and texts as tokens, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recorded_helpers import TINY

from forage.agents.language.sft import SFT
from forage.core import prng
from forage.core.ports import ActContext
from forage.core.text.chat import CHATML, CHATML_TOKENS
from forage.core.text.own import BytePairs
from forage.core.types import Batch, Clock, ForageError
from forage.data.text.rows import read_rows
from forage.data.text.tokens import RowEncoder, TokenRows, encode_rows, pack_rows
from forage.memory.texts import OpenedTextSet, TextSet, experience_of
from forage.nn.transformer import Transformer

CHAT = BytePairs(special=CHATML_TOKENS, template=CHATML)
USER, TWO, FOUR = (
    {"role": role, "content": text} for role, text in (("user", "1+1"), ("assistant", "2"), ("user", "4"))
)


def split_texts(
    rows: list[dict[str, Any]], kind: str, longest: int = 1024, **options: Any
) -> list[list[tuple[str, str]]]:
    """Return each text of each row in two parts: the text outside of its answers, and its answers."""
    found = encode_rows(read_rows(rows, (kind,)), RowEncoder(CHAT, **options), 1024)
    texts = []
    for text, wrote in zip(found.text, found.wrote, strict=True):
        texts.append([])
        for tokens, mask in zip(text, wrote, strict=True):
            assert not mask[tokens == 0].any()
            say = [CHAT.decode(tokens[(tokens > 0) & which] - 1, special=True) for which in (~mask, mask)]
            texts[-1].append(tuple(say))
    return texts


def test_texts_of_each_kind_and_their_masks() -> None:
    assert split_texts([{"text": "ab"}], "text") == [[("", "ab<|end|>")]]
    assert split_texts([{"text": "ab<|end|>"}], "text") == [[("", "ab<|end|>")]]
    assert split_texts([{"prompt": "a", "completion": "b"}], "completion") == [[("a", "b<|end|>")]]
    pair = {"prompt": [USER], "chosen": [TWO], "rejected": [{"role": "assistant", "content": "3"}]}
    asked = "<|im_start|>user\n1+1<|im_end|>\n<|im_start|>assistant\n"
    assert split_texts([pair], "preference") == [[(asked, "2<|im_end|>\n"), (asked, "3<|im_end|>\n")]]


def test_of_a_dialogue_the_assistants_words_are_learned_or_all() -> None:
    again = {"role": "assistant", "content": "5"}
    rows = [{"messages": [USER, TWO, FOUR, again]}]
    ((read, wrote),) = split_texts(rows, "messages")[0:1][0]
    assert "2<|im_end|>" in wrote and "5<|im_end|>" in wrote and "assistant" not in wrote
    assert read.count("<|im_start|>assistant\n") == 2 and "1+1" in read
    ((read, wrote),) = split_texts(rows, "messages", only_answers=False)[0]
    assert read == "" and wrote.count("<|im_start|>") == 4


def test_long_rows_are_dropped_and_counted() -> None:
    rows = read_rows([{"text": "abc"}, {"text": "abcdefgh"}, {"text": "de"}], ("text",))
    found = encode_rows(rows, RowEncoder(CHAT), 4)
    assert (len(found), found.dropped, found.text.shape) == (2, 1, (2, 1, 4))
    with pytest.raises(ForageError, match=r"All 3 rows of The data have more than 2 tokens; give a larger --longest\."):
        encode_rows(rows, RowEncoder(CHAT), 2)


def memory(count: int) -> OpenedTextSet:
    numbers = np.arange(1, count + 1, dtype=np.int32)[:, None, None]
    rows = TokenRows(numbers, numbers > 0, np.ones(count, np.float32), np.zeros(count, np.float32))
    return OpenedTextSet("texts.jsonl", rows=experience_of(rows))


def draws(count: int, size: int, updates: int, seed: int) -> np.ndarray:
    """Return the rows of each batch, from one state handed on, as the loop does."""
    texts = memory(count)

    def draw(state: Any, update: Any) -> Any:
        key = jax.random.fold_in(prng.key(seed), update)
        moment: Any = ActContext(None, None, None, Clock(update, jnp.float32(9)), key)  # pyrefly: ignore[bad-argument-type]
        state = texts.advance(state, size, 1, moment)
        batch = texts.sample(state, size, 1, moment)
        return state, (batch.index, batch.experience.observation["text"][0, :, 0, 0])

    first = texts.init(None, 1, 1, None, None)  # pyrefly: ignore[bad-argument-type]
    index, text = jax.jit(lambda: jax.lax.scan(draw, first, jnp.arange(updates)))()[1]
    assert (np.asarray(text) == np.asarray(index) + 1).all()
    return np.asarray(index)


def test_every_row_is_in_every_pass_once() -> None:
    drawn = draws(7, 3, 14, 0)  # six passes of 7 rows in batches of 3
    passes = drawn.reshape(6, 7)
    assert (np.sort(passes, 1) == np.arange(7)).all()
    assert len({tuple(one) for one in passes.tolist()}) > 3
    assert (draws(7, 3, 14, 1) != drawn).any()


def test_held_rows_are_a_share_or_a_file_and_each_is_measured(tmp_path: Path) -> None:
    for name, count in (("train.jsonl", 20), ("test.jsonl", 5)):
        (tmp_path / name).write_text("".join(json.dumps({"text": f"{name} {i}"}) + "\n" for i in range(count)))
    file = str(tmp_path / "train.jsonl")
    shared = TextSet(file, held_out=0.1, kinds="text").with_hashes()
    assert [len(rows or ()) for rows in shared.read_rows()] == [18, 2]
    apart = TextSet(file, kinds="text", held_file=str(tmp_path / "test.jsonl")).with_hashes()
    opened = apart.load(apart.spec())
    held = opened.validation
    assert (len(opened.rows.reward), len(held.rows.reward), held.held_batches(2)) == (20, 5, 3)
    seen = [np.asarray(held.sample(n, 2, 1, None).index).tolist() for n in range(3)]  # pyrefly: ignore[bad-argument-type]
    assert seen == [[0, 1], [2, 3], [4, 0]]
    (tmp_path / "test.jsonl").write_text(json.dumps({"text": "other"}) + "\n")
    with pytest.raises(ForageError, match="does not hold the texts that this run began with"):
        apart.load(apart.spec())


def test_short_texts_share_a_row_and_none_is_learned_from_another() -> None:
    rows = encode_rows(
        read_rows([{"text": text} for text in ("abc", "d", "efghi", "jk")], ("text",)), RowEncoder(CHAT), 9
    )
    packed = pack_rows(rows, 9)
    texts = [CHAT.decode(row[row > 0] - 1, special=True) for row in packed.text[:, 0]]
    assert texts == ["efghi<|end|>jk<|end|>", "abc<|end|>d<|end|>"]
    assert packed.begin is not None and packed.begin[:, 0].tolist() == [[0] * 6 + [6] * 3, [0] * 4 + [4] * 2 + [0] * 3]
    assert packed.wrote[:, 0].sum(1).tolist() == [7, 4] and not packed.wrote[0, 0, 6]


@pytest.mark.thorough
@pytest.mark.parametrize("scale", [1, 60])
def test_a_shared_row_has_the_loss_and_the_gradient_of_its_texts_alone(scale: int) -> None:
    """Long rows too, whose attention is taken in blocks."""
    texts = read_rows([{"text": text * scale} for text in ("abc", "d", "efghi", "jk")], ("text",))
    rows = encode_rows(texts, RowEncoder(CHAT), 512)
    network = Transformer(jax.random.key(0), TINY._replace(length=1024))
    agent, found = SFT(packing=True), []
    for some in (rows, pack_rows(rows, 512)):
        batch = Batch(jax.tree.map(lambda x: x[None], experience_of(some)), jnp.ones(len(some)), jnp.arange(len(some)))
        items = agent.items(None, batch)  # pyrefly: ignore[bad-argument-type]
        found.append(
            jax.jit(jax.value_and_grad(lambda net, items=items: agent.text_loss(net, None, items)[0]))(network)
        )
    assert len(pack_rows(rows, 512)) < len(rows)
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    for one, two in zip(*(jax.tree.leaves(gradient) for _, gradient in found), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_prompts_without_the_end_of_an_environments_prompts_are_told(tmp_path: Path) -> None:
    ends = {"": ["1+1"], "some": ["1+1", "1+2\n"], "messages": [[USER]]}
    told = {}
    for name, prompts in ends.items():
        (file := tmp_path / f"rows{name}.jsonl").write_text(
            "".join(
                json.dumps({"prompt": one, "completion": "2" if name != "messages" else [TWO]}) + "\n"
                for one in prompts
            )
        )
        told[name] = TextSet(str(file), kinds="completion").unlike_prompts("\n", "text:sums")
    assert told["some"] == told["messages"] == []
    assert len(told[""]) == 1 and "ends with '\\n', as all of text:sums do" in told[""][0]
    assert TextSet(str(tmp_path / "rows.jsonl"), kinds="completion").unlike_prompts("", "text:sums") == []
