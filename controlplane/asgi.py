"""The web process, for uvicorn."""

import gc
import os

from django.core.asgi import get_asgi_application
from django.urls import get_resolver

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
application = get_asgi_application()

# Everything is imported before the first request, and the collector never looks at it again: a full collection among
# all modules would stop whichever request it falls on for about 0.1 s.
get_resolver().url_patterns  # noqa: B018 - importing is what it is asked for
gc.collect()
gc.freeze()
