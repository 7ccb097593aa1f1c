"""Overflow is impossible: the worst sums of any scale fit their words, and come out again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import recalibrate as rc
from recalibrate.classes.linear.spec import UNIT, bits_to_cut
from recalibrate.core.fixedpoint import (
    LEAST_RESPONSE_BITS,
    RESPONSE_LIMIT_BITS,
    VALUE_STEP,
    Scale,
    label_bits,
    make_scale,
    snap,
)
from recalibrate.core.part import LOSS_LIMIT

LARGEST = 2**63 - 1

row_counts = st.one_of(
    st.integers(1, 2**31),
    st.integers(0, 31).map(lambda k: 2**k),
    st.integers(1, 31).map(lambda k: 2**k - 1),
)
weights = st.none() | hnp.arrays(
    float, st.integers(1, 5), elements=st.floats(1e-100, 1e100, exclude_min=True)
)


@st.composite
def scales(draw: st.DrawFn) -> tuple[int, Scale]:
    n_rows = draw(row_counts)
    newton = draw(st.booleans())
    exact_bits = None if newton else draw(st.sampled_from([None, 0, 1, 8]))
    return n_rows, make_scale(n_rows, draw(weights), newton=newton, exact_bits=exact_bits)


def worst(scale: Scale) -> tuple[int, int]:
    """Largest s and g of one row, from the bits alone."""
    weight = 2**scale.weight_bits
    response = 2 ** (scale.response_bits + RESPONSE_LIMIT_BITS)
    # A hessian p (1 - p) is at most 1/4; 1 is more than any.
    return weight * 2**scale.hessian_bits, weight * response


@given(scales())
def test_no_sum_over_the_rows_can_overflow(made):
    n_rows, scale = made
    s, g = worst(scale)
    loss = 2**scale.weight_bits * int(LOSS_LIMIT) * 2**scale.loss_bits
    for per_row in (1, s, g, loss):
        assert n_rows * per_row <= LARGEST
    assert min(scale.response_bits, scale.hessian_bits, scale.loss_bits) >= 0


@given(scales())
def test_extreme_sums_survive_packing(made):
    n_rows, scale = made
    s_row, g_row = worst(scale)
    if scale.plain:
        s_row = 1
    for rows in (0, 1, n_rows):
        for sign in (1, 0, -1):
            # s is a sum of weights and hessians: never negative, zero where all are tiny.
            for s in (0, rows * s_row):
                if scale.plain:
                    s = rows
                words = pack(scale, rows, s, sign * rows * g_row)
                assert all(-LARGEST - 1 <= word <= LARGEST for word in words)
                found = scale.unpack(np.array([words], dtype=np.int64))
                assert [int(part[0]) for part in found] == [rows, s, sign * rows * g_row]


def pack(scale: Scale, count: int, s: int, g: int) -> list[int]:
    """The words of summed rows, in Python integers that cannot overflow."""
    if scale.words == 1:
        return [count * 2**scale.shift + g]
    if scale.words == 2:
        return [count if scale.plain else count * 2**scale.shift + s, g]
    return [count, s, g]


@given(scales())
def test_no_sum_of_products_can_overflow(made):
    """Linear: s x x' and g x of one row before the cut, and their sums after it."""
    n_rows, scale = made
    s, g = worst(scale)
    s_cut, gram_cut, g_cut, cross_cut = bits_to_cut(scale)
    for value, cut, factor, sum_cut in [
        (s, s_cut, UNIT * UNIT, gram_cut),
        (g, g_cut, UNIT, cross_cut),
    ]:
        # Adding half a unit before a shift may go one above the power of two.
        kept = (value + (2 ** (cut - 1) if cut else 0)) >> cut
        product = kept * factor + (2 ** (sum_cut - 1) if sum_cut else 0)
        assert product <= LARGEST
        assert n_rows * (product >> sum_cut) <= LARGEST


@given(row_counts, weights, st.booleans(), st.sampled_from([None, 0, 1, 8]))
def test_precision_is_not_given_away(n_rows, weight, newton, exact_bits):
    """Packing may cost bits of the response, but none of a known label's."""
    scale = make_scale(n_rows, weight, newton=newton, exact_bits=exact_bits)
    assert scale.response_bits >= (LEAST_RESPONSE_BITS if exact_bits is None else exact_bits)
    if newton:
        assert scale.hessian_bits >= 12
    if scale.weighted:
        assert scale.weight_bits >= 7


@given(hnp.arrays(float, st.integers(1, 8), elements=st.floats(1e-3, 1e3)), row_counts)
def test_the_largest_weight_uses_its_bits_and_all_are_rounded_once(weight, n_rows):
    scale = make_scale(n_rows, weight, newton=False)
    quantised = scale.quantise_weight(weight)
    if not scale.weighted:
        assert (weight == 1).all()
        assert len(quantised) == 0
        return
    largest = int(quantised.max())
    assert 2 ** (scale.weight_bits - 1) <= largest <= 2**scale.weight_bits
    step = 1 / scale.weight_factor
    assert np.log2(step) == round(np.log2(step))
    assert (np.abs(quantised * step - weight) <= step / 2).all()


@pytest.mark.parametrize(
    ("n_rows", "weight", "newton", "words"),
    [
        (400_000, None, False, 1),
        (10_000_000, None, False, 2),
        (400_000, [1.0, 2.5], False, 2),
        (100_000, None, True, 2),
        (2**31, [1.0, 2.5], True, 3),
    ],
)
def test_words_are_shared_where_the_bits_allow(n_rows, weight, newton, words):
    given_weight = None if weight is None else np.array(weight)
    assert make_scale(n_rows, given_weight, newton=newton).words == words


def test_labels_of_few_bits_keep_one_word_for_more_rows():
    assert make_scale(10_000_000, None, newton=False, exact_bits=0).words == 1


def test_equal_weights_of_one_are_no_weights():
    assert make_scale(10, np.ones(10), newton=False) == make_scale(10, None, newton=False)


@pytest.mark.parametrize(
    ("labels", "bits"),
    [([0.0, 1.0], 0), ([0.5, 1.0], 1), ([0.25], 2), ([3 / 256], 8), ([1 / 3], None)],
)
def test_label_bits(labels, bits):
    assert label_bits(np.array(labels)) == bits


@given(hnp.arrays(float, 6, elements=st.floats(-(2.0**10), 2.0**10)), st.permutations(range(6)))
@example(np.array([1e3, -1e3, 1e-12, 0.1, 0.2, 0.3]), [2, 0, 1, 3, 4, 5])
def test_snapped_values_sum_exactly_in_any_order(values, order):
    snapped = snap(values)
    assert (np.abs(snapped - values) <= VALUE_STEP / 2).all()
    forwards = backwards = 0.0
    for i in range(6):
        forwards += snapped[i]
        backwards += snapped[order[i]]
    assert forwards == backwards


# ---- rows that the scale was not made for


def seen_and_unseen(n_rows: int, n_others: int):
    rng = np.random.default_rng(0)
    x = rng.normal(size=n_rows + n_others)
    y = (rng.random(len(x)) < 1 / (1 + np.exp(-x))).astype(float)
    X, base = x.reshape(-1, 1), np.full(len(x), 0.5)
    return (X[:n_rows], y[:n_rows], base[:n_rows]), (X[n_rows:], y[n_rows:], base[n_rows:])


def test_more_held_out_rows_than_fitted_ones():
    """The scale of 100 rows cannot hold sums over 50,000."""
    (X, y, base), (X_other, y_other, base_other) = seen_and_unseen(100, 50_000)
    held_out = {"X": X_other, "y": y_other, "base": base_other}
    model = rc.fit(base, X, y, rc.Trees(depth=1), alpha=0.05, validation=held_out)
    # H fitted on those very rows cannot be worse there than the model it starts from.
    assert model.certificate_.held_out.ceiling >= 0


@pytest.mark.parametrize("times", [1e3, 1e6])
def test_held_out_weights_larger_than_fitted_ones(times):
    """Only ratios of weights matter, so the held-out loss is the same."""
    (X, y, base), (X_other, y_other, base_other) = seen_and_unseen(500, 500)
    weight = np.random.default_rng(1).gamma(2.0, size=500)

    def losses(factor: float) -> tuple[float, ...]:
        held_out = {
            "X": X_other,
            "y": y_other,
            "base": base_other,
            "sample_weight": weight * factor,
        }
        model = rc.fit(
            base,
            X,
            y,
            rc.Trees(depth=1),
            sample_weight=weight,
            validation=held_out,
            loop=rc.Loop(max_rounds=3),
        )
        return model.history_.held_out

    # Larger weights leave fewer bits for each row's loss.
    assert losses(times) == pytest.approx(losses(1.0), rel=1e-4)


@pytest.mark.parametrize("size", [1e-310, 1e-300, 1e300])
def test_weights_of_any_size(size):
    assert make_scale(2, np.array([size, size / 2]), newton=False).weight_bits == 20


@given(
    hnp.arrays(float, st.integers(1, 300), elements=st.floats(1e-3, 1e3)),
    st.integers(1, 1000),
)
def test_weights_of_held_out_rows_count_by_their_ratio(weight, n_fitted):
    scale = make_scale(n_fitted, np.array([1.0, 7.3]), newton=False)
    quantised = scale.held_out(len(weight), weight.max()).quantise_weight(weight)
    more = max(0, len(weight).bit_length() - scale.row_bits)
    bits = scale.weight_bits - more
    assert 2 ** (bits - 1) <= quantised.max() <= 2**bits, "as fine as there is room for"
    loss = int(LOSS_LIMIT) * 2**scale.loss_bits
    assert int(quantised.sum()) * loss <= LARGEST
    small = weight * 2.0**-9
    again = scale.held_out(len(small), small.max()).quantise_weight(small)
    np.testing.assert_array_equal(again, quantised)
    # Half a unit of rounding on both sides, and a unit up to twice as coarse.
    np.testing.assert_allclose(
        quantised / quantised.max(), weight / weight.max(), atol=2.0 ** (1 - bits)
    )


def test_held_out_rows_of_a_fit_without_weights_have_none():
    scale = make_scale(10, None, newton=False)
    assert len(scale.held_out(3, 1e-310).quantise_weight(np.full(3, 1e-310))) == 0
    weighted = make_scale(10, np.arange(1.0, 11), newton=False)
    assert len(weighted.held_out(3, 1.0).quantise_weight(None)) == 0
