"""Rules of size and of honesty: short files, nothing left to do, and declarations that say what the code does.

What the machine may not use, and how modules are named, is in `test_style.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from statemachine.declare import EVENT_TYPES, OPERATIONS
from statemachine.errors import ERRORS
from statemachine.machine import Machine

assert Machine
ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("statemachine", "cluster", "api", "tests")
LINES_MAX = 350  # past 300 a file is asking to be two
# Longer than that when the rule was written: they may shrink, and must not grow past this.
LONGER = {"cluster/core.py": 380, "cluster/journal.py": 365}
LEFT_TO_DO = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")


def modules(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(*PACKAGES), ids=name)
def test_a_file_is_short_and_finished(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not LEFT_TO_DO.search(text)
    assert not text or ast.get_docstring(ast.parse(text)), "has no docstring"
    if not path.is_relative_to(ROOT / "tests"):  # they mirror the source, and about some files there is more to say
        assert len(text.splitlines()) <= LONGER.get(name(path), LINES_MAX), "one idea a file"


def test_errors_that_the_machine_raises_are_rows_of_the_table() -> None:
    for path in modules("statemachine"):
        for line, raised in refusals(ast.parse(path.read_text(encoding="utf-8"))):
            assert raised in ERRORS, f"{name(path)}:{line}: {raised}"


def refusals(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The codes that are named where a refusal is made, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="Refused"), args=[ast.Name(id=code), *_]) if code.isupper():
                yield node.lineno, code


def test_events_that_the_machine_emits_are_in_the_catalogue_and_the_other_way_round() -> None:
    """What cannot be read off the source, a type that is put together, is held by the driver of the machine's tests."""
    written = {
        constant
        for path in modules("statemachine")
        for constant in constants(ast.parse(path.read_text(encoding="utf-8")))
    }
    put_together = {"scope.cancelled", "scope.completed", "scope.expired"}  # f"scope.{state}"
    assert EVENT_TYPES.keys() <= written | put_together
    for path in modules("statemachine"):
        for line, type_ in emitted(ast.parse(path.read_text(encoding="utf-8"))):
            assert type_ in EVENT_TYPES, f"{name(path)}:{line}: {type_}"


def constants(tree: ast.AST) -> Iterator[str]:
    """Every text in the source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def emitted(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The types of events that are named where one is emitted, with their lines."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="emit"), args=[ast.Constant(value=str(type_)), *_]):
                yield node.lineno, type_
            case ast.Call(func=ast.Name(id="_emit"), args=[_, ast.Constant(value=str(type_)), *_]):
                yield node.lineno, type_


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_an_operation_names_in_its_function_it_declares(operation: str) -> None:
    """The refusals in the function itself. Those of what it calls are held by the driver of the machine's tests."""
    declared = OPERATIONS[operation]
    path = ROOT / Path(*declared.apply.__module__.split(".")).with_suffix(".py")
    functions = {
        node.name: node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    allowed = {error.code for error in declared.errors} | {"VALIDATION_FAILED"}
    for line, raised in refusals(functions[declared.apply.__name__]):
        assert raised in allowed, f"{name(path)}:{line}: {raised}"


@pytest.mark.parametrize("path", modules("statemachine"), ids=name)
def test_what_others_may_call_says_what_it_does(path: Path) -> None:
    """Public functions of the machine that do more than forward."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    silent = [
        f"{node.name} at line {node.lineno}"
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and len(node.body) > 3
        and ast.get_docstring(node) is None
    ]
    assert silent == []
