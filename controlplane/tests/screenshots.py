"""Pictures of every page, to be looked at: `bin/screenshots OUT_DIR`.

With a stack of its own: `empty-…` of a fresh database, `full-…` of a seeded one, `failing-…` of all that goes wrong.
With --url the pages of a running control plane as they are (`seen-…`), signed in as --user; the password is read from
--password or, so that it is on no command line, from the environment variable CONTROLPLANE_PASSWORD.

Each page is taken wide and light, and narrow and dark; a page that is wider than its screen, or that the browser
complains about, is named at the end and makes the exit status 1.
"""

# ruff: noqa: T201
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from controlplane.stack import address, programs
from controlplane.stack.paths import StatePaths
from controlplane.stack.supervisor import Supervisor
from controlplane.tests.browsing import NARROW, WIDE, Ear, launch_chromium, overflow_px, sign_in

PAGES = {
    "overview": "/",
    "models": "/models/",
    "model-add": "/models/add/",
    "configs": "/configs/",
    "config-import": "/configs/import/",
    "what-breaks": "/configs/what-breaks/",
    "flags": "/configs/flags/",
    "hosts": "/hosts/",
    "host-add": "/hosts/add/",
    "instances": "/instances/",
    "launch": "/instances/launch/",
    "runs": "/benchmarks/",
    "run-start": "/benchmarks/start/",
    "workloads": "/benchmarks/workloads/",
    "compare": "/benchmarks/compare/",
    "environments": "/environments/",
    "promote": "/environments/promote/",
    "events": "/events/",
    "account": "/account/",
    "tokens": "/account/tokens/",
    "people": "/account/people/",
    "secrets": "/account/secrets/",
    "about": "/account/about/",
    "api-docs": "/api/docs",
    "not-found": "/nowhere/",
}
# One of a kind: which page links to some (a path, or one of those before it), and what such a link looks like.
DETAILS = {
    "model": ("/models/", r"^/models/\d+/$"),
    "config": ("/configs/", r"^/configs/(?!import|what-breaks|flags|versions)[\w-]+/$"),
    "version": ("/configs/", r"^/configs/versions/\d+/$"),
    "host": ("/hosts/", r"^/hosts/\d+/$"),
    "instance": ("/instances/?state=ready", r"^/instances/\d+/$"),
    "instance-failed": ("/instances/?state=failed", r"^/instances/\d+/$"),
    "run": ("/benchmarks/", r"^/benchmarks/runs/\d+/$"),
    "workload": ("/benchmarks/workloads/", r"^/benchmarks/workloads/\d+/$"),
    "environment": ("/environments/", r"^/environments/\d+/$"),
    "engine": ("/hosts/", r"^/hosts/engines/\d+/$"),
    "version-change": ("version", r"^/configs/versions/\d+/change/"),
    "version-diff": ("config", r"^/configs/versions/\d+/diff/"),
    "launch-chosen": ("instance", r"^/instances/launch/\?"),
    "attempt": ("instance", r"^/instances/attempts/\d+/$"),
    "comparison": ("run", r"^/benchmarks/compare/\?runs="),
    "promote-chosen": ("instance", r"^/environments/promote/\?"),
    "promotion": ("environment", r"^/environments/promotions/\d+/$"),
}
LOOKS = (("wide", WIDE, "light"), ("narrow", NARROW, "dark"))
PICTURE_HEIGHT_PX = 12_000  # of a longer page the top is enough
SIZES = ("--hosts=6", "--instances=60", "--runs=240", "--measured-runs=60")
QUIET_MS = 400  # charts draw after their data came


@dataclass
class Album:
    """Where the pictures go, and what was wrong on the way."""

    folder: Path
    address: str
    complaints: list[str] = field(default_factory=list)

    def take(self, browser: Browser, state: dict[str, object], pages: Mapping[str, str], prefix: str) -> None:
        """All `pages` (name → path) in every look."""
        for look, viewport, scheme in LOOKS:
            context = browser.new_context(viewport=viewport, color_scheme=scheme, storage_state=state)  # type: ignore[arg-type]
            page, ear = context.new_page(), Ear()
            ear.listen(page)
            for name, path in pages.items():
                with ear.expecting(404):
                    self._one(page, ear, f"{prefix}-{name}-{look}", path)
            context.close()

    def _one(self, page: Page, ear: Ear, name: str, path: str) -> None:
        page.goto(self.address + path)
        page.wait_for_load_state("load")
        page.wait_for_timeout(QUIET_MS)
        height = min(int(page.evaluate("document.documentElement.scrollHeight")), PICTURE_HEIGHT_PX)
        width = page.viewport_size["width"] if page.viewport_size else WIDE["width"]
        page.screenshot(
            path=self.folder / f"{name}.png",
            full_page=True,
            clip={"x": 0, "y": 0, "width": width, "height": height},
            animations="disabled",
        )
        if (excess := overflow_px(page)) > 0:
            self.complaints.append(f"{name}: {excess} px wider than the screen ({path})")
        self.complaints += [f"{name}: {heard}" for heard in ear.heard]
        ear.heard.clear()


def details(context: BrowserContext, address: str) -> dict[str, str]:
    """Path of the first of every kind that a list links to; kinds of which there is none are left out."""
    page = context.new_page()
    found: dict[str, str] = {}
    for name, (where, pattern) in DETAILS.items():
        path = found.get(where, where)
        if not path.startswith("/"):
            continue
        page.goto(address + path)
        links: list[str] = page.eval_on_selector_all("main a", "all => all.map((a) => a.getAttribute('href') || '')")
        if link := next((link for link in links if re.match(pattern, link)), None):
            found[name] = link
    page.close()
    return found


@contextmanager
def own_stack() -> Iterator[tuple[str, str]]:
    """Address and administrator's password of the pages alone, on the servers of `with_services`.

    No worker and no clock changes what is to be looked at.
    """
    with tempfile.TemporaryDirectory(prefix="vcp-pictures-") as folder:
        os.environ["CONTROLPLANE_STATE_DIR"] = folder
        paths = StatePaths(Path(folder))
        paths.make()
        done = subprocess.run(
            [sys.executable, "-m", "controlplane.stack.prepare", "tables", "admin", "steps"],
            cwd=programs.REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        password = re.search(r'"admin_password": "([^"]+)"', done.stdout)
        assert password is not None, done.stdout
        listening = address.listen("127.0.0.1", 0)
        with Supervisor(print) as supervisor:
            environment = {**os.environ, **listening.environment(os.environ)}
            supervisor.start(
                programs.web(paths, environment, listening=listening.socket.fileno(), is_ready=listening.readiness())
            )
            yield listening.url.rstrip("/"), password[1]


def manage(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=programs.REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def failing_pages() -> dict[str, str]:
    """Make what goes wrong, in a process of its own that has Django."""
    code = "import json; from controlplane.tests import failing_rows; print(json.dumps(failing_rows.make()))"
    pages: dict[str, str] = json.loads(manage("shell", "--no-imports", "-c", code).splitlines()[-1])
    return pages


def take_everything(browser: Browser, folder: Path) -> list[str]:
    with own_stack() as (url, password):
        album = Album(folder, url)
        context = browser.new_context()
        album.take(browser, {}, {"login": "/account/login/"}, "empty")
        sign_in(context, url, user="admin", password=password)
        state = dict(context.storage_state())
        album.take(browser, state, {**PAGES, **details(context, url)}, "empty")
        pages = failing_pages()
        lists = ("overview", "hosts", "instances", "configs", "what-breaks", "runs", "environments", "events")
        album.take(browser, state, {**{name: PAGES[name] for name in lists}, **pages}, "failing")
        manage("seed_large", "--force", *SIZES)
        album.take(browser, state, {**PAGES, **details(context, url)}, "full")
        return album.complaints


def take_running(browser: Browser, folder: Path, url: str, user: str, password: str) -> list[str]:
    album = Album(folder, url)
    context = browser.new_context()
    sign_in(context, url, user=user, password=password)
    album.take(browser, dict(context.storage_state()), {**PAGES, **details(context, url)}, "seen")
    return album.complaints


def main() -> int:
    parser = argparse.ArgumentParser(prog="bin/screenshots", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url", help="a running control plane; without it one is made for this")
    parser.add_argument("--user", default="admin")
    parser.add_argument("--password", default=os.environ.get("CONTROLPLANE_PASSWORD", ""))
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        if chosen.url:
            complaints = take_running(browser, chosen.folder, chosen.url.rstrip("/"), chosen.user, chosen.password)
        else:
            complaints = take_everything(browser, chosen.folder)
    print(f"{len(list(chosen.folder.glob('*.png')))} pictures in {chosen.folder}")
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
