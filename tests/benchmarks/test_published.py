"""The parts of the published comparison that a mistake could hide in; the rows are not ours."""

import numpy as np
import pytest
from scripts import load

published = load("published")


def slow_smooth_ece(predictions, y, width):
    """By its definition: a reflected Gaussian kernel around every prediction, on a fine grid."""
    grid = (np.arange(1000) + 0.5) / 1000
    sums = np.zeros(1000)
    for p, residual in zip(predictions, predictions - y, strict=True):
        for image in (p, -p, 2 - p):
            sums += residual * np.exp(-(((grid - image) / width) ** 2) / 2)
    return np.abs(sums).mean() / (width * np.sqrt(2 * np.pi)) / len(y)


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_smooth_ece_is_the_width_at_which_it_equals_the_width(shift):
    rng = np.random.default_rng(0)
    predictions = rng.beta(2, 5, 400)
    y = (rng.random(400) < np.clip(predictions + shift, 0, 1)).astype(float)
    found = published.smooth_ece(predictions, y)
    # The grid has cells of 1/4000, the width is halved down to 2**-12.
    assert found == pytest.approx(slow_smooth_ece(predictions, y, found), abs=1e-3)
    assert abs(found - shift) < 0.06


def test_rows_are_drawn_as_the_authors_draw_them():
    chosen, others = published.cut(np.arange(10), 4, seed=42)
    np.random.seed(42)  # noqa: NPY002 - as their code does
    assert chosen.tolist() == sorted(np.random.choice(np.arange(10), 4, replace=False))  # noqa: NPY002
    assert sorted([*chosen, *others]) == list(range(10))


def test_files_of_both_forms_are_read(tmp_path):
    path = tmp_path / "bank.csv"
    names = "age;job;marital;education;housing;day;duration;y"
    path.write_text(
        f"{names}\n33;retired;single;primary;yes;5;100;no\n58;technician;married;tertiary;no;1;9;yes\n"
    )
    data = published.read_bank(path)
    assert data.table["age"].tolist() == [35, 60]
    assert data.y.tolist() == [0, 1]
    assert data.groups["age >= 50"].tolist() == [False, True]
    assert "age < 30" not in data.groups  # nobody
    with pytest.raises(SystemExit, match="25 columns expected, got 1"):
        published.read_credit(path)
