"""YAML of JSON values."""

from __future__ import annotations

from api.yaml_text import yaml_text


def test_block_style_with_scalars_as_in_json() -> None:
    value = {
        "a": 1,
        "b": {"c": [1, "two", {"d": None, "e": True}, [], {}, ["x", ["y"]]], "empty": {}},
        "no": "yes: # \n é",
        "200": "x",
    }
    assert yaml_text(value) == (
        '"a": 1\n'
        '"b":\n'
        '  "c":\n'
        "    - 1\n"
        '    - "two"\n'
        '    - "d": null\n'
        '      "e": true\n'
        "    - []\n"
        "    - {}\n"
        '    - - "x"\n'
        '      - - "y"\n'
        '  "empty": {}\n'
        '"no": "yes: # \\n é"\n'
        '"200": "x"\n'
    )


def test_a_scalar_alone_is_a_document() -> None:
    assert yaml_text(None) == "null\n"
    assert yaml_text([]) == "[]\n"
