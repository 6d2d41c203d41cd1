"""What the API says about people and tokens."""

from datetime import datetime
from typing import Annotated, Literal

from ninja import Field, Schema
from pydantic import AfterValidator, AwareDatetime, StringConstraints

from controlplane.accounts.domain.moments import in_utc
from controlplane.core.rest import BodyIn

RoleName = Literal["viewer", "operator", "admin"]
# Postgres keeps no NUL, so no text that is to be kept may hold one.
Name = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00]+$")]
Username = Annotated[str, StringConstraints(min_length=1, max_length=150, pattern=r"^[^\x00]+$")]
Moment = Annotated[AwareDatetime, AfterValidator(in_utc)]


class MeOut(Schema):
    username: str
    role: str
    may_operate: bool
    may_administer: bool


class TokenOut(Schema):
    id: int
    name: str
    prefix: str
    is_read_only: bool
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None


class NewTokenIn(BodyIn):
    name: Name
    is_read_only: bool = False
    expires_at: Moment | None = None


class NewTokenOut(TokenOut):
    token: str = Field(description="The token itself. It is in this answer only.")


class PersonOut(Schema):
    id: int
    username: str
    role: str
    is_active: bool
    must_change_password: bool
    last_login: datetime | None


class NewPersonIn(BodyIn):
    username: Username
    role: RoleName = "viewer"


class NewPersonOut(PersonOut):
    password: str = Field(description="Opens only the page that replaces it. It is in this answer only.")


class PersonIn(BodyIn):
    """What is left out stays as it is."""

    role: RoleName | None = None
    is_active: bool | None = None
