"""YAML of JSON values: block style, every scalar spelled as in JSON, which YAML 1.2 reads as it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any


def yaml_text(value: Any) -> str:
    """The document of a value made of dicts with text keys, lists, text, numbers, booleans and None."""
    return "\n".join(_block(value, "")) + "\n"


def _block(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            if isinstance(inner, dict | list) and inner:
                yield f"{indent}{_scalar(key)}:"
                yield from _block(inner, indent + "  ")
            else:
                yield f"{indent}{_scalar(key)}: {_scalar(inner)}"
    elif isinstance(value, list) and value:
        for inner in value:
            if isinstance(inner, dict | list) and inner:
                first, *rest = _block(inner, indent + "  ")
                yield f"{indent}- {first.strip()}"
                yield from rest
            else:
                yield f"{indent}- {_scalar(inner)}"
    else:
        yield indent + _scalar(value)


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
