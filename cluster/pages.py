"""The pages of an LMDB file, checked before LMDB sees them.

LMDB trusts its pages: a damaged or missing one would end the process by SIGABRT or SIGBUS, with no word.
"""

from lmdb.verify import VerifyError, verify


def first_problem(path: str) -> str | None:
    """What is wrong with the file's pages first of all; None when nothing is. Reads all of it."""
    try:
        # A page that is in no list is lost space, not lost data.
        problems = [text for text in verify(path) if "a leak" not in text]  # type: ignore[no-untyped-call]
    except (VerifyError, OSError) as error:
        return str(error)
    return problems[0] if problems else None
