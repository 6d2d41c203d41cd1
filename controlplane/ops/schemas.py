"""What the API says about events and secrets."""

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, Schema
from pydantic import StringConstraints

from controlplane.accounts.schemas import Moment
from controlplane.core.rest import BodyIn

# Postgres keeps no NUL, so neither a stored text nor a comparison may hold one.
Text = Annotated[str, StringConstraints(max_length=200, pattern=r"^[^\x00]*$")]
SecretName = Annotated[str, StringConstraints(max_length=120, pattern=r"^[a-z0-9][a-z0-9_-]*$")]
SecretText = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]


class EventFilterIn(Schema):
    q: Text = Field("", description="Found in the sentence, the subject's name or the event's name.")
    name: Text = Field("", description="An event's name, or its noun with a dot: “instance.”.")
    actor: Text = ""
    subject_type: Text = ""
    subject_id: Text = ""
    since: Moment | None = None
    until: Moment | None = None


class EventOut(Schema):
    id: int
    at: datetime
    name: str
    actor: str
    subject_type: str
    subject_id: str
    subject_label: str
    sentence: str
    data: dict[str, Any]


class SecretOut(Schema):
    """A secret without its text, which nothing gives out."""

    name: str
    reference: str
    kind: str
    hint: str
    created_by: str
    created_at: datetime
    updated_at: datetime
    used_by: list[str]


class NewSecretIn(BodyIn):
    name: SecretName
    kind: Literal["api_key", "ssh_key"]
    text: SecretText = Field(description="Write only.")
    hint: Text = ""


class SecretTextIn(BodyIn):
    text: SecretText = Field(description="Write only.")
    hint: Text = ""
