from controlplane.core.management.handover import StackCommand


class Command(StackCommand):
    help = "Run a command with a Postgres and a Valkey of its own: manage.py with_services -- COMMAND."
