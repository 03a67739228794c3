"""Completions of an OpenAI-compatible server, with each token's log-probability.

`POST /v1/completions` of vLLM, SGLang and llama.cpp, as their sources have it (vLLM's `serving_completion.py`, SGLang's
`serving_completions.py`, llama.cpp's `server-task.cpp`): a prompt of token ids, `logprobs`, and fields beyond OpenAI's
that make a server name the ids that it drew. These are found as `token_ids` of the choice (vLLM and SGLang with
`return_token_ids`), as "token_id:7" (vLLM with `return_tokens_as_token_ids`), as `id` of each entry of
`logprobs.content` (llama.cpp), or else by the text of each token.

A server is a stranger: all that it says is looked at before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from forage.core.text.server import LostAnswer, Server
from forage.core.text.tokenizer import Tokenizer

LEAST = -1e3  # a log-probability below this is none of a token that was drawn: vLLM writes -9999 for -inf
PREFIX = "token_id:"
PLAIN = {
    "n": 1,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "add_special_tokens": False,
    "skip_special_tokens": False,
    "stream": False,
    "logprobs": 1,
}
"""Options that make a server sample from the whole distribution: its defaults, or its model's, may be others."""
IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}
"""Options that make a server return the ids of the tokens that it drew."""


class AnswerRequest(NamedTuple):
    """The request for one answer."""

    prompt: tuple[int, ...]
    longest: int  # tokens, at most
    temperature: float
    seed: int


class Answer(NamedTuple):
    """The tokens of an answer, including the token that ends it."""

    tokens: list[int]
    log_probability: list[float]


class TokenReader(NamedTuple):
    """The policy's knowledge of tokens."""

    tokenizer: Tokenizer
    vocabulary: int
    end: int
    in_text: bool  # prompts go as text, to a server that takes no ids
    others: tuple[int, ...] = ()  # further tokens that end an answer

    @property
    def stop(self) -> tuple[int, ...]:
        return (self.end, *self.others)


def complete(server: Server, asked: AnswerRequest, reader: TokenReader) -> Answer:
    """Return an answer. Raise `Lost` if none came that can be learned from, `ForageError` where none will."""
    prompt: Any = list(asked.prompt)
    if reader.in_text:
        prompt = reader.tokenizer.decode(asked.prompt, special=True)
        if tuple(reader.tokenizer.encode(prompt)) != asked.prompt:
            raise LostAnswer("would read a prompt as other tokens than the policy, as it goes there as text")
    body = PLAIN | {
        "model": server.model,
        "prompt": prompt,
        "max_tokens": asked.longest,
        "temperature": asked.temperature,
        "seed": asked.seed,
        "stop_token_ids": list(reader.stop),
    }
    said = server.ask("POST", f"{server.parts.path}/completions", body | ({} if reader.in_text else IDS))
    return read_answer(said, asked, reader)


def read_answer(said: Any, asked: AnswerRequest, reader: TokenReader) -> Answer:
    """Return the answer in a server's JSON. Raise `Lost` for an answer that cannot be learned from."""
    choices = said.get("choices") if isinstance(said, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise LostAnswer("answered without a choice")
    if isinstance(given := choice.get("prompt_token_ids"), list) and tuple(given) != asked.prompt:
        raise LostAnswer("read a prompt as other tokens than the policy")
    tokens, scores = split_choice(choice, reader)
    if not tokens:
        raise LostAnswer("wrote nothing, or does not say which tokens")
    if not scores:
        raise LostAnswer("sent no log-probabilities")
    if len(tokens) > asked.longest:
        raise LostAnswer(f"wrote {len(tokens)} tokens, and {asked.longest} were asked for at most")
    if len(scores) != len(tokens):
        raise LostAnswer(f"sent {len(scores)} log-probabilities of {len(tokens)} tokens")
    if not all(is_token(one) and one < reader.vocabulary for one in tokens):
        raise LostAnswer(f"wrote a token that is none of the policy's {reader.vocabulary}; its tokenizer is another")
    if not all(is_number(one) and LEAST < one < 1e-3 for one in scores):
        raise LostAnswer("sent a log-probability that is none")
    ended = [place for place, token in enumerate(tokens) if token in reader.stop]
    if ended:
        tokens = tokens[: ended[0] + 1]
    elif len(tokens) < asked.longest:
        raise LostAnswer(f"cut an answer after {len(tokens)} of {asked.longest} tokens, without the one that ends it")
    check_text(choice.get("text"), tokens, reader)
    return Answer(tokens, [min(float(one), 0.0) for one in scores[: len(tokens)]])


def split_choice(choice: dict[str, Any], reader: TokenReader) -> tuple[list[Any], list[Any]]:
    """Return the tokens of a choice and their log-probabilities in the server's form; an empty list for either if
    missing.
    """
    logprobs = choice.get("logprobs")
    logprobs = logprobs if isinstance(logprobs, dict) else {}
    content = logprobs.get("content")
    content = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    scores = logprobs.get("token_logprobs") or [one.get("logprob") for one in content]
    tokens = choice.get("token_ids")
    if not tokens and content and all("id" in one for one in content):
        tokens = [one["id"] for one in content]
    if not tokens:
        tokens = token_ids(logprobs.get("tokens") or [one.get("token") for one in content], reader.tokenizer)
    return (tokens if isinstance(tokens, list) else []), (scores if isinstance(scores, list) else [])


def is_token(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def token_ids(words: Any, tokenizer: Tokenizer) -> list[int]:
    """Return the ids of tokens that are named: as "token_id:7", or by the text of each."""
    found: list[int] = []
    for word in words if isinstance(words, list) else ():
        if not isinstance(word, str):
            raise LostAnswer("names a token by what is no text")
        number = word.removeprefix(PREFIX)
        ids = [int(number)] if number != word and number.isdecimal() else tokenizer.encode(word)
        if len(ids) != 1:
            raise LostAnswer("names a token by a text that is not one token of the policy's")
        found += ids
    return found


def check_text(text: Any, tokens: Sequence[int], reader: TokenReader) -> None:
    """Raise `Lost` if a server's text is not that of its tokens: then its tokenizer is another one."""
    inner = [token for token in tokens if token not in reader.stop]
    meant = [(tokens, True), (inner, True), (inner, False)]
    forms = [bare(reader.tokenizer.decode(some, special=special)) for some, special in meant]
    if not isinstance(text, str) or not text or "\ufffd" in text or "\ufffd" in forms[0]:
        return  # a character that was cut in two tells nothing
    if bare(text) not in forms:
        raise LostAnswer(
            "wrote a text that is not that of its tokens; its tokenizer is not that of --behaviour.tokenizer"
        )


def bare(text: str) -> str:
    """Return a text without white space, in which detokenizers differ."""
    return "".join(text.split())
