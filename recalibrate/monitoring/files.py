"""The state of a monitor as JSON: versioned, with a checksum, and checked when it is read."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from recalibrate.data.labels import Float64
from recalibrate.data.values import tag_value, untag_value
from recalibrate.groups.groupset import GroupSet
from recalibrate.monitoring.batches import KINDS, Scale
from recalibrate.monitoring.judging import (
    MOST_BUCKETS,
    N_OLD_SUMS,
    N_SUMS,
    P1,
    P2,
    ROWS,
    WEIGHT,
    Z2,
    Z4,
    Place,
    Since,
    Timeline,
)
from recalibrate.monitoring.state import MOST_SEEN, Alarm, Rules, State
from recalibrate.monitoring.watched import Shift, Watched
from recalibrate.support import strictjson
from recalibrate.support.checks import ModelFileError

FORMAT = "recalibrate.monitor"
VERSION = 2
"""Version 1 had no sums over positive residuals."""
MOST_BYTES = 1 << 30
_UNFORESEEN = (KeyError, TypeError, ValueError, OverflowError, IndexError, AttributeError)


def to_bytes(state: State) -> bytes:
    """The content of the file; the same for the same state."""
    body = _encode(state)
    head = {"format": FORMAT, "version": VERSION, "checksum": _checksum(body), "state": body}
    return strictjson.dump(head)


def from_bytes(data: bytes) -> State:
    """The state; a `ModelFileError` says what is wrong with the content otherwise."""
    if len(data) > MOST_BYTES:
        _refuse(f"it has {len(data):,} bytes, more than any state")
    try:
        head = strictjson.parse(data)
    except ModelFileError as error:
        _refuse(str(error).replace("the header", "it"))
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        _refuse(f"it does not say that its format is {FORMAT!r}")
    version = head.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        _refuse(
            f"its version is {version!r}, this program reads 1 to {VERSION}; install a newer "
            "release of recalibrate-lsboost"
        )
    body = head.get("state")
    if not isinstance(body, dict) or head.get("checksum") != _checksum(body):
        _refuse("its content does not fit its checksum: it was changed or damaged")
    try:
        return _decode(body, version)
    except ModelFileError:
        raise
    except _UNFORESEEN as error:
        _refuse(f"{type(error).__name__}: {error}")


def _refuse(why: str) -> NoReturn:
    raise ModelFileError(f"this is not the state of a monitor: {why}")


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.blake2b(strictjson.dump(body), digest_size=16).hexdigest()


def _encode(state: State) -> dict[str, Any]:
    watched, timeline, shift = state.watched, state.timeline, state.shift
    return {
        "scale": {
            "low": state.scale.low,
            "high": state.scale.high,
            "classes": [tag_value(each) for each in state.scale.classes],
            "chosen": None if state.scale.chosen is None else tag_value(state.scale.chosen),
            **({"exposed": True} if state.scale.exposed else {}),
        },
        "rules": vars(state.rules),
        "watched": {
            "groups": None if watched.groups is None else watched.groups.to_dict(),
            "edges": [own.tolist() for own in watched.edges],
            "cuts": [own.tolist() for own in watched.cuts],
            "reference": _flat(watched.reference),
            "left_out": list(watched.left_out),
        },
        "timeline": {
            "number": timeline.number.tolist(),
            "start": timeline.start.tolist(),
            "end": timeline.end.tolist(),
            "sums": _flat(timeline.sums),
            "evidence": _flat(timeline.evidence),
        },
        "shift": {
            "look": shift.look,
            **{name: _flat(getattr(shift, name)) for name in _SHIFT},
        },
        "peak": _flat(state.peak),
        "alarms": [_encode_alarm(k, g, alarm) for (k, g), alarm in state.alarms.items()],
        "time_kind": state.time_kind,
        "max_weight": state.max_weight,
        "batches": state.n_batches,
        "rows": state.n_rows,
        "seen": list(state.seen),
        "model": state.model,
    }


_SHIFT = ("p", "cut", "before", "now", "first")
_SINCE = ("time", "gap", "low", "high")


def _encode_alarm(k: int, g: int, alarm: Alarm) -> dict[str, Any]:
    since = {name: _plain(getattr(alarm.since, name)) for name in _SINCE}
    return {
        "class": k,
        "group": g,
        "time": alarm.time,
        "batch": alarm.batch,
        "rows": alarm.rows,
        "direction": alarm.place.direction,
        "cell": alarm.place.cell,
        "since": since | {"rows": alarm.since.rows},
    }


def _flat(array: Float64) -> list[float | int | None]:
    """Numbers in the order of C; whole ones without a fraction, None for what is not finite."""
    return [_plain(value) for value in array.ravel().tolist()]


def _plain(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _decode(body: dict[str, Any], version: int) -> State:
    scale = _decode_scale(body["scale"])
    rules = _decode_rules(body["rules"])
    n_classes = scale.n_scores
    watched = _decode_watched(body["watched"], n_classes)
    n_groups = len(watched.names)
    n_sums = N_SUMS if version > 1 else N_OLD_SUMS
    cells = (n_classes, watched.n_bands, n_groups, n_sums)
    timeline = _decode_timeline(body["timeline"], cells)
    shape = (n_classes, n_groups)
    shift = Shift(
        _whole(body["shift"]["look"], 0),
        *(_array(body["shift"][name], shape, name, missing=np.nan) for name in _SHIFT),
    )
    alarms = [_decode_alarm(each, watched, n_classes) for each in body["alarms"]]
    kind, heaviest = body["time_kind"], body["max_weight"]
    _require(kind is None or kind in KINDS, f"time_kind {kind!r}")
    seen = tuple(_text(each) for each in body["seen"])
    _require(len(seen) <= MOST_SEEN, "too many hashes")
    return State(
        scale,
        rules,
        watched,
        timeline,
        shift,
        _array(body["peak"], shape, "peak", missing=-np.inf),
        dict(alarms),
        kind,
        None if heaviest is None else _number(heaviest, above=0.0),
        _whole(body["batches"], 0),
        _whole(body["rows"], 0),
        seen,
        _text(body["model"]),
    )


def _decode_scale(entry: dict[str, Any]) -> Scale:
    low, high = _number(entry["low"]), _number(entry["high"])
    _require(low < high, "bounds that do not ascend")
    classes = tuple(untag_value(each) for each in entry["classes"])
    _require(len(classes) != 1 and len(set(classes)) == len(classes), "bad classes")
    chosen = None if entry["chosen"] is None else untag_value(entry["chosen"])
    _require(chosen is None or chosen in classes, "a chosen class that is none")
    exposed = entry.get("exposed", False)
    _require(isinstance(exposed, bool), f"exposed {exposed!r}")
    return Scale(low, high, classes, chosen, exposed)


def _decode_rules(entry: dict[str, Any]) -> Rules:
    _require(set(entry) == {"tolerance", "alpha", "levels"}, f"rules {sorted(entry)}")
    alpha = _number(entry["alpha"], above=0.0)
    _require(alpha <= 0.5, f"alpha {alpha}")
    return Rules(_number(entry["tolerance"], above=-1e-300), alpha, _whole(entry["levels"], 1))


def _decode_watched(entry: dict[str, Any], n_classes: int) -> Watched:
    groups = None if entry["groups"] is None else GroupSet.from_dict(entry["groups"])
    edges, cuts = (
        tuple(_ascending(own, name) for own in entry[name]) for name in ("edges", "cuts")
    )
    _require(len(edges) == len(cuts) == n_classes, "bands of another number of classes")
    left_out = tuple(_text(each) for each in entry["left_out"])
    found = Watched(groups, edges, cuts, np.empty(0), left_out)
    shape = (n_classes, max(len(own) for own in cuts) + 1, len(found.names))
    return Watched(groups, edges, cuts, _array(entry["reference"], shape, "reference"), left_out)


def _decode_timeline(entry: dict[str, Any], cells: tuple[int, int, int, int]) -> Timeline:
    number = np.array([_whole(each, 1) for each in entry["number"]], dtype=np.int64)
    count = len(number)
    _require(count <= MOST_BUCKETS and (np.diff(number) > 0).all(), "buckets out of order")
    _require(count == 0 or number[0] == 1, "no first bucket")
    start, end = (_array(entry[name], (count,), name) for name in ("start", "end"))
    _require((start <= end).all() and (end[:-1] <= start[1:]).all(), "times out of order")
    sums = np.full((count, *cells[:-1], N_SUMS), np.nan)
    sums[..., : cells[-1]] = _array(entry["sums"], (count, *cells), "sums", missing=np.nan)
    _require(np.isfinite(sums[..., :N_OLD_SUMS]).all(), "sums that are missing")
    _require(not (sums[..., [ROWS, WEIGHT, Z2, Z4, P1, P2]] < 0).any(), "negative sums")
    n_classes, _, n_groups, _ = cells
    evidence = _array(entry["evidence"], (count, n_classes, n_groups), "evidence", missing=-np.inf)
    return Timeline(number, start, end, sums, evidence)


def _decode_alarm(
    entry: dict[str, Any], watched: Watched, n_classes: int
) -> tuple[tuple[int, int], Alarm]:
    key = (
        _whole(entry["class"], 0, n_classes - 1),
        _whole(entry["group"], 0, len(watched.names) - 1),
    )
    place = Place(_whole(entry["direction"], 0, 1), _whole(entry["cell"], 0, watched.n_bands))
    own = entry["since"]
    numbers = [math.nan if own[name] is None else _number(own[name]) for name in _SINCE]
    since = Since(_whole(own["rows"], 0), *numbers)
    alarm = Alarm(
        _number(entry["time"]), _whole(entry["batch"], 1), _whole(entry["rows"], 0), place, since
    )
    return key, alarm


def _require(fine: Any, what: str) -> None:
    if not fine:
        _refuse(what)


def _checked(kind: Callable[[Any], bool], value: Any, what: str) -> Any:
    _require(kind(value), f"{str(value)[:80]!r} is no {what}")
    return value


def _number(value: Any, above: float = -math.inf) -> float:
    fine = _checked(lambda v: type(v) in (int, float) and v > above, value, "such number")
    return float(fine)


def _whole(value: Any, least: int, most: int = 2**53) -> int:
    return int(_checked(lambda v: type(v) is int and least <= v <= most, value, "such count"))


def _text(value: Any) -> str:
    return str(_checked(lambda v: isinstance(v, str), value, "text"))


def _array(values: Any, shape: tuple[int, ...], what: str, missing: float | None = None) -> Float64:
    _require(isinstance(values, list) and len(values) == math.prod(shape), f"size of {what}")
    kinds = {type(value) for value in values}
    allowed = {int, float} if missing is None else {int, float, type(None)}
    _require(kinds <= allowed, f"{what} holds something else than numbers")
    found = np.array([missing if value is None else value for value in values], dtype=np.float64)
    return found.reshape(shape)


def _ascending(values: Any, what: str) -> Float64:
    found = _array(values, (len(values),), what)
    _require((np.diff(found) > 0).all(), f"{what} do not ascend")
    return found
