"""A run on text: its record of answers, and the same texts in chat, film and export."""

import json

import jax
import numpy as np
import pytest
import small

import forage
from forage.core.errors import ForageError
from forage.core.text import named
from forage.nn.language.architecture import Architecture
from forage.nn.language.directory import with_tokens
from forage.nn.transformer import Transformer
from forage.runs.curve import first_middle_last
from forage.runs.run import Run

pytest.importorskip("safetensors", reason="safetensors is not installed")
small.keep_compiled()

SMALL = Architecture(vocabulary=520, width=16, layers=1, heads=2, inner=16, length=256)  # 8 tokens more than are known


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A model with random weights, and a run on it that has hardly learned."""
    root = tmp_path_factory.mktemp("text")
    words = named.tokenizer("forage")
    with_tokens(Transformer(jax.random.key(0), SMALL), words.end, words.pad).save(root / "model")
    words.save(root / "model")
    options = {"model": str(root / "model"), "num_envs": 4, "group_size": 4}
    forage.train(
        "grpo",
        "text:addition",
        steps=16,
        seeds=[3],
        agent_options=options,
        evaluation_episodes=6,
        evaluation_actions="greedy",
        directory=root / "run",
        display="quiet",
    )
    return root


def test_evaluations_leave_their_texts(directory):
    run = Run(directory / "run")
    assert [found.steps for found in run.texts] == [0, 4, 8, 12, 16]
    assert [found.steps for found in first_middle_last(run.texts)] == [0, 8, 16]
    (each,) = run.texts[-1].members
    assert len(each) == 5  # of 6 that were played, in more environments than training has
    for one in each:
        assert [who for who, _ in one.said] == ["prompt", "answer"] and "<answer>" in one.reference
        assert (one.reward == 1) == (one.verdict == "right")


def test_talk_has_the_form_of_the_environment(directory):
    run = Run(directory / "run")
    talk = forage.chat(directory / "run")
    for one in run.texts[-1].members[0][:3]:
        (_, prompt), (_, answer) = one.said
        assert talk.say(prompt) == answer
    posed = next(forage.chat(directory / "run").problems())
    assert forage.chat(directory / "run").say(posed.said[0][1]) == posed.said[1][1]


def test_an_exported_policy_is_the_same(directory, tmp_path):
    policy = forage.load(directory / "run")
    path = forage.export(directory / "run", tmp_path / "exported")
    network = Transformer.load(path)
    for one, other in zip(jax.tree.leaves(network), jax.tree.leaves(policy.state.network), strict=True):
        np.testing.assert_array_equal(one, other)
    said = json.loads((path / "generation_config.json").read_text())
    assert (said["eos_token_id"], said["pad_token_id"]) == (1, 0) and said["suppress_tokens"] == list(range(512, 520))
    one, other = forage.chat(path, tokens=8), forage.chat(directory / "run", tokens=8)
    assert one.say("Compute 12 + 3.") == other.say("Compute 12 + 3.")


@pytest.mark.thorough
def test_adapters_of_a_run_with_experts_are_exported_and_read(tmp_path):
    words = named.tokenizer("forage")
    sizes = SMALL._replace(family="qwen3_moe", experts=4, chosen=2, expert_inner=8)
    words.save(with_tokens(Transformer(jax.random.key(0), sizes), words.end, words.pad).save(tmp_path / "model"))
    options = {"model": str(tmp_path / "model"), "num_envs": 4, "group_size": 4, "rank": 2, "router_balance": 0.1}
    forage.train(
        "grpo",
        "text:addition",
        steps=8,
        seeds=[3],
        agent_options=options | {"learning_rate": 1e-2, "entropy_coefficient": 0.1},
        evaluation_episodes=2,
        directory=tmp_path / "run",
        display="quiet",
    )
    forage.export(tmp_path / "run", tmp_path / "whole")
    forage.export(tmp_path / "run", tmp_path / "adapters", peft=True)
    one, other, base = (Transformer.load(tmp_path / name).blocks[0].queries for name in ("whole", "adapters", "model"))
    assert other.lora_a is not None and np.abs(one.weight - base.weight).max() > 0
    np.testing.assert_allclose(one.weight, base.weight + other.scale * other.lora_a @ other.lora_b, atol=1e-6)
    forage.chat(tmp_path / "adapters", tokens=4).say("Compute 1 + 2.")


@pytest.mark.thorough
def test_transformers_writes_the_same(directory, tmp_path):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    path = forage.export(directory / "run", tmp_path / "exported")
    words = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(path)
    for prompt in ("Compute 12 + 3.", "7"):
        tokens = words(prompt + "\n", add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            written = model.generate(tokens, max_new_tokens=8, do_sample=False)[0, tokens.shape[1] :]
        said = words.decode([token for token in written.tolist() if token not in (0, 1)])
        assert forage.chat(directory / "run", tokens=8).say(prompt) == said


def test_the_page_and_the_watcher_show_texts(directory, tmp_path, capsys):
    page = forage.report([directory / "run"], tmp_path / "page.html", film=True).read_text()
    assert page.count('<div class="texts">') == 1 and "after 0 steps" in page and "after 16 steps" in page
    assert "&lt;answer&gt;" in page and "<answer>" not in page
    code, out, _ = small.run_command(capsys, "watch", directory / "run", "--episodes", "2")
    assert code == 0 and out.count("prompt") == 2 and out.count("reward") == 2
    assert str(directory / "run" / "agent.txt") in out


def test_problems_on_the_command_line(directory, capsys):
    code, out, _ = small.run_command(capsys, "chat", directory / "run", "--problem", "--number", 2)
    assert code == 0 and out.count("prompt") == 2 and out.count("reference") == 2
    code, out, _ = small.run_command(
        capsys, "chat", directory / "model", "text:addition", "--env.level", 2, "--tokens", 4
    )
    assert code == 0 and out.count("reward") == 1


@pytest.mark.parametrize("more", [[], ["--env.chunk", 8, "--env.carry", 4]])
def test_a_look_at_a_family_of_problems(directory, capsys, more):
    """Problems that are held out are looked at, and a chunk is no longer than the environment takes."""
    words = ["text:addition", "--episodes", 2, "--json", *more]
    code, out, error = small.run_command(capsys, "evaluate", directory / "model", *words)
    assert code == 0, error
    said = json.loads(out)
    assert 0 < said["tokens"] <= 24 and said["turns"] >= 1  # of an answer to the easiest sums


def test_a_run_whose_rows_are_as_long_as_what_its_model_reads(directory, tmp_path):
    rows = [{"prompt": f"Compute {i} + 1.", "completion": f"<answer>{i + 1}</answer>"} for i in range(8)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = forage.train(
        "sft",
        "text:addition",
        steps=2,
        seeds=[0],
        data=tmp_path / "rows.jsonl",
        agent_options={"model": str(directory / "model")},
        directory=tmp_path / "run",
        display="quiet",
    )
    assert forage.chat(run.directory).new == SMALL.length // 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["chat"], "takes a run or a model"),
        (["chat", "nowhere"], "nowhere is none"),
        (["chat", "RUN", "--number", "2"], "add --problem"),
        (["chat", "RUN", "CartPole-v1"], "poses no problems in text"),
        (["chat", "RUN", "--temperature", "-1"], "temperature of a sampler"),
        (["chat", "MODEL", "--tokens", "256"], "ask for fewer, such as 128"),
        (["chat", "MODEL", "--problem"], "learned in no environment"),
        (["export", "RUN"], "takes a run and where"),
        (["export", "RUN", "policy.npz"], "as a directory"),
        (["export", "RUN", "adapters", "--peft"], "has no adapters to export; PEFT's directories are of runs with"),
        (["watch", "RUN", "--output", "film.gif"], ".txt"),
    ],
)
def test_what_is_wrong_is_one_sentence(directory, capsys, words, says):
    places = {"RUN": directory / "run", "MODEL": directory / "model"}
    code, _, error = small.run_command(capsys, *(places.get(word, word) for word in words))
    assert code == 2 and says in error and len(error.strip().splitlines()) == 1


@pytest.mark.thorough
def test_another_agent_writes_no_text(tmp_path):
    run = small.train(tmp_path / "run")
    with pytest.raises(ForageError, match="writes no text"):
        forage.chat(run.directory)
    with pytest.raises(ForageError, match="exported as a file"):
        forage.export(run.directory, tmp_path / "directory")
    assert forage.export(run.directory, tmp_path / "policy.npz", actions="greedy").exists()
