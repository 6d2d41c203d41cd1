"""Importing and changing configs: numbers, digests, keys, problems."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, connections

from controlplane.configs import queries, services
from controlplane.configs.models import Config, ConfigVersion
from controlplane.configs.tests.conftest import KEY
from controlplane.configs.tests.samples import OPERATOR_FILE
from controlplane.core import secrets_store
from controlplane.core.errors import Conflict, Invalid
from controlplane.core.models import Event, Secret

RAW = OPERATOR_FILE.read_bytes()
SMALL = b'[model]\nmodel_path = "/m/tiny"\n[batching]\nmax_num_seqs = 64\n'


def test_the_name_comes_from_the_served_model_and_else_from_the_path(imported: ConfigVersion) -> None:
    assert (imported.config.name, imported.number) == ("qwen2-5-32b-instruct", 1)
    assert services.import_config(raw=SMALL, actor="ada")[0].config.name == "tiny"


def test_a_plain_key_goes_to_the_secret_store_and_comes_back_as_its_reference(imported: ConfigVersion) -> None:
    assert secrets_store.reveal("secret:qwen2-5-32b-instruct-api-key") == KEY
    kept = bytes(imported.toml)
    assert kept == RAW.replace(KEY.encode(), b"secret:qwen2-5-32b-instruct-api-key")
    assert imported.value("server", "api_key") == "secret:qwen2-5-32b-instruct-api-key"


def test_the_key_stands_in_no_table(imported: ConfigVersion) -> None:
    services.change_version(version=imported, values={("server", "api_key"): "sk-another-long-key"}, actor="ada")
    for found in rows_of_all_tables():
        for key in (KEY, "sk-another-long-key"):
            assert key not in found
            assert key.encode().hex() not in found


def rows_of_all_tables() -> list[str]:
    """Every row of the test database as text; bytes as hexadecimal digits."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        tables = [name for (name,) in cursor.fetchall()]
        found: list[str] = []
        for table in tables:
            cursor.execute(f'SELECT t::text FROM "{table}" t')
            found += [text for (text,) in cursor.fetchall()]
    assert any("configs" in table for table in tables)
    assert any("qwen2-5-32b-instruct" in text for text in found)
    return found


def test_the_same_file_again_is_the_same_version_and_the_same_secret(imported: ConfigVersion) -> None:
    again, is_new = services.import_config(raw=RAW, actor="bob")
    assert (again, is_new) == (imported, False)
    assert Secret.objects.count() == 1
    services.import_config(raw=RAW.replace(b"128", b"256"), actor="bob")
    assert services.import_config(raw=RAW, actor="bob") == (imported, False)


def test_other_comments_alone_make_a_version_that_says_so(imported: ConfigVersion) -> None:
    second, is_new = services.import_config(raw=RAW + b"# tuned in May\n", actor="ada")
    assert (is_new, second.number, second.digest) == (True, 2, imported.digest)
    assert queries.is_comments_only(second)
    assert Event.objects.filter(name="config.imported").latest("id").sentence == "v2: comments only"


def test_a_change_becomes_the_next_version_with_its_parent_and_words(imported: ConfigVersion) -> None:
    values = {("batching", "max_num_seqs"): 256, ("scheduler", "swap_space"): None}
    second, is_new = services.change_version(version=imported, values=values, note="more at once", actor="ada")
    assert (is_new, second.number, second.parent, second.note) == (True, 2, imported, "more at once")
    words = [queries.words_of(change) for change in queries.changes_of(second)]
    assert words == ["max_num_seqs 128 → 256", "swap_space 8 → –"]
    assert b'# or "priority"' in bytes(second.toml)
    event = Event.objects.filter(name="config.changed").get()
    assert (event.actor, event.subject_label) == ("ada", "qwen2-5-32b-instruct")
    assert event.sentence == "v2: max_num_seqs 128 → 256, swap_space 8 → –"


def test_a_change_that_changes_nothing_is_the_version_itself(imported: ConfigVersion) -> None:
    same = services.change_version(version=imported, values={("batching", "max_num_seqs"): 128}, actor="ada")
    assert same == (imported, False)


@pytest.mark.parametrize(
    ("place", "value", "code"),
    [
        (("batching", "max_num_seqs"), "many", "wrong_type"),
        (("batching", "max_num_seq"), 3, "unknown_key"),
        (("nowhere", "x"), 3, "unknown_section"),
        (("engine", "x"), [None], "wrong_type"),
        (("server", "served_model_name"), "a\x00b", "syntax"),
    ],
)
def test_a_wrong_change_says_why_and_keeps_nothing(
    imported: ConfigVersion, place: tuple[str, str], value: Any, code: str
) -> None:
    with pytest.raises(services.InvalidConfig) as caught:
        services.change_version(version=imported, values={place: value}, actor="ada")
    assert code in {problem["code"] for problem in caught.value.extra["problems"]}
    assert ConfigVersion.objects.count() == 1


def test_all_problems_come_in_one_pass_with_their_lines_and_nothing_is_kept(db: None) -> None:
    raw = b'[model]\nmodel_path = "/m"\nquantization = null\n[batching]\nmax_num_seq = "x"\n'
    with pytest.raises(services.InvalidConfig) as caught:
        services.import_config(raw=raw, name="not a name", actor="ada")
    found = {problem["code"]: problem for problem in caught.value.extra["problems"]}
    assert set(found) == {"bad_name", "null", "unknown_key"}
    assert (found["null"]["line"], found["null"]["source_line"]) == (3, "quantization = null")
    assert found["unknown_key"]["replacement"] == "max_num_seqs"
    assert not Config.objects.exists()
    assert not Event.objects.exists()


def test_a_refused_import_stores_no_key_and_shows_none(db: None) -> None:
    raw = (
        RAW.replace(b'"fcfs"', b"null")
        .replace(b'key"   #', b'key "   #')
        .replace(b"host =", b'api_key = "sk-2"\nhost =')
    )
    with pytest.raises(services.InvalidConfig) as caught:
        services.import_config(raw=raw, actor="ada")
    assert "sk-" not in str(caught.value.extra)
    assert any(problem["source_line"] for problem in caught.value.extra["problems"])
    assert not Secret.objects.exists()


@pytest.mark.parametrize("raw", [b"", b"# nothing\n", b"[model]\n"])
def test_a_text_that_sets_nothing_is_no_config(db: None, raw: bytes) -> None:
    with pytest.raises(services.InvalidConfig, match="sets nothing"):
        services.import_config(raw=raw, name="chat", actor="ada")
    assert not Config.objects.exists()


@pytest.mark.parametrize("name", ["12", "import", "a b", "x" * 101, "a/b", "a\x00"])
def test_names_that_addresses_could_not_carry_are_refused(db: None, name: str) -> None:
    with pytest.raises(Invalid):
        services.import_config(raw=SMALL, name=name, actor="ada")


@pytest.mark.django_db(transaction=True)
def test_two_imports_at_once_get_two_numbers() -> None:
    start = threading.Barrier(4)
    made: list[int] = []

    def one(seqs: int) -> None:
        try:
            start.wait(timeout=10)
            raw = SMALL.replace(b"64", str(seqs).encode())
            made.append(services.import_config(raw=raw, actor=f"p{seqs}")[0].number)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=one, args=(seqs,)) for seqs in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(made) == [1, 2, 3, 4]


def test_an_archived_config_takes_no_versions_until_it_is_back(imported: ConfigVersion) -> None:
    services.archive_config(config=imported.config, actor="ada")
    with pytest.raises(Conflict, match="is archived"):
        services.import_config(raw=RAW.replace(b"128", b"256"), actor="ada")
    services.unarchive_config(config=imported.config, actor="ada")
    assert services.import_config(raw=RAW.replace(b"128", b"256"), actor="ada")[0].number == 2
    names = Event.objects.filter(subject_type="config").order_by("id").values_list("name", flat=True)
    assert list(names) == ["config.imported", "config.archived", "config.unarchived", "config.imported"]


def test_what_runs_or_is_deployed_cannot_be_archived_nor_renamed(
    imported: ConfigVersion, make_instance: Callable[..., Any], deploy: Callable[..., Any]
) -> None:
    instance = make_instance(imported, "chat-0")
    with pytest.raises(Conflict, match="chat-0"):
        services.archive_config(config=imported.config, actor="ada")
    instance.delete()
    deploy(imported, "production")
    with pytest.raises(Conflict, match="production"):
        services.archive_config(config=imported.config, actor="ada")
    with pytest.raises(Conflict, match="production"):
        services.rename_config(config=imported.config, name="chat", actor="ada")


def test_a_config_is_renamed_and_described_once(imported: ConfigVersion) -> None:
    config = imported.config
    services.import_config(raw=SMALL, name="taken", actor="ada")
    with pytest.raises(Conflict, match="taken"):
        services.rename_config(config=config, name="taken", actor="ada")
    services.rename_config(config=config, name="chat", actor="ada")
    services.describe_config(config=config, description="for the web chat", actor="ada")
    services.describe_config(config=config, description="for the web chat", actor="ada")
    config.refresh_from_db()
    assert (config.name, config.description) == ("chat", "for the web chat")
    assert Event.objects.filter(name__in=["config.renamed", "config.described"]).count() == 2


def test_a_reference_to_a_missing_secret_imports_and_is_warned_of(db: None) -> None:
    raw = SMALL + b'[server]\napi_key = "secret:prod-vllm"\n'
    version, _new = services.import_config(raw=raw, actor="ada")
    checked = queries.check_version(version, queries.target_of())
    assert [(problem.code, problem.line) for problem in checked.found] == [("unknown_secret", 6)]
    assert checked.is_ok
    assert bytes(version.toml) == raw


def test_a_fix_takes_out_what_a_release_refuses(imported: ConfigVersion) -> None:
    target = queries.target_of(release="0.18.1")
    assert not queries.check_version(imported, target).is_ok
    fixed, _new = services.fix_version(version=imported, target=target, actor="ada")
    assert queries.check_version(fixed, target).is_ok
    assert b"swap_space" not in bytes(fixed.toml)
    with pytest.raises(Conflict):
        services.fix_version(version=fixed, target=target, actor="ada")
