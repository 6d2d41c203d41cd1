"""Django settings. What differs between installations comes from the environment (docs/reference/settings.md)."""

import hashlib
import os
from pathlib import Path

from csp.constants import NONE, SELF
from django.utils.translation import gettext_lazy as _

from controlplane.core import env

BASE_DIR = Path(__file__).resolve().parent.parent
STATE_DIR = env.state_dir()

DEBUG = env.flag("CONTROLPLANE_DEBUG")
MASTER_KEYS = env.master_keys()
SECRET_KEY = hashlib.sha256(b"django:" + MASTER_KEYS[0].encode()).hexdigest()
SECRET_KEY_FALLBACKS = [hashlib.sha256(b"django:" + key.encode()).hexdigest() for key in MASTER_KEYS[1:]]
ALLOWED_HOSTS = env.words("CONTROLPLANE_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = env.words("CONTROLPLANE_TRUSTED_ORIGINS")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "template_partials.apps.SimpleAppConfig",  # the loader is named below, with the tags as builtins
    "csp",
    "ninja",
    "controlplane.core",
    "controlplane.accounts",
    "controlplane.inventory",
    "controlplane.configs",
    "controlplane.fleet",
    "controlplane.bench",
    "controlplane.release",
    "controlplane.ops",
    "controlplane.web",
    "controlplane.demo",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "controlplane.accounts.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "controlplane.core.middleware.ProblemMiddleware",
]

ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
WSGI_APPLICATION = "controlplane.wsgi.application"

_loaders: list[object] = [
    "django.template.loaders.filesystem.Loader",
    "django.template.loaders.app_directories.Loader",
]
if not DEBUG:
    _loaders = [("django.template.loaders.cached.Loader", _loaders)]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [("template_partials.loader.Loader", _loaders)],
            "builtins": [
                "django.templatetags.i18n",
                "django.templatetags.static",
                "template_partials.templatetags.partials",
                "controlplane.core.templatetags.ui",
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

PROCESS = os.environ.get("CONTROLPLANE_PROCESS", "controlplane")
# What serves borrows its connections from a pool, at most so many a process; a command opens one and closes it. Kept by
# CONN_MAX_AGE they would be lost: under ASGI each request has a thread of its own, which takes its connection along and
# leaves it to the garbage collector (docs/decisions/0009-database-connections.md).
_pool: dict[str, object] = {"min_size": 1, "max_size": 10, "max_idle": 60, "timeout": 5}
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        **env.database_address(os.environ.get("DATABASE_URL", "postgresql:///controlplane")).as_django(),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"application_name": PROCESS, **({"pool": _pool} if PROCESS in {"web", "worker"} else {})},
    }
}

AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
]
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "web:overview"
LOGOUT_REDIRECT_URL = "accounts:login"
SESSION_COOKIE_AGE = 14 * 24 * 3600
SESSION_COOKIE_HTTPONLY = True
SECURE_COOKIES = env.flag("CONTROLPLANE_SECURE_COOKIES")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_COOKIES
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CSRF_FAILURE_VIEW = "django.views.csrf.csrf_failure"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = os.environ.get("CONTROLPLANE_TIME_ZONE", "UTC")

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Served straight from the packages and `static/`: there is no collectstatic step to forget.
WHITENOISE_USE_FINDERS = True
WHITENOISE_MAX_AGE = 0 if DEBUG else 3600

DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
FILE_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024

CELERY_BROKER_URL = os.environ.get("BROKER_URL", "redis://localhost:6379/0")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# A killed worker's task comes back after visibility_timeout; without the two `unacked_` settings the restore loop looks
# so rarely that it takes 100 s and more (measured, docs/decisions/0002-broker.md).
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 600,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
}
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_DEFAULT_QUEUE = "controlplane"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
# Each tick finds whatever work a lost message left behind; with nothing to do it is one short query. One message
# a second costs about 2 % of a core, clock and worker together (measured): only what must be seen soon is frequent.
CELERY_BEAT_SCHEDULE = {
    "fleet-observe": {"task": "fleet.observe", "schedule": 2.0, "options": {"expires": 2}},
    "bench-follow": {"task": "bench.follow", "schedule": 5.0, "options": {"expires": 5}},
    "release-advance": {"task": "release.advance", "schedule": 3.0, "options": {"expires": 3}},
    "inventory-probe": {"task": "inventory.probe_due", "schedule": 60.0, "options": {"expires": 60}},
}
# How long an engine may take from its start to its first token: weights of hundreds of GiB come from slow disks.
LAUNCH_TIMEOUT_S = float(os.environ.get("CONTROLPLANE_LAUNCH_TIMEOUT_S", "1800"))
PUBLIC_URL = os.environ.get("CONTROLPLANE_PUBLIC_URL", "").rstrip("/")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": os.environ.get("CONTROLPLANE_LOG_LEVEL", "INFO")},
    "loggers": {"asyncssh": {"level": "WARNING"}},
}
SILENCED_SYSTEM_CHECKS: list[str] = []
