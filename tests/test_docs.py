"""Every code block of the README and the docs is run, and what it prints is compared.

The ``python`` and ``bash`` blocks of a page run in order, in a folder of their own; its Python
blocks share a namespace. A ``text`` block right after a block is what it must print; without one
it must print nothing. A block that cannot run here follows a comment ``<!-- not run: why -->``.

    python tests/test_docs.py                # write all pages' outputs, figures, notebooks
    python tests/test_docs.py docs/audit.md  # into some
"""

import contextlib
import io
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
THIRD_PARTY = ROOT / "tests" / "adapters" / "third_party_package"
MOST_NOT_RUN = 3

_FENCE = r"^(?P<indent> *)```{name}[^\n]*\n(?P<body>.*?)^(?P=indent)```$\n?"
_CODE = re.compile(_FENCE.format(name="(?P<language>python|bash)"), re.MULTILINE | re.DOTALL)
_OUTPUT = re.compile(r"\n*" + _FENCE.format(name="text"), re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (?P<why>.*\S) -->\n+\Z")


@dataclass(frozen=True)
class Block:
    """A block of code, where it stands, and what it must print."""

    language: str
    source: str
    line: int
    indent: str
    end: int
    printed: str
    printed_end: int
    not_run: str


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page that are code."""
    found = []
    for code in _CODE.finditer(text):
        output = _OUTPUT.match(text, code.end())
        skipped = _NOT_RUN.search(text, 0, code.start())
        found.append(
            Block(
                language=code["language"],
                source=textwrap.dedent(code["body"]),
                line=text.count("\n", 0, code.start("body")),
                indent=code["indent"],
                end=code.end(),
                printed=textwrap.dedent(output["body"]) if output else "",
                printed_end=output.end() if output else code.end(),
                not_run=skipped["why"] if skipped else "",
            )
        )
    return found


def run_page(page: Path, folder: Path) -> list[tuple[Block, str]]:
    """Run a page's blocks in a folder; each with what it printed."""
    namespace: dict[str, Any] = {"__name__": f"page_{page.stem}"}
    results = []
    with contextlib.chdir(folder):
        for block in blocks_of(page.read_text(encoding="utf-8")):
            if not block.not_run:
                python = block.language == "python"
                printed = run_python(block, page, namespace) if python else run_bash(block)
                results.append((block, "".join(f"{s.rstrip()}\n" for s in printed.splitlines())))
    return results


def run_python(block: Block, page: Path, namespace: dict[str, Any]) -> str:
    # Empty lines in front make the line numbers of errors those of the page.
    code = compile("\n" * block.line + block.source, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)  # noqa: S102 - that the code of the docs runs is what is tested
    return printed.getvalue()


def run_bash(block: Block) -> str:
    # The command of this very interpreter, whatever else is installed under its name.
    command = f'recalibrate() {{ "{sys.executable}" -m recalibrate "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-e", "-c", command + block.source],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0, f"exit code {done.returncode} of\n{block.source}\n{done.stderr}"
    return done.stdout


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


WITH_CODE = [page for page in PAGES if blocks_of(page.read_text(encoding="utf-8"))]


def imports_torch(page: Path) -> bool:
    return any("import torch" in block.source for block in blocks_of(page.read_text("utf-8")))


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.external] if imports_torch(page) else [])
        for page in WITH_CODE
    ],
    ids=name_of,
)
def test_code_prints_what_the_page_says(page, tmp_path):
    if imports_torch(page):
        pytest.importorskip("torch")
    for block, printed in run_page(page, tmp_path):
        assert printed == block.printed, f"{name_of(page)}, line {block.line}"


NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_notebooks_print_what_they_show(path):
    tools = runpy.run_path(str(ROOT / "docs" / "notebook.py"))
    notebook = json.loads(path.read_text(encoding="utf-8"))
    stored = [cell["outputs"] for cell in tools["code_cells"](notebook)]
    made = tools["execute"](notebook)
    assert [tools["printed"](each) for each in made] == [tools["printed"](each) for each in stored]


def test_few_blocks_are_not_run():
    skipped = [
        f"{name_of(page)}, line {block.line}: {block.not_run}"
        for page in PAGES
        for block in blocks_of(page.read_text(encoding="utf-8"))
        if block.not_run
    ]
    assert len(skipped) <= MOST_NOT_RUN, "\n".join(skipped)


def test_blocks_are_found_and_compared(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\n=== \"tab\"\n\n    ```python\n    print(x)\n    ```\n\n"
        "    ```text\n    2\n    ```\n\n<!-- not run: it fails -->\n```bash\nfalse\n```\n\n"
        "```bash\necho hello\n```\n"
    )  # fmt: skip
    first, second, third = run_page(page, tmp_path)
    assert [first[1], second[1], third[1]] == ["", "1\n", "hello\n"]
    assert second[0].printed == "2\n"
    assert blocks_of(page.read_text())[2].not_run == "it fails"


def test_links_of_the_readme_lead_somewhere():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = [t.partition("#")[0] for t in re.findall(r"\]\(([^)\s]+)\)", text)]
    local = [target for target in targets if not target.startswith("https://")]
    assert local
    assert [target for target in local if not (ROOT / target).exists()] == []


def test_entry_points_on_the_adapters_page_are_those_of_the_package_that_is_tested():
    page = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
    shown = re.search(r"```toml\n(.*?)```", page, re.DOTALL)
    assert shown
    real = tomllib.loads((THIRD_PARTY / "pyproject.toml").read_text(encoding="utf-8"))
    assert tomllib.loads(shown[1])["project"] == real["project"]


def test_options_on_the_page_of_the_command_line_exist():
    from recalibrate.commands.entry import build_parser

    parser = build_parser()
    commands = next(action for action in parser._actions if action.dest == "command").choices
    actions = next(a for a in commands["monitor"]._actions if a.dest == "action").choices
    parsers = (parser, *commands.values(), *actions.values())
    helps = "\n".join(each.format_help() for each in parsers)
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    gate = (ROOT / "docs" / "how-to" / "ci-gate.md").read_text(encoding="utf-8")
    options = re.compile(r"(?<![\w-])--[a-zA-Z][\w-]*")
    named = set(options.findall(page + gate))
    assert named
    assert named - set(options.findall(helps)) == set()
    assert [command for command in commands if command not in page] == []


def test_pipelines_on_the_page_of_the_gate_are_yaml_with_the_audit_in_them():
    page = (ROOT / "docs" / "how-to" / "ci-gate.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```yaml\n(.*?)^ *```$", page, re.DOTALL | re.MULTILINE)
    github, gitlab = (yaml.safe_load(textwrap.dedent(block)) for block in blocks)
    command = "recalibrate audit holdout.parquet --label y --model model.rcal"
    assert any(command in step.get("run", "") for step in github["jobs"]["audit"]["steps"])
    assert any(command in line for line in gitlab["model gate"]["script"])


def write_outputs(page: Path) -> bool:
    """Put what a page's blocks print below them; whether that changed the page."""
    old = text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        results = run_page(page, Path(folder))
    for block, printed in reversed(results):
        shown = textwrap.indent(f"```text\n{printed}```\n", block.indent) if printed else ""
        text = text[: block.end] + ("\n" + shown if shown else "") + text[block.printed_end :]
    page.write_text(text, encoding="utf-8")
    return text != old


if __name__ == "__main__":
    for each in [Path(name).resolve() for name in sys.argv[1:]] or WITH_CODE:
        changed = write_outputs(each)
        sys.stdout.write(f"{name_of(each)}: {'written' if changed else 'as it was'}\n")
    if not sys.argv[1:]:  # figures show what pages print
        for script in ("figures", "notebook.py"):
            subprocess.run([sys.executable, str(ROOT / "docs" / script)], check=True)
