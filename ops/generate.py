"""Writes the files that are derived from declarations, or checks that they are fresh.

    python -m ops.generate            write them
    python -m ops.generate --check    exit with 1 and name those that differ

A generated file is committed, so that it can be read where the code is read; `make check` keeps it true.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ops.docs.generated import commands, node_options

ROOT = Path(__file__).resolve().parent.parent

FILES: Mapping[str, Callable[[], str]] = {
    "ops/docs/node-options.md": node_options,
    "ops/docs/commands.md": commands,
}


def main(arguments: list[str]) -> int:
    stale = []
    for name, make in FILES.items():
        path, text = ROOT / name, make()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    if stale and "--check" in arguments:
        print(f"not fresh: {', '.join(stale)}; run `make generate` and commit", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
