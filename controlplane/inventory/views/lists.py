"""What the lists of the inventory share: filters out of the query."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from controlplane.core.listing import ListFilter

ROWS_PER_PAGE = 25
"""A row has up to eight GPUs or copies, each drawn on the server; 25 keep a page within 150 ms."""


@dataclass(frozen=True, slots=True)
class InventoryFilter(ListFilter):
    """`?q=…&state=…&transport=…&source=…&host=…&sort=…`; a list uses those it has."""

    state: str = ""
    transport: str = ""
    source: str = ""
    host: str = ""


def yes_no(value: bool) -> str:
    return _("yes") if value else _("no")
