"""Files of the documentation that are made from the code: the JSON Schema of an audit."""

import json
from typing import Any

from mkdocs.structure.files import File, Files

import recalibrate


def on_files(files: Files, config: Any) -> Files:
    """Add them to the pages; called by mkdocs."""
    schema = json.dumps(recalibrate.AuditReport.json_schema(), indent=2)
    files.append(File.generated(config, "audit.schema.json", content=schema + "\n"))
    return files
