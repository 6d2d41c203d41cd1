"""Sentences that mark code with backticks, as HTML."""

import re
from typing import Any

from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

# Two on each side in vLLM's own texts, which are reStructuredText.
_CODE = re.compile(r"(`{1,2})([^`\n]+)\1")


def with_code(text: Any) -> SafeString:
    """ "See `dmesg`." → "See <code>dmesg</code>.", all else escaped; a backtick without its partner stays as it is."""
    escaped = conditional_escape(text)
    # Escaped text has no "<": this is markup made elsewhere, whose backticks may stand in an attribute.
    if "<" in escaped:
        return escaped
    return mark_safe(_CODE.sub(r"<code>\2</code>", escaped))  # noqa: S308  # escaped above
