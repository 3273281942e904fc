"""Where members may talk, and where not."""

import pytest

from cluster.peer_addresses import TransportError, peer_address


@pytest.mark.parametrize("address", ["127.0.0.1:7080", "127.9.9.9:7080", "[::1]:7080", "localhost:7080"])
def test_this_machine_needs_no_tls(address: str) -> None:
    assert peer_address(address, "x", encrypted=False, allow_plaintext=False)[1] == 7080


@pytest.mark.parametrize("address", ["10.0.0.1:7080", "0.0.0.0:7080", "[::]:7080", "n1.example:7080"])
def test_elsewhere_needs_tls_or_a_word(address: str) -> None:
    with pytest.raises(TransportError, match=r"x, .*, is not loopback: give tls_ca, .* or set allow_plaintext_peers"):
        peer_address(address, "x", encrypted=False, allow_plaintext=False)
    assert peer_address(address, "x", encrypted=True, allow_plaintext=False)[1] == 7080
    assert peer_address(address, "x", encrypted=False, allow_plaintext=True)[1] == 7080


@pytest.mark.parametrize("address", ["", "7080", "host:", "host:port", "host:0", "::1:7080"])
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(TransportError, match="is not host:port"):
        peer_address(address, "x", encrypted=True, allow_plaintext=True)
