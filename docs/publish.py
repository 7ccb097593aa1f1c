"""Pages and files of the documentation that are made: notebooks, the JSON Schema of an audit."""

import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import recalibrate

sys.path.insert(0, str(Path(__file__).parent))
from notebook import FOLDER, to_markdown


def on_files(files: Files, config: Any) -> Files:
    """Add them to the pages; called by mkdocs."""
    schema = json.dumps(recalibrate.AuditReport.json_schema(), indent=2)
    files.append(File.generated(config, "audit.schema.json", content=schema + "\n"))
    for path in sorted(FOLDER.glob("*.ipynb")):
        page = to_markdown(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page))
    return files


_FOREIGN = re.compile(r'<(?:script|img|link rel="stylesheet")[^>]*(?:src|href)="https?://[^"]*"')


def on_post_page(output: str, *, page: Any, **given: Any) -> str:
    """Refuse pages that load anything from another host; called by mkdocs."""
    found = _FOREIGN.search(output)
    if found:
        raise PluginError(f"{page.url} loads {found[0]}: pages have to work without a network")
    return output
