from controlplane.core.management.handover import StackCommand


class Command(StackCommand):
    help = "Memory and CPU of what `up` started."
