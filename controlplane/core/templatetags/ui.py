"""Template tags of every page; a builtin library, so templates load nothing. Recipe: docs/internals/pages.md."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django import template
from django.http import HttpRequest
from django.template.context import Context
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from controlplane.core import event_words as events_in_words
from controlplane.core.templatetags import drawings, figures, formats, parts, prose
from controlplane.core.templatetags.states import look_of

register = template.Library()
register.tags.update(parts.register.tags)

NAV = (
    ("web:overview", gettext_lazy("Overview")),
    ("inventory:model_list", gettext_lazy("Models")),
    ("configs:config_list", gettext_lazy("Configs")),
    ("inventory:host_list", gettext_lazy("Hosts")),
    ("fleet:instance_list", gettext_lazy("Instances")),
    ("bench:run_list", gettext_lazy("Benchmarks")),
    ("release:environment_list", gettext_lazy("Environments")),
    ("ops:event_list", gettext_lazy("Events")),
    ("accounts:settings", gettext_lazy("Settings")),
)


# -- Figures as text -------------------------------------------------------------------------------------------------


def _measured(value: Any, write: Callable[[Any], str]) -> str:
    """`write(value)`, or the dash of what was not measured."""
    return missing() if formats.is_missing(value) else write(value)


@register.simple_tag
def missing() -> SafeString:
    """The dash for a value nobody measured."""
    return format_html('<span class="missing" title="{}">{}</span>', _("not measured"), formats.DASH)


@register.filter
def dash(value: Any) -> Any:
    """`{{ value|dash }}`: the value, or the dash when it is None or empty. Zero stays zero."""
    return _measured(value, lambda known: known)


@register.filter
def num(value: float | None, decimals: int | None = None) -> str:
    """`{{ n|num }}` or `{{ n|num:1 }}`: a number with thousands separated."""
    return _measured(value, lambda known: formats.number(known, decimals))


@register.filter(name="bytes")
def binary_size(value: float | None) -> str:
    """`{{ size_bytes|bytes }}`: "79.6 GiB"."""
    return _measured(value, formats.binary_size)


@register.filter
def ms(value: float | None) -> str:
    """`{{ ttft_ms|ms }}`: "412 ms", "1.20 s"."""
    return _measured(value, formats.milliseconds)


@register.filter
def seconds(value: float | None) -> str:
    """`{{ ready_s|seconds }}`: "4.21 s", "1 min 35 s"."""
    return _measured(value, formats.seconds)


@register.filter
def ratio(value: float | None) -> str:
    """`{{ gain|ratio }}`: "×1.25"."""
    return _measured(value, formats.ratio)


@register.filter
def percent(value: float | None) -> str:
    """`{{ share|percent }}`, of a share between 0 and 1: "41 %"."""
    return _measured(value, formats.percent)


@register.filter
def ago(value: datetime | None) -> str:
    """`{{ at|ago }}`: "3 min ago", the exact time on hover."""
    return _told(value, formats.relative_time)


@register.filter
def lasting(value: datetime | None) -> str:
    """`{{ state_since|lasting }}`: "for 3 min", the exact time of its beginning on hover."""
    return _told(value, formats.lasting)


def _told(value: datetime | None, words: Callable[[datetime, datetime], str]) -> str:
    """A time in `words(time, now)`."""
    if value is None:
        return missing()
    local = timezone.localtime(value)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        value.isoformat(),
        local.strftime("%Y-%m-%d %H:%M:%S %Z"),
        words(local, timezone.localtime()),
    )


@register.filter
def exact(value: datetime | None) -> str:
    """`{{ at|exact }}`: "2026-11-29 13:20:19", for tables of events."""
    if value is None:
        return missing()
    local = timezone.localtime(value)
    return format_html('<time datetime="{}">{}</time>', value.isoformat(), local.strftime("%Y-%m-%d %H:%M:%S"))


@register.filter
def with_code(text: Any) -> SafeString:
    """`{{ problem.remedy|with_code }}`: a sentence of ours, its backticks as <code>; None is nothing. Cut it after."""
    return prose.with_code("" if text is None else text)


@register.filter
def event_words(name: str) -> str:
    """`{{ event.name|event_words }}`: "Instance failed"; the name itself belongs into the `title`."""
    return events_in_words.words_of(name)


@register.filter
def event_details(data: Mapping[str, Any]) -> list[str]:
    """`{% for detail in event.data|event_details %}`: "role: admin"."""
    return events_in_words.details_of(data)


@register.filter
def log_level(line: str) -> str:
    """`{{ line|log_level }}`: error, warning, info, debug or "" for a line of an engine's log."""
    return formats.log_level(line)


# -- States and figures ----------------------------------------------------------------------------------------------


@register.simple_tag
def state(name: str, word: str = "", title: str = "") -> SafeString:
    """`{% state instance.state %}`: shape, word and colour. `word` replaces the word, `title` explains on hover."""
    look = look_of(name)
    return format_html(
        '<span class="state tone-{}"{}>{}{}</span>',
        look.tone,
        format_html(' title="{}"', title) if title else "",
        drawings.shape(look.shape),
        word or look.word,
    )


@register.simple_tag
def state_mark(name: str) -> SafeString:
    """The shape alone, with the word as its hidden text: where the word stands beside it anyway."""
    look = look_of(name)
    return format_html(
        '<span class="state tone-{}">{}<span class="visually-hidden">{}</span></span>',
        look.tone,
        drawings.shape(look.shape),
        look.word,
    )


@register.simple_tag
def square(name: str, label: str, href: str = "") -> SafeString:
    """`{% square i.state i.name href=url %}`: an instance in a row of `<span class="squares">`."""
    drawing = drawings.square(name, f"{label}: {look_of(name).word}")
    return format_html('<a href="{}">{}</a>', href, drawing) if href else drawing


@register.simple_tag
def sparkline(values: Sequence[float | None], label: str = "", width: int = 96, height: int = 20) -> SafeString:
    """`{% sparkline values _("TTFT p99, last hour") %}`: between its own minimum and maximum; None leaves a gap."""
    return drawings.sparkline(values, label, width, height) or missing()


@register.simple_tag
def meter(used: float | None, total: float | None, label: str = "", width: int = 72) -> SafeString:
    """`{% meter used total _("KV cache") %}`: a bar and the percentage."""
    if used is None or not total:
        return missing()
    share = figures.share_of(used, total)
    text = formats.percent(share)
    drawing = drawings.bar(share, width, f"{label}: {text}" if label else text)
    return format_html('<span class="meter">{}<span class="num">{}</span></span>', drawing, text)


@register.simple_tag
def gpu_cell(  # one argument per thing the cell shows
    label: str,
    used: float | None = None,
    total: float | None = None,
    utilisation: float | None = None,
    foreign: bool = False,
    unreachable: bool = False,
    href: str = "",
) -> SafeString:
    """`{% gpu_cell label used=bytes total=bytes utilisation=0.4 foreign=True %}`, inside `<div class="gpu-cells">`."""
    drawing = drawings.gpu_cell(
        used_bytes=used,
        total_bytes=total,
        utilisation=utilisation,
        foreign=foreign,
        unreachable=unreachable,
        label=label,
    )
    return format_html('<a href="{}">{}</a>', href, drawing) if href else drawing


@register.simple_tag
def gpu_cells(gpus: Iterable[Any], unreachable: bool = False, href: str = "") -> SafeString:
    """`{% gpu_cells host.accelerators.all unreachable=host.is_out_of_sight href=url %}`: a `gpu_cell` for each."""
    cells = (
        gpu_cell(
            gpu.label,
            used=gpu.memory_used_bytes,
            total=gpu.memory_total_bytes,
            utilisation=gpu.utilisation,
            foreign=gpu.has_foreign_process,
            unreachable=unreachable,
            href=href,
        )
        for gpu in gpus
    )
    return format_html('<div class="gpu-cells">{}</div>', mark_safe("".join(cells)))  # noqa: S308  # our own markup


@register.simple_tag
def interval_bar(
    low: float | None,
    mid: float | None,
    high: float | None,
    scale: tuple[float, float],
    verdict: str = "",
    reference: float = 1.0,
    width: int = 140,
) -> SafeString:
    """`{% interval_bar low mid high scale=scale verdict="better" %}`: ratios on the scale common to all rows.

    `scale` is (start, end); `figures.common_scale` makes one from all bounds.
    """
    if low is None or mid is None or high is None:
        return missing()
    return drawings.interval_bar(low, mid, high, scale=scale, reference=reference, verdict=verdict, width=width)


@register.simple_tag
def chart(kind: str, source: str, label: str, empty: str = "") -> SafeString:
    """`{% chart "line" series_url _("…") %}` or `{% chart "cdf" "#script-id" _("…") %}`; kinds: line, cdf, scatter.

    `source` is a URL or "#" + the id of a `json_script`. The shapes are in docs/internals/pages.md. `empty` is said
    instead of a drawing without a line; it tells why, where that is known.
    """
    return format_html(
        '<div class="chart" data-chart="{}" data-src="{}" role="img" aria-label="{}" data-empty="{}" data-failed="{}">'
        "</div>",
        kind,
        source,
        label,
        empty or _("Not measured."),
        _("The data for this chart did not arrive. Reload the page to try again."),
    )


# -- Navigation, lists -----------------------------------------------------------------------------------------------


@register.simple_tag(takes_context=True)
def nav_items(context: Context) -> list[dict[str, Any]]:
    """The main navigation: the areas that this installation has, the current one marked."""
    path = _path_of(context)
    items = []
    for name, label in NAV:
        url = url_or_none(name)
        if url is not None:
            items.append({"url": url, "label": label, "current": _area_of(path) == _area_of(url)})
    return items


@register.simple_tag
def url_or_none(name: str) -> str | None:
    """`{% url_or_none "web:palette" as palette_url %}`: the address, or None where no page of this name exists."""
    try:
        return reverse(name)
    except NoReverseMatch:
        return None


@register.simple_tag(takes_context=True)
def sort_header(context: Context, key: str, label: str, numeric: bool = False, unit: str = "") -> SafeString:
    """`{% sort_header "ttft" _("TTFT p99") numeric=True unit="ms" %}`: a `<th>` that sorts by `?sort=ttft` or `-ttft`.

    A first click sorts numbers downwards and words upwards; the other parameters stay, the page number goes.
    """
    request: HttpRequest | None = context.get("request")
    query = request.GET.copy() if request else None
    current = query.get("sort", "") if query is not None else ""
    direction = {key: "ascending", f"-{key}": "descending"}.get(current)
    first = f"-{key}" if numeric else key
    wanted = first if direction is None else (key if direction == "descending" else f"-{key}")
    if query is not None:
        query.pop("page", None)
        query["sort"] = wanted
    return format_html(
        '<th scope="col"{}{}><a class="sort" href="?{}">{}{}{}</a></th>',
        mark_safe(' class="num"') if numeric else "",
        format_html(' aria-sort="{}"', direction) if direction else "",
        query.urlencode() if query is not None else f"sort={wanted}",
        label,
        format_html(' <span class="unit">{}</span>', unit) if unit else "",
        mark_safe(f'<span aria-hidden="true">{"↑" if direction == "ascending" else "↓"}</span>') if direction else "",  # noqa: S308
    )


@register.inclusion_tag("components/pager.html", takes_context=True)
def pager(context: Context, page: Any) -> dict[str, Any]:
    """`{% pager page %}` for a `core.paging.Page`; the links keep the query."""
    return {"page": page, "previous": _query(context, page.number - 1), "next": _query(context, page.number + 1)}


@register.simple_tag(takes_context=True)
def tab(context: Context, url: str, label: str, count: int | None = None, current: bool | None = None) -> SafeString:
    """`{% tab url _("Versions") count=3 %}` inside `{% tabs %}`; current when its path is the page's, unless told."""
    is_current = _path_of(context) == url.partition("?")[0] if current is None else current
    return format_html(
        '<li><a href="{}"{}>{}{}</a></li>',
        url,
        mark_safe(' aria-current="page"') if is_current else "",
        label,
        format_html(' <span class="count">{}</span>', formats.number(count)) if count is not None else "",
    )


@register.simple_block_tag
def tabs(content: str, label: str) -> SafeString:
    """`{% tabs _("Parts of this config") %}{% tab … %}{% endtabs %}`."""
    return format_html('<nav class="tabs" aria-label="{}"><ul class="tab-list">{}</ul></nav>', label, content)


@register.simple_tag
def live(url: str, every: str = "2s") -> SafeString:
    """`<section id="instance-3" {% live url %}>`: refresh this element while the tab is visible.

    The server answers with the same element; without this tag in it once the thing is finished, which ends the polling.
    """
    return format_html('hx-get="{}" hx-trigger="every {}" hx-swap="outerMorph"', url, every)


def _area_of(path: str) -> str:
    """The first segment: /benchmarks/runs/3/ and /benchmarks/ are one area."""
    return path.lstrip("/").partition("/")[0]


def _path_of(context: Context) -> str:
    request: HttpRequest | None = context.get("request")
    return request.path if request else ""


def _query(context: Context, page: int) -> str:
    request: HttpRequest | None = context.get("request")
    if request is None:
        return f"page={page}"
    query = request.GET.copy()
    query["page"] = str(page)
    return query.urlencode()
