"""A verifier that crashes, hangs or returns 7 costs one sample, and the reason is kept."""

from fractions import Fraction

import numpy as np
import pytest
from moody import Moody

from forage.core.errors import ForageError
from forage.environments.text import sets
from forage.environments.text.environment import TextEnvironment
from forage.environments.text.families.addition import Addition
from forage.environments.text.guard import Guard, sound, verify_in_place
from forage.environments.text.opening import family
from forage.environments.text.own.scoring import objects
from forage.environments.text.problems import Verdict


class Own(Addition):
    """A family that declares to be bounded, and is wrong."""

    bounded = True

    def verify(self, problem, text):
        raise ZeroDivisionError("oh")


def test_bad_samples_cost_a_sample_each():
    found = Moody()
    problem = sets.problem_at(found, 1, 0, 0)
    right, begun = found.solution(problem), []
    with Guard(found, seconds=1.0) as guard:
        for word, reason in (
            ("seven", "the verifier returned 7 and no verdict"),
            ("crash", "the verifier raised ValueError: what is this?"),
            ("much", "the verifier returned the truth 1.5, which is no number from 0 to 1"),
            ("exit", "the verifier ended its process, with exit code 3"),
            ("loud", ""),  # what it prints does no harm, and it has a new process
            ("hang", "the verifier gave no verdict within 1 seconds"),
        ):
            expected = Verdict(False, 0.0, reason) if reason else Verdict(True, 1.0)
            begun.append(guard._pool.idle[0].process if guard._pool.idle else None)
            assert guard.verify(problem, f"{word} {right}") == expected
        assert sum(guard.failures.values()) == len(guard.failures) == 5
        begun.append(guard._pool.idle or None)
    assert len(set(begun)) == 3 and begun[-1] is None  # two processes, and none is left
    assert all(process.poll() is not None for process in begun if process)


def test_bounded_families_are_verified_here():
    problem = sets.problem_at(family("addition"), 1, 0, 0)
    guard = Guard(family("addition"))
    assert guard._pool is None and guard.verify(problem, problem.answer) == Verdict(False, 0.0)
    assert Guard(Own()).verify(problem, "") == Verdict(False, 0.0, "the verifier raised ZeroDivisionError: oh")
    assert verify_in_place(Own(), problem, "").failure


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, "returned None and no verdict"),
        ((True, 1.0), "and no verdict"),
        (Verdict(True, float("nan")), "truth nan"),
        (Verdict(True, -0.1), "truth -0.1"),
        (Verdict(True, "1"), "truth '1'"),
        (Verdict(1, 1.0), "format 1"),
        (Verdict(True, 1.0, None), "format True"),
    ],
)
def test_only_sound_verdicts_pass(found, reason):
    verdict = sound(found)
    assert (verdict.format, verdict.truth) == (False, 0.0) and reason in verdict.failure
    assert sound(Verdict(False, 0.25)) == Verdict(False, 0.25) == sound((False, 0.25, ""))


@pytest.mark.parametrize(
    "says",
    [
        Verdict(True, True),
        Verdict(True, 1),
        *(Verdict(True, kind(1)) for kind in (np.float16, np.float32, np.float64, np.int8, np.bool_, np.array)),
        Verdict(True, Fraction(1)),
        Verdict(np.bool_(True), 1.0),
        Verdict(np.array(True), np.array(1.0)),
    ],
)
def test_numbers_of_any_kind_are_numbers_and_truth_values_are(says):
    assert sound(says) == Verdict(True, 1.0)
    assert [type(value) for value in sound(says)] == [bool, float, str]


def test_what_cannot_be_sent_is_refused_at_once():
    class Local(Addition):
        bounded = False

    with pytest.raises(ForageError, match="'addition' cannot be sent to a process of its own"):
        Guard(Local())
    with pytest.raises(ForageError, match="more than 0 seconds"):
        Guard(family("addition"), seconds=0)


@pytest.mark.filterwarnings("ignore:An answer in .* could not be judged:UserWarning")
def test_answers_without_a_finite_verdict_are_told_of(monkeypatch):
    """And not errors of a verifier, as they may be due to the answers."""
    environment = TextEnvironment("addition", 2)
    action = environment.reset(0)["reference"]
    returned = [Verdict(True, float("nan")), Verdict(True, 1.0)]
    monkeypatch.setattr(Addition, "verify", lambda family, problem, text: returned.pop())
    assert environment.step(action).step.reward.tolist() == [1, 0]
    assert environment.unjudged.tolist() == [False, True]
    assert environment.unjudged_reason.startswith("the verifier returned the truth nan")

    def fail(family, problem, text):
        raise KeyError

    monkeypatch.setattr(Addition, "verify", fail)
    environment.step(action)
    assert environment.unjudged is None
    environment.close()


@pytest.mark.filterwarnings("ignore:An answer in .* could not be judged:UserWarning")
@pytest.mark.parametrize("turn", [TextEnvironment.examine, TextEnvironment.judge_singly])
def test_outside_of_training_an_answer_with_a_verdict_that_is_no_number_has_no_reward(monkeypatch, turn):
    environment = TextEnvironment("addition", 2)
    turn(environment)
    action = environment.reset(0)["reference"]
    returned = [Verdict(True, float("nan")), Verdict(True, 1.0)]
    monkeypatch.setattr(Addition, "verify", lambda family, problem, text: returned.pop())
    step = environment.step(action).step
    assert environment.no_reward.tolist() == step.truncated.tolist() == [False, True]
    assert step.terminated.tolist() == [True, False]
    np.testing.assert_array_equal(step.info["truth"], [1, np.nan])
    assert [one.reward for one in environment.conversations()] == [1, None]
    assert str(environment.conversations()[1]).endswith("which is no number from 0 to 1")
    monkeypatch.setattr(Addition, "verify", lambda family, problem, text: Verdict(True, float("inf")))
    environment.step(action)
    assert environment.no_reward.all()
    assert environment.no_reward_reason.startswith("the verifier returned the truth inf")
    environment.close()


def test_verdicts_count_for_nothing_beside_reward_functions(monkeypatch, recwarn):
    monkeypatch.setitem(objects, "object:long", long)
    monkeypatch.setattr(Addition, "verify", lambda family, problem, text: Verdict(True, float("nan")))
    environment = TextEnvironment("addition", 2, rewards="object:long")
    step = environment.step(environment.reset(0)["reference"]).step
    assert step.reward.tolist() == [7, 7] and not [one for one in recwarn if "judged" in str(one.message)]
    environment.close()


def long(completions):
    return [7.0] * len(completions)
