"""Write the JSON Schemas of every document to docs/schemas, generated from the types the documents are made of.

python docs/build_schemas.py           write them
python docs/build_schemas.py --check   exit 1 if one that is published differs from its type
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import msgspec

from winml.modelkit.documents import Document, ErrorDocument
from winml.modelkit.perf.document import PerfDocument
from winml.modelkit.system.document import SysDocument

FOLDER = Path(__file__).parent / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


DOCUMENTS: tuple[type[Document], ...] = (ErrorDocument, PerfDocument, SysDocument)


def schema_of(document: type[Document]) -> tuple[str, dict[str, Any]]:
    """The file name and the JSON Schema of one document type.

    ``winml.perf/1`` is published as ``winml.perf-1.json``. Fields may be added within a version, so other fields are
    allowed; ``schema`` is required, which msgspec leaves open because the type has a default for it.
    """
    schema = msgspec.json.schema(document)
    name = document.__name__
    body = schema["$defs"].pop(name)
    (identity,) = body["properties"]["schema"]["enum"]
    body["required"] = ["schema", *(field for field in body.get("required", ()) if field != "schema")]
    top = {"$schema": DIALECT, "$id": f"urn:winml-cli:{identity.replace('/', ':')}", **body}
    return f"{identity.replace('/', '-')}.json", {**top, "$defs": dict(sorted(schema["$defs"].items()))}


def texts() -> dict[str, str]:
    """Every schema as text, by file name."""
    return {name: json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in map(schema_of, DOCUMENTS)}


def main() -> None:
    """Write the schemas, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a schema differs")
    check: bool = parser.parse_args().check
    stale = []
    for name, text in texts().items():
        path = FOLDER / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
    if check and stale:
        raise SystemExit(f"not up to date: {', '.join(stale)}; run: python docs/build_schemas.py")


if __name__ == "__main__":
    main()
