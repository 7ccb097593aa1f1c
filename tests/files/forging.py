"""Files with a valid checksum that say whatever a test wants them to say."""

import hashlib
import json

import numpy as np

from recalibrate.files.container import CHECKSUM_BYTES, MAGIC, PREFIX, VERSION


def seal(text: bytes, payload: bytes, *, version: int = VERSION) -> bytes:
    """A file with the right lengths and checksum."""
    body = PREFIX.pack(MAGIC, version, len(text), len(payload)) + text + payload
    return body + hashlib.sha256(body).digest()


class Forgery:
    """A good file taken apart; ``header`` and ``arrays`` may be changed before `seal`."""

    def __init__(self, data: bytes) -> None:
        length = PREFIX.unpack(data[: PREFIX.size])[2]
        start = PREFIX.size + length
        self.header = json.loads(data[PREFIX.size : start])
        self.model = self.header["model"]
        self.arrays = []
        for dtype, shape in self.header["arrays"]:
            flat = np.frombuffer(data, np.dtype(dtype), int(np.prod(shape)), start)
            self.arrays.append(flat.reshape(shape).copy())
            start += flat.nbytes
        assert start == len(data) - CHECKSUM_BYTES

    def array(self, *path):
        """The array that the model's field at a path refers to."""
        return self.arrays[self._at(*path)]

    def set_array(self, array, *path):
        self.arrays[self._at(*path)] = np.asarray(array)

    def _at(self, *path):
        node = self.model
        for key in path:
            node = node[key]
        return node

    def seal(self) -> bytes:
        self.header["arrays"] = [[a.dtype.str, list(a.shape)] for a in self.arrays]
        return self.seal_as_listed()

    def seal_as_listed(self) -> bytes:
        """With the list of arrays as the header has it."""
        text = json.dumps(self.header).encode()
        return seal(text, b"".join(a.tobytes() for a in self.arrays))
