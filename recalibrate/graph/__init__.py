"""One ONNX graph of a base model and its rounds, proven equal before it is written.

:meth:`recalibrate.Recalibrated.to_onnx` is the way in. A graph holds only standard operators of
ai.onnx 18 and ai.onnx.ml 5, which onnxruntime 1.23 and later run, and tensors (no maps or
sequences). ``N``, the number of rows, is dynamic everywhere.

Inputs
    ``X`` float32 or float64 [N, d]
        The columns of the base model, where it takes a matrix (or the fitted array's columns);
        float64 where the base model compares in that precision.
        A tensor of another shape where the base model takes one.
    ``base_score`` float64 [N]
        Scores of the base model on its own scale, for models that were fitted on an array of
        scores.
    one per column, [N, 1]
        All other columns, under their own names: those that only H looks at (sensitive
        attributes, for example), or every column with ``inputs="columns"``. Numbers are float32
        (float64 as above) with NaN for missing, text is string, and whole numbers that float32
        cannot hold (as categories) are int64. A text that is no category, the empty one for
        example, counts as missing. A column that is called like an input or output above gets
        the prefix ``input_``; the metadata says which column an input holds.

Outputs
    ``label`` [N]
        The more probable class, in the type of the labels: int64, string or float64. For labels 0
        and 1: 1 where the probability is above one half. Not for regressions.
    ``probabilities`` float32 [N, K]
        Of ``model.classes_``, which are sorted. Not for regressions.
    ``score`` float32 [N]
        The calibrated mean, or probability of the class that counts as 1 (``positive`` in the
        metadata, else the second): ``float32(model.predict(X))``. Not for more than two classes.
    ``score_margin`` float64 [N]
        The same on the scale of the link, ``model.margins(X)``: log-odds, or means scaled to
        [0, 1].
    ``action`` float32 [N]
        The best action under a loss, where ``to_onnx(decide=...)`` asked for it:
        ``float32(model.decide(loss).actions(X))``.

Metadata
    ``recalibrate_format`` (version of these conventions), ``recalibrate_version``, ``base``,
    ``base_link``, ``link``, ``labels``, ``H``, ``levels``, ``rounds``, ``learners``,
    ``training_rows``, ``inputs`` and ``columns`` (JSON), ``decision`` (JSON) and ``audit`` if
    they were given.

Margins, labels and scores are bit-equal with Python's for tree bases, whatever the number of
threads and the size of the batch: features and thresholds of H are float32, everything that is
summed is a multiple of 2**-40, and level sets come from comparing float64 margins with stored
numbers.
"""

from recalibrate.graph.exporter import check_exportable, export_model
from recalibrate.graph.inputs import ExportError, ParityError
from recalibrate.graph.parity import ParityReport, check_parity
from recalibrate.graph.served import ServedModel, load_served

__all__ = [
    "ExportError",
    "ParityError",
    "ParityReport",
    "ServedModel",
    "check_exportable",
    "check_parity",
    "export_model",
    "load_served",
]
