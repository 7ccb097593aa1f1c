"""Print the oldest versions that pyproject.toml allows, as constraints for pip.

Of the core dependencies, xgboost, lightgbm and pyarrow: what most users have, and what has to work
together.
"""

import re
import sys
import tomllib
from pathlib import Path

EXTRAS = ("xgboost", "lightgbm", "parquet")


def lower_bounds(pyproject: Path) -> list[str]:
    """Constraints such as "numpy==1.26.4"."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in EXTRAS:
        requirements += project["optional-dependencies"][extra]
    return [re.sub(r">=([\d.]+).*", r"==\1", requirement) for requirement in requirements]


if __name__ == "__main__":
    sys.stdout.write(
        "\n".join(lower_bounds(Path(__file__).parent.parent / "pyproject.toml")) + "\n"
    )
