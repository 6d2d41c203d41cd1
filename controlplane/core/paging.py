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
    try:
        wanted = max(1, int(number))
    except (TypeError, ValueError):
        wanted = 1
    counted = queryset.order_by()[: COUNT_LIMIT + 1].count()
    total = min(counted, COUNT_LIMIT)
    wanted = min(wanted, max(1, -(-total // size)))
    items = list(queryset[(wanted - 1) * size : wanted * size])
    return Page(items=items, number=wanted, size=size, total=total, total_is_exact=counted <= COUNT_LIMIT)
