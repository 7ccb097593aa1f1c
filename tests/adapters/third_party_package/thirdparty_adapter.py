"""The framework's adapter: all that recalibrate needs."""

import json

import numpy as np
from thirdparty_models import Stump


class StumpBase:
    name, why_no_graph, exact = "stump", "stumps have no ONNX graph", False

    def __init__(self, model, *, link=None, target_class=None):
        self.model = model
        self.link = link or "identity"

    def columns(self):
        return (self.model.column,)

    def scores(self, X):
        return np.asarray(self.model.predict(X), dtype=np.float64)

    def graph(self):
        return None


def read_stump(path, *, link=None, target_class=None):
    return StumpBase(Stump(**json.loads(path.read_text())), link=link)
