"""The certificate as a value: what it says, and how it says it."""

from dataclasses import FrozenInstanceError, replace
from math import sqrt

import pytest

from recalibrate.core.certificate import Certificate, HeldOut

C = Certificate(
    alpha=0.02,
    B=2.0,
    m=200,
    rounds=2,
    errors=(0.25, 0.2, 0.15, 0.1499),
    exact=True,
    reason="",
    bound=0.0008,
    skipped=0.0,
    group_shares={"sex = F": 0.5, "age < 25": 0.1, "empty": 0.0},
)


def test_gap_limit_is_root_of_alpha_by_b_over_the_share():
    # Roots and quotients in another order differ in the last bit.
    assert C.gap_limit(0.5) == pytest.approx(sqrt(0.02 / 2) / 0.5)
    assert C.gap_limit(1) == pytest.approx(0.1)
    assert C.gap_limit(0.5, proven=True) == pytest.approx(sqrt(0.0008 / 2) / 0.5)
    assert C.gap_limit(0.1) > C.gap_limit(0.5), "a smaller group may be further off"


def test_gap_limit_of_a_bound_below_zero_is_zero():
    """Sums in fixed point may leave a bound a hair below zero."""
    assert replace(C, bound=-1e-13).gap_limit(0.5, proven=True) == 0.0


@pytest.mark.parametrize("share", [0, -0.1, 1.1, float("nan")])
def test_bad_shares(share):
    with pytest.raises(ValueError, match=rf"share must be in \(0, 1\], got {share}"):
        C.gap_limit(share)


def test_gap_limits_leave_out_groups_without_rows():
    assert C.gap_limits == {
        "sex = F": (C.gap_limit(0.5), C.gap_limit(0.5, proven=True)),
        "age < 25": (C.gap_limit(0.1), C.gap_limit(0.1, proven=True)),
    }


@pytest.mark.parametrize(
    ("exact", "bound", "holds"),
    [
        (True, 0.01, True),
        (True, 0.02, True),
        (True, 0.021, False),
        (False, 0.01, False),
        (True, float("nan"), False),
    ],
)
def test_holds_needs_an_exact_oracle_and_the_bound(exact, bound, holds):
    assert replace(C, exact=exact, bound=bound).holds is holds


def test_text():
    text = str(C)
    for words in ("alpha = 0.02, B = 2, m = 200", "2 rounds", "0.25 -> 0.15", "at most 0.0008"):
        assert words in text
    assert "left alone" not in text
    assert "held-out" not in text


def test_text_of_an_inexact_run_claims_nothing():
    text = str(replace(C, exact=False, reason="trees of depth 2 are grown greedily"))
    assert "no guarantee" in text
    assert "grown greedily" in text
    assert "at most" not in text


def test_text_of_skipped_level_sets_and_held_out_rows():
    held_out = HeldOut(rows=321, estimate=0.003, low=-0.001, high=0.007, ceiling=0.01)
    text = str(replace(C, skipped=0.0123, held_out=held_out))
    assert "1.23% of the weight" in text
    assert "321 held-out rows" in text
    assert "0.003 (95 % interval 0 to 0.007" in text


def test_consequences_of_the_proven_bound():
    """For h^2 <= 1, to which the K2 of h^2 <= B scales down."""
    found = replace(C, bound=2e-8).consequences()
    assert found.error == pytest.approx(1e-8)
    assert found.gamma == pytest.approx((16 * 200 * 1e-8) ** (1 / 3))
    assert found.excess == pytest.approx(3 * found.gamma)
    assert found.mass == pytest.approx(found.gamma / 200)
    assert "within 3 gamma" in str(found)
    assert "no useful bound on the squared error" in str(C.consequences())


@pytest.mark.parametrize("B", [0.5, 1.0, 4.0])
def test_transfer_is_the_smallest_error_that_the_conditions_allow(B):
    found = replace(C, bound=2e-12).consequences()
    c = found.transfer(B)

    def fulfilled(c):
        wider, gamma = (1 + sqrt(2 * B / c)) ** 2, c / (4 * B)
        both = c**3 / (2**9 * 200 * wider**2), c * gamma**2 / (32 * 200 * wider**2)
        return found.error < min(both)

    assert fulfilled(c * (1 + 1e-9))
    assert not fulfilled(c * (1 - 1e-9))


def test_frozen():
    with pytest.raises(FrozenInstanceError):
        C.alpha = 0.5
