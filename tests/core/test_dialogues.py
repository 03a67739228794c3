"""Dialogues as tokens: whose they are, prompts, dates, and messages that are none."""

import pytest

from forage.core.errors import ForageError
from forage.core.text import chat, dialogue
from forage.core.text.dialogue import Dialogue, encode_dialogue, encode_prompt, prompt_text, turn_end
from forage.core.text.own import BytePairs, Characters

pytest.importorskip("jinja2", reason="jinja2 is not installed")

TRAPS = """{{ bos_token }}{% if messages[0].role != 'system' %}[system]You help.<|stop|>{% endif %}
{%- for message in messages %}{% set last = loop.index0 > (messages | length) - 2 %}
{%- set text = message.content if last else message.content.split('</think>')[-1] %}
{{- '[' + message.role + ']' + text | trim + '<|stop|>' }}{% endfor %}
{%- if tools %}[tools]{{ tools | tojson }}{% endif %}{{ strftime_now('%d %b %Y') if dated else '' }}
{%- if add_generation_prompt %}[assistant]{{ '' if thinking else '<think></think>' }}{% endif %}"""
"""A template that adds a system prompt and a begin token, trims, drops earlier thoughts and writes the date."""
TALK = [
    {"role": "user", "content": "2+2?"},
    {"role": "assistant", "content": "<think>so</think> 4 "},
    {"role": "user", "content": "3+3?"},
    {"role": "assistant", "content": "<think>so</think>6"},
]


def traps(template=TRAPS):
    tokenizer = BytePairs(special=("<s>", "<|stop|>", "[assistant]"), template=template)
    tokenizer.begin = tokenizer.special["<s>"]
    return tokenizer


def assistants(tokenizer, messages, **variables):
    """Return the whole text of a dialogue, and the assistant's part of it."""
    tokens, mask = encode_dialogue(tokenizer, Dialogue.parse(messages, variables=variables))
    own = [token for token, is_own in zip(tokens, mask, strict=True) if is_own]
    return tokenizer.decode(tokens, special=True), tokenizer.decode(own, special=True)


def test_the_assistants_tokens_end_with_the_end_of_its_turn():
    """An earlier thought is dropped, and the prompt's end stays behind the last answer alone."""
    text, own = assistants(traps(), TALK)
    assert text.count("<s>") == text.count("[system]") == 1 and text.endswith("<think>so</think>6<|stop|>")
    assert own == "4<|stop|><think>so</think>6<|stop|>"
    again = [{"role": "assistant", "content": "Hi é"}, *TALK[:1], {"role": "assistant", "content": "<|stop|>"}]
    assert assistants(traps(), again)[1] == "Hi é<|stop|><|stop|>"  # what would have ended it ends it
    assert assistants(traps(), TALK[:1])[1] == ""


def test_marks_of_generation_say_whose_tokens_they_are():
    marked = TRAPS.replace("+ text | trim + '<|stop|>' }}", "}}{% generation %}{{ text }}|{% endgeneration %}<|stop|>")
    assert assistants(traps(marked), TALK[2:])[1] == "3+3?|<think>so</think>6|"
    odd = [{"role": "user", "content": "\ufdd0\ufdd1"}, TALK[3]]
    assert assistants(traps(marked), odd)[1] == "\ufdd0\ufdd1|<think>so</think>6|"


def test_a_template_without_ends_of_turns():
    plain = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    plain += "{% if add_generation_prompt %}assistant: {% endif %}"
    assert assistants(traps(plain), TALK)[1] == "<think>so</think> 4 <think>so</think>6"
    assert turn_end(traps(plain), plain) is None
    # The next message's begin ends an answer where it is one of the tokenizer's ends, as in GLM.
    header = plain.replace("{{ message.role }}: ", "{{ '<|stop|>' if message.role == 'user' else '' }}")
    tokenizer = traps(header)
    assert turn_end(tokenizer, header) is None
    other = traps(header)
    other.ends = (1, other.special["<|stop|>"])
    assert turn_end(other, header) == "<|stop|>"
    assert assistants(other, TALK)[1].startswith("<think>so</think> 4 \n<|stop|>")


def test_prompts():
    tokenizer = traps()
    asked = Dialogue.parse(TALK[:3], tools=[{"name": "f"}], variables={"thinking": True})
    text = "<s>[system]You help.<|stop|>[user]2+2?<|stop|>[assistant]4<|stop|>[user]3+3?<|stop|>"
    assert prompt_text(tokenizer, asked) == f'{text}[tools][{{"name": "f"}}][assistant]'
    assert encode_prompt(tokenizer, asked)[0] == tokenizer.begin
    begun = Dialogue.parse([*TALK[:1], {"role": "assistant", "content": "It is"}])  # an answer that goes on
    assert prompt_text(tokenizer, begun).endswith("[assistant]It is")
    fixed = Dialogue.parse(TALK[:1], variables={"dated": True}, date="2026-02-03")
    assert "03 Feb 2026" in prompt_text(tokenizer, fixed)


def test_content_in_parts_and_entries_that_are_missing():
    parts = TRAPS.replace("message.content", "message.content[0].text")
    talk = [{"role": one["role"], "content": [{"type": "text", "text": one["content"]}]} for one in TALK]
    assert assistants(traps(parts), talk)[1] == "4<|stop|><think>so</think>6<|stop|>"
    filled = Dialogue.parse([{"role": "user", "content": "a", "tool_calls": None}])
    assert filled.messages == ({"role": "user", "content": "a"},)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"messages": "hello"}, "Messages are a list of"),
        ({"messages": []}, "with one or more, and not []"),
        ({"messages": ["hello"]}, "A message has a role and its content"),
        ({"messages": [{"content": "a"}]}, "A message has a role and its content"),
        ({"messages": [{"role": "user", "content": 3}]}, "The content of a message is a text, and not 3"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "a part of another kind, 'image'"),
        ({"messages": TALK, "tools": "f"}, "The tools are a list of JSON schemas, and not 'f'"),
        ({"messages": TALK, "variables": [1]}, "a mapping from names to values, and not [1]"),
        ({"messages": TALK, "variables": {"tools": 1}}, "A chat template is given tools already"),
    ],
)
def test_messages_that_are_none(given, sentence):
    with pytest.raises(ForageError) as error:
        Dialogue.parse(**given)
    assert sentence in str(error.value)


def test_refusals_of_templates():
    with pytest.raises(ForageError, match="A date for a chat template is written as 2026-12-31, unlike 'today'"):
        Dialogue.parse(TALK, date="today").text(traps())
    with pytest.raises(ForageError, match="It cannot be told which tokens of these messages the assistant wrote"):
        encode_dialogue(traps("{% for m in messages %}x{% endfor %}<|end|>"), Dialogue.parse(TALK))
    with pytest.raises(ForageError, match="has no chat template"):
        encode_prompt(BytePairs(), Dialogue.parse(TALK))


def test_characters_that_each_token_covers():
    text = "é<s>日 ab"
    tokens, spans = BytePairs.learn(["ab ab ab"], 262, special=("<s>",)).encode_spans(text)
    assert len(tokens) == 2 + 1 + 3 + len(spans) - 6 and spans[:6] == [(0, 1), (0, 1), (1, 4), *[(4, 5)] * 3]
    assert spans[-1][1] == len(text) and spans[-2][1] <= spans[-1][0]
    assert Characters("ab").encode_spans("<|end|>ab")[1] == [(0, 7), (7, 8), (8, 9)]
    assert dialogue.token_mask([(0, 2), (2, 2), (2, 5), (5, 6)], [(1, 3), (5, 6)]) == [True, False, True, True]
    assert chat.read_date("2026-01-02").day == 2
