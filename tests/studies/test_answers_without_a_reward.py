"""Answers without a reward: an evaluation leaves them out of its mean and counts them."""

import json
from pathlib import Path

import jax
import pytest
import small

import forage
from forage.core.errors import ForageError
from forage.core.text import named
from forage.data.files import read_data
from forage.nn.language.architecture import Architecture
from forage.nn.language.directory import with_tokens
from forage.nn.transformer import Transformer
from forage.runs.run import Run

pytest.importorskip("safetensors", reason="safetensors is not installed")
small.keep_compiled()
pytestmark = pytest.mark.filterwarnings("ignore:An answer in")

SMALL = Architecture(vocabulary=520, width=16, layers=1, heads=2, inner=16, length=64)

FUNCTIONS = """
def odd(prompts, completions):
    numbers = [int(one.split()[1]) for one in prompts]
    return [float(number) if number % 2 else None for number in numbers]

def never(completions):
    return [None] * len(completions)

def half(completions):
    return [1.0, float("nan")] * (len(completions) // 2)

def evaluations(completions):
    return [1.0 if len(completions) == 4 else float("nan")] * len(completions)
"""


def write_prompts(path: Path, count: int) -> None:
    path.write_text("".join(json.dumps({"prompt": f"Number {n} .\n"}) + "\n" for n in range(count)))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose reward of an odd number is that number, and of an even one there is none."""
    root = tmp_path_factory.mktemp("unrewarded")
    words = named.tokenizer("forage")
    with_tokens(Transformer(jax.random.key(0), SMALL), words.end, words.pad).save(root / "model")
    words.save(root / "model")
    (root / "mine.py").write_text(FUNCTIONS)
    write_prompts(root / "train.jsonl", 4)
    write_prompts(root / "test.jsonl", 4)
    return train(root, "odd")


def train(root, function, **options):
    return forage.train(
        "grpo",
        f"text:{root / 'train.jsonl'}",
        rewards=f"{root / 'mine.py'}:{function}",
        environment_options={"evaluate": str(root / "test.jsonl"), "response": 4},
        agent_options={"model": str(root / "model"), "num_envs": 8, "group_size": 4},
        steps=8,
        seeds=[3],
        evaluation_episodes=4,
        evaluation_actions="greedy",
        directory=root / function,
        display="quiet",
        **options,
    )


def test_training_ends_where_functions_fail_on_a_whole_rollout_and_not_on_a_part(run):
    root = run.directory.parent
    with pytest.raises(ForageError, match=r"^None of the 8 episodes of a rollout of text:.* could be judged, as the "):
        train(root, "evaluations")
    assert train(root, "half").rows[-1]["reward_failures"] == [4]


def test_a_score_is_the_mean_over_answers_with_a_reward(run, capsys):
    """Of the numbers 0 to 3 the odd ones have a reward, 1 and 3: their mean is 2."""
    assert run.evaluation["return"] == [2.0] and run.evaluation["no_reward"] == 2
    code, out, _ = small.run_command(capsys, "evaluate", run.directory, "--episodes", 4)
    assert code == 0 and "return 2.00 (1 seed" in out
    assert "2 answers without a reward, of 4, are left out of the score" in out
    code, out, _ = small.run_command(capsys, "evaluate", run.directory, "--episodes", 4, "--json")
    assert code == 0 and json.loads(out)["no_reward"] == 2
    assert [one.reward for found in run.texts[-1:] for one in found.members[0]].count(None) == 2


def test_answers_without_a_reward_count_as_not_solved_and_are_told_of(run, capsys):
    """Of four problems two have no reward: two answers to each of these by the run, and by its first model."""
    code, out, _ = small.run_command(capsys, "evaluate", run.directory, "--pass", 2, "--episodes", 4)
    assert code == 0 and "  answers without a reward, which count as not solved: 8\n" in out
    found = json.loads((run.directory / "pass.json").read_text())
    assert found["no_reward"] == 8 and sorted(found["right"]["trained"][0]) == [0, 0, 2, 2]
    code, out, _ = small.run_command(
        capsys, "evaluate", run.directory, "--pass", 2, "--episodes", 4, "--choose", "certainty", "--json"
    )
    assert code == 0 and json.loads(out)["no_reward"] == 4


def test_a_film_in_words_shows_them(run, capsys):
    """The prompts of the first four conversations are those of the file, each once or more."""
    code, out, _ = small.run_command(capsys, "watch", run.directory, "--episodes", 4, "--json")
    returns = json.loads(out)["returns"]
    text = (run.directory / "agent.txt").read_text()
    assert code == 0 and returns.count(None) == text.count("reward  none, odd none") > 0
    code, out, _ = small.run_command(capsys, "watch", run.directory, "--episodes", 4)
    assert code == 0 and f"(returns {', '.join('none' if one is None else f'{one:g}' for one in returns)})" in out


def test_an_evaluation_without_any_reward_ends_in_a_sentence(run, capsys):
    mine, before = run.directory.parent / "mine.py", Run(run.directory).evaluation
    mine.write_text(FUNCTIONS.replace("number % 2", "number > 9"))
    try:
        code, _, error = small.run_command(capsys, "evaluate", run.directory, "--episodes", 4)
    finally:
        mine.write_text(FUNCTIONS)
    assert code == 2 and error.strip().splitlines()[-1].endswith(
        "has a reward, as all reward functions returned None; mend that, and forage evaluate plays them again."
    )
    assert Run(run.directory).evaluation == before


def test_a_look_leaves_them_out_as_well(run, capsys):
    model, prompts = run.directory.parent / "model", f"text:{run.directory.parent / 'test.jsonl'}"
    mine = run.directory.parent / "mine.py"
    words = ("evaluate", model, prompts, "--env.response", 4, "--episodes", 4)
    code, out, _ = small.run_command(capsys, *words, "--rewards", f"{mine}:odd")
    assert code == 0 and ": reward 2, " in out and "which the mean reward leaves out: 2\n" in out
    code, out, _ = small.run_command(capsys, *words, "--rewards", f"{mine}:odd", "--json")
    assert code == 0 and (json.loads(out)["reward"], json.loads(out)["no_reward"]) == (2, 2)
    code, _, error = small.run_command(capsys, *words, "--rewards", f"{mine}:never")
    assert code == 2 and "None of the 4 answers to " in error and "all reward functions returned None" in error


def test_a_recording_leaves_them_out(run, tmp_path, capsys):
    """Half of the numbers have a reward. A failure of a function on the only answer of a step ends no recording."""
    file, mine = tmp_path / "log.npz", run.directory.parent / "mine.py"
    code, out, _ = small.run_command(capsys, "data", "record", run.directory, "--steps", 8, "--output", file)
    found, header = read_data(file)
    assert code == 0 and set(found.reward.tolist()) == {1, 3} and header["mean_return"] == 2
    assert header["no_reward"] == 8 - found.transitions == 4 and "; 4 episodes without a reward left out\n" in out
    code, out, _ = small.run_command(capsys, "data", "show", file)
    assert code == 0 and "; 4 episodes without a reward left out\n" in out
    words = ("data", "record", run.directory, "--steps", 4, "--output", file, "--json")
    mine.write_text(FUNCTIONS.replace("if number % 2 else None", "if number % 2 else {}[number]"))
    try:
        code, out, _ = small.run_command(capsys, *words)
        assert code == 0 and json.loads(out)["no_reward"] == 2 and json.loads(out)["mean_return"] == 2
        mine.write_text(FUNCTIONS.replace("number % 2", "number > 9"))
        code, _, error = small.run_command(capsys, *words)
    finally:
        mine.write_text(FUNCTIONS)
    assert code == 2 and "None of the 4 recorded episodes of " in error and "all reward functions ret" in error


VERIFIER = """
from forage.environments.text.families.addition import Addition
from forage.environments.text.problems import Verdict

class Odd(Addition):
    name = "odd"
    other = 0.5
    def verify(self, problem, text):
        if "<answer>" in text:  # as its own solution has it
            return super().verify(problem, text)
        return Verdict(True, float("nan") if problem.data["left"] % 2 else self.other)

class Never(Odd):
    other = float("nan")
"""


def test_a_look_leaves_out_verdicts_that_are_no_numbers(run, tmp_path, capsys):
    """A look judges one answer at a time, of which some have no verdict, and the others half a point."""
    (tmp_path / "mine.py").write_text(VERIFIER)
    model, options = run.directory.parent / "model", {"level": 0, "response": 4}
    look = forage.chat(str(model)).look(f"text:{tmp_path / 'mine.py'}:Odd", 8, **options)
    odd = [int(str(one).split("Compute ")[1].split()[0]) % 2 for one in look.conversations]
    assert 0 < look.no_reward == sum(odd) < 8 and look.scores["reward"] == look.scores["truth"] == 0.5
    assert [one.reward for one in look.conversations] == [None if one else 0.5 for one in odd]
    words = ("evaluate", model, f"text:{tmp_path / 'mine.py'}:Never", "--env.response", 4, "--episodes", 4)
    code, _, error = small.run_command(capsys, *words)
    assert code == 2 and "None of the 4 answers to " in error and "the verifier returned the truth nan" in error
