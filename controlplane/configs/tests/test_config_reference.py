"""The reference page names everything that the code knows."""

import re
from pathlib import Path

from controlplane.configs import domain
from controlplane.configs.domain.catalogue import catalogue
from controlplane.configs.domain.keys import KEYS, MANAGED, SECRET_OPTIONS, SECTIONS

DOCS = Path(__file__).resolve().parents[3] / "docs"
DOMAIN = Path(domain.__file__).parent


def test_every_section_key_and_refused_option_is_on_the_page() -> None:
    page = (DOCS / "reference" / "config-file.md").read_text()
    own = {key.dest for key in KEYS} | {key.name for key in KEYS}
    names = [
        *(f"[{section}]" for section in SECTIONS),
        *(key.name for key in KEYS),
        *(MANAGED.keys() - own),
        *SECRET_OPTIONS,
    ]
    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_problem_code_is_on_the_page() -> None:
    page = (DOCS / "reference" / "config-file.md").read_text()
    source = "".join((DOMAIN / f"{name}.py").read_text() for name in ("checking", "document", "structure", "syntax"))
    codes = re.findall(r'(?:Problem|_problem|_at)\(\s*(?:code=|tree, statement, )?"([a-z_0-9]+)"', source)
    codes += re.findall(r'return "(syntax|null)"', source)
    assert len(set(codes)) > 15
    assert sorted({code for code in codes if f"`{code}`" not in page}) == []


def test_the_explanation_counts_the_releases_that_there_are() -> None:
    page = (DOCS / "explain" / "flag-catalogue.md").read_text()
    known = catalogue().releases
    assert f"{len(known)} releases from {known[0]} to {known[-1]}" in page
