"""Logs with interleaved episodes: rows by episode and time, by hand, and ambiguous ones."""

from pathlib import Path

import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.core.types import ForageError, Spec
from forage.data import formats
from forage.data.formats.order import moments
from forage.data.formats.reading import Reading, parse_reading

small.keep_compiled()
SPEC = Spec("Shop", spaces.Box(-99, 99, (1,), np.float32), spaces.Discrete(2))
WORDS = {"observation": "x", "action": "a", "reward": "r", "terminated": "end", "episode": "shop"}


def read_rows(rows, names="shop,x,end", spec=SPEC, kind="csv", folder=None, **words):
    """Read rows that are written as a CSV, or as an array each of another format."""
    names = names.split(",")
    columns = [*names, *(name for name in ("a", "r") if name not in names)]
    rows = [(*row, *(0 for _ in columns[len(names) :])) for row in rows]
    path = folder / {"csv": "log.csv", "parquet": "log.parquet", "d4rl": "log.h5", "ogbench": "log.npz"}[kind]
    reading = parse_reading({**WORDS, "lossy": np.bool_(True), **words}, "test")
    by_name = dict(zip(columns, map(np.array, zip(*rows, strict=True)), strict=True))
    theirs = {"observations": by_name["x"][:, None], "actions": by_name["a"], "rewards": by_name["r"]}
    theirs |= {name: by_name[name] for name in ("shop", "day") if name in by_name}
    if kind == "csv":
        path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")
    elif kind == "parquet":
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table(by_name), path)
    elif kind == "d4rl":
        with pytest.importorskip("h5py").File(path, "w") as file:
            none = np.zeros(len(rows))
            for name, array in (theirs | {"terminals": by_name["end"], "timeouts": none}).items():
                file[name] = array.astype("S10") if array.dtype.kind == "U" else array
    else:
        np.savez(path, **theirs, terminals=by_name["end"], masks=1.0 - by_name["end"])
    return formats.read_data(path, spec, reading)[0]


def find_results(data):
    """Return the observations of each episode, and of all terminations."""
    seen = data.observation.reshape(-1).astype(int)
    parts = [seen[data.numbers == number].tolist() for number in range(data.episodes)]
    return parts, seen[data.terminated].tolist()


def test_rows_of_an_episode_are_put_together(tmp_path):
    """Two shops alternate by date; without a next observation the last row of the open one is left out."""
    turns = [("A", 1, 0), ("B", 11, 0), ("A", 2, 0), ("B", 12, 0), ("A", 3, 1), ("B", 13, 0), ("B", 14, 0)]
    data = read_rows(turns, folder=tmp_path)
    assert find_results(data) == ([[1, 2, 3], [11, 12, 13]], [3])
    assert data.next_observation.reshape(-1).tolist() == [2, 3, 3, 12, 13, 14]
    blocks = [("A", 1, 0), ("A", 2, 0), ("B", 11, 0), ("B", 12, 1), ("A", 3, 0), ("A", 4, 1)]
    assert find_results(read_rows(blocks, folder=tmp_path)) == ([[1, 2, 3, 4], [11, 12]], [4, 12])


@pytest.mark.parametrize("kind", ["csv", "parquet", "d4rl", "ogbench"])
def test_rows_are_sorted_by_time_in_every_format(kind, tmp_path):
    """Newest first, and shops take turns. OGBench has no next observation at an end, and keeps the last state."""
    rows = [("A", 4, 1, 4), ("B", 12, 1, 9), ("A", 3, 0, 3), ("A", 2, 0, 2), ("B", 11, 0, 5), ("A", 1, 0, 1)]
    data = read_rows(rows, "shop,x,end,day", kind=kind, folder=tmp_path, time="day")
    last = ([[1, 2, 3], [11]], []) if kind == "ogbench" else ([[1, 2, 3, 4], [11, 12]], [4, 12])
    assert find_results(data) == last
    dated = [(shop, x, end, f"2024-01-{day:02d}") for shop, x, end, day in rows]
    assert find_results(read_rows(dated, "shop,x,end,day", kind=kind, folder=tmp_path, time="day")) == last


def test_a_name_that_comes_back_after_its_end_is_another_episode(tmp_path):
    rows = [("A", 1, 0), ("A", 2, 1), ("B", 11, 1), ("A", 3, 0), ("A", 4, 1)]
    assert find_results(read_rows(rows, folder=tmp_path)) == ([[1, 2], [11], [3, 4]], [2, 11, 4])
    rows = [("A", 1, 0), ("A", 2, 1), ("A", 3, 0), ("A", 4, 1)]
    assert find_results(read_rows(rows, folder=tmp_path)) == ([[1, 2], [3, 4]], [2, 4])
    # Some begin anew after their end, and of another nobody knows: no guess.
    rows = [("A", 1, 0), ("A", 2, 1), ("B", 11, 0), ("B", 12, 0), ("A", 3, 0), ("A", 4, 1), ("B", 13, 0), ("B", 14, 1)]
    with pytest.raises(ForageError, match=r"episode B comes back in line 8 after .* line 5 is no end of it; episode A"):
        read_rows(rows, folder=tmp_path)


def test_a_time_that_begins_anew_is_another_episode(tmp_path):
    steps = [("A", 1, 0, 0), ("A", 2, 0, 1), ("B", 11, 1, 0), ("A", 3, 0, 0), ("A", 4, 0, 1), ("A", 5, 0, 2)]
    data = read_rows(steps, "shop,x,end,step", folder=tmp_path, time="step")
    assert find_results(data) == ([[1], [11], [3, 4]], [11])
    # Two robots with one name: nobody knows whose a row is, unless another column tells.
    rows = [("A", 1, 0, 0, 1), ("A", 11, 0, 0, 2), ("A", 2, 1, 1, 1), ("A", 12, 1, 1, 2)]
    with pytest.raises(ForageError, match=r"episode A has two rows of one time, line 2 and line 3, .*--episode A,B"):
        read_rows(rows, "shop,x,end,step,robot", folder=tmp_path, time="step")
    data = read_rows(rows, "shop,x,end,step,robot", folder=tmp_path, time="step", episode="shop,robot")
    assert find_results(data) == ([[1, 2], [11, 12]], [2, 12])


def test_next_observations_tell_whether_an_episode_goes_on(tmp_path):
    """A continues if its next observation matches; B's name is reused by another episode."""
    rows = [("A", 1, 2, 0), ("B", 11, 12, 0), ("A", 2, 3, 0), ("B", 50, 51, 1), ("A", 3, 4, 1)]
    data = read_rows(rows, "shop,x,x2,end", folder=tmp_path, next_observation="x2")
    assert find_results(data) == ([[1, 2, 3], [11], [50]], [3, 50])


def test_episodes_longer_than_the_time_limit_are_not_made(tmp_path):
    spec = Spec("Shop", SPEC.observation_space, SPEC.action_space, horizon=2)
    rows = [("A", 1, 0), ("A", 2, 0), ("B", 11, 0), ("B", 12, 0), ("A", 3, 0), ("A", 4, 0)]
    with pytest.raises(ForageError, match=r"episode A comes back in line 6 .* have 4 steps, and an episode has 2"):
        read_rows(rows, folder=tmp_path, spec=spec)


@pytest.mark.parametrize("bad", ["", "nan", "NA"])
def test_rows_without_an_episode_or_a_time_are_refused(bad, tmp_path):
    with pytest.raises(ForageError, match="line 3 has no episode, the first of 1 such"):
        read_rows([("A", 1, 0), (bad, 2, 1)], folder=tmp_path)
    with pytest.raises(ForageError, match="line 3 has no time"):
        read_rows([("A", 1, 0, 1), ("A", 2, 1, bad)], "shop,x,end,day", folder=tmp_path, time="day")


def test_times_are_numbers_or_dates():
    def order_of(*texts):
        return np.argsort(moments(Path("a.csv"), np.array(texts), lambda row: f"row {row}")).tolist()

    assert order_of("10", "9", "1e1") == [1, 0, 2]
    assert order_of("2024-02-30", "2024-02-29", "2023-12-31") == [2, 1, 0]  # also days that no calendar has
    assert order_of("2024-01-01 10:00", "2024-01-01 09:59:59.5", "2024-01-01 09:59:59.25") == [2, 1, 0]
    assert order_of("2024-01-01T10:00+02:00", "2024-01-01T09:00Z") == [0, 1]
    for texts, words in (
        (("3.1.2024",), "row 0 has the time '3.1.2024', which is neither"),
        (("2024-01-01", "2024-01-01Z"), "times with a zone and without"),
    ):
        with pytest.raises(ForageError, match=words):
            order_of(*texts)
    with pytest.raises(ForageError, match="row 1 has no time"):
        moments(Path("a.csv"), np.array([1, np.nan]), lambda row: f"row {row}")


def test_rows_are_not_lost_without_a_word(tmp_path):
    """Of shops that never end each last row is left out: 2 of 202 rows are no more than 1 %, 3 of 203 are."""

    def log(shops, each):
        return [(f"S{shop}", step, 0) for step in range(each) for shop in range(shops)]

    assert read_rows(log(2, 101), folder=tmp_path, lossy=False).transitions == 200
    with pytest.raises(ForageError, match=r"3 of 203 rows \(1.5%\) would be left out, 1 of them"):
        read_rows([*log(2, 101), ("S9", 0, 0)], folder=tmp_path, lossy=False)
    with pytest.raises(ForageError, match=r"4 of 7 rows .* left out, 1 of them all that there is of an episode"):
        read_rows([*log(3, 2), ("S9", 0, 0)], folder=tmp_path, lossy=False)


def test_arrays_that_name_episodes_are_there(tmp_path):
    np.savez(tmp_path / "a.npz", observations=np.zeros((2, 1)), actions=[0, 0], rewards=[0, 0], terminals=[0, 1])
    with pytest.raises(ForageError, match=r"has no array 'action'\. Did you mean 'actions'"):
        formats.read_data(tmp_path / "a.npz", SPEC, Reading(episode=("action",)))
