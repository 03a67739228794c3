"""A stored run has no code imported that this person does not know: asked once, by path and hash."""

import copy
import json
import sys

import pytest

import forage
from forage.config import part_data, registry, trusting
from forage.config.environment import resolve_environment
from forage.config.files import arguments_of
from forage.config.resolve import from_config, resolve
from forage.config.saved import load_policy
from forage.core import trust
from forage.core.errors import ForageError
from forage.runs.run import Run
from forage.runs.starting import from_parent
from forage.runs.trackers import tracker_class

CODE = """
import pathlib
pathlib.Path({mark!r}).write_text("ran")
import gymnasium
from forage.environments.classic.cartpole import CartPole
class Env(CartPole):
    pass
def f(x):
    return x
"""


@pytest.fixture(scope="module")
def config():
    setup = resolve("ppo", "CartPole-v1", steps=1000, seeds=1)
    return json.loads(json.dumps(setup.config()))


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(trust, "known_here", set())
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield tmp_path
    sys.path[:] = path
    for name in ("evil", "pack", "pack.inner"):  # of this test's folder
        sys.modules.pop(name, None)


@pytest.fixture
def evil(home):
    (home / "evil.py").write_text(CODE.format(mark=str(home / "RAN")))
    (home / "pack").mkdir()
    (home / "pack" / "__init__.py").write_text(CODE.format(mark=str(home / "RAN")))
    (home / "pack" / "inner.py").write_text("")
    return home / "evil.py"


def change(config, at, value):
    found = copy.deepcopy(config)
    *path, last = at
    place = found
    for name in path:
        place = place[name]
    place[last] = value
    return found


PLACES = [
    (("agent", "part"), "{evil}:Env"),
    (("agent", "part"), "pack.inner:Agent"),
    (("memory",), {"part": "{evil}:Env"}),
    (("memory",), {"part": "recorded", "inner": {"part": "{evil}:Env"}}),
    (("agent", "activation"), "{evil}:f"),
    (("agent", "activation"), "./evil.py:f"),
    (("agent", "activation"), "evil:f"),
    (("agent", "encoder"), "{evil}:Env"),
    (("agent", "optimiser"), "evil:f"),
    (("agent", "learning_rate"), {"schedule": "{evil}:f"}),
    (("agent", "learning_rate"), {"schedule": "evil:f"}),
    (("environment", "id"), "{evil}:Env"),
    (("environment", "id"), "evil:Env"),
    (("environment", "id"), "pack.inner:Env"),
    (("environment", "id"), "gymnasium:evil:Env-v0"),
    (("environment", "id"), "GYMNASIUM:evil:Env-v0"),
]


@pytest.mark.parametrize(("at", "value"), PLACES)
def test_no_place_of_a_configuration_imports_code(config, evil, at, value):
    value = json.loads(json.dumps(value).replace("{evil}", str(evil)))
    found = change(config, at, value)
    sentence = r"runs code of its maker's own, \S+(evil|pack/__init__|inner).py \(SHA-256 [0-9a-f]{16}\).* --trust once"
    with pytest.raises(ForageError, match=rf"^runs/x .*{sentence}"):
        from_config(found, where="runs/x")
    assert trusting.code_in(found)  # which `pull` goes by
    assert not (evil.parent / "RAN").exists()


@pytest.mark.parametrize(
    "name",
    ["os:system", "antigravity:fly", "subprocess:Popen", "forage.studies.hub:push", "forage.__main__:main", "gone:X"],
)
def test_modules_that_are_no_parts_are_refused_even_when_trusted(config, home, name):
    for at in (("agent", "part"), ("memory", "part"), ("agent", "activation")):
        if name.startswith("forage") and at[1] == "activation":
            continue
        found = change(config, at, name)
        assert trusting.code_in(found) == [name]
        with (
            trust.granting(),
            pytest.raises(ForageError, match=r"module of Python's own|none of Forage's parts|none here"),
        ):
            from_config(found, where="runs/x")
    assert "antigravity" not in sys.modules


def test_a_tracker_of_a_run_is_asked_for(config, evil):
    for names in ([f"{evil}:Env"], "evil:Env", ["evil.py:Env"]):
        assert trusting.code_in(config | {"track": names})
        with trusting.guard_imports("runs/x", config | {"track": names}), pytest.raises(ForageError, match=r"evil\.py"):
            tracker_class(names if isinstance(names, str) else names[0])
    assert not (evil.parent / "RAN").exists()


def test_what_is_known_is_asked_once(config, evil, capsys, monkeypatch):
    found = change(config, ("environment", "id"), f"{evil}:Env")
    with pytest.raises(ForageError, match="add --trust once"):
        from_config(found, where="runs/x")
    with trust.granting():
        from_config(found, where="runs/x")
    said = capsys.readouterr().err
    assert str(evil) in said and trust.entry_of(evil)["sha256"][:16] in said
    with trust.granting():
        from_config(found, where="runs/y")
    assert capsys.readouterr().err == ""  # the same code, whatever run names it
    trust.known_here.clear()  # a later process
    from_config(found, where="runs/x")
    evil.write_text(evil.read_text() + "\n")
    trust.known_here.clear()
    monkeypatch.setattr(trust, "imported_files", set)
    with trust.guard_stored("runs/x"), pytest.raises(ForageError, match="add --trust once"):
        trust.check_source(str(evil))  # other code under the same name


def test_a_run_of_ones_own_is_not_asked_for(config, evil):
    found = change(config, ("agent", "activation"), f"{evil}:f")
    trusting.keep_own(found)
    trust.known_here.clear()
    evil.write_text(evil.read_text() + "\n")  # later edits are one's own, too
    assert from_config(found, where="runs/x").agent.activation is not None
    other = evil.with_name("other.py")
    other.write_bytes(evil.read_bytes())
    with pytest.raises(ForageError, match=r"other\.py"):
        from_config(change(config, ("agent", "activation"), f"{other}:f"), where="runs/x")


def test_no_file_of_a_run_makes_its_code_known(config, evil, monkeypatch):
    """Neither a damaged file nor one outside the user's own place does."""
    entry = trust.entry_of(evil)
    for place in (evil.parent / "trusted.jsonl", evil.parent / "forage" / "trusted.jsonl"):
        place.parent.mkdir(exist_ok=True)
        place.write_text(json.dumps(entry) + "\n")
    found = change(config, ("environment", "id"), f"{evil}:Env") | {"trusted": [entry], "trust": True}
    with pytest.raises(ForageError, match="add --trust once"):
        from_config(found, where="runs/x")
    trust.store().parent.mkdir(parents=True)
    trust.store().write_text(f'nonsense\n[1]\n{"[" * 9999}\n{{"path": 3}}\n{json.dumps(entry)}\n')
    assert trust.is_known(entry)
    monkeypatch.setenv("XDG_DATA_HOME", "/proc/nowhere")  # which cannot be written
    trust.keep_entry(trust.entry_of(evil))
    assert trust.is_known(entry)  # for this process


def test_what_a_person_names_themselves_is_theirs(config, evil):
    gone = change(config, ("environment", "id"), "/gone.py:Env")
    assert from_config(gone, environment="evil:Env", where="runs/x").name == "evil:Env"
    assert resolve("ppo", f"{evil}:Env", steps=1000, seeds=1).name == "evil.py:Env"
    with pytest.raises(ForageError, match=r"There is no file /gone.py"):
        from_config(gone, where="runs/x")


def test_trust_of_a_run_in_python(config, evil, capsys):
    run = evil.parent / "run"
    run.mkdir()
    found = change(config, ("environment", "id"), f"{evil}:Env")
    (run / "config.json").write_text(json.dumps(found))
    (run / "agent.npz").write_text("")
    forage.trust(run)
    assert str(evil) in capsys.readouterr().err
    from_config(found, where=run)
    with pytest.raises(ForageError, match="is not a run"):
        forage.trust(evil.parent / "pack")


def test_an_agent_is_not_loaded_with_code_that_is_unknown(config, evil):
    run = evil.parent / "run"
    run.mkdir()
    (run / "agent.npz").write_text("")
    (run / "config.json").write_text(json.dumps(change(config, ("agent", "activation"), f"{evil}:f")))
    with pytest.raises(ForageError, match="add --trust once"):
        load_policy(run)
    assert not (evil.parent / "RAN").exists()


def test_nothing_is_sent_to_an_address_that_a_run_names(config, home, tmp_path):
    endpoint = {"part": "endpoint", "url": "http://attacker:1/v1", "key_variable": "SECRET", "retries": 0}
    found = config | {"behaviour": endpoint}
    sentence = r"sends to http://attacker:1/v1 with the environment variable SECRET.* --trust once"
    with pytest.raises(ForageError, match=sentence):
        from_config(found, where="runs/x")
    with trusting.guard_imports("runs/x", found):
        for hidden in (endpoint | {"publish": "/home/me"}, {"part": "recorded", "inner": endpoint}):
            with pytest.raises(ForageError, match=r"writes to /home/me|sends to http://attacker"):
                part_data.from_config(hidden)
    registry.build("behaviour", "endpoint", {"url": "http://mine:1/v1"})  # a person's own words
    with trust.granting(), trusting.guard_imports("runs/x", found):
        part_data.from_config(endpoint)
    with trusting.guard_imports("runs/x", found):
        part_data.from_config(endpoint)
        with pytest.raises(ForageError, match="other:1"):
            part_data.from_config(endpoint | {"url": "http://other:1/v1"})


def test_a_run_that_begins_with_anothers_weights_asks_for_its_code(config, evil):
    """The parent's environment and options become arguments, and their import would run as if the user named them."""
    run = evil.parent / "run"
    run.mkdir()
    for at, value in PLACES:
        value = json.loads(json.dumps(value).replace("{evil}", str(evil)))
        (run / "config.json").write_text(json.dumps(change(config, at, value)))
        with pytest.raises(ForageError, match="add --trust once"):
            from_parent(Run(run), {})
    assert not (evil.parent / "RAN").exists()
    (run / "config.json").write_text(json.dumps(change(config, ("environment", "id"), f"{evil}:Env")))
    assert "environment" not in from_parent(Run(run), {"environment": "evil:Env"})  # said by a person
    with trust.granting():
        assert from_parent(Run(run), {})["environment"] == f"{evil}:Env"


def test_a_file_of_settings_that_a_person_names_is_theirs(config, evil):
    """A file given to `train --config FILE` counts as the user's words, as the command line does."""
    assert arguments_of("mine.json", change(config, ("environment", "id"), f"{evil}:Env"))


def test_families_and_games_of_a_stored_run_are_its_makers_code():
    for named, own in (("count.py:Count", 1), ("pkg.games:Maze", 1), ("addition+a.py:A+b.py:B", 2), ("addition", 0)):
        found = trusting.code_in({"environment": {"id": f"text:{named}"}})
        assert found == [one for one in named.split("+") if ":" in one] and len(found) == own
    assert trusting.code_in({"environment": {"id": "text:prompts.jsonl"}}) == []


def test_tools_of_a_stored_run_are_its_makers_code(home):
    code = f"import pathlib\npathlib.Path({str(home / 'RAN')!r}).touch()\n"
    (home / "deeds.py").write_text(f'{code}def wait(text: str) -> str:\n    "Wait."\n')
    options = {"tools": [f"{home}/deeds.py:wait"]}
    assert trusting.code_in({"environment": {"id": "text:addition", "options": options}}) == options["tools"]
    for tools in (options["tools"], tuple(options["tools"]), f"calculator,{home}/deeds.py:wait"):
        with trust.guard_stored("runs/theirs"), pytest.raises(ForageError, match="add --trust once"):
            resolve_environment("text:addition", {"tools": tools})
    assert not (home / "RAN").exists()
    found = resolve_environment("text:addition", {"tools": "calculator,deeds.py:wait", "rows": "rows.jsonl"})[2]
    kept = {"tools": ["calculator", *options["tools"]], "rows": f"{home}/rows.jsonl"}
    assert found["options"] == kept and (home / "RAN").exists()
    assert resolve_environment("text:addition", {"tools": "calculator"})[2]["options"] == {"tools": "calculator"}
