r"""The outer form of a .rcal file: a header in JSON, arrays as raw bytes, a checksum.

::

    8 bytes   magic, b"\x89RCAL\r\n\x1a" (damaged by transfers that change line ends)
    4 bytes   format version
    8 bytes   length of the header
    8 bytes   length of the arrays
    header    JSON: {"arrays": [[dtype, shape], ...], "model": ...}
    arrays    their bytes, one after another in the order of the header
    32 bytes  SHA-256 of everything before

All numbers are little-endian. Arrays have no offsets, so they can neither overlap nor lie
outside of the file, and their sizes must add up to the length that is there: whatever is
allocated while reading is bounded by the size of the file itself.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recalibrate.support.checks import ModelFileError
from recalibrate.support.strictjson import dump, parse

MAGIC = b"\x89RCAL\r\n\x1a"
VERSION = 2
"""The format that is written. All before are read: records know since when a field is there."""
PREFIX = struct.Struct("<8sIQQ")
CHECKSUM_BYTES = 32
MOST_HEADER_BYTES = 1 << 26
MOST_FILE_BYTES = 1 << 32
MOST_ARRAYS = 1 << 20
MOST_DIMENSIONS = 2
DTYPES = ("|b1", "|u1", "<i4", "<i8", "<f4", "<f8")


def pack(model: dict[str, Any], arrays: Iterable[NDArray[Any]]) -> bytes:
    """Bytes of a file; in ``model`` an array is its number."""
    stored = [_as_stored(array) for array in arrays]
    listed = [[array.dtype.str, list(array.shape)] for array in stored]
    header = dump({"arrays": listed, "model": model})
    payload = b"".join(array.tobytes() for array in stored)
    size = PREFIX.size + len(header) + len(payload) + CHECKSUM_BYTES
    if len(header) > MOST_HEADER_BYTES or size > MOST_FILE_BYTES or len(listed) > MOST_ARRAYS:
        raise ValueError(
            f"the model is too large for a file: {len(header):,} bytes of header (at most "
            f"{MOST_HEADER_BYTES:,}; categories and their names are there), {size:,} bytes in "
            f"all (at most {MOST_FILE_BYTES:,}). Leave columns with very many categories out, "
            "or save the base model by reference."
        )
    body = PREFIX.pack(MAGIC, VERSION, len(header), len(payload)) + header + payload
    return body + hashlib.sha256(body).digest()


def _as_stored(array: NDArray[Any]) -> NDArray[Any]:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    if little.dtype.str not in DTYPES:
        raise TypeError(f"arrays of {array.dtype} cannot be stored in a model file")
    return little


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a file that can be a model; its length is checked before it is read."""
    if not Path(path).is_file():  # a pipe or device has no end
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        _check_prefix(file.read(PREFIX.size), size)
        file.seek(0)
        return file.read(size)


def _check_prefix(prefix: bytes, size: int) -> tuple[int, int, int]:
    """Version, length of the header, length of the arrays; they have to fill the file."""
    if prefix[: len(MAGIC)] != MAGIC[: len(prefix)] or not prefix:
        raise ModelFileError(
            "this is not a .rcal file: it does not begin like one (was it transferred as text?)"
        )
    if len(prefix) < PREFIX.size:
        raise ModelFileError(f"the file is truncated: it has only {size} bytes")
    _, version, header, payload = PREFIX.unpack(prefix)
    if version > VERSION:
        raise ModelFileError(
            f"the file has format version {version}, written by a newer recalibrate; this one "
            f"reads up to version {VERSION}. Upgrade it: pip install -U recalibrate-lsboost"
        )
    if version < 1:
        raise ModelFileError(f"there is no format version {version}: the file is damaged")
    expected = PREFIX.size + header + payload + CHECKSUM_BYTES
    if header > MOST_HEADER_BYTES or expected > MOST_FILE_BYTES:
        raise ModelFileError(
            f"the file claims {header:,} bytes of header and {payload:,} of arrays, more than "
            f"any model has ({MOST_HEADER_BYTES:,} and {MOST_FILE_BYTES:,}): it is damaged"
        )
    if expected != size:
        what = "truncated" if size < expected else "too long"
        raise ModelFileError(f"the file is {what}: it has {size:,} bytes instead of {expected:,}")
    return version, header, payload


def unpack(data: bytes) -> tuple[int, Any, list[NDArray[Any]]]:
    """Format version, model and arrays of a file's bytes; nothing in them is trusted."""
    version, header_length, _ = _check_prefix(data[: PREFIX.size], len(data))
    end = len(data) - CHECKSUM_BYTES
    if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
        raise ModelFileError(
            "the file's checksum does not match its content: it was damaged or edited after it "
            "was saved"
        )
    start = PREFIX.size + header_length
    header = parse(data[PREFIX.size : start])
    if not isinstance(header, dict) or header.keys() != {"arrays", "model"}:
        raise ModelFileError("the header must hold arrays and a model, and nothing else")
    return version, header["model"], _read_arrays(header["arrays"], data, start, end)


def _read_arrays(listed: Any, data: bytes, start: int, end: int) -> list[NDArray[Any]]:
    if not isinstance(listed, list) or len(listed) > MOST_ARRAYS:
        raise ModelFileError("the header must list the arrays")
    kinds = [_read_kind(entry) for entry in listed]
    total = sum(dtype.itemsize * prod(shape) for dtype, shape in kinds)
    if total != end - start:
        raise ModelFileError(
            f"the arrays should take {total:,} bytes, but {end - start:,} are there"
        )
    arrays = []
    for dtype, shape in kinds:
        flat = np.frombuffer(data, dtype=dtype, count=prod(shape), offset=start)
        start += flat.nbytes
        arrays.append(_own(flat.reshape(shape)))
    return arrays


def _read_kind(entry: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if not isinstance(entry, list) or len(entry) != 2 or entry[0] not in DTYPES:
        raise ModelFileError(f"unknown kind of array: {str(entry)[:80]}")
    shape = entry[1]
    sizes_are_whole = isinstance(shape, list) and all(
        type(length) is int and 0 <= length <= MOST_FILE_BYTES for length in shape
    )
    if not sizes_are_whole or not 1 <= len(shape) <= MOST_DIMENSIONS:
        raise ModelFileError(f"an array has the impossible shape {str(shape)[:80]}")
    return np.dtype(entry[0]), tuple(shape)


def _own(array: NDArray[Any]) -> NDArray[Any]:
    """A copy: aligned, in the machine's byte order, and free of the file's bytes."""
    if array.dtype == np.bool_ and (array.view(np.uint8) > 1).any():
        raise ModelFileError("a flag in the file is neither 0 nor 1")
    return array.astype(array.dtype.newbyteorder("="), copy=True)
