from controlplane.core.management.handover import StackCommand


class Command(StackCommand):
    help = "Start the control plane on this machine: Postgres, Valkey, web pages, worker and clock, until Ctrl-C."
