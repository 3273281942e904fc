"""Plain text tables."""

from api.cli.table import table


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    shown = table(("NODE", "LAG", "ADDRESS"), [("n1", None, "http://a"), ("node-2", 12_345, "")])
    assert shown.split("\n") == [
        "NODE    LAG    ADDRESS",
        "n1      -      http://a",
        "node-2  12345",
    ]


def test_no_rows_leave_the_headings() -> None:
    assert table(("A", "B"), []) == "A  B"
