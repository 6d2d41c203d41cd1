"""Pages: they work, outsiders are led to the login, viewers read only, fragments are fragments."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import QuerySet
from django.test import Client
from django.urls import reverse

from controlplane.configs import queries, services
from controlplane.configs.models import Config, ConfigVersion
from controlplane.configs.tests.conftest import KEY
from controlplane.configs.tests.samples import OPERATOR_FILE
from controlplane.core.models import Secret
from controlplane.inventory.models import Engine, ModelArtifact
from controlplane.web.tests import worlds

ClientOf = Callable[[str], Client]
RAW = OPERATOR_FILE.read_bytes()
IMPORT = "/configs/import/"


def pages(version: ConfigVersion) -> dict[str, bool]:
    """Address → whether it has a fragment."""
    one = [version.pk]
    return {
        reverse("configs:config_list"): True,
        reverse("configs:config_detail", args=[version.config.name]): True,
        reverse("configs:version_detail", args=one): True,
        reverse("configs:version_diff", args=one): False,
        reverse("configs:what_breaks"): True,
        reverse("configs:flag_list"): True,
    }


def forms(version: ConfigVersion) -> list[str]:
    edit = reverse("configs:config_edit", args=[version.config.name])
    return [reverse("configs:config_import"), reverse("configs:version_change", args=[version.pk]), edit]


def test_every_page_works_for_a_viewer(imported: ConfigVersion, engine: Engine, client_of: ClientOf) -> None:
    for url in pages(imported):
        response = client_of("viewer").get(url)
        assert response.status_code == 200, url
        assert b"</html>" in response.content


def test_outsiders_are_led_to_the_login(imported: ConfigVersion, client_of: ClientOf) -> None:
    for url in [*pages(imported), *forms(imported), reverse("configs:version_raw", args=[imported.pk])]:
        response = client_of("outsider").get(url)
        assert response.status_code == 302
        assert response["Location"].startswith(reverse("accounts:login"))


def test_htmx_gets_the_fragment_alone(imported: ConfigVersion, client_of: ClientOf) -> None:
    for url, has_fragment in pages(imported).items():
        response = client_of("viewer").get(url, headers={"HX-Request": "true"})
        assert response.status_code == 200, url
        assert (b"</html>" not in response.content) == has_fragment, url


def test_a_viewer_can_change_nothing_and_is_shown_no_way_to(imported: ConfigVersion, client_of: ClientOf) -> None:
    viewer = client_of("viewer")
    for url in pages(imported):
        content = viewer.get(url).content.decode()
        assert IMPORT not in content, url
        assert "/change/" not in content, url
        assert "/archive/" not in content, url
    for url in forms(imported):
        assert viewer.get(url).status_code == 403
        assert viewer.post(url, {"toml": "x", "key": "port", "value": "1", "name": "x"}).status_code == 403
    assert viewer.post(reverse("configs:version_fix", args=[imported.pk]), {"target": "0.18.1"}).status_code == 403
    assert viewer.post(reverse("configs:config_archive", args=[imported.config.name])).status_code == 403
    assert ConfigVersion.objects.count() == 1


def test_a_config_is_found_by_name_and_by_number(imported: ConfigVersion, client_of: ClientOf) -> None:
    viewer = client_of("viewer")
    for key in (imported.config.name, imported.config_id):
        assert viewer.get(reverse("configs:config_detail", args=[key])).context["config"] == imported.config
    assert viewer.get("/configs/nowhere/").status_code == 404
    assert viewer.get("/configs/99999999999999999999999/").status_code == 404


def test_an_empty_list_offers_the_first_import(db: None, client_of: ClientOf) -> None:
    assert "Import the first config" in client_of("operator").get("/configs/").content.decode()
    assert "Import the first config" not in client_of("viewer").get("/configs/").content.decode()


def test_an_uploaded_file_becomes_a_version_and_comes_back_byte_for_byte(client_of: ClientOf) -> None:
    operator = client_of("operator")
    file = SimpleUploadedFile("config.toml", RAW)
    response = operator.post(IMPORT, {"file": file, "note": "from disk", "action": "import"})
    version = ConfigVersion.objects.get()
    assert response["Location"] == reverse("configs:version_detail", args=[version.pk])
    exported = operator.get(reverse("configs:version_raw", args=[version.pk])).content
    assert exported == RAW.replace(KEY.encode(), b"secret:qwen2-5-32b-instruct-api-key")
    assert (version.author, version.note) == ("operator", "from disk")


def test_pasted_text_loses_the_line_ends_that_browsers_add(client_of: ClientOf) -> None:
    pasted = RAW.decode().replace("\n", "\r\n")
    client_of("operator").post(IMPORT, {"toml": pasted, "action": "import"})
    assert b"\r" not in bytes(ConfigVersion.objects.get().toml)


def test_a_check_shows_everything_and_keeps_nothing(client_of: ClientOf, engine: Engine) -> None:
    data = {"toml": RAW.decode(), "target": "0.18.1", "action": "check"}
    response = client_of("operator").post(IMPORT, data, headers={"HX-Request": "true"})
    content = response.content.decode()
    assert response.status_code == 200
    assert "line 26, col 1" in content
    assert "0.17.1 was the last with it" in content
    assert not Config.objects.exists()
    assert not Secret.objects.exists()
    older = client_of("operator").post(IMPORT, {**data, "target": "0.17.1"}).content.decode()
    assert "--max-num-seqs 128" in older
    assert "the api_key in the file" in older


def test_a_wrong_text_is_shown_with_its_problems_and_is_not_lost(client_of: ClientOf) -> None:
    text = '[model]\nmodel_path = "/m"\nquantization = null\n[batching]\nmax_num_seq = 1\n'
    response = client_of("operator").post(IMPORT, {"toml": text, "action": "import"})
    content = response.content.decode()
    assert response.status_code == 422
    assert "line 3, col" in content
    assert "<pre>quantization = null</pre>" in content
    assert "<code>max_num_seqs</code>" in content
    assert "max_num_seq = 1" in re.search(r"<textarea.*?</textarea>", content, re.DOTALL)[0]  # type: ignore[index]
    assert not Config.objects.exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "Choose a file or paste"),
        ({"toml": "x = 1", "name": "a b"}, "Use letters, digits"),
        ({"toml": "x = 1", "target": "0.1"}, "oldest known release is 0.8.0"),
        ({"toml": "x = 1", "target": "engine:x"}, "There is no such engine"),
        ({"toml": "x = 1", "file": SimpleUploadedFile("c.toml", b"x = 1")}, "There is a file and a text"),
        ({"file": SimpleUploadedFile("c.toml", b"#" * 65537)}, "has 65537 bytes"),
        ({"file": SimpleUploadedFile("c.toml", b"")}, "takes it|is named"),
        ({"file": SimpleUploadedFile("c.toml", b"\xff\xfea\x00")}, "UTF-16"),
    ],
)
def test_a_form_that_cannot_be_used_says_why(client_of: ClientOf, data: dict[str, Any], words: str) -> None:
    response = client_of("operator").post(IMPORT, {**data, "action": "check"}, headers={"HX-Request": "true"})
    assert response.status_code in {200, 422}
    assert re.search(words, response.content.decode())


def test_one_change_is_previewed_and_then_kept(imported: ConfigVersion, client_of: ClientOf) -> None:
    operator, url = client_of("operator"), reverse("configs:version_change", args=[imported.pk])
    data = {"key": "max_num_seqs", "value": "256", "note": "more at once", "action": "preview"}
    content = operator.post(url, data, headers={"HX-Request": "true"}).content.decode()
    assert "max_num_seqs 128 → 256" in content
    assert "max_num_seqs = 256" in content
    assert ConfigVersion.objects.count() == 1
    response = operator.post(url, {**data, "action": "save"}, headers={"HX-Request": "true"})
    second = ConfigVersion.objects.get(number=2)
    assert response["HX-Redirect"] == reverse("configs:version_detail", args=[second.pk])
    assert second.value("batching", "max_num_seqs") == 256
    wrong = operator.post(url, {**data, "value": "many"})
    assert wrong.status_code == 422
    assert "whole number" in wrong.content.decode()


def test_a_version_shows_the_command_and_exports_without_the_key(imported: ConfigVersion, client_of: ClientOf) -> None:
    viewer = client_of("viewer")
    url = reverse("configs:version_detail", args=[imported.pk])
    content = viewer.get(url, {"target": "0.17.1"}).content.decode()
    assert "--gpu-memory-utilization 0.9" in content
    assert "secret:qwen2-5-32b-instruct-api-key" in content
    for format, word in (("shell", "exec"), ("systemd", "ExecStart"), ("compose", "vllm/vllm-openai:v0.17.1")):
        export = reverse("configs:version_export", args=[imported.pk, format])
        text = viewer.get(export, {"target": "0.17.1"}).content.decode()
        assert word in text
        assert "HF_HUB_OFFLINE" in text  # what a launch sets, too: the model is a directory
        assert KEY not in text
    assert viewer.get(export, {"target": "0.18.1"}).status_code == 409
    assert viewer.get(reverse("configs:version_export", args=[imported.pk, "helm"])).status_code == 404


def test_what_breaks_names_swap_space_and_makes_the_fixed_version(
    imported: ConfigVersion, client_of: ClientOf, deploy: Callable[..., Any]
) -> None:
    deploy(imported, "production")
    operator = client_of("operator")
    content = operator.get("/configs/what-breaks/", {"release": "0.18.1"}).content.decode()
    assert "swap_space" in content
    assert "1 of 1 versions would not start" in content
    assert "production" in content
    operator.post(reverse("configs:version_fix", args=[imported.pk]), {"target": "0.18.1"})
    fixed = ConfigVersion.objects.get(number=2)
    assert "swap_space" not in fixed.content.get("scheduler", {})
    again = operator.get("/configs/what-breaks/", {"release": "0.18.1"}).content.decode()
    assert "1 of 2 versions" in again  # production still runs v1
    assert "in use, not the latest" in again
    assert operator.get("/configs/what-breaks/", {"release": "0.1"}).status_code == 422


def test_two_versions_stand_side_by_side_with_what_changed(imported: ConfigVersion, client_of: ClientOf) -> None:
    second, _new = services.change_version(version=imported, values={("model", "dtype"): "float16"}, actor="ada")
    query = {"before": "0.19.0", "after": "0.20.0"}
    content = client_of("viewer").get(reverse("configs:version_diff", args=[second.pk]), query).content.decode()
    assert "<code>auto</code>" in content
    assert "<code>float16</code>" in content
    assert "Defaults that move" in content


def test_the_catalogue_says_when_an_option_went_and_how_a_default_moved(db: None, client_of: ClientOf) -> None:
    viewer = client_of("viewer")
    content = viewer.get("/configs/flags/", {"q": "--swap-space"}).content.decode()
    assert "0.18.0" in content
    moved = viewer.get("/configs/flags/", {"q": "gpu_memory_utilization"}).content.decode()
    assert "0.92" in moved
    assert "from 0.20.0" in moved
    assert viewer.get("/configs/flags/", {"q": "nothing-like-it"}).context["page"].total == 0


def test_the_list_is_searched_sorted_archived_and_exported(imported: ConfigVersion, client_of: ClientOf) -> None:
    other, _new = services.import_config(raw=b'[model]\nmodel_path = "/m/tiny"\n', actor="=ada")
    ModelArtifact.objects.create(name="tiny", source="path", location="/m/tiny")
    services.describe_config(config=other.config, description="=1+1", actor="ada")
    viewer = client_of("viewer")

    def names(**query: str) -> list[str]:
        return [row.config.name for row in viewer.get("/configs/", query).context["rows"]]

    assert names(q="QWEN") == ["qwen2-5-32b-instruct"]
    assert names(q="/m/tiny") == ["tiny"]
    assert names(sort="-name") == ["tiny", "qwen2-5-32b-instruct"]
    services.archive_config(config=other.config, actor="ada")
    assert names() == ["qwen2-5-32b-instruct"]
    assert names(archived="1") == ["tiny"]
    table = viewer.get("/configs/", {"format": "csv", "archived": "1"}).content.decode()
    assert "'=1+1" in table


def test_a_config_shows_where_it_runs(
    imported: ConfigVersion, client_of: ClientOf, make_instance: Callable[..., Any], deploy: Callable[..., Any]
) -> None:
    make_instance(imported, "chat-0")
    make_instance(imported, "chat-old", state="stopped")
    deploy(imported, "staging")
    content = client_of("viewer").get(reverse("configs:config_detail", args=[imported.config.name])).content.decode()
    assert "chat-0" in content
    assert "chat-old" not in content
    assert "staging runs v1" in content


def test_renaming_and_archiving_by_page(imported: ConfigVersion, client_of: ClientOf) -> None:
    operator = client_of("operator")
    edit = reverse("configs:config_edit", args=[imported.config.name])
    assert operator.post(edit, {"name": "a b"}).status_code == 422
    assert operator.post(edit, {"name": "chat", "description": "web"})["Location"] == "/configs/chat/"
    operator.post("/configs/chat/archive/")
    assert Config.objects.get().archived_at is not None
    operator.post("/configs/chat/archive/", {"back": "1"})
    assert Config.objects.get().archived_at is None


def test_lists_need_as_many_queries_for_thirty_rows_as_for_three(
    db: None, client_of: ClientOf, make_instance: Callable[..., Any], django_assert_max_num_queries: Any
) -> None:
    client = client_of("viewer")
    counts: dict[str, list[int]] = {}
    for amount in (3, 30):
        fill(amount, make_instance)
        many = Config.objects.get(name="c-0").pk
        for url in ("/configs/", "/configs/what-breaks/", f"/configs/{many}/"):
            with django_assert_max_num_queries(15) as captured:
                assert client.get(url).status_code == 200
            counts.setdefault(url, []).append(len(captured))
    assert {url: few == many for url, (few, many) in counts.items()} == dict.fromkeys(counts, True), counts


def fill(amount: int, make_instance: Callable[..., Any]) -> None:
    """`amount` configs with an instance each, and as many versions of the first."""
    for number in range(amount):
        raw = f'[model]\nmodel_path = "/m/{number}"\n[scheduler]\nswap_space = 1\n'.encode()
        version, is_new = services.import_config(raw=raw, name=f"c-{number}", actor="ada")
        if is_new:
            make_instance(version, f"i-{number}")
        services.import_config(raw=raw + f"# {number}\n".encode(), name="c-0", actor="ada")


def test_the_list_says_when_a_config_was_measured_last(imported: ConfigVersion) -> None:
    """By any of its versions; never, where only other configs were."""
    second = worlds.version(imported.config.name, number=2)
    other, silent = worlds.version("other"), worlds.version("silent")
    here = worlds.host()
    made = [worlds.run(of, on=here) for of in (second, other, imported, imported, other)]
    configs: QuerySet[Any] = queries.configs()
    last = {config.name: config.last_run_at for config in configs}
    assert last == {
        imported.config.name: made[3].created_at,
        "other": made[4].created_at,
        silent.config.name: None,
    }
    assert [config.name for config in queries.configs(sort="-run")] == ["other", imported.config.name, "silent"]
