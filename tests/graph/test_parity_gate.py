"""Nothing wrong gets out: the gate finds it, says where, and leaves no file behind."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from onnx import helper
from treebase import TreeBase, random_ensemble

import recalibrate as rc
from recalibrate.graph import ParityError, check_parity, export_model, load_served
from recalibrate.graph.parity import RowMaker, around, graph_thresholds, learner_thresholds

pytestmark = pytest.mark.parity


class WrongBase(TreeBase):
    """A base model whose graph is another model's."""

    def graph(self):
        return self.other().graph()

    def other(self):
        raise NotImplementedError


class WrongWhenMissing(WrongBase):
    def other(self):
        e = self.ensemble
        return TreeBase(replace(e, missing_left=~e.missing_left), self.names)


class WrongOnThresholds(WrongBase):
    """x < t instead of x <= t: as wrong as a converter can be without being noticed."""

    def other(self):
        e = self.ensemble
        below = np.nextafter(e.threshold.astype(np.float32), np.float32(-np.inf))
        return TreeBase(replace(e, threshold=below.astype(np.float64)), self.names)


class WrongScale(WrongBase):
    """Forgets the link: the graph gives log-odds where Python gives probabilities."""

    def other(self):
        return TreeBase(self.ensemble, self.names)

    def scores(self, X):
        return 1 / (1 + np.exp(-super().scores(X)))


class WrongInInfinity(WrongBase):
    def other(self):
        e = self.ensemble
        clipped = np.clip(e.threshold, -5.0, 5.0)
        far = replace(e, threshold=np.where(clipped > 1.5, np.inf, clipped))
        return TreeBase(far, self.names)


def sample(kind=TreeBase, n=900, **options):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n)})
    X["sex"] = rng.choice(["F", "M"], n)
    base = kind(random_ensemble(rng, 2), ("a", "b"), **options)
    y = rng.random(n) < 0.3 + 0.4 * (X["sex"] == "F")
    return rc.fit(
        base, X, y, rc.Trees(depth=2), loop=rc.Loop(levels=3, max_rounds=3), validation=False
    ), X


def test_right_graphs_pass():
    model, X = sample()
    report = check_parity(model, export_model(model), X[:100])
    assert report.exact
    assert report.rows > 2000
    assert (report.differing, report.beyond, report.largest) == (0, 0, 0.0)


@pytest.mark.parametrize("kind", [WrongWhenMissing, WrongOnThresholds, WrongScale, WrongInInfinity])
def test_wrong_converters_are_caught_without_a_sample(kind, tmp_path):
    model, _ = sample(kind, link="identity" if kind is WrongScale else "logit")
    with pytest.raises(ParityError, match=r"disagrees with the model on \d+ of \d+ rows"):
        model.to_onnx(tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_error_shows_the_worst_rows_and_their_columns():
    model, _ = sample(WrongWhenMissing)
    with pytest.raises(ParityError) as caught:
        model.to_onnx()
    text = str(caught.value)
    assert re.search(r"'a' \(\d+\)", text)
    assert re.search(r"model 0\.\d+, graph 0\.\d+: \(.*\) a=", text)
    assert "nan" in text
    assert "random trees" in text


def test_wrong_on_the_sample_only():
    """A base that is wrong where no made row goes is caught on the user's rows."""

    class WrongSomewhere(TreeBase):
        def scores(self, X):
            special = np.asarray(X["a"]) == 0.123
            return super().scores(X) + special

    model, X = sample(WrongSomewhere)
    model.to_onnx()
    X.loc[7, "a"] = 0.123
    with pytest.raises(ParityError, match="sample row 7"):
        model.to_onnx(X_sample=X)


def test_small_differences_of_unstable_bases_pass():
    """Last bits of a linear or network base are not promised, visible differences are refused."""

    class Unstable(TreeBase):
        noise = 1e-9

        def scores(self, X):
            return super().scores(X) + self.noise

    model, _ = sample(Unstable, exact=False)
    report = check_parity(model, export_model(model))
    assert not report.exact
    assert report.beyond <= 2
    Unstable.noise = 1e-4
    with pytest.raises(ParityError):
        model.to_onnx()
    Unstable.noise = 1e-9
    exact, _ = sample(Unstable)
    with pytest.raises(ParityError):
        exact.to_onnx()


def test_a_base_that_takes_no_missing_or_infinite_values():
    class Finite(TreeBase):
        def scores(self, X):
            if not np.isfinite(np.asarray(X[["a", "b"]], dtype=float)).all():
                raise ValueError("the base model takes no missing or infinite values")
            return super().scores(X)

    model, _ = sample(Finite)
    assert check_parity(model, export_model(model)).rows > 2000


def test_rows_cannot_be_made_for_own_tables():
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(600, 2)), rng.normal(size=(600, 2))
    base = TreeBase(random_ensemble(rng, 2))
    y = rng.random(600) < 0.5 + 0.3 * (Z[:, 0] > 0)
    model = rc.fit(base, X, y, rc.Trees(), Z=Z, loop=rc.Loop(max_rounds=2), validation=False)
    with pytest.raises(ParityError, match=r"H has a table of its own.*X_sample="):
        model.to_onnx()
    model.to_onnx(X_sample=X[:50], Z=Z[:50])


def test_made_rows_stand_on_thresholds():
    model, _ = sample()
    found = learner_thresholds(model.rounds)
    own = graph_thresholds(model.base.graph(), ("a", "b"))
    ensemble = model.base.ensemble
    assert set(own["a"]) >= set(ensemble.threshold[ensemble.feature == 0].tolist())
    thresholds = {name: found.get(name, set()) | own[name] for name in ("a", "b")}
    served = load_served(export_model(model).SerializeToString())
    rows = RowMaker(model, served.inputs, thresholds).make()
    for name in ("a", "b"):
        values = rows.X[name].to_numpy().astype(np.float32)
        for threshold in thresholds[name]:
            t = np.float32(threshold)
            for value in (
                t,
                np.nextafter(t, np.float32(np.inf)),
                np.nextafter(t, -np.float32(1e9)),
            ):
                assert (values == value).any()
        assert np.isnan(values).any()
        assert np.isposinf(values).any()
        assert np.isneginf(values).any()
    assert set(rows.X["sex"].dropna()) > {"F", "M"}
    assert rows.X["sex"].isna().any()


def test_too_many_thresholds_are_thinned():
    assert len(around(set(np.arange(10_000.0).tolist()), 100, np.float32)) == 300
    assert len(around(set(), 100, np.float32)) == 0


def test_a_faulty_base_graph_is_named():
    class TwoOutputs(TreeBase):
        def graph(self):
            graph = super().graph()
            graph.graph.output.append(helper.make_tensor_value_info("sum", 11, ["N", 1]))
            return graph

    model, _ = sample(TwoOutputs)
    with pytest.raises(ValueError, match="2 outputs, not one; this is a fault of its adapter"):
        model.to_onnx()


def test_a_path_that_cannot_be_written_is_refused_first(tmp_path):
    model, _ = sample(WrongWhenMissing)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        model.to_onnx(tmp_path / "no" / "model.onnx")
    (tmp_path / "model.onnx").write_bytes(b"old")
    with pytest.raises(FileExistsError):
        model.to_onnx(tmp_path / "model.onnx", overwrite=False)
    with pytest.raises(ParityError):
        model.to_onnx(tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == b"old"


@pytest.mark.parametrize("named", [True, False])
def test_a_model_without_corrections_and_columns(named):
    """Its graph takes base scores only; rows to compare on have no columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    X = pd.DataFrame(X, columns=["a"]) if named else X
    model = rc.fit(np.full(300, 0.5), X, rng.random(300) < 0.5)
    assert model.n_rounds_ == 0
    served = load_served(model.to_onnx().SerializeToString())
    assert "base_score" in {port.name for port in served.inputs}
    assert served.predict(X[:2], base=[0.25, 0.5]).tolist() == [0.25, 0.5]
