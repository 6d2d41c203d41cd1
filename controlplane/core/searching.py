"""What the queries behind lists share: search words that Postgres takes, and orders that a page may ask for."""

from collections.abc import Mapping
from typing import TypeVar

from django.db.models import F, Model, QuerySet

M = TypeVar("M", bound=Model)


def clean(text: str) -> str:
    """Postgres does not take NUL, and nothing it holds has one."""
    return text.replace("\x00", "").strip()


def ordered(
    found: QuerySet[M], sort: str, sorts: Mapping[str, tuple[str, ...]], *, default: str = "", tie: str = "-pk"
) -> QuerySet[M]:
    """`found` by the columns that `sort` ("name", or "-name" for the other way round) has in `sorts`.

    Anything else means `default`, or without one `tie` alone. Unknown values come last either way.
    """
    if sort.removeprefix("-") not in sorts:
        sort = default
    if not sort:
        return found.order_by(tie)
    first, *rest = sorts[sort.removeprefix("-")]
    order = F(first).desc(nulls_last=True) if sort.startswith("-") else F(first).asc(nulls_last=True)
    return found.order_by(order, *rest, tie)
