"""Statistics of columns whose rows come in pieces, against all rows at once."""

import numpy as np
import pandas as pd
import pytest

from recalibrate.data import columns
from recalibrate.data.columns import Columns, Piece, Span
from recalibrate.data.table import read_table


def in_pieces(table, weight, cuts):
    parts = np.split(np.arange(table.n_rows), cuts)
    pieces = [Piece(table.take(at), weight[at] if len(weight) else weight) for at in parts]
    return Columns(table.schema, lambda work: map(work, pieces))


def people(n=300):
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, n).astype(float)
    age[rng.random(n) < 0.1] = np.nan
    X = pd.DataFrame({"age": age, "job": rng.choice(list("abcd"), n), "score": rng.random(n)})
    return read_table(X), rng.integers(0, 4, n)


@pytest.mark.parametrize("weighted", [False, True])
def test_pieces_add_up_to_the_whole(weighted):
    table, weight = people()
    weight = weight if weighted else np.empty(0, np.int64)
    one, three = Columns.of(table, weight), in_pieces(table, weight, [5, 200])
    whole, parts = (each.distribution("age", np.atleast_1d) for each in (one, three))
    np.testing.assert_array_equal(parts.values, whole.values)
    np.testing.assert_array_equal(parts.mass, whole.mass)
    assert one.span("age") == three.span("age") == Span(18.0, 79.0, True)
    np.testing.assert_array_equal(one.category_weights("job"), three.category_weights("job"))
    sums = [each.category_scores("job", "score") for each in (one, three)]
    np.testing.assert_array_equal(*sums)
    codes, mass = table.column("job"), weight if weighted else np.ones(table.n_rows)
    expected = [mass[codes == code].sum() for code in (1, 2, 3, 4)]
    np.testing.assert_array_equal(one.category_weights("job")[1:], expected)


def test_span_of_a_column_without_values():
    table = read_table(np.array([[np.nan], [np.nan]]))
    low, high, missing = Columns.of(table).span("x0")
    assert np.isnan([low, high]).all()
    assert missing


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_quantiles_of_many_values(dtype, weighted, monkeypatch):
    monkeypatch.setattr(columns, "MOST_DISTINCT", 3)
    rng = np.random.default_rng(4)
    values = np.concatenate(
        [
            rng.normal(size=300) * 10.0 ** rng.integers(-30, 30, 300),
            rng.integers(-3, 3, 300),
            [np.inf, -np.inf, 0.0, -0.0, np.nan, np.nan],
        ]
    ).astype(dtype)
    weight = rng.integers(0, 4, len(values)) if weighted else np.empty(0, np.int64)
    pieces = [(values[k::3], weight[k::3]) for k in range(3)]
    targets = np.array([1, 5, 100, 101, 250, 400])
    found = columns.distribution(
        lambda work: map(work, pieces), lambda piece: piece, lambda total: targets
    )
    present = ~np.isnan(values)
    mass = weight[present] if weighted else np.ones(present.sum(), np.int64)
    expected = np.repeat(np.sort(values[present]), 1)
    order = np.argsort(values[present], kind="stable")
    reached = np.cumsum(mass[order])
    for target in targets:
        place = int(np.searchsorted(np.cumsum(found.mass), target))
        assert found.values[place] == expected[np.searchsorted(reached, target)]
    assert found.mass.sum() == mass.sum()
    assert found.values.dtype == dtype
    assert not found.complete
    for value, total in zip(found.values, np.cumsum(found.mass), strict=True):
        assert total == mass[values[present] <= value].sum()
