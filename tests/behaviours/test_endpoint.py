"""A server as sampler: the mismatch is measured, and its faults cost a sample or are one sentence."""

import json

import answering
import jax.numpy as jnp
import numpy as np
import pytest
from answering import LONGEST, TOKENIZER, model, serving
from tiers import gate_cases

import forage
from forage.behaviours.endpoint import Endpoint
from forage.config.resolve import resolve
from forage.core.text import server
from forage.core.text.completions import AnswerRequest, TokenReader, complete, read_answer
from forage.core.text.server import LostAnswer, Server, map_threads
from forage.core.types import AGENT, GONE, ForageError
from forage.nn.language.generate import log_probabilities, pad_left

END = TOKENIZER.end
ENVIRONMENT = {"context": answering.PROMPT, "response": LONGEST}
OPTIONS = {"num_envs": 8, "group_size": 4, "learning_rate": 1e-2}
MOVES = {"entropy_coefficient": 1.0}  # the answers are never right, and the policy changes all the same


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(server, "PAUSE", 0.0)


@pytest.fixture(scope="module")
def answer_server():
    with serving() as one:
        yield one


@pytest.fixture(autouse=True)
def good(answer_server):
    answer_server.network, answer_server.mood, answer_server.key, answer_server.reloads = (
        model(),
        lambda number: "",
        "",
        True,
    )
    answer_server.asked.clear()
    answer_server.said.clear()


def setup_of(url: str, options=None, **more):
    agent = {"model": model()} | OPTIONS | (options or {})
    behaviour = Endpoint(url=url, **{"timeout": 60.0, "retries": 1, "parallel": 1, **more})
    parts = {"environment_options": ENVIRONMENT, "behaviour": behaviour}
    return resolve("grpo", "text:addition", agent_options=agent, steps=64, seeds=[0], **parts)


def loop_of(url: str, options=None, **more):
    loop = setup_of(url, options, **more).runner().loops[0]
    loop.begin()
    return loop


def rollout_of(loop):
    """The rollout that the loop learns from next, kept as it is learned from."""
    kept, learn = [], loop.learn
    loop.learn = lambda rollout, clock: (kept.append(rollout), learn(rollout, clock))[1]
    return kept


# The mismatch


@pytest.mark.thorough
def test_a_server_with_the_same_weights_has_no_mismatch(answer_server):
    loop = loop_of(answer_server.url)
    kept = rollout_of(loop)
    metrics = loop.advance(1).metrics
    assert metrics["sampler_gap"] < 1e-5 and abs(metrics["sampler_kl"]) < 1e-6
    assert metrics["sampler_weight"] == pytest.approx(1, abs=1e-5)
    assert metrics["sampler_cut"] == metrics["lost"] == 0
    (rollout,) = kept
    assert (rollout.source == AGENT).all() and len(answer_server.asked) == 8
    for body in answer_server.asked:
        assert (body["model"], body["temperature"], body["top_p"], body["max_tokens"]) == ("small", 1.0, 1.0, LONGEST)
    for context, action, scores in zip(
        rollout.observation["context"][0], rollout.action[0], rollout.policy_info.log_probability[0], strict=True
    ):
        prompt, tokens = tuple(context[context > 0] - 1), (action[action > 0] - 1).tolist()
        among = [said for (asked, _), said in answer_server.said.items() if asked == prompt]
        found = next(said for said in among if said[0] == tokens)
        np.testing.assert_allclose(scores[: len(tokens)], found[1], rtol=1e-6)


@pytest.mark.thorough
def test_a_server_with_other_weights_has_the_mismatch_that_both_say(answer_server):
    answer_server.network = model(1)
    metrics = loop_of(answer_server.url).advance(1).metrics
    texts = [(*prompt, *tokens) for (prompt, _), (tokens, _) in answer_server.said.items()]
    length = [len(tokens) for tokens, _ in answer_server.said.values()]
    tokens, there = pad_left(texts, answering.PROMPT + LONGEST)
    known = jnp.arange(512) < TOKENIZER.vocabulary
    both = [np.asarray(log_probabilities(one, tokens, mask=there, allowed=known)[0]) for one in (model(0), model(1))]
    ratio = np.concatenate([(ours - theirs)[-n:] for ours, theirs, n in zip(*both, length, strict=True)])
    assert metrics["sampler_gap"] == pytest.approx(np.abs(ratio).mean(), rel=1e-3)
    assert metrics["sampler_kl"] == pytest.approx((np.exp(ratio) - 1 - ratio).mean(), rel=1e-3)
    assert metrics["sampler_weight"] == pytest.approx(np.minimum(np.exp(ratio), 2).mean(), rel=1e-3)
    assert metrics["sampler_cut"] == pytest.approx((np.exp(ratio) > 2).mean(), rel=1e-3)


@pytest.mark.thorough
def test_a_server_that_reloads_what_is_published_keeps_up(answer_server, tmp_path):
    answer_server.network = model(1)
    loop = loop_of(answer_server.url, MOVES, publish=str(tmp_path / "it"), reload="/update_weights_from_disk", every=2)
    reports = [loop.advance(1) for _ in range(4)]
    assert [report.latest["sampler_lag"] for report in reports] == [0, 1, 0, 1]
    gaps = [report.metrics["sampler_gap"] for report in reports]
    assert max(gaps[::2]) < 1e-5 < 1e-3 < min(gaps[1::2])
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in (tmp_path / "it").iterdir()}
    assert [path.name for path in tmp_path.iterdir()] == ["it"]
    answer_server.reloads = False
    with pytest.raises(ForageError, match=r"did not reload .*: no such directory\."):
        loop.advance(1)
    loop.onlooker.seed = 5
    with pytest.raises(ForageError, match="seeds 0 and 5 publish theirs"):
        loop.advance(1)


# What goes wrong


BAD = [500, "no json", "no log-probabilities"]


@pytest.mark.parametrize("mood", gate_cases(BAD, BAD[1:2]))
def test_a_bad_sample_costs_that_sample(answer_server, mood):
    answer_server.mood = lambda number: (
        mood if number < (2 if mood == 500 else 1) else ""
    )  # an error is asked for again
    loop = loop_of(answer_server.url)
    kept = rollout_of(loop)
    with pytest.warns(UserWarning, match="An answer was lost: the endpoint http"):
        report = loop.advance(1)
    assert report.metrics["lost"] == 1 / 8 and report.latest["answers_lost"] == 1
    assert report.latest["answers_asked"] == 8 and np.isfinite(list(report.metrics.values())).all()
    (rollout,) = kept
    assert rollout.source[0].tolist() == [GONE] + [AGENT] * 7
    assert not rollout.action[0, 0].any() and rollout.action[0, 1:].any(1).all()


def test_where_every_sample_is_bad_the_run_stops_in_one_sentence(answer_server):
    answer_server.mood = lambda number: 503
    loop = loop_of(answer_server.url)
    with pytest.raises(ForageError, match=r"answered with status 503 \(something is wrong\), and 8 answers in a row"):
        loop.advance(1)
    with pytest.raises(ForageError, match=r"does not answer \(Connection refused\); start the server"):
        loop_of("http://127.0.0.1:9/v1")


ASKED = AnswerRequest((70, 71), 4, 1.0, 0)
READER = TokenReader(TOKENIZER, TOKENIZER.vocabulary, END, False)
WORD = TOKENIZER.encode("7")
GOOD = {"token_ids": [*WORD, END], "logprobs": {"token_logprobs": [-0.5, -0.25]}, "text": "7"}


@pytest.mark.parametrize(
    "choice",
    [
        GOOD,
        GOOD | {"token_ids": [*WORD, END, 9], "logprobs": {"token_logprobs": [-0.5, -0.25, -1.0]}},  # went on after it
        {"logprobs": {"tokens": [f"token_id:{WORD[0]}", f"token_id:{END}"], "token_logprobs": [-0.5, -0.25]}},  # vLLM
        {"logprobs": {"content": [{"id": WORD[0], "logprob": -0.5}, {"id": END, "logprob": -0.25}]}},  # llama.cpp
        {"logprobs": {"tokens": ["7", "<|end|>"], "token_logprobs": [-0.5, -0.25]}, "text": "7"},
    ],
)
def test_tokens_are_found_as_each_server_names_them(choice):
    assert read_answer({"choices": [choice]}, ASKED, READER) == ([*WORD, END], [-0.5, -0.25])


def test_a_server_is_told_all_tokens_that_end_an_answer(monkeypatch):
    other = TOKENIZER.special["</result>"]
    ended = GOOD | {"token_ids": [*WORD, other, 9], "logprobs": {"token_logprobs": [-0.5, -0.25, -1.0]}}
    bodies = []
    monkeypatch.setattr(Server, "ask", lambda self, method, path, body: bodies.append(body) or {"choices": [ended]})
    server = Server("http://localhost:1/v1", "model", "KEY", 1.0, 0)
    assert complete(server, ASKED, READER._replace(others=(other,))) == ([*WORD, other], [-0.5, -0.25])
    assert bodies[0]["stop_token_ids"] == [END, other]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (None, "without a choice"),
        ([], "without a choice"),
        ({"token_ids": []}, "wrote nothing"),
        ({"logprobs": {}}, "no log-probabilities"),
        ({"logprobs": {"token_logprobs": [-0.5]}}, "1 log-probabilities of 2 tokens"),
        ({"logprobs": {"token_logprobs": [-0.5, None]}}, "log-probability that is none"),
        ({"logprobs": {"token_logprobs": [-0.5, float("nan")]}}, "log-probability that is none"),
        ({"logprobs": {"token_logprobs": [-0.5, -9999.0]}}, "log-probability that is none"),
        ({"logprobs": {"token_logprobs": [-0.5, 0.7]}}, "log-probability that is none"),
        ({"token_ids": [*WORD * 5]}, "wrote 5 tokens, and 4"),
        ({"token_ids": [TOKENIZER.vocabulary, END]}, "its tokenizer is another"),
        ({"token_ids": [*WORD, True]}, "its tokenizer is another"),
        ({"token_ids": WORD * 2}, "cut an answer after 2 of 4"),
        ({"text": "8"}, "its tokenizer is not that of"),
        ({"prompt_token_ids": [1, 70, 71]}, "read a prompt as other tokens"),
        ({"token_ids": None, "logprobs": {"tokens": ["7 and 8", "x"], "token_logprobs": [-1, -1]}}, "not one token"),
    ],
)
def test_what_cannot_be_learned_from_is_lost(choice, words):
    said = {"choices": [GOOD | choice] if isinstance(choice, dict) else choice}
    with pytest.raises(LostAnswer, match=words):
        read_answer(said, ASKED, READER)


@pytest.mark.parametrize(
    ("mood", "words", "times"),
    [
        (400, r"answered with status 400 \(something is wrong\)", 1),
        (429, "answered with status 429", 3),
        ("no json", "what is no JSON", 1),
        ("slow", "no answer within 0.1 seconds", 3),
        ("flood", "more than 1 MiB", 1),
    ],
)
def test_what_may_pass_is_waited_for_and_nothing_without_end(answer_server, mood, words, times, monkeypatch):
    monkeypatch.setattr(server, "LARGEST", 2**20)
    answer_server.mood = lambda number: mood
    one = Server(answer_server.url, "small", "NO_KEY", 0.1 if mood == "slow" else 20.0, 2)
    with pytest.raises(LostAnswer, match=words):
        complete(one, ASKED, READER)
    assert len(answer_server.asked) == times


def test_prompts_go_as_text_where_they_are_read_alike(answer_server):
    reader, one = READER._replace(in_text=True), Server(answer_server.url, "small", "NO_KEY", 60.0, 0)
    prompt = tuple(TOKENIZER.encode("Compute 12 + 30.\n"))
    asked = AnswerRequest(prompt, LONGEST, 1.0, 0)
    assert complete(one, asked, reader) == complete(one, asked, READER)
    assert [body["prompt"] for body in answer_server.asked] == ["Compute 12 + 30.\n", list(prompt)]
    apart = next(word for word in map(chr, range(97, 123)) if len(TOKENIZER.encode(word + "e")) == 1)
    apart = (*TOKENIZER.encode(apart), *TOKENIZER.encode("e"))
    with pytest.raises(LostAnswer, match="would read a prompt as other tokens"):
        complete(one, asked._replace(prompt=apart), reader)


def test_a_key_is_sent_and_never_said(answer_server, monkeypatch):
    answer_server.key = "sk-right"
    one = Server(answer_server.url, "small", "OUR_KEY", 20.0, 0)
    monkeypatch.setenv("OUR_KEY", "sk-wrong")
    with pytest.raises(ForageError, match=r"status 401 \(no such key: Bearer \.\.\.\); put its key into .* OUR_KEY"):
        complete(one, ASKED, READER)
    monkeypatch.setenv("OUR_KEY", "sk\u2026")
    with pytest.raises(ForageError, match="OUR_KEY has characters that no key has"):
        complete(one, ASKED, READER)
    answer_server.mood = lambda number: 404
    monkeypatch.setenv("OUR_KEY", "sk-right")
    with pytest.raises(ForageError, match=r"status 404 .*; give its url up to /v1"):
        complete(one, ASKED, READER)
    with pytest.raises(ForageError, match=r"has no model 'large'; name one with --behaviour.model: it has small"):
        Server(answer_server.url, "large", "OUR_KEY", 20.0, 0).hello()


def test_items_are_shared_and_an_error_ends_them():
    def work(item):
        if item == 3:
            raise LostAnswer("away")
        if item < 0:
            raise ForageError("No more.")
        return 2 * item

    found = map_threads(work, list(range(6)), 4)
    assert (
        found[:3] == [0, 2, 4]
        and isinstance(found[3], LostAnswer)
        and found[4:] == [8, 10]
        and map_threads(work, [], 4) == []
    )
    with pytest.raises(ForageError, match="No more"):
        map_threads(work, [1, -1, 2], 2)


@pytest.mark.parametrize(
    ("agent", "more", "words"),
    [
        ({}, {"url": "localhost:8000"}, "one like http://localhost:8000/v1"),
        ({}, {"url": "http://me:secret@host/v1"}, "no name, password or query"),
        ({}, {"url": "http://host/v1?key=secret"}, "no name, password or query"),
        ({}, {"reload": "/reload"}, "give --behaviour.publish DIRECTORY"),
        ({"top_p": 0.9}, {}, "leave out top_k, top_p and min_p"),
        ({"temperature": 0.7}, {}, "give --temperature 1, or, .* --behaviour.tempered true"),
        ({"temperature": 0.0}, {"tempered": True}, "temperature above 0"),
        ({"correction": "tis"}, {}, "no correction of the sampler 'tis'; there are token-truncate"),
        ({"correction_floor": 2.0}, {}, "2 is not below 2"),
    ],
)
def test_bad_settings_are_one_sentence(agent, more, words):
    with pytest.raises(ForageError, match=words) as raised:
        setup_of(**({"url": "http://localhost:9/v1"} | more), options=agent).runner()
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("agent", "options", "words"),
    [
        ("ppo-language", {}, "does not correct.*; use an agent that does, such as grpo"),
    ],
)
def test_agents_that_cannot_correct_are_refused(agent, options, words):
    options = {"model": model(), "num_envs": 8, **options}
    with pytest.raises(ForageError, match=words):
        resolve(
            agent, "text:addition", agent_options=options, steps=64, seeds=[0], behaviour=Endpoint("http://h/v1")
        ).runner()


@pytest.mark.thorough
def test_resumed_is_as_if_never_stopped_by_a_server_that_repeats_itself_and_no_key_is_kept(
    answer_server, tmp_path, monkeypatch
):
    monkeypatch.setenv("FORAGE_ENDPOINT_KEY", "sk-never-written")
    answer_server.key = "sk-never-written"
    setup = setup_of(answer_server.url, MOVES)
    given = {"agent": setup.agent, "environment": "text:addition", "environment_options": ENVIRONMENT, "seeds": [0]}
    given |= {"behaviour": setup.behaviour, "evaluation_episodes": 4, "display": "quiet"}
    forage.train(**given, steps=32, directory=tmp_path / "whole")
    forage.train(**given, steps=16, directory=tmp_path / "parts")
    forage.resume(tmp_path / "parts", steps=32, agent=setup.agent, display="quiet")
    first, again = answer_server.asked[:32], answer_server.asked[32:]
    assert [body["seed"] for body in first] == [body["seed"] for body in again] and len(answer_server.said) == 32
    one, two = (np.load(tmp_path / name / "agent.npz") for name in ("whole", "parts"))
    assert all(np.array_equal(one[name], two[name]) for name in one if one[name].dtype.kind == "f")
    said = json.loads((tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()[-1])
    assert said["answers_asked"] == [32] and said["answers_lost"] == [0] and said["sampler_gap"][0] > 1e-3
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not [path for path in files if b"sk-never" in path.read_bytes()]
