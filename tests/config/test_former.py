"""Former names of options, values and parts: refused with today's when a person gives them, translated when stored."""

import pytest
import small

import forage
from forage.config import former, part_data, part_options, registry
from forage.config.options import ARGUMENTS
from forage.core.errors import ForageError
from forage.studies.claims import rows


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("ppo CartPole-v1 --memory-size 4", "The option --memory-size of ppo is called --gru-size now."),
        (
            "recurrent-sac Pendulum-v1 --memory-size 4",
            "The option --memory-size of recurrent-sac is called --lstm-size",
        ),
        ("redq Pendulum-v1 --climb mean", "The option --climb of redq is called --policy-q now."),
        ("redq Pendulum-v1 --policy-q least", "The value least of redq's policy_q is called min now."),
        ("grpo text:addition --charged answer", "The option --charged of grpo is called --kl-placement now."),
        ("ppo CartPole-v1 --ahead 1", "The option --ahead of a training is called --policy-lag now."),
        ("ppo CartPole-v1 --behaviour own", "The part own is called policy now."),
    ],
)
def test_a_former_name_is_answered_with_todays(command, sentence, capsys):
    code, _, error = small.run_command(capsys, "train", *command.split())
    assert code == 2 and error.startswith(sentence)


def test_a_former_name_in_python_is_answered_with_todays():
    with pytest.raises(ForageError, match="The option low of grpo is called clip_low now"):
        registry.build("agent", "grpo", {"low": 0.2})
    with pytest.raises(ForageError, match="sac has no option 'memory_size'"):  # it never had one
        registry.build("agent", "sac", {"memory_size": 4})
    for old, new in (("ahead", "policy_lag"), ("extras", "track"), ("first_come", "async_envs")):
        with pytest.raises(ForageError, match=f"The option {old} of forage.train is called {new} now"):
            forage.train("ppo", "CartPole-v1", **{old: 2})
    with pytest.raises(ForageError, match="The option memory_size of ppo is called gru_size now"):
        forage.train("ppo", "CartPole-v1", memory_size=4)


def test_stored_names_are_read_as_todays():
    assert part_data.from_config({"part": "ppo", "memory_size": 4}).gru_size == 4
    assert part_data.from_config({"part": "redq", "climb": "least"}).policy_q == "min"
    assert part_data.from_config({"part": "rloo", "charged": "answer"}).kl_placement == "reward-sequence"
    assert part_data.from_config({"part": "own", "random_steps": 8}).random_steps == 8
    fixed = part_data.from_config({"part": "forage.tasks.distributions:Fixed", "field": "length", "value": 0.5})
    assert type(fixed).__name__ == "Constant"
    assert part_data.from_config({"part": "c51", "low": -8.0, "high": 8.0}).low == -8  # which is called so today


def test_experiments_are_the_same_by_both_names():
    then = {"arms": {"a": {"agent": "dapo", "options": {"low": 0.2, "charged": "token"}, "behaviour": {"part": "own"}}}}
    now = {
        "arms": {
            "a": {
                "agent": "dapo",
                "options": {"clip_low": 0.2, "kl_placement": "reward-token"},
                "behaviour": {"part": "policy"},
            }
        }
    }
    assert rows.experiment(then) == rows.experiment(now)
    other = {"arms": {"a": {"agent": "dapo", "options": {"clip_low": 0.3}}}}
    assert rows.experiment(then) != rows.experiment(other)


def test_todays_names_are_names_of_parts():
    classes = [registry.part_class(port, name) for port in registry.PORTS for name in registry.parts(port)]
    options = {field.name for cls in classes for field in part_options.fields(cls)}
    assert {name for names in former.OPTIONS.values() for name in names} <= options | set(ARGUMENTS)
    assert set(former.PARTS.values()) <= {name for port in registry.PORTS for name in registry.parts(port)}
