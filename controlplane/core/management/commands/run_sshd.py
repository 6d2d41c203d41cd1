from controlplane.core.management.handover import StackCommand


class Command(StackCommand):
    help = "Serve SSH on loopback to the user who runs this, for the demonstration and end-to-end tests."
