"""Damage model files in every way, and see that each ends in a refusal or in a sane model.

    python benchmarks/fuzz_files.py --mutations 10000 --tables 2000

Half of the mutations are of .rcal files. Three kinds of damage, in turns: bytes (flipped,
overwritten, cut, inserted), which the checksum must catch; bytes with a new, valid checksum; and
edits of the header and the arrays with a valid checksum, aimed at what a loader trusts: counts,
indices, kinds, tree children, thresholds. Every damaged file is loaded; it must be refused with a
ModelFileError, or give a model that predicts rows (or refuses them with a ValueError).

The other half are base models' files and exported graphs (fuzz_inputs.py), which must be refused
or score rows. Random tables are fitted, which must be refused in words or give finite predictions.

Anything else is a finding: another error, a crash, more than --seconds of processor time or 2 GB
for one input. All run in children (fuzz_children.py). Kernels are compiled with bounds checks, so
that an index that leaves its array is an error instead of luck.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import hashlib
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HOSTILE_NUMBERS = [-1, 0, 1, 2, 255, 2**16, 2**26, 2**31 - 1, 2**31, 2**53, 2**63, -(2**63), 10**40]
HOSTILE_VALUES: list[Any] = [
    *HOSTILE_NUMBERS, 0.5, -0.5, 1e308, -1e308, 5e-324, True, False, None, "", "nan", "inf", "-inf",
    "logit", "../../etc/passwd", "\x00", "x" * 5000, [], {}, [[]], [None], {"kind": "model"},
    "a < 'b", "(" * 200, "sex * " * 50 + "sex", "`base score`",
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A good file, and how to ask its model for predictions."""

    name: str
    data: bytes
    ask: Callable[[Any], Any]


def make_cases() -> list[Case]:
    """Small models of every kind of learner, label, link and base."""
    import pandas as pd
    from sklearn.tree import DecisionTreeClassifier

    import recalibrate as rc
    from recalibrate.files import to_bytes

    rng = np.random.default_rng(0)
    n = 600
    X = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "sex": rng.choice(["F", "M"], n),
            "race": rng.choice(list("ABCDE"), n),
            "x": rng.normal(size=n),
            "income": rng.integers(1, 9, n),
        }
    )
    score = 1 / (1 + np.exp(-0.5 * X["x"].to_numpy()))
    y = (rng.random(n) < score * (0.5 + 0.5 * (X["sex"] == "F"))) * 1.0
    income = 1000 * (X["age"].to_numpy() + 5 * rng.normal(size=n))
    rows = X[:40].copy()
    rows.loc[:5, "x"] = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.0]
    rows.loc[3:6, "sex"] = ["F", None, "unknown", "M"]
    plain = {"validation": False, "loop": rc.Loop(max_rounds=3, levels=3)}
    given = score[:40]

    def ask(model: Any) -> Any:
        return model.predict(rows, base=given)

    models = {
        "trees": rc.fit(score, X, y, rc.Trees(depth=3, base_score=True), **plain),
        "linear": rc.fit(score, X, y, rc.Linear(base_score=True), **plain),
        "groups": rc.fit(score, X, y, rc.Groups("sex*race", "age < 30", "age"), **plain),
        "paper": rc.fit(score, X, y, rc.Trees(depth=1), alpha=0.02, validation=0.3),
        "regression": rc.fit(50 * X["age"], X, income, rc.Groups("sex", "x"), **plain),
        "default": rc.fit(score * 0.5, X, y),
    }
    cases = [Case(name, to_bytes(model)[0], ask) for name, model in models.items()]
    booster = rc.LSBoostRegressor(rc.Trees(depth=2), loop=rc.Loop(max_rounds=3)).fit(X, y)
    cases.append(Case("constant", to_bytes(booster.model_)[0], lambda model: model.predict(rows)))
    classifier = DecisionTreeClassifier(max_depth=3).fit(X[["age", "income"]], y)
    model = rc.fit(classifier, X, y, rc.Groups("sex"), **plain)
    cases.append(Case("graph", to_bytes(model)[0], lambda model: model.predict(rows)))
    return cases


def split(data: bytes) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Header and arrays of a good file."""
    from recalibrate.files.container import PREFIX

    header = json.loads(data[PREFIX.size : PREFIX.size + PREFIX.unpack(data[: PREFIX.size])[2]])
    arrays, start = [], PREFIX.size + PREFIX.unpack(data[: PREFIX.size])[2]
    for dtype, shape in header["arrays"]:
        flat = np.frombuffer(data, np.dtype(dtype), int(np.prod(shape)), start)
        arrays.append(flat.reshape(shape).copy())
        start += flat.nbytes
    return header, arrays


def join(header: Any, payload: bytes) -> bytes:
    """A file with a valid checksum, whatever it says."""
    from recalibrate.files.container import MAGIC, PREFIX, VERSION

    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = PREFIX.pack(MAGIC, VERSION, len(text), len(payload)) + text + payload
    return body + hashlib.sha256(body).digest()


def damage_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Some bytes flipped, overwritten, cut or inserted."""
    changed = bytearray(data)
    at = int(rng.integers(len(data)))
    kind = rng.integers(5)
    if kind == 0:
        changed[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        length = int(rng.integers(1, 64))
        changed[at : at + length] = rng.bytes(len(changed[at : at + length]))
    elif kind == 2:
        del changed[at:]
    elif kind == 3:
        changed[at:at] = rng.bytes(int(rng.integers(1, 64)))
    else:
        changed[at : at + 8] = int(rng.choice([0, 2**31, 2**62])).to_bytes(8, "little")
    return bytes(changed)


def damage_and_sign(data: bytes, rng: np.random.Generator) -> bytes:
    """Damaged bytes of the header or the arrays, with lengths and checksum put right."""
    from recalibrate.files.container import CHECKSUM_BYTES, PREFIX

    header = PREFIX.unpack(data[: PREFIX.size])[2]
    text = data[PREFIX.size : PREFIX.size + header]
    payload = data[PREFIX.size + header : -CHECKSUM_BYTES]
    if rng.integers(2):
        return join(damage_bytes(text, rng), payload)
    return join(text, damage_bytes(payload, rng) if payload else payload)


def edit(data: bytes, rng: np.random.Generator) -> bytes:
    """A few edits of the header's values or the arrays' elements; checksum valid."""
    header, arrays = split(data)
    if header["model"]["base"]["kind"] == "graph" and rng.random() < 0.8:
        _edit_graph(header, arrays, rng)
        return join(header, b"".join(array.tobytes() for array in arrays))
    for _ in range(1 + int(rng.integers(4) == 0)):
        if arrays and rng.random() < 0.5:
            _edit_array(header, arrays, rng)
        else:
            _edit_value(header, rng)
    text: Any = header
    if rng.random() < 0.02:
        text = json.dumps(header).encode()[:-1] + b',"model":{}}'  # a repeated key
    elif rng.random() < 0.02:
        text = json.dumps(header).encode()[:-1] + b',"z":' + b"[" * 9999 + b"]" * 9999 + b"}"
    return join(text, b"".join(array.tobytes() for array in arrays))


def _edit_value(header: dict[str, Any], rng: np.random.Generator) -> None:
    """Walk to a random place of the header and put something else there."""
    node: Any = header
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = keys[int(rng.integers(len(keys)))]
        below = node[key]
        if not isinstance(below, dict | list) or not below or rng.random() < 0.1:
            break
        node = below
    kind = rng.integers(5)
    if kind == 0:
        del node[key]
    elif kind == 1 and isinstance(below, int | float):
        node[key] = below + int(rng.choice([-2, -1, 1, 2, 100]))
    elif kind == 2 and isinstance(node, list):
        node.insert(int(rng.integers(len(node) + 1)), copy.deepcopy(below))
    elif kind == 3 and isinstance(node, dict):
        node[rng.choice(["kind", "extra", "array"])] = below
    else:
        node[key] = copy.deepcopy(HOSTILE_VALUES[int(rng.integers(len(HOSTILE_VALUES)))])


def _edit_array(header: dict[str, Any], arrays: list[np.ndarray], rng: np.random.Generator) -> None:
    """An element, the order, the length or the type of a random array."""
    listed = header.get("arrays")
    if not isinstance(listed, list) or len(listed) != len(arrays):
        return
    k = int(rng.integers(len(arrays)))
    array = arrays[k]
    kind = rng.integers(6)
    if kind <= 2 and array.size:
        at = int(rng.integers(array.size))
        if array.dtype.kind == "f":
            array.flat[at] = rng.choice([np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0, 1e-300])
        elif array.dtype.kind == "b":
            array.view(np.uint8).flat[at] = rng.choice([0, 1, 2, 255])
        elif array.dtype.kind == "i":
            near = int(array.flat[at]) + int(rng.integers(-3, 4))
            low, high = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
            wild = int(rng.choice([near, -1, 0, array.size, 2**20, low, high]))
            array.flat[at] = min(max(wild, low), high)
    elif kind == 3:
        other = int(rng.integers(len(arrays)))
        arrays[k], arrays[other] = arrays[other], arrays[k]
        listed[k], listed[other] = listed[other], listed[k]
    elif kind == 4 and array.ndim:
        arrays[k] = array[:-1] if rng.integers(2) else np.concatenate([array, array[-1:]])
        listed[k] = [listed[k][0], list(arrays[k].shape)]
    else:
        rng.shuffle(array)


def _edit_graph(header: dict[str, Any], arrays: list[np.ndarray], rng: np.random.Generator) -> None:
    """A number, size, name or operator somewhere in the base model's graph."""
    k = header["model"]["base"]["graph"]
    arrays[k] = np.frombuffer(edit_graph(arrays[k].tobytes(), rng), np.uint8)
    header["arrays"][k] = ["|u1", [len(arrays[k])]]


def edit_graph(content: bytes, rng: np.random.Generator) -> bytes:
    """A graph with a number, size, name or operator changed."""
    import onnx

    model = onnx.ModelProto.FromString(content)
    parts: list[Any] = [model]
    places = []
    while parts:
        part = parts.pop()
        for field, value in part.ListFields():
            repeated = not isinstance(value, str | bytes | int | float) and hasattr(
                value, "__len__"
            )
            if field.message_type is not None:
                parts.extend(value if repeated else [value])
            else:
                places += [(part, field, at) for at in (range(len(value)) if repeated else [None])]
    part, field, at = places[int(rng.integers(len(places)))]
    value = getattr(part, field.name) if at is None else getattr(part, field.name)[at]
    if isinstance(value, bytes):
        changed: Any = damage_bytes(value, rng) if value else b"x"
    elif isinstance(value, str):
        changed = str(rng.choice(["", "X", "score", "Loop", "Identity", value + "x"]))
    elif isinstance(value, int):
        near = value + int(rng.integers(-3, 4))
        changed = int(rng.choice([near, -1, 0, 1, 1000, 2**31 - 1]))
    else:
        changed = float(rng.choice([np.nan, np.inf, -1.0, 0.0, 1e30]))
    try:
        if at is None:
            setattr(part, field.name, changed)
        else:
            getattr(part, field.name)[at] = changed
    except (TypeError, ValueError):  # a kind of enumeration
        return content
    return bytes(model.SerializeToString())


KINDS = {"bytes": damage_bytes, "signed bytes": damage_and_sign, "edits": edit}


def judge(case: Case, data: bytes, folder: Path) -> str:
    """What a damaged file leads to: refused, predicts, or refuses rows; errors are findings."""
    import recalibrate as rc
    from recalibrate.files import ModelFileError

    path = folder / "damaged.rcal"
    path.write_bytes(data)
    try:
        model = rc.load(path)
    except ModelFileError:
        return "refused"
    try:
        predicted = case.ask(model)
    except ValueError:
        return "refuses rows"
    if not isinstance(predicted, np.ndarray) or len(predicted) != 40:
        raise AssertionError(f"predicts {predicted!r}")
    return "predicts"


def rcal_job(cases: list[Case], seed: int, folder: Path) -> Callable[[int], str]:
    """Damage a .rcal file, load it, predict; the outcome by kind of damage."""

    def job(k: int) -> str:
        rng = np.random.default_rng([seed, k])
        kind, damage = list(KINDS.items())[k % len(KINDS)]
        case = cases[(k // len(KINDS)) % len(cases)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # overflowing numbers of a forged model
            data = damage(case.data, rng)
            outcome = judge(case, data, folder) if data != case.data else "unchanged"
        if kind == "bytes" and outcome not in ("refused", "unchanged"):
            raise AssertionError(f"damaged bytes of {case.name} were accepted")
        return f"{kind}: {outcome}"

    return job


def main(arguments: list[str] | None = None) -> int:
    from fuzz_children import in_child, run_in_children
    from fuzz_inputs import file_job, table_job, write_files

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=10_000, help="half of them .rcal files")
    parser.add_argument("--tables", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=20, help="most processor time for one input")
    parser.add_argument("--budget", type=float, help="most seconds for each of the three parts")
    options = parser.parse_args(arguments)
    limits = {"seconds": options.seconds, "budget": options.budget}
    seed, found = options.seed, 0
    with tempfile.TemporaryDirectory() as name:
        files, scratch = Path(name, "files"), Path(name, "scratch")
        files.mkdir()
        scratch.mkdir()
        in_child(lambda: write_files(files))
        jobs = {
            "base model files and exported graphs": (file_job(files, seed), options.mutations // 2),
            "random tables": (table_job(seed), options.tables),
            # Last, because models are fitted in this process for it, which starts threads.
            ".rcal files": (lambda k: rcal(k), options.mutations - options.mutations // 2),
        }
        for title, (job, count) in jobs.items():
            if title == ".rcal files":
                rcal = rcal_job(make_cases(), seed, scratch)
            outcomes, findings = run_in_children(job, count, **limits)
            print(f"{title}: {sum(outcomes.values()):,}")
            for outcome, times in sorted(outcomes.items()):
                print(f"  {outcome:34}{times:8,}")
            for finding in findings:
                print(f"  {finding}")
            found += len(findings)
            sys.stdout.flush()
    print("no findings" if not found else f"{found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    faulthandler.enable()
    sys.modules["fuzz_files"] = sys.modules["__main__"]  # for the other parts of the fuzzer
    # Before numba is imported; the cache must not mix with that of unchecked kernels. One thread,
    # because threads do not survive a fork.
    os.environ |= {"NUMBA_BOUNDSCHECK": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as cache:
        os.environ["NUMBA_CACHE_DIR"] = cache
        sys.exit(main())
