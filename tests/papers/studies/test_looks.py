"""Claims that take seeds until they are decided: seeds, joined results, verdicts, budgets and their refusals."""

import json

import numpy as np
import pytest
import small

from forage.core.errors import ForageError
from forage.studies.claims import looks, running
from forage.studies.claims.claim import Effect, Rule, effects, exclusion_sentences, join_verdicts

NAME = "gae-lambda"
ARMS = ("lambda 0", "lambda 0.95", "lambda 1")


@pytest.fixture
def looker(monkeypatch, tmp_path):
    """Replace the training of arms by made-up scores: normal with deviation 1 around the means of the arms."""
    ran = []
    claim = running.load_claim(NAME)._replace(reach=None)
    monkeypatch.setattr(running, "load_claim", lambda name: claim)

    def play(means, first=None):
        def run(name, scale, directory, display, seeds):
            ran.append(seeds)
            random = np.random.default_rng(seeds[0])
            arms = {
                label: {
                    "values": (mean + random.normal(size=len(seeds))).tolist(),
                    "seconds": 1.0,
                    "curve": {"steps": [1, 2], "return": [[0.0, mean]] * len(seeds)},
                    "steps": 2,
                }
                for label, mean in zip(ARMS, means, strict=True)
            }
            about = {"claim": name, "statement": "One is better.", "measured": "return", "environment": "Pendulum-v1"}
            about |= {"treatment": "lambda 0.95", "steps": 2, "date": "2026-11-29", "versions": {"code": "x"}}
            return about | {"arms": arms, "seeds": list(seeds), "seconds": 2.0 * len(seeds), "ran": {"commit": "c"}}

        monkeypatch.setattr(running, "run", run)
        monkeypatch.setattr(looks, "draw_claim", lambda *_: None)
        monkeypatch.setattr(looks, "first_look", lambda name, claim: first)
        return lambda budget=1e6: looks.decide(NAME, budget, tmp_path, "quiet")

    play.ran = ran
    return play


def test_a_large_effect_is_decided_at_the_first_look(looker):
    result = looker((0.0, 30.0, 0.0))()
    assert looker.ran == [tuple(range(10_000, 10_005))] and result["verdict"] == "holds"
    assert result["rule"]["looks"] == 5 and [one["seeds"] for one in result["looks"]] == [[*range(10_000, 10_005)]]


def test_seeds_are_doubled_and_joined_until_a_small_effect_is_decided(looker):
    result = looker((0.0, 1.0, 0.0))()
    sizes = [len(seeds) for seeds in looker.ran]
    assert sizes == [5, 5, 10, 20, 40][: len(sizes)] and len(sizes) > 1
    seeds = [seed for look in looker.ran for seed in look]
    assert result["seeds"] == seeds == list(range(10_000, 10_000 + sum(sizes)))
    assert len(result["arms"]["lambda 1"]["values"]) == len(result["arms"]["lambda 1"]["curve"]["return"]) == len(seeds)
    assert result["seconds"] == 2.0 * len(seeds) and result["verdict"] == "holds"


def test_a_published_result_is_the_first_look(looker):
    begun = looker((0.0, 0.5, 0.0))(budget=15)
    assert begun["verdict"] == "undecided" and len(looker.ran) == 1
    first = begun | {"seeds": [*range(1000, 1005)], "looks": [begun["looks"][0] | {"seeds": [*range(1000, 1005)]}]}
    result = looker((0.0, 30.0, 0.0), first=first)()
    assert looker.ran[1] == tuple(range(10_000, 10_005))
    assert result["seeds"] == [*range(1000, 1005), *range(10_000, 10_000 + len(result["seeds"]) - 5)]


def test_a_published_result_that_is_decided_is_stored_as_a_look(looker, tmp_path):
    first = looker((0.0, 30.0, 0.0))()
    (tmp_path / "result.json").unlink()
    assert looker((0.0, 30.0, 0.0), first=first)() == first and len(looker.ran) == 1
    assert json.loads((tmp_path / "result.json").read_text()) == first


def test_looks_end_with_the_budget_or_the_fifth(looker):
    assert len(looker((0.0, 0.01, 0.0))(budget=79)["looks"]) == 3  # of 10, 20 and 40 seconds; the next is 80
    assert len(looker((0.0, 0.01, 0.0))()["looks"]) == 5
    with pytest.raises(ForageError, match="number of seconds above 0"):
        looks.decide(NAME, 0.0)


def test_no_difference_is_a_verdict_where_the_scale_is_known(looker, monkeypatch):
    claim = running.load_claim(NAME)._replace(reach=(-500.0, 500.0))
    monkeypatch.setattr(running, "load_claim", lambda name: claim)
    result = looker((0.0, 0.01, 0.0))()
    assert result["verdict"] == "no difference" and result["rule"]["same"] == 100.0 and len(result["looks"]) == 1
    (said, *_) = exclusion_sentences(result, claim.reach)
    assert "of all there is to learn" in said and "better by more than" in said


def test_no_seeds_are_added_where_all_arms_are_at_the_same_end(looker, monkeypatch):
    claim = running.load_claim(NAME)._replace(reach=(0.0, 1000.0))
    monkeypatch.setattr(running, "load_claim", lambda name: claim)
    result = looker((0.0, 30.0, 0.0))()
    assert result["verdict"] == "undecided" and looker.ran == [tuple(range(10_000, 10_005))]


def test_verdicts_of_one_interval():
    rule = Rule(same=2.0)
    assert [rule.verdict(*ends) for ends in ((1, 3), (-3, -1), (-1.9, 1.9), (-2.1, 1), (0.1, 1))] == [
        "holds", "fails", "no difference", "undecided", "holds",
    ]  # fmt: skip
    assert Rule(margin=-1.0, same=2.0).verdict(-1.5, 1) == "undecided"
    said = lambda *words: join_verdicts([Effect("x", 0, 0, 0, word) for word in words])  # noqa: E731
    assert said("holds", "no difference") == "no difference" and said("no difference", "undecided") == "undecided"


def test_a_claims_own_judge_gets_the_confidence_of_a_look():
    claim = running.load_claim(NAME)
    given = []
    judge = lambda values, rule: given.append(rule) or [Effect("x", 0, 0, 0, "holds")]  # noqa: E731
    effects(claim._replace(judge=judge, rule=looks.look_rule(claim)), {})
    assert given[0].confidence == pytest.approx(0.98702, abs=1e-5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "60"), "--until-decided"),
        (("--until-decided", "--scale", "smoke"), "leave --scale out"),
        (("--until-decided", "--budget", "soon"), "budget"),
    ],
)
def test_wrong_words_for_looks(capsys, words, said):
    code, _, error = small.run_command(capsys, "claim", NAME, *words)
    assert code == 2 and said in error
