"""Plain text tables for the terminal."""

from collections.abc import Sequence


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Columns as wide as their widest cell, two spaces apart, without trailing spaces; None is shown as a dash."""
    lines = [list(headings)] + [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
