"""What all estimators share by name: texts of their docstrings, and their constructor."""

from __future__ import annotations

from functools import update_wrapper
from inspect import cleandoc
from types import FunctionType
from typing import Any, TypeVar

T = TypeVar("T", bound=type)

SHARED = {
    "<parameters>": """
H
    The groups or function class (H) to be right for: ``Groups(...)``, ``Trees(...)``,
    ``Linear(...)``, ``Polynomial(...)``, ``Estimator(...)``, a list of group expressions or a
    short text such as "trees". None: all columns. Fields can be searched: ``H__depth``.
loop
    None is the default fit: small steps, validated on held-out rows, not rounded. "paper" is the
    loop of the paper's own experiments [1]_: 50 levels, every update rounded to the grid but the
    last, no validation; it fits its rows closely. A :class:`recalibrate.Loop` has settings of
    your own.
validation
    Instead of folds: a share of the rows such as 0.2, or False for none.
link
    Scale of the updates, and the loss. None means "logit" (log loss) for classes, the deviance
    that the estimator was trained by ("log-poisson", "log-gamma", "log-tweedie-1.5") if it is one,
    and otherwise, and for ``loop="paper"``, "identity" (squared error).
alpha, B
    Run Algorithm 1 of [1]_ to the letter, with the certificate that the result is
    alpha-approximately multicalibrated for the h in H with h(x)^2 <= B (default 1).
random_state
    The ``seed`` of :func:`recalibrate.fit`, for the folds and for learners that draw rows or
    columns; nothing else is random. None means 0, so that equal fits give equal models; a
    ``RandomState`` is drawn from.
n_jobs
    Number of threads, -1 for all cores. The model is the same for all values.
""",
    "<attributes>": """
model_ : Recalibrated
    The fitted model as :func:`recalibrate.fit` returns it: ``model_.summary()``,
    ``model_.save(...)``, ``model_.decide(...)``.
rounds_ : Rounds
    The fitted rounds.
n_rounds_, n_learners_ : int
    Number of rounds, and of weak learners over all rounds and level sets.
history_ : History
    Losses by round, and what ended the run.
certificate_ : Certificate or None
    What a run with ``alpha`` proves.
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of str
    Their names, where X has names that are all text.
""",
    "<references>": """
References
----------
.. [1] I. Globus-Harris, D. Harrison, M. Kearns, A. Roth, J. Sorrell,
   "Multicalibration as Boosting for Regression", ICML 2023.
""",
}


def documented(kind: T) -> T:
    """A class whose docstring has the shared texts where it names them.

    It gets the inherited constructor under its own name, too: that is the name which Python's
    errors about wrong arguments say.
    """
    if kind.__doc__ is not None:  # python -OO leaves them out
        kind.__doc__ = fill(kind.__doc__)
    shared: Any = kind.__init__  # type: ignore[misc]
    code = (shared.__code__, shared.__globals__, shared.__name__, shared.__defaults__)
    own: Any = update_wrapper(FunctionType(*code, shared.__closure__), shared)
    own.__kwdefaults__ = shared.__kwdefaults__
    own.__qualname__ = f"{kind.__qualname__}.__init__"
    kind.__init__ = own  # type: ignore[misc]  # the class decides, as it does above
    return kind


def fill(text: str) -> str:
    """A docstring with the shared texts in the places that it names."""
    text = cleandoc(text)
    for name, shared in SHARED.items():
        text = text.replace(name, shared.strip("\n"))
    return text
