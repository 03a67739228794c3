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
from forage.environments.text.tools.functions import FunctionTool
from forage.environments.text.tools.native import native_form
from forage.environments.text.tools.schemas import function_schema
from forage.environments.text.tools.toolbox import Toolbox

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


def test_a_text_with_calls_is_the_message_that_trl_reads(pair):
    """Reward functions get it so, of one call and of several, with words before them or without."""
    name, ours, theirs = pair
    native = native_form(ours)
    if native is None:
        pytest.skip("its template has no calls of a known form")
    try:
        theirs = trl.chat_template_utils.add_response_schema(theirs)
    except ValueError as error:
        pytest.skip(str(error))
    toolbox = Toolbox((FunctionTool(multiply, lambda arguments: ("", False)),), native=native)
    call = native.write("multiply", {"left": 3, "right": 4})
    texts = ["It is 12.", call] + (["Well.\n" + call, f"{call}\n{call}"] if native.kind != "bare" else [])
    prompt = apply(theirs, [{"role": "user", "content": ASKED}])
    for text in texts:
        ids = ours.encode(text + ENDS[name])
        read = trl.chat_template_utils.parse_response(theirs, ids, prompt, [multiply])
        found = toolbox.message(text)
        assert found == {key: value for key, value in read.items() if key != "reasoning_content"}, text
