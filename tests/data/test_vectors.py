import numpy as np
import pandas as pd
import pytest

from recalibrate.data.labels import finite_vector, read_weight_vector

NAN = np.nan


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1, 2], r"shape \(3,\), got \(2,\)"),
        ([1, -2, NAN], "2 are not, the first is -2.0 in row 1"),
        ([0, 0, 0], "all weights are zero"),
        (["a", 1, 2], "must be numbers"),
    ],
)
def test_bad_weights(weight, words):
    with pytest.raises(ValueError, match=words):
        read_weight_vector(weight, 3)


@pytest.mark.parametrize(
    "read", [lambda data: read_weight_vector(data, 2), lambda d: finite_vector(d, "f")]
)
@pytest.mark.parametrize(
    "data",
    [
        ["0.5", "1"],
        pd.to_datetime(["2020-01-01", "2020-01-02"]).to_numpy(),
        np.array([1, 2], dtype="timedelta64[D]"),
        np.array([0.5, 1j]),
        np.array([[1], [2, 3]], dtype=object),
    ],
)
def test_what_numpy_would_cast_but_is_no_number_is_refused(read, data):
    with pytest.raises(ValueError, match=r"(f|weight) holds .*numbers"):
        read(data)


def test_masks_are_refused():
    with pytest.raises(TypeError, match="masked"):
        finite_vector(np.ma.masked_array([0.5, 1.0], mask=[False, True]), "f")


def test_pandas_numbers_become_a_new_float64_vector():
    vector = finite_vector(pd.Series([1, 0], dtype="Int64"), "f")
    assert vector.dtype == np.float64
    assert vector.tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="f must be finite; 1 values are not"):
        finite_vector(pd.Series([1, None], dtype="Int64"), "f")
    given = np.array([0.25, 0.5])
    finite_vector(given, "f")[0] = 9.0
    assert given[0] == 0.25
