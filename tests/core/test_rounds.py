"""Applying a model: parts of many rows, side by side, come to the same."""

import numpy as np
import pytest
from settings import fit_with

import recalibrate as rc
from recalibrate.core import rounds
from recalibrate.simulate import census
from recalibrate.support import threads

DATA = census(3000, seed=1)
TERMS = rc.Groups("SEX", "RAC1P", "SEX*RAC1P")
FITS = {
    "default": {},
    "groups on level sets": {"H": TERMS, "levels": 5, "step": 0.5, "max_rounds": 4},
    "trees on level sets": {
        "H": rc.Trees(depth=2),
        "levels": 3,
        "max_rounds": 3,
        "validation": False,
    },
    "rounded": {"H": TERMS, "alpha": 0.001},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_parts_of_the_rows_come_to_the_same(name, monkeypatch):
    model = fit_with(DATA.scores, DATA.X, DATA.y, progress=False, **FITS[name])
    expected = model.margins(DATA.X, base=DATA.scores)
    shared = []

    def share_out(work, items, count):
        shared.append(count)
        return threads.share_out(work, items, count)

    monkeypatch.setattr(threads, "LEAST_ROWS_PER_THREAD", 500)
    monkeypatch.setattr(rounds, "threads_for", lambda n_rows: 4)
    monkeypatch.setattr(rounds, "share_out", share_out)
    np.testing.assert_array_equal(model.margins(DATA.X, base=DATA.scores), expected)
    assert set(shared) == {4}
