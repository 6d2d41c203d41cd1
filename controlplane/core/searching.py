"""What the queries behind lists share: search words that Postgres takes, and orders that a page may ask for."""

from collections.abc import Mapping
from typing import TypeVar

from django.db.models import CharField, F, Func, Model, QuerySet

M = TypeVar("M", bound=Model)


def clean(text: str) -> str:
    """Postgres does not take NUL, and nothing it holds has one."""
    return text.replace("\x00", "").strip()


class Natural(Func):
    """A name as people order it, gpu2 before gpu10: for `order_by`. Numbers of more than nine digits are text.

    An ICU collation would do the same; the embedded Postgres is built without ICU.
    """

    template = r"regexp_replace(regexp_replace(%(expressions)s, '(\d+)', '00000000\1', 'g'), '0*(\d{9})', '\1', 'g')"
    output_field = CharField()


Sorts = Mapping[str, tuple[str | Natural, ...]]


def ordered(found: QuerySet[M], sort: str, sorts: Sorts, *, default: str = "", tie: str = "-pk") -> QuerySet[M]:
    """`found` by the columns that `sort` ("name", or "-name" for the other way round) has in `sorts`.

    Anything else means `default`, or without one `tie` alone. Unknown values come last either way.
    """
    if sort.removeprefix("-") not in sorts:
        sort = default
    if not sort:
        return found.order_by(tie)
    first, *rest = sorts[sort.removeprefix("-")]
    column = F(first) if isinstance(first, str) else first
    order = column.desc(nulls_last=True) if sort.startswith("-") else column.asc(nulls_last=True)
    return found.order_by(order, *rest, tie)
