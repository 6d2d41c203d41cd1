"""Message shapes shared by the control plane and the host program. Standard library only, Python 3.9 and later."""
