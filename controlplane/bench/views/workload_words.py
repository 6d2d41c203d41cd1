"""What a workload sends, for people: in one sentence, and parameter by parameter with units."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from controlplane.bench.domain.workloads import DISTINCT, SHARED_PREFIX
from controlplane.core.templatetags import formats


@dataclass(frozen=True, slots=True)
class Parameter:
    """One line of the page; `key` is what the API calls it, None where a value is not set."""

    key: str
    label: str
    value: str | None


def in_words(spec: Mapping[str, Any]) -> str:
    """What a workload does, in one sentence; empty for a spec of another shape."""
    if not {"concurrency", "requests", "max_tokens", "prompt_words"} <= set(spec):
        return ""
    values = {
        name: spec.get(name) for name in ("concurrency", "requests", "max_tokens", "prompt_words", "prefix_words")
    }
    first = _("%(requests)s requests, %(concurrency)s at a time, %(max_tokens)s output tokens each.") % values
    if spec.get("kind") == SHARED_PREFIX:
        prompts = _(
            "Every prompt begins with the same %(prefix_words)s words and ends with %(prompt_words)s of its own."
        )
    else:
        prompts = _("Prompts of %(prompt_words)s words, no two with the same beginning.")
    return f"{first} {prompts % values}"


def parameters_of(spec: Mapping[str, Any]) -> Sequence[Parameter]:
    """Every parameter that shapes a request, in the order in which one asks for them; unknown ones last."""
    known = [Parameter(key, str(label), write(spec[key])) for key, label, write in _PARAMETERS if key in spec]
    others = sorted(set(spec) - {key for key, *_rest in _PARAMETERS} - {"name"})
    return [*known, *(Parameter(key, key.replace("_", " ").capitalize(), _plain(spec[key])) for key in others)]


def _kind(value: Any) -> str:
    names = {DISTINCT: _("no two begin alike"), SHARED_PREFIX: _("all begin with the same words")}
    return names.get(value, str(value))


def _requests(value: int) -> str:
    return ngettext("%(n)s request", "%(n)s requests", value) % {"n": formats.number(value)}


def _tokens(value: int) -> str:
    return ngettext("%(n)s token", "%(n)s tokens", value) % {"n": formats.number(value)}


def _tokens_each(value: int) -> str:
    return ngettext("%(n)s token a request", "%(n)s tokens a request", value) % {"n": formats.number(value)}


def _words(value: int) -> str:
    return ngettext("%(n)s word", "%(n)s words", value) % {"n": formats.number(value)}


def _aimed_tokens(value: int | None) -> str:
    return _("not aimed for: the number of words decides") if value is None else _tokens(value)


def _prefix(value: int) -> str:
    return _words(value) if value else _("none")


def _answer_end(value: bool) -> str:
    return _("always at the limit") if value else _("where the model ends it, at the limit at the latest")


def _warmup(value: int | None) -> str:
    return _("as many as are in flight at once") if value is None else _requests(value) if value else _("none")


def _plain(value: Any) -> str | None:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return formats.number(value) if isinstance(value, int | float) else None if value is None else str(value)


_PARAMETERS: Sequence[tuple[str, str | Promise, Callable[[Any], str | None]]] = (
    ("requests", gettext_lazy("Measured"), _requests),
    ("concurrency", gettext_lazy("In flight at once"), _requests),
    ("kind", gettext_lazy("Prompts"), _kind),
    ("prefix_words", gettext_lazy("Common beginning"), _prefix),
    ("prompt_words", gettext_lazy("Own words of a prompt"), _words),
    ("prompt_tokens", gettext_lazy("Prompt tokens"), _aimed_tokens),
    ("max_tokens", gettext_lazy("Limit of an answer"), _tokens),
    ("ignore_eos", gettext_lazy("An answer ends"), _answer_end),
    ("temperature", gettext_lazy("Temperature"), _plain),
    ("warmup_requests", gettext_lazy("Warm-up before it"), _warmup),
    ("warmup_tokens", gettext_lazy("Output of the warm-up"), _tokens_each),
    ("context_tokens", gettext_lazy("Needs a max_model_len of at least"), _tokens),
)
