"""Settings given flat, for tests that run one call with many of them."""

from dataclasses import fields

import recalibrate as rc


def fit_with(*args, **settings):
    """``rc.fit`` with the settings of `Loop` and `Engine` beside its own arguments."""
    for option, kind in (("loop", rc.Loop), ("engine", rc.Engine)):
        names = {field.name for field in fields(kind)} & settings.keys()
        if names:
            settings[option] = kind(**{name: settings.pop(name) for name in sorted(names)})
    return rc.fit(*args, **settings)
