"""The OpenAPI description as a page shows it: operations by tag, their inputs, answers and an example call."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

METHODS = ("get", "post", "put", "patch", "delete")
JSON_TYPE = "application/json"
EXAMPLE_DEPTH = 4
"""Schemas may contain themselves; deeper than this an example shows an empty object."""


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, or a field of a body or a schema. `place`: path, query, header, form, body."""

    name: str
    place: str
    type: str
    schema: str
    is_required: bool
    description: str = ""
    default: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    status: str
    description: str
    type: str
    schema: str


@dataclass(frozen=True, slots=True)
class Operation:
    id: str
    method: str
    path: str
    tag: str
    summary: str
    description: str
    parameters: Sequence[Field]
    body_type: str
    body_schema: str
    body: Sequence[Field]
    answers: Sequence[Answer]
    curl: str


@dataclass(frozen=True, slots=True)
class SchemaOf:
    name: str
    description: str
    fields: Sequence[Field]
    values: Sequence[str]


@dataclass(frozen=True, slots=True)
class Reference:
    title: str
    version: str
    operations: Sequence[Operation]
    schemas: Sequence[SchemaOf]

    def matching(self, text: str) -> "Reference":
        """Operations with every word of `text` in method, path, tag, summary or field names; schemas by their name."""
        words = text.casefold().split()
        if not words:
            return self
        found = [one for one in self.operations if _contains(words, _words_of(one))]
        return Reference(self.title, self.version, found, [one for one in self.schemas if _contains(words, [one.name])])

    def by_tag(self) -> dict[str, list[Operation]]:
        groups: dict[str, list[Operation]] = {}
        for operation in self.operations:
            groups.setdefault(operation.tag, []).append(operation)
        return groups


def reference_of(document: Mapping[str, Any], *, base_url: str) -> Reference:
    """Read an OpenAPI 3.1 document. `base_url` (scheme and host) begins the addresses of the examples."""
    schemas = document.get("components", {}).get("schemas", {})
    return Reference(
        title=document.get("info", {}).get("title", ""),
        version=document.get("info", {}).get("version", ""),
        operations=list(_operations(document, schemas, base_url)),
        schemas=[
            SchemaOf(
                name, schema.get("description", ""), _fields(schema, "body"), [str(v) for v in schema.get("enum", [])]
            )
            for name, schema in sorted(schemas.items())
        ],
    )


def type_of(schema: Mapping[str, Any]) -> str:  # noqa: PLR0911  # one answer per form of a schema
    """A type in words: "integer", "array of HostOut", "string or null"."""
    if name := schema_of(schema, through_arrays=False):
        return name
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(type_of(choice) for choice in choices))
    if len(schema.get("allOf", [])) == 1:
        return type_of(schema["allOf"][0])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {type_of(schema.get('items', {}))}"
    name = str(schema.get("type", "any"))
    return f"{name} ({schema['format']})" if "format" in schema else name


def schema_of(schema: Mapping[str, Any], *, through_arrays: bool = True) -> str:
    """The name of the schema that `schema` refers to, "" when it describes itself."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if through_arrays and schema.get("type") == "array":
        return schema_of(schema.get("items", {}))
    for key in ("anyOf", "allOf"):
        names = [name for one in schema.get(key, []) if (name := schema_of(one, through_arrays=through_arrays))]
        if through_arrays and names:
            return names[0]
    return ""


def example_of(  # noqa: PLR0911  # one answer per form of a schema
    schema: Mapping[str, Any], schemas: Mapping[str, Any], depth: int = 0
) -> Any:
    """A value of the right shape, made of defaults and of what every type allows."""
    if "$ref" in schema:
        return example_of(schemas.get(schema_of(schema), {}), schemas, depth)
    for key in ("default", "const", "example"):
        if key in schema and schema[key] is not None:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    if choices := schema.get("anyOf") or schema.get("allOf") or schema.get("oneOf"):
        return example_of(choices[0], schemas, depth)
    kind = schema.get("type")
    if kind == "object":
        if depth >= EXAMPLE_DEPTH:
            return {}
        required = schema.get("required", [])
        return {
            name: example_of(one, schemas, depth + 1)
            for name, one in schema.get("properties", {}).items()
            if name in required
        }
    if kind == "array":
        return [] if depth >= EXAMPLE_DEPTH else [example_of(schema.get("items", {}), schemas, depth + 1)]
    return {"integer": 1, "number": 1.0, "boolean": True, "null": None}.get(str(kind), "…")


def _operations(document: Mapping[str, Any], schemas: Mapping[str, Any], base_url: str) -> Iterator[Operation]:
    for path, methods in document.get("paths", {}).items():
        for method in METHODS:
            if method in methods:
                yield _operation(path, method, methods[method], schemas, base_url)


def _operation(
    path: str, method: str, given: Mapping[str, Any], schemas: Mapping[str, Any], base_url: str
) -> Operation:
    parameters = [_parameter(one) for one in given.get("parameters", [])]
    body_type, body_schema = _content(given.get("requestBody", {}))
    resolved = schemas.get(schema_of(body_schema), body_schema)
    return Operation(
        id=given.get("operationId", f"{method}-{path}"),
        method=method.upper(),
        path=path,
        tag=(given.get("tags") or ["other"])[0],
        summary=given.get("summary", ""),
        description=given.get("description", ""),
        parameters=parameters,
        body_type=body_type,
        body_schema=schema_of(body_schema),
        body=_fields(resolved, "body"),
        answers=[_answer(status, one) for status, one in given.get("responses", {}).items()],
        curl=_curl(method, base_url + path, body_type, example_of(body_schema, schemas) if body_schema else None),
    )


def _parameter(given: Mapping[str, Any]) -> Field:
    schema = given.get("schema", {})
    return Field(
        name=given["name"],
        place=given.get("in", "query"),
        type=type_of(schema),
        schema=schema_of(schema),
        is_required=bool(given.get("required")),
        description=given.get("description") or schema.get("description", ""),
        default=_default(schema),
    )


def _fields(schema: Mapping[str, Any], place: str) -> list[Field]:
    required = schema.get("required", [])
    return [
        Field(
            name=name,
            place=place,
            type=type_of(one),
            schema=schema_of(one),
            is_required=name in required,
            description=one.get("description", ""),
            default=_default(one),
        )
        for name, one in schema.get("properties", {}).items()
    ]


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default in (None, "", [], {}) else json.dumps(default, ensure_ascii=False)


def _content(given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The first media type of a body or an answer, and its schema."""
    for media_type, content in given.get("content", {}).items():
        return media_type, content.get("schema", {})
    return "", {}


def _answer(status: str, given: Mapping[str, Any]) -> Answer:
    media_type, schema = _content(given)
    shown = type_of(schema) if schema else media_type
    return Answer(str(status), given.get("description", ""), shown, schema_of(schema))


def _curl(method: str, url: str, body_type: str, example: Any) -> str:
    lines = [f"curl{'' if method == 'get' else f' -X {method.upper()}'} '{url}'", '-H "Authorization: Bearer $TOKEN"']
    if body_type == JSON_TYPE:
        text = json.dumps(example, ensure_ascii=False).replace("'", "'\\''")
        lines += [f"-H 'Content-Type: {JSON_TYPE}'", f"-d '{text}'"]
    elif body_type.startswith("multipart/") and isinstance(example, dict):
        lines += [f"-F '{name}=@FILE'" for name in example]
    elif body_type:
        lines += [f"-H 'Content-Type: {body_type}'", "--data-binary @FILE"]
    return " \\\n  ".join(lines)


def _words_of(operation: Operation) -> list[str]:
    fields = [field.name for field in (*operation.parameters, *operation.body)]
    return [operation.method, operation.path, operation.tag, operation.summary, operation.description, *fields]


def _contains(words: Sequence[str], texts: Sequence[str]) -> bool:
    whole = " ".join(texts).casefold()
    return all(word in whole for word in words)
