"""The launch form where there is more than a select should list: the first so many, and a search for the others."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.configs.models import ConfigVersion
from controlplane.fleet.queries import CHOICES_LISTED
from controlplane.fleet.tests.fake_world import MODEL, FakeWorld
from controlplane.inventory.models import Accelerator, Engine, Host

ClientOf = Callable[[str], Client]
HTMX = {"HX-Request": "true"}
PAGE = "/instances/launch/"
TOML = f'[model]\nmodel_path = "{MODEL}"\n'.encode()


def hosts(*numbers: int, version: str = "0.18.1", card: str = "NVIDIA H100") -> list[Engine]:
    """Hosts `rack-NNN` with an engine and a GPU each."""
    made = Host.objects.bulk_create(Host(name=f"rack-{number:03}", transport="ssh") for number in numbers)
    Accelerator.objects.bulk_create(
        Accelerator(host=host, uuid=f"GPU-{host.name}", index=0, name=card, processes=[]) for host in made
    )
    return Engine.objects.bulk_create(
        Engine(host=host, executable="/opt/vllm/bin/vllm", version=version) for host in made
    )


def versions(world: FakeWorld, count: int) -> list[ConfigVersion]:
    """Versions 2 to `count` + 1 of a config that is older than all others."""
    first = world.version()
    return ConfigVersion.objects.bulk_create(
        ConfigVersion(
            config=first.config, number=number, toml=TOML, content=first.content, digest=f"d{first.pk}-{number}",
            file_digest=f"f{first.pk}-{number}", author="test", note="Night shift." if number == 2 else "",
        )
        for number in range(2, count + 2)
    )  # fmt: skip


def listed(content: str, noun: str) -> list[int]:
    return [int(pk) for pk in re.findall(rf'<option id="{noun}-(\d+)"', content)]


def selected(content: str) -> list[str]:
    return re.findall(r'<option id="([a-z]+-\d+)"[^>]* selected', content)


@pytest.fixture
def operator(world: FakeWorld, client_of: ClientOf) -> Client:
    return client_of("operator")


def page(client: Client, **query: Any) -> str:
    return client.get(PAGE, query).content.decode()


def found(client: Client, noun: str, search: str, **query: Any) -> str:
    """What typing into the search over a select brings."""
    asked: dict[str, Any] = {"part": f"find_{noun}", f"{noun}_q": search, **query}
    content = client.get(PAGE, asked, headers=HTMX).content.decode().strip()
    assert content.startswith(f'<div id="{noun}-choice">')
    assert content.endswith("</div>")
    return content


def test_a_select_that_shows_everything_has_no_search(world: FakeWorld, operator: Client) -> None:
    world.version()
    hosts(*range(CHOICES_LISTED - 1))
    content = page(operator)
    assert len(listed(content, "engine")) == CHOICES_LISTED
    assert 'type="search" class="finder"' not in content


def test_a_long_select_lists_the_first_and_says_so(world: FakeWorld, operator: Client) -> None:
    made = hosts(*range(CHOICES_LISTED))
    versions(world, CHOICES_LISTED)
    content = page(operator)
    assert listed(content, "engine") == [world.engine.pk, *(engine.pk for engine in made[:-1])]
    assert len(listed(content, "version")) == CHOICES_LISTED
    assert content.count(f"The first {CHOICES_LISTED} are listed. Search for the others.") == 2
    for noun in ("engine", "version"):
        assert f'id="find-{noun}"' in content, noun


@pytest.mark.parametrize("search", ["rack-077", "RACK 77", "0.33.0", "mi300", "rack mi300 0.33"])
def test_a_host_is_found_by_its_name_its_engine_or_its_gpu(world: FakeWorld, operator: Client, search: str) -> None:
    world.version()
    hosts(*range(60))
    [other] = hosts(77, version="0.33.0", card="AMD Instinct MI300X")
    content = found(operator, "engine", search)
    assert listed(content, "engine") == [other.pk]
    assert "1 fits." in content


def test_a_kind_of_engine_is_found_by_its_word(world: FakeWorld, operator: Client) -> None:
    hosts(*range(60))
    assert listed(found(operator, "engine", "CPU"), "engine") == [world.engine.pk]


def test_a_version_is_found_by_its_config_its_number_or_its_note(world: FakeWorld, operator: Client) -> None:
    many, other = versions(world, 60), world.version()
    [second, third] = many[:2]
    name = second.config.name
    assert listed(found(operator, "version", other.config.name), "version") == [other.pk]
    assert listed(found(operator, "version", f"{name} v3"), "version") == [third.pk]
    assert listed(found(operator, "version", "night shift"), "version") == [second.pk]
    assert f'<optgroup id="config-{other.config_id}" label="{other.config.name}">' in page(operator)


def test_what_is_chosen_stays_whatever_is_searched(world: FakeWorld, operator: Client) -> None:
    oldest, *_rest = versions(world, 60)
    *_others, last = hosts(*range(60))
    choice: dict[str, Any] = {"version": oldest.pk, "engine": last.pk}
    assert selected(page(operator, **choice)) == [f"version-{oldest.pk}", f"engine-{last.pk}"]
    content = found(operator, "engine", "rack-001", engine=last.pk)
    assert (len(listed(content, "engine")), selected(content)) == (2, [f"engine-{last.pk}"])
    content = found(operator, "engine", "no such host", engine=last.pk)
    assert listed(content, "engine") == [last.pk]
    assert "Nothing fits “no such host”." in content


def test_a_choice_keeps_the_search_that_found_it(world: FakeWorld, operator: Client) -> None:
    world.version()
    *_others, last = hosts(*range(60))
    content = page(operator, engine=last.pk, engine_q="rack-05")
    assert 'value="rack-05"' in content
    assert len(listed(content, "engine")) == 10
    assert "10 fit." in content


def test_only_the_chosen_host_shows_its_gpus(world: FakeWorld, operator: Client) -> None:
    world.version()
    first, second, *_others = hosts(*range(60))
    content = page(operator, engine=second.pk)
    assert f'name="gpu" value="GPU-{second.host.name}"' in content
    assert f"GPU-{first.host.name}" not in content
    assert 'name="gpu"' not in page(operator)


@pytest.mark.parametrize("search", ["\x00", "%", "x" * 5000, "'; --", "v99999999999999999999", "²"])
def test_a_search_for_nonsense_finds_nothing_and_breaks_nothing(
    world: FakeWorld, operator: Client, search: str
) -> None:
    world.version(server={"served_model_name": "x"})
    for noun in ("engine", "version"):
        content = found(operator, noun, search)
        assert len(listed(content, noun)) == (1 if search == "\x00" else 0), noun


def test_viewers_do_not_search_the_form(world: FakeWorld, client_of: ClientOf) -> None:
    assert client_of("viewer").get(PAGE, {"part": "find_engine"}).status_code == 403


@pytest.mark.parametrize("more", [{}, {"part": "find_engine"}, {"part": "find_version"}])
def test_the_form_costs_as_many_queries_at_any_size(
    world: FakeWorld, operator: Client, django_assert_max_num_queries: Any, more: dict[str, str]
) -> None:
    [engine], [version] = hosts(0), versions(world, 1)
    choice: dict[str, Any] = {"version": version.pk, "engine": engine.pk, "engine_q": "rack", **more}
    operator.get(PAGE, choice)
    with django_assert_max_num_queries(14) as few:
        operator.get(PAGE, choice)
    hosts(*range(1, 100))
    versions(world, 100)
    with django_assert_max_num_queries(len(few)):
        assert operator.get(PAGE, choice).status_code == 200
    assert reverse("fleet:launch") == PAGE
