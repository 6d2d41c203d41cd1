"""Pages of instances: list, launch form, one instance, its attempts and logs."""
