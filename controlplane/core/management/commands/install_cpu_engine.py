from controlplane.core.management.handover import StackCommand


class Command(StackCommand):
    help = "Have a vLLM to demonstrate with: this machine's own if it has a GPU, else the CPU build."
