"""What an image says of itself comes back or shows its damage; a stored record has its hash before it."""

from __future__ import annotations

import pytest

from cluster.image_records import ImageError, ImageMeta, data_of, decode_meta, encode_meta, hash_of, seal
from statemachine.image_state import HASH_BYTES, Values, record_hash
from tests.cluster.imaged import OWNER

META = ImageMeta(OWNER, 70, 3, bytes(16), 5, Values(1, 1, "cls_test", 69, 10, 20, bytes(32)))


def test_a_description_comes_back() -> None:
    assert decode_meta(encode_meta(META)) == META


@pytest.mark.parametrize("place", [0, 3, 10, 40, -1])
def test_a_damaged_description_is_refused(place: int) -> None:
    data = bytearray(encode_meta(META))
    data[place] ^= 1
    with pytest.raises(ImageError, match="is damaged"):
        decode_meta(bytes(data))


def test_a_description_of_something_else_is_refused() -> None:
    import zlib

    for content, said in ((b"something else", "no image of this system"), (b"runstate image\n\x90", "cannot be read")):
        with pytest.raises(ImageError, match=said):
            decode_meta(zlib.crc32(content).to_bytes(4, "big") + content)


def test_a_record_is_stored_behind_its_hash() -> None:
    hashed, stored = seal(b"name", b"data")
    assert hashed == record_hash(b"name", b"data") == hash_of(stored)
    assert data_of(stored) == b"data"
    assert len(stored) == HASH_BYTES + 4
