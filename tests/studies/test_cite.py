"""Citations: the entry of the software, the sentence of a run, and the papers of its parts."""

import pytest
import small

from forage.studies import cite

ROOT = small.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    import forage

    directory = tmp_path_factory.mktemp("cite") / "run"
    forage.train(
        "ppo",
        "CartPole-v1",
        steps=64,
        seeds=2,
        agent_options=small.PPO,
        evaluation_episodes=2,
        display="quiet",
        directory=directory,
    )
    return directory


def test_a_run_is_cited_with_its_number_and_its_papers(run, capsys):
    code, said, _ = small.run_command(capsys, "cite", run)
    assert code == 0
    entry, sentence, papers = said.strip().split("\n\n")
    made = cite.read_json(run / "versions.json")
    assert entry.startswith("@software{forage,\n") and entry.endswith("\n}") and entry.count("{") == entry.count("}")
    assert f"version = {{{made['forage']}}}" in entry and f"year = {{{made['date'][:4]}}}" in entry
    assert f"code {made['code']}" in entry
    assert sentence.startswith("After 64 steps ppo reaches a return of ") and "on CartPole-v1 (" in sentence
    assert [line.partition(":")[0] for line in papers.splitlines()[1:]] == ["ppo"]
    assert '"Proximal Policy Optimization Algorithms", arXiv 1707.06347' in papers


def test_without_a_run_the_version_here_is_cited(capsys):
    code, said, _ = small.run_command(capsys, "cite")
    assert code == 0 and said.startswith("@software{forage,\n") and "version = {" in said and "After" not in said


def test_what_cannot_be_cited_is_said(tmp_path, capsys):
    for words, said in (
        ([tmp_path], "is not a run: it has no config.json"),
        (["a", "b"], "forage cite takes one run's directory, or none"),
        ([tmp_path, "--format", "apa"], "forage cite has no option '--format'"),
    ):
        code, _, error = small.run_command(capsys, "cite", *words)
        assert code == 2 and said in error


def test_the_citation_file_says_the_same():
    text = (ROOT / "CITATION.cff").read_text()
    assert f'title: "{cite.TITLE}"' in text and f'name: "{cite.AUTHOR}"' in text


def test_parts_within_others_are_found_and_those_without_a_paper_left_out():
    config = {"agent": {"part": "dqn"}, "rewards": {"part": "rnd", "options": {"inner": {"part": "environment"}}}}
    assert list(cite.parts_of(config)) == ["dqn", "rnd", "environment"]
    assert list(cite.sources(config | {"memory": {"part": "/gone.py:Mine"}})) == ["dqn", "rnd"]
