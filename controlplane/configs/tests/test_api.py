"""The REST API of configs: the same rules as the pages."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from controlplane.configs import queries, services
from controlplane.configs.models import ConfigVersion
from controlplane.configs.tests.conftest import KEY
from controlplane.configs.tests.samples import DATA, OPERATOR_FILE
from controlplane.configs.tests.test_pages import fill
from controlplane.inventory.models import Engine, OptionList

ApiOf = Callable[[str], Client]
JSON = "application/json"
RAW = OPERATOR_FILE.read_bytes()
V1 = "/api/v1/configs/qwen2-5-32b-instruct/versions/1"


def test_a_file_is_imported_once_and_exported_byte_for_byte(api_of: ApiOf) -> None:
    api = api_of("operator")

    def send() -> Any:
        return api.post("/api/v1/configs/import", {"file": SimpleUploadedFile("c.toml", RAW), "note": "from CI"})

    first, again = send(), send()
    assert (first.status_code, again.status_code) == (201, 200), first.json()
    body = first.json()
    assert (body["config"], body["number"], body["is_new"]) == ("qwen2-5-32b-instruct", 1, True)
    assert (body["note"], body["author"]) == ("from CI", "operator (token test)")
    assert KEY not in first.content.decode()
    exported = api.get(f"{V1}/export")
    assert exported.content == RAW.replace(KEY.encode(), b"secret:qwen2-5-32b-instruct-api-key")
    assert exported["Content-Type"].startswith("text/plain")


def test_json_is_imported_under_a_name(api_of: ApiOf) -> None:
    body = {"toml": RAW.decode(), "name": "chat", "note": "x"}
    response = api_of("operator").post("/api/v1/configs/import", body, content_type=JSON)
    assert (response.status_code, response.json()["config"]) == (201, "chat")


@pytest.mark.parametrize(
    "body",
    ["", "[]", "{}", '{"toml": 1}', '{"toml": "\\ud800"}', '{"toml": "a", "name": "a\\u0000"}', "{\x00", "\udcff"],
)
def test_a_body_that_cannot_be_used_is_refused(api_of: ApiOf, body: str) -> None:
    raw = body.encode(errors="surrogateescape")
    response = api_of("operator").post("/api/v1/configs/import", raw, content_type=JSON)
    assert response.status_code == 422
    assert response["Content-Type"] == "application/problem+json"


def test_every_problem_comes_back_with_its_place(api_of: ApiOf) -> None:
    toml = '[model]\nmodel_path = "/m"\nquantization = null\n[batching]\nmax_num_seq = 1\n'
    response = api_of("operator").post("/api/v1/configs/import", {"toml": toml}, content_type=JSON)
    assert response.status_code == 422
    body = response.json()
    assert body["code"] == "invalid_config"
    found = [(problem["code"], problem["line"], problem["source_line"]) for problem in body["problems"]]
    assert found == [("null", 3, "quantization = null"), ("unknown_key", 5, "max_num_seq = 1")]


@pytest.mark.parametrize(
    "toml",
    [
        '[model]\nmodel_path = "a\\u0000"\n',
        "[engine]\na" + ".a" * 20000 + " = 1\n",
        '[engine]\n"a\\u0000" = 1\n',
        '[engine]\n"a\\u0041" = 1\n',
        "\x00",
    ],
)
def test_a_strange_text_is_a_problem_and_no_failure(api_of: ApiOf, toml: str) -> None:
    response = api_of("operator").post("/api/v1/configs/import", {"toml": toml}, content_type=JSON)
    assert response.status_code == 422
    assert response.json()["problems"]


def test_a_check_keeps_nothing_and_says_what_a_release_would(api_of: ApiOf) -> None:
    api = api_of("viewer")
    body = {"toml": RAW.decode(), "release": "0.18.1"}
    found = api.post("/api/v1/configs/check", body, content_type=JSON).json()
    assert (found["ok"], found["argv"]) == (False, None)
    assert [(one["code"], one["line"], one["fix"]) for one in found["problems"]] == [
        ("removed", 26, [["scheduler", "swap_space", None]])
    ]
    older = api.post("/api/v1/configs/check", {**body, "release": "0.17.1"}, content_type=JSON).json()
    assert older["ok"]
    assert older["argv"][:3] == ["vllm", "serve", "/data/models/Qwen2.5-32B-Instruct"]
    assert KEY not in str(older)
    assert not ConfigVersion.objects.exists()
    assert api.post("/api/v1/configs/check", {**body, "release": "x"}, content_type=JSON).status_code == 422
    assert api.post("/api/v1/configs/check", {"toml": "", "engine_id": 99}, content_type=JSON).status_code == 404


def test_the_options_of_the_very_build_decide(api_of: ApiOf, imported: ConfigVersion, engine: Engine) -> None:
    args = json.loads((DATA / "engine-args-0.32.0.json").read_text())
    args["args"] = [one for one in args["args"] if one["dest"] != "max_num_seqs"]
    engine.version = "0.32.0"
    engine.option_list = OptionList.objects.create(build="b1", version="0.32.0", args=args)
    engine.save()
    found = api_of("viewer").get(f"{V1}/check", {"engine_id": engine.pk}).json()
    codes = {problem["key"]: problem["code"] for problem in found["problems"]}
    assert codes["[batching] max_num_seqs"] == "not_in_build"
    assert codes["[scheduler] swap_space"] == "removed"
    assert found["engine"] == "vLLM 0.32.0 on gpu-1"


def test_the_command_line_and_its_exports(api_of: ApiOf, imported: ConfigVersion) -> None:
    api = api_of("viewer")
    command = api.get(f"{V1}/command", {"release": "0.17.1"}).json()
    assert command["environment"] == {"VLLM_API_KEY": "secret:qwen2-5-32b-instruct-api-key"}
    refused = api.get(f"{V1}/command", {"release": "0.18.1"})
    assert (refused.status_code, refused.json()["problems"][0]["code"]) == (409, "removed")
    for format in queries.EXPORT_FORMATS:
        assert api.get(f"{V1}/export/{format}", {"release": "0.17.1"}).status_code == 200
    assert api.get(f"{V1}/export/helm").status_code == 404


def test_values_change_into_a_next_version_and_two_are_compared(api_of: ApiOf, imported: ConfigVersion) -> None:
    api = api_of("operator")
    body = {"values": {"max_num_seqs": 256, "scheduler.swap_space": None, "engine.enforce-eager": True}, "note": "n"}
    response = api.post(f"{V1}/change", body, content_type=JSON)
    assert response.status_code == 201, response.json()
    made = response.json()
    assert (made["number"], made["parent"]) == (2, 1)
    assert made["content"]["engine"] == {"enforce_eager": True}
    assert [change["key"] for change in made["changes"]] == ["max_num_seqs", "swap_space", "enforce_eager"]
    assert api.post(f"{V1}/change", body, content_type=JSON).status_code == 200
    diff = api.get("/api/v1/configs/qwen2-5-32b-instruct/versions/2/diff", {"against": 1}).json()
    assert "+max_num_seqs = 256" in diff["unified"]
    assert len(diff["changes"]) == 3
    wrong: list[dict[str, Any]] = [{}, {"a b": 1}, {"engine.x": [None]}, {"": 1}]
    for values in wrong:
        assert api.post(f"{V1}/change", {"values": values}, content_type=JSON).status_code == 422, values


@pytest.mark.parametrize(
    "values",
    [
        '{"server.host": "\\ud800"}',
        '{"engine.\\ud800": 1}',
        '{"engine.x": NaN}',
        '{"engine.x": ' + "[" * 500 + "]" * 500 + "}",
        '{"engine.x": {"": {"a.b": ["\\u0000"]}}}',
        '{"engine.x\\n[server]\\nport": 0}',
    ],
)
def test_a_strange_value_is_a_problem_and_no_failure(api_of: ApiOf, imported: ConfigVersion, values: str) -> None:
    response = api_of("operator").post(f"{V1}/change", f'{{"values": {values}}}', content_type=JSON)
    assert response.status_code in {400, 422}, response.content


def test_what_breaks_and_the_fix(api_of: ApiOf, imported: ConfigVersion, deploy: Callable[..., Any]) -> None:
    api = api_of("operator")
    deploy(imported, "production")
    found = api.get("/api/v1/configs/what-breaks", {"release": "0.18.1"}).json()
    assert (found["looked_at"], found["broken"]) == (1, 1)
    assert found["items"][0]["environments"] == ["production"]
    assert found["items"][0]["problems"][0]["key"] == "[scheduler] swap_space"
    made = api.post(f"{V1}/fix", {"release": "0.18.1"}, content_type=JSON)
    assert (made.status_code, made.json()["number"]) == (201, 2)
    assert api.get("/api/v1/configs/what-breaks", {"release": "0.17.1"}).json()["broken"] == 0
    assert api.get("/api/v1/configs/what-breaks", {"release": "0.1"}).status_code == 422


def test_the_fixed_version_has_what_took_over_and_keeps_what_only_a_person_can_decide(api_of: ApiOf) -> None:
    api = api_of("operator")
    toml = '[model]\nmodel_path = "/m"\n[engine]\ntask = "embed"\ncuda_graph_sizes = [512]\n'
    api.post("/api/v1/configs/import", {"toml": toml, "name": "emb"}, content_type=JSON)
    breaks = api.get("/api/v1/configs/what-breaks", {"release": "0.13.0"}).json()["items"][0]
    assert [problem["key"] for problem in breaks["problems"]] == ["[engine] task", "[engine] cuda_graph_sizes"]
    api.post("/api/v1/configs/emb/versions/1/fix", {"release": "0.13.0"}, content_type=JSON)
    made = ConfigVersion.objects.get(config__name="emb", number=2)
    assert bytes(made.toml).decode() == (
        '[model]\nmodel_path = "/m"\n[engine]\ncuda_graph_sizes = [512]\nrunner = "pooling"\nconvert = "embed"\n'
    )
    again = api.post("/api/v1/configs/emb/versions/2/fix", {"release": "0.13.0"}, content_type=JSON)
    assert again.status_code == 409


def test_a_config_is_listed_changed_and_archived(api_of: ApiOf, imported: ConfigVersion) -> None:
    api = api_of("operator")
    assert api.get("/api/v1/configs", {"q": "qwen"}).json()["total"] == 1
    url = "/api/v1/configs/qwen2-5-32b-instruct"
    assert api.get(url).json()["latest_version"] == 1
    assert api.patch(url, {"name": "check"}, content_type=JSON).status_code == 422
    changed = api.patch(url, {"name": "chat", "description": "web", "is_archived": True}, content_type=JSON).json()
    assert (changed["name"], changed["description"]) == ("chat", "web")
    assert changed["archived_at"]
    assert api.get("/api/v1/configs").json()["items"] == []
    assert api.get("/api/v1/configs", {"archived": True}).json()["items"][0]["name"] == "chat"
    assert api.get(url).status_code == 404
    assert api.get("/api/v1/configs/a%00b").status_code == 404
    assert api.get("/api/v1/configs/chat/versions/99999999999999999999").status_code == 404


def test_roles_are_those_of_the_pages(api_of: ApiOf, imported: ConfigVersion) -> None:
    for role, write in (("viewer", 403), ("operator", 200)):
        api = api_of(role)
        assert api.get("/api/v1/configs").status_code == 200
        body = {"toml": bytes(imported.toml).decode()}
        assert api.post("/api/v1/configs/import", body, content_type=JSON).status_code == write
        change = {"values": {"batching.max_num_seqs": 128}}
        assert api.post(f"{V1}/change", change, content_type=JSON).status_code == write
        assert api.patch(f"{V1.partition('/versions')[0]}", {}, content_type=JSON).status_code == write
    assert api_of("viewer").post(f"{V1}/fix", {"release": "0.18.1"}, content_type=JSON).status_code == 403
    assert api_of("outsider").get("/api/v1/configs").status_code == 401


def test_options_are_found_by_any_name(api_of: ApiOf) -> None:
    api = api_of("viewer")
    for name in ("swap_space", "--swap-space"):
        found = api.get(f"/api/v1/flags/{name}").json()
        assert (found["removed_in"], found["key"]) == ("0.18.0", "scheduler.swap_space")
    moved = api.get("/api/v1/flags/gpu_memory_utilization").json()
    assert [(one["release"], one["default"]) for one in moved["defaults"]][-1] == ("0.20.0", 0.92)
    assert api.get("/api/v1/flags", {"q": "prefix"}).json()["total"] > 1
    assert api.get("/api/v1/flags/no-such-thing").status_code == 404


def test_lists_need_as_many_queries_for_thirty_rows_as_for_three(
    db: None, api_of: ApiOf, make_instance: Callable[..., Any], django_assert_max_num_queries: Any
) -> None:
    api = api_of("viewer")
    counts: dict[str, list[int]] = {}
    for amount in (3, 30):
        fill(amount, make_instance)
        for url in ("/api/v1/configs", "/api/v1/configs/c-0/versions", "/api/v1/configs/what-breaks"):
            with django_assert_max_num_queries(15) as captured:
                assert len(api.get(url).json()["items"]) >= amount
            counts.setdefault(url, []).append(len(captured))
    for few, many in counts.values():
        assert abs(few - many) <= 1  # the token notes its use once in a while


def test_the_latest_version_of_a_service_call_is_what_the_api_shows(api_of: ApiOf, imported: ConfigVersion) -> None:
    services.change_version(version=imported, values={("model", "dtype"): "float16"}, actor="ada")
    versions = api_of("viewer").get("/api/v1/configs/qwen2-5-32b-instruct/versions").json()["items"]
    assert [(one["number"], one["parent"]) for one in versions] == [(2, 1), (1, None)]
