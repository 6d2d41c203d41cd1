"""The API's description, read for people."""

from controlplane.web.domain.reference import example_of, reference_of, schema_of, type_of

DOCUMENT = {
    "info": {"title": "API", "version": "1"},
    "paths": {
        "/hosts/{host_id}": {
            "patch": {
                "operationId": "change",
                "tags": ["hosts"],
                "summary": "Change a host",
                "description": "Sets `port`.",
                "parameters": [{"name": "host_id", "in": "path", "required": True, "schema": {"type": "integer"}}],
                "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/HostIn"}}}},
                "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": {}}}}},
            }
        }
    },
    "components": {
        "schemas": {
            "HostIn": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string", "description": "It's name"},
                    "port": {"type": "integer", "default": 22},
                    "jump": {"anyOf": [{"$ref": "#/components/schemas/HostIn"}, {"type": "null"}]},
                },
            }
        }
    },
}


def test_an_operation_shows_its_inputs_and_a_call_that_can_be_pasted() -> None:
    reference = reference_of(DOCUMENT, base_url="https://cp.example")
    [operation] = reference.operations
    assert (operation.method, operation.tag, operation.body_schema) == ("PATCH", "hosts", "HostIn")
    assert [(field.name, field.type, field.is_required) for field in operation.body] == [
        ("name", "string", True),
        ("port", "integer", False),
        ("jump", "HostIn or null", False),
    ]
    assert operation.body[1].default == "22"
    assert operation.description == "Sets `port`."
    assert operation.curl.splitlines()[0].startswith("curl -X PATCH 'https://cp.example/hosts/{host_id}'")
    assert '"Authorization: Bearer $TOKEN"' in operation.curl
    assert """-d '{"name": "…"}'""" in operation.curl


def test_the_search_wants_every_word_in_any_place() -> None:
    reference = reference_of(DOCUMENT, base_url="")
    assert len(reference.matching("patch PORT").operations) == 1
    assert not reference.matching("patch nothing").operations
    assert reference.matching(" ") is reference


def test_types_are_written_in_words() -> None:
    ref = {"$ref": "#/components/schemas/HostIn"}
    assert type_of({"type": "array", "items": ref}) == "array of HostIn"
    assert type_of({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}) == (
        "string (date-time) or null"
    )
    assert type_of({"enum": ["a", "b"]}) == '"a" | "b"'
    assert type_of({"allOf": [ref]}) == "HostIn"
    assert type_of({}) == "any"
    assert schema_of({"type": "array", "items": ref}) == "HostIn"


def test_an_example_of_a_schema_that_contains_itself_ends() -> None:
    schemas = {"Node": {"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#/x/Node"}}}}
    assert example_of({"$ref": "#/x/Node"}, schemas) == {"next": {"next": {"next": {"next": {}}}}}
