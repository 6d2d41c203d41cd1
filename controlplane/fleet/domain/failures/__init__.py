"""The table of known failures: one small declarative rule each, grouped by what is at fault."""

from .command_line import RULES as COMMAND_LINE
from .gpu_memory import RULES as GPU_MEMORY
from .model_files import RULES as MODEL_FILES
from .parallel import RULES as PARALLEL
from .platform import RULES as PLATFORM
from .rule import Fix, Rule, Scene
from .runtime import RULES as RUNTIME

# On one line the first rule that matches wins, so the narrow ones stand before the wide ones.
RULES: tuple[Rule, ...] = (*COMMAND_LINE, *MODEL_FILES, *GPU_MEMORY, *PARALLEL, *PLATFORM, *RUNTIME)

__all__ = ["RULES", "Fix", "Rule", "Scene"]
