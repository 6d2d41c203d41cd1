"""Instance pages and the launch form in Chromium: what the reader did on the page survives its refreshes."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from playwright.sync_api import Page, expect, sync_playwright

from controlplane.fleet.models import Instance
from controlplane.fleet.tests.fake_world import FakeWorld, attempt_of
from controlplane.fleet.tests.test_pages_choosing import hosts, versions
from controlplane.fleet.tests.test_pages_instances import BROKEN, FIRST, KV_CACHE, WEIGHTS

# Serialized: what the migrations wrote (the environments) is there again for the tests that follow.
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True, serialized_rollback=True),
]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
ClientOf = Callable[[str], Client]
Open = Callable[[Instance], Page]
OpenPath = Callable[[str], Page]


@pytest.fixture
def open_path(live_server: Any, client_of: ClientOf) -> Iterator[OpenPath]:
    """`open_path(path)`: that page, as an operator. All rows must be there before: from then on the test's thread
    belongs to the browser. Silent consoles are part of every test."""
    session = client_of("operator").cookies["sessionid"].value
    heard: list[str] = []
    playwright = sync_playwright()
    started: list[Any] = []

    def show(path: str) -> Page:
        driver = playwright.start()
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        started.extend((chromium, driver))
        context = chromium.new_context()
        context.add_cookies([{"name": "sessionid", "value": session, "url": live_server.url}])
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text) if message.type in {"error", "warning"} else None)
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.goto(live_server.url + path)
        return page

    yield show
    if started:
        chromium, driver = started
        chromium.close()
        driver.stop()
    assert heard == []


@pytest.fixture
def open_page(open_path: OpenPath) -> Open:
    """`open_page(instance)`: its page, with its log."""

    def show(instance: Instance) -> Page:
        page = open_path(reverse("fleet:instance_detail", args=[instance.pk]))
        page.wait_for_selector(".log-line")
        return page

    return show


def refreshed(page: Page, instance: Instance, times: int = 2) -> None:
    for _ in range(times):
        with page.expect_response(lambda response: response.url.endswith(f"/instances/{instance.pk}/")):
            pass
    expect(page.locator(".htmx-request")).to_have_count(0)


def test_search_log_and_opened_checks_survive_refreshes(world: FakeWorld, open_page: Open) -> None:
    world.server.is_up = False
    instance = world.request(log=FIRST + WEIGHTS + KV_CACHE)
    world.step(instance)
    world.step(instance)
    page = open_page(instance)
    page.fill("[data-log-search]", "cache")
    page.click("summary:has-text('Checks')")
    refreshed(page, instance)
    assert page.input_value("[data-log-search]") == "cache"
    assert page.locator(".log-line").count() == 3
    assert page.locator(".log-line:not([hidden])").count() == 1
    assert page.locator("#step-preflight-done > details").get_attribute("open") is not None


def test_a_half_written_question_survives_refreshes(world: FakeWorld, open_page: Open) -> None:
    instance = world.ready()
    page = open_page(instance)
    page.fill("#id_prompt", "Half a quest")
    refreshed(page, instance)
    assert page.input_value("#id_prompt") == "Half a quest"


def test_the_log_of_a_failure_begins_at_the_telling_line_and_its_link_leads_there(
    world: FakeWorld, open_page: Open
) -> None:
    instance = world.request(log=BROKEN, rc=1)
    world.step(instance)
    world.step(instance)
    number = str(attempt_of(instance).failure_line_number)
    page = open_page(instance)
    page.wait_for_selector(".log-line.target")
    assert page.locator(".log-line.target").get_attribute("data-number") == number
    page.fill("[data-log-search]", "nothing like it")
    page.click("a[data-log-line]")
    assert page.locator(".log-line.target").is_visible()
    assert page.input_value("[data-log-search]") == ""


# -- The launch form -------------------------------------------------------------------------------------------------


def test_a_host_of_many_is_found_and_chosen_by_keyboard_and_stays_chosen(world: FakeWorld, open_path: OpenPath) -> None:
    *_others, oldest = reversed(versions(world, 60))
    made = hosts(*range(60))
    page = open_path(f"{reverse('fleet:launch')}?version={oldest.pk}")
    chosen, note = page.locator("#id_engine option:checked"), page.locator("#engine-note")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    expect(note).to_have_text("The first 50 are listed. Search for the others.")

    page.fill("#id_port", "8123")
    page.focus("#find-engine")
    page.keyboard.type("rack-05")
    expect(note).to_have_text("10 fit.")
    page.keyboard.press("Tab")
    page.keyboard.type("rack-057")
    expect(page.locator("[name=gpu]")).to_have_attribute("value", "GPU-rack-057")
    expect(page.locator("#id_engine")).to_be_focused()
    expect(page.locator("#find-engine")).to_have_value("rack-05")

    page.focus("#find-engine")
    for search, fitting, said in (
        ("rack-00", 10, "10 fit."),
        ("no such host", 0, "Nothing fits “no such host”."),
        ("", 50, "The first 50 are listed. Search for the others."),
    ):
        page.fill("#find-engine", search)
        expect(note).to_have_text(said)
        expect(page.locator("#id_engine option:not(#engine-none)")).to_have_count(fitting + 1)
        expect(chosen).to_have_attribute("value", str(made[57].pk))
        expect(page.locator("#find-engine")).to_be_focused()

    without_host = [url for url in asked if "&engine=&" in url and "part=" not in url]
    assert len(without_host) == 1, "for the port; a search asks for its select only"

    page.fill("#find-version", oldest.config.name + " v60")
    expect(page.locator("#version-note")).to_have_text("1 fits.")
    expect(page.locator("#id_version option:checked")).to_have_attribute("value", str(oldest.pk))
    page.select_option("#id_version", label=f"{oldest.config.name} v60")
    expect(page.get_by_role("region", name="What would run")).to_contain_text("--port 8123")
    expect(chosen).to_have_attribute("value", str(made[57].pk))
    expect(page.locator("#id_port")).to_have_value("8123")
    assert f"engine={made[57].pk}" in page.url
    assert "part=" not in page.url
