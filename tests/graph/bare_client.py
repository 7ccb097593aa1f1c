"""Answers requests with a graph: python bare_client.py model.onnx requests.npz answers.npz

Runs in environments that have onnxruntime and numpy and nothing else. Tensor ``name`` of the
request or answer with number k is stored as ``k/name``.
"""

import sys

import numpy as np
import onnxruntime


def main(model: str, requests: str, answers: str) -> None:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    asked: dict[str, dict[str, np.ndarray]] = {}
    with np.load(requests) as stored:
        for key, values in stored.items():
            number, name = key.split("/", 1)
            # Text is stored with a fixed width, but onnxruntime takes Python strings.
            tensor = values.astype(object) if values.dtype.kind == "U" else values
            asked.setdefault(number, {})[name] = tensor
    answered = {
        f"{number}/{name}": values
        for number, feed in asked.items()
        for name, values in zip(names, session.run(names, feed), strict=True)
    }
    np.savez(answers, **answered)


if __name__ == "__main__":
    main(*sys.argv[1:])
