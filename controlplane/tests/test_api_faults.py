"""What the API says about a body that it cannot use, whichever operation it was for."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


def faults_of(client: Client, path: str, body: Any) -> list[tuple[str, str]]:
    """(where, message) of every fault."""
    answer = client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")
    return [(one["where"], one["message"]) for one in answer.json()["problems"]]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/instances", {"config_version_id": 1, "engine_id": 1, "prot": 8001}),
        ("/configs/import", {"toml": "", "prot": 8001}),
        ("/runs", {"instance_id": 1, "workload": "w", "prot": 8001}),
        ("/promotions", {"config": "c", "version": 1, "engine_id": 1, "why": "x", "prot": 8001}),
    ],
)
def test_a_field_that_there_is_not_is_refused_by_its_name(
    api_of: Callable[[str], Client], path: str, body: Any
) -> None:
    assert ("body.prot", "There is no such field.") in faults_of(api_of("operator"), path, body)


def test_a_fault_is_named_by_the_place_of_the_field_in_what_was_sent(api_of: Callable[[str], Client]) -> None:
    body = {"config_version_id": 1, "engine_id": 1, "port": 0, "gpu_uuids": ["\0"]}
    assert [where for where, _ in faults_of(api_of("operator"), "/instances", body)] == [
        "body.gpu_uuids.0",
        "body.port",
    ]


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (
            "/promotions",
            {"environment": "nope", "config": "c", "version": 1, "engine_id": 1, "why": "x"},
            "environment",
        ),
        (
            "/promotions",
            {"environment": "staging", "config": "c", "version": 1, "engine_id": 1, "why": "x"},
            "config version",
        ),
        ("/instances/99/stop", {}, "instance"),
    ],
)
def test_what_is_not_there_is_said_by_its_kind(
    api_of: Callable[[str], Client], path: str, body: Any, said: str
) -> None:
    answer = api_of("operator").post(f"/api/v1{path}", json.dumps(body), content_type="application/json")
    assert answer.status_code == 404
    assert answer.json()["title"] == f"There is no such {said}."


def test_a_fault_of_several_fields_is_a_plain_sentence(api_of: Callable[[str], Client]) -> None:
    [(where, message)] = faults_of(api_of("admin"), "/hosts", {"name": "h", "transport": "ssh"})
    assert (where, message) == ("body", "Transport ssh needs “ssh”: address, username and a key.")
