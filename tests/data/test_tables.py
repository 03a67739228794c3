"""Tables of real life: their profile, their description and the transitions that they make, worked out by hand."""

import json
from pathlib import Path

import jax
import numpy as np
import pytest

import forage
import forage.data
from forage.config.resolve import from_config, resolve
from forage.core.errors import ForageError
from forage.data.formats.reading import parse_reading, read_description
from forage.data.tables.describe import describe_table
from forage.data.tables.numbers import Growing, release_pages
from forage.data.tables.rows import read_table

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
    for words, said in (
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
    with pytest.raises(ForageError, match=r"actions are Discrete\(3\), and those of CartPole-v1 are"):
        resolve("iql", data=path, evaluate="CartPole-v1", steps=4)


@pytest.mark.thorough
def test_a_run_without_an_environment_measures_its_validation_part(tmp_path):
    path, _ = table_of(tmp_path)
    small = {"batch_size": 4, "hidden_sizes": (4,)}
    run = forage.train("iql", data=path, steps=4, seeds=1, held_out=0.4, directory=tmp_path / "run", **small)
    assert run.evaluation is None
    assert {"validation/critic_loss", "validation/value_loss", "start/value"} <= run.rows[-1].keys()
    action = run.agent.act({"stock": 3, "promo": "no", "weekday": "Mon"})
    assert action["order"] in ("none", "small", "large")
    with pytest.raises(ForageError, match="there is none to play in"):
        forage.evaluate(tmp_path / "run")


@pytest.mark.thorough
def test_a_run_without_an_environment_goes_on_as_if_it_had_never_stopped(tmp_path):
    path, _ = table_of(tmp_path)
    small = {"data": path, "seeds": 2, "held_out": 0.4, "batch_size": 4, "hidden_sizes": (4,), "display": "quiet"}
    whole = forage.train("bc", steps=8, directory=tmp_path / "whole", **small)  # IQL's rate follows the total
    forage.train("bc", steps=4, directory=tmp_path / "half", **small)
    half = forage.resume(tmp_path / "half", steps=8, display="quiet")
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
    data, header = forage.data.from_frame(frame, **roles, ends="terminated")
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
