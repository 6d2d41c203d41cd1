"""The tags and the shared templates, rendered."""

import re
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpResponse
from django.template import Context, Template
from django.template.loader import render_to_string
from django.test import RequestFactory, override_settings
from django.urls import path
from django.utils.safestring import mark_safe

from controlplane.core.paging import Page
from controlplane.core.tests import styleguide_samples

NOW = datetime(2026, 11, 29, 13, 20, 19, tzinfo=UTC)
SHARED = sorted((Path(settings.BASE_DIR) / "templates").rglob("*.html"))


def _urls() -> ModuleType:
    module = ModuleType("urls_with_two_areas")
    view = lambda request: HttpResponse()  # noqa: E731
    module.urlpatterns = [  # type: ignore[attr-defined]
        path("", ([path("", view, name="overview")], "web", "web")),
        path("hosts/", ([path("", view, name="host_list")], "inventory", "inventory")),
    ]
    return module


@pytest.fixture(autouse=True)
def _two_areas() -> Any:
    with override_settings(ROOT_URLCONF=_urls()):
        yield


def render(source: str, address: str = "/", **values: Any) -> str:
    request = RequestFactory().get(address)
    return Template(source).render(Context({"request": request, **values}))


@pytest.mark.parametrize("tag", ["num", "num:1", "bytes", "ms", "seconds", "ratio", "percent", "ago", "exact", "dash"])
def test_every_filter_shows_a_dash_for_what_was_not_measured(tag: str) -> None:
    assert render(f"{{{{ value|{tag} }}}}", value=None) == '<span class="missing" title="not measured">–</span>'


def test_zero_is_a_value_and_no_dash() -> None:
    assert render("{{ 0|num }} {{ 0|bytes }} {{ 0|ms }} {{ 0|dash }}") == "0 0 B 0 ms 0"


def test_a_state_has_a_shape_a_word_and_a_tone() -> None:
    html = render('{% state "failed" %}')
    assert "tone-bad" in html
    assert "<svg" in html
    assert "failed</span>" in html


def test_a_state_that_nobody_described_keeps_its_word() -> None:
    assert "hibernating</span>" in render('{% state "hibernating" %}')


def test_what_people_typed_is_escaped_everywhere() -> None:
    evil = '<script>"'
    html = render(
        "{% state x %}{% state_mark x %}{% square x x %}{% copy_item x x %}{% copy_button x x %}{% sort_header x x %}"
        "{% notice x x remedy=x %}{{ x }}{% endnotice %}{% confirm x what=x %}{{ x }}{% endconfirm %}{% live x %}"
        "{% tabs x %}{% tab x x %}{% endtabs %}{% code_block %}{{ x }}{% endcode_block %}{% chart x x x %}"
        "{% sparkline numbers x %}{% meter 1 2 x %}{% gpu_cell x %}{% empty_state x %}{{ x }}{% endempty_state %}"
        "{% log_viewer x x texts x %}{% steps parts %}{% problems parts %}{% diff parts x x %}{% progress 1 2 x %}"
        "{% fold x %}{{ x }}{% endfold %}{% menu x %}{{ x }}{% endmenu %}{% crumbs %}{{ x }}{% endcrumbs %}",
        x=evil,
        numbers=[1, 2],
        texts=[evil],
        parts=[dict.fromkeys(("name", "state", "detail", "message", "source_line", "left", "right"), evil)],
    )
    assert "<script" not in html
    assert "&amp;lt;" not in html  # and only once


def test_gpu_cells_show_each_gpu_with_its_marks() -> None:
    facts = {"memory_used_bytes": 40, "memory_total_bytes": 80, "utilisation": 1.0}
    ours = SimpleNamespace(label="<GPU 0>", has_foreign_process=False, **facts)
    theirs = SimpleNamespace(label="GPU 1", has_foreign_process=True, **facts)
    html = render('{% gpu_cells gpus href="/hosts/1/" %}', gpus=[ours, theirs])
    first, second = html.removeprefix('<div class="gpu-cells">').split("</a>")[:2]
    assert '<a href="/hosts/1/"><svg' in first
    assert "&lt;GPU 0&gt;" in first
    assert 'class="gpu-level-3" x="1" y="17" width="16" height="16"' in first
    assert ("gpu-hatch" in first, "gpu-hatch" in second) == (False, True)
    unseen = render("{% gpu_cells gpus unreachable=True %}", gpus=[theirs])
    assert ("gpu-cross" in unseen, "gpu-level" in unseen, "<a" in unseen) == (True, False, False)


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("See `dmesg`, then `nvidia-smi -q`.", "See <code>dmesg</code>, then <code>nvidia-smi -q</code>."),
        ("As ``--max-model-len`` says.", "As <code>--max-model-len</code> says."),
        ('Use `<script>"&`.', "Use <code>&lt;script&gt;&quot;&amp;</code>."),
        ("<b>`x`</b>", "&lt;b&gt;<code>x</code>&lt;/b&gt;"),
        ("A lone ` stays.", "A lone ` stays."),
        ("Empty `` stays.", "Empty `` stays."),
        (None, ""),
        (mark_safe('<a title="`x`">'), '<a title="`x`">'),
        (mark_safe("a &lt; `b`"), "a &lt; <code>b</code>"),
    ],
)
def test_backticks_in_a_sentence_are_code_and_everything_is_escaped_first(text: str | None, html: str) -> None:
    assert render("{{ text|with_code }}", text=text) == html


def test_a_cut_sentence_keeps_its_code_whole() -> None:
    assert render("{{ text|with_code|truncatechars_html:7 }}", text="See `dmesg`.") == "See <code>dm…</code>"


def test_notices_and_problems_show_code() -> None:
    problem = {"message": "`a` is gone", "reason": "since `b`", "remedy": "write `c`"}
    html = render('{% notice "error" "run `d`" remedy="see `e`" %}{% problems p %}{% endnotice %}', p=[problem])
    assert re.findall("<code>(.)</code>", html) == ["d", "e", "a", "b", "c"]
    assert "`" not in html


def test_sorting_keeps_the_filter_and_forgets_the_page() -> None:
    html = render('{% sort_header "name" "Name" %}', "/?q=chat&page=3")
    assert 'href="?q=chat&amp;sort=name"' in html
    assert "aria-sort" not in html


@pytest.mark.parametrize(
    ("address", "numeric", "wanted", "direction"),
    [
        ("/", False, "ttft", None),
        ("/", True, "-ttft", None),
        ("/?sort=ttft", True, "-ttft", "ascending"),
        ("/?sort=-ttft", True, "ttft", "descending"),
        ("/?sort=name", True, "-ttft", None),
    ],
)
def test_a_header_sorts_numbers_downwards_first_and_then_turns_around(
    address: str, numeric: bool, wanted: str, direction: str | None
) -> None:
    html = render('{% sort_header "ttft" "TTFT" numeric=n %}', address, n=numeric)
    assert f'href="?sort={wanted}"' in html
    assert (f'aria-sort="{direction}"' in html) is (direction is not None)


def _page(number: int, total: int, *, exact: bool = True) -> Page[Any]:
    return Page(items=[None] * min(50, total), number=number, size=50, total=total, total_is_exact=exact)


def test_the_pager_says_which_rows_and_keeps_the_filter() -> None:
    html = render("{% pager page %}", "/?q=x&page=2", page=_page(2, 1204))
    assert "51–100 of 1,204" in html
    assert 'rel="prev" href="?q=x&amp;page=1"' in html
    assert 'rel="next" href="?q=x&amp;page=3"' in html


def test_the_pager_says_when_it_did_not_count_to_the_end() -> None:
    assert "of more than 10,000" in render("{% pager page %}", page=_page(1, 10_000, exact=False))


def test_a_single_page_has_no_links_and_an_empty_one_no_pager() -> None:
    assert "<a" not in render("{% pager page %}", page=_page(1, 3))
    assert render("{% pager page %}", page=_page(1, 0)).strip() == ""


def test_the_navigation_shows_only_what_exists_and_marks_where_we_are() -> None:
    html = render_to_string("base.html", {}, request=RequestFactory().get("/hosts/3/"))
    assert '<a href="/hosts/" aria-current="page">Hosts</a>' in html
    assert '<a href="/">Overview</a>' in html
    assert "Benchmarks" not in html
    assert "data-palette-open" not in html


@pytest.mark.parametrize("code", ["400", "403", "404", "500", "403_csrf"])
def test_an_error_page_needs_neither_request_nor_user_and_says_what_to_do(code: str) -> None:
    html = render_to_string(f"{code}.html")
    assert html.count("<h1>") == 1
    assert '<a class="button primary"' in html


def test_a_log_chunk_moves_the_poll_on_until_the_log_has_ended() -> None:
    going = render_to_string(
        "components/log_chunk.html", {"id": "log-7", "lines": ["ERROR x"], "next_url": "/log?offset=9"}
    )
    assert 'data-level="error">ERROR x</span>' in going
    assert 'id="log-7-next" hidden hx-swap-oob="true" hx-get="/log?offset=9"' in going
    assert "hx-get" not in render_to_string("components/log_chunk.html", {"id": "log-7", "lines": [], "next_url": ""})


def test_the_style_guide_renders_every_component() -> None:
    request = RequestFactory().get("/styleguide")
    request.user = AnonymousUser()
    html = render_to_string("styleguide.html", styleguide_samples.context(NOW), request=request)
    for part in (
        "steps",
        "problems",
        "diff",
        "log",
        "gpu-strip",
        "squares",
        "notice",
        "confirm",
        "chart",
        "progress",
        "empty-state",
    ):
        assert f'"{part}' in html, part


@pytest.mark.parametrize("template", SHARED, ids=lambda p: str(p.relative_to(settings.BASE_DIR / "templates")))
def test_no_template_needs_what_the_content_security_policy_forbids(template: Path) -> None:
    text = template.read_text()
    assert not re.search(
        r"\sstyle=|\son[a-z]+=|hx-on|hx-confirm|[\"']js:|javascript:|https?://(?!www\.w3\.org)[a-z]", _prose(text)
    )
    for script in re.findall(r"<script[^>]*>", text):
        assert " src=" in script, script


def _prose(text: str) -> str:
    """Without comments and without sample texts in tag arguments, which are shown and not run."""
    return re.sub(r"\{% comment %\}.*?\{% endcomment %\}|\{% copy_\w+ .*?%\}", "", text, flags=re.S)
