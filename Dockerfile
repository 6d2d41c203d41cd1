# The control plane's image: web, worker and beat are the same image with another command (docker-compose.yml).
FROM python:3.13-slim AS packages
WORKDIR /app
COPY requirements.txt .
RUN python -m venv /venv \
 && /venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.txt

FROM python:3.13-slim
RUN useradd --system --uid 10001 --home-dir /var/lib/vllm-controlplane --create-home controlplane
COPY --from=packages /venv /venv
COPY manage.py /app/
COPY bin/container /app/bin/container
COPY controlplane /app/controlplane
COPY templates /app/templates
COPY static /app/static
WORKDIR /app
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=2 \
    CONTROLPLANE_STATE_DIR=/var/lib/vllm-controlplane
USER controlplane
VOLUME /var/lib/vllm-controlplane
EXPOSE 8700
ENTRYPOINT ["/app/bin/container"]
CMD ["uvicorn", "controlplane.asgi:application", "--host", "0.0.0.0", "--port", "8700", "--http", "httptools", "--loop", "uvloop", "--timeout-graceful-shutdown", "3", "--no-access-log", "--no-server-header"]
