"""Conversations of several turns by a chat template: each context is the template's text of the whole dialogue."""

import datetime
import warnings

import numpy as np
import pytest

from forage.config.environment import resolve_environment
from forage.core.errors import ForageError
from forage.core.text import named
from forage.core.text.dialogue import Dialogue
from forage.core.text.own import BytePairs
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.form import Form, read_variables

pytest.importorskip("jinja2", reason="jinja2 is not installed")

TRAPS = """{{ bos_token }}{{ strftime_now('%d %b %Y') if dated else '' }}
{%- if messages[0].role != 'system' %}[system]You help.<|stop|>{% endif %}
{%- for message in messages %}{% set last = loop.index0 > (messages | length) - 2 %}
{%- set text = message.content if last or keep else message.content.split('</think>')[-1] %}
{{- '[' + message.role + ']' + text | trim + '<|stop|>\n' }}{% endfor %}
{%- if tools %}[tools]{{ tools | tojson }}{% endif %}
{%- if add_generation_prompt %}[assistant]{{ '' if enable_thinking else '<think></think>' }}{% endif %}"""
"""A template that adds a system prompt and a begin token, trims, drops earlier thoughts and writes the date."""


def tokenizer_of(template=TRAPS):
    tokenizer = BytePairs(special=("<s>", "<|stop|>"), template=template)
    tokenizer.begin = tokenizer.special["<s>"]
    return tokenizer


def turns(form, *answers, first="a"):
    """Return the contexts of a conversation, and the template's tokens of each dialogue."""
    words = form.tokenizer
    contexts, messages = [form.begin(first)], [{"role": "user", "content": first}]
    wholes = []
    for number, answer in enumerate((*answers, None)):
        dialogue = Dialogue(tuple(messages), (), form.variables)
        wholes.append(tuple(words.encode(dialogue.text(words, answer=True))))
        if answer is not None:
            contexts.append(form.extend(contexts[-1], words.encode(answer), f"reply {number}"))
            said = answer.removesuffix("<|stop|>").removesuffix("<|end|>")
            messages += [{"role": "assistant", "content": said}, {"role": "user", "content": f"reply {number}"}]
    return contexts, wholes


def test_contexts_are_those_of_the_whole_dialogue():
    """Neither begin token nor system prompt comes back; an answer may lack its end, or have another one."""
    form = Form(tokenizer_of(), True, variables={"enable_thinking": True})
    contexts, wholes = turns(form, "b<|stop|>", "c", "d<|end|>", "<|stop|>")
    assert [one.tokens for one in contexts] == wholes and not any(one.altered for one in contexts)
    assert wholes[-1].count(2) == 1 and contexts[-1].text.count("You help.") == 1
    assert form.stop == (3, 1)
    system = Form(tokenizer_of(), True, "Be brief.").begin("a").text
    assert system == "<s>[system]Be brief.<|stop|>\n[user]a<|stop|>\n[assistant]<think></think>"


def test_an_answer_stays_as_its_tokens():
    """Also in another segmentation than the tokenizer's, and with white space that the template trims."""
    pairs = BytePairs.learn(["abab abab"], 270, special=("<s>", "<|stop|>"), template=TRAPS)
    pairs.begin = 2
    form, letters = Form(pairs, True, variables={"enable_thinking": True}), [4 + ord(one) for one in " abab "]
    begun = form.begin("x")
    after = form.extend(begun, (*letters, 3), "y")
    assert after.tokens[: len(begun.tokens) + 7] == (*begun.tokens, *letters, 3) and not after.altered
    assert len(pairs.encode(" abab ")) < 6


def test_earlier_turns_that_the_template_alters():
    """Contexts follow the template, or, with `written`, keep all tokens."""
    thought = "<think>m</think>b<|stop|>"
    for keep, altered in ((False, True), (True, False)):
        form = Form(tokenizer_of(), True, variables={"enable_thinking": True, "keep": keep})
        contexts, wholes = turns(form, thought, "c<|stop|>")
        assert [one.tokens for one in contexts] == wholes and [one.altered for one in contexts] == [
            False,
            altered,
            False,
        ]
    # An empty thought that is behind the last prompt alone alters the earlier ones.
    contexts, wholes = turns(Form(tokenizer_of(), True), "b<|stop|>")
    assert contexts[1].tokens == wholes[1] and contexts[1].altered
    written = Form(tokenizer_of(), True, variables={"enable_thinking": True}, history="written")
    contexts, _ = turns(written, thought, "c<|end|>")
    assert not any(one.altered for one in contexts)
    assert contexts[2].tokens[: len(contexts[1].tokens) + 2] == (*contexts[1].tokens, 4 + ord("c"), 1)
    text = written.tokenizer.decode(contexts[2].tokens, special=True)
    assert text.endswith(
        "<think>m</think>b<|stop|>\n[user]reply 0<|stop|>\n[assistant]c<|end|>\n[user]reply 1<|stop|>\n[assistant]"
    )


def test_an_environment_with_a_template(tmp_path):
    own = named.tokenizer("forage")
    saved = BytePairs(own.pairs, (*list(own.special)[2:], "<|stop|>"), TRAPS.replace("{{ bos_token }}", "<|pad|>"))
    directory = str(saved.save(tmp_path))
    options = {"tokenizer": directory, "chat": True, "system": "Play.", "enable_thinking": True}
    options |= {"context": 400, "response": 30}
    environment = TextEnvironment("guess", 1, **options, chat_template_kwargs='{"dated": true}', date="2026-03-04")
    seen = environment.reset(3)
    while True:
        context = seen["context"][0]
        text = environment.tokenizer.decode(context[context > 0] - 1, special=True)
        assert text.count("[system]Play.") == text.count("<|pad|>") == text.count("04 Mar 2026") == 1
        assert text.endswith("[assistant]")
        state, after = environment.take(0), environment.step(seen["reference"])
        if after.step.terminated[0]:
            break
        again = TextEnvironment("guess", 1, **options, chat_template_kwargs={"dated": True}, date="2026-03-04")
        again.reset(0)
        np.testing.assert_array_equal(again.put(0, state)["context"][-len(context) :], context)
        seen = after.observation
    assert environment.conversations()[0].reward == 1 and environment.stop == (len(own.special), 1)

    # The date is fixed when a run starts, and part of its configuration.
    config = resolve_environment("text:guess", {"tokenizer": directory, "chat": True})[2]
    assert config["options"]["date"] == datetime.date.today().isoformat()
    assert "date" not in resolve_environment("text:guess", {})[2]["options"]

    # What the template alters is said once.
    talk = TextEnvironment("guess", 1, **options)
    talk.reset(0)
    words = [*talk.tokenizer.encode("</think>1"), talk.ends]
    action = np.array([words], np.int32) + 1
    with pytest.warns(UserWarning, match=r"alters earlier turns, such as by dropping thoughts.*--env\.history written"):
        talk.step(action)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        talk.step(action)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"system": "Play."}, "text:guess uses no chat template, which alone has these options; give --env.chat true."),
        ({"enable_thinking": False}, "give --env.chat true"),
        ({"chat": True, "history": "all"}, "The history of text:guess is template or written, not 'all'."),
        ({"chat": True, "chat_template_kwargs": "{x}"}, 'are JSON such as {"enable_thinking": false}, unlike'),
    ],
)
def test_options_that_do_not_fit(options, sentence):
    with pytest.raises(ForageError) as error:
        TextEnvironment("guess", 1, **options)
    assert sentence in str(error.value)


def test_names_for_a_template():
    assert read_variables('{"a": 1}', False) == {"a": 1, "enable_thinking": False}
    with pytest.raises(ForageError, match="are a mapping as"):
        read_variables("[1]", None)
    with pytest.raises(ForageError, match=r"need a chat template; give --env\.chat true"):
        Form(tokenizer_of()).begin(Dialogue.parse([{"role": "user", "content": "a"}]))
