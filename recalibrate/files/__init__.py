"""Model files (.rcal): versioned, checked, without pickle, and the same bytes for the same model.

Comes in: a model, or the bytes of a file. Leaves: the other. Called by ``Recalibrated.save`` and
``load``. What is stored is described once, by codecs (``codec``); a class H describes itself in
its own folder, and ``classes`` says how.

Loading believes nothing that a file says: lengths are checked before anything is allocated, the
checksum before anything is parsed, and every index that a kernel would follow before there is a
model. No code comes out of a file; a base model's graph is run by onnxruntime, when scores are
asked for.
"""

from recalibrate.files.container import MAGIC, VERSION, read_bytes
from recalibrate.files.document import fingerprint, from_bytes, to_bytes
from recalibrate.support.checks import ModelFileError

__all__ = [
    "MAGIC",
    "VERSION",
    "ModelFileError",
    "fingerprint",
    "from_bytes",
    "read_bytes",
    "to_bytes",
]
