"""The rules of the house that no linter knows, held by reading the source.

Of the machine: it must do the same on every node, so that what differs between processes, Python releases or runs is
banned there by name. `statemachine/ruff.toml` bans the modules; this finds the built-ins and methods.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("statemachine", "cluster", "api", "ops")
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "base", "misc"}

# `hash` and `id` differ between processes, `open`, `print` and `input` are I/O, `float` and `round` are no exact
# numbers, `vars`, `globals` and the like depend on how the code happens to be written.
IMPURE_BUILTINS = {
    "hash",
    "id",
    "open",
    "print",
    "input",
    "float",
    "round",
    "eval",
    "exec",
    "globals",
    "locals",
    "vars",
}

# They follow Unicode tables, which differ between Python releases.
UNICODE_METHODS = {"casefold", "capitalize", "title", "swapcase", "isalpha", "isalnum", "isdecimal", "isnumeric"}
UNICODE_METHODS |= {"isidentifier", "islower", "isupper", "istitle", "isprintable", "isspace", "expandtabs"}


def modules(*packages: str) -> list[Path]:
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", modules(*PACKAGES), ids=name)
def test_a_module_says_what_it_holds(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not tree.body or ast.get_docstring(tree), "has no docstring"


@pytest.mark.parametrize("path", modules(*PACKAGES, "tests"), ids=name)
def test_a_module_is_named_for_its_idea(path: Path) -> None:
    assert not VAGUE_NAMES & set(path.stem.split("_"))


@pytest.mark.parametrize("path", modules("statemachine"), ids=name)
def test_the_machine_is_pure(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert [f"{name(path)}:{line}: {what}" for line, what in impurities(tree)] == []


def impurities(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What must not stand in the machine, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=called)) if called in IMPURE_BUILTINS:
                yield node.lineno, f"{called}() is not the same on every node"
            case ast.Attribute(attr=method) if method in UNICODE_METHODS:
                yield node.lineno, f".{method} follows a Unicode table"
            case ast.Constant(value=float()):
                yield node.lineno, f"{node.value} is a float"
            case ast.BinOp(op=ast.Div()):
                yield node.lineno, "/ gives a float"
            case ast.For(iter=iterated) | ast.comprehension(iter=iterated) if is_set(iterated):
                yield iterated.lineno, "a set is in hash order"


def is_set(node: ast.expr) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor()):
            return is_set(node.left) or is_set(node.right)
    return False


@pytest.mark.parametrize(
    "source",
    ["hash(x)", "open('f')", "x.casefold()", "y = 0.5", "a / b", "[i for i in {1, 2}]", "for i in set(x) - y: ..."],
)
def test_impurities_are_found(source: str) -> None:
    assert list(impurities(ast.parse(source)))


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {path.parent for path in modules("tests")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
