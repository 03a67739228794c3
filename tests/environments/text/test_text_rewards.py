"""Reward functions as TRL calls them: their rewards worked by hand, failures that cost an answer, and wrong returns."""

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import small

from forage.core.errors import ForageError, Notice
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.own import scoring
from forage.environments.text.own.functions import find_fault, read_rewards
from forage.environments.text.own.prompts import is_file, tell_left_out
from forage.environments.text.own.scoring import Scorer, unique_names
from forage.ops.tokens.advantages import group_advantage
from forage.ops.tokens.losses import policy_loss

BATCH = {
    "prompts": ["p"] * 4,
    "completions": ["right 1", "none", "bad", "2"],
    "completion_ids": [[5, 1]] * 4,
    "answer": ["1", "2", "3", "2"],
}
STATE = {"global_step": 3, "max_steps": 12}


def score(completions, answer, **others):
    assert others.keys() == {"prompts", "completion_ids", "trainer_state", "log_extra", "log_metric"}
    return [float(one in said) for said, one in zip(completions, answer, strict=True)]


def brief(completion_ids):  # takes no other keywords
    return np.float32([-len(one) for one in completion_ids])


async def judge(completions, trainer_state, log_extra, log_metric, **others):
    await asyncio.sleep(0)
    log_metric("done", trainer_state.global_step / trainer_state.max_steps)
    log_extra("seen", completions)
    return [None if said == "none" else 1 for said in completions]


def fails(completions, **others):
    if "bad" in completions:
        raise KeyError("bad")
    return [7.5] * len(completions)


def endless(completions, **others):
    return [float("inf") if said == "bad" else float("nan") if said == "none" else True for said in completions]


def raises(completions, **others):
    raise ValueError("always")


@pytest.fixture
def scorer(monkeypatch):
    """Return a function that makes a scorer of functions of this module, which are called in this process."""
    monkeypatch.setattr(scoring, "objects", {})
    made = []

    def make(*functions, weights=(), **options):
        names = [f"object:{function.__name__}" for function in functions]
        scoring.objects.update(zip(names, functions, strict=True))
        made.append(Scorer(names, weights, ["answer"], **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_rewards_are_the_weighted_sum_of_what_functions_return(scorer):
    found = scorer(score, brief, judge, weights=[1, 0.5, 2])
    scores = found.score(BATCH, STATE)
    assert scores.each[[0, 2, 3]].tolist() == [[1, -2, 1], [0, -2, 1], [1, -2, 1]]
    assert scores.each[1, :2].tolist() == [0, -2] and np.isnan(scores.each[1, 2])
    assert scores.reward.tolist() == [2, -1, 1, 2] and not scores.lost.any()
    assert found.names == ["score", "brief", "judge"] and found.metrics == {"done": 0.25}
    assert scores.extras == {"seen": BATCH["completions"]}


def test_an_answer_is_lost_where_all_return_none_or_one_fails(scorer):
    found = scorer(judge)
    scores = found.score(BATCH, STATE)
    assert scores.lost.tolist() == [False, True, False, False] and scores.reward.tolist() == [1, 0, 1, 1]
    assert found.unscored == 1 and not found.failures
    found = scorer(score, fails)  # asked again answer by answer
    scores = found.score(BATCH, STATE)
    assert scores.lost.tolist() == scores.failed.tolist() == [False, False, True, False]
    assert scores.reward.tolist() == [8.5, 7.5, 0, 8.5] and found.unscored == 0
    ((reason, count),) = found.failures.items()
    assert count == 1 and reason.startswith("object:fails raised KeyError: 'bad' (line ")
    scores = (found := scorer(endless)).score(BATCH, STATE)
    assert scores.lost.tolist() == scores.failed.tolist() == [False, True, True, False]
    kinds = {"returned nan as a reward": 1, "returned inf as a reward": 1}
    assert found.failures == {f"object:endless {kind}": count for kind, count in kinds.items()}
    scores = scorer(score, fails, weights=[1, 0]).score(BATCH, STATE)  # a metric alone costs no answer
    assert not scores.lost.any() and scores.reward.tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("number", "value"),
    [(np.nan, "nan"), (-np.inf, "-inf"), (1e39, "a number too large for 32 bits"), (2e38, "a number too large")],
)
def test_a_function_that_returns_no_finite_number_fails_on_all_answers(scorer, number, value):
    def same(completions, **others):
        return [number] * len(completions)

    scores = (found := scorer(same, weights=[2])).score(BATCH, STATE)
    assert not scores.reward.any() and found.unscored == 0 and found.failures.total() == 4
    assert scores.failed.all() and found.newest.startswith(f"object:same returned {value}")
    assert found.example == ", first for the completion 'right 1' to 'p'"


def test_nan_beside_a_number_leaves_its_function_out(scorer):
    """The sum is TRL's, and NaN is counted. An answer with NaN and None alone has failed."""
    scores = (found := scorer(endless, score)).score(BATCH, STATE)
    assert scores.lost.tolist() == [False, False, True, False] and scores.reward.tolist() == [2, 0, 0, 2]
    assert found.failures.total() == 2 and found.unscored == 0
    scores = (found := scorer(endless, judge)).score(BATCH, STATE)
    assert scores.failed.tolist() == [False, True, True, False] and found.unscored == 0


SHOULD = "; it returns one number, or None, for each of the 2 answers."


@pytest.mark.parametrize(
    ("returned", "rewards"),
    [
        ((1, None), [1.0, None]),
        (np.array([0.5, np.inf]), [0.5, np.inf]),
        ((True, np.float64(2)), [1.0, 2.0]),
        ("good", "'good'" + SHOULD),
        (None, "None" + SHOULD),
        (1.5, "1.5" + SHOULD),
        ({0: 1, 1: 2}, "{0: 1, 1: 2}" + SHOULD),
        ([1], "1 reward" + SHOULD),
        ([1, 2, 3], "3 rewards" + SHOULD),
        ([1, "2"], "'2' as a reward" + SHOULD),
        (np.float32(1), "np.float32(1.0)" + SHOULD),
    ],
)
def test_what_is_no_list_of_rewards_is_said(returned, rewards):
    assert read_rewards(returned, 2) == rewards


def test_a_wrong_return_ends_the_run_at_once(scorer):
    def words(completions):
        return "good"

    with pytest.raises(ForageError, match=r"^The reward function object:words returned 'good'; it returns one number"):
        scorer(words).score(BATCH, STATE)


def test_functions_that_cannot_be_called_are_refused():
    def needs(completions, solution, *, hard=1):
        return []

    known = ["prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"]
    fault = find_fault("mine.py:needs", needs, [*known, "answer"])
    assert fault.endswith("mine.py:needs needs a column 'solution', and the rows have answer beside the prompt.")
    assert find_fault("mine.py:needs", needs, known).endswith("and the rows have prompts alone.")
    assert not find_fault("mine.py:needs", needs, [*known, "solution"])
    assert not find_fault("mine.py:any", lambda **others: [], known)
    assert "by its place" in find_fault("mine.py:f", eval("lambda completions, /: 0"), known)
    assert unique_names(["a.py:score", "b.py:score", "c:other"]) == ["score", "score_2", "other"]


@pytest.mark.parametrize(
    ("rewards", "options", "words"),
    [
        (["score"], {}, "named by its file, as in mine.py:score, or by its module; not 'score'"),
        (["a:b", "a:b"], {}, "named twice"),
        (["a:b"], {"weights": [1, 2]}, "There are 1 reward functions and 2 weights"),
        (["a:b"], {"weights": [float("nan")]}, "finite numbers"),
        (["a:b"], {"seconds": 0}, "more than 0 seconds for a batch, and not 0"),
    ],
)
def test_impossible_scorers_are_refused(rewards, options, words):
    with pytest.raises(ForageError, match=words):
        Scorer(rewards, options.pop("weights", ()), [], **options)


def write_rows(path: Path, rows) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def make_action(environment: TextEnvironment, *answers: str) -> np.ndarray:
    """Return the action of these answers, each with its end but those that fill the response."""
    action = np.zeros((len(answers), environment.answer), np.int32)
    for row, text in zip(action, answers, strict=True):
        tokens = [*environment.tokenizer.encode(text), environment.ends][: environment.answer]
        row[: len(tokens)] = np.array(tokens) + 1
    return action


def test_prompts_of_a_file_are_answered_and_judged(tmp_path, scorer):
    scorer(score, judge, weights=[1, 0.5])
    rows = [{"prompt": f"Compute {n} + 1.", "answer": str(n + 1)} for n in range(10)]
    file, other = write_rows(tmp_path / "p.jsonl", rows), write_rows(tmp_path / "q.jsonl", rows[:3])
    environment = TextEnvironment(
        file, 4, evaluate=other, rewards=["object:score", "object:judge"], reward_weights=[1, 0.5], response=6
    )
    seen = environment.reset(0)
    asked = [environment.tokenizer.decode(row[row > 0] - 1) for row in seen["context"]]
    assert set(asked) <= {row["prompt"] for row in rows} and len(set(asked)) == 4  # as they stand, in a pass over all
    right = [str(int(text.split()[1]) + 1) for text in asked]
    result = environment.step(make_action(environment, right[0], "none", "no", "Compute Compute Compute Compute"))
    assert result.step.reward.tolist() == [1.5, 0, 0.5, 0.5]
    assert result.step.info["reward_score"].tolist() == [1, 0, 0, 0] and result.step.info["unfinished"].tolist() == [
        0,
        0,
        0,
        1,
    ]
    assert np.isnan(result.step.info["reward_judge"][1]) and environment.lost is None
    assert "truth" not in result.step.info and environment.metrics()["unscored"] == 0
    assert "1.5, score 1, judge 1" in str(environment.conversations()[0])
    assert "seen    none" in str(environment.conversations()[1])
    snapshot, after = environment.snapshot(), environment.step(make_action(environment, *"abcd")).observation
    environment.restore(snapshot)
    assert np.array_equal(environment.step(make_action(environment, *"abcd")).observation["context"], after["context"])
    environment.examine()
    environment.reset(1)
    assert {world.row["prompt"] for world in environment.worlds[:3]} == {row["prompt"] for row in rows[:3]}
    assert not TextEnvironment(file, 1).spec.info_names[4:] and is_file(file) and not is_file("addition")
    environment.close()


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, r"^A prompt of p is longer than the context of 3 tokens and is left out\.$"),
        (2, r"^2 prompts of p are longer than the context of 3 tokens and are left out\.$"),
    ],
)
def test_prompts_that_are_too_long_are_told_of(number, words):
    with pytest.warns(Notice, match=words):
        tell_left_out("p", SimpleNamespace(left_out=number), 3)


def test_an_answer_without_a_reward_is_lost_and_its_episode_is_truncated(tmp_path, scorer):
    scorer(judge)
    file = write_rows(tmp_path / "p.jsonl", [{"prompt": [{"role": "user", "content": str(n)}]} for n in range(4)])
    with pytest.raises(ForageError, match="Prompts of messages need a chat template"):
        TextEnvironment(file, 2, rewards="object:judge")
    file = write_rows(tmp_path / "p.jsonl", [{"prompt": f"{n}\n"} for n in range(4)])
    environment = TextEnvironment(file, 2, rewards="object:judge", response=4)
    environment.reset(0)
    with pytest.warns(UserWarning, match="has no reward and leaves its group, as all reward functions returned None"):
        result = environment.step(make_action(environment, "1", "none"))
    assert environment.lost.tolist() == result.step.truncated.tolist() == [False, True]
    assert result.step.terminated.tolist() == [True, False] and result.step.reward.tolist() == [1, 0]
    assert environment.metrics() == {"reward_failures": 0, "unscored": 1, "done": 1}
    assert environment.unjudged is None  # None is a judgement
    assert environment.no_reward.tolist() == [False, True]
    assert environment.no_reward_reason == "all reward functions returned None"
    assert [one.reward for one in environment.conversations()] == [1, None]
    assert str(environment.conversations()[1]).endswith("reward  none, judge none")
    environment.step(make_action(environment, "1", "2"))
    assert environment.lost is None and environment.no_reward is None
    environment.close()


def test_an_evaluation_goes_on_where_functions_fail_on_all_of_its_answers_at_once(tmp_path, scorer):
    """Its answers come in several batches, and others may have a reward."""
    scorer(raises)
    file = write_rows(tmp_path / "p.jsonl", [{"prompt": f"{n}\n"} for n in range(4)])
    environment = TextEnvironment(file, 1, rewards="object:raises", response=4)
    environment.reset(0)
    with pytest.warns(UserWarning, match="has no reward and leaves its group, as"):
        environment.step(make_action(environment, "1"))
    assert environment.unjudged.tolist() == environment.no_reward.tolist() == [True]
    assert environment.unjudged_reason.startswith("the reward function object:raises raised ValueError: always")
    environment.examine()
    environment.reset(0)
    environment.verdicts.kinds.clear()
    with pytest.warns(UserWarning, match="has no reward, as"):
        environment.step(make_action(environment, "1"))
    assert environment.no_reward.tolist() == [True] and "ValueError: always" in environment.no_reward_reason
    environment.close()


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        (
            [{"prompt": "a"}],
            {},
            "has one prompt, so that none can be held out; name rows for evaluation",
        ),
        ([{"text": "a"}], {}, "A policy learns from rows with prompt, and those of .* have text; sft learns"),
        (
            [{"prompt": "abcdefgh " * 9}] * 2,
            {"context": 3, "held_out": 0},
            "Every prompt of .* takes more than",
        ),
        ([{"prompt": "a"}], {"turns": 3}, "and no option turns, which prompts with tools have; leave it out"),
        ([{"prompt": "a"}], {"held_out": 0, "reward_weights": 2.0}, "has no reward functions, which weights are for"),
    ],
)
def test_wrong_rows_and_options_are_refused(tmp_path, rows, options, words):
    with pytest.raises(ForageError, match=words):
        TextEnvironment(write_rows(tmp_path / "p.jsonl", rows), 2, **options)


FILE = """
import os
def hangs(completions):
    while "bad" in completions: pass
    return [1] * len(completions)
def leaves(completions):
    if "bad" in completions: os._exit(3)
    print("loud")
    return [2] * len(completions)
class Judge: pass
"""


@pytest.mark.thorough
def test_a_hang_and_a_crash_cost_an_answer_each(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    mine = f"{tmp_path / 'mine.py'}:"
    found = Scorer([f"{mine}hangs", f"{mine}leaves"], (), ["answer"], seconds=2)
    scores = found.score(BATCH, STATE)
    assert scores.lost.tolist() == [False, False, True, False] and scores.reward.tolist() == [3, 3, 0, 3]
    assert set(found.failures) == {
        "mine.py:hangs gave no rewards within 2 seconds",
        "mine.py:leaves ended its process, with exit code 3",
    }
    process = next(iter(found.callers.values()))[0].process
    found.close()
    assert process is None or process.process.poll() is not None
    with pytest.raises(ForageError, match=r"^mine.py:Judge is a class, and a reward is a function"):
        Scorer([f"{mine}Judge"], (), [])
    with pytest.raises(ForageError, match="has no function or class hang; it has hangs"):
        Scorer([f"{mine}hang"], (), [])


TRL = json.loads((Path(__file__).parent / "data" / "trl_grpo.json").read_text())


def count_letters(completions, answer, **others):
    letters = [len(set(filter(str.isalpha, said))) for said in completions]
    return [float(count - len(one)) for count, one in zip(letters, answer, strict=True)]


def spare_tokens(completion_ids, **others):
    return [None if len(ids) % 2 else -len(ids) / 10 for ids in completion_ids]


def test_a_step_of_trl_has_our_ids_rewards_advantages_and_loss(tmp_path, scorer):
    """Compare with the record of `benchmarks/trl_grpo.py`: a step of TRL's trainer with the loss `dapo`."""
    scorer(count_letters, spare_tokens)
    prompts, answers = (
        [[token for token, there in zip(*pair, strict=True) if there] for pair in zip(*both, strict=True)]
        for both in ((TRL[f"{kind}_ids"], TRL[f"{kind}_mask"]) for kind in ("prompt", "completion"))
    )
    environment = TextEnvironment(
        write_rows(tmp_path / "p.jsonl", TRL["rows"]),
        len(prompts),
        rewards=["object:count_letters", "object:spare_tokens"],
        reward_weights=[1, 0.5],
        response=12,
        held_out=0,
    )
    environment.reset(0)
    action = np.zeros((len(prompts), 12), np.int32)
    for index, (prompt, own) in enumerate(zip(prompts, answers, strict=True)):
        contexts = [environment.begin(index, 0, number)["context"] for number in range(2)]
        (number,) = (n for n, seen in enumerate(contexts) if (seen[seen > 0] - 1).tolist() == prompt)
        environment.begin(index, 0, number)
        action[index, : len(own)] = np.array(own) + 1
    step = environment.step(action).step
    rewards = np.stack([step.info["reward_count_letters"], step.info["reward_spare_tokens"]], 1)
    np.testing.assert_allclose(rewards, np.array(TRL["rewards"], float), rtol=1e-6)
    advantage = np.asarray(group_advantage("grpo", step.reward.reshape(-1, 4))).reshape(-1)
    np.testing.assert_allclose(advantage, TRL["advantages"], atol=1e-5)
    now, mask = np.float32(TRL["log_probability"]), np.array(TRL["completion_mask"], bool)
    loss = policy_loss("clip", now, now, advantage[:, None], mask, "token-mean", None, None)
    np.testing.assert_allclose(loss, TRL["loss"], atol=1e-5)
    environment.close()


@pytest.mark.thorough
def test_a_look_at_prompts_shows_ten_answers_and_the_means(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def none(completions):\n    return [0.25] * len(completions)\n")
    write_rows(Path("p.jsonl"), [{"prompt": f"Compute {n} + 1.\n"} for n in range(3)])
    words = ("evaluate", "forage", "text:p.jsonl", "--rewards", "mine.py:none", "--episodes", "11")
    code, out, err = small.run_command(capsys, *words)
    assert (code, err) == (0, "") and out.count("reward  0.25, none 0.25") == 10
    assert "forage on 11 prompts: reward 0.25, turns 1, tokens " in out and "reward_none 0.25" in out
