"""A run is uploaded and downloaded again, by a stand-in for the Hub; no downloaded code is run."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import small

import forage
from forage.cli.sharing import pull as pull_command
from forage.cli.sharing import push as push_command
from forage.core.types import ForageError
from forage.runs.curve import Texts
from forage.runs.run import Run, draw_curve
from forage.runs.summary import describe_run
from forage.studies import hub
from forage.studies.card import card
from forage.studies.hub import FILES, check_names_no_code, pull, push

small.keep_compiled()


class Hub:
    """The methods of `huggingface_hub.HfApi`, in a folder."""

    def __init__(self, root: Path):
        self.root, self.private = root, {}

    def create_repo(self, *, repo_id, private, exist_ok):
        assert exist_ok
        (self.root / repo_id).mkdir(parents=True, exist_ok=True)
        self.private[repo_id] = private

    def upload_folder(self, *, repo_id, folder_path, commit_message):
        assert commit_message
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True)

    def snapshot_download(self, *, repo_id, revision, local_dir, allow_patterns):
        if not (self.root / repo_id).exists():
            raise OSError(f"404 Client Error: {repo_id} is not there.\nA second line.")
        for name in allow_patterns:
            if (self.root / repo_id / name).exists():
                shutil.copyfile(self.root / repo_id / name, Path(local_dir) / name)
        (Path(local_dir) / ".cache").mkdir()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return small.train(tmp_path_factory.mktemp("runs") / "ppo", "ppo")


@pytest.fixture
def own_folder(tmp_path):
    return Hub(tmp_path / "hub")


def test_what_is_pulled_is_what_was_pushed(run, own_folder, tmp_path):
    (run.directory / "texts.jsonl").write_text('{"steps": 8, "members": [[]]}\n')  # as a run on text has them
    assert push(run, "ada/ppo", private=True, api=own_folder) == "https://huggingface.co/ada/ppo"
    shared = {path.name for path in (own_folder.root / "ada/ppo").iterdir()}
    assert {"README.md", "config.json", "agent.npz", "curve.png"} <= shared <= {"README.md", *FILES}
    assert own_folder.private == {"ada/ppo": True}
    found = pull("ada/ppo", tmp_path / "here", api=own_folder)
    assert (found.score, found.config, found.texts) == (run.score, run.config, [Texts(8, [[]])])
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == sorted(shared - {"README.md"})
    observations = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    assert np.array_equal(found.agent.act(observations, explore=False), run.agent.act(observations, explore=False))
    with pytest.raises(ForageError, match="is there already; name another directory"):
        pull("ada/ppo", tmp_path / "here", api=own_folder)


def test_the_card_says_what_the_run_knows(run, own_folder):
    push(run.directory, "ada/ppo", api=own_folder)
    card = (own_folder.root / "ada/ppo/README.md").read_text()
    _, head, body = card.split("---\n", 2)
    data = dict(line.split(": ", 1) for line in head.splitlines())
    results = json.loads(data["model-index"])[0]["results"]
    assert results[0]["metrics"][0]["value"] == str(run.score)
    assert "CartPole-v1" in json.loads(data["tags"])
    score = run.score
    for said in (
        f"| all | {score.value:.4g} | [{score.low:.4g}, {score.high:.4g}] | {score.seeds} |",
        "| agent.learning_rate | ",
        "| jax | ",
        "# ppo on CartPole-v1",
        'run = forage.pull("ada/ppo")',
        "![Learning curve](curve.png)",
    ):
        assert said in body


def test_what_names_code_is_not_pulled(run, own_folder, tmp_path):
    push(run, "eve/ppo", api=own_folder)
    trap = tmp_path / "trap.py"
    trap.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Trap: pass\n")
    path = own_folder.root / "eve/ppo/config.json"
    config = json.loads(path.read_text())
    for changed in (
        {"agent": config["agent"] | {"part": f"{trap}:Trap"}},
        {"behaviour": config["behaviour"] | {"part": "os:PathLike"}},
        {"environment": {"id": f"{trap}:Trap", "options": {}}},
        {"environment": {"id": "gymnasium:trap:Trap-v0", "options": {}}},
        {"environment": config["environment"] | {"wrap": [f"{trap}:Trap"]}},
    ):
        path.write_text(json.dumps(config | changed))
        with pytest.raises(ForageError, match=r"names code of its maker's own, .*(trap|os:).* --anyway"):
            pull("eve/ppo", tmp_path / "here", api=own_folder)
    assert not (tmp_path / "ran").exists() and not (tmp_path / "here").exists()
    assert pull("eve/ppo", tmp_path / "here", anyway=True, api=own_folder).config["environment"]["wrap"] == [
        f"{trap}:Trap"
    ]
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "id", [*sorted({environment for _, environment, _ in small.AGENTS.values()}), "gymnasium:ALE/Pong-v5"]
)
def test_what_is_forages_own_is_pulled(id):
    ours = {"part": "forage.memory.rollout:LastRollout"}
    check_names_no_code(
        {"environment": {"id": id, "wrap": ["frame-stack:4"]}, "agent": {"part": "ppo"}, "memory": ours}, "a/b"
    )


def test_bad_input_is_one_sentence(run, own_folder, tmp_path):
    for repository in ("ppo", "a/b/c", "", "ada/my run"):
        with pytest.raises(ForageError, match="is called USER/NAME, such as ada/ppo-cartpole, not"):
            push(run, repository, api=own_folder)
    with pytest.raises(
        ForageError, match="The Hub would not do it for ada/none: 404 Client Error: ada/none is not there;"
    ) as found:
        pull("ada/none", tmp_path / "here", api=own_folder)
    assert "\n" not in str(found.value)
    own_folder.create_repo(repo_id="ada/empty", private=False, exist_ok=True)
    with pytest.raises(ForageError, match=r"ada/empty holds no run of Forage: it has no config\.json"):
        pull("ada/empty", tmp_path / "here", api=own_folder)
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.json").write_text((run.directory / "config.json").read_text())
    (tmp_path / "begun" / "versions.json").write_text("{}")
    with pytest.raises(ForageError, match=r"has nothing to share yet: it has no agent\.npz"):
        push(tmp_path / "begun", "ada/ppo", api=own_folder)
    assert not (tmp_path / "here").exists()


def test_a_missing_extra_is_named(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ForageError, match=r"pip install 'forage-rl\[hub\]'"):
        forage.push(run, "ada/ppo")


def test_the_hubs_own_client_takes_these_calls():
    import inspect

    api = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed").HfApi
    for name, words in (
        ("create_repo", ("repo_id", "private", "exist_ok")),
        ("upload_folder", ("repo_id", "folder_path", "commit_message")),
        ("snapshot_download", ("repo_id", "revision", "local_dir", "allow_patterns")),
    ):
        assert set(words) <= set(inspect.signature(getattr(api, name)).parameters)


def test_commands(run, own_folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(hub, "hub", lambda token: own_folder)
    push_command.run([str(run.directory), "ada/ppo"], {})
    pull_command.run(["ada/ppo"], {"output": str(tmp_path / "here")})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "https://huggingface.co/ada/ppo"
    assert said[1] == f"{tmp_path / 'here'}: ppo on CartPole-v1: return {Run(tmp_path / 'here').score}"
    with pytest.raises(ForageError, match="takes a run and a repository"):
        push_command.run(["ada/ppo"], {})
    with pytest.raises(ForageError, match=r"has no option '--revison'\. Did you mean '--revision'"):
        pull_command.run(["ada/ppo"], {"revison": "main"})


def test_names_and_texts_are_plain_on_the_card(run, tmp_path):
    """Names in a run are neither HTML nor links nor commands, on the card, in pictures and in a terminal."""

    evil = 'x"><script>alert(1)</script> [a](javascript:b) ![c](d) `e` \x1b[2J $\\frac{ | f\n# g'
    copy = tmp_path / "copy"
    shutil.copytree(run.directory, copy)
    config = json.loads((copy / "config.json").read_text())
    config["spec"]["name"] = config["environment"]["id"] = config["agent"]["note"] = evil
    (copy / "config.json").write_text(json.dumps(config))
    made = json.loads((copy / "versions.json").read_text())
    (copy / "versions.json").write_text(json.dumps(made | {"forage": "1`; rm -rf ~; `", "jax": evil, evil: evil}))
    stranger = Run(copy)
    _, head, body = card(stranger, "ada/ppo").split("---\n", 2)
    assert (
        "<script" not in body
        and "](javascript" not in body.replace("\\](", "")
        and "rm -rf" not in body.split("```")[1]
    )
    tags = next(line for line in head.splitlines() if line.startswith("tags: "))
    assert "<" not in head and any("<script>" in tag for tag in json.loads(tags.removeprefix("tags: ")))  # one name
    assert "\x1b" not in head + body and "\n# g" not in body and "`e`" not in body.replace("\\`", "")
    assert "\x1b" not in "\n".join(describe_run(stranger)) + repr(stranger) and "<script" not in stranger._repr_html_()
    draw_curve(stranger)
