"""Reads across all apps: the overview and the search."""

from controlplane.web.queries.attention import Need, needs
from controlplane.web.queries.overview import Overview, overview
from controlplane.web.queries.search import Hit, search

__all__ = ["Hit", "Need", "Overview", "needs", "overview", "search"]
