"""onnx's own evaluator, slow and obvious, gives the bits that Python gives."""

import onnx
import pytest
from exported import MODELS, exported
from onnx.reference import ReferenceEvaluator

pytestmark = [pytest.mark.parity, pytest.mark.adapter]


FEW = slice(16, 24)  # single rows and batches of seven; all rows would take minutes


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")  # of a score 0; then clipped
def test_the_reference_gives_the_same_bits(name):
    made = exported(name).only(FEW)
    evaluator = ReferenceEvaluator(onnx.load_model_from_string(made.graph))
    names = evaluator.output_names
    given = [dict(zip(names, evaluator.run(None, feed), strict=True)) for feed in made.requests]
    assert made.check(given) > 0
