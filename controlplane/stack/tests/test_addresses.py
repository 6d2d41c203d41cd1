import socket

import pytest

from controlplane.stack.address import AddressUnavailable, Listening, listen


def test_port_zero_takes_a_free_one_and_says_which() -> None:
    listening = listen("127.0.0.1", 0)
    with listening.socket:
        assert listening.url == f"http://localhost:{listening.port}/"
        socket.create_connection(("127.0.0.1", listening.port)).close()


def test_a_port_in_use_is_named_with_the_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(AddressUnavailable, match=rf"Port {port} on 127.0.0.1 is in use .* --port"):
            listen("127.0.0.1", port)


def test_a_foreign_address_and_an_impossible_port_are_told_apart() -> None:
    with pytest.raises(AddressUnavailable, match=r"192\.0\.2\.1 is not an address of this machine"):
        listen("192.0.2.1", 0)
    with pytest.raises(AddressUnavailable, match="70000 is not a port"):
        listen("127.0.0.1", 70000)


def test_only_a_public_address_admits_this_machines_names() -> None:
    with socket.socket() as unused:
        assert Listening(unused, "127.0.0.1", 1).allowed_hosts == "localhost,127.0.0.1,[::1]"
        assert socket.gethostname() in Listening(unused, "0.0.0.0", 1).allowed_hosts.split(",")
        assert "0.0.0.0" not in Listening(unused, "0.0.0.0", 1).allowed_hosts


def test_what_the_person_has_set_goes_before_what_we_know() -> None:
    with socket.socket() as unused:
        told = Listening(unused, "127.0.0.1", 8700).environment({"CONTROLPLANE_PUBLIC_URL": "https://cp.example"})
    assert told["CONTROLPLANE_PUBLIC_URL"] == "https://cp.example"
