"""Group expressions: text such as ``sex * (25 <= age < 65)`` to a small syntax tree.

Nothing is ever evaluated as Python. A hand-written tokenizer and recursive descent parser give
exact positions in error messages, and the tree is small and regular so that the same object can
be a numpy mask, a class of functions for boosting, a row of an audit, and nodes of an ONNX graph.

Grammar::

    term       := factor ("*" factor)*                  # crossing; binds loosest
    factor     := column | condition
    condition  := conjunction ("or" conjunction)*
    conjunction:= negation ("and" negation)*
    negation   := "not" negation | "(" condition ")" | comparison
    comparison := column op constant | constant op column [op constant]
                | column ["not"] "in" "(" constant ("," constant)* ")"
                | column "in" "[" constant "," constant ")"     # without the upper end
                | column "is" ["not"] "missing"
    op         := "<" | "<=" | ">" | ">=" | "==" | "=" | "!="
    column     := identifier | "`" any text, a backtick doubled "`"
    constant   := number | quoted string | True | False

The names of groups in reports (``race = never married * age in [25, 40)``), which have no quotes,
are read as well where the columns are known.

Missing values: every comparison with a missing value is False, ``!=`` and ``not in`` included.
``not`` negates the truth value, so ``not (age < 25)`` is True on rows whose age is missing.
"""

from recalibrate.groups.expressions.parser import columns_named, parse
from recalibrate.groups.expressions.tokens import GroupSyntaxError
from recalibrate.groups.expressions.tree import (
    And,
    Column,
    Compare,
    Condition,
    In,
    IsMissing,
    Not,
    Or,
    Predicate,
    Term,
    columns_of,
    to_text,
)
from recalibrate.groups.expressions.truth import Columns, codes_where, evaluate

__all__ = [
    "And",
    "Column",
    "Columns",
    "Compare",
    "Condition",
    "GroupSyntaxError",
    "In",
    "IsMissing",
    "Not",
    "Or",
    "Predicate",
    "Term",
    "codes_where",
    "columns_named",
    "columns_of",
    "evaluate",
    "parse",
    "to_text",
]
