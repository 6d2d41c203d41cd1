"""Pages of a list whose cost does not grow with the list."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)

PAGE_SIZE = 50
COUNT_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """One page. `total` is exact up to COUNT_LIMIT; beyond it `total_is_exact` is False and `total` is the limit."""

    items: Sequence[M]
    number: int
    size: int
    total: int
    total_is_exact: bool

    @property
    def has_previous(self) -> bool:
        return self.number > 1

    @property
    def has_next(self) -> bool:
        return self.number * self.size < self.total or (not self.total_is_exact and len(self.items) == self.size)

    @property
    def last(self) -> int:
        return max(1, -(-self.total // self.size))

    @property
    def first_row(self) -> int:
        return (self.number - 1) * self.size + 1 if self.items else 0

    @property
    def last_row(self) -> int:
        return (self.number - 1) * self.size + len(self.items)


def page_of(queryset: QuerySet[M], number: Any = 1, *, size: int = PAGE_SIZE) -> Page[M]:
    """Page `number` (1-based; nonsense means 1) of an ordered queryset, in two queries whatever its length."""
    counted = queryset.order_by()[: COUNT_LIMIT + 1].count()
    wanted = _whole_page(number, counted, size)
    return _page(list(queryset[(wanted - 1) * size : wanted * size]), wanted, counted, size)


def page_by_key(
    found: QuerySet[M], rows: QuerySet[M], number: Any = 1, *, size: int = PAGE_SIZE, is_found_once: bool = False
) -> Page[M]:
    """As `page_of`: first which of `found` are on the page, then these out of `rows`, which has all that a row shows.
    Sorting thousands together with what they lead to takes the database many times as long as sorting their keys.

    `is_found_once`: the filter looks at every row, so it is not asked twice, to count and to list; two queries, not
    three.
    """
    keys = found.values_list("pk", flat=True)
    known = list(keys[: COUNT_LIMIT + 1]) if is_found_once else None
    counted = len(known) if known is not None else found.order_by()[: COUNT_LIMIT + 1].count()
    wanted = _whole_page(number, counted, size)
    shown = list((keys if known is None else known)[(wanted - 1) * size : wanted * size])
    there = rows.in_bulk(shown)
    return _page([there[key] for key in shown if key in there], wanted, counted, size)


def _whole_page(number: Any, counted: int, size: int) -> int:
    try:
        wanted = max(1, int(number))
    except (TypeError, ValueError):
        wanted = 1
    return min(wanted, max(1, -(-min(counted, COUNT_LIMIT) // size)))


def _page(items: list[M], number: int, counted: int, size: int) -> Page[M]:
    total = min(counted, COUNT_LIMIT)
    return Page(items=items, number=number, size=size, total=total, total_is_exact=counted <= COUNT_LIMIT)
