"""Serve an exported model with FastAPI and onnxruntime; recalibrate itself is not needed.

    pip install fastapi uvicorn onnxruntime
    python examples/fastapi_server.py model.onnx --port 8000
    curl localhost:8000/predict -H 'Content-Type: application/json' -d '[{"age": 31, "sex": "F"}]'

    python examples/fastapi_server.py       # fit a small model, serve it, ask it over HTTP

``/docs`` describes a row, by the metadata that ``model.to_onnx`` wrote into the file.
Rows that do not fit are answered with status 422 (wrong types or columns) or 400, and a reason.
Without arguments it is a demonstration and needs recalibrate.
"""

import argparse
import http.client
import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import Body, FastAPI, HTTPException
from pydantic import ConfigDict, Field, create_model
from serve_onnx import Model

MOST_ROWS = 100_000
TYPES: dict[str, Any] = {"float32": float, "float64": float, "int64": int, "string": str}


def make_app(model: Model) -> FastAPI:
    """An application with the routes /health and /predict."""
    app = FastAPI(title="A recalibrated model")
    columns = model.describe()["row"]
    # Names of columns need not be names of Python: fields are numbered, and go by their alias.
    # A whole matrix for H's own table is a list, which the model checks itself.
    fields: dict[str, Any] = {
        f"column_{k}": (TYPES[kind] | None if model.by_column else Any, Field(alias=name))
        for k, (name, kind) in enumerate(columns.items())
    }
    Row = create_model("Row", __config__=ConfigDict(strict=True, extra="ignore"), **fields)

    @app.get("/health")
    def health() -> dict[str, Any]:
        return {"status": "ok", "outputs": model.outputs}

    # Not async: the model runs in a thread, and other requests are answered meanwhile.
    @app.post("/predict")
    def predict(rows: Annotated[list[Row], Body(max_length=MOST_ROWS)]) -> dict[str, Any]:  # type: ignore[valid-type]
        try:
            return model.answer([row.model_dump(by_alias=True) for row in rows])
        except (ValueError, OverflowError) as error:
            raise HTTPException(status_code=400, detail=str(error)) from None

    return app


class Running:
    """A server in a thread of this process, for demonstrations, tests and benchmarks."""

    def __init__(self, model: Model) -> None:
        config = uvicorn.Config(make_app(model), host="127.0.0.1", port=0, log_level="warning")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> int:
        """The port."""
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise RuntimeError("the server did not start")
            time.sleep(0.01)
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()


def ask(connection: http.client.HTTPConnection, rows: Any) -> tuple[int, Any]:
    """Status and content of the answer to some rows."""
    body = rows if isinstance(rows, str) else json.dumps(rows)
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


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
        served = Model(path)
    rows = json.loads(calibration.X[:2].to_json(orient="records"))
    with Running(served) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        _, answer = ask(connection, rows)
        connection.close()
    print(f"Served: {answer['score']}")
    print(f"Python: {model.predict(calibration.X[:2]).astype('float32').tolist()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", help="a file that model.to_onnx wrote")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    if arguments.model is None:
        demonstrate()
    else:
        uvicorn.run(make_app(Model(arguments.model)), host=arguments.host, port=arguments.port)


if __name__ == "__main__":
    main()
