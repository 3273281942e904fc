"""Pages of a list, by keyset cursors that stay right while the list changes.

A cursor is the order value of the last row given, so that a page goes on behind it even when that row is gone.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import msgspec

from statemachine.errors import VALIDATION_FAILED, Refused
from statemachine.store import Ordered, Rows
from statemachine.types import Record

R = TypeVar("R", bound=Record)
EXAMINED_MAX = 10_000  # rows that one page looks at, however few of them match
# Nothing nested: a client could send what is nested too deep to be read.
_orders = msgspec.msgpack.Decoder(int | str | tuple[int | str, ...])


def page(
    rows: Rows[R],
    index: Ordered[R],
    group: Hashable,
    limit: int,
    cursor: str | None,
    matches: Callable[[R], bool] = lambda _: True,
) -> tuple[list[R], str | None]:
    """The next rows of a group, and the cursor of the page behind them (None at the end).

    limit: rows at most. Raises VALIDATION_FAILED for a cursor that no page gave.
    """
    found: list[R] = []
    last = rows.first(index, group)
    after = decode_cursor(cursor)
    if after is not None and last is not None and not _comparable(after, index.order(last)):
        raise Refused(VALIDATION_FAILED, "cursor: not one that this list answered")
    for examined, row in enumerate(rows.ordered(index, group, after=after)):
        if len(found) == limit or examined == EXAMINED_MAX:
            assert last is not None
            return found, encode_cursor(index.order(last))
        last = row
        if matches(row):
            found.append(row)
    return found, None


def encode_cursor(order: Any) -> str:
    return urlsafe_b64encode(msgspec.msgpack.encode(order)).rstrip(b"=").decode()


def decode_cursor(cursor: str | None) -> Any:
    if cursor is None:
        return None
    try:
        data = urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
        return _orders.decode(data)
    except (UnicodeEncodeError, Base64Error, msgspec.DecodeError) as error:
        raise Refused(VALIDATION_FAILED, "cursor: not one that a list answered") from error


def _comparable(left: Any, right: Any) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(_comparable, left, right))
    return type(left) is type(right)
