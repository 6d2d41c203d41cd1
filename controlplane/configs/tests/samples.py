"""Configs used by several tests."""

from pathlib import Path

from controlplane.configs.domain.document import Document, read

DATA = Path(__file__).parent / "data"
OPERATOR_FILE = DATA / "operator.toml"


def document(text: str) -> Document:
    """A config that is known to be right."""
    reading = read(text.encode())
    assert reading.document is not None, reading.problems
    return reading.document


def operator_document() -> Document:
    """The file that operators keep today, with its key stored."""
    return document(OPERATOR_FILE.read_text()).with_secret("prod-vllm")
