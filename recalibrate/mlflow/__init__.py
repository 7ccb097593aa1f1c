"""Recalibrated models in MLflow: logged with their ONNX graph, loaded without pickle, audited.

A logged model has three flavors over the same rounds: ``python_function`` (for serving and batch
scoring by MLflow), ``onnx`` (the exported graph, where there is one) and ``recalibrate`` (the model
itself, by :func:`load_model`). Install it with the extra ``mlflow``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recalibrate import __version__
from recalibrate.auditing.report import AuditReport
from recalibrate.bases.protocol import ScoreColumn
from recalibrate.graph.inputs import ExportError
from recalibrate.loading import load
from recalibrate.model import Recalibrated
from recalibrate.support.checks import require
from recalibrate.support.notices import warn_user

if TYPE_CHECKING:
    from mlflow.models.model import ModelInfo

    from recalibrate.estimators import FitsModel

__all__ = ["load_model", "log_model", "log_report", "save_model"]

FLAVOR = "recalibrate"
MODEL, GRAPH = "model.rcal", "model.onnx"


def log_model(
    model: Recalibrated | FitsModel,
    name: str = "model",
    *,
    X_sample: Any = None,
    report: AuditReport | None = None,
    onnx: bool = True,
    **options: Any,
) -> ModelInfo:
    """Log a model to the active run, with its signature and, if given, its audit.

    Parameters
    ----------
    model
        As :func:`recalibrate.fit` returned it, with a base model that can be saved; or a fitted
        estimator such as :class:`recalibrate.RecalibratedClassifier`, of which its ``model_`` is
        logged.
    name
        Name of the logged model.
    X_sample
        Some rows as the model takes them: they give the signature, and the graph is compared
        on them.
    report
        An audit of the model: page, JSON and metrics go into the run, see :func:`log_report`.
    onnx
        Whether to write the ONNX flavor; a model that has no graph is logged without, with a
        warning that says why.
    options
        For ``mlflow.models.Model.log``, such as ``registered_model_name``.

    Examples
    --------
    >>> import mlflow, numpy as np, pandas as pd, tempfile, recalibrate.mlflow, recalibrate as rc
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"x": rng.normal(size=900)})
    >>> y = (rng.random(900) < 0.5).astype(int)
    >>> model = rc.fit(LogisticRegression().fit(X[:300], y[:300]), X[300:], y[300:])
    >>> mlflow.set_tracking_uri(f"sqlite:///{tempfile.mkdtemp()}/runs.db")  # doctest: +SKIP
    >>> with mlflow.start_run():  # doctest: +SKIP
    ...     logged = recalibrate.mlflow.log_model(model, X_sample=X[:5])
    >>> recalibrate.mlflow.load_model(logged.model_uri)  # doctest: +SKIP
    """
    import recalibrate.mlflow as flavor

    models = require("mlflow.models", "mlflow")
    given = {"model": _fitted(model), "X_sample": X_sample, "onnx": onnx}
    logged: ModelInfo = models.Model.log(
        artifact_path=None, name=name, flavor=flavor, **given, **options
    )
    if report is not None:
        log_report(report)
    return logged


def save_model(
    model: Recalibrated | FitsModel,
    path: Any,
    *,
    X_sample: Any = None,
    onnx: bool = True,
    mlflow_model: Any = None,
    **_: Any,
) -> None:
    """Write a model as an MLflow model folder; parameters as in :func:`log_model`."""
    model = _fitted(model)
    if isinstance(model.base, ScoreColumn):
        raise ValueError(
            "this model was fitted on an array of scores, so MLflow could not serve it: fit it on "
            "the base model itself, or on a function that computes the scores"
        )
    pyfunc = require("mlflow.pyfunc", "mlflow")
    described = require("mlflow.models", "mlflow").Model() if mlflow_model is None else mlflow_model
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / MODEL)
    if X_sample is not None:
        described.signature = _signature(model, X_sample)
    described.add_flavor(FLAVOR, data=MODEL, recalibrate_version=__version__)
    if onnx:
        _write_graph(model, folder, X_sample, described)
    pyfunc.add_to_model(described, loader_module="recalibrate.mlflow", data=MODEL)
    described.save(str(folder / "MLmodel"))
    (folder / "requirements.txt").write_text(f"recalibrate-lsboost=={__version__}\n")


def load_model(model_uri: str) -> Recalibrated:
    """The model that was logged; loading runs no code of the file, and unpickles nothing."""
    artifacts = require("mlflow.artifacts", "mlflow")
    folder = Path(artifacts.download_artifacts(artifact_uri=model_uri))
    return _read(folder / MODEL)


def log_report(report: AuditReport, folder: str = "audit") -> None:
    """The audit's page and JSON as artifacts of the active run, its main figures as metrics."""
    mlflow = require("mlflow", "mlflow")
    mlflow.log_text(report.to_html(), f"{folder}/audit.html")
    mlflow.log_text(report.to_json(), f"{folder}/audit.json")
    table = report.table
    named = table[table["group"] != "all"]
    figures = {
        "audit_rows": report.n_rows,
        "audit_groups": len(named),
        "audit_groups_off": named["off"].sum(),
        "audit_largest_gap": named["gap"].abs().max() if len(named) else 0.0,
        "audit_gap": table["gap"].iloc[0],
    }
    mlflow.log_metrics({name: float(value) for name, value in figures.items()})


class _Served:
    """What MLflow calls for predictions: probabilities by class, or means."""

    def __init__(self, model: Recalibrated) -> None:
        self.model = model

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """Probabilities of all classes, or predicted means."""
        del params
        return _predicted(self.model, data)


def _fitted(model: Any) -> Recalibrated:
    """The model that is to be logged."""
    found = getattr(model, "model_", model)
    if isinstance(found, Recalibrated):
        return found
    raise TypeError(
        "a model that recalibrate.fit returned, or a fitted estimator of recalibrate, can be "
        f"logged, got {type(model).__name__}"
    )


def _load_pyfunc(path: str) -> _Served:
    """Entry point of MLflow's ``python_function``."""
    return _Served(_read(path))


def _read(path: Any) -> Recalibrated:
    found = load(path)
    if not isinstance(found, Recalibrated):
        raise ValueError(f"{str(path)!r} is not a recalibrated model: {found!r}")
    return found


def _predicted(model: Recalibrated, X: Any) -> Any:
    means = model.labels.kind == "regression"
    return model.predict(X) if means else model.predict_proba(X)


def _signature(model: Recalibrated, X: Any) -> Any:
    models = require("mlflow.models", "mlflow")
    return models.infer_signature(X, _predicted(model, X))


def _write_graph(model: Recalibrated, folder: Path, X_sample: Any, described: Any) -> None:
    try:
        model.to_onnx(folder / GRAPH, X_sample)
    except ExportError as error:
        warn_user(f"logged without the ONNX flavor: {error}")
        return
    described.add_flavor(
        "onnx",
        onnx_version=require("onnx", "mlflow").__version__,
        data=GRAPH,
        providers=["CPUExecutionProvider"],
        onnx_session_options=None,
        code=None,
    )
