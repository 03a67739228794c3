"""Our own data sets: tiers and their manifest, reuse of existing files, a file's contents, and normalised scores."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import small
from gymnasium.spaces import Box, MultiDiscrete

from forage.cli import entry
from forage.config.resolve import resolve
from forage.core import prng, spaces
from forage.core.errors import RunInterrupted
from forage.core.types import ForageError
from forage.data import files
from forage.data.logged import Transitions
from forage.evaluation.statistics import Score
from forage.runs import training
from forage.runs.run import Run, normalise_score
from forage.studies.datasets import TIERS, make, show_data_set
from forage.studies.datasets.make import Makers
from forage.studies.datasets.manifest import Manifest, histogram, read_manifest
from forage.studies.datasets.show import entries_in, number_faults
from forage.studies.record import actor

small.keep_compiled()
OPTIONS = {"num_envs": 8, "rollout_length": 32, "minibatches": 4, "epochs": 4, "hidden_sizes": (32,)}
OPTIONS |= {"learning_rate": 5e-3}
WORDS = {"steps": 300, "agent": "ppo", "agent_options": OPTIONS, "train_steps": 12_000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """All tiers of a small CartPole agent."""
    path = tmp_path_factory.mktemp("data") / "cartpole"
    make("CartPole-v1", output=path, **WORDS)
    return path


@pytest.mark.thorough
def test_each_tier_is_what_its_name_says(folder):
    data = read_manifest(folder)
    assert list(data["sets"]) == list(TIERS) and data["versions"]["git"] is not None
    policies, ends = data["policies"], data["ends"]
    assert policies["random"]["normalised"] == 0 and policies["expert"]["normalised"] == 1
    assert 0.15 <= policies["medium"]["normalised"] <= 0.85
    assert 0 < policies["medium"]["step"] < policies["expert"]["step"] <= data["training"]["steps"]
    assert 15 < ends["random"] < 30 < ends["expert"]  # random actions hold the pole for 22 steps
    for name, one in data["sets"].items():
        found, header = files.read_data(folder / one["file"])
        assert header["ends"] == ends and header["tier"] == name
        assert one["sha256"] == files.file_hash(folder / one["file"])
        assert found.transitions == one["transitions"] == (policies["medium"]["step"] if "replay" in name else 300)
        assert sum(one["returns"]["count"]) <= found.episodes
    mixed, _ = files.read_data(folder / "mixed.npz")
    returns = mixed.lengths
    half = np.searchsorted(np.cumsum(returns), 150) + 1
    assert returns[:half].mean() < returns[half:].max()  # the first half by random actions, the other by the expert


@pytest.mark.thorough
def test_the_replay_is_what_the_run_lived_through(folder):
    """Its transitions are those of a run without a recording, in the order of each environment."""
    found, _ = files.read_data(folder / "medium-replay.npz")
    setup = resolve("ppo", "CartPole-v1", steps=12_000, seeds=[0], agent_options=OPTIONS)
    runner = setup.runner()
    runner.begin()
    first = runner.next_rollout()
    per_env = found.transitions // 8
    seen = found.observation.reshape(8, per_env, 4)[:, :32]
    np.testing.assert_allclose(seen, first.observation[0].swapaxes(0, 1), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.action.reshape(8, per_env)[:, :32], first.action[0].T)
    ends = np.arange(1, 9) * per_env - 1
    assert (found.terminated | found.truncated)[ends].all()  # each environment's last episode is cut there


@pytest.mark.thorough
def test_what_is_made_is_not_made_again(folder, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*.npz")}
    make("CartPole-v1", output=copy, **WORDS)
    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*.npz")} == before
    (copy / "random.npz").unlink()
    said = []
    make("CartPole-v1", output=copy, say=said.append, **WORDS)
    assert [line.split(":")[0] for line in said] == ["Training ppo on CartPole-v1 for 12,000 steps.", "random"]
    after, theirs = (files.read_data(path / "random.npz")[0] for path in (copy, folder))
    np.testing.assert_array_equal(after.observation, theirs.observation)
    with pytest.raises(ForageError, match="holds data sets made with steps 300, and now it is to be 200"):
        make("CartPole-v1", output=copy, **(WORDS | {"steps": 200}))


def test_a_set_without_its_validation_part_is_made_again(tmp_path):
    manifest, held_out = Manifest(tmp_path, {}, {}), tmp_path / "random-validation.npz"
    for path in (tmp_path / "random.npz", held_out):
        path.write_bytes(path.name.encode())
    parts = [{"file": path.name, "sha256": files.file_hash(path)} for path in (tmp_path / "random.npz", held_out)]
    assert not manifest.is_made("random")
    manifest.data["sets"]["random"] = parts[0]
    assert manifest.is_made("random")
    manifest.data["sets"]["random"] = parts[0] | {"validation": parts[1]}
    assert manifest.is_made("random")
    held_out.write_bytes(b"other")
    assert not manifest.is_made("random")
    held_out.unlink()
    assert not manifest.is_made("random")


@pytest.mark.thorough
def test_narrow_data_is_greedy_but_for_its_noise(folder):
    data = read_manifest(folder)
    setup = resolve("ppo", "CartPole-v1", steps=12_000, seeds=[0], agent_options=OPTIONS, evaluation_actions="greedy")
    manifest = type("Fake", (), {"data": data, "folder": folder})()
    makers = Makers(Run(folder / "agent"), setup, manifest, 300, 0, None, 0.0)
    policy = makers.policy(data["policies"]["medium"]["step"])
    count = 2000
    observation = np.tile(np.float32([0.0, 0.1, 0.01, 0.1]), (count, 1))
    probability = float(np.asarray(policy.agent.probabilities(policy.state, observation[0], explore=True)).max())
    shares = {}
    for noise in (0.0, 0.5, 1.0):
        action, _, _ = actor(policy, noise)(
            policy.state, (), (), observation, np.zeros(count, bool), np.ones(count, bool), prng.key(0)
        )
        shares[noise] = (np.asarray(action) == np.bincount(action).argmax()).mean()
    assert shares[0.0] == 1
    for noise in (0.5, 1.0):
        assert shares[noise] == pytest.approx(1 - noise * (1 - probability), abs=0.05)


@pytest.mark.thorough
def test_the_validation_part_of_a_replay_has_other_episodes(folder):
    """Its episodes are divided: none is in both parts, and together they are all."""
    whole, _ = files.read_data(folder / "medium-replay.npz")
    setup = resolve("ppo", "CartPole-v1", steps=12_000, seeds=[0], agent_options=OPTIONS)
    manifest = type("Fake", (), {"data": read_manifest(folder), "folder": folder})()
    (train, held), returns, _ = Makers(Run(folder / "agent"), setup, manifest, 300, 0, None, 0.25).replay()
    assert held.episodes == round(0.25 * whole.episodes) and train.episodes + held.episodes == whole.episodes
    assert sorted([*train.lengths, *held.lengths]) == sorted(whole.lengths)
    rows = [{row.tobytes() for row in part.observation} for part in (train, held)]
    assert not rows[0] & rows[1]
    assert all(len(part) <= found.episodes for part, found in zip(returns, (train, held), strict=True))


@pytest.mark.thorough
def test_narrow_sets_have_a_validation_part(folder, tmp_path):
    copy = tmp_path / "narrow"
    data = make("CartPole-v1", tiers=["expert"], output=copy, narrow=True, **WORDS)
    assert data["asked"]["noise"] == 0.2 and data["policies"]["expert"]["actions"] == "greedy"
    one = data["sets"]["expert"]
    assert one["transitions"] == 300 and one["validation"]["transitions"] == 30
    train, held = (files.read_data(copy / f"expert{part}.npz")[0] for part in ("", "-validation"))
    seen = {row.tobytes() for row in train.observation}
    assert not any(row.tobytes() in seen for row in held.observation)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"tiers": ["mediun"]}, "There is no tier 'mediun'. Did you mean 'medium'"),
        ({"tiers": ["random", "random"]}, "Name each tier once"),
        ({"steps": 1}, "has 2 transitions or more, not 1"),
        ({"noise": 0.1}, "add --narrow"),
        ({"narrow": True, "noise": 1.5}, "from 0 to 1, and was 1.5"),
        ({"validation": -0.1}, "from 0 to 1, and was -0.1"),
        ({"agent": "bc"}, "bc does not learn step by step"),
        ({"agent": "open-es"}, "open-es does not learn step by step"),
    ],
)
def test_what_is_refused(words, said, tmp_path):
    with pytest.raises(ForageError, match=re.escape(said)):
        make("CartPole-v1", output=tmp_path / "data", **words)
    assert not (tmp_path / "data").exists()


def test_whoever_stops_it_is_told_how_it_goes_on(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise RunInterrupted("Stopped by Ctrl-C at step 64. Continue with: forage resume somewhere")

    monkeypatch.setattr(training, "train_or_resume", stop)
    with pytest.raises(RunInterrupted, match=r"at step 64\. Continue with the same forage data make, which goes on"):
        make("CartPole-v1", output=tmp_path / "sets", **WORDS)


def test_environments_that_cannot_be_recorded_are_refused(tmp_path):
    with pytest.raises(ForageError, match=r"is played against an opponent|has 2 agents"):
        make("boards:TicTacToe", agent="ppo", output=tmp_path / "data")
    with pytest.raises(ForageError, match="has several rewards"):
        make("DeepSeaTreasure-v0", agent="ppo", output=tmp_path / "data")


@pytest.mark.thorough
def test_an_agent_that_learned_nothing_is_no_expert(tmp_path):
    words = {"agent": "ppo", "agent_options": OPTIONS | {"learning_rate": 0.0}, "train_steps": 512}
    with pytest.raises(ForageError, match=r"so there is no (expert|medium)"):
        make("Acrobot-v1", steps=10, output=tmp_path / "data", **words)


# Looking at a file

GOOD = {
    "observation": np.linspace(0, 1, 12, dtype=np.float32).reshape(6, 2),
    "action": np.float32([[-2], [-1], [0], [1], [2], [2]]),
    "reward": np.arange(6.0),
    "terminated": np.array([0, 0, 1, 0, 0, 0], bool),
    "truncated": np.array([0, 0, 0, 0, 0, 1], bool),
    "episode": np.array([0, 0, 0, 1, 1, 1]),
}
GOOD["next_observation"] = np.roll(GOOD["observation"], -1, 0)


def write(path, header=(), horizon=None, **changes):
    spec = {"name": "Two", "horizon": horizon} | {
        name: spaces.to_json(Box(low, high, shape, np.float32))
        for name, low, high, shape in (("observation_space", 0, 1, (2,)), ("action_space", -2, 2, (1,)))
    }
    text = json.dumps({"format": files.FORMAT, "spec": spec} | dict(header))
    arrays = {name: array for name, array in (GOOD | changes).items() if array is not None}
    np.savez(path, header=np.array(text), **arrays)
    return path


def change(name, *places, value):
    array = GOOD[name].copy()
    array[places] = value
    return {name: array}


def test_a_good_file_by_hand(tmp_path):
    found = show_data_set(write(tmp_path / "a.npz", {"ends": {"random": 1.0, "expert": 11.0}}))
    assert found.faults == [] and found.transitions == 6 and (found.truncated, found.cut) == (1, 0)
    assert found.returns.tolist() == [3.0, 12.0] and found.lengths.tolist() == [3, 3]
    (action,) = found.actions
    assert (action.low, action.high, action.at_bounds) == (-2, 2, 0.5)
    assert action.covered == 5 / 20  # five of twenty cells between the bounds
    assert [entry.covered for entry in found.observations] == [6 / 20, 6 / 20] and found.different == 6
    assert found.data()["normalised"] == pytest.approx(0.65)
    assert "normalised 0.650" in str(found) and "faults     none" in str(found)


def test_episodes_cut_before_the_time_limit_do_not_count(tmp_path):
    path = write(tmp_path / "a.npz", horizon=4)
    found = show_data_set(path)
    assert found.returns.tolist() == [3.0] and found.lengths.tolist() == [3, 3] and found.cut == 1
    assert "1 are cut short" in str(found)
    assert show_data_set(write(tmp_path / "b.npz", horizon=3)).returns.tolist() == [3.0, 12.0]


FAULTS = [
    (change("action", 4, value=2.5), "action is outside its bounds in 1 rows, first in row 4"),
    (change("observation", 3, value=np.nan), "observation is NaN in 1 rows, first in row 3"),
    (change("observation", 3, value=7), "observation is outside its bounds in 1 rows, first in row 3"),
    (change("reward", 2, value=np.inf), "reward is infinite in 1 rows, first in row 2"),
    (change("truncated", 5, value=False), "the last episode has no end in 1 rows, first in row 5"),
    (change("truncated", 2, value=True), "both terminated and truncated are true in 1 rows, first in row 2"),
    (
        {"terminated": np.zeros(6, bool), "truncated": np.zeros(6, bool)},
        "no transition is terminated or truncated, so nobody knows where episodes end",
    ),
    (change("terminated", 2, value=False), "an episode is over by its number, but neither terminated nor truncated"),
    (change("terminated", 0, value=True), "an episode goes on after its end in 1 rows, first in row 0"),
    ({"terminated": None}, "there is no array terminated, so it counts as false everywhere"),
    (
        change("next_observation", 0, value=0.5),
        "next_observation is not what the following transition observes in 1 rows, first in row 0",
    ),
]


@pytest.mark.parametrize(("changes", "said"), FAULTS, ids=[said for _, said in FAULTS])
def test_each_fault_is_found_with_its_first_row(changes, said, tmp_path):
    found = show_data_set(write(tmp_path / "a.npz", **changes))
    assert any(str(fault).startswith(said) for fault in found.faults), [str(fault) for fault in found.faults]


def test_discrete_actions_outside_their_numbers(tmp_path):
    path = tmp_path / "a.npz"
    setup = resolve("ppo", "CartPole-v1", seeds=1)
    zeros = np.zeros((3, 4), np.float32)
    files.write_data(
        path,
        Transitions(zeros, np.array([0, 1, 2]), np.ones(3), zeros, np.zeros(3, bool), np.array([False, False, True])),
        {"spec": setup.config()["spec"]},
    )
    found = show_data_set(path)
    assert [str(fault) for fault in found.faults] == [
        "action is none of the 2 numbers of its space in 1 rows, first in row 2"
    ]
    assert found.actions[0].covered == 1 and found.different == 1


def test_numbers_of_several_choices_begin_where_their_space_does():
    space, faults = MultiDiscrete([3, 2], start=[4, 4]), []
    number_faults("action", np.array([[4, 5], [6, 4]]), space, faults)
    assert faults == [] and [one.covered for one in entries_in("action", np.array([[4, 5], [6, 4]]), space)] == [
        2 / 3,
        1,
    ]
    number_faults("action", np.array([[4, 5], [6, 6], [3, 4]]), space, faults)
    assert [str(fault) for fault in faults] == ["action is outside its numbers in 2 rows, first in row 1"]


def test_what_is_no_data_set_is_refused(tmp_path):
    def check_refused(said, path, **options):
        with pytest.raises(ForageError, match=said):
            show_data_set(path, **options)

    check_refused("There is no data set", tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    check_refused("has no header of a data set", tmp_path / "other.npz")
    good = write(tmp_path / "good.npz")
    cut = tmp_path / "cut.npz"
    cut.write_bytes(good.read_bytes()[:-300])
    check_refused("is not a whole data set", cut)
    check_refused("has no array action", write(tmp_path / "a.npz", action=None))
    check_refused(
        "action has shape .5, 1., and there are 6 rewards", write(tmp_path / "b.npz", action=GOOD["action"][1:])
    )
    check_refused("A page is an .html file", good, page=tmp_path / "page.txt")


def test_the_page_holds_the_picture_and_the_faults(tmp_path):
    path = write(tmp_path / "a.npz", **change("action", 4, value=2.5))
    found = show_data_set(path, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "action is outside its bounds" in text and "data:image/png;base64," in text
    assert (tmp_path / "page.png").read_bytes()[:4] == b"\x89PNG" and found.page in str(found)
    assert not re.search(r'(src|href)="http', text)  # it needs no network


def test_the_histogram_counts_every_episode():
    found = histogram([0.0, 1.0, 1.0, 2.0])
    assert sum(found["count"]) == 4 and found["edges"][0] == 0 and found["edges"][-1] == 2
    assert histogram([]) == {"count": [], "edges": []}


# Normalised scores


def test_a_normalised_score_by_hand():
    found = normalise_score(Score(60.0, 40.0, 80.0, seeds=5), {"random": 20.0, "expert": 120.0})
    assert (found.value, found.low, found.high, found.seeds) == (0.4, 0.2, 0.6, 5)
    assert normalise_score(Score(20.0, None, None, seeds=1), {"random": 20.0, "expert": 120.0}).low is None


@pytest.mark.thorough
def test_a_run_from_made_data_has_a_normalised_score(folder, tmp_path, capsys):
    words = {"steps": 10, "seeds": 2, "evaluation_episodes": 2, "display": "quiet"}
    options = {"hidden_sizes": (8,), "batch_size": 4}
    run = training.train(
        "bc", "CartPole-v1", data=folder / "expert.npz", directory=tmp_path / "run", agent_options=options, **words
    )
    ends = read_manifest(folder)["ends"]
    assert run.config["ends"] == ends
    wanted = (run.score.value - ends["random"]) / (ends["expert"] - ends["random"])
    assert run.normalised_scores[""].value == pytest.approx(wanted)
    with pytest.raises(SystemExit) as ended:
        entry.main(["evaluate", str(run.directory), "--episodes", "2", "--json"])
    assert ended.value.code == 0
    said = json.loads(capsys.readouterr().out)
    assert said["normalised"]["score"] == pytest.approx(
        (said["score"] - ends["random"]) / (ends["expert"] - ends["random"])
    )
    with pytest.raises(SystemExit):
        entry.main(["evaluate", str(run.directory), "--episodes", "2"])
    assert re.search(r"normalised -?\d.*0 is random actions", capsys.readouterr().out)
    other = training.train(  # with other physics the ends are not known
        "bc",
        "CartPole-v1",
        data=folder / "expert.npz",
        directory=tmp_path / "other",
        agent_options=options,
        environment_options={"length": 1.0},
        **words,
    )
    assert "ends" not in other.config and other.normalised_scores is None


# The command


def run_commands(*words):
    with pytest.raises(SystemExit) as ended:
        entry.main(["data", *words])
    return ended.value.code


@pytest.mark.thorough
def test_the_command_shows_and_refuses(folder, tmp_path, capsys):
    run = str(folder / "agent")
    assert run_commands("show", str(folder / "random.npz"), "--page", str(tmp_path / "a.html")) == 0
    out = capsys.readouterr().out
    assert "300 transitions of CartPole-v1, random" in out and "faults     none" in out
    assert run_commands("show", str(folder / "random.npz"), "--json") == 0
    assert json.loads(capsys.readouterr().out)["tier"] == "random"
    for words, said in (
        (("mak", "CartPole-v1"), "Did you mean 'make'?"),
        (("show",), "takes a file"),
        (("show", str(tmp_path / "none.npz")), "There is no data set"),
        (("make", "CartPole-v1", "--tiers", "good"), "There is no tier 'good'"),
        (("make", "CartPole-v1", "--agent.epochs", "3"), "needs --agent NAME too"),
        (("make", "CartPole-v1", "--stepz", "3"), "--stepz"),
        (
            ("record", str(folder / "agent"), "--steps", "5", "--output", "a.npz", "--checkpoint", "7"),
            "no checkpoint 7",
        ),
    ):
        assert run_commands(*words) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    made = Path(tmp_path / "best.npz")
    step = str(read_manifest(folder)["policies"]["expert"]["step"])
    words = ("--steps", "20", "--output", str(made), "--checkpoint", step, "--quiet")
    assert run_commands("record", run, *words) == 0
    assert files.read_header(made)["source"]["checkpoint"] == int(step)
