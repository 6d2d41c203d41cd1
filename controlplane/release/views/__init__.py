"""Pages of environments and promotions."""
