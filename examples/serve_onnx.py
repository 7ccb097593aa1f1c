"""Serve an exported model over HTTP, with nothing but onnxruntime and numpy installed.

    python examples/serve_onnx.py model.onnx --port 8000
    curl localhost:8000                                        # what a row has to hold
    curl localhost:8000 -d '[{"age": 31, "sex": "F"}]'         # rows in, predictions out

    python examples/serve_onnx.py model.onnx --once rows.json  # answer a file and end
    python examples/serve_onnx.py                              # fit a small model and serve it

A row is a JSON object with a value per column; null is a missing value. The file itself says
which columns it takes and of which type (``model.to_onnx`` wrote that into its metadata). The
last way is a demonstration and needs recalibrate; the others do not.
"""

import argparse
import contextlib
import http.client
import json
import math
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

MOST_BYTES = 16 * 2**20
DTYPES = {"float32": np.float32, "float64": np.float64, "int64": np.int64, "string": object}
MISSING = {"float32": math.nan, "float64": math.nan, "int64": -(2**63), "string": ""}
"""How an exported graph takes a missing value."""
ACCEPTED: dict[str, tuple[type, ...]] = {
    "float32": (int, float),
    "float64": (int, float),
    "int64": (int,),
    "string": (str,),
}


class Model:
    """An exported file, and what it says about its inputs."""

    def __init__(self, path: str | Path) -> None:
        self.session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        facts = self.session.get_modelmeta().custom_metadata_map
        if "recalibrate_format" not in facts:
            raise ValueError(f"{path} was not written by recalibrate: it does not name its columns")
        self.inputs = json.loads(facts["inputs"])
        self.outputs = [output.name for output in self.session.get_outputs()]
        names = [name for port in self.inputs for name in port["columns"] or [port["name"]]]
        # Where H has a table of its own, two columns can have one name: then a row holds whole
        # inputs, a list for a matrix.
        self.by_column = len(set(names)) == len(names)

    def keys(self, port: dict[str, Any]) -> list[str]:
        """What an input's values are called in a row."""
        return port["columns"] if self.by_column and port["columns"] else [port["name"]]

    def describe(self) -> dict[str, Any]:
        """The values of a row and their types, and the outputs."""
        row = {key: port["type"] for port in self.inputs for key in self.keys(port)}
        return {"row": row, "outputs": self.outputs}

    def answer(self, rows: Any) -> dict[str, Any]:
        """All outputs for some rows."""
        feed = self.feed(rows)
        found = self.session.run(self.outputs, feed)
        return {name: values.tolist() for name, values in zip(self.outputs, found, strict=True)}

    def feed(self, rows: Any) -> dict[str, np.ndarray]:
        """Rows as the tensors that the graph takes."""
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise ValueError('rows must be a list of objects, such as [{"age": 31, "sex": "F"}]')
        self._check_names(rows)
        feed = {}
        for port in self.inputs:
            columns = [[row[key] for row in rows] for key in self.keys(port)]
            read = [
                _read(k, c, port["type"]) for k, c in zip(self.keys(port), columns, strict=True)
            ]
            values = read[0] if len(read) == 1 else np.stack(read, axis=1)
            feed[port["name"]] = values.reshape(len(rows), *port["shape"][1:])
        return feed

    def _check_names(self, rows: list[dict[str, Any]]) -> None:
        known = self.describe()["row"]
        for number, row in enumerate(rows):
            missing = [key for key in known if key not in row]
            if missing:
                others = [key for key in row if key not in known]
                hint = f"; it has {others}, which the model does not know" if others else ""
                raise ValueError(f"row {number} has no {missing} (null is a missing value){hint}")


def _read(key: str, values: list[Any], kind: str) -> np.ndarray:
    """Values of a column, or of a whole tensor, as an array."""
    if any(isinstance(value, list) for value in values):
        return np.array(values, dtype=DTYPES[kind])
    for number, value in enumerate(values):
        if value is not None and not isinstance(value, ACCEPTED[kind]):
            raise ValueError(f"row {number}: {key!r} is {kind}, but {value!r} was given")
    filled = [MISSING[kind] if value is None else value for value in values]
    with np.errstate(over="ignore"):  # beyond float32 is infinite, as it is for the model
        return np.array(filled, dtype=DTYPES[kind])


def make_server(model: Model, host: str, port: int) -> ThreadingHTTPServer:
    """A server for the model; port 0 takes any that is free."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply(200, model.describe())

        def do_POST(self) -> None:
            size = self.headers.get("Content-Length", "")
            if not size.isdigit() or int(size) > MOST_BYTES:
                self.close_connection = True  # what was not read would pass for a request
                self.reply(413, {"error": f"send rows, at most {MOST_BYTES} bytes"})
                return
            try:
                status, content = 200, model.answer(json.loads(self.rfile.read(int(size))))
            except (ValueError, OverflowError, RecursionError) as error:  # the rows' fault
                status, content = 400, {"error": str(error)}
            self.reply(status, content)

        def reply(self, status: int, content: dict[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """No line per request."""

    return ThreadingHTTPServer((host, port), Handler)


def serve(model: Model, host: str, port: int) -> None:
    """Answer until somebody presses Ctrl-C."""
    with make_server(model, host, port) as server:
        print(f"Serving on http://{host}:{server.server_port}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


def demonstrate() -> None:
    """Fit a small model, write its file, and ask a server for two predictions."""
    try:
        import recalibrate as rc
        from recalibrate.simulate import census
    except ImportError:
        sys.exit("Give a file that model.to_onnx wrote; the demonstration needs recalibrate.")
    from sklearn.ensemble import HistGradientBoostingClassifier

    train, calibration = (census(5000, seed=seed, categorical=True) for seed in (1, 2))
    seen = ["AGEP", "SCHL", "WKHP"]
    base = HistGradientBoostingClassifier(max_iter=30).fit(train.X[seen], train.y)
    model = rc.fit(base, calibration.X, calibration.y, H=rc.Groups("SEX", "RAC1P", "AGEP < 25"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        model.to_onnx(path)
        server = make_server(Model(path), "127.0.0.1", 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = json.loads(calibration.X[:2].to_json(orient="records"))
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    connection.request("POST", "/", json.dumps(rows))
    answer = json.loads(connection.getresponse().read())
    connection.close()
    server.shutdown()
    server.server_close()
    print(f"Served: {answer['score']}")
    print(f"Python: {model.predict(calibration.X[:2]).astype(np.float32).tolist()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="a file that model.to_onnx wrote")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000, help="0 takes any that is free")
    parser.add_argument("--once", metavar="ROWS", help="a file of rows to answer, instead")
    arguments = parser.parse_args()
    if arguments.model is None:
        demonstrate()
    elif arguments.once is not None:
        rows = json.loads(Path(arguments.once).read_text(encoding="utf-8"))
        print(json.dumps(Model(arguments.model).answer(rows)))
    else:
        serve(Model(arguments.model), arguments.host, arguments.port)


if __name__ == "__main__":
    main()
