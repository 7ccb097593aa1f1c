"""The one error that a bad file gives."""

from __future__ import annotations

from recalibrate.support.notices import printable


class ModelFileError(ValueError):
    """A file that is not a whole, valid model of this library; says what is wrong with it.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from recalibrate import load
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.rcal"
    >>> _ = path.write_bytes(b"something else")
    >>> try:
    ...     load(path)
    ... except ValueError as error:
    ...     print(type(error).__name__)
    ModelFileError
    """

    def __init__(self, message: str) -> None:
        # What a file says must not steer the terminal that shows it.
        super().__init__(printable(message))
