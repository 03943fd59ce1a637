"""Checks messages against the models that `mcp-types` makes of the published schema of each revision. A line of the
file is {"revision": …, "type": …, "value": …}; says how many were valid, or which was not.

    python validate.py FILE
"""

import importlib
import json
import sys

from pydantic import TypeAdapter

MODULES = {
    revision: importlib.import_module(f"mcp_types._v{revision.replace('-', '_')}")
    for revision in ("2025-11-25", "2026-07-28")
}

with open(sys.argv[1]) as lines:
    count = 0
    for line in lines:
        said = json.loads(line)
        kind = getattr(MODULES[said["revision"]], said["type"])
        try:
            TypeAdapter(kind).validate_python(said["value"])
        except Exception as error:
            sys.exit(f"{said['revision']} {said['type']}: {error}\n{json.dumps(said['value'])}")
        count += 1
print(f"valid: {count}")
