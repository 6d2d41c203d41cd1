"""What pages, API and services ask about environments and promotions."""

from controlplane.release.queries.promotions import (
    SORTS,
    WayBack,
    promotion_detail,
    promotions,
    serving,
    way_back,
)

__all__ = ["SORTS", "WayBack", "promotion_detail", "promotions", "serving", "way_back"]
