"""Small programs that behave like engines: serve, crash, leave children behind. Each is an argv."""

from __future__ import annotations

import sys

_CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.{reaction}); print(flush=True); time.sleep(600)"
_PARENT = """
import subprocess, sys, time
child = [sys.executable, "-c", {child!r}]
near = subprocess.Popen(child, stdout=subprocess.PIPE)
away = subprocess.Popen(child, stdout=subprocess.PIPE, start_new_session=True)
scrubbed = subprocess.Popen(child, stdout=subprocess.PIPE, start_new_session=True, env={{}})
for started in (near, away, scrubbed):
    started.stdout.readline()
print("ready", near.pid, away.pid, scrubbed.pid, flush=True)
time.sleep(600)
"""
_SERVER = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/slow":
            import time; time.sleep(600)
        self.reply({"path": self.path, "key_given": "Authorization" in self.headers})
    def do_POST(self):
        self.reply({"echo": self.rfile.read(int(self.headers["Content-Length"])).decode()})
    def reply(self, value):
        body = json.dumps(value).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
print("ready", flush=True)
server.serve_forever()
"""

SLEEPER = [sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(600)"]
PRIORITY = """
import os, time
from pathlib import Path
group = Path("/proc/self/autogroup")
print("ready", os.nice(0), group.read_text().split()[-1] if group.exists() else "-", flush=True)
time.sleep(600)
"""
TELLS_ITS_PRIORITY = [sys.executable, "-c", PRIORITY]
QUITTER = [sys.executable, "-c", "print('first line'); print('déjà vu'); raise SystemExit(3)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)",
]
# The main process ends on SIGTERM; a child in its group, one in a session of its own and one that also lost the
# environment do not.
STUBBORN_FAMILY = [sys.executable, "-c", _PARENT.format(child=_CHILD.format(reaction="SIG_IGN"))]
FAMILY = [sys.executable, "-c", _PARENT.format(child=_CHILD.format(reaction="SIG_DFL"))]


def server(port: int) -> list[str]:
    """An HTTP server on loopback; /slow never answers."""
    return [sys.executable, "-c", _SERVER, str(port)]
