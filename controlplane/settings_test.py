"""Settings of the test runs: quick password hashes, plain static files; everything else as in production."""

import atexit
import os
import shutil
import tempfile

# A test run never touches a person's state directory: named before the settings read it.
_given = os.environ.get("CONTROLPLANE_TEST_STATE_DIR")
os.environ["CONTROLPLANE_STATE_DIR"] = _given or tempfile.mkdtemp(prefix="vcp-test-")
if not _given:
    atexit.register(shutil.rmtree, os.environ["CONTROLPLANE_STATE_DIR"], ignore_errors=True)
os.environ.pop("SECRET_KEY_FILE", None)

from controlplane.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ALLOWED_HOSTS = ["*"]
CELERY_BROKER_URL = "memory://"
# Found when they are asked for: listing them all takes 10 ms, which every test client would pay.
WHITENOISE_AUTOREFRESH = True
