"""Failures of a running or warming-up engine, and the symptoms that are left when no cause was written."""

from ..texts import gettext_noop as _
from .rule import Rule, got_stuck, rule, set_to

RULES: tuple[Rule, ...] = (
    rule(
        "gpu_fault",
        r"illegal memory access|device-side assert|unspecified launch failure|CUBLAS_STATUS_\w+|uncorrectable ECC|Xid",
        _("A GPU operation failed. It is reported where the result is fetched, so the cause lies before this line."),
        _(
            "Use a newer engine; enforce_eager and enable_prefix_caching false narrow it down, "
            "CUDA_LAUNCH_BLOCKING=1 locates it."
        ),
        fixes=set_to("enforce_eager", True),
    ),
    rule(
        "terminated",
        r"API server: shutdown triggered|trigger received signal=SIG(?:TERM|INT)",
        _("The server was told to end (a signal), and nobody here asked for it."),
        _("Look for who did: a service manager, a probe that was too impatient, a shutdown of the host."),
        is_symptom=True,
        is_said_softly=True,
    ),
    rule(
        "start_timeout",
        r"Timed out waiting for engine(?:s| core processes) to (?:send ?initial message|start)"
        r"|Engine process failed to start"
        r"|didn't finish initialization|[Tt]imed out in warm-?up",
        _("vLLM's own limit for starting was reached: the engine was still loading or warming up."),
        _(
            "Raise VLLM_ENGINE_READY_TIMEOUT_S (600 s by default) for large models or slow disks; "
            "look for what took the time."
        ),
        is_symptom=True,
    ),
    rule(
        "rpc_timeout",
        r"RPC call to (?P<call>\w+) timed out|^TimeoutError$",
        _("A worker did not answer the engine in time."),
        _(
            "Look at the worker and its GPU first; a first compilation may need a higher "
            "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS."
        ),
        is_symptom=True,
    ),
    rule(
        "illegal_instruction",
        r"Worker proc (?P<worker>\S+) died unexpectedly \(exit code: (?:-4|132)\)",
        _("{worker} ended on a processor instruction that this host does not have or does not allow (SIGILL)."),
        _(
            "Use a build of vLLM that is made for this processor. On a processor with AMX a CPU build must ask the "
            "kernel for it first: for bfloat16 try block_size 16, which does without AMX."
        ),
    ),
    rule(
        "native_crash",
        r"Worker proc (?P<worker>\S+) died unexpectedly \(exit code: -(?P<signal>6|7|8|11)\)",
        _("{worker} crashed in compiled code (signal {signal}: 6 abort, 7 bus error, 8 arithmetic, 11 segmentation)."),
        _(
            "A bus error most often means that /dev/shm is full. Otherwise use another vLLM release, check that its "
            "libraries belong together, and set PYTHONFAULTHANDLER=1 to see where it crashes."
        ),
    ),
    rule(
        "worker_died",
        r"Worker proc (?P<worker>\S+) died unexpectedly",
        _("{worker} died without writing why: killed from outside, most often by the host for lack of memory."),
        _(
            "Look at the host's kernel log (`dmesg`) for the out-of-memory killer, and at the memory "
            "the other processes use."
        ),
        is_symptom=True,
    ),
    rule(
        "engine_died",
        r"engine core exited unexpectedly|EngineCore died|MQLLMEngine is already dead"
        r"|Engine core proc \S+ died unexpectedly",
        _("The engine process died without writing why, and the server ended with it."),
        _(
            "Look at the host's kernel log (`dmesg`): an engine that ends without a word was killed, "
            "most often for lack of memory."
        ),
        is_symptom=True,
        is_said_softly=True,
    ),
    rule(
        "engine_died",
        r"EngineDeadError|EngineCore encountered (?:a fatal error|an issue)|Executor failed\.",
        _("The engine died, and the server ended with it."),
        _("The lines above the first error say more; the host's kernel log tells whether it was killed."),
        is_symptom=True,
    ),
    rule(
        "shm_wait",
        r"No available shared memory broadcast block found in (?P<seconds>\d+) second",
        _("The engine waited for a worker that did not take its work."),
        _("Harmless while compiling. If it repeats, a worker hangs: with several GPUs try NCCL_P2P_DISABLE=1."),
        is_symptom=True,
        is_said_softly=True,
        when=got_stuck,
    ),
)
