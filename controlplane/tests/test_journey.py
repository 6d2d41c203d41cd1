"""The main job as a person does it: real Postgres, Valkey, worker, vLLM and Chromium; one stack, tests in file order.

Each test goes on where the one before it stopped, since a start of vLLM takes half a minute. After each the browser
must have had nothing to complain about: no console line, no breach of the Content-Security-Policy, no failed request.
"""

import os
import re
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from controlplane.tests.browsing import NARROW, WIDE, Ear, overflow_px, sign_in
from controlplane.tests.stack_keeper import Kept

pytestmark = [pytest.mark.e2e, pytest.mark.browser, pytest.mark.vllm]

OPERATOR = "olga"
CONFIG = "journey"
WORKLOAD = "smoke-8x32"
LAUNCH_MS, STOP_MS, RUN_MS, PROMOTE_MS, PAGE_MS = 150_000, 60_000, 120_000, 90_000, 20_000
MEASURED_TRIES = 3
CRASH_SEEN_MS = 8_000  # within 5 s, and a refresh of the page


@dataclass
class Journey:
    """The operator's browser, and where the tests so far have come."""

    stack: Kept
    context: BrowserContext
    ear: Ear
    places: dict[str, str] = field(default_factory=dict)

    def url(self, path: str) -> str:
        return self.stack.address + path

    def place(self, name: str) -> str:
        assert name in self.places, f"a test before this one did not come to make {name}"
        return self.places[name]


@pytest.fixture(scope="module")
def journey(running_stack: Kept, browser: Browser) -> Iterator[Journey]:
    context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]
    context.set_default_timeout(PAGE_MS)
    expect.set_options(timeout=PAGE_MS)
    ear = Ear()
    context.on("page", ear.listen)
    yield Journey(running_stack, context, ear)
    context.close()


@pytest.fixture
def page(journey: Journey, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A tab of the operator's; with CONTROLPLANE_E2E_PICTURES a picture of where the test left it."""
    page = journey.context.new_page()
    journey.ear.heard.clear()
    yield page
    if folder := os.environ.get("CONTROLPLANE_E2E_PICTURES"):
        page.screenshot(path=Path(folder) / f"{request.node.name}.png", full_page=True)
    page.close()
    journey.ear.assert_silence()


def config_text(model: Path, *, max_model_len: str = "2048", more: str = "") -> str:
    """A config that an operator would write, with a comment to be kept."""
    return f"""\
# what the journey of the tests launches
[server]
host = "127.0.0.1"
port = {free_port()}
served_model_name = "{CONFIG}"

[model]
model_path = "{model}"
dtype = "bfloat16"
max_model_len = {max_model_len}

[batching]
max_num_seqs = 64
enable_prefix_caching = false
{more}
[engine]
enforce_eager = true
kv_cache_memory_bytes = "64M"
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def facts(within: Locator, name: str) -> Locator:
    """What stands beside `name` in a list of facts."""
    return within.locator("dt", has_text=re.compile(f"^{re.escape(name)}$")).locator("xpath=following-sibling::dd[1]")


def test_a_breach_of_the_policy_or_a_missing_file_would_be_heard(journey: Journey, browser: Browser) -> None:
    """The ear of all tests below, tested."""
    context = browser.new_context()
    page, ear = context.new_page(), Ear()
    ear.listen(page)
    page.goto(journey.url("/account/login/"))
    ear.assert_silence()
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {textContent: 'void 0'}))")
    page.evaluate("document.body.append(Object.assign(new Image(), {src: '/static/missing.png'}))")
    page.evaluate("setTimeout(() => nowhere())")
    page.wait_for_load_state("networkidle")
    heard = " ".join(ear.heard)
    for expected in (
        "console error: Executing inline script",
        "CSP: script-src",
        "status 404",
        "script error: nowhere",
    ):
        assert expected in heard
    context.close()


def test_a_new_person_signs_in_with_a_one_time_password_and_chooses_their_own(
    journey: Journey, browser: Browser
) -> None:
    admins = browser.new_context()
    admins.on("page", journey.ear.listen)
    admin = sign_in(admins, journey.stack.address, user="admin", password=journey.stack.password)
    admin.goto(journey.url("/account/people/"))
    admin.get_by_label("Name").fill(OPERATOR)
    admin.get_by_role("button", name="Add", exact=True).click()
    once = admin.locator(".notice pre").inner_text().strip()
    admins.close()

    page = sign_in(journey.context, journey.stack.address, user=OPERATOR, password=once, to="/account/")
    expect(page.get_by_text("Choose your own password first")).to_be_visible()
    page.goto(journey.url("/instances/"))
    expect(page).to_have_url(journey.url("/account/"))
    page.get_by_label("Present password").fill(once)
    for label in ("New password", "New password, again"):
        page.get_by_label(label, exact=True).fill("correct horse battery staple")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_text("Choose your own password first")).to_have_count(0)
    page.goto(journey.url("/"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Nothing is promoted yet")
    page.close()
    journey.ear.assert_silence()


def test_a_model_is_added_and_its_files_are_read_on_the_host(page: Page, journey: Journey, tiny_model: Path) -> None:
    page.goto(journey.url("/"))
    page.get_by_role("link", name="Start here").click()
    page.get_by_label("Path or repository id").fill(str(tiny_model))
    page.get_by_label("Name").fill("tiny")
    page.get_by_label("localhost").check()
    page.get_by_role("button", name="Add the model").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("tiny")
    expect(page.locator("main")).to_contain_text(re.compile(r"\w+ForCausalLM"))
    expect(page.locator("main")).to_contain_text("MiB")


def test_a_config_with_mistakes_shows_every_one_with_its_place_and_is_imported_once_right(
    page: Page, journey: Journey, tiny_model: Path
) -> None:
    right = config_text(tiny_model)
    wrong = config_text(tiny_model, max_model_len='"long"', more="max_num_seq = 8\nquantization = null\n")
    page.goto(journey.url("/configs/import/"))
    page.get_by_label("Or paste it").fill(wrong)
    page.get_by_role("button", name="Check").click()
    places = page.locator("#import-result .problem .place")
    expect(places).to_have_text(["line 10, col 17", "line 15, col 1", "line 16, col 16"])
    problems = page.locator("#import-result .problem")
    for number, word in enumerate(("max_model_len", "max_num_seqs", "null")):
        expect(problems.nth(number)).to_contain_text(word)
    with journey.ear.expecting(422), page.expect_response(lambda answer: answer.status == 422):
        page.get_by_role("button", name="Import", exact=True).click()
    expect(page.locator("#import-result")).to_contain_text("cannot be imported yet: 3 problems")
    expect(page.get_by_label("Or paste it")).to_have_value(wrong)

    page.get_by_label("Or paste it").fill(right)
    page.get_by_label("Note").fill("The first one.")
    page.get_by_role("button", name="Import", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{CONFIG} v1")
    expect(page.locator("main")).to_contain_text("# what the journey of the tests launches")
    expect(page.locator("#check")).to_contain_text("takes it")
    expect(page.locator("#check")).to_contain_text("--max-num-seqs 64")
    journey.places["v1"] = page.url


def test_the_launch_is_checked_on_the_host_and_its_story_goes_live_to_the_smoke_answer(
    page: Page, journey: Journey
) -> None:
    page.goto(journey.place("v1"))
    page.get_by_role("link", name="Launch", exact=True).click()
    choose_engine(page)
    expect(page.get_by_text("every flag is known")).to_be_visible()
    page.get_by_role("button", name="Check").click()
    preflight = page.locator("[id^=preflight-]").first
    expect(preflight).to_contain_text("It can be launched.")
    expect(preflight.locator("#check-port")).to_contain_text("passed")
    page.get_by_role("button", name="Launch", exact=True).click()
    watch_to_ready(page)
    journey.places["first"] = page.url


def choose_engine(page: Page) -> None:
    """The only one there is; the page of the version, which links here, has a field that is called alike."""
    page.wait_for_url(re.compile("/instances/launch/"))
    page.get_by_label("Engine").select_option(index=1)


def watch_to_ready(page: Page) -> None:
    """The page of an instance, without a reload from its first step to the answer of the smoke request."""
    page.wait_for_url(re.compile(r"/instances/\d+/$"))
    page.evaluate("window.notReloaded = true")
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("#step-process-done")).to_be_visible(timeout=LAUNCH_MS)
    expect(page.locator(".log-line").first).to_be_visible(timeout=LAUNCH_MS)
    expect(page.locator("#step-smoke-done")).to_be_visible(timeout=LAUNCH_MS)
    expect(page.locator(".state-line")).to_contain_text("ready")
    expect(page.locator("#step-kv_cache-done")).to_contain_text(re.compile(r"[\d,]+ tokens measured, [\d,]+ predicted"))
    smoke = page.locator("#step-smoke-done")
    expect(facts(smoke, "Prefill")).to_have_text(re.compile(r"^[1-9]\d* prompt tokens$"))
    expect(facts(smoke, "Decode")).to_have_text(re.compile(r"^[1-9]\d* completion tokens$"))
    assert page.evaluate("window.notReloaded")


def test_a_benchmark_shows_its_progress_live_and_then_its_numbers(page: Page, journey: Journey) -> None:
    page.goto(journey.place("first"))
    journey.places["run 1"] = benchmark(page)
    page.goto(journey.place("v1"))
    expect(page.locator("[id^=run-]")).to_contain_text(WORKLOAD)


def benchmark(page: Page) -> str:
    """From the page of a ready instance to a finished run; its address. Watched live, without a reload.

    A machine that is busy with other tests can slow the load generator itself: the run is then invalid and says so, and
    is measured again as a person would.
    """
    page.get_by_role("link", name="Benchmark", exact=True).click()
    for _ in range(MEASURED_TRIES):
        page.get_by_label("Workload").select_option(label=WORKLOAD)
        page.get_by_role("button", name="Start the run").click()
        page.wait_for_url(re.compile(r"/benchmarks/runs/\d+/$"))
        page.evaluate("window.notReloaded = true")
        expect(page.get_by_role("heading", name="Progress")).to_be_visible()
        expect(page.locator("#live")).to_have_text("Live")
        expect(page.get_by_role("heading", name="Progress")).to_have_count(0, timeout=RUN_MS)
        assert page.evaluate("window.notReloaded")
        if "finished" in page.locator(".state-line").inner_text():
            break
        expect(page.locator(".state-line")).to_contain_text("invalid")
        page.get_by_role("link", name="Measure again").click()
    expect(page.locator(".state-line")).to_contain_text("finished")
    figures = page.locator("dl.figures")
    expect(facts(figures, "Requests")).to_have_text(re.compile(r"^\s*16\s+ok\s*$"))
    expect(facts(figures, "Output throughput")).to_have_text(re.compile(r"^[1-9][\d,.]* tok/s$"))
    expect(facts(figures, "GPU utilisation")).to_have_text("no GPU")
    expect(page.locator("[data-chart] canvas").first).to_be_visible()
    return page.url


def test_one_changed_parameter_becomes_a_version_that_is_launched_and_measured(page: Page, journey: Journey) -> None:
    page.goto(journey.place("v1"))
    page.get_by_label("Key").fill("enable_prefix_caching")
    page.get_by_label("Value").fill("true")
    page.get_by_label("Note").last.fill("Does a shared beginning pay?")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#change-result")).to_contain_text("enable_prefix_caching")
    page.get_by_role("button", name="Save as the next version").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{CONFIG} v2")
    journey.places["v2"] = page.url
    page.get_by_role("link", name="Launch", exact=True).click()
    choose_engine(page)
    expect(page.get_by_text("every flag is known")).to_be_visible()
    page.get_by_role("button", name="Launch", exact=True).click()
    watch_to_ready(page)
    journey.places["second"] = page.url
    journey.places["run 2"] = benchmark(page)


def test_two_runs_compared_show_what_was_changed_what_it_did_and_that_one_run_is_no_verdict(
    page: Page, journey: Journey
) -> None:
    journey.place("run 1")
    page.goto(journey.place("run 2"))
    page.get_by_role("link", name=re.compile(rf"^run \d+, {CONFIG} v1$")).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("enable_prefix_caching")
    expect(page.locator(".sentence")).to_have_text("One run each: no verdict.")
    changed = page.get_by_role("region", name="What was changed")
    expect(changed.get_by_role("row")).to_have_text(
        [re.compile("Parameter"), re.compile("enable_prefix_caching.*true")]
    )
    page.get_by_text("Files side by side").click()
    expect(changed.locator("table.diff")).to_contain_text("enable_prefix_caching = true")
    row = page.locator("#side-1 tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text(re.compile("×[0-9.]+"))
    expect(row).to_contain_text("no GPU")
    expect(page.locator("[data-chart] canvas")).to_have_count(3)
    journey.places["comparison"] = page.url
    open_menu(page)
    with page.expect_download() as download:
        page.get_by_role("link", name="Table as Markdown").click()
    table = Path(download.value.path()).read_text()
    assert "| enable_prefix_caching | false | true |" in table.replace("`", "")


def open_menu(page: Page) -> None:
    page.locator("main details.menu summary").first.click()


def test_a_version_is_promoted_from_the_comparison_and_one_can_go_back(page: Page, journey: Journey) -> None:
    journey.place("run 2")
    page.goto(journey.place("first"))
    page.get_by_role("link", name="Promote", exact=True).click()
    promote(page, why="The first that serves.")
    page.goto(journey.place("comparison"))
    open_menu(page)  # the button itself promotes the faster one, whichever that is today
    page.locator("main .menu-items").get_by_role("link", name=f"Promote {CONFIG} v2").click()
    page.wait_for_url(re.compile("/environments/promote/"))
    page.get_by_label("Environment").select_option("production")
    preview = page.get_by_role("region", name="What would happen")
    expect(preview.get_by_role("row", name=re.compile("enable_prefix_caching"))).to_contain_text("true")
    promote(page, why="The shared beginning pays.")
    journey.places["promotion"] = page.url
    page.get_by_role("link", name="Back to production").click()
    journey.places["production"] = page.url
    deployment = page.locator("[id^=deployment-]").first
    expect(deployment).to_contain_text(f"v2 as {CONFIG}-v2")
    page.locator("summary", has_text="Go back to v1").click()
    expect(page.get_by_role("button", name="Go back to v1")).to_be_visible()
    page.goto(journey.place("first"))
    expect(page.locator(".state-line")).to_contain_text("stopped", timeout=STOP_MS)


def promote(page: Page, *, why: str) -> None:
    """From the form, which knows version, instance and evidence already, to the promotion that is live."""
    page.wait_for_url(re.compile("/environments/promote/"))
    expect(page.get_by_label("How")).to_contain_text("Take over")
    expect(page.get_by_role("group", name="Evidence").get_by_role("checkbox").first).to_be_checked()
    page.get_by_label("Environment").select_option("production")
    page.get_by_label("Why").fill(why)
    page.get_by_role("button", name="Promote", exact=True).click()
    page.wait_for_url(re.compile(r"/environments/promotions/\d+/$"))
    expect(page.locator(".state-line")).to_contain_text("live", timeout=PROMOTE_MS)


def test_what_serves_is_taken_out_of_service_and_is_gone(page: Page, journey: Journey) -> None:
    page.goto(journey.place("production"))
    page.locator("summary", has_text="Take out of service").click()
    page.get_by_role("button", name=re.compile(f"^Stop {CONFIG}")).click()
    page.goto(journey.place("second"))
    expect(page.locator(".state-line")).to_contain_text("stopped", timeout=STOP_MS)
    expect(page.locator("#step-end-stopped")).to_be_visible()


def test_a_cache_that_is_too_small_is_refused_fails_with_its_reason_and_is_fixed_by_a_button(
    page: Page, journey: Journey
) -> None:
    """What the check foretells comes true when a person insists; the fix leads to a launch that gets ready."""
    page.goto(journey.place("v2"))
    page.get_by_label("Key").fill("kv_cache_memory_bytes")
    page.get_by_label("Value").fill("1M")
    page.get_by_role("button", name="Save as the next version").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"{CONFIG} v3")
    page.get_by_role("link", name="Launch", exact=True).click()
    choose_engine(page)
    page.get_by_role("button", name="Check").click()
    preflight = page.locator("[id^=preflight-]").first
    expect(preflight).to_contain_text("It would be refused.")
    expect(preflight.locator("li", has_text="failed").locator(".arithmetic").first).to_be_visible()
    page.get_by_label("Why launch although a check failed").fill("To see it fail.")
    page.get_by_role("button", name="Launch", exact=True).click()
    page.wait_for_url(re.compile(r"/instances/\d+/$"))
    expect(page.locator(".state-line")).to_contain_text("failed", timeout=LAUNCH_MS)
    journey.places["failed"] = page.url
    failure = page.locator(".failure")
    expect(failure).to_contain_text("The KV cache is too small for one request of max_model_len 2048")
    expect(failure.locator(".evidence")).to_contain_text("KV cache")
    failure.get_by_role("link", name=re.compile(r"^Line \d+ of the log$")).click()
    expect(page.locator(".log-line.target")).to_be_in_viewport()

    page.locator(".failure").get_by_role("button", name=re.compile("as v4$")).first.click()
    page.wait_for_url(re.compile("/instances/launch/"))
    expect(page.get_by_label("Config version").locator("option:checked")).to_contain_text(f"{CONFIG} v4")
    expect(page.get_by_text("every flag is known")).to_be_visible()
    page.get_by_role("button", name="Launch", exact=True).click()
    watch_to_ready(page)
    journey.places["fixed"] = page.url


def test_a_killed_server_is_seen_at_once_with_what_outlived_it(page: Page, journey: Journey) -> None:
    page.goto(journey.place("fixed"))
    pid = int(facts(page.locator("main"), "PID").inner_text())
    os.kill(pid, signal.SIGKILL)
    expect(page.locator(".state-line")).to_contain_text("failed", timeout=CRASH_SEEN_MS)
    expect(page.locator("#step-end-failed")).to_contain_text("The process was killed from outside (signal 9)")
    orphans = page.get_by_role("table", name="Processes that stayed behind")
    expect(orphans).to_contain_text("VLLM::EngineCore")
    expect(orphans).to_contain_text("removed with SIGKILL")


def test_every_page_fits_a_small_screen_in_the_dark(journey: Journey, browser: Browser) -> None:
    context = browser.new_context(
        viewport=NARROW,  # type: ignore[arg-type]
        color_scheme="dark",
        storage_state=journey.context.storage_state(),
    )
    page, ear = context.new_page(), Ear()
    ear.listen(page)
    lists = ["/", "/models/", "/configs/", "/configs/import/", "/configs/what-breaks/", "/hosts/", "/instances/"]
    lists += ["/instances/launch/", "/benchmarks/", "/benchmarks/start/", "/benchmarks/workloads/", "/environments/"]
    lists += ["/environments/promote/", "/events/", "/account/", "/account/tokens/"]
    found = {}
    for address in [*map(journey.url, lists), *journey.places.values()]:
        page.goto(address)
        page.wait_for_load_state("domcontentloaded")
        found[address] = overflow_px(page)
    assert {address: px for address, px in found.items() if px > 0} == {}
    ear.assert_silence()
    context.close()
