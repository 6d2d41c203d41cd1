"""A person's browser on a running stack, and an ear for everything that a page must not do."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Playwright, Request, Response

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 390, "height": 844}
# A page that is left takes its running requests along.
LEFT_BEHIND = "net::ERR_ABORTED"
# The browser's own line about a response that is heard as a response; and its hint about a form without a password.
ECHO = "Failed to load resource: the server responded with a status of"


def launch_chromium(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


@dataclass
class Ear:
    """What pages complained about: console lines, script errors, issues of the Content-Security-Policy, failed requests
    and refused ones (status 400 and above) that were not `expected`."""

    heard: list[str] = field(default_factory=list)
    _expected: set[int] = field(default_factory=set)

    def listen(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.heard.append(f"script error: {error}"))
        page.on("requestfailed", self._failed)
        page.on("response", self._response)
        devtools = page.context.new_cdp_session(page)
        devtools.on("Audits.issueAdded", self._issue)
        devtools.send("Audits.enable")

    @contextmanager
    def expecting(self, *statuses: int) -> Iterator[None]:
        """Answers with these statuses are what is being tested."""
        self._expected |= set(statuses)
        yield
        self._expected -= set(statuses)

    def assert_silence(self) -> None:
        assert not self.heard, "\n".join(self.heard)

    def _console(self, message: ConsoleMessage) -> None:
        if not message.text.startswith(ECHO):
            self.heard.append(f"console {message.type}: {message.text} ({message.location['url']})")

    def _failed(self, request: Request) -> None:
        if request.failure != LEFT_BEHIND:
            self.heard.append(f"request failed: {request.url}: {request.failure}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and response.status not in self._expected:
            self.heard.append(f"status {response.status}: {response.request.method} {response.url}")

    def _issue(self, event: dict[str, Any]) -> None:
        issue = event["issue"]
        if issue["code"] == "ContentSecurityPolicyIssue":
            details = issue["details"]["contentSecurityPolicyIssueDetails"]
            self.heard.append(f"CSP: {details['violatedDirective']} {details.get('blockedURL', 'inline')}")


def sign_in(context: BrowserContext, address: str, *, user: str, password: str, to: str = "/") -> Page:
    """A tab that has signed in and was led to the page `to`."""
    page = context.new_page()
    page.goto(address)
    page.get_by_label("Name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(address + to)
    return page


def overflow_px(page: Page) -> int:
    """How much wider the page is than the screen. Tables scroll inside their own box and do not count."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))
