"""Episodes that a recording cut, by hand: they do not count as whole ones in ranks or averages."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import small
from gymnasium import spaces

import forage.data
from forage.agents.offline.bc import BC
from forage.core.types import ForageError, Spec
from forage.data import episodes, files, formats
from forage.data.formats import flat
from forage.data.formats.reading import Reading
from forage.data.logged import LoggedEpisodes, Transitions, join_logs
from forage.memory.dataset import DataSet
from forage.studies.datasets.show import show_data_set

small.keep_compiled()
SPEC = Spec("Costly", spaces.Box(-9, 9, (1,), np.float32), spaces.Discrete(2), horizon=5)


def costly_episodes(*lengths, ends, reward=-1.0, cut=None):
    """Return episodes with a reward of -1 a step; `ends` has T (terminated) or U (truncated) for each."""
    last = np.cumsum(lengths) - 1
    count = int(last[-1]) + 1
    terminated, truncated = np.zeros(count, bool), np.zeros(count, bool)
    for row, kind in zip(last, ends, strict=True):
        (terminated if kind == "T" else truncated)[row] = True
    seen = np.arange(count, dtype=np.float32)[:, None] % 9
    paid = np.full(count, reward)
    data = Transitions(seen, np.zeros(count, int), paid, seen, terminated, truncated)
    return data if cut is None else data.saying_cut(None, np.array(cut))


def write_file(path, data, spec=SPEC):
    files.write_data(path, data, {"spec": flat.spec_json(spec)})
    return DataSet(str(path)).load(spec), np.asarray(data.reward, float)


def keep(opened, reward, best):
    return np.asarray(opened.with_returns(BC(best=best), reward).data.reward).tolist()


# A: 3 steps and over. B: 4 steps and over. C was cut after 1 step. D lasted the 5 steps that the time limit allows.
MIXED = costly_episodes(3, 4, 1, 5, ends="TTUU")


def test_whole_episodes_by_hand():
    assert MIXED.whole(5).tolist() == [True, True, False, True]
    assert MIXED.whole(6).tolist() == [True, True, False, False]
    assert MIXED.whole(None).tolist() == [True] * 4  # without a time limit every truncation is the environment's own
    assert costly_episodes(3, 4, ends="UU", cut=[True, False]).whole(5).tolist() == [
        False,
        True,
    ]  # what the data say counts
    assert MIXED.mean_return(5) == -4 and costly_episodes(1, ends="U").mean_return(5) is None
    with pytest.raises(ForageError, match="Transition 0 is marked as cut, and is not the last"):
        dataclasses.replace(MIXED, cut=np.arange(13) == 0)


def test_an_episode_that_was_cut_is_not_among_the_best(tmp_path):
    opened, reward = write_file(tmp_path / "a.npz", MIXED)
    assert keep(opened, reward, 0.34) == [-1] * 3  # one of three whole ones: A, and not C, whose sum is -1
    assert keep(opened, reward, 0.67) == [-1] * 7  # A and B
    assert keep(opened, reward, 1.0) == [-1] * 13  # all of the data
    assert episodes.best_episodes(reward, MIXED.terminated | MIXED.truncated, 0.01, MIXED.whole(5)).tolist() == [
        0,
        1,
        2,
    ]
    opened, reward = write_file(tmp_path / "b.npz", costly_episodes(3, 1, 2, ends="TUT", cut=[False, True, True]))
    assert keep(opened, reward, 0.5) == [-1] * 3  # the third lacks its beginning


def test_mean_returns_are_those_of_whole_episodes(tmp_path):
    """A, B and D have -4 on average; joined with two episodes, of return -2 and cut, -3.5."""
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    header = formats.about(MIXED, SPEC, first, "csv")
    assert header["mean_return"] == -4
    files.write_data(first, MIXED, header)
    assert show_data_set(first).returns.tolist() == [-3, -4, -5] and show_data_set(first).cut == 1
    more = costly_episodes(2, 1, ends="TU", cut=[False, True])
    files.write_data(second, more, formats.about(more, SPEC, second, "csv"))
    for there in (tmp_path / "c.npz", tmp_path / "c"):
        assert forage.data.convert([first, second], there)["mean_return"] == -3.5
        both = forage.data.load(there)[0]
        assert both.whole(None).tolist() == [True, True, False, True, True, False]
    assert join_logs([MIXED, MIXED], 5).cut is None
    logged = LoggedEpisodes.from_data(join_logs([MIXED, more], 5))
    assert logged.select(logged.numbers > 3).whole(None).tolist() == [True, False]


@pytest.mark.parametrize("kind", ["forage", "folder", "d4rl", "ogbench", "parquet", "minari"])
def test_every_format_says_which_episodes_were_cut_and_which_have_a_start(kind, tmp_path):
    for package in {"d4rl": ("h5py",), "parquet": ("pyarrow",), "minari": ("minari", "h5py")}.get(kind, ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    data = costly_episodes(3, 4, ends="UU", cut=[True, False])
    rows = np.arange(8, dtype=np.float32)
    data = dataclasses.replace(data, observation=rows[[0, 1, 2, 4, 5, 6, 7], None] % 9)
    data = dataclasses.replace(data, next_observation=rows[[1, 2, 3, 5, 6, 7, 0], None] % 9)
    data = data.mark_starts(np.array([True, False]))
    there = tmp_path / {"forage": "a.npz", "ogbench": "a.npz", "d4rl": "a.h5", "parquet": "a.parquet"}.get(kind, "a")
    formats.write_data(there, data, {"spec": flat.spec_json(SPEC)}, kind)
    found, _ = formats.read_data(there, SPEC, Reading())
    assert found.whole(5).tolist() == [False, True] and found.starts.tolist() == [True, False]


@pytest.mark.parametrize("kind", ["forage", "folder"])
def test_held_episodes_tell_values_at_true_starts_alone(kind, tmp_path):
    """Of nine episodes of two steps, whose first observations are 0 to 8, eight are held, and three have no start."""
    data = costly_episodes(*[2] * 9, ends="U" * 9)
    data = dataclasses.replace(data, observation=np.arange(18, dtype=np.float32)[:, None] / 2)
    for name, lost in (("some", [0, 3, 4]), ("all", range(9))):
        marked = data.mark_starts(~np.isin(np.arange(9), lost))
        formats.write_data(tmp_path / name, marked, {"spec": flat.spec_json(SPEC)}, kind)
        starts = DataSet(str(tmp_path / name), held_out=8 / 9).load(SPEC).validation_starts
        if name == "all":
            assert starts is None
        else:
            found = set(np.asarray(starts.observation)[:, 0].tolist())
            assert found <= {1, 2, 5, 6, 7, 8} and len(found) >= 5


def test_starts_of_data_sets_by_hand():
    some = MIXED.mark_starts(np.array([False, True, False, True]))
    assert some.origins.tolist() == [0, 0, 0, 1]  # the first has no start before it
    assert MIXED.starts.all() and MIXED.origins.tolist() == [0, 1, 2, 3]
    assert join_logs([MIXED, some], 5).starts.tolist() == [True] * 4 + [False, True, False, True]
    assert join_logs([MIXED, MIXED], 5).start is None
    with pytest.raises(ForageError, match="Transition 1 is marked as a start, and is not the first of its episode"):
        dataclasses.replace(MIXED, start=np.arange(13) < 2)


def test_a_time_limit_whose_last_row_is_left_out_is_no_cut():
    """Rows 0 to 4 ran out of time after the 5 steps allowed, and the recording stopped 3 steps later."""
    count = 8
    rows = flat.FlatRows(
        np.zeros((count, 1)), np.zeros(count), -np.ones(count), np.zeros(count), np.arange(count) == 4, unfollowed=True
    )
    found, dropped = flat.transitions(Path("a.hdf5"), rows, Reading(), SPEC)
    assert dropped == 2 and found.lengths.tolist() == [4, 2]
    assert found.whole(5).tolist() == [True, False]
    unknown = dataclasses.replace(SPEC, horizon=None)
    found, _ = flat.transitions(Path("a.hdf5"), rows, Reading(), unknown)
    assert found.whole(None).tolist() == [True, False]  # where the file marks no end the recording stopped
