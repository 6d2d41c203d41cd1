"""What happens to people, their passwords and their tokens."""

from controlplane.accounts.services.people import (
    add_person,
    change_password,
    change_role,
    create_first_admin,
    deactivate_person,
    reactivate_person,
    reset_password,
    set_language,
)
from controlplane.accounts.services.signing_in import TooManyTries, claim_try, forget_tries
from controlplane.accounts.services.tokens import (
    LAST_USED_EVERY_S,
    TOKEN_PREFIX,
    authenticate,
    create_token,
    revoke_token,
)

__all__ = [
    "LAST_USED_EVERY_S",
    "TOKEN_PREFIX",
    "TooManyTries",
    "add_person",
    "authenticate",
    "change_password",
    "change_role",
    "claim_try",
    "create_first_admin",
    "create_token",
    "deactivate_person",
    "forget_tries",
    "reactivate_person",
    "reset_password",
    "revoke_token",
    "set_language",
]
