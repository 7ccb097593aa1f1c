"""Columns that number the rows."""

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.data.table import read_table
from recalibrate.fitting.run import id_like

N = 400
RNG = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "number": RNG.permutation(N) + 5000,
        "name": [f"p{k}" for k in range(N)],
        "category": pd.Categorical([f"c{k}" for k in range(N)]),
        "age": RNG.integers(18, 80, N),
        "income": RNG.normal(50_000, 9_000, N),
        "city": RNG.choice(["Bern", "Oslo"], N),
    }
)


def test_categories_and_whole_numbers_that_are_all_different():
    table = read_table(X)
    assert id_like(table, table.schema.names, N) == ["number", "name", "category"]
    assert id_like(table, ["age", "number"], N) == ["number"]


def test_few_rows_are_different_anyway():
    few = read_table(X[:50])
    assert id_like(few, few.schema.names, 50) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("H", "found"),
    [
        (None, "'number', 'name', 'category'"),
        (rc.Groups("city"), ""),
        (rc.Groups("name"), "'name'"),
    ],
    ids=["default", "city", "name"],
)
def test_a_fit_notes_those_that_it_looks_at(H, found):
    model = rc.fit(np.full(N, 0.4), X, RNG.random(N) < 0.4, H)
    noted = [note for note in model.notes if note.startswith("id-like columns: ")]
    assert len(noted) == bool(found)
    assert all(note.startswith(f"id-like columns: {found} (") for note in noted)
