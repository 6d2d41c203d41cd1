"""What the lists of the inventory share: filters out of the query."""

from dataclasses import dataclass
from typing import Self

from django.http import QueryDict
from django.utils.translation import gettext as _

ROWS_PER_PAGE = 25
"""A row has up to eight GPUs or copies, each drawn on the server; 25 keep a page within 150 ms."""


@dataclass(frozen=True, slots=True)
class ListFilter:
    """`?q=…&state=…&transport=…&source=…&host=…&sort=…`; a list uses those it has."""

    q: str = ""
    state: str = ""
    transport: str = ""
    source: str = ""
    host: str = ""
    sort: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Self:
        return cls(**{name: query.get(name, "") for name in cls.__dataclass_fields__})

    @property
    def is_set(self) -> bool:
        """Whether it leaves anything out."""
        return any((self.q, self.state, self.transport, self.source, self.host))


def yes_no(value: bool) -> str:
    return _("yes") if value else _("no")
