"""One seam for H: whoever meets a class, an encoder or a table asks the registry, not its type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recalibrate as rc
from recalibrate.core.kinds import CLASSES, class_of, graph_module_of, module_of, say_classes
from recalibrate.core.learning import FunctionClass, Reasons
from recalibrate.graph import ExportError
from recalibrate.graph.forms import Form

SOURCE = Path(rc.__file__).parent


def sample(n=300):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(size=n), "sex": rng.choice(["F", "M"], n)})
    return np.full(n, 0.5), X, (rng.random(n) < np.where(X["sex"] == "F", 0.3, 0.7)).astype(float)


@pytest.mark.parametrize("kind", CLASSES)
def test_a_class_is_registered_with_all_its_parts(kind):
    own = class_of(kind)
    assert issubclass(own, FunctionClass)
    assert own.kind == kind
    assert getattr(rc, own.__name__) is own
    assert f"{own.__name__}(...)" in say_classes()
    assert isinstance(graph_module_of(kind).FORM, Form)
    assert issubclass(module_of(kind).REASONS, Reasons)
    assert module_of(kind).FILES.spec.type is own


@pytest.mark.parametrize("kind", [kind for kind in CLASSES if kind in class_of(kind).shorthand])
def test_a_class_by_its_short_name(kind):
    base, X, y = sample()
    model = rc.fit(base, X, y, kind, loop=rc.Loop(levels=2, max_rounds=2), validation=False)
    assert class_of(kind)() == model.H
    assert {step.table.kind for step in model.rounds.steps} == {kind}
    assert {encoder.kind for encoder in model.rounds.encoders} == {kind}


def test_only_a_class_itself_asks_for_its_types():
    """Elsewhere the types may be made and named, but no question is answered by them.

    The audit may: rules of trees and of groups are what it can search, and ``groups=Groups(...)``
    is one way to say which rows it is to look at.
    """
    types = re.compile(
        r"isinstance\([^\n]*\b(Trees|Linear|Groups|Estimator|\w+Table|Quantiser|GroupEncoder|Bins)\b"
    )
    asking = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "classes" not in path.parts and types.search(path.read_text())
    }
    may = {"measure/segments.py", "discovery.py", "scan.py"}
    assert asking <= {f"auditing/{name}" for name in may}


def test_graphs_know_no_class():
    for path in (SOURCE / "graph").glob("*.py"):
        assert "recalibrate.classes" not in path.read_text(), path.name


@dataclass(frozen=True)
class Mine(FunctionClass):
    """Linear functions under another name, which nobody registered."""

    kind = "mine"

    def bind(self, *columns, **options):
        return rc.Linear().bind(*columns, **options)


def test_a_class_of_ones_own():
    base, X, y = sample()
    model = rc.fit(base, X, y, Mine(), loop=rc.Loop(levels=2, max_rounds=2), validation=False)
    same = rc.fit(base, X, y, rc.Linear(), loop=rc.Loop(levels=2, max_rounds=2), validation=False)
    assert np.array_equal(model.predict(X, base=base), same.predict(X, base=base))
    with pytest.raises(ExportError, match=re.escape(f"'mine' has no ONNX form; {say_classes()}")):
        rc.fit(base, X, y, Mine(), exportable=True)
