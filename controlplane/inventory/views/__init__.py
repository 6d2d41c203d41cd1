"""Pages of hosts, engines and models."""
