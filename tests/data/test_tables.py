"""Tables of real life: their profile, their description and the transitions that they make, worked out by hand."""

import json
import math
import re
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest

import forage
import forage.data
from forage.config.options import READING_NAMES
from forage.config.resolve import from_config, resolve
from forage.core.columns import Columns
from forage.core.errors import ForageError
from forage.core.types import Spec
from forage.data.formats.reading import NAMES, parse_reading, read_description
from forage.data.formats.table import numbers_size
from forage.data.tables.describe import describe_table
from forage.data.tables.numbers import Growing, release_pages
from forage.data.tables.rows import read_table
from forage.memory.mixed import MixedReplay

pytest.importorskip("pyarrow")

SHOP = """\
day;shop;stock;promo;weekday;order;profit;closed
03.01.2024;a;3,5;no;Mon;none;3,0;
01.01.2024;a;1,5;ja;Mon;small;1,0;
02.01.2024;a;;no;Tue;large;2,0;
01.01.2024;b;2,0;no;Tue;none;4,0;
02.01.2024;b;4,0;no;Mon;small;n/a;
03.01.2024;b;6,0;no;Mon;small;6,0;
04.01.2024;b;8,0;no;Tue;none;7,0;ja
"""
ROLES = {"action": "action", "reward": "reward", "time": "t", "episode": "run"}
SAID = {"action": "order", "reward": "profit", "terminated": "closed", "episode": "shop", "time": "day"}


def table_of(tmp_path, text=SHOP, said=SAID):
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path, describe_table(path, parse_reading(said, "test"))


def test_a_table_is_profiled_and_described(tmp_path):
    path, found = table_of(tmp_path)
    kinds = {name: column.kind for name, column in found.columns.items()}
    assert kinds == {
        "day": "date", "shop": "category", "stock": "number", "promo": "boolean", "weekday": "category",
        "order": "category", "profit": "number", "closed": "boolean",
    }  # fmt: skip
    assert found.source.dialect == (";", ",", "utf-8")
    words = "\n".join(map(str, found.faults))
    assert "1 rows have no stock, first in line 4" in words and "1 rows have no profit, first in line 6" in words
    assert not any(fault.fatal for fault in found.faults) and found.columns["order"].names == ("large", "none", "small")
    assert any(line.split()[0] == "closed" and "blank, which is no, in 6 rows" in line for line in found.lines())
    again = read_description(path)
    assert again.observation == ("stock", "promo", "weekday") and again.time == "day" and again.lossy
    assert again.columns["stock"].missing == "last" and again.columns["profit"].missing == "cut"
    assert describe_table(path, parse_reading({}, "test")).reading == again  # a description is kept


def test_rows_become_transitions_by_hand(tmp_path):
    """Episode a is rows 1, 2, 0 by time; b ends before the row without a profit, and its rest is not whole."""
    path, _ = table_of(tmp_path)
    table = read_table(path, read_description(path))
    data = table.transitions()
    stock = table.columns.observation[0]
    mean, deviation = np.mean([3.5, 1.5, 1.5, 2, 4, 6, 8]), np.std([3.5, 1.5, 1.5, 2, 4, 6, 8])
    assert stock.mean == pytest.approx(mean) and stock.deviation == pytest.approx(deviation)
    raw = data.observation[:, 0] * deviation + mean
    np.testing.assert_allclose(raw, [1.5, 1.5, 2, 6, 8], atol=1e-5)  # the gap took the value before
    following = data.next_observation[:, 0] * deviation + mean
    np.testing.assert_allclose(following, [1.5, 3.5, 4, 8, 8], atol=1e-5)  # what terminates stays in place
    assert data.observation[:, 1].tolist() == [1, 0, 0, 0, 0]
    assert data.action.tolist() == [2, 0, 1, 2, 1] and data.reward.tolist() == [1, 2, 4, 6, 7]
    assert data.terminated.tolist() == [0, 0, 0, 0, 1] and data.truncated.tolist() == [0, 1, 1, 0, 0]
    assert data.episode.tolist() == [0, 0, 1, 2, 2] and data.cut.tolist() == [0, 0, 1, 0, 1]
    assert data.start.tolist() == [1, 0, 1, 0, 0] and data.starts.tolist() == [1, 1, 0]
    assert data.origins.tolist() == [0, 1, 1]
    assert table.omissions == 2
    pieces = list(table.chunks(2))  # episodes go on from one chunk to the next
    for name in pieces[0]:
        np.testing.assert_array_equal(np.concatenate([p[name] for p in pieces]), getattr(data, name))


def test_a_folder_and_parquet_hold_the_same(tmp_path):
    import pyarrow.csv
    import pyarrow.parquet

    path, _ = table_of(tmp_path)
    data, header = forage.data.load(path)
    assert header["spec"]["columns"]["observation"][0]["name"] == "stock" and "environment" not in header
    forage.data.convert(path, tmp_path / "folder")
    again, there = forage.data.load(tmp_path / "folder")
    assert there["mean_return"] == header["mean_return"] == 3.0 and there["spec"] == header["spec"]
    options = {
        "parse_options": pyarrow.csv.ParseOptions(delimiter=";"),
        "convert_options": pyarrow.csv.ConvertOptions(
            decimal_point=",", column_types={"stock": "double", "profit": "double"}, strings_can_be_null=True
        ),
    }
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(path, **options), tmp_path / "log.parquet")
    columnar, _ = forage.data.load(tmp_path / "log.parquet")
    assert numbers_size(tmp_path / "log.parquet") == 7 * 50 and numbers_size(path) == len(SHOP)  # 7 rows
    for name in ("observation", "action", "reward", "next_observation", "truncated", "cut", "start", "episode"):
        np.testing.assert_array_equal(getattr(again, name), getattr(data, name))
        np.testing.assert_array_equal(getattr(columnar, name), getattr(data, name))
    forage.data.convert(path, tmp_path / "out.npz")
    assert json.loads(str(np.load(tmp_path / "out.npz")["header"]))["spec"] == header["spec"]


def test_all_that_is_wrong_is_listed_at_once(tmp_path):
    text = SHOP.replace("2,0;no;Tue;none", "two;no;Tue;none").replace("small;6,0;", "small;6,0;;9")
    text = text.replace("day;shop", "day;note;shop").replace(".2024;", ".2024;;")
    path = tmp_path / "log.csv"
    path.write_text(text.replace("order", "size"))
    found = describe_table(path, parse_reading({"time": "day", "episode": "shop"}, "test"))
    fatal, rest = ([str(fault) for fault in found.faults if fault.fatal is kind] for kind in (True, False))
    odd = re.sub(";(none|small|large);", ";big;", SHOP.replace("stock", "")).replace(";ja\n", ";late\n")
    (tmp_path / "log.toml").unlink()
    path.write_text(odd.replace("Mon", "5%").replace("Tue", "12%"))
    described = describe_table(path, parse_reading({"time": "day", "action": "order"}, "test"), write=False)
    assert described.reading.observation == ("promo", "weekday")  # the column without a name is left out
    fatal += [str(fault) for fault in described.faults if fault.fatal]
    number = (
        SHOP.replace("small", "4")
        .replace("large", "4")
        .replace("none", "4")
        .replace("2,0;no", "1e17;no")
        .replace(",5;", ",0;")
    )
    path.write_text(re.sub(r"\d,0;(ja)?\n", r"7,0;\1\n", number))
    rest += map(str, describe_table(path, parse_reading({"action": "weekday"}, "test"), write=False).faults)
    path.write_text(SHOP)
    said = {"action": "order", "reward": "weekday", "episode": "shop"}
    fatal += [str(x) for x in describe_table(path, parse_reading(said, "test"), write=False).faults if x.fatal]
    for words, said in (
        ("Column weekday is to be the reward and has Mon, Tue, which are no numbers, first in line 2. Write", fatal),
        ("Column order of the action is 'big' in every row. There is nothing to choose", fatal),
        ("Column closed is named like terminated and has late, which is neither yes nor no", fatal),
        ("Column weekday has numbers with signs that numbers do not have, as in '5%'", fatal),
        ("The reward is 7 in every row", rest),
        ("Column stock has whole numbers up to 100000000000000000, whose last digits are lost", rest),
        ("1 rows have another number of cells than the 9 columns", fatal),
        ("'two' among its numbers in 1 rows, first in line 5. Correct the cell, or count it as missing: blanks", fatal),
        ("No column is known to be the action. Name it with --action COLUMN", fatal),
        ("Column note has no role, as it has no cell", rest),
        ("The reward is guessed to be profit", rest),
    ):
        assert any(words in line for line in said), (words, said)


def test_a_time_that_begins_anew_is_told_from_rows_out_of_order(tmp_path):
    """Days 1 to 60, then 1 to 40 again, are in order; with one row out of place they are sorted."""
    days = [*range(1, 61), *range(1, 41)]
    rows = [f"{day},a,{i % 7},{i % 2},1" for i, day in enumerate(days)]
    head = "t,run,x,action,reward"
    _, found = table_of(tmp_path, "\n".join([head, *rows]), ROLES)
    assert found.reading.time == "" and "t goes back within an episode in 1 rows, first in line 62" in str(
        found.faults[-2]
    )
    (tmp_path / "log.toml").unlink()
    rows = [f"{day},a,{i % 7},{i % 2},1" for i, day in enumerate([*range(1, 50), 90, *range(50, 90)])]
    _, found = table_of(tmp_path, "\n".join([head, *rows]), ROLES)
    assert found.reading.time == "t"


@pytest.mark.parametrize(
    ("words", "changes", "said"),
    [
        ("line 3 has 'x' in column stock, which is no number", {"1,5": "x"}, {"observation": "stock"}),
        ("line 2 has an infinite profit", {";3,0;": ";inf;"}, {}),
        ("line 4 has 9 cells, and the first line names 8", {"large;2,0;": "large;2,0;;"}, {}),
        ("line 4 has no episode", {"02.01.2024;a": "02.01.2024;"}, {}),
        ("line 2 has the time 'soon'", {"03.01.2024;a": "soon;a"}, {}),
        ("line 8 has 'perhaps' in column closed, which is neither yes nor no", {"7,0;ja": "7,0;perhaps"}, {}),
        ("line 4 has no stock, the first of 1 such; say what a missing cell means in log.toml", {}, {}),
        ("no column 'shops'. Did you mean 'shop'", {}, {"episode": "shops"}),
        ("would be left out: .* or say --lossy", {"2024;a;;": "2024;a;1,0;", "n/a": "5,0", "7,0;ja": "7,0;"}, {}),
        ("Nothing says which columns of .* are the reward; forage data describe", {}, {"reward": None}),
    ],
)
def test_a_bad_table_is_refused_in_one_sentence(words, changes, said, tmp_path):
    text = SHOP
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "log.csv"
    path.write_text(text)
    asked = SAID | {"observation": "stock,promo", "delimiter": ";", "decimal": ","} | said
    with pytest.raises(ForageError, match=words):
        forage.data.load(path, **asked)


def test_a_run_without_an_environment_is_of_the_data(tmp_path):
    path, _ = table_of(tmp_path)
    setup = resolve("iql", data=path, steps=4, seeds=[0])
    assert not setup.scored and setup.on_device and setup.memory.held_out == 0.1
    assert setup.spec.columns.entries()[:2] == ["stock", "promo"] and setup.name == "log"
    kept = json.loads(json.dumps(setup.full_config()))
    again = from_config(kept)
    assert json.loads(json.dumps(again.full_config())) == kept and again.spec.columns == setup.spec.columns
    with pytest.raises(ForageError, match="so there is none to play in; train with --evaluate"):
        again.check_played("run")
    assert resolve(data=path, steps=4).names["agent"] == "iql"
    assert resolve("iql", "CartPole-v1", data=path, steps=4).memory.held_out == 0
    assert resolve("iql", data=path, steps=4, discount=0.9).agent.discount == 0.9
    with pytest.raises(ForageError, match=r"has an option 'discont'\. Did you mean 'discount'"):
        resolve("iql", data=path, steps=4, discont=0.9)
    with pytest.raises(ForageError, match=r"are 3 columns .stock, promo, weekday., and those of CartPole-v1 are"):
        resolve("iql", data=path, evaluate="CartPole-v1", steps=4)


def test_options_describe_a_table_that_has_no_description(tmp_path):
    """Other roles are guessed and shown; the run keeps all of them, so that a later TOML is no change."""
    path = tmp_path / "log.csv"
    path.write_text(SHOP)
    setup = resolve("iql", data=path, steps=4, seeds=[0], action=["order"], time="day")
    assert setup.spec.columns.entries()[:2] == ["stock", "promo"] and not (tmp_path / "log.toml").exists()
    assert setup.reading_from[0].endswith("guessed by their names are reward profit; terminated closed; episode shop; "
                                          "observation stock, promo, weekday")  # fmt: skip
    assert "rows have no stock" in setup.reading_from[1]
    kept = json.loads(setup.memory.reading)
    assert kept["time"] == "day" and kept["columns"]["stock"] == {"kind": "number", "missing": "last"}
    describe_table(path, parse_reading({"action": "promo"}, "test"))
    again = from_config(json.loads(json.dumps(setup.full_config())))
    held = again.memory.load(again.spec)
    found = [*held.data.action.tolist(), *held.validation.data.action.tolist()]
    assert again.memory == setup.memory and sorted(found) == [0, 1, 1, 2, 2]
    other = resolve("iql", data=path, steps=4, seeds=[0], action="weekday").spec.columns  # over the TOML file
    assert [c.name for c in other.action] == ["weekday"] and [c.name for c in other.observation] == ["stock", "order"]
    scaled = resolve("iql", data=path, steps=4, seeds=[0], rewards="data-scale").rewards
    assert scaled.deviation == pytest.approx(np.std([1, 2, 4, 6, 7]))  # of the five transitions
    (tmp_path / "log.toml").unlink()
    for words, said in (
        ({}, r"which columns of .*log.csv are the action; say --action order, as its name suggests"),
        ({"action": "order", "time": "shop"}, "has the time 'a'"),
        (
            {"action": "order", "reward": "weekday"},
            "Column weekday is to be the reward and has Mon, Tue, which are no numb",
        ),
    ):
        with pytest.raises(ForageError, match=said):
            resolve("iql", data=path, steps=4, seeds=[0], **words)


def test_another_table_is_read_with_the_columns_of_the_first(tmp_path):
    """A second log has other means and lacks a name; its numbers and codes are those that the policy learned with."""
    path, _ = table_of(tmp_path)
    known = read_table(path, read_description(path)).columns
    text = "\n".join(line for line in SHOP.splitlines() if not line.endswith("Tue;none;4,0;")).replace("8,0;", "80,0;")
    (tmp_path / "new.csv").write_text(text.replace("Mon", "Tue").replace("order", "x").replace(";x;", ";order;"))
    reading = read_description(path)
    table = read_table(tmp_path / "new.csv", reading, known=known)
    assert table.columns == known and table.spec.observation_space == known.observation_space
    data, stock = table.transitions(), known.observation[0]
    raw = data.observation[:, 0] * stock.deviation + stock.mean
    assert raw[-1] == pytest.approx(80, abs=1e-4) and data.observation[:, -1].all()  # Tue stays the second name
    assert read_table(tmp_path / "new.csv", reading).columns.observation[0].mean != stock.mean
    (tmp_path / "new.toml").write_text((tmp_path / "log.toml").read_text())
    forage.data.convert([path, tmp_path / "new.csv"], tmp_path / "both.npz")  # parts of one data set have one coding
    joined, header = forage.data.load(tmp_path / "both.npz")
    np.testing.assert_array_equal(joined.observation[-data.transitions :], data.observation)
    assert Columns.from_json(header["spec"]["columns"]) == known
    (tmp_path / "odd.csv").write_text(SHOP.replace("Mon", "Sun", 1))
    with pytest.raises(ForageError, match="line 2 has 'Sun' in column weekday, which is not Mon, Tue"):
        read_table(tmp_path / "odd.csv", reading, known=known)
    known_spec = Spec("log", known.observation_space, known.action_space, columns=known)
    setup = resolve("iql", data=tmp_path / "new.csv", steps=4, seeds=[0], logged=known_spec, episode="shop", time="day")
    assert setup.spec.columns == known and setup.memory.load(setup.spec).data.observation.shape[1] == 4
    with pytest.raises(ForageError, match=r"starts from has the action order, and for .* promo is said"):
        resolve("iql", data=tmp_path / "new.csv", steps=4, seeds=[0], logged=known_spec, action="promo")


def test_words_take_columns_from_the_roles_that_a_description_has():
    there = parse_reading({"observation": "a,b,c", "next_observation": "d,e,f", "action": "g", "reward": "h"}, "test")
    found = parse_reading({"action": "b", "reward": "g"}, "test").fill_unset(there)
    assert found.observation == ("a", "c") and found.next_observation == ("d", "f")
    assert found.action == ("b",) and found.reward == "g"
    assert parse_reading(json.loads(found.to_json()), "test") == found
    assert set(READING_NAMES) | {"columns"} == set(NAMES)


SWING = "x,y,spin,torque,reward,run\n" + "".join(
    f"{math.cos(i):.3f},{math.sin(i):.3f},{i % 7 - 3},{(i * 7 % 11) / 5 - 1},{-i % 5},{i // 10}\n" for i in range(40)
)
PENDULUM = {"action": "torque", "reward": "reward", "episode": "run", "held_out": 0.0}


@pytest.mark.parametrize("environment", ["Pendulum-v1", "gymnasium:Pendulum-v1"])
def test_a_policy_from_a_table_plays_in_the_codes_of_the_table(environment, tmp_path):
    """Its observations are standardised, and its actions have the bounds of the data."""
    (tmp_path / "log.csv").write_text(SWING)
    scored = resolve("iql", data=tmp_path / "log.csv", evaluate=environment, steps=4, seeds=[0], **PENDULUM)
    spin, spec = scored.spec.columns.observation[2], scored.spec
    assert spec.action_space.low == -1 and spec.action_space.high == pytest.approx(1)
    online = resolve("iql", environment, steps=4, seeds=[0], logged=spec, memory="uniform")
    for setup in (scored, online, from_config(json.loads(json.dumps(online.full_config())))):
        assert setup.score_spec.columns == spec.columns and setup.score_spec.action_space == spec.action_space
        if setup.native:
            first = setup.environment.reset(jax.random.key(0))[1]
            bare = resolve("iql", environment, steps=4, seeds=[0]).environment.reset(jax.random.key(0))[1]
        else:
            first, bare = (made.environment(1).reset(0)[0] for made in (setup, resolve("iql", environment, steps=4)))
        shown, raw = float(first[2]), float(bare[2])
        assert shown == pytest.approx((raw - spin.mean) / spin.deviation, abs=1e-5) != raw
    assert scored.environment_config["logged"] and online.environment_config["logged"]
    with pytest.raises(ForageError, match=r"are 3 columns .x, y, spin., and those of CartPole-v1 are Box"):
        resolve("iql", "CartPole-v1", steps=4, logged=spec)


@pytest.mark.thorough
@pytest.mark.parametrize("environment", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_a_clone_of_a_table_balances_the_pole_as_its_log_does(environment, tmp_path):
    """With raw observations the same clone falls after 132 steps on average."""
    env, rows = gymnasium.make("CartPole-v1"), ["run,x,speed,angle,turning,push,paid,fell"]
    for run in range(20):
        seen, _ = env.reset(seed=run)
        for _ in range(150):
            right = int(seen @ [0.1, 0.5, 10.0, 2.0] > 0)
            after, paid, fell, *_ = env.step(right)
            rows.append(",".join(map(str, [run, *seen, ("left", "right")[right], paid, int(fell)])))
            seen = after
    (tmp_path / "log.csv").write_text("\n".join(rows))
    words = {"action": "push", "reward": "paid", "episode": "run", "terminated": "fell", "evaluate": environment}
    small = {"steps": 1500, "seeds": 1, "evaluation_every": 1500, "evaluation_episodes": 3, "hidden_sizes": (32, 32)}
    run = forage.train("bc", data=tmp_path / "log.csv", directory=tmp_path / "run", display="quiet", **words, **small)
    assert run.evaluation["return"][0] > 400
    seen = dict.fromkeys(("x", "speed", "angle", "turning"), 0.0)
    assert [run.agent.act(seen | {"angle": lean})["push"] for lean in (-0.05, 0.05)] == ["left", "right"]


@pytest.mark.thorough
@pytest.mark.parametrize("environment", ["Pendulum-v1", "gymnasium:Pendulum-v1"])
def test_a_run_from_a_table_is_evaluated_and_goes_on_online(environment, tmp_path):
    (tmp_path / "log.csv").write_text(SWING)
    small = {"seeds": 1, "batch_size": 4, "hidden_sizes": (4,), "evaluation_episodes": 1, "display": "quiet"}
    told = {"evaluate": environment, "evaluation_every": 4}
    run = forage.train("iql", data=tmp_path / "log.csv", steps=4, directory=tmp_path / "a", **told, **PENDULUM, **small)
    assert len(run.evaluations) == 2 and run.agent.spec.columns.observation[0].name == "x"
    force = run.agent.act({"x": 1.0, "y": 0.0, "spin": 2.0})["torque"]
    assert -1 <= force <= 1
    mixed = MixedReplay(str(tmp_path / "log.csv"), capacity=500)
    words = {"start_from": tmp_path / "a", "memory": mixed, "steps": 400, "display": "quiet"}
    target = {"environment": environment} if ":" in environment else {}  # by default the one of its evaluation
    on = forage.train(**words, **target, directory=tmp_path / "b", evaluation_episodes=1)
    assert on.agent.spec.columns == run.agent.spec.columns and on.config["environment"]["id"] == environment
    assert forage.evaluate(on.directory, episodes=1).value < 0
    more = forage.resume(on.directory, steps=600, display="quiet")
    assert more.agent.spec.columns == run.agent.spec.columns


@pytest.mark.thorough
def test_a_run_without_an_environment_measures_its_validation_part(tmp_path):
    path, _ = table_of(tmp_path)
    small = {"batch_size": 4, "hidden_sizes": (4,)}
    run = forage.train("iql", data=path, steps=4, seeds=1, held_out=0.7, directory=tmp_path / "run", **small)
    assert run.evaluation is None
    assert {"validation/critic_loss", "validation/value_loss", "start/value"} <= run.rows[-1].keys()
    action = run.agent.act({"stock": 3, "promo": "no", "weekday": "Mon"})
    assert action["order"] in ("none", "small", "large")
    with pytest.raises(ForageError, match="there is none to play in"):
        forage.evaluate(tmp_path / "run")


@pytest.mark.thorough
@pytest.mark.parametrize("agent", ["bc", "iql", "td3-bc", "cql"])
def test_a_run_without_an_environment_goes_on_as_if_it_had_never_stopped(agent, tmp_path):
    (tmp_path / "log.csv").write_text(SWING)
    small = {"data": tmp_path / "log.csv", "seeds": 2, "batch_size": 4, "hidden_sizes": (4,), "display": "quiet"}
    small |= PENDULUM | {"held_out": 0.3, "steps": 8, "rewards": "data-scale"}
    whole = forage.train(agent, directory=tmp_path / "whole", **small)
    stop = lambda view: view.stop("enough") if view.steps >= 3 else None  # noqa: E731
    stopped = forage.train(agent, directory=tmp_path / "half", callbacks=[stop], **small)
    assert 3 <= stopped.rows[-1]["steps"] < 8
    describe_table(tmp_path / "log.csv", parse_reading({"action": "x"}, "test"))  # the run has its own description
    half = forage.resume(tmp_path / "half", display="quiet")
    for one, other in zip(jax.tree.leaves(whole.agent.state), jax.tree.leaves(half.agent.state), strict=True):
        np.testing.assert_array_equal(data_of(one), data_of(other))


def data_of(leaf):
    """Return an array, or the numbers of a random key."""
    return jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray(leaf)


def test_arrays_and_frames_become_data_sets(tmp_path):
    observations, actions = np.arange(6.0), np.array([0, 2, 1, 0, 1, 2])
    ends = np.array([0, 0, 1, 0, 0, 0]), np.array([0, 0, 0, 0, 0, 1])
    data, header = forage.data.from_arrays(observations, actions, np.ones(6), *ends)
    assert data.observation[:, 0].tolist() == [0, 1, 2, 3, 4] and data.action.tolist() == [0, 2, 1, 0, 1]
    assert data.terminated.tolist() == [0, 0, 1, 0, 0] and data.truncated.tolist() == [0, 0, 0, 0, 1]
    assert header["spec"]["action_space"] == {"kind": "discrete", "n": 3, "start": 0}
    forage.data.save(tmp_path / "a.npz", data, header)
    again, _ = forage.data.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(again.next_observation, data.next_observation)
    bounds = forage.data.from_arrays(observations, actions + 0.5, np.ones(6), *ends)[1]["spec"]["action_space"]
    assert bounds["low"] == 0.5 and bounds["high"] == 2.5
    frame = {"x": observations, "who": list("aaabbb"), "push": list("lrllrl"), "paid": np.ones(6)}
    roles = {"observation": "x", "action": "push", "reward": "paid", "episode": "who", "lossy": True}
    pyarrow = pytest.importorskip("pyarrow")
    views = pyarrow.table(frame | {"push": pyarrow.array(frame["push"], pyarrow.string_view())})  # as polars has texts
    seen = forage.data.from_frame(views, **roles, ends="terminated")[0].action.tolist()
    data, header = forage.data.from_frame(frame, **roles, ends="terminated")
    assert seen == data.action.tolist()
    assert data.action.tolist() == [0, 1, 0, 0, 1, 0] and data.terminated.tolist() == [0, 0, 1, 0, 0, 1]
    for words, call in (
        ("as many of them; they have", lambda: forage.data.from_arrays(observations, actions[:5], np.ones(6), ends[0])),
        (
            "choices from 0 .* and these go from -1",
            lambda: forage.data.from_arrays(observations, actions - 1, *ends * 1),
        ),
        ("array of numbers, not of <U1", lambda: forage.data.from_arrays(observations, list("abcdef"), *ends)),
        ("The frame: row 0 has 'a' in column who", lambda: forage.data.from_frame(frame, **roles | {"reward": "who"})),
        ("not list", lambda: forage.data.from_frame([1], **roles)),
        (r"are the reward; say reward. Its", lambda: forage.data.from_frame(frame, **roles | {"reward": None})),
        (
            r'x, the first of 1 .* means, as in columns=\{"x": \{"missing": "last"\}\} \(or typical, .* value\).$',
            lambda: forage.data.from_frame(frame | {"x": [np.nan, *observations[1:]]}, **roles),
        ),
        (
            r'has no paid, .* such; say columns=\{"paid": \{"missing": "cut"\}\} or a value.$',
            lambda: forage.data.from_frame(frame | {"paid": [np.nan, *np.ones(5)]}, **roles),
        ),
    ):
        with pytest.raises(ForageError, match=words):
            call()


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="only Linux says which pages are in memory")
def test_memory_of_columns_in_files_is_given_back(tmp_path):
    growing = Growing(tmp_path)
    growing.add("x", np.ones(1 << 20))
    column = growing.finish()["x"]
    column[5] = 2.0

    def resident():
        lines = Path("/proc/self/smaps").read_text().split("0.raw")[1].splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Rss:"))

    assert column.sum() == 2**20 + 1 and resident() >= 8192
    release_pages([column, np.zeros(3)])
    assert resident() == 0 and column[5] == 2.0 and column.sum() == 2**20 + 1
