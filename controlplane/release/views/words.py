"""What several pages say alike."""

from django.http import HttpRequest
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

MEASURE_WORDS: dict[str, tuple[str | Promise, str]] = {
    "output_throughput": (_("Output throughput"), "tok/s"),
    "ttft_ms_p50": (_("TTFT p50"), "ms"),
    "ttft_ms_p99": (_("TTFT p99"), "ms"),
    "tpot_ms_p50": (_("TPOT p50"), "ms"),
    "e2el_ms_p99": (_("E2EL p99"), "ms"),
}
"""Measure of a run → what it is called, and its unit."""


def api_call(request: HttpRequest, path: str) -> str:
    """The same by API, for the menu."""
    return f"curl -H 'Authorization: Bearer …' {request.build_absolute_uri(f'/api/v1/{path}')}"
