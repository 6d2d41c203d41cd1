"""Named secrets: store, look up, refer to."""

import re

from django.db import IntegrityError, transaction

from controlplane.core import events, sealing
from controlplane.core.errors import Conflict, Invalid, NotFound
from controlplane.core.models import Secret
from controlplane.protocol.keys import is_sendable

REFERENCE = re.compile(r"\Asecret:([a-z0-9][a-z0-9_-]*)\Z")


def store(*, name: str, kind: str, plain: str, actor: str, hint: str = "") -> Secret:
    """Keep a new secret under `name`. Raises Conflict when the name is taken, Invalid for no text or a bad key."""
    if not REFERENCE.match(f"secret:{name}"):
        raise Invalid(
            f"“{name}” cannot name a secret.",
            remedy="Use lower-case letters, digits, - and _, starting with a letter or digit.",
        )
    if not plain:
        raise Invalid(f"The secret {name} is empty.", remedy="Paste its text.")
    _refuse_unsendable(kind, plain)
    try:
        with transaction.atomic():
            secret = Secret.objects.create(
                name=name, kind=kind, sealed=sealing.seal(plain, bound_to=name), hint=hint, created_by=actor
            )
            events.record("secret.stored", actor=actor, subject=secret, kind=kind)
    except IntegrityError:
        raise Conflict(
            f"There is a secret {name} already.", remedy="Choose another name, or replace that one."
        ) from None
    return secret


def replace(secret: Secret, *, plain: str, actor: str, hint: str = "") -> None:
    """Put a new text under an existing name; whoever refers to it uses the new one from the next use on."""
    if not plain:
        raise Invalid(f"The new text of {secret.reference} is empty.", remedy="Paste its text.")
    _refuse_unsendable(secret.kind, plain)
    with transaction.atomic():
        secret.sealed = sealing.seal(plain, bound_to=secret.name)
        secret.hint = hint
        secret.save(update_fields=["sealed", "hint", "updated_at"])
        events.record("secret.replaced", actor=actor, subject=secret)


def _refuse_unsendable(kind: str, plain: str) -> None:
    if kind == Secret.Kind.API_KEY and not is_sendable(plain):
        raise Invalid(
            "The key holds a line end or a character outside ASCII, which no client can send.",
            remedy="Use letters, digits and signs of ASCII, on one line.",
        )


def reveal(reference: str) -> str:
    """The text behind `secret:<name>`, for handing it to the one who needs it; never for showing it."""
    match = REFERENCE.match(reference)
    secret = Secret.objects.filter(name=match[1]).first() if match else None
    if secret is None:
        raise NotFound(f"There is no {reference}.", remedy="Store it under Settings, Secrets.")
    return sealing.unseal(bytes(secret.sealed), bound_to=secret.name)


def free_name(wanted: str) -> str:
    """`wanted`, or `wanted-2`, `wanted-3`… when it is taken."""
    base = re.sub(r"[^a-z0-9_-]+", "-", wanted.lower()).strip("-_") or "secret"
    taken = set(Secret.objects.filter(name__startswith=base).values_list("name", flat=True))
    if base not in taken:
        return base
    return next(name for number in range(2, len(taken) + 3) if (name := f"{base}-{number}") not in taken)
