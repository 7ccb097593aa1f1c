"""Bins: codes mean thresholds and categories, and depend on weights, not on the order of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from recalibrate.data.bins import Bins, bin_columns, numeric_bins
from recalibrate.data.columns import Columns
from recalibrate.data.table import read_table
from recalibrate.kernels.binning import code_by_search

NAN = np.nan
values32 = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.integers(-6, 6).map(float),
    st.integers(0, 100_000).map(float),
)
numbers = hnp.arrays(np.float32, st.integers(1, 40), elements=values32)
whole = hnp.arrays(np.float32, st.integers(1, 40), elements=st.integers(-6, 6).map(float))


def bins_of(values: np.ndarray, most: int = 255, weight: np.ndarray | None = None) -> Bins:
    return bin_columns(Columns.of(read_table(values.reshape(-1, 1)), weight), ["x0"], most=most)


def codes_of(bins: Bins, values: np.ndarray) -> list[int]:
    return bins.encode(read_table(values.reshape(-1, 1)))[:, 0].tolist()


def same(a: Bins, b: Bins) -> bool:
    return all(
        x.edges.tobytes() == y.edges.tobytes()
        and np.array_equal(x.lookup, y.lookup)
        and (x.name, x.exact, x.count) == (y.name, y.exact, y.count)
        for x, y in zip(a.features, b.features, strict=True)
    )


# ---- numbers


@pytest.mark.slow
@given(numbers | whole, numbers | whole, st.sampled_from([2, 3, 10, 255]))
@example(np.float32([1, 2]), np.float32([-np.inf, np.inf, NAN, 1.5]), 255)
def test_a_code_says_which_edges_a_value_is_above(values, new, most):
    """``x <= edges[b]`` exactly when ``code <= b + 1``, also far outside of the fitted rows."""
    bins = bins_of(values, most)
    (feature,) = bins.features
    assert (np.diff(feature.edges) > 0).all()
    assert feature.count == len(feature.edges) + 2 <= most + 1
    edges = feature.edges
    with np.errstate(over="ignore"):  # the neighbour of the largest float is infinite
        above = np.nextafter(edges, np.float32(np.inf))
    probe = np.concatenate([values, new, edges, above])
    for x, code in zip(probe.tolist(), codes_of(bins, probe), strict=True):
        if np.isnan(x):
            assert code == 0
        else:
            assert code == 1 + sum(edge < x for edge in edges.tolist())


@pytest.mark.slow
@given(numbers | whole)
@example(np.float32([np.inf]))
@example(np.float32([2.0**63]))
def test_few_distinct_values_have_a_bin_each(values):
    bins = bins_of(values)
    assert bins.exact
    present = values[~np.isnan(values)]
    assume(len(present))
    codes = codes_of(bins, present)
    by_value = dict(zip(present.tolist(), codes, strict=True))
    distinct = sorted(by_value)
    assert [by_value[value] for value in distinct] == list(range(1, len(distinct) + 1))


@pytest.mark.slow
@given(numbers | whole, st.sampled_from([2, 3, 255]), st.randoms(use_true_random=False))
def test_order_of_rows_and_repetition_do_not_matter(values, most, random):
    weight = np.array([random.randint(1, 3) for _ in values], dtype=np.int64)
    order = list(range(len(values)))
    random.shuffle(order)
    expected = bins_of(values, most, weight)
    assert same(bins_of(values[order], most, weight[order]), expected)
    assert same(bins_of(np.repeat(values, weight), most), expected)


def test_values_further_apart_than_the_largest_float32():
    values = np.array([0.0, 2.5e36, -3.4e38, 3.4e38], dtype=np.float32)
    assert codes_of(bins_of(values, 4), values) == [2, 3, 1, 4]


@pytest.mark.slow
@given(hnp.arrays(np.float32, 30, elements=values32))
def test_rows_of_weight_zero_are_not_seen(values):
    weight = (np.arange(30) % 3 > 0).astype(np.int64)
    assert same(bins_of(values, 4, weight), bins_of(values[weight > 0], 4))


def test_bins_have_about_equal_weight():
    values = np.random.default_rng(0).normal(size=10_000).astype(np.float32)
    bins = bins_of(values, 20)
    assert not bins.exact
    counts = np.bincount(codes_of(bins, values))[1:]
    assert len(counts) == 20
    assert counts.min() >= 499
    assert counts.max() <= 501


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 2000), min_size=3, max_size=300),
    st.sampled_from([2, 3, 10, 100]),
)
@example([5000] + [1] * 250 + [3000] + [1] * 250, 100)
@example([10**6, 1, 1, 1], 3)
def test_frequent_values_have_a_bin_alone_and_leave_the_others_theirs(counts, most):
    """Bins by weight; a value counts as two bins at most, and then it is alone."""
    assume(len(counts) > most)
    values = np.repeat(np.arange(len(counts)) / 8, counts).astype(np.float32)
    bins = bins_of(values, most)
    codes = np.array(codes_of(bins, np.arange(len(counts), dtype=np.float32) / 8))
    assert codes.max() <= most
    # The weight of a bin by trying: the largest at which the values still fill all bins.
    mass = np.array(counts, dtype=float)
    low, high = 0.0, mass.sum() / most
    for _ in range(100):
        middle = (low + high) / 2
        filled = np.minimum(mass, 2 * middle).sum() >= most * middle
        low, high = (middle, high) if filled else (low, middle)
    # Cells that values are looked for in are a fraction of a bin.
    cell = mass.sum() / 4096 + 1
    for code in np.flatnonzero(mass > 2 * low + 2 * cell):
        assert (codes == codes[code]).sum() == 1
    for code in np.unique(codes):
        inside = mass[codes == code]
        assert len(inside) == 1 or inside.sum() <= 4 * low + 4 * cell


def test_a_column_that_is_mostly_zero_keeps_its_bins():
    rng = np.random.default_rng(0)
    values = np.where(rng.random(20_000) < 0.95, 0, rng.integers(1, 400, 20_000)).astype(np.float32)
    (feature,) = bins_of(values).features
    assert feature.count > 230
    assert feature.edges[0] == np.float32(0.5)


def test_neighbouring_floats_are_told_apart():
    low = np.float32(1.0)
    pair = np.array([low, np.nextafter(low, np.float32(2))], dtype=np.float32)
    assert codes_of(bins_of(pair), pair) == [1, 2]


def test_infinities_are_values():
    values = np.array([-np.inf, 0.0, np.inf], dtype=np.float32)
    assert codes_of(bins_of(values), values) == [1, 2, 3]


def test_a_column_without_values_has_only_the_missing_bin_in_use():
    bins = bins_of(np.full(3, NAN, dtype=np.float32))
    assert codes_of(bins, np.array([NAN, 5.0], dtype=np.float32)) == [0, 1]


@pytest.mark.parametrize(("distinct", "dtype"), [(255, np.uint8), (256, np.uint16)])
def test_codes_are_as_narrow_as_they_can_be(distinct, dtype):
    values = np.arange(distinct, dtype=np.float32) / 7
    bins = bins_of(values, 65_535)
    codes = bins.encode(read_table(values.reshape(-1, 1)))
    assert codes.dtype == dtype
    assert codes[:, 0].tolist() == list(range(1, distinct + 1))


# ---- categories


def letters(*values: str | None) -> pd.DataFrame:
    return pd.DataFrame({"letter": list(values)})


def test_categories_have_a_code_each_and_unseen_ones_count_as_missing():
    table = read_table(letters("b", "a", None, "b"))
    bins = bin_columns(Columns.of(table), ["letter"])
    assert bins.features[0].categorical
    assert bins.exact
    assert bins.encode(table)[:, 0].tolist() == [2, 1, 0, 2]
    new = table.schema.read(letters("z", "a", None))
    assert bins.encode(new)[:, 0].tolist() == [0, 1, 0]


def test_rare_categories_share_the_last_bin():
    table = read_table(letters("a", "b", "b", "c", "d", "d", "e"))
    bins = bin_columns(Columns.of(table), ["letter"], most=3)
    assert not bins.exact
    assert bins.features[0].count == 4
    assert bins.encode(table)[:, 0].tolist() == [3, 1, 1, 3, 2, 2, 3]


def test_weights_decide_which_categories_are_rare():
    table = read_table(letters("a", "b", "b", "c"))
    weight = np.array([5, 1, 1, 9], dtype=np.int64)
    bins = bin_columns(Columns.of(table, weight), ["letter"], most=3)
    assert bins.encode(table)[:, 0].tolist() == [1, 2, 2, 3]
    bins = bin_columns(Columns.of(table, weight), ["letter"], most=2)
    assert bins.encode(table)[:, 0].tolist() == [2, 2, 2, 1]


# ---- categories by their mean score


def scored(names, scores) -> pd.DataFrame:
    return pd.DataFrame({"name": list(names), "score": np.asarray(scores, dtype=float)})


def order_of(frame, *, weight=None, most=255, rows=None):
    """Bins of the second feature, and its codes of some rows."""
    table = read_table(frame)
    columns = Columns.of(table, weight)
    bins = bin_columns(columns, ["name"], most=most, ordered=["name"], score="score")
    new = table if rows is None else table.schema.read(rows)
    return bins, bins.encode(new)[:, 1].tolist()


def test_categories_are_ordered_by_their_mean_score():
    frame = scored(["a", "b", "c", "a", None], [3.0, 1.0, 2.0, -3.0, 9.0])
    bins, codes = order_of(frame)
    assert bins.names == ("name",)
    assert [feature.ordered for feature in bins.features] == [False, True]
    assert [feature.by_sets for feature in bins.features] == [True, False]
    assert codes == [1, 2, 3, 1, 0]  # means 0, 1, 2; missing is 0 as ever
    _, new = order_of(frame, rows=scored(["c", "unknown"], [0.0, 0.0]))
    assert new == [3, 0]


def test_categories_of_one_mean_share_a_place_and_many_share_bins():
    _, codes = order_of(scored("abc", [1.0, 0.0, 1.0]))
    assert codes == [2, 1, 2]
    names = [f"n{k:03d}" for k in range(300)]
    bins, codes = order_of(scored(names, np.arange(300) % 7 + np.arange(300) / 300), most=40)
    assert not bins.features[1].exact
    assert max(codes) <= 40
    means = np.arange(300) % 7 + np.arange(300) / 300
    by_mean = np.array(codes)[np.argsort(means)]
    assert (np.diff(by_mean) >= 0).all()


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_the_order_is_that_of_means_whatever_the_order_of_rows(seed, weighted):
    rng = np.random.default_rng(seed)
    n = 60
    frame = scored(rng.choice(list("abcdefg"), n), rng.normal(0, 40, n).astype(np.float32))
    weight = rng.integers(0, 4, n) if weighted else None
    _, codes = order_of(frame, weight=weight)
    w = np.ones(n) if weight is None else weight
    rounded = np.rint(frame["score"].clip(-64, 64) * 2**16)
    mean = {k: np.average(rounded[at], weights=w[at]) for k, at in groups(frame["name"], w)}
    expected = {k: 1 + sum(m < mean[k] for m in set(mean.values())) for k in mean}
    assert codes == [expected.get(name, 0) for name in frame["name"]]
    turned = frame.iloc[::-1].reset_index(drop=True)
    _, again = order_of(turned, weight=None if weight is None else weight[::-1].copy())
    assert again == codes[::-1]


def groups(names, w):
    """Rows of every name that has weight."""
    for name in sorted(set(names)):
        at = (names == name).to_numpy()
        if w[at].sum() > 0:
            yield name, at


# ---- tables


def test_threads_and_offsets():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=50), "b": rng.choice(list("xyz"), 50), "c": 1.0})
    table = read_table(frame)
    one, two = (bin_columns(Columns.of(table, threads=k), ["c", "a", "b"], most=8) for k in (1, 2))
    assert same(one, two)
    assert one.names == ("c", "a", "b")
    assert one.offsets.tolist() == [0, 2, 11, 15]
    codes = one.encode(table)
    assert codes.tobytes() == one.encode(table, threads=2).tobytes()
    assert codes.flags.c_contiguous
    assert (codes < np.diff(one.offsets)).all()


@pytest.mark.slow
@given(
    hnp.arrays(np.float32, st.integers(0, 70), elements=st.floats(-9, 9, width=32), unique=True),
    hnp.arrays(np.float32, st.integers(0, 150), elements=st.floats(width=32)),
)
def test_codes_by_search_count_the_edges_below(edges, column):
    edges.sort()
    column = np.concatenate([column, edges, np.nextafter(edges, np.float32(np.inf))])
    out = np.empty(len(column), np.uint16)
    code_by_search(column, edges, out)
    expected = np.searchsorted(edges, column, side="left") + 1
    assert out.tolist() == np.where(np.isnan(column), 0, expected).tolist()


def test_whole_numbers_beyond_the_exact_ones_of_float32_get_the_codes_of_a_search() -> None:
    column = np.arange(20_230_100, 20_231_000, 2).astype(np.float32)
    bins = numeric_bins("date", column, np.ones(len(column), np.int64), 16)
    codes = np.empty(len(column), np.uint8)
    bins.write_codes(column, codes)
    assert (codes == np.searchsorted(bins.edges, column) + 1).all()


def test_codes_do_not_depend_on_the_other_rows() -> None:
    values = np.array([0.0, 1.0, 2.0, 3.0, 40.0], np.float32)
    bins = numeric_bins("x", values, np.ones(len(values), np.int64), 255)
    new = np.array([-np.inf, -7.0, 0.0, 0.4, 0.5, 2.5, 3.0, 39.0, 1e9, np.inf, np.nan], np.float32)
    expected = [1, 1, 1, 1, 1, 3, 4, 5, 5, 5, 0]
    for rows in (slice(None), [1, 2, 6, 7, 8, 10], [3], [9]):
        column = np.ascontiguousarray(new[rows])
        codes = np.empty(len(column), np.uint8)
        bins.write_codes(column, codes)
        assert codes.tolist() == np.array(expected)[rows].tolist()
