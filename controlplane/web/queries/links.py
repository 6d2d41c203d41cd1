"""Addresses of pages that other apps own."""

from django.db.models import Model
from django.urls import NoReverseMatch, reverse


def page_url(name: str, thing: Model | None = None) -> str:
    """The address of the page `name` (of `thing`), or "" where this installation has no such page."""
    try:
        return reverse(name, args=[] if thing is None else [thing.pk])
    except NoReverseMatch:
        return ""
