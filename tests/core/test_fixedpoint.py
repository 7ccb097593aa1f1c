"""Overflow is impossible: the worst sums of any scale fit their words, and come out again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

import recalibrate as rc
from recalibrate.classes.linear import UNIT, bits_to_cut
from recalibrate.core.family import family
from recalibrate.core.fixedpoint import (
    LEAST_RESPONSE_BITS,
    LEAST_WEIGHT_BITS,
    MASS_BITS,
    RESPONSE_LIMIT_BITS,
    VALUE_STEP,
    Scale,
    Weights,
    label_bits,
    make_scale,
    snap,
)

LARGEST = 2**63 - 1

row_counts = st.one_of(
    st.integers(1, 2**31),
    st.integers(0, 31).map(lambda k: 2**k),
    st.integers(1, 31).map(lambda k: 2**k - 1),
)
weights = st.none() | st.builds(
    lambda size, ratios: size * ratios,
    st.floats(1e-100, 1e100),
    hnp.arrays(float, st.integers(1, 5), elements=st.floats(1e-6, 1.0)),
)


@st.composite
def scales(draw: st.DrawFn) -> tuple[int, Scale]:
    n_rows = draw(row_counts)
    newton = draw(st.booleans())
    exact_bits = None if newton else draw(st.sampled_from([None, 0, 1, 8]))
    weight = draw(weights)
    n_rows = n_rows if weight is None else max(n_rows, len(weight))
    known = None if weight is None else of_many(weight, n_rows)
    return n_rows, make_scale(n_rows, known, newton=newton, exact_bits=exact_bits)


def of_many(weight: NDArray[np.float64], n_rows: int) -> Weights:
    """Of so many rows, all but the first of which weigh as much as the heaviest."""
    known, one = Weights.of(weight), Weights.of(weight[weight == weight.max()][:1])
    return known._replace(octaves=known.octaves + (n_rows - len(weight)) * one.octaves)


def test_rows_of_equal_weight_that_say_as_much():
    assert Weights.of(np.full(100, 3.0)).effective == 100
    assert Weights.of(np.array([1024.0] + [1.0] * 98)).effective == 1


def worst(n_rows: int, scale: Scale) -> tuple[int, int, int]:
    """Largest sums of s, g and losses, from the bits alone; each row is rounded once."""
    mass = 2**scale.mass_bits + n_rows if scale.weighted else n_rows
    # A hessian p (1 - p) is at most 1/4; 1 is more than any.
    bits = scale.hessian_bits, scale.response_bits + RESPONSE_LIMIT_BITS, scale.loss_bits + 5
    s, g, loss = (int(mass * 2.0**each) + scale.weighted * (n_rows + 1) // 2 for each in bits)
    return s, g, loss


@pytest.mark.slow
@given(scales())
def test_no_sum_over_the_rows_can_overflow(made):
    n_rows, scale = made
    assert max(n_rows, *worst(n_rows, scale)) <= LARGEST
    assert family("identity").loss_limit == 2**5


@given(scales())
def test_the_summed_weights_have_their_bits(made):
    _, scale = made
    assert scale.mass_bits == (MASS_BITS if scale.weighted else scale.row_bits)


@given(scales())
def test_extreme_sums_survive_packing(made):
    n_rows, scale = made
    for rows in (0, 1, n_rows):
        s_all, g_all, _ = worst(rows if not scale.weighted else n_rows, scale)
        for sign in (1, 0, -1):
            # s is a sum of weights and hessians: never negative, zero where all are tiny.
            for s in (0, s_all):
                if scale.plain:
                    s = rows
                words = pack(scale, rows, s, sign * g_all)
                assert all(-LARGEST - 1 <= word <= LARGEST for word in words)
                found = scale.unpack(np.array([words], dtype=np.int64))
                assert [int(part[0]) for part in found] == [rows, s, sign * g_all]


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
    s, g, _ = worst(n_rows, scale)
    for total, factor, cut in zip((s, g), (UNIT * UNIT, UNIT), bits_to_cut(scale), strict=True):
        # Rows are rounded once more, by at most half a unit each.
        assert (total * factor >> cut) + n_rows <= LARGEST
        if not scale.weighted:  # in integers
            assert -(-total // n_rows) * factor + 2**cut <= LARGEST


@given(row_counts, weights, st.booleans(), st.sampled_from([None, 0, 1, 8]))
def test_precision_is_not_given_away(n_rows, weight, newton, exact_bits):
    """Packing may cost bits of the response, but none of a known label's."""
    scale = make_scale(n_rows, weight, newton=newton, exact_bits=exact_bits)
    if scale.weighted:
        lightest = int(scale.quantise_weight(weight).min())
        assert lightest >= 2**LEAST_WEIGHT_BITS
        assert lightest * 2.0**scale.response_bits >= 2**LEAST_WEIGHT_BITS
        assert lightest * 2.0**scale.hessian_bits >= 2 ** (LEAST_WEIGHT_BITS - 1)
        return
    assert scale.response_bits >= (LEAST_RESPONSE_BITS if exact_bits is None else exact_bits)
    if newton:
        assert scale.hessian_bits >= 12


@given(hnp.arrays(float, st.integers(1, 8), elements=st.floats(1e-3, 1e3)), row_counts)
def test_weights_use_their_bits_and_all_are_rounded_once(weight, n_rows):
    scale = make_scale(n_rows, weight, newton=False)
    quantised = scale.quantise_weight(weight)
    if not scale.weighted:
        assert (weight == 1).all()
        assert len(quantised) == 0
        return
    # Powers of two stand for the weights in their sum, and make it up to twice as large.
    assert 2 ** (scale.mass_bits - 2) <= int(quantised.sum()) <= 2**scale.mass_bits + len(weight)
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
    known = None if weight is None else of_many(np.array(weight), n_rows)
    assert make_scale(n_rows, known, newton=newton).words == words


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


@pytest.mark.parametrize("size", [1e-280, 1e300])
def test_weights_of_any_size(size):
    quantised = make_scale(2, np.array([size, size / 2]), newton=False).quantise_weight(
        np.array([size, size / 2])
    )
    assert quantised[0] >= 2 * quantised[1] - 1 > 2**50


@pytest.mark.slow
@given(
    hnp.arrays(float, st.integers(1, 300), elements=st.floats(1e-3, 1e3)),
    st.integers(1, 1000),
)
def test_weights_of_held_out_rows_count_by_their_ratio(weight, n_fitted):
    scale = make_scale(n_fitted, np.array([1.0, 7.3]), newton=False)
    quantised = scale.held_out(Weights.of(weight)).quantise_weight(weight)
    assert int(quantised.sum()) * family("identity").loss_limit * 2.0**scale.loss_bits <= LARGEST
    small = weight * 2.0**-9
    again = scale.held_out(Weights.of(small)).quantise_weight(small)
    np.testing.assert_array_equal(again, quantised)
    # The coarsest here is one of 300 rows a million times lighter than the others.
    np.testing.assert_allclose(quantised / quantised.max(), weight / weight.max(), rtol=1e-9)


def test_held_out_rows_of_a_fit_without_weights_have_none():
    scale = make_scale(10, None, newton=False)
    few = np.full(3, 1e-310)
    assert len(scale.held_out(Weights.of(few)).quantise_weight(few)) == 0
    weighted = make_scale(10, np.arange(1.0, 11), newton=False)
    assert len(weighted.held_out(Weights.of(np.ones(3))).quantise_weight(None)) == 0


# ---- weights of extreme ratio


@pytest.mark.slow
@given(hnp.arrays(float, st.integers(1, 40), elements=st.floats(1e-300, 1e300)), st.randoms())
def test_what_a_scale_knows_of_weights_has_no_order(weight, random):
    order = list(range(len(weight)))
    random.shuffle(order)
    at = random.randint(0, len(weight))
    shuffled = weight[order]
    assert Weights.of(shuffled[:at]) | Weights.of(shuffled[at:]) == Weights.of(weight)


@pytest.mark.parametrize("newton", [False, True])
def test_weights_whose_sums_lose_the_lightest_are_refused_with_their_ratio(newton):
    lost = np.array([1.0, 1e16])
    with pytest.raises(ValueError, match=r"from 1 to 1e\+16, a ratio of 1e\+16.*weight 0"):
        make_scale(2, lost, newton=newton)


def test_weights_next_to_nothing_are_refused():
    with pytest.raises(ValueError, match=r"2e-310.*multiply all weights"):
        make_scale(2, np.array([1e-310, 2e-310]), newton=False)


@pytest.mark.filterwarnings("ignore:sample_weight ranges")
@pytest.mark.parametrize("ratio", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("H", [rc.Groups("x0"), rc.Linear(), rc.Trees(depth=1)])
def test_a_light_group_is_corrected_beside_a_heavy_one(H, ratio):
    """Exactly: the means of both groups come out, however little one of them weighs."""
    rng = np.random.default_rng(5)
    heavy = np.arange(4000) % 50 == 0
    y = (rng.random(4000) < np.where(heavy, 0.7, 0.4)).astype(float)
    weight = np.where(heavy, ratio, 1.0)
    model = rc.fit(
        np.full(4000, 0.5),
        heavy.astype(float)[:, None],
        y,
        H,
        sample_weight=weight,
        validation=False,
        loop=rc.Loop(max_rounds=1, step=1.0, levels=1),
        link="identity",
    )
    found = model.predict(heavy.astype(float)[:, None], base=np.full(4000, 0.5))
    # The light rows' residuals are rounded to 2**-7 of a row at worst, and are 3,920.
    assert found[~heavy][0] == pytest.approx(y[~heavy].mean(), abs=2e-4)
    assert found[heavy][0] == pytest.approx(y[heavy].mean(), abs=2e-4)
