"""Chats of several turns are transformers' `apply_chat_template`, for real templates, those of TRL's wheel.

It needs packages that `make test` does not install: pip install 'forage-rl[test,language,transformers]' trl.
"""

import json
from pathlib import Path

import pytest

from forage.core.text.dialogue import Dialogue, encode_dialogue
from forage.core.text.own import BytePairs
from forage.core.text.tokenizer import Tokenizer
from forage.environments.text.form import Form
from forage.environments.text.tools.native import native_form
from forage.environments.text.tools.schemas import function_schema

pytestmark = pytest.mark.thorough
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
trl = pytest.importorskip("trl", reason="trl is not installed")

FOLDER = Path(trl.__file__).parent / "chat_templates"
ENDS = {
    "qwen2_5": "<|im_end|>",
    "qwen3": "<|im_end|>",
    "qwen3_instruct_2507": "<|im_end|>",
    "llama3": "<|eot_id|>",
    "llama3_2": "<|eot_id|>",
    "gemma": "<end_of_turn>",
    "gemma3": "<end_of_turn>",
    "phi3": "<|end|>",
    "phi3_5": "<|end|>",
    "cohere": "<|END_OF_TURN_TOKEN|>",
    "glm4moe": "<|user|>",
    "lfm2": "<|im_end|>",
}
"""The token by which each family ends an answer."""
SPECIAL = [
    "<|im_start|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|begin_of_text|>",
    "<bos>",
    "<end_of_turn>",
    "<start_of_turn>",
    "<|user|>",
    "<|assistant|>",
    "<|system|>",
    "<|START_OF_TURN_TOKEN|>",
    "<|END_OF_TURN_TOKEN|>",
]
DATE = {"date_string": "02 Jan 2026"}  # for transformers, which has no other way to fix Llama 3.2's date
ASKED, REPLIES = "What is two and two?", ("It is four.", "<think>\nsum\n</think>\n\nfour", "two é", "")


@pytest.fixture(params=ENDS)
def pair(request, tmp_path):
    """Return the name of a family, and its template in a tokenizer of Forage and of transformers."""
    template = (FOLDER / f"{request.param}.jinja").read_text()
    BytePairs.learn([f"{ASKED} It is four."] * 3, 420, special=SPECIAL, template=template).save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    del config["forage_tokenizer"]
    config |= {"eos_token": ENDS[request.param], "bos_token": "<bos>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path)
    return request.param, Tokenizer.load(tmp_path), theirs


def apply(theirs, messages, **more):
    return theirs.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False, **more)


@pytest.mark.parametrize("variables", [{}, {"enable_thinking": False}, {"enable_thinking": True}], ids=str)
def test_each_context_is_that_of_the_whole_dialogue(pair, variables):
    name, ours, theirs = pair
    for system in ("", "Be brief.") if name != "gemma" else ("",):  # which has no system messages
        form = Form(ours, True, system, variables=variables, date="2026-01-02")
        context = form.begin(ASKED)
        messages = [{"role": "system", "content": system}] if system else []
        messages += [{"role": "user", "content": ASKED}]
        for number, answer in enumerate(REPLIES):
            expected = apply(theirs, messages, **variables, **(DATE if name == "llama3_2" else {}))
            assert list(context.tokens) == expected
            context = form.extend(context, (*ours.encode(answer), form.stop[0]), f"and {number}?")
            messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": f"and {number}?"}]


def test_masks_are_those_of_generation_marks(pair):
    name, ours, theirs = pair
    if not (FOLDER / f"{name}_training.jinja").exists():
        pytest.skip("TRL has no template with marks of this family")
    ours.template = theirs.chat_template = (FOLDER / f"{name}_training.jinja").read_text()
    messages = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": "é four"}] * 2
    expected = theirs.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    found = encode_dialogue(ours, Dialogue.parse(messages))
    assert (
        list(found.tokens) == expected["input_ids"] and list(map(int, found.assistant)) == expected["assistant_masks"]
    )
    assert any(found.assistant)


def multiply(left: int, right: int) -> int:
    """Multiply two numbers.

    Args:
        left: One.
        right: The other.
    """
    return left * right


def test_calls_of_tools_and_their_answers(pair):
    name, ours, theirs = pair
    native, schema = native_form(ours), function_schema(multiply)
    if native is None:
        pytest.skip("its template has no calls of tools")
    form = Form(ours, True, tools=(schema,), date="2026-01-02")
    call = {"type": "function", "function": {"name": "multiply", "arguments": {"left": 2, "right": 3}}}
    result = {"role": "tool", "name": "multiply", "content": "6"}
    messages = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": "", "tool_calls": [call]}, result]
    dates = DATE if name == "llama3_2" else {}
    begun = form.begin(ASKED)
    assert list(begun.tokens) == apply(theirs, messages[:1], tools=[multiply], **dates)
    written = ours.encode(native.write("multiply", {"left": 2, "right": 3}))
    after = form.extend(begun, (*written, form.stop[0]), (result,))
    assert list(after.tokens) == apply(theirs, messages, tools=[multiply], **dates)
