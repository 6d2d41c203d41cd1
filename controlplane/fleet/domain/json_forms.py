"""Checks and fixes as they are stored and answered: plain JSON."""

from collections.abc import Iterable
from typing import Any

from .failures.rule import Fix
from .preflight import Check


def fix_as_json(fix: Fix) -> dict[str, Any]:
    """`label` is the button's text; `value` None takes the key out; `also`, where there is one, is set with it."""
    form = {"label": fix.label, "verb": fix.verb, "section": fix.section, "key": fix.key, "value": fix.value}
    also = [{"section": section, "key": key, "value": value} for section, key, value in fix.also]
    return {**form, "also": also} if also else form


def fixes_as_json(fixes: Iterable[Fix]) -> list[dict[str, Any]]:
    return [fix_as_json(fix) for fix in fixes]


def check_as_json(check: Check) -> dict[str, Any]:
    return {
        "code": check.code,
        "label": check.label,
        "outcome": check.outcome,
        "sentence": check.sentence,
        "arithmetic": check.arithmetic,
        "remedy": check.remedy,
        "fixes": fixes_as_json(check.fixes),
    }
