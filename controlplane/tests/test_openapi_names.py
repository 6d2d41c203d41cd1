"""The description holds shapes by their bare name: two classes of one name would silently become one."""

from collections import Counter
from collections.abc import Iterator

from ninja import Schema

from controlplane.api import api


def _shapes(root: type[Schema]) -> Iterator[type[Schema]]:
    for shape in root.__subclasses__():
        yield shape
        yield from _shapes(shape)


def test_every_shape_has_a_name_of_its_own() -> None:
    assert api.get_openapi_schema()["paths"]
    ours = {
        shape for shape in _shapes(Schema) if shape.__module__.startswith("controlplane") and "[" not in shape.__name__
    }
    names = Counter(shape.__name__ for shape in ours)
    assert len(names) > 20
    assert [name for name, count in names.items() if count > 1] == []
