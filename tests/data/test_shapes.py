"""Shapes of arrays are compared with those of the spaces, rather than only their sizes."""

import numpy as np
import pytest
import small
from gymnasium import spaces

from forage.core.types import ForageError, Spec
from forage.data import formats
from forage.data.formats.reading import Reading, parse_reading

small.keep_compiled()


def read_shape(folder, observation, space, action=None, actions=None):
    """Read an archive of OGBench's with these observations, two rows that end an episode and have next ones."""
    spec = Spec("Shaped", space, spaces.Discrete(2) if actions is None else actions)
    acted = np.zeros(2, int) if action is None else action
    rows = {"observations": observation, "next_observations": observation, "actions": acted, "rewards": np.zeros(2)}
    np.savez(folder / "a.npz", **rows, terminals=[0.0, 1.0], masks=[1.0, 0.0])
    return formats.read_data(folder / "a.npz", spec, Reading())[0]


def box(*shape):
    return spaces.Box(-np.inf, np.inf, shape, np.float32)


@pytest.mark.parametrize("shapes", [((12,), (3, 4)), ((3, 4), (12,)), ((4, 3), (3, 4)), ((84, 4, 84), (4, 84, 84)),
                                    ((5, 7, 3), (7, 5, 3)), ((2, 6), (3, 4)), ((4, 2, 3), (3, 4, 2))])  # fmt: skip
def test_observations_of_another_shape_are_refused(shapes, tmp_path):
    found, wanted = shapes
    with pytest.raises(ForageError, match=r"has observations of shape .*, and Shaped has \(") as error:
        read_shape(tmp_path, np.zeros((2, *found), np.float32), box(*wanted))
    assert str(found) in str(error.value) and str(wanted) in str(error.value)


def test_pictures_with_turned_axes_are_turned(tmp_path):
    last = np.arange(2 * 5 * 6 * 3, dtype=np.float32).reshape(2, 5, 6, 3)
    first = np.moveaxis(last, -1, 1)
    for seen, shape in ((first, (5, 6, 3)), (last, (5, 6, 3))):
        np.testing.assert_array_equal(read_shape(tmp_path, seen, box(*shape)).observation, last)
    for seen, shape in ((first, (3, 5, 6)), (last, (3, 5, 6))):
        data = read_shape(tmp_path, seen, box(*shape))
        np.testing.assert_array_equal(data.observation, first)
        np.testing.assert_array_equal(data.next_observation, first)


def test_axes_of_one_number_change_nothing(tmp_path):
    row = np.arange(2 * 84.0, dtype=np.float32).reshape(2, 84)
    for shape in ((84,), (84, 1), (1, 84)):
        assert read_shape(tmp_path, row.reshape(2, 1, 84, 1), box(*shape)).observation.shape == (2, *shape)
    one = np.array([0.5, 1.5], np.float32)
    assert read_shape(tmp_path, row, box(84), one, box(1)).action.tolist() == [[0.5], [1.5]]
    assert read_shape(tmp_path, row, box(84), np.array([[0], [1]])).action.tolist() == [0, 1]
    with pytest.raises(ForageError, match=r"actions of shape \(2, 3\), and Shaped has \(3, 2\)"):
        read_shape(tmp_path, row, box(84), np.zeros((2, 2, 3)), spaces.MultiDiscrete(np.full((3, 2), 4)))


def test_columns_of_a_table_are_counted(tmp_path):
    """Six columns are an observation of shape (2, 3), row after row; a list of six is not."""
    spec = Spec("Shaped", box(2, 3), spaces.Discrete(2))
    words = {"action": "a", "reward": "r", "terminated": "end", "ends": "terminated"}
    (tmp_path / "a.csv").write_text("a,r,end,p,q,s,t,u,v\n0,0,0,1,2,3,4,5,6\n0,0,1,0,0,0,0,0,0\n")
    found = formats.read_data(tmp_path / "a.csv", spec, parse_reading(words | {"observation": "p,q,s,t,u,v"}, "test"))[
        0
    ]
    assert found.observation[0].tolist() == [[1, 2, 3], [4, 5, 6]]
    with pytest.raises(ForageError, match=r"of shape \(5,\), and Shaped has \(2, 3\)"):
        formats.read_data(tmp_path / "a.csv", spec, parse_reading(words | {"observation": "p,q,s,t,u"}, "test"))
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rest = {"a": [0, 0], "r": [0.0, 0.0], "end": [0, 1]}
    flat, nested = np.arange(12.0).reshape(2, 6).tolist(), np.arange(12.0).reshape(2, 2, 3).tolist()
    parquet.write_table(arrow.table(rest | {"flat": flat, "nested": nested}), tmp_path / "a.parquet")
    found = formats.read_data(tmp_path / "a.parquet", spec, parse_reading(words | {"observation": "nested"}, "test"))[0]
    assert found.observation.tolist() == nested
    with pytest.raises(ForageError, match=r"of shape \(6,\), and Shaped has \(2, 3\)"):
        formats.read_data(tmp_path / "a.parquet", spec, parse_reading(words | {"observation": "flat"}, "test"))
