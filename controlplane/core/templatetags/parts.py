"""Parts of pages that wrap content or render a component template. `ui` offers them as its own tags."""

from collections.abc import Iterable
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from controlplane.core.templatetags import drawings
from controlplane.core.templatetags.prose import with_code

register = template.Library()

NOTICE_LOOKS = {  # weight → class, shape, word for screen readers
    "info": ("", "ring", gettext_lazy("Note")),
    "ok": ("ok", "check", gettext_lazy("Done")),
    "success": ("ok", "check", gettext_lazy("Done")),
    "warn": ("warn", "triangle", gettext_lazy("Warning")),
    "warning": ("warn", "triangle", gettext_lazy("Warning")),
    "error": ("error", "cross", gettext_lazy("Error")),
}


# -- Blocks ----------------------------------------------------------------------------------------------------------


@register.simple_block_tag
def notice(content: str, weight: str, title: str, remedy: str = "") -> SafeString:
    """`{% notice "error" sentence remedy=remedy %}more, buttons{% endnotice %}`; weights: info, ok, warn, error.

    Backticks in `title` and `remedy` mark code.
    """
    css_class, shape, word = NOTICE_LOOKS.get(weight, NOTICE_LOOKS["info"])
    return format_html(
        '<div class="notice {}"{}>'
        '<div class="notice-title">{}<span class="visually-hidden">{}: </span>{}</div>{}{}</div>',
        css_class,
        mark_safe(' role="alert"') if css_class == "error" else "",
        format_html(
            '<span class="tone-{}">{}</span>',
            {"error": "bad", "": "work"}.get(css_class, css_class),
            drawings.shape(shape),
        ),
        word,
        with_code(title),
        format_html('<p class="remedy">{}</p>', with_code(remedy)) if remedy else "",
        content,
    )


@register.simple_block_tag
def empty_state(content: str, title: str) -> SafeString:
    """`{% empty_state _("No hosts yet") %}<p>…</p><p class="actions">…</p>{% endempty_state %}`."""
    return format_html('<div class="empty-state"><h2>{}</h2>{}</div>', title, content)


@register.simple_block_tag
def confirm(content: str, label: str, what: str, css: str = "danger") -> SafeString:
    """`{% confirm _("Stop") what=_("Stops chat-0 …") %}<form method="post" data-once>…{% endconfirm %}`.

    Opens in place. `what` names the thing and what happens to it. Beside the form's own button belongs
    `<button type="button" class="button" data-close>{% translate "Keep it" %}</button>`.
    """
    return format_html(
        '<details class="confirm"><summary class="button {}">{}</summary>'
        '<div class="confirm-body"><p>{}</p>{}</div></details>',
        css,
        label,
        what,
        content,
    )


@register.simple_block_tag
def menu(content: str, label: str = "") -> SafeString:
    """`{% menu %}<a href="…">…</a>{% copy_item text _("Copy as API call") %}{% endmenu %}`: the rarer actions."""
    return format_html(
        '<details class="menu"><summary class="button" aria-label="{}">{}</summary>'
        '<div class="menu-items">{}</div></details>',
        label or _("More actions"),
        label or "…",
        content,
    )


@register.simple_block_tag
def crumbs(content: str) -> SafeString:
    """`{% crumbs %}<li><a href="…">Hosts</a></li>{% endcrumbs %}`: the way up, without the page itself."""
    return format_html(
        '<nav class="crumbs" aria-label="{}"><ol class="crumb-list">{}</ol></nav>', _("Breadcrumbs"), content
    )


@register.simple_block_tag
def fold(content: str, label: str, is_open: bool = False) -> SafeString:
    """`{% fold _("What was held fixed") %}…{% endfold %}`: collapsed detail."""
    return format_html(
        '<details class="fold"{}><summary>{}</summary><div>{}</div></details>',
        mark_safe(" open") if is_open else "",
        label,
        content,
    )


@register.simple_tag
def copy_item(text: str, label: str) -> SafeString:
    """A menu entry that copies `text`."""
    return _copy_button("", text, label)


@register.simple_tag
def copy_button(text: str, label: str = "") -> SafeString:
    """A small button that copies `text`."""
    return _copy_button("button small", text, label or _("Copy"))


@register.simple_block_tag
def code_block(content: str, wrap: bool = False) -> SafeString:
    """`{% code_block %}{{ command }}{% endcode_block %}`: preformatted text with a copy button."""
    return format_html(
        '<div class="code-block"><pre{} tabindex="0">{}</pre>'
        '<button type="button" class="button small" data-copy-near data-done="{}">{}</button></div>',
        mark_safe(' class="wrap"') if wrap else "",
        mark_safe(content.strip()),  # noqa: S308  # rendered by the template, escaped there
        _("Copied"),
        _("Copy"),
    )


# -- Larger parts ----------------------------------------------------------------------------------------------------


@register.inclusion_tag("components/progress.html")
def progress(done: float | None, total: float | None, label: str, unit: str = "") -> dict[str, Any]:
    """`{% progress 12 64 _("requests") %}`; done None: it works, nobody knows how far."""
    return {"done": done, "total": total, "label": label, "unit": unit}


@register.inclusion_tag("components/problems.html")
def problems(items: Iterable[Any]) -> dict[str, Any]:
    """`{% problems list %}`: each with message (or sentence) and any of line, column, key, source_line, reason,
    remedy, replacement."""
    return {"problems": list(items)}


@register.inclusion_tag("components/diff.html")
def diff(rows: Iterable[Any], left: str, right: str) -> dict[str, Any]:
    """`{% diff rows "v7" "v8" %}`: rows with kind (same changed removed added skip), left_no, left, right_no, right."""
    return {"rows": list(rows), "left": left, "right": right}


@register.inclusion_tag("components/log.html")
def log_viewer(id: str, url: str, lines: Iterable[str] = (), download: str = "") -> dict[str, Any]:
    """`{% log_viewer "log-attempt-7" url %}`: follows `url` (answers `components/log_chunk.html`); "": finished."""
    return {"id": id, "url": url, "lines": lines, "download": download}


@register.inclusion_tag("components/steps.html")
def steps(items: Iterable[Any]) -> dict[str, Any]:
    """`{% steps list %}`: each with name, state, seconds, summary, detail (text); a failed step opens by itself."""
    return {"steps": list(items)}


def _copy_button(css: str, text: str, label: str) -> SafeString:
    return format_html(
        '<button type="button" class="{}" data-copy="{}" data-done="{}">{}</button>', css, text, _("Copied"), label
    )
