"""Foreign data sets: every format round trip, kinds of ends, refusals with their row, memory maps."""

import itertools
import json
import os
import shutil
import tracemalloc
from pathlib import Path

import jax
import numpy as np
import pytest
import small
from gymnasium import spaces
from test_offline import SMALL, example, make_moment, write_file

import forage.data
from forage.agents.offline.iql import IQL
from forage.config.resolve import from_config, resolve
from forage.core.checkpoint import is_key
from forage.core.types import ForageError, Spec
from forage.data import files, formats
from forage.data.formats import flat, folder, table
from forage.data.formats.reading import Reading, read_description
from forage.data.logged import LoggedEpisodes, Transitions
from forage.evaluation.off_policy import estimate, tabular_policy
from forage.memory.dataset import DataSet
from forage.memory.mapped import MappedDataSet

small.keep_compiled()
NEEDS = {"minari": ("minari", "h5py"), "d4rl": ("h5py",), "parquet": ("pyarrow",)}
NAMES = {"d4rl": "a.hdf5", "parquet": "a.parquet", "ogbench": "a2.npz", "minari": "a-minari", "folder": "a-folder"}


def need(kind):
    for package in NEEDS.get(kind, ()):
        pytest.importorskip(package, reason=f"{package} is not installed")


def arrays(path, environment=None):
    return files.arrays_of(forage.data.load(path, environment)[0])


@pytest.fixture
def pendulum(tmp_path):
    """A data set of Pendulum with a termination, a truncation and the probabilities of its actions."""
    data = example("Pendulum-v1")
    terminated = np.zeros(60, bool)
    terminated[19] = True
    more = {"terminated": terminated, "truncated": data.truncated & ~terminated}
    more["behaviour_probability"] = np.linspace(0.1, 1, 60)
    fields = {name: getattr(data, name) for name in ("observation", "action", "reward", "next_observation", "episode")}
    # Seen as Minari sees it: each observation once.
    for first in range(0, 60, 20):
        fields["next_observation"][first : first + 19] = fields["observation"][first + 1 : first + 20]
    header = {"spec": resolve("ppo", "Pendulum-v1", seeds=1).config()["spec"]}
    files.write_data(tmp_path / "a.npz", Transitions(**fields, **more), header)
    return tmp_path / "a.npz"


@pytest.mark.parametrize("kind", NAMES)
def test_a_format_gives_back_what_was_written(kind, pendulum, tmp_path):
    need(kind)
    there = tmp_path / NAMES[kind]
    forage.data.convert(pendulum, there, to=kind)
    assert formats.kind_of(there) == kind
    wrote, found = arrays(pendulum), arrays(there, "Pendulum-v1")
    assert found.keys() == wrote.keys()
    for name, array in wrote.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_minari_is_the_same_bytes_on_the_second_round_trip(pendulum, tmp_path):
    need("minari")
    import minari

    def bytes_of(there):
        return {path.relative_to(there): path.read_bytes() for path in there.rglob("*") if path.is_file()}

    forage.data.convert(pendulum, tmp_path / "one", to="minari")
    forage.data.convert(tmp_path / "one", tmp_path / "b.npz")
    forage.data.convert(tmp_path / "b.npz", tmp_path / "two", to="minari")
    forage.data.convert(tmp_path / "two", tmp_path / "c.npz")
    assert len(bytes_of(tmp_path / "one")) == 2
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "two")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "c.npz").read_bytes()
    theirs = minari.MinariDataset(tmp_path / "one" / "data")  # as Minari reads it
    assert (theirs.total_episodes, theirs.total_steps) == (3, 60)
    assert theirs[0].terminations[-1] and theirs[1].truncations[-1] and len(theirs[2].observations) == 21


def test_minari_of_others_is_read(tmp_path):
    need("minari")
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    spec = resolve("ppo", "CartPole-v1", seeds=1).spec
    (tmp_path / "theirs" / "data").mkdir(parents=True)
    store = MinariStorage.new(tmp_path / "theirs" / "data", spec.observation_space, spec.action_space)
    seen = np.arange(12, dtype=np.float32).reshape(3, 4)
    store.update_episodes([
        EpisodeBuffer(
            observations=seen, actions=np.array([0, 1]), rewards=np.ones(2), terminations=np.zeros(2, bool),
            truncations=np.zeros(2, bool),
        )
    ])  # fmt: skip
    found, header = forage.data.load(tmp_path / "theirs", "CartPole-v1")
    np.testing.assert_array_equal(found.next_observation, seen[1:])
    assert found.truncated.tolist() == [False, True]  # the recording stopped
    assert header["source"] == {"file": "theirs", "format": "minari"}
    assert header["mean_return"] is None and not found.whole(500).any()
    with pytest.raises(ForageError, match=r"has observations that are Box\(4,\), and Pendulum-v1 has"):
        forage.data.load(tmp_path / "theirs", "Pendulum-v1")


def minari_of(folder, observation_space, action_space, episodes=1):
    """Return a foreign Minari data set of samples of its spaces: the folder, and the contents of each episode."""
    need("minari")
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    (folder / "data").mkdir(parents=True)
    store = MinariStorage.new(folder / "data", observation_space, action_space)
    observation_space.seed(0), action_space.seed(0)
    made = []
    for _ in range(episodes):
        seen, acted = [observation_space.sample() for _ in range(3)], [action_space.sample() for _ in range(2)]
        buffer = EpisodeBuffer(observations=seen[0])
        for i in range(2):
            step = {"observation": seen[i + 1], "action": acted[i], "reward": 1.0, "terminated": i == 1}
            buffer = buffer.add_step_data(step | {"truncated": False, "info": {}})
        made.append((seen, acted, buffer))
    store.update_episodes([buffer for *_, buffer in made])
    return folder, made[0][0], made[0][1]


def test_minari_with_texts_tuples_and_actions_of_several_parts(tmp_path):
    box, two = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)
    words = spaces.Dict(image=spaces.Box(0, 255, (2, 2, 3), np.uint8), mission=spaces.Text(5, charset="abc"))
    there, seen, _ = minari_of(tmp_path / "texts", words, two)
    found, header = forage.data.load(there)
    place = {"a": 1, "b": 2, "c": 3}
    ids = [[place[letter] for letter in one["mission"]] for one in seen]
    told = [[*row, *[0] * (5 - len(row))] for row in ids]
    assert found.observation["mission"].tolist() == told[:2] and found.next_observation["mission"].tolist() == told[1:]
    assert header["spec"]["observation_space"]["spaces"]["mission"]["kind"] == "tokens"
    found, header = forage.data.load(there, without="mission")
    assert list(found.observation) == ["image"] == list(header["spec"]["observation_space"]["spaces"])
    with pytest.raises(ForageError, match=r"observations without a part 'misson'. Did you mean 'mission'"):
        forage.data.load(there, without="misson")
    forage.data.convert(there, tmp_path / "texts.npz")
    assert forage.data.load(tmp_path / "texts.npz")[0].observation["mission"].tolist() == told[:2]

    there, seen, _ = minari_of(tmp_path / "tuples", spaces.Tuple((box, spaces.Discrete(3, start=5))), two)
    found, _ = forage.data.load(there)
    np.testing.assert_array_equal(found.observation["0"], [one[0] for one in seen[:2]])
    assert found.observation["1"].tolist() == [one[1] - 5 for one in seen[:2]]

    parts = spaces.Dict(go=spaces.Discrete(3, start=-1), turn=spaces.MultiDiscrete([2, 4]))
    there, _, acted = minari_of(tmp_path / "actions", box, parts)
    found, header = forage.data.load(there)
    assert found.action.tolist() == [[one["go"] + 1, *one["turn"]] for one in acted]
    assert header["spec"]["action_space"]["nvec"] == [3, 2, 4]
    mixed = spaces.Dict(go=two, push=box)
    there, _, acted = minari_of(tmp_path / "mixed", box, mixed)
    found, header = forage.data.load(there)
    np.testing.assert_array_equal(found.action, [[one["go"], *one["push"]] for one in acted])
    forage.data.convert(there, tmp_path / "mixed-again")
    again, same = forage.data.load(tmp_path / "mixed-again")
    np.testing.assert_array_equal(again.action, found.action)
    assert same["spec"] == header["spec"] and header["spec"]["action_space"]["kind"] == "mixed"


# How ends are told apart, by hand. Observation t is (t, t, t, t); 8 rows.

ROWS = np.repeat(np.arange(8, dtype=np.float32)[:, None], 4, 1)
BASE = {"observations": ROWS, "actions": np.array([0, 1] * 4), "rewards": np.arange(8.0)}


def flags(*rows):
    return np.isin(np.arange(8), rows)


def d4rl(path, **arrays):
    need("d4rl")
    import h5py

    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return path


def tell(found):
    """Rows that are left, those that terminate and those that are truncated, as numbers of the observation."""
    seen = found.observation[:, 0].astype(int)
    return seen.tolist(), seen[found.terminated].tolist(), seen[found.truncated].tolist()


def test_d4rl_by_hand(tmp_path):
    """Row 2 terminates and stays; row 5 runs out of time, and row 7 is the file's last: neither has a next one."""
    path = d4rl(tmp_path / "a.hdf5", **BASE, terminals=flags(2), timeouts=flags(5))
    found, header = forage.data.load(path, "CartPole-v1")
    assert tell(found) == ([0, 1, 2, 3, 4, 6], [2], [4, 6]) and header["left_out"] == 2
    assert found.next_observation[:, 0].tolist() == [1, 2, 2, 4, 5, 7]
    assert found.reward.tolist() == [0, 1, 2, 3, 4, 6] and found.episode.tolist() == [0, 0, 0, 1, 1, 2]


def test_ends_are_asked_for_where_a_file_cannot_tell(tmp_path):
    following = {"next_observations": ROWS + 1}
    path = d4rl(tmp_path / "a.hdf5", **BASE, **following, terminals=flags(2))

    def ends(said):
        return tell(forage.data.load(path, "CartPole-v1", ends=said)[0])[1:]

    with pytest.raises(ForageError, match=r"not where time ran out.*--ends N"):
        ends(None)
    assert ends("terminated") == ([2], [7])
    assert ends(2) == ([2], [1, 4, 6, 7])  # 0 1 | 2 | 3 4 | 5 6 | 7
    assert ends(3) == ([2], [5, 7])  # at row 2 the task is over as time runs out: termination counts
    with pytest.raises(ForageError, match="marks rows as terminated"):
        ends("truncated")
    with pytest.raises(ForageError, match="ends is terminated, truncated or a number of steps"):
        ends("often")
    (tmp_path / "a.toml").write_text("ends = 3\n")  # beside the file
    assert ends(None) == ([2], [5, 7]) and ends(2)[1] == [1, 4, 6, 7]
    d4rl(tmp_path / "b.hdf5", **BASE, timeouts=flags(5))
    with pytest.raises(ForageError, match="terminals are missing"):
        forage.data.load(tmp_path / "b.hdf5", "CartPole-v1")
    d4rl(tmp_path / "c.hdf5", **BASE)
    with pytest.raises(ForageError, match="does not say where episodes end"):
        forage.data.load(tmp_path / "c.hdf5", "CartPole-v1")


def test_an_end_that_ran_out_of_time_is_never_a_termination(tmp_path):
    """Runs A and B end in rows 3 and 7, and row 3 is a time limit: the option applies to row 7 alone."""
    path = csv_of(tmp_path / "log.csv", words=TOML.replace("terminated", "truncated"))

    def ends(said):
        return tell(forage.data.load(path, "CartPole-v1", ends=said, lossy=True)[0])[1:]

    with pytest.raises(ForageError, match=r"2 of 8 rows \(25.0%\) would be left out: they end .* or say --lossy"):
        forage.data.load(path, "CartPole-v1", ends="truncated")
    with pytest.raises(ForageError, match=r"says where time ran out and not why other episodes end; say --ends"):
        ends(None)
    assert ends("terminated") == ([7], [2])  # without a next observation row 2 is the last of A
    assert ends("truncated") == ends(4) == ([], [2, 6])
    assert ends(5) == ([7], [2])
    csv_of(
        path,
        [line[:-1] + str(int(i in (3, 7))) for i, line in enumerate(LINES)],
        words=path.with_suffix(".toml").read_text(),
    )
    assert ends(None) == ([], [2, 6])  # every end is told


def test_ogbench_by_hand(tmp_path):
    """Rows 3 and 7 are last states; the mask of row 1 is 0 within a trajectory, that of row 6 at its end."""
    rows = {**BASE, "terminals": flags(3, 7).astype(np.float32)}
    masked = tmp_path / "a.npz"
    np.savez(masked, **rows, masks=1.0 - flags(1, 6))
    found, header = forage.data.load(masked, "CartPole-v1")
    assert tell(found) == ([0, 1, 2, 4, 5, 6], [1, 6], [2]) and header["left_out"] == 2
    assert found.next_observation[:, 0].tolist() == [1, 2, 3, 5, 6, 7]
    np.savez(masked, **rows)
    with pytest.raises(ForageError, match="says where episodes end and not why"):
        forage.data.load(masked, "CartPole-v1")
    assert tell(forage.data.load(masked, "CartPole-v1", ends="truncated")[0])[1:] == ([], [2, 6])
    assert tell(forage.data.load(masked, "CartPole-v1", ends=3)[0])[1:] == ([], [2, 6])
    assert tell(forage.data.load(masked, "CartPole-v1", ends=4)[0])[1:] == ([2, 6], [])
    np.savez(masked, **{name: array for name, array in rows.items() if name != "rewards"})
    with pytest.raises(ForageError, match="has no rewards; OGBench's relabel_dataset"):
        forage.data.load(masked, "CartPole-v1")


# A CSV of one's own.

HEAD = "run,x,v,a,w,push,paid,fell"
LINES = [f"{'A' if i < 4 else 'B'},{i},0,0,0,{i % 2},1,{int(i == 3)}" for i in range(8)]
TOML = 'observation = ["x", "v", "a", "w"]\naction = "push"\nreward = "paid"\nterminated = "fell"\nepisode = "run"\n'


def csv_of(path, lines=LINES, head=HEAD, words=TOML):
    path.write_text("\n".join([head, *lines]) + "\n")
    path.with_suffix(".toml").write_text(words)
    return path


def test_a_csv_by_hand(tmp_path, capsys):
    path = csv_of(tmp_path / "log.csv")
    found, header = forage.data.load(path, "CartPole-v1")
    assert tell(found) == ([0, 1, 2, 3, 4, 5, 6], [3], [6]) and header["left_out"] == 1
    assert found.action.tolist() == [0, 1, 0, 1, 0, 1, 0]
    path.with_suffix(".toml").unlink()
    columns = ["--observation", "x,v,a,w", "--action", "push", "--reward", "paid", "--terminated", "fell"]
    words = ["convert", path, tmp_path / "b.npz", "--env", "CartPole-v1", *columns, "--episode", "run"]
    code, out, said = small.run_command(capsys, "data", *words)
    assert code == 0 and "7 transitions in 2 episodes, mean return of the whole ones 4; 1 left out" in out, said
    for name, array in files.arrays_of(found).items():
        np.testing.assert_array_equal(arrays(tmp_path / "b.npz")[name], array)


@pytest.mark.thorough
def test_a_run_learns_from_a_csv(tmp_path):
    data = csv_of(tmp_path / "log.csv")
    setup = resolve("bc", "CartPole-v1", steps=4, seeds=[3], data=data, agent_options=SMALL)
    runner = setup.runner()
    runner.begin()
    assert (np.asarray(runner.advance(4).metrics["updates"]) == 4).all()
    kept = json.loads(json.dumps(setup.config()))
    data.with_suffix(".toml").write_text(TOML.replace('"fell"', '"paid"'))
    with pytest.raises(ForageError, match="is not the data set that this run began with"):
        from_config(kept).runner()  # the words beside it are part of it


def change_case(line, old, new):
    return [text.replace(old, new) if i == line else text for i, text in enumerate(LINES)]


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("line 4 has the action 2, outside the bounds of CartPole-v1", {"lines": change_case(2, ",0,1,0", ",2,1,0")}),
        ("observation is not finite in line 3, the first of 1", {"lines": change_case(1, "A,1,", "A,nan,")}),
        ("line 5 has 'high' in column x, which is no number", {"lines": change_case(3, "A,3,", "A,high,")}),
        ("line 6 has 7 cells, and the first line names 8", {"lines": change_case(4, "B,4,", "B,")}),
        ("line 2 has action 0.5, which is no whole number", {"lines": change_case(0, ",0,1,0", ",0.5,1,0")}),
        ("terminated is 0 or 1 in each row, and line 9 has", {"lines": change_case(7, ",1,1,0", ",1,1,3")}),
        ("is empty: it has names of columns and no rows", {"lines": []}),
        ("has no column 'fallen'", {"words": TOML.replace("fell", "fallen")}),
        ("Nothing says which columns of .*log.csv are the action", {"words": TOML.replace('action = "push"\n', "")}),
        ("log.toml knows no 'acton'", {"words": TOML.replace("action", "acton")}),
        ("log.toml is not TOML", {"words": "a = ["}),
        (r"observations of shape \(3,\), and CartPole-v1 has \(4,\)", {"words": TOML.replace(', "w"', "")}),
        ("does not say where episodes end", {"words": TOML.replace('terminated = "fell"\nepisode = "run"\n', "")}),
        ("says where episodes end and not why", {"words": TOML.replace('terminated = "fell"\n', "")}),
    ],
)
def test_a_csv_is_refused_at_its_first_bad_line(words, changes, tmp_path, capsys):
    path = csv_of(tmp_path / "log.csv", **changes)
    with pytest.raises(ForageError, match=words):
        forage.data.load(path, "CartPole-v1")
    code, _, said = small.run_command(capsys, "data", "convert", path, tmp_path / "b.npz", "--env", "CartPole-v1")
    assert code == 2 and said.count("\n") <= 1
    assert sorted(os.listdir(tmp_path)) == ["log.csv", "log.toml"]  # nothing half-written


def test_what_else_is_refused(pendulum, tmp_path, capsys):
    def check_refused(words, *arguments):
        code, _, said = small.run_command(capsys, "data", "convert", *arguments)
        assert code == 2 and words in said, said

    check_refused("takes what to read and what to write", pendulum)
    check_refused("There is no data set", tmp_path / "none.npz", tmp_path / "b.npz")
    check_refused("No data set is written as 'mynari'", pendulum, tmp_path / "b", "--to", "mynari")
    check_refused("would be written over what is read", pendulum, pendulum)
    check_refused(
        "suffix of forage and is to be written as d4rl, which has .hdf5", pendulum, tmp_path / "b.npz", "--to", "d4rl"
    )
    check_refused("suffix of d4rl and is to be written as ogbench", pendulum, tmp_path / "b.h5", "--to", "ogbench")
    check_refused("is to be written as folder, which has no suffix", pendulum, tmp_path / "b.npz", "--to", "folder")
    check_refused("no option '--end'", pendulum, tmp_path / "b.npz", "--end", "3")
    (tmp_path / "nothing").mkdir()
    check_refused("is a folder and no data set", tmp_path / "nothing", tmp_path / "b.npz")
    check_refused("exists already", pendulum, tmp_path / "nothing")
    cart = write_file(tmp_path / "cart.npz", "CartPole-v1")
    check_refused("do not belong together", pendulum, cart, tmp_path / "b.npz")
    check_refused("do not belong together", pendulum, cart, tmp_path / "b")
    bad = example("CartPole-v1")
    bad.action[7] = 5
    files.write_data(tmp_path / "bad.npz", bad, {"spec": resolve("ppo", "CartPole-v1", seeds=1).config()["spec"]})
    check_refused("row 7 has the action 5, outside the bounds", tmp_path / "bad.npz", tmp_path / "b.npz")
    with pytest.raises(ForageError, match="row 7 has the action 5"):
        DataSet(str(tmp_path / "bad.npz")).load(resolve("ppo", "CartPole-v1", seeds=1).spec)
    left = sorted(path for path in os.listdir(tmp_path) if path.startswith((".", "b.npz")) or path == "b")
    assert not left


@pytest.mark.parametrize("kind", ["d4rl", "parquet", "minari", "folder"])
def test_damaged_files_are_refused(kind, pendulum, tmp_path):
    need(kind)
    there = tmp_path / NAMES[kind]
    forage.data.convert(pendulum, there, to=kind)
    whole = next(path for path in (there, there / "data" / "main_data.hdf5", there / "reward.npy") if path.is_file())
    whole.write_bytes(whole.read_bytes()[:-40])
    with pytest.raises(ForageError, match=r"is not a whole|is not the data set that was written"):
        forage.data.load(there, "Pendulum-v1")


@pytest.mark.parametrize("name", ["actions", "rewards", "terminals"])
@pytest.mark.parametrize("kind", ["d4rl", "ogbench"])
def test_one_value_in_place_of_an_array_is_refused(kind, name, tmp_path):
    rows = {**BASE, "terminals": flags(2, 7), name: 1}
    path = tmp_path / NAMES[kind]
    d4rl(path, **rows) if kind == "d4rl" else np.savez(path, **rows)
    with pytest.raises(ForageError, match=r"has one value as its \w+; it is an array with a row for each step"):
        forage.data.load(path, "CartPole-v1", ends="terminated")


def test_a_group_in_place_of_an_array_is_refused(tmp_path):
    rows = {"observations/part": ROWS, "actions": BASE["actions"], "rewards": BASE["rewards"]}
    with pytest.raises(ForageError, match="observations is no array"):
        forage.data.load(d4rl(tmp_path / "a.hdf5", **rows), "CartPole-v1")


@pytest.mark.parametrize(("kind", "mark"), [("d4rl", b"SNOD"), ("d4rl", b"HEAP"), ("parquet", b"next_observation")])
def test_flipped_bytes_of_what_a_file_says_of_itself_are_refused(kind, mark, pendulum, tmp_path):
    need(kind)
    there = tmp_path / NAMES[kind]
    forage.data.convert(pendulum, there, to=kind)
    whole = there.read_bytes()
    there.write_bytes(whole.replace(mark, b"\xff" + mark[1:]))
    assert there.read_bytes() != whole
    with pytest.raises(ForageError, match=f"{NAMES[kind]} is not a whole"):
        forage.data.load(there, "Pendulum-v1")


def test_a_flipped_byte_of_ogbench_is_refused_wherever_it_is(pendulum, tmp_path):
    path, spec = tmp_path / "b.npz", resolve("ppo", "Pendulum-v1", seeds=1).spec
    forage.data.convert(pendulum, path, to="ogbench")
    whole, refused = path.read_bytes(), 0
    for place in range(0, len(whole), 61):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        try:
            formats.read_data(path, spec)
        except ForageError:
            refused += 1
    assert refused > 10


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("has lost its column truncated", lambda table: table.drop(["truncated"])),
        ("was given the column more", lambda table: table.append_column("more", table["reward"])),
        ("a.parquet is empty: it has no rows", lambda table: table.slice(0, 0)),
        (r"a.parquet is not a data set to learn from: Episode 2 is not whole", lambda table: table.slice(0, 50)),
        (
            "is not as Forage wrote it",
            lambda table: table.set_column(table.column_names.index("observation"), "observation", table["action"]),
        ),
    ],
)
def test_parquet_of_forage_that_was_changed_is_refused(words, change, pendulum, tmp_path):
    need("parquet")
    import pyarrow.parquet

    there = tmp_path / "a.parquet"
    forage.data.convert(pendulum, there)
    pyarrow.parquet.write_table(change(pyarrow.parquet.read_table(there)), there)
    with pytest.raises(ForageError, match=words):
        forage.data.load(there)


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("its header has no arrays", lambda header: header.pop("arrays")),
        ("its header has no spec", lambda header: header.pop("spec")),
        ("a-folder is not a whole data set", lambda header: header["arrays"].clear()),
    ],
)
def test_a_folder_whose_header_was_changed_is_refused(words, change, pendulum, tmp_path):
    there = tmp_path / "a-folder"
    forage.data.convert(pendulum, there)
    header = folder.read_header(there)
    change(header)
    (there / "header.json").write_text(json.dumps(header))
    with pytest.raises(ForageError, match=words):
        forage.data.load(there)


def test_files_that_cannot_be_read_are_refused(tmp_path, monkeypatch):
    with pytest.raises(ForageError, match="cannot be read: Is a directory"):
        table.read_csv(tmp_path, BYTES, Reading())
    path = csv_of(tmp_path / "log.csv")

    def refuse(*words, **options):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_text", refuse)
        with pytest.raises(ForageError, match=r"log.toml cannot be read: Permission denied"):
            read_description(path)


BYTES = Spec("Bytes", spaces.Box(0, 255, (2,), np.uint8), spaces.Discrete(3))
ROOM = Spec("Room", spaces.Discrete(16), spaces.Discrete(3))
WIDE = Spec("Wide", spaces.Box(0, 255, (4, 5), np.uint8), spaces.Discrete(3))
FLOATS = Spec("Floats", spaces.Box(0, 1, (2,), np.float32), spaces.Discrete(3))


@pytest.mark.parametrize(
    ("spec", "name", "value", "words"),
    [
        (BYTES, "observation", 300, r"row 1 has the observation \[0, 300\], outside the bounds of Bytes .* first of 2"),
        (BYTES, "observation", -1, r"row 1 has the observation \[0, -1\]"),
        (BYTES, "next_observation", 256.0, r"row 1 has the next_observation \[0, 256\]"),
        (ROOM, "observation", 300, "row 1 has the observation 300, outside the bounds of Room"),
        (WIDE, "observation", 300, "row 1 has the observation with 300, outside the bounds of Wide"),
        (FLOATS, "action", 2**32 + 1, "row 1 has the action 4294967297, outside the bounds of Floats"),
        (FLOATS, "observation", 7.0, None),  # simulators do so
    ],
)
def test_whole_numbers_outside_their_space_are_refused(spec, name, value, words):
    shape = {"action": ()}.get(name, spec.observation_space.shape)
    rows = {
        "observation": np.zeros((4, *spec.observation_space.shape), int),
        "next_observation": np.zeros((4, *spec.observation_space.shape), int),
        "action": np.zeros(4, int),
    }
    rows[name] = np.zeros((4, *shape), np.asarray(value).dtype)
    rows[name][(slice(1, 3), *(-1,) * len(shape))] = value
    rows |= {"reward": np.zeros(4), "terminated": flags()[:4], "truncated": flags(3)[:4]}

    def read_csv_case():
        return flat.transitions(Path("a.csv"), flat.FlatRows(**rows), Reading(), spec)[0]

    if words is None:
        assert read_csv_case().observation.max() == value
    else:
        with pytest.raises(ForageError, match=words):
            read_csv_case()


def test_lists_of_numbers_are_no_python_objects_on_the_way():
    need("parquet")
    import pyarrow

    numbers = np.arange(200_000.0)
    inner = pyarrow.array(numbers)
    columns = {
        "fixed": pyarrow.FixedSizeListArray.from_arrays(inner, 100),
        "loose": pyarrow.ListArray.from_arrays(np.arange(0, 200_001, 100, dtype=np.int32), inner),
    }
    columns = pyarrow.table(columns)
    for name in columns.column_names:
        tracemalloc.start()
        found = table.array_of(Path("a.parquet"), columns.slice(1), name)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        np.testing.assert_array_equal(found, numbers.reshape(2000, 100)[1:])
        assert most < 2.5 * numbers.nbytes  # as objects 24 bytes a number, and 8 in a list
    ragged = pyarrow.table({"loose": [[1.0], [1.0, 2.0]]})
    with pytest.raises(ForageError, match="column loose has lists of different lengths"):
        table.array_of(Path("a.parquet"), ragged, "loose")


def test_an_estimator_that_needs_probabilities_says_so(tmp_path):
    log = LoggedEpisodes.from_data(files.read_data(Path(write_file(tmp_path / "a.npz", "CartPole-v1")))[0])
    with pytest.raises(ForageError, match="probabilities"):
        estimate(log, lambda seen: tabular_policy(np.ones((4, 2)))(np.abs(seen)), 0.9, ["wpdis"])


# Larger than memory.


@pytest.mark.thorough
@pytest.mark.parametrize("agent", ["iql", "bc"])
def test_a_memory_map_gives_the_run_that_memory_gives(agent, pendulum, tmp_path):
    """From the same batches, so up to rounding in another program; and resumed as if never stopped."""
    forage.data.convert(pendulum, tmp_path / "large")

    def begin_case(data):
        setup = resolve(agent, "Pendulum-v1", steps=40, seeds=[3, 7], data=data, agent_options=SMALL)
        runner = setup.runner()
        return setup, runner

    _, near = begin_case(pendulum)
    near.begin()
    near.advance(10)
    setup, far = begin_case(tmp_path / "large")
    far.begin()
    far.advance(5)
    far.save(tmp_path / "half.npz", {"steps": far.steps})
    far.advance(5)
    for one, other in zip(jax.tree.leaves(near.state), jax.tree.leaves(far.state), strict=True):
        if not is_key(one):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    again = from_config(json.loads(json.dumps(setup.config()))).runner()
    again.load(tmp_path / "half.npz")
    again.advance(5)
    assert small.differing(far.state, again.state) == []


def test_batches_are_gathered_ahead(pendulum, tmp_path):
    forage.data.convert(pendulum, tmp_path / "large")
    spec = resolve("ppo", "Pendulum-v1", seeds=1).spec
    memory = DataSet(str(tmp_path / "large")).with_hashes().load(spec)
    assert isinstance(memory, MappedDataSet)
    keys = jax.random.split(jax.random.key(0), 4)
    draw = jax.jit(lambda key, then: memory.sample((), 8, 2, make_moment(IQL(), spec)._replace(key=key, upcoming=then)))
    wrote = files.read_data(pendulum)[0]
    for key, then in itertools.pairwise(keys):
        batch = draw(key, then)
        rows = np.asarray(batch.index)[None] + np.arange(2)[:, None]
        np.testing.assert_array_equal(batch.experience.observation, wrote.observation[rows])
        np.testing.assert_array_equal(batch.experience.terminated, wrote.terminated[rows])
    assert memory.store.ready == 2  # the second and the third were there already


def test_several_files_become_one_folder(pendulum, tmp_path):
    shutil.copy(pendulum, tmp_path / "b.npz")
    forage.data.convert([pendulum, tmp_path / "b.npz"], tmp_path / "large")
    forage.data.convert([pendulum, tmp_path / "b.npz"], tmp_path / "both.npz")
    found, joined, one = arrays(tmp_path / "large"), arrays(tmp_path / "both.npz"), arrays(pendulum)
    for name, array in one.items():
        twice = np.concatenate([array, array + 3 if name == "episode" else array])
        np.testing.assert_array_equal(found[name], twice, err_msg=name)
        np.testing.assert_array_equal(joined[name], twice, err_msg=name)
    plain = np.load(tmp_path / "large" / "observation.npy", mmap_mode="r")
    np.testing.assert_array_equal(plain, found["observation"])


def test_a_folder_that_fails_leaves_nothing(pendulum, tmp_path):
    data, header = files.read_data(pendulum)
    with pytest.raises(RuntimeError), folder.Writer(tmp_path / "large", header) as writer:
        writer.add(data)
        raise RuntimeError
    assert os.listdir(tmp_path) == ["a.npz"]


def test_words_over_words():
    assert Reading(ends=3, action=("a",)).fill_unset(Reading(ends=5, reward="r")) == Reading(
        ends=3, action=("a",), reward="r"
    )
