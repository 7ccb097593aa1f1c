"""What every adapter promises, tested on the real frameworks.

Cases come from the modules cases_*.py beside this one. A case whose framework is missing is
skipped (in CI a skip is a failure; torch comes with a later stage of it).
"""

import gc
import importlib
import os
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cases import FRAMEWORKS, Case, as_float32, floats, input_type, with_missing, with_neighbours
from settings import fit_with
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import recalibrate as rc
from recalibrate.bases.protocol import deviance_of
from recalibrate.graph.parity import graph_thresholds
from recalibrate.scores import Base, as_base, predicted_mean

HERE = Path(__file__).parent
MODULES = sorted(path.stem for path in HERE.glob("cases_*.py"))
NEW_ROWS = 300


def all_cases() -> list[Any]:
    """Every case, or one that skips where the framework of a module is missing."""
    found = []
    for module in MODULES:
        try:
            cases = importlib.import_module(module).CASES
        except ModuleNotFoundError as error:
            skip = pytest.mark.skip(reason=f"{module} needs {error.name}")
            found.append(pytest.param(None, id=module, marks=[skip, *_marks(module)]))
        else:
            found += [
                pytest.param(case, id=case.name.replace(" ", "-"), marks=_marks(module))
                for case in cases
            ]
    return found


def _marks(module: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.external] if module == "cases_torch" else []


CASES = all_cases()
every_case = pytest.mark.parametrize("case", CASES)
pytestmark = pytest.mark.adapter


def cases_where(condition: Callable[[Case], bool]) -> pytest.MarkDecorator:
    """Cases that a promise applies to; skipped modules stay visible."""
    chosen = [p for p in CASES if p.values[0] is None or condition(p.values[0])]
    return pytest.mark.parametrize("case", chosen)


@cache
def model_of(case: Case) -> Any:
    return case.build()


@cache
def base_of(case: Case) -> Base:
    return as_base(model_of(case), **case.options)


def assert_native(case: Case, frame: pd.DataFrame) -> None:
    """The adapter says what the framework says, up to the framework's own float32 sums."""
    native = np.asarray(case.native(model_of(case), frame), dtype=np.float64)
    assert native.shape == (len(frame),)
    # Near 0 a sum's error is relative to its parts, not to what is left of them.
    atol = case.rtol * max(1e-3, float(np.abs(native).max()))
    own = predicted_mean(base_of(case), frame)
    np.testing.assert_allclose(own, native, rtol=case.rtol, atol=atol)


# --- scores -------------------------------------------------------------------------------------


@pytest.mark.slow
@every_case
def test_base_follows_the_protocol(case):
    base = base_of(case)
    scores = base.scores(case.frame(5, 1))
    assert scores.dtype == np.float64
    assert scores.shape == (5,)
    assert np.isfinite(scores).all()
    assert base.link in ("identity", "logit")
    assert base.exact is case.exact
    assert deviance_of(base) == case.deviance
    assert base.name
    if case.named:
        assert base.columns() == tuple(case.frame(1, 1).columns)


def _tweedie_models():
    yield pytest.importorskip("xgboost").XGBRegressor(
        objective="reg:tweedie", tweedie_variance_power=1.3, n_estimators=2
    )
    yield pytest.importorskip("lightgbm").LGBMRegressor(
        objective="tweedie", tweedie_variance_power=1.3, n_estimators=2, verbose=-1
    )
    yield pytest.importorskip("catboost").CatBoostRegressor(
        loss_function="Tweedie:variance_power=1.3",
        iterations=2,
        verbose=0,
        allow_writing_files=False,
    )
    yield TweedieRegressor(power=1.3)
    yield make_pipeline(StandardScaler(), TweedieRegressor(power=1.3))


@pytest.mark.slow
def test_deviances_of_objectives():
    """As the framework keeps them: with the power of a Tweedie deviance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = 1.0 + rng.poisson(np.exp(X[:, 0]))
    found = [deviance_of(as_base(model.fit(X, y))) for model in _tweedie_models()]
    assert found == ["tweedie-1.3"] * len(found)
    others = {
        "gamma": [GammaRegressor(), HistGradientBoostingRegressor(loss="gamma", max_iter=2)],
        "poisson": [PoissonRegressor(), HistGradientBoostingRegressor(loss="poisson", max_iter=2)],
        "": [TweedieRegressor(power=0.0), HistGradientBoostingRegressor(max_iter=2)],
    }
    for expected, models in others.items():
        assert [deviance_of(as_base(model.fit(X, y))) for model in models] == [expected] * 2


@pytest.mark.slow
@every_case
def test_scores_are_those_of_native_predict(case):
    assert_native(case, case.frame(NEW_ROWS, 2))


@cases_where(lambda case: case.missing)
def test_rows_with_missing_numbers(case):
    assert_native(case, with_missing(case.frame(NEW_ROWS, 3)))


@cases_where(lambda case: not case.missing)
def test_missing_numbers_that_the_model_refuses_become_no_score(case):
    with pytest.raises(ValueError, match=r"(?i)nan|missing|finite"):
        base_of(case).scores(with_missing(case.frame(NEW_ROWS, 3)))


@pytest.mark.slow
@every_case
def test_one_row_alone_scores_as_among_others(case):
    base, frame = base_of(case), case.frame(20, 4)
    together = base.scores(frame)
    alone = np.concatenate([base.scores(frame.iloc[[i]]) for i in range(len(frame))])
    if case.exact:
        np.testing.assert_array_equal(alone, together)
    else:  # float32 sums of foreign runtimes depend on the size of the batch
        np.testing.assert_allclose(alone, together, rtol=1e-5, atol=1e-6)


@cases_where(lambda case: case.large)
def test_a_hundred_thousand_rows(case):
    small = case.frame(1000, 5)
    frame = pd.concat([small] * 100, ignore_index=True)
    scores = base_of(case).scores(frame)
    assert scores.shape == (100_000,)
    # Frameworks add up float32 in an order that depends on the size of the batch.
    np.testing.assert_allclose(scores[-1000:], scores[:1000], rtol=1e-5, atol=1e-6)
    assert_native(case, small)


# --- columns ------------------------------------------------------------------------------------


@cases_where(lambda case: case.named)
def test_columns_are_found_by_name(case):
    base, frame = base_of(case), case.frame(50, 6)
    mixed = frame.iloc[:, ::-1].assign(sensitive="a", noise=1.0)
    np.testing.assert_array_equal(base.scores(mixed), base.scores(frame))


@cases_where(lambda case: case.named)
def test_a_missing_column_is_named(case):
    name = case.frame(1, 1).columns[-1]
    with pytest.raises(ValueError, match=str(name)):
        base_of(case).scores(case.frame(5, 7).drop(columns=[name]))


def has_numbers(case: Case) -> bool:
    return case.rounds and bool(floats(case.frame(1, 1)))


@cases_where(has_numbers)
def test_float64_is_rounded_to_float32_once(case):
    frame = case.frame(NEW_ROWS, 8)
    assert not frame.equals(as_float32(frame))
    scores = base_of(case).scores(frame)
    np.testing.assert_array_equal(scores, base_of(case).scores(as_float32(frame)))


@cases_where(has_numbers)
def test_integers_beyond_float32_are_refused(case):
    frame = case.frame(5, 9)
    name = floats(frame)[0]
    huge = frame.assign(**{name: np.full(5, 2**24 + 1)})
    with pytest.raises(ValueError, match=f"{name}.*16777217"):
        base_of(case).scores(huge)


def in_decimals(case: Case) -> pd.DataFrame:
    """Numbers with one decimal, hardly any of which is a float32."""
    frame = case.frame(NEW_ROWS, 12)
    return frame.assign(**{name: frame[name].round(1) for name in floats(frame)})


def in_epoch_seconds(case: Case) -> pd.DataFrame:
    """Numbers that float32 takes in steps of two minutes."""
    frame, rng = case.frame(NEW_ROWS, 13), np.random.default_rng(0)
    return frame.assign(**{n: 1.7e9 + rng.integers(0, 3600, NEW_ROWS) for n in floats(frame)})


def on_thresholds(case: Case) -> pd.DataFrame:
    """Numbers that the graph's trees compare with, and their neighbours in both precisions."""
    frame, rng = case.frame(NEW_ROWS, 14), np.random.default_rng(0)
    base = base_of(case)
    base.scores(frame)
    names = base.columns() or tuple(frame.columns)
    found = graph_thresholds(base.graph(), names) if base.graph() is not None else {}
    for name in floats(frame):
        values = with_neighbours(np.array([0.0, *found.get(name, ())]))
        frame[name] = rng.choice(values[np.abs(values) < 1e30], NEW_ROWS)
    return frame


precisely = pytest.mark.parametrize("rows", [in_decimals, in_epoch_seconds, on_thresholds])


@precisely
@cases_where(lambda case: not case.name.startswith("callable"))
def test_numbers_are_compared_in_the_precision_of_the_framework(case, rows):
    assert_native(case, rows(case))


@pytest.mark.parity
@precisely
@cases_where(lambda case: case.exact)
def test_graph_compares_in_the_precision_of_the_framework(case, rows):
    base, frame = base_of(case), rows(case)
    for found in run_graph(base, frame, (NEW_ROWS,), 1):
        np.testing.assert_array_equal(found, base.scores(frame))


# --- graphs -------------------------------------------------------------------------------------


def feeds_of(session: Any, base: Base, frame: pd.DataFrame) -> dict[str, Any]:
    """Inputs of a base's graph: one matrix, or one input per column."""
    inputs = session.get_inputs()
    columns = list(frame.columns) if base.columns() is None else list(base.columns())
    frame = frame[columns]
    if len(inputs) == 1 and inputs[0].name not in columns:
        return {inputs[0].name: frame.to_numpy(dtype=input_type(inputs[0]))}
    assert {i.name for i in inputs} <= set(columns)
    return {i.name: frame[i.name].to_numpy().astype(input_type(i)).reshape(-1, 1) for i in inputs}


def run_graph(
    base: Base, frame: pd.DataFrame, batches: Sequence[int], threads: int
) -> Iterator[Any]:
    """Scores by onnxruntime, for every batch size."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        base.graph().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    assert [o.name for o in session.get_outputs()] == ["score"]
    feeds = feeds_of(session, base, frame)
    for batch in batches:
        parts = [slice(i, i + batch) for i in range(0, len(frame), batch)]
        yield np.concatenate(
            [session.run(None, {k: v[part] for k, v in feeds.items()})[0] for part in parts]
        )


@cases_where(lambda case: not case.has_graph)
def test_without_a_graph_there_is_a_reason(case):
    base = base_of(case)
    base.scores(case.frame(50, 10))
    assert base.graph() is None
    assert base.why_no_graph


@pytest.mark.parity
@pytest.mark.parametrize("threads", [1, 2])
@cases_where(lambda case: case.has_graph)
def test_graph_gives_the_same_scores(case, threads):
    base = base_of(case)
    frame = case.frame(NEW_ROWS, 10)
    frame = with_missing(frame) if case.missing else frame
    scores = base.scores(frame)
    assert base.why_no_graph == ""
    for found in run_graph(base, frame, (1, 7, NEW_ROWS), threads):
        assert found.shape == scores.shape
        if case.exact:
            assert found.dtype == np.float64
            np.testing.assert_array_equal(found, scores)
        else:  # the runtime's own float32 kernels differ with the batch size
            np.testing.assert_allclose(found, scores, rtol=1e-5, atol=1e-6)


@pytest.mark.parity
@cases_where(lambda case: case.has_graph)
def test_graph_keeps_to_the_agreed_form(case):
    import onnx

    base = base_of(case)
    base.scores(case.frame(50, 11))
    graph = base.graph()
    onnx.checker.check_model(graph, full_check=True)
    opsets = {entry.domain or "ai.onnx": entry.version for entry in graph.opset_import}
    assert opsets["ai.onnx"] <= 18
    assert opsets.get("ai.onnx.ml", 1) <= 5
    assert graph.ir_version <= 10
    for value in [*graph.graph.input, *graph.graph.output]:
        assert value.type.tensor_type.shape.dim[0].dim_param == "N"


# --- side effects -------------------------------------------------------------------------------


@pytest.mark.slow
@every_case
def test_a_base_is_let_go_with_its_last_reference(case):
    """A cycle would keep the model, and its rows, until the garbage collector comes by."""
    base = as_base(model_of(case), **case.options)
    base.scores(case.frame(20, 0))
    held = weakref.ref(base)
    gc.collect()
    gc.disable()
    try:
        del base
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.slow
@every_case
def test_the_model_is_left_as_it_was(case):
    model = case.build()
    before = case.state(model)
    base = as_base(model, **case.options)
    base.scores(case.frame(50, 12))
    base.graph()
    assert case.state(model) == before


@pytest.mark.slow
@cases_where(lambda case: case.alone)
def test_no_other_framework_is_imported(case):
    # Modules whose framework is missing were never imported.
    module = next(m for m in MODULES if m in sys.modules and case in sys.modules[m].CASES)
    code = f"""
import sys
from {module} import CASES
from recalibrate.scores import as_base
case = next(case for case in CASES if case.name == {case.name!r})
as_base(case.build(), **case.options).scores(case.frame(5, 1))
print(*sorted({set(FRAMEWORKS) - set(case.frameworks)!r} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


# --- files --------------------------------------------------------------------------------------


@pytest.mark.slow
@cases_where(lambda case: case.save is not None)
def test_saved_file_scores_like_the_model(case, tmp_path):
    path = case.save(model_of(case), tmp_path)
    frame = case.frame(NEW_ROWS, 13)
    base = as_base(path, **case.options, trust="torch" in case.frameworks)
    np.testing.assert_array_equal(base.scores(frame), base_of(case).scores(frame))


# --- fit ----------------------------------------------------------------------------------------


@pytest.mark.slow
@every_case
def test_fit_works_from_end_to_end_without_pickling(case, monkeypatch):
    model, frame = case.build(), case.frame(400, 14)
    mean = np.asarray(case.native(model, frame), dtype=np.float64)
    rng = np.random.default_rng(15)
    binary = bool(((mean >= 0) & (mean <= 1)).all())
    y = rng.random(400) < mean if binary else mean + rng.normal(0, 1 + mean.std(), 400)
    if deviance_of(as_base(model, **case.options)):
        y = rng.poisson(mean)  # counts are never negative

    def refuse(self, protocol):
        if sys._getframe(1).f_globals["__name__"] == "copy":  # which asks for the same
            return object.__reduce_ex__(self, protocol)
        raise AssertionError("the model was pickled")

    if type(model).__module__ not in ("builtins", "onnx"):  # whose classes cannot be changed
        monkeypatch.setattr(type(model), "__reduce_ex__", refuse, raising=False)
    options = dict(case.options)
    table = frame.assign(sensitive=rng.choice(["a", "b"], 400)) if case.named else frame
    fitted = fit_with(
        model, table, y, H=rc.Trees(depth=1), levels=3, max_rounds=2,
        base_link=options.pop("link", None), **options,
    )  # fmt: skip
    predicted = fitted.predict(table)
    assert predicted.shape == (400,)
    np.testing.assert_array_equal(fitted.predict(table.iloc[:, ::-1].assign(other=3)), predicted)
