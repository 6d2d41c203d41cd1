"""The shared scripts in a real Chromium, under the product's Content-Security-Policy."""

import os
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from socketserver import ThreadingMixIn
from types import ModuleType
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template import Context, Template
from django.test import override_settings
from django.urls import path
from playwright.sync_api import Browser, ConsoleMessage, Page, Route, expect, sync_playwright

from controlplane.core.tests import styleguide_samples

pytestmark = [pytest.mark.e2e, pytest.mark.browser]
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
MIDDLEWARE = ["whitenoise.middleware.WhiteNoiseMiddleware", "csp.middleware.CSPMiddleware"]
LOG = ["INFO one", "INFO two", "ERROR broke", "Traceback (most recent call last):", *(f"INFO {i}" for i in range(200))]


class Server:
    """What the pages below ask for, and what a test wants answered."""

    def __init__(self) -> None:
        self.polls = 0
        self.posts = 0
        self.asked: list[str] = []
        self.status = 200
        self.finished = False
        self.release_post = threading.Event()

    def guide(self, request: HttpRequest) -> HttpResponse:
        return render(request, "styleguide.html", styleguide_samples.context(datetime.now(UTC)))

    def palette(self, request: HttpRequest) -> HttpResponse:
        names = [name for name in ("chat-0", "chat-1", "code-0") if request.GET.get("q", "") in name]
        results = [{"url": f"/found/{name}", "title": name, "kind": "instance"} for name in names]
        return render(request, "components/palette_results.html", {"results": results, "query": request.GET.get("q")})

    def live(self, request: HttpRequest) -> HttpResponse:
        return self._page(
            request,
            '<section id="run-1" {% live "/poll" "100ms" %}><details id="d"><summary>S</summary>x</details></section>',
        )

    def poll(self, request: HttpRequest) -> HttpResponse:
        self.polls += 1
        live = "" if self.finished else '{% live "/poll" "100ms" %}'
        body = f'<section id="run-1" {live}>poll {self.polls}<details id="d"><summary>S</summary>x</details></section>'
        return HttpResponse(Template(body).render(Context({})), status=self.status)

    def form(self, request: HttpRequest) -> HttpResponse:
        if request.method == "POST":
            self.posts += 1
            self.release_post.wait(10)
            return HttpResponse("sent " + request.POST.get("which", ""))
        return self._page(
            request, '<form method="post" data-once><button class="button" name="which" value="b">Send</button></form>'
        )

    def log(self, request: HttpRequest) -> HttpResponse:
        if "offset" not in request.GET:
            return self._page(request, '{% log_viewer "log-1" "/log?offset=0" %}')
        offset = int(request.GET["offset"])
        end = min(offset + 50, len(LOG))
        following = f"/log?offset={end}" if end < len(LOG) else ""
        return render(
            request, "components/log_chunk.html", {"id": "log-1", "lines": LOG[offset:end], "next_url": following}
        )

    def _page(self, request: HttpRequest, content: str) -> HttpResponse:
        source = '{% extends "base.html" %}{% block content %}' + content + "{% endblock %}"
        return HttpResponse(Template(source).render(Context({"request": request})))

    def listing(self, request: HttpRequest) -> HttpResponse:
        rows = '<div id="rows">{{ request.GET.q }} {{ request.GET.state }}</div>'
        if "HX-Request" in request.headers:
            return HttpResponse(Template(rows).render(Context({"request": request})))
        return self._page(
            request,
            '<form method="get" class="filters" hx-get="/list" hx-trigger="input delay:50ms, submit" hx-target="#rows"'
            ' hx-swap="outerMorph" hx-replace-url="true"><input type="search" name="q" aria-label="Name">'
            '<select name="state" aria-label="State"><option value=""><option>ready</select></form>' + rows,
        )

    def choose(self, request: HttpRequest) -> HttpResponse:
        if "HX-Request" in request.headers:
            self.asked.append(request.GET.urlencode())
            return HttpResponse(f'<p id="answer">{request.GET.urlencode()}</p>')
        return self._page(
            request,
            '<div id="choices" hx-get="/choose" hx-trigger="change target:select" hx-include="#choices"'
            ' hx-target="#answer" hx-swap="outerMorph"><select name="what" aria-label="What"><option value="a">a'
            '<option value="b" selected>b<option value="c">c</select>'
            '<input type="checkbox" name="gpu" value="0" checked aria-label="GPU"></div><p id="answer">nothing</p>',
        )

    def tabs(self, request: HttpRequest) -> HttpResponse:
        tabs = "".join(f'{{% tab "/tabs/{i}" "Tab number {i}" current={i == 9} %}}' for i in range(10))
        return self._page(request, f'{{% tabs "Parts" %}}{tabs}{{% endtabs %}}')

    def urls(self) -> ModuleType:
        module = ModuleType("urls_of_the_browser_tests")
        found: Callable[..., HttpResponse] = lambda request, name: HttpResponse(f"found {name}")  # noqa: E731
        module.urlpatterns = [  # type: ignore[attr-defined]
            path(
                "",
                ([path("", self.guide, name="overview"), path("palette", self.palette, name="palette")], "web", "web"),
            ),
            path("live", self.live),
            path("poll", self.poll),
            path("form", self.form),
            path("log", self.log),
            path("list", self.listing),
            path("choose", self.choose),
            path("tabs", self.tabs),
            path("found/<str:name>", found),
        ]
        return module


class _Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[Server, str]]:
    pages = Server()
    with override_settings(ROOT_URLCONF=pages.urls(), MIDDLEWARE=MIDDLEWARE):
        http = make_server("127.0.0.1", 0, WSGIHandler(), server_class=_Threaded, handler_class=_Quiet)
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield pages, f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        http.server_close()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    yield context.new_page()
    context.close()


def _complaints(page: Page) -> list[str]:
    """Collect console messages and errors, save that of the chart whose data is missing on purpose."""
    heard: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if not message.location["url"].endswith("/missing.json"):
            heard.append(f"{message.type}: {message.text}")

    page.on("console", hear)
    page.on("pageerror", lambda error: heard.append(str(error)))
    return heard


class Held:
    """Requests of a page for some address, kept back until they are let go."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._routes: list[Route] = []
        self._is_open = False
        page.route(pattern, self._hold)

    def _hold(self, route: Route) -> None:
        if self._is_open:
            route.continue_()
        else:
            self._routes.append(route)

    def let_go(self) -> None:
        self._is_open = True
        while self._routes:
            self._routes.pop().continue_()


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_style_guide_fits_the_screen_and_the_console_stays_silent(
    browser: Browser, server: tuple[Server, str], scheme: Any, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    heard = _complaints(page)
    page.goto(server[1])
    page.wait_for_load_state("networkidle")
    expect(page.locator("[data-chart] canvas")).to_have_count(3)
    expect(page.locator("[data-chart] .chart-note")).to_contain_text(["did not arrive", "Not measured: no GPU."])
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert heard == []
    context.close()


def test_a_live_part_refreshes_keeps_what_is_open_and_ends_with_the_work(
    server: tuple[Server, str], page: Page
) -> None:
    pages, address = server
    page.goto(f"{address}/live")
    page.locator("#d summary").click()
    expect(page.locator("#run-1")).to_contain_text("poll 3")
    expect(page.locator("#d")).to_have_attribute("open", "")
    expect(page.locator("#live")).to_have_text("Live")
    pages.finished = True
    expect(page.locator("#live")).to_be_hidden()
    last = pages.polls
    page.wait_for_timeout(400)
    assert pages.polls == last


def test_a_failing_poll_keeps_the_page_and_says_that_it_is_old(server: tuple[Server, str], page: Page) -> None:
    pages, address = server
    page.goto(f"{address}/live")
    expect(page.locator("#run-1")).to_contain_text("poll")
    pages.status = 500
    expect(page.locator("#live")).to_contain_text("Not updating (")
    before = page.locator("#run-1").text_content()
    page.wait_for_timeout(300)
    assert page.locator("#run-1").text_content() == before
    pages.status = 200
    expect(page.locator("#live")).to_have_text("Live")


def test_a_hidden_tab_asks_for_nothing_and_catches_up_when_seen(server: tuple[Server, str], page: Page) -> None:
    pages, address = server
    page.goto(f"{address}/live")
    expect(page.locator("#run-1")).to_contain_text("poll 1")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {get: () => window.away ?? true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    page.wait_for_timeout(150)
    asked = pages.polls
    page.wait_for_timeout(500)
    assert pages.polls == asked
    expect(page.locator("#live")).to_have_text("Paused")
    page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    expect(page.locator("#run-1")).to_contain_text(f"poll {asked + 1}")


def test_the_palette_opens_by_key_and_goes_where_the_arrows_point(server: tuple[Server, str], page: Page) -> None:
    heard = _complaints(page)
    page.goto(f"{server[1]}/live")
    page.keyboard.press("/")
    expect(page.get_by_role("option")).to_have_count(3)
    page.keyboard.type("chat")
    expect(page.get_by_role("option")).to_have_count(2)
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", selected=True)).to_contain_text("chat-1")
    assert heard == []
    page.keyboard.press("Enter")
    expect(page.locator("body")).to_have_text("found chat-1")


def test_a_form_is_sent_once_and_shows_that_it_works(server: tuple[Server, str], page: Page) -> None:
    pages, address = server
    page.goto(f"{address}/form")
    # In one call: locators would wait for the navigation that the first click starts.
    sent, rests = page.evaluate(
        """async () => {
          const button = document.querySelector("form[data-once] button");
          let sent = 0;
          document.addEventListener("submit", () => (sent += 1));
          button.click();
          button.click();
          await new Promise((resolve) => setTimeout(resolve, 50));
          return [sent, button.disabled && button.form.getAttribute("aria-busy") === "true"];
        }"""
    )
    assert (sent, rests) == (1, True)
    pages.release_post.set()
    expect(page.locator("body")).to_have_text("sent b")
    assert pages.posts == 1


def test_the_log_follows_pins_its_errors_and_can_be_searched(server: tuple[Server, str], page: Page) -> None:
    page.goto(f"{server[1]}/log")
    lines = page.locator(".log-line")
    expect(lines).to_have_count(len(LOG), timeout=15_000)
    expect(lines.last).to_be_in_viewport()
    pinned = page.locator("[data-log-pinned] button")
    expect(pinned).to_have_text(["ERROR broke"])
    page.get_by_role("searchbox", name="Search the log").fill("info two")
    expect(page.locator("[data-log-count]")).to_have_text("1 matches")
    pinned.click()
    expect(page.locator(".log-line.target")).to_be_in_viewport()
    expect(page.get_by_label("Follow")).not_to_be_checked()


def test_a_filter_updates_the_list_and_the_address(server: tuple[Server, str], page: Page) -> None:
    heard = _complaints(page)
    page.goto(f"{server[1]}/list?page=7")
    page.get_by_label("State").select_option("ready")
    page.get_by_label("Name").press_sequentially("chat")
    expect(page.locator("#rows")).to_have_text("chat ready")
    expect(page).to_have_url(f"{server[1]}/list?q=chat&state=ready")
    expect(page.get_by_label("Name")).to_be_focused()
    assert heard == []


def test_the_chosen_colours_stay_on_the_next_page(server: tuple[Server, str], page: Page) -> None:
    page.goto(f"{server[1]}/form")
    page.get_by_text("Menu", exact=True).click()
    page.get_by_role("button", name="Dark").click()
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    page.goto(f"{server[1]}/live")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_a_confirmation_opens_in_place_and_escape_takes_it_back(server: tuple[Server, str], page: Page) -> None:
    page.goto(server[1])
    page.locator("summary", has_text="Stop").click()
    expect(page.get_by_role("button", name="Stop 2 instances")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Stop 2 instances")).to_be_hidden()


@pytest.mark.parametrize("ours_too", [False, True], ids=["htmx is late", "and ours later"])
def test_what_was_chosen_before_the_scripts_ran_is_asked_for_once(
    server: tuple[Server, str], page: Page, ours_too: bool
) -> None:
    pages, address = server
    htmx, ours = Held(page, "**/htmx-4*.js"), Held(page, "**/js/forms*.js")
    page.goto(f"{address}/choose", wait_until="commit")
    page.get_by_label("What").select_option("c")
    page.get_by_label("GPU").uncheck()
    assert pages.asked == []
    if not ours_too:
        ours.let_go()
    htmx.let_go()
    expect(page.locator("#choices[data-htmx-powered]")).to_be_visible()
    ours.let_go()
    expect(page.locator("#answer")).to_have_text("what=c")
    page.wait_for_load_state("networkidle")
    assert pages.asked == ["what=c"]


def test_a_page_as_it_was_sent_asks_for_nothing_by_itself(server: tuple[Server, str], page: Page) -> None:
    pages, address = server
    page.goto(f"{address}/choose")
    page.wait_for_load_state("networkidle")
    assert pages.asked == []
    page.get_by_label("What").select_option("a")
    expect(page.locator("#answer")).to_have_text("what=a&gpu=0")
    assert pages.asked == ["what=a&gpu=0"]


def test_the_current_tab_is_in_view_on_a_narrow_screen(server: tuple[Server, str], page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{server[1]}/tabs")
    expect(page.get_by_role("link", name="Tab number 9")).to_be_in_viewport(ratio=0.99)


def test_a_copy_button_covers_no_code_on_a_narrow_screen(server: tuple[Server, str], page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(server[1])
    block = page.locator(".code-block:visible").filter(has_text="--enable-prefix-caching")
    code, button = block.locator("pre").bounding_box(), block.locator("button").bounding_box()
    assert code is not None
    assert button is not None
    assert code["x"] + code["width"] <= button["x"]
    assert button["x"] + button["width"] <= 390
