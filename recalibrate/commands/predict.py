r"""recalibrate predict: calibrated predictions, and decided actions, for new rows.

Predict new rows with a saved (.rcal) or exported (.onnx) model: the calibrated mean, or the
probability of label 1. With a loss, also the best action for every row.

  recalibrate predict new.csv --model model.rcal -o predictions.csv
  recalibrate predict new.parquet --model model.rcal --keep id \
      --decide "asymmetric(5, 1)" -o predictions.parquet
losses: squared, absolute, hinge, logistic, pinball(0.9), asymmetric(5, 1), and
cost_matrix(0, 1, 5, 0): the costs of all actions for label 0, then those for label 1
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import Any

from recalibrate.commands.console import Console
from recalibrate.commands.data import CSV, PARQUET, encode_frame, read_frame
from recalibrate.commands.models import base_scores, known_text, open_recalibrated
from recalibrate.commands.options import Outputs, add_base, add_names, add_table, read_names
from recalibrate.data.table import find_columns

SUMMARY = "predict new rows with a recalibrated model"
PREDICTION, ACTION = "prediction", "action"


def add_arguments(parser: ArgumentParser) -> None:
    """Options of the command."""
    add_table(parser)
    parser.add_argument("--model", metavar="FILE", required=True, help="the model, .rcal or .onnx")
    add_base(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--out", metavar="FILE", required=True, help="predictions, .csv or .parquet"
    )
    add_names(group, "--keep", "columns of the rows to write beside the predictions: id,name")
    group.add_argument("--decide", metavar="LOSS", help="add the best action under this loss")


def run(args: Namespace, console: Console) -> int:
    """Predict and write."""
    outputs = Outputs(args.force, args.data, args.model, args.base)
    path = outputs.plan("--out", args.out, *CSV, *PARQUET)
    model = open_recalibrated(args.model, args.base, trust=args.trust)
    decision = _decision(model, args)
    console.step(f"reading {args.data}")
    frame = read_frame(args.data, text=args.text, known_text=known_text(model))
    names = [str(name) for name in frame.columns]
    kept = read_names(args.keep, names)
    find_columns(kept, names)
    clash = {PREDICTION, ACTION} & set(kept)
    if clash:
        raise ValueError(f"--keep {clash.pop()}: the output has a column of that name already")
    scores = base_scores(model, frame, args, args.data)
    columns = _predict(model, decision, frame, scores)
    result = frame[kept].assign(**columns)
    outputs.write(path, encode_frame(result, path))  # type: ignore[arg-type]
    console.say(f"wrote {path}: {len(result):,} rows, {', '.join(map(str, result.columns))}")
    return 0


def _decision(model: Any, args: Namespace) -> Any:
    if args.decide is None:
        return None
    if not hasattr(model, "decide"):
        raise ValueError(
            "--decide needs the saved model (.rcal); an exported graph decides only what it was "
            "exported for (recalibrate export --decide), which is then written anyway"
        )
    return model.decide(args.decide)


def _predict(model: Any, decision: Any, frame: Any, scores: Any) -> dict[str, Any]:
    if not hasattr(model, "decide"):  # an exported graph
        found = model.run(frame, base=scores)
        if "score" not in found:
            return _by_class(model, model.predict(frame, base=scores))
        columns = {PREDICTION: found["score"]}
        return columns | ({ACTION: found[ACTION]} if ACTION in found else {})
    mean = model.predict(frame, base=scores)
    if mean.ndim == 2:
        return _by_class(model, mean)
    return {PREDICTION: mean} | ({} if decision is None else {ACTION: decision.best(mean)})


def _by_class(model: Any, p: Any) -> dict[str, Any]:
    """A column of probabilities for every class."""
    return {f"{PREDICTION}_{label}": p[:, k] for k, label in enumerate(model.classes_.tolist())}
