"""The golden scripts: what is written below each line is what the machine answers. `--rewrite` writes it anew."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

import pytest

from tests.statemachine.script import Script

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path, request: pytest.FixtureRequest) -> None:
    expected = path.read_text(encoding="utf-8")
    found = Script().run(expected)
    if request.config.getoption("--rewrite"):
        path.write_text(found, encoding="utf-8")
        return
    difference = "\n".join(unified_diff(expected.splitlines(), found.splitlines(), path.name, "now", lineterm=""))
    assert found == expected, f"{difference}\n--rewrite writes it anew; then read the difference"
