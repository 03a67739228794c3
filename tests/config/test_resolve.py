"""Names become parts once: a resolved configuration builds its runner and its file without another look-up."""

import dataclasses
import json
from pathlib import Path

import pytest
import small

from forage.config import part_data, part_options, registry
from forage.config.files import arguments_of, merge_over
from forage.config.options import ARGUMENTS, OPTIONS, PORTS
from forage.config.resolve import STORED, from_config, resolve
from forage.config.run_config import RunConfig, is_ours
from forage.core.errors import ForageError
from forage.environments.classic.cartpole import CartPole
from forage.environments.wrappers.together import EnvironmentCopies
from forage.runs.summary import introduction

PARTS = {"memory": "prioritised", "rewards": "rnd", "wrap": ["time-limit:9"]}


def test_no_name_is_looked_up_after_a_run_is_resolved(monkeypatch):
    setup = resolve("dqn", "CartPole-v1", steps=64, seeds=1, agent_options=small.REPLAY, **PARTS)

    def refuse(*arguments):
        raise AssertionError(f"{arguments} is looked up")

    for name in ("part_class", "target_of", "load", "choose_part"):
        monkeypatch.setattr(registry, name, refuse)
    for name in ("stored_target", "from_config"):
        monkeypatch.setattr(part_data, name, refuse)
    monkeypatch.setattr(part_options, "fields", refuse)
    setup.loop()
    setup.full_config()
    assert introduction(setup, Path("run"), 64)[0] == "dqn on CartPole-v1, 1 seed"


def test_a_configuration_survives_its_file():
    settings = {"evaluation_every": 32, "evaluation_episodes": 2, "workers": "2", "worker_threads": 3, "keep": "best"}
    settings |= {"track": ["csv"], "devices": 1, "step_timeout": 5.0, "checkpoint_seconds": 7.0, "keep_every": 16}
    setup = dataclasses.replace(resolve("dqn", "CartPole-v1", steps=64, seeds=[4], **PARTS), **settings)
    stored = json.loads(json.dumps(setup.full_config()))
    assert json.loads(json.dumps(from_config(stored).full_config())) == stored
    assert stored["workers"] == "2" and "stop_at" not in stored
    former = {name: value for name, value in stored.items() if name != "track"} | {"extras": ["csv"]}
    assert from_config(former).track == ["csv"]
    alone = dataclasses.replace(setup, workers=0, worker_threads=1, step_timeout=None)
    assert not {"workers", "worker_threads", "step_timeout"} & alone.full_config().keys()


def test_each_setting_of_the_table_is_a_field():
    fields = {field.name for field in dataclasses.fields(RunConfig)}
    assert set(STORED) <= fields
    kept_elsewhere = {"hosts", "coordinator", "reward_weights"}  # the last by the environment of text
    assert {one.name for one in OPTIONS if one.in_file} - kept_elsewhere <= fields
    assert {one.name for one in OPTIONS if one.decides} <= {"agent", "environment", *PORTS, *fields} & {*ARGUMENTS}


def test_an_option_beside_a_stored_agent_changes_it():
    """In a file or a parent run the agent has all its options, and those that are given go over them."""
    stored = json.loads(json.dumps(resolve("dqn", "CartPole-v1", steps=64, seeds=1).config()))
    base = arguments_of("it", {name: value for name, value in stored.items() if name != "spec"})
    setup = resolve(**merge_over("it", base, {"learning_rate": 0.25}))
    assert setup.agent.learning_rate == 0.25 and setup.left_out == setup.settings_from == ""
    with pytest.raises(ForageError, match=r"nor dqn has an option 'learning_rates'\. Did you mean 'learning_rate'"):
        resolve(**merge_over("it", base, {"learning_rates": 0.25}))
    with pytest.raises(ForageError, match="it has the agent dqn and its parts; leave out ppo, or it"):
        merge_over("it", base, {"agent": "ppo"})


def test_only_environments_of_others_are_checked_before_a_run():
    """The classes of Forage are held to the contract by their tests."""

    class Mine(CartPole):
        """An environment of a person."""

    assert is_ours(CartPole()) and is_ours(EnvironmentCopies(CartPole(), 2))
    assert not is_ours(Mine()) and not is_ours(EnvironmentCopies(Mine(), 2))
