"""Claims of papers: their measures, and the parts whose pages show them."""

import numpy as np
import small

from forage.environments.text.families.addition import Addition
from forage.environments.text.sets import problem_at
from forage.studies.claims import names, of_part, running
from forage.studies.claims.claim import late
from forage.studies.claims.rows import find_rows, rows_about, select_rows
from forage_papers.claims import language

small.keep_compiled()


def test_a_measure_is_told_from_others_by_what_it_says():
    from forage_papers.claims import policy_gradient as lengths

    assert running.recipe(late("q", 0.5)) == running.recipe(late("q", 0.5))
    assert running.recipe(late("q", 0.5)) != running.recipe(late("q", 0.1))
    assert str(lengths.LENGTHS) in running.recipe(lengths.return_outside)


def test_parts_have_the_claims_that_list_them():
    of_ppo = ["bang-bang", "central-critic", "gae-lambda", "lstm", "ppo-clip", "ppo-epochs", "recurrence"]
    assert list(of_part("ppo")) == of_ppo
    assert list(of_part("iql")) == ["iql", "action-free", "transported-rewards"]  # its own name first
    assert list(of_part("rlpd")) == list(of_part("mixed")) == ["rlpd"] and of_part("nobody") == {}
    for part in ("ppo", "mixed"):
        assert rows_about(part) == select_rows(find_rows(), part), part


def test_a_row_of_each_kind():
    """Values that are named, called, repeated, merged from every arm, of a run before, and parts within options."""
    assert len(names()) == len(find_rows()) >= 195
    claim = running.load_claim("cal-ql")
    arm = claim.arms["after Cal-QL"]
    assert arm.agent == "sac" and arm.options["value_sizes"] == (64, 64) and arm.options["learning_starts"] == 128
    assert (arm.before.agent, arm.before.steps, arm.before.options["samples"]) == ("cal-ql", 4000, 4)
    assert claim.arms["after CQL"].before.agent == "cql" and claim.baselines == ("after CQL",)
    row = find_rows()["cal-ql"].table
    played = {"call": "play_rule", "environment": "Pendulum-v1", "rule": {"function": "swing_up"}}
    assert row["every_arm"]["memory"]["data"] == [played | {"random": {"repeat": [[20, 0.5]]}}]
    assert running.load_claim("recurrence").laptop.seeds and running.load_claim("few-seeds").laptop.seeds == tuple(
        range(1000, 1100)
    )
    assert running.load_claim("time-limits").environment().limit == 20


def test_sums_with_carries_forgotten_and_columns_repeated() -> None:
    family, generator = Addition(), np.random.default_rng(0)
    for level in range(3):
        problem = problem_at(family, level, 0, 5)
        said = language.careless_sum(problem.data["left"], problem.data["right"], generator, 0.0)
        assert said == family.solution(problem)
    said = language.careless_sum(58, 89, generator, 1.0)
    assert said == "8+9=17, 5+8=13. <answer>137</answer>" == language.repeat_columns(said, generator, 0.0)
    twice = "8+9=17, 8+9=17, 5+8=13, 5+8=13. <answer>137</answer>"
    assert language.repeat_columns(said, generator, 1.0) == twice


def test_options_that_are_made_reach_the_run_before(monkeypatch, tmp_path):
    claim, asked = running.load_claim("habits"), []
    arm = claim.arms["no reasoning"]
    before = arm.before._replace(options={"learning_rate": 0.1}, parts=lambda: {"agent_options": {"model": "made"}})
    claim = claim._replace(arms={"it": arm._replace(before=before, parts=dict)})
    monkeypatch.setattr(running, "load_or_train", lambda *given, **words: asked.append(words))
    running.arm_words(claim, "it", claim.smoke, "smoke", tmp_path / "it", "quiet")
    assert [words["agent_options"] for words in asked] == [{"learning_rate": 0.1, "model": "made"}]
