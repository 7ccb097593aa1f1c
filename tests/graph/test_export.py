"""The graph gives what the model gives, to the last bit: every class, every way to run."""

import numpy as np
import onnx
import pandas as pd
import pytest
from onnx.reference import ReferenceEvaluator
from settings import fit_with
from treebase import TreeBase, assert_same, random_ensemble

import recalibrate as rc
from recalibrate.graph import ExportError, export_model, load_served
from recalibrate.graph.facts import read_facts
from recalibrate.graph.served import ServedModel

pytestmark = pytest.mark.parity

CLASSES = {
    "trees": rc.Trees(depth=3),
    "stumps": rc.Trees(depth=1, bins=5),
    "trees on the score": rc.Trees(depth=4, leaves=6, base_score=True, one_vs_rest=4),
    "one term": rc.Groups("race*sex"),
    "groups": rc.Groups(
        "sex",
        "age",
        "few",
        "race*sex*(income > 0)",
        "not (age < 30) or (race in ('a', 'c') and income >= -0.5)",
        "sex is missing",
        "few != 2",
        "few not in (1, 3) and sex != 'F'",
    ),
    "linear": rc.Linear(base_score=True),
    "linear, one column": rc.Linear(features=["income"]),
}

MAIN_CLASSES = ("trees", "trees on the score", "one term", "groups", "linear")
RUNS = {
    "sums": {"levels": 4, "max_rounds": 3, "validation": False},
    "tables": {"levels": 3, "max_rounds": 2, "tables_per_round": 3, "validation": False},
    "one level": {"levels": 1, "max_rounds": 4, "validation": False},
    "rounded": {"rounded": True, "levels": 7, "max_rounds": 3, "validation": False},
    "half steps": {"rounded": True, "levels": 7, "step": 0.5, "max_rounds": 2, "validation": False},
    "paper": {"alpha": 0.1},
    "last one not rounded": {"alpha": 0.02, "keep_unrounded": True, "min_level_rows": 20},
}


def table(rng, n):
    frame = pd.DataFrame(
        {
            "income": rng.normal(size=n),
            "age": rng.integers(18, 90, n).astype(float),
            "sex": rng.choice(["F", "M"], n),
            "race": rng.choice(list("abcdefg"), n),
            "few": rng.integers(0, 5, n).astype(float),
        }
    )
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "sex"] = None
    return frame


def odd_rows(X):
    """The rows, some with values that no row had when the model was fitted."""
    X = X.copy()
    X.loc[:9, "race"] = "unseen"
    X.loc[10:19, "income"] = np.inf
    X.loc[20:29, "income"] = -np.inf
    X.loc[30:39, "income"] = np.nan
    X.loc[40:49, "age"] = 1e30
    X.loc[50:59, "few"] = 2.5
    return X


def sample(seed=0, n=700, *, link="logit"):
    rng = np.random.default_rng(seed)
    X = table(rng, n)
    base = TreeBase(random_ensemble(rng, 2), ("income", "age"), link=link)
    margin = base.scores(X) + 0.8 * (X["race"] == "a") + 0.3 * (X["sex"] == "F")
    y = rng.random(n) < 1 / (1 + np.exp(-margin))
    return base, X, y.astype(float)


@pytest.mark.filterwarnings("ignore:no round lowered")
@pytest.mark.parametrize("run", RUNS, ids=str)
@pytest.mark.parametrize("H", MAIN_CLASSES, ids=str)
def test_tree_base(H, run):
    base, X, y = sample()
    model = fit_with(base, X, y, CLASSES[H], **RUNS[run])
    assert_same(model, odd_rows(X))


@pytest.mark.parametrize("run", ["sums", "rounded"])
@pytest.mark.parametrize("H", ["stumps", "linear, one column"])
def test_small_classes(H, run):
    base, X, y = sample()
    assert_same(fit_with(base, X, y, CLASSES[H], **RUNS[run]), odd_rows(X))


@pytest.mark.parametrize("run", ["sums", "paper"])
@pytest.mark.parametrize("H", MAIN_CLASSES, ids=str)
@pytest.mark.filterwarnings("ignore:no round lowered")
def test_regression(H, run):
    """Scores on the labels' own scale, far outside of it too."""
    base, X, y = sample(link="identity")
    labels = 5 * y - 3 + X["income"]
    model = fit_with(base, X, labels, CLASSES[H], **RUNS[run])
    assert model.labels.kind == "regression"
    assert_same(model, odd_rows(X))


@pytest.mark.parametrize("link", ["log-poisson", "log-gamma", "identity"])
@pytest.mark.parametrize("given", ["means", "logarithms", "a model"])
def test_counts(link, given):
    """Factors of rates, from scores on either scale; and bounds that are kept, by a clip."""
    model, X, y = sample(link="identity")
    means = np.maximum(model.scores(X), 0.05)
    labels = (means * np.exp(0.5 * (X["race"] == "a")) * (0.5 + y)).to_numpy()
    top = float(np.quantile(means, 0.8))
    labels = np.minimum(labels, top)
    base = {"means": means, "logarithms": np.log(means), "a model": model}[given]
    fitted = fit_with(
        base,
        X,
        labels,
        CLASSES["groups"],
        link=link,
        bounds=(0, top),
        base_link="log" if given == "logarithms" else None,
        **RUNS["sums"],
    )
    assert fitted.bounds_ == (0.0, top)
    scores = None if given == "a model" else np.asarray(base, float)
    p = fitted.predict(X, base=scores)
    assert 0 <= p.min() < p.max() == top  # some would be beyond
    assert_same(fitted, odd_rows(X), base=scores)


@pytest.mark.parametrize("run", ["sums", "rounded", "paper"])
@pytest.mark.parametrize("kind", ["binary", "soft", "log-odds"])
@pytest.mark.filterwarnings("ignore:no round lowered")
def test_scores_only(kind, run):
    base, X, y = sample()
    margin = base.scores(X)
    scores = margin if kind == "log-odds" else 1 / (1 + np.exp(-margin))
    labels = np.clip(0.9 * y + 0.05 * (X["few"] > 2), 0, 1) if kind == "soft" else y
    link = "logit" if kind == "log-odds" else None
    model = fit_with(scores, X, labels, rc.Trees(depth=2), base_link=link, **RUNS[run])
    scores[:4] = [-40.0, 40.0, 0.0, 1e-9] if kind == "log-odds" else [0.0, 1.0, 0.5, 1e-300]
    assert_same(model, odd_rows(X), base=scores)


@pytest.mark.slow
def test_default_fit():
    """All stages: the line, certain gaps, boosting with the score, cells of the level sets."""
    rng = np.random.default_rng(1)
    base, X, _ = sample(1, 6000)
    margin = 2 * base.scores(X) + 1.5 * (X["race"] == "a") * np.sign(X["income"])
    y = rng.random(len(X)) < 1 / (1 + np.exp(-margin))
    model = rc.fit(base, X, y)
    assert model.n_rounds_ > 3
    assert len(model.rounds.encoders) >= 2
    assert_same(model, odd_rows(X))


def test_nothing_to_correct():
    """An unchanged model passes the base's predictions on."""
    base, X, y = sample(n=300)
    for link, labels in (("logit", y), ("identity", y), ("identity", 3 * y - 1)):
        given = TreeBase(base.ensemble, base.names, link=link)
        if link == "identity" and labels is y:
            given = 1 / (1 + np.exp(-base.scores(X)))
        model = rc.fit(
            given, X, labels, rc.Groups("sex"), loop=rc.Loop(max_rounds=0), validation=False
        )
        assert model.n_rounds_ == 0
        assert_same(model, X, base=given if isinstance(given, np.ndarray) else None)


@pytest.mark.parametrize("inputs", ["auto", "columns"])
@pytest.mark.parametrize("by_column", [False, True])
def test_inputs_of_named_columns(inputs, by_column):
    base, X, y = sample()
    base = TreeBase(base.ensemble, base.names, by_column=by_column)
    model = fit_with(base, X, y, CLASSES["groups"], **RUNS["sums"])
    served = assert_same(model, odd_rows(X), inputs=inputs)
    names = [port.name for port in served.inputs]
    if inputs == "auto" and not by_column:
        assert names == ["X", "sex", "few", "race"]
    else:
        assert names == ["income", "age", "sex", "few", "race"]
    only_H = {port.name for port in served.inputs if port.used_by == ("H",)}
    assert only_H == {"sex", "few", "race"}


def test_one_matrix_for_everything():
    base, X, y = sample()
    model = fit_with(base, X, y, rc.Trees(features=["few", "age"]), **RUNS["sums"])
    served = assert_same(model, odd_rows(X), inputs="matrix")
    assert [(p.name, p.columns) for p in served.inputs] == [("X", ("income", "age", "few"))]
    text = fit_with(base, X, y, rc.Trees(features=["sex"]), **RUNS["sums"])
    with pytest.raises(ExportError, match="hold text: 'sex'"):
        export_model(text, inputs="matrix")
    with pytest.raises(ValueError, match="'auto', 'matrix' or 'columns', got 'both'"):
        export_model(model, inputs="both")


def test_arrays():
    """Columns of an array are one matrix, whichever of them H uses."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    base = TreeBase(random_ensemble(rng, 4))
    y = rng.random(600) < 1 / (1 + np.exp(-base.scores(X) - X[:, 2]))
    for given in (base, 1 / (1 + np.exp(-base.scores(X)))):
        model = fit_with(given, X, y, rc.Trees(features=["x2"]), **RUNS["sums"])
        scores = None if given is base else given
        for inputs in ("auto", "columns", "matrix"):
            served = assert_same(model, X, base=scores, inputs=inputs)
            if inputs != "columns":
                assert served.inputs[-1].columns == ("x0", "x1", "x2", "x3")


def test_numbers_as_categories():
    rng = np.random.default_rng(0)
    n = 2000
    X = pd.DataFrame(
        {
            "zip": rng.choice([1, 7, 90210], n),
            "id": rng.choice([2**40 + 1, 2**40 + 2, 5], n),
            "half": rng.choice([0.1, 0.5, 2.0], n),
            "flag": rng.random(n) < 0.5,
            "text": rng.choice(["", "b"], n),
        }
    )
    y = rng.random(n) < 0.3 + 0.2 * (X["zip"] == 7) + 0.3 * (X["id"] == 2**40 + 1)
    scores = np.full(n, 0.5)
    numbers = ["zip", "id", "half", "flag"]
    for H in (rc.Trees(depth=3), rc.Groups("id", "zip == 7", "half*flag"), rc.Linear()):
        model = fit_with(scores, X, y, H, categorical=numbers, **RUNS["one level"])
        new = X.copy()
        new.loc[:5, "zip"] = 8
        new.loc[6:9, "id"] = 2**40 + 3
        served = assert_same(model, new, base=scores)
        kinds = {port.name: port.kind for port in served.inputs}
        assert kinds["id"] == "int64"
        assert kinds["zip"] == "float32"


def test_many_categories_are_pooled():
    rng = np.random.default_rng(0)
    n = 4000
    X = pd.DataFrame({"city": rng.choice([f"c{k}" for k in range(400)], n)})
    y = rng.random(n) < 0.3 + 0.4 * (X["city"].str.len() == 2)
    scores = np.full(n, 0.5)
    model = fit_with(scores, X, y, rc.Trees(depth=2, bins=100), **RUNS["sums"])
    assert_same(model, X, base=scores)


def test_columns_named_like_outputs():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(500, 4)), columns=["score", "label", "X", "base_score"])
    y = rng.random(500) < 1 / (1 + np.exp(-X["score"]))
    scores = np.full(500, 0.5)
    model = fit_with(scores, X, y, rc.Linear(), **RUNS["one level"])
    served = assert_same(model, X, base=scores)
    names = {port.columns: port.name for port in served.inputs}
    assert names[("score",)] == "input_score"
    assert names[("X",)] == "input_X"


def test_own_table():
    """X is what the base takes, Z what H looks at; equal names mean nothing."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(600, 3)), rng.normal(size=(600, 2))
    base = TreeBase(random_ensemble(rng, 3))
    y = rng.random(600) < 1 / (1 + np.exp(-base.scores(X) - Z[:, 0]))
    model = fit_with(base, X, y, rc.Trees(), Z=Z, **RUNS["sums"])
    served = assert_same(model, X, Z=Z)
    assert [port.name for port in served.inputs] == ["X", "x0", "x1"]


@pytest.mark.slow
def test_estimators_from_a_constant():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3)).astype(np.float32)
    regressor = rc.LSBoostRegressor(loop="paper").fit(X, X[:, 0] * 3 + rng.normal(size=800))
    assert_same(regressor.model_, X)
    labels = np.where(rng.random(800) < 1 / (1 + np.exp(-X[:, 1])), "yes", "no")
    classifier = rc.LSBoostClassifier(loop="paper").fit(X, labels)
    assert_same(classifier.model_, X)
    graph = classifier.to_onnx(X_sample=X)
    assert [value.name for value in graph.graph.input] == ["X"]


@pytest.mark.parametrize("seed", range(6))
def test_random_models(seed):
    """Random tables, classes and settings."""
    rng = np.random.default_rng(seed)
    base, X, y = sample(seed, int(rng.integers(200, 900)))
    X = X[list(rng.permutation(X.columns))]
    H = [
        rc.Trees(depth=int(rng.integers(1, 5)), bins=int(rng.integers(2, 40)), base_score=True),
        rc.Groups(*rng.permutation(["sex", "race", "age < 50", "income*few", "few"])[:3]),
        rc.Linear(ridge=float(rng.random())),
    ][int(rng.integers(3))]
    model = rc.fit(
        base,
        X,
        y,
        H,
        sample_weight=rng.random(len(X)) if rng.random() < 0.5 else None,
        loop=rc.Loop(
            levels=int(rng.integers(1, 12)),
            rounded=bool(rng.random() < 0.5),
            step=float(rng.choice([0.1, 0.5, 1.0])),
            tables_per_round=int(rng.integers(1, 4)),
            max_rounds=4,
        ),
        link=str(rng.choice(["logit", "identity"])),
        validation=False,
    )
    assert_same(model, odd_rows(X))


@pytest.mark.parametrize("H", ["trees", "groups", "linear"])
def test_reference_evaluator(H):
    """Another runtime, slow and obvious."""
    base, X, y = sample(n=300)
    model = rc.fit(base, X, y, CLASSES[H], loop=rc.Loop(levels=3, max_rounds=2), validation=False)
    graph = export_model(model)
    rows = odd_rows(X)[:60]
    feed = load_served(graph.SerializeToString()).feed(rows)
    margin = ReferenceEvaluator(graph).run(["score_margin"], feed)[0]
    np.testing.assert_array_equal(margin, model.margins(rows))


@pytest.mark.slow
def test_an_audit_in_the_metadata_is_its_verdict_or_what_was_given():
    base, X, y = sample(n=300)
    model = rc.fit(base, X, y, CLASSES["groups"], validation=False, loop=rc.Loop(levels=1))
    report = rc.audit(model, X, y)
    for given, kept in [(report, report.verdict), ("good", "good"), ([1], "[1]")]:
        props = {p.key: p.value for p in export_model(model, audit=given).metadata_props}
        assert kept in props.values()
    with pytest.raises(TypeError, match=r"audit=object .*report\.to_dict"):
        export_model(model, audit=object())


def test_conventions():
    base, X, y = sample()
    model = fit_with(base, X, y, CLASSES["groups"], **RUNS["sums"])
    graph = export_model(model, audit={"groups": 3})
    onnx.checker.check_model(graph, full_check=True)
    assert graph.ir_version <= 10
    assert {o.domain: o.version for o in graph.opset_import} == {"": 18, "ai.onnx.ml": 5}
    outputs = {}
    for value in graph.graph.output:
        shape = value.type.tensor_type.shape.dim
        kind = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        outputs[value.name] = (kind, [d.dim_param or d.dim_value for d in shape])
    assert outputs == {
        "label": ("INT64", ["N"]),
        "probabilities": ("FLOAT", ["N", 2]),
        "score": ("FLOAT", ["N"]),
        "score_margin": ("DOUBLE", ["N"]),
    }
    assert all(v.type.tensor_type.shape.dim[0].dim_param == "N" for v in graph.graph.input)
    facts = {entry.key: entry.value for entry in graph.metadata_props}
    assert facts["recalibrate_format"] == "1"
    assert facts["recalibrate_version"] == rc.__version__
    assert facts["rounds"] == "3"
    assert facts["levels"] == "4"
    assert facts["training_rows"] == str(len(X))
    assert facts["H"] == repr(model.H)
    assert facts["audit"] == '{"groups": 3}'


def test_trees_of_one_partition_share_a_node():
    base, X, y = sample()
    one = rc.fit(base, X, y, rc.Trees(), loop=rc.Loop(levels=1, max_rounds=30), validation=False)
    many = rc.fit(
        base,
        X,
        y,
        rc.Trees(),
        loop=rc.Loop(levels=4, max_rounds=3, tables_per_round=5),
        validation=False,
    )

    def ensembles(model):
        return sum(node.op_type == "TreeEnsemble" for node in export_model(model).graph.node)

    assert ensembles(one) == 2  # the base's own and one for all fifteen
    assert ensembles(many) == 4  # and one a round


def test_the_score_of_a_base():
    """What `fit` needs to build on an exported model: its own scale, in float64."""
    base, X, y = sample()
    model = fit_with(base, X, y, rc.Trees(features=["income"]), **RUNS["sums"])
    graph = export_model(model, output="score")
    (score,) = graph.graph.output
    assert score.name == "score"
    told = {entry.key: entry.value for entry in graph.metadata_props}
    part = ServedModel(graph.SerializeToString(), told, read_facts(told, "the graph"), None)
    np.testing.assert_array_equal(part.run(X)["score"], model.margins(X))


def test_refusals():
    base, X, y = sample()
    with pytest.raises(ExportError, match="has no ONNX graph: the base model is a Python callable"):
        export_model(rc.fit(lambda X: np.full(len(X), 0.4), X, y, rc.Groups("sex")))
    mixed = X.assign(mixed=["a" if value > 2 else 1 for value in X["few"]])
    model = fit_with(base, mixed, y, rc.Trees(features=["mixed"]), **RUNS["sums"])
    with pytest.raises(ExportError, match="categories of different types"):
        export_model(model)


def test_an_exportable_model_is_asked_for_before_fitting():
    from sklearn.base import BaseEstimator, RegressorMixin

    class Own(RegressorMixin, BaseEstimator):
        fitted_rows = 0

        def fit(self, X, y, sample_weight=None):
            Own.fitted_rows = max(Own.fitted_rows, len(X))
            self.mean_ = float(np.mean(y))
            return self

        def predict(self, X):
            return np.full(len(X), self.mean_)

    base, X, y = sample(n=1500)
    numbers = X[["income", "few"]]
    named = TreeBase(random_ensemble(np.random.default_rng(0), 1), ("income",))
    with pytest.raises(ExportError, match="Own, a learner of Estimator"):
        rc.fit(named, numbers, y, rc.Estimator(Own()), exportable=True)
    assert Own.fitted_rows <= 200  # a trial, not the fit
    with pytest.raises(ExportError, match="has no ONNX graph"):
        rc.fit(lambda X: np.full(len(X), 0.4), X, y, exportable=True)
    with pytest.raises(ValueError, match="exportable must be True or False"):
        rc.fit(base, X, y, exportable="yes")
    assert_same(rc.fit(base, X, y, rc.Groups("sex"), exportable=True), X)


def test_numbers_at_the_end_of_float32_give_no_warning(tmp_path):
    """Warnings are errors here; rows beyond what was seen are made without one."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.uniform(-3.3e38, 3.3e38, 1500), "b": rng.normal(size=1500)})
    y = (rng.random(1500) < np.where(X["a"] > 0, 0.7, 0.3)).astype(int)
    base = xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, y)
    model = rc.fit(base, X, y, H=rc.Trees(depth=2), loop=rc.Loop(levels=2, max_rounds=2))
    model.to_onnx(tmp_path / "model.onnx", X[:100])
    served = rc.load(tmp_path / "model.onnx")
    np.testing.assert_array_equal(served.margins(X), model.margins(X))
