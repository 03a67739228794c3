"""Agents that learn from recorded text: their runs' configurations, losses by hand, and whole runs."""

from __future__ import annotations

import io
import math
import signal
import time
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import small
from recorded_helpers import check_recorded, rows_of, write_model, write_rows
from resuming_helpers import weights

import forage
from forage.agents.language.pairs import DPO, pair_losses
from forage.config.ranges import check_call
from forage.config.recorded_text import suggest_for
from forage.config.resolve import resolve
from forage.core.errors import ForageError
from forage.core.spaces import Tokens
from forage.memory.texts import TextSet
from forage.runs import capacity
from forage.studies import plan


def test_a_run_from_text_has_spaces_steps_and_a_memory_of_the_file(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "rows.jsonl", rows_of("preference", 20))
    setup = resolve("dpo", data=file, batch_size=4, passes=2.0)
    memory, spec = setup.memory, setup.spec
    assert isinstance(memory, TextSet) and isinstance(setup.agent, DPO)
    assert (memory.kinds, memory.reader, memory.held_out, memory.chat) == ("preference", "dpo", 0.1, False)
    assert (setup.steps, setup.steps_from, spec.name) == (9, "2 passes over 18 rows", "rows.jsonl")
    assert isinstance(spec.action_space, Tokens) and len(setup.seeds) == 3 and not setup.scored
    assert suggest_for(Path(file)) == ("dpo", "the rows have chosen and rejected")
    assert isinstance(resolve(None, data=file).agent, DPO)
    texts = write_rows(tmp_path / "texts.jsonl", rows_of("completion"))
    assert resolve("sft", data=texts, evaluate=texts, steps=5).memory.held_file == texts


@pytest.mark.thorough
def test_a_plan_has_the_memory_of_the_run_and_updates_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_rows(tmp_path / "rows.jsonl", rows_of("preference", 20))
    options = {"model": write_model(tmp_path / "model"), "batch_size": 4}
    found = plan.memory_of("dpo", None, options, data=file)
    setup = resolve("dpo", data=file, steps=8, seeds=1, agent_options=options)
    runner = setup.runner()
    rows = capacity.tree_bytes(runner.learner.memory)
    state, working = capacity.bytes_of(runner)["agent"], capacity.working_bytes(setup.agent, setup.spec)
    assert found["state"] == state and found["memory"] == rows
    assert found["peak"] == capacity.peak_bytes({"agent": state, "memory": rows}, working)
    monkeypatch.setattr(plan, "SECONDS", 0.1)
    predicted = plan.plan("dpo", None, [1, 2], options, data=file)
    assert [one.cores for one in predicted] == [1, 2] and predicted[0].speed > 0
    assert plan.plan_lines(predicted, "updates")[0].split() == ["cores", "updates/s"]


def test_losses_of_pairs_by_hand() -> None:
    """With h = 1.5 for dpo and ipo, and half as probable tokens for orpo: odds of 1 to 1/3."""
    now, first = jnp.array([[-1.0, -3.0]]), jnp.array([[-2.0, -2.5]])
    sigmoid = lambda x: 1 / (1 + math.exp(-x))  # noqa: E731
    expected = {
        "dpo": -math.log(sigmoid(0.15)),
        "ipo": (1.5 - 5) ** 2,
        "hinge": 1 - 0.15,
        "simpo": -math.log(sigmoid(2.5 * 2 - 1.375)),
        "cpo": -math.log(sigmoid(0.2)) + 2 * 0.7,
    }
    for name, value in expected.items():
        found = pair_losses(name, now, first, 0.7, scale=2.0, smoothing=0.0)
        np.testing.assert_allclose(found, [value], rtol=1e-5)
    halves = jnp.log(jnp.array([[0.5, 0.25]]))
    found = pair_losses("orpo", halves, first, 0.7, beta=0.5, scale=1.0)
    np.testing.assert_allclose(found, [0.7 - 0.5 * math.log(sigmoid(math.log(3)))], rtol=1e-5)


def test_refusals_say_which_agent_learns_from_a_file(tmp_path: Path) -> None:
    pairs = write_rows(tmp_path / "pairs.jsonl", rows_of("preference"))
    for agent, options, says in [
        ("ppo", {}, "ppo does not learn from recorded text, which .* holds; sft learns from texts and messages, dpo"),
        (
            "sft",
            {},
            "sft learns from rows with messages or prompt and completion or text, and those of .* dpo, ",
        ),
        ("dpo", {"batch_size": 5, "minibatches": 2}, "cannot cut 5 rows into 2 equal minibatches"),
        ("dpo", {"batch_size": 64}, "has 11 rows to learn from, and a batch has 64; give more rows, or a smaller"),
        ("dpo", {"longest": 3}, "All 12 rows of .* have more than 3 tokens; give a larger --longest"),
        ("dpo", {"preference": "kto"}, "kto"),
        ("dpo", {"memory": "uniform"}, "Recorded text takes the place of a memory"),
        (
            "dpo",
            {"model": "nowhere"},
            "A model is forage, a directory with a transformer, or a run of one, and no",
        ),
    ]:
        with pytest.raises(ForageError, match=says):
            resolve(agent, data=pairs, **options).runner()
    with pytest.raises(ForageError, match="DPO learns from recorded text alone; name a file with --data FILE"):
        resolve("dpo", "text:addition", steps=64).runner()


def test_rows_in_python_are_no_paths() -> None:
    check_call(forage.train, {"data": [{"text": "a"}]})
    with pytest.raises(ForageError, match="The data has rows that can be written as JSON, and one cannot"):
        forage.train("sft", data=[{"text": {1, 2}}])


@pytest.mark.thorough
def test_rows_in_python_are_kept_with_the_run(tmp_path: Path) -> None:
    given: dict[str, Any] = {"model": write_model(tmp_path / "model"), "steps": 2, "batch_size": 4, "seeds": 1}
    run = forage.train("sft", data=rows_of("completion"), directory=tmp_path / "run", display="quiet", **given)
    assert (tmp_path / "run" / "rows.jsonl").read_text().count("\n") == 12
    assert run.config["memory"]["file"] == str(tmp_path / "run" / "rows.jsonl")
    assert np.isfinite(forage.resume(tmp_path / "run", steps=4, display="quiet").rows[-1]["loss"][0])


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["sft", "dpo", "ipo", "reward-model", "process-reward"])
def test_resumed_is_as_if_never_stopped(name: str, tmp_path: Path) -> None:
    kind = {"sft": "completion", "process-reward": "steps"}.get(name, "preference")
    last = check_recorded(name, kind, tmp_path)
    numbers = {"completion": {"token_accuracy", "cross_entropy"}, "steps": {"accuracy", "right", "wrong"}}
    wanted = numbers.get(kind, {"accuracy", "margin", "chosen", "rejected"})
    assert wanted <= last.keys() and {f"validation/{one}" for one in wanted} <= last.keys()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["dpo", "reward-model"])
def test_killed_and_resumed_is_as_if_never_stopped(name: str, tmp_path: Path, capsys: Any) -> None:
    """SIGKILL in the middle of passes over the rows, in a process of its own."""
    data, model = write_rows(tmp_path / "rows.jsonl", rows_of("preference")), write_model(tmp_path / "model")
    command = ["train", name, "--data", data, "--model", model, "--batch-size", "4", "--steps", "600", "--seeds", "1"]
    command += ["--checkpoint-seconds", "0", "--learning-rate", "1e-3", "--quiet"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process, until = small.start(*command, "--directory", killed), time.monotonic() + 300
    while not list((killed / "checkpoints").glob("*.npz")) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    assert process.poll() is None, "the run was over before it was killed; make it longer"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert small.run_command(capsys, "resume", killed, "--quiet") == (0, "", "")
    assert small.run_command(capsys, *command, "--directory", whole) == (0, "", "")
    one, two = weights(killed), weights(whole)
    assert [field for field in one if not np.array_equal(one[field], two[field])] == []


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "count"), [("completion", 4), ("messages", 2)])
def test_chat_reads_a_prompt_as_it_was_learned(
    kind: str, count: int, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a line break behind a text, and by the template of messages."""
    rows: list[dict[str, Any]] = rows_of("completion", count) * (4 // count)
    if kind == "messages":
        rows = [
            {
                "messages": [
                    {"role": "user", "content": row["prompt"]},
                    {"role": "assistant", "content": row["completion"]},
                ]
            }
            for row in rows
        ]
    given: dict[str, Any] = {"model": write_model(tmp_path / "model"), "learning_rate": 3e-2, "batch_size": 4}
    run = forage.train(
        data=rows, steps=300, seeds=1, held_out=0.0, directory=tmp_path / "run", display="quiet", **given
    )
    talk = forage.chat(run.directory)
    assert [(talk.begin(), talk.say(f"{n}+1="))[1] for n in range(count)] == ["1", "2", "3", "4"][:count]
    monkeypatch.setattr("sys.stdin", io.StringIO("1+1=\n"))
    assert small.run_command(capsys, "chat", tmp_path / "run")[1].strip() == "2"
