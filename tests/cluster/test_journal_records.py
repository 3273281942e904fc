"""Keys and checksums of the journal's records."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.journal_records import (
    JournalError,
    JournalIdentity,
    JournalState,
    decode_identity,
    decode_record,
    decode_state,
    encode_identity,
    encode_record,
    encode_state,
    entry_key,
    key_index,
)

INDEX = st.integers(0, 2**63)


@given(st.binary(max_size=300), INDEX, st.integers(0, 2**63), st.integers(0, 2**32 - 1))
def test_a_record_comes_back_as_it_was(command: bytes, index: int, term: int, owner: int) -> None:
    assert decode_record(index, encode_record((command, index, term), owner), owner) == (command, index, term)


@given(st.data())
def test_any_flipped_bit_is_seen(data: st.DataObject) -> None:
    record = bytearray(encode_record((b"a command", 7, 3), 99))
    bit = data.draw(st.integers(0, len(record) * 8 - 1))
    record[bit // 8] ^= 1 << bit % 8
    with pytest.raises(JournalError, match="log record 7"):
        decode_record(7, bytes(record), 99)


def test_a_record_at_another_index_is_damage() -> None:
    with pytest.raises(JournalError, match=r"log record 8 is damaged"):
        decode_record(8, encode_record((b"a", 7, 3), 99), 99)


def test_a_record_of_another_journal_is_named_as_such() -> None:
    with pytest.raises(JournalError, match=r"log record 7 was written by another journal"):
        decode_record(7, encode_record((b"a", 7, 3), 98), 99)


def test_a_short_record_is_damage() -> None:
    with pytest.raises(JournalError, match="cut short"):
        decode_record(7, b"abc", 99)


@given(INDEX, INDEX)
def test_keys_sort_as_indexes_do(one: int, other: int) -> None:
    assert (entry_key(one) < entry_key(other)) == (one < other)
    assert key_index(entry_key(one)) == one


def test_a_foreign_key_is_named() -> None:
    with pytest.raises(JournalError, match="unknown key b'whatever'"):
        key_index(b"whatever")


def test_identity_and_state_come_back_and_show_damage() -> None:
    identity = JournalIdentity("c", "n1", 2**63 - 1)
    assert decode_identity(encode_identity(identity)) == identity
    state = JournalState(5, "n2", 7, 1, 9, 4)
    assert decode_state(encode_state(state)) == state
    for record, decode in ((encode_identity(identity), decode_identity), (encode_state(state), decode_state)):
        with pytest.raises(JournalError, match="is damaged"):
            decode(record[:-1] + bytes([record[-1] ^ 1]))


def test_another_format_says_which_release_to_start() -> None:
    with pytest.raises(JournalError, match=r"has format 2, this release reads 1: start the release that wrote it"):
        decode_identity(encode_identity(JournalIdentity("c", "n1", 1, format=2)))


def test_something_that_is_no_journal_is_refused() -> None:
    with pytest.raises(JournalError, match="no runstate journal"):
        decode_identity(encode_state(JournalState()))


def test_owners_differ_by_cluster_node_and_incarnation() -> None:
    identities = [JournalIdentity(c, n, i) for c in ("a", "b") for n in ("n1", "n2") for i in (1, 2)]
    assert len({identity.owner for identity in identities}) == 8
