"""Packages of strangers: a mistake in one costs a sentence, and the other parts stay."""

import importlib.metadata
import json
import warnings

import pytest
import small
import strangers

from forage.config import packages, part_data, registry, trusting
from forage.config.help import declared
from forage.config.resolve import from_config, resolve
from forage.core.types import ForageError
from forage.runs.provenance import own_code

EFFORT = '''
from forage.core.ports import Rewards

class Effort(Rewards):
    """A price of effort."""

    def relabel(self, state, experience):
        return experience
'''
REWARD = {"forage_a/__init__.py": "PARTS = {'rewards': {'effort': 'forage_a.effort:Effort'}}"}
REWARD |= {"forage_a/effort.py": EFFORT}


@pytest.fixture
def site(tmp_path):
    """A folder of packages on Python's path."""
    yield from strangers.site_at(tmp_path / "site")


def sentences_of(call):
    """Return the sentences that a call warns with."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in found]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import no_such_module", "could not be imported: ModuleNotFoundError: No module named 'no_such_module'"),
        ("def", "could not be imported: SyntaxError: invalid syntax (forage_bad.py, line 1)"),
        ("raise SystemExit(0)", "could not be imported: SystemExit: 0 (forage_bad.py, line 1); put what a script"),
        ("1 / 0", "could not be imported: ZeroDivisionError: division by zero"),
        ("", "has no table PARTS of its parts by port"),
        ("PARTS = {'reward': {}}", "has a port 'reward', and the ports are agent, tasks, starts"),
        ("PARTS = {'rewards': ['Effort']}", "has to give each name a text 'module:Class'"),
        ("PARTS = {'rewards': {'effort': 'forage_bad.Effort'}}", "has to give each name a text 'module:Class'"),
        ("PARTS = {'rewards': {'a b': 'forage_bad:Effort'}}", "has the name 'a b'; a word such as 'my-part' works"),
        ("PARTS = {'rewards': {'--a': 'forage_bad:Effort'}}", "has the name '--a'; a word such as 'my-part' works"),
        ("PARTS = {}; RANGES = {'price': 3}", "RANGES of forage_bad has to give each option its ends, such as (0, 1)"),
        ("PARTS = {}; RANGES = {'price': ('0', '1')}", "RANGES of forage_bad has to give each option its ends"),
        ("PARTS = {}; RANGES = [1]", "RANGES of forage_bad has to give each option its ends"),
        ("PARTS = {}; MEANINGS = {'price': 3}", "MEANINGS of forage_bad has to give each option a sentence"),
        ("PARTS = {}; PRESETS = 'forage_bad'", "PRESETS of forage_bad has to be a text 'module:NAME'"),
        ("PARTS = {}; CLAIMS = 3", "CLAIMS of forage_bad has to be a text"),
    ],
)
def test_a_package_with_a_mistake_costs_a_sentence(site, text, sentence):
    strangers.install(site, "forage-bad", {"forage_bad.py": text})
    strangers.install(site, "forage-a", REWARD)
    said = sentences_of(packages.load_packages)
    assert len(said) == 1 and said[0].startswith("The parts of the package forage-bad are left out: ")
    assert sentence in said[0] and said[0].endswith(".")
    assert registry.target_of("rewards", "effort") == "forage_a.effort:Effort"
    assert not sentences_of(registry.tables)  # once


def test_the_command_line_says_the_sentence_alone(site, capsys, monkeypatch):
    strangers.install(site, "forage-bad", {"forage_bad.py": "1 / 0"})
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, out, error = small.run_command(capsys, "list", "rewards")
    assert code == 0 and "rnd" in out
    assert error == (
        "The parts of the package forage-bad are left out: forage_bad could not be imported: ZeroDivisionError: "
        "division by zero (forage_bad.py, line 1).\n"
    )


@pytest.mark.parametrize("port", ["rewards", "memory"])
def test_a_name_of_two_packages_is_neithers(site, port):
    """A stored run names a part without its port, so the name is disputed at another port, too."""
    strangers.install(site, "forage-a", REWARD)
    strangers.install(
        site, "forage-b", {"forage_b.py": f"PARTS = {{'{port}': {{'effort': 'forage_b:Effort'}}}}" + EFFORT}
    )
    assert sentences_of(registry.tables) == [
        "Installed packages have more than one part 'effort'; forage_a.effort:Effort and forage_b:Effort name them."
    ]
    with pytest.raises(ForageError, match=r"name one in full: forage_a.effort:Effort or forage_b:Effort"):
        registry.part_class("rewards", "effort")
    stored = part_data.to_config(registry.part_class("rewards", "forage_a.effort:Effort")())
    assert stored["from"] == "forage-a" and type(part_data.from_config(stored)).__module__ == "forage_a.effort"
    early = {"part": "effort", "from": "forage-b"}  # stored before the other package was installed
    assert type(part_data.from_config(early)).__module__ == "forage_b"


@pytest.mark.parametrize(("port", "name"), [("rewards", "rnd"), ("rewards", "uniform"), ("agent", "ppo")])
def test_a_name_of_forage_stays_forages(site, port, name):
    strangers.install(
        site, "forage-b", {"forage_b.py": f"PARTS = {{'{port}': {{'{name}': 'forage_b:Effort'}}}}" + EFFORT}
    )
    before = {port: registry.PORTS[port].get(name) for port in registry.PORTS}
    assert sentences_of(registry.tables) == [
        f"forage-b has a part {name!r}, which is the name of one of Forage's; forage_b:Effort names it."
    ]
    assert {port: registry.target_of(port, name) for port in registry.PORTS} == before


@pytest.mark.parametrize(
    ("module", "files"),
    [
        ("forage_c", {"forage_c.py": "PARTS = {'rewards': {'effort': 'forage_c:Effort'}}" + EFFORT}),
        (
            "acme.forage_parts",
            {
                "acme/__init__.py": "",
                "acme/forage_parts.py": "PARTS = {'rewards': {'effort': 'acme.learn.rewards:Effort'}}",
                "acme/learn/rewards.py": EFFORT,
            },
        ),
    ],
    ids=["one file", "tables beside the parts"],
)
def test_a_package_of_any_layout_is_known_by_its_parts(site, module, files):
    strangers.install(site, "forage-c", files, module)
    target = registry.target_of("rewards", "effort")
    assert declared.summary(target) == "A price of effort."
    assert registry.package_words(target) == " (forage-c)"
    part = registry.build("rewards", "effort", {})
    assert part_data.to_config(part) == {"part": "effort", "from": "forage-c"}
    assert any(
        path.read_text() == files[max(files)] for path in packages.code_files(packages.package_of(target.split(":")[0]))
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def", "forage_a.effort could not be imported: SyntaxError"),
        ("import no_such_module", "Cannot import forage_a.effort to get Effort: No module named 'no_such_module'"),
        ("import sys; sys.exit()", "forage_a.effort could not be imported: SystemExit"),
        ("", "Module forage_a.effort has no class Effort"),
        (EFFORT + "    def learn(self)", "forage_a.effort could not be imported: SyntaxError"),
    ],
)
def test_a_part_with_a_mistake_costs_a_sentence_when_it_is_named(site, capsys, text, sentence):
    strangers.install(site, "forage-a", REWARD | {"forage_a/effort.py": text})
    code, out, error = small.run_command(capsys, "list", "rewards")
    assert code == 0 and "effort" in out and not error
    code, _, error = small.run_command(capsys, "show", "effort")
    assert code == 2 and error.startswith(sentence) and error.count("\n") == 1


def test_claims_and_presets_with_a_mistake_cost_a_sentence(site, capsys):
    text = REWARD["forage_a/__init__.py"].replace(
        "'rewards': {", "'agent': {'calm': 'forage_a.calm:Calm'}, 'rewards': {"
    )
    text += "\nCLAIMS = 'forage_a.claims'\nPRESETS = 'forage_a.effort:Effort'"
    calm = "from forage.agents.policy_gradient.a2c import A2C\n\nclass Calm(A2C):\n    pass\n"
    strangers.install(site, "forage-a", REWARD | {"forage_a/__init__.py": text, "forage_a/calm.py": calm})
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, out, error = small.run_command(capsys, "show", "effort")
    assert code == 0 and "A price of effort." in out
    assert error.startswith("The claims of the package forage-a are left out: forage_a.claims could not be imported")
    code, _, error = small.run_command(capsys, "show", "calm")
    assert code == 2 and "forage_a.effort:Effort of the package forage-a has to be a tuple of" in error


def test_a_part_of_a_missing_package_names_the_package(site):
    strangers.install(site, "forage-a", REWARD)
    with pytest.raises(
        ForageError, match=r"^The part 'gone' is of the package forage-gone, which is not installed here"
    ):
        part_data.from_config({"part": "gone", "from": "forage-gone", "weight": 1})
    with pytest.raises(ForageError, match=r"^The package forage-a, as it is installed here, has no part 'gone'"):
        part_data.from_config({"part": "gone", "from": "forage-a"})
    with pytest.raises(ForageError, match=r"which is not installed here"):  # and no part of Forage's takes its place
        part_data.from_config({"part": "none", "from": "forage-gone"})


def test_a_class_that_lacks_methods_is_refused(site):
    lazy = "from forage.core.ports import Agent\n\nclass Lazy(Agent):\n    pass\n"
    strangers.install(site, "forage-a", {"forage_a.py": "PARTS = {'agent': {'lazy': 'forage_a:Lazy'}}\n" + lazy})
    with pytest.raises(ForageError, match=r"^Lazy lacks act and init and learn, which forage.core.ports"):
        registry.build("agent", "lazy", {"num_envs": 1, "rollout_length": 1})


@pytest.mark.parametrize(
    "words",
    [
        "--help",
        "train --help",
        "list wrappers",
        "train ppo CartPole-v1 --steps 0",
        "show time-limit",
    ],
)
def test_names_of_the_core_never_look_packages_up(monkeypatch, capsys, words):
    strangers.forget()
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: 1 / 0)
    code, _, error = small.run_command(capsys, *words.split())
    assert code == (2 if "steps" in words else 0), error


def test_parts_of_the_core_are_made_and_stored_without_packages(monkeypatch):
    strangers.forget()
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: 1 / 0)
    for port, name in (("agent", "ppo"), ("rewards", "rnd"), ("memory", "uniform"), ("behaviour", "epsilon-greedy")):
        part = registry.build(port, name, {})
        assert type(part_data.from_config(json.loads(json.dumps(part_data.to_config(part))))) is type(part)
        assert declared.meanings(registry.target_of(port, name))  # of bases that a package hands on, too
    setup = resolve("ppo", "CartPole-v1", steps=1000, seeds=1, rewards="rnd")
    config = json.loads(json.dumps(setup.config(), default=list))
    assert from_config(config).config() == setup.config() and not own_code(setup)
    assert not trusting.unknown_entries(config)
