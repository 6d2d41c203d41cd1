from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from controlplane.agent import files
from controlplane.agent.place import Place
from controlplane.protocol.transfers import PutRequest, ReadRequest
from controlplane.protocol.wire import VerbError

CONTENT = b"print('hello')\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "launches/a").mkdir(parents=True)
    return Place(root=tmp_path, program=tmp_path)


def put(place: Place, content: bytes = CONTENT, **more: object) -> Path:
    request = PutRequest(sha256=DIGEST, content_base64=base64.b64encode(content).decode(), **more)  # type: ignore[arg-type]
    return Path(files.put(place, request).path)


def test_a_tool_is_stored_under_its_digest_once(place: Place) -> None:
    stored = put(place, name="loadgen.pyz", is_executable=True)

    assert stored == place.tools / f"{DIGEST}-loadgen.pyz"
    assert stored.read_bytes() == CONTENT
    assert stored.stat().st_mode & 0o777 == 0o700
    again = files.put(place, PutRequest(sha256=DIGEST, content_base64="", name="loadgen.pyz"))
    assert again.was_present


def test_a_file_for_a_launch_lies_in_its_directory_and_can_be_read(place: Place) -> None:
    assert put(place, name="plan.json", launch_id="a") == place.launches / "a/plan.json"
    assert files.read(place, ReadRequest("a", "plan.json")).text == CONTENT.decode()


def test_content_that_arrives_damaged_is_refused_and_nothing_is_left(place: Place) -> None:
    with pytest.raises(VerbError) as refused:
        put(place, content=b"other")
    assert refused.value.code == "damaged_transfer"
    with pytest.raises(VerbError):
        files.put(place, PutRequest(sha256=DIGEST, content_base64="not base64!"))
    assert not place.tools.exists() or not list(place.tools.iterdir())


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "run.json", "log"])
def test_names_that_reach_elsewhere_or_belong_to_the_program_are_refused(place: Place, name: str) -> None:
    with pytest.raises(VerbError) as refused:
        put(place, name=name, launch_id="a")
    assert refused.value.code == "bad_request"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", ""])
def test_only_files_of_the_launch_can_be_read(place: Place, name: str) -> None:
    with pytest.raises(VerbError) as refused:
        files.read(place, ReadRequest("a", name))
    assert refused.value.code == "bad_request"


def test_bytes_that_are_no_text_are_replaced_and_do_not_block_the_reader(place: Place) -> None:
    (place.launches / "a/log").write_bytes(b"ok\xff\xfe\x00end")

    found = files.read(place, ReadRequest("a"))

    assert found.text == "ok\ufffd\ufffd\x00end"
    assert found.next_offset == found.size_bytes == 8
