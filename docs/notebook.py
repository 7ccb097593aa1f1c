"""Notebooks of the documentation: run, written with what they print, shown as pages.

    python docs/notebook.py    # run all and write their outputs into them

They hold plain Python, no magics, so that the tests run them in their own process: the cells of a
notebook share a namespace, and the last expression of a cell is displayed, as in Jupyter.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent / "notebooks"


def execute(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The outputs of every code cell, in Jupyter's form."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return [
            _run("".join(cell["source"]), namespace, count)
            for count, cell in enumerate(code_cells(notebook), start=1)
        ]


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that are code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def printed(outputs: list[dict[str, Any]]) -> str:
    """The text of a cell's outputs: what can be compared."""
    texts = [out.get("text") or out.get("data", {}).get("text/plain", "") for out in outputs]
    return "\n".join("".join(text) for text in texts)


def _run(source: str, namespace: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(compile(tree, "cell", "exec"), namespace)  # noqa: S102 - a notebook's own code
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)  # noqa: S307
    outputs: list[dict[str, Any]] = []
    if said.getvalue():
        text = said.getvalue().splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": count,
                "metadata": {},
                "data": _data(value),
            }
        )
    return outputs


def _data(value: Any) -> dict[str, Any]:
    if hasattr(value, "savefig"):
        buffer = io.BytesIO()
        value.savefig(buffer, format="png", dpi=90)
        picture = base64.b64encode(buffer.getvalue()).decode()
        return {"image/png": picture, "text/plain": ["<Figure>"]}
    return {"text/plain": repr(value).splitlines(keepends=True)}


def to_markdown(notebook: dict[str, Any], name: str) -> str:
    """A notebook as a page."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            picture = output.get("data", {}).get("image/png")
            if picture:
                parts.append(f'<img alt="plot" src="data:image/png;base64,{picture}">')
            else:
                parts.append(f"```text\n{printed([output]).rstrip()}\n```")
    parts.append(f"[Download this notebook]({name}.ipynb)")
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.ipynb")):
        read = json.loads(path.read_text(encoding="utf-8"))
        for number, (cell, made) in enumerate(zip(code_cells(read), execute(read), strict=True)):
            cell["outputs"], cell["execution_count"] = made, number + 1
        path.write_text(json.dumps(read, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        sys.stdout.write(f"{path.name}: run\n")
