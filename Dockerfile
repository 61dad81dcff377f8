# Image of `acc serve` and `acc worker`. The steps are in deploy/install.sh, so that they can be run without a container engine.
FROM python:3.11-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY requirements requirements
COPY src src
COPY deploy/install.sh deploy/install.sh
RUN sh deploy/install.sh /opt/acc

FROM python:3.11-slim
# The root file system can be read-only: nothing is written outside of /data and /tmp.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin acc \
 && mkdir /app /data && chown acc /data
COPY --from=build /opt/acc /opt/acc
ENV PATH=/opt/acc/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp PORT=8000
WORKDIR /app
USER 10001
EXPOSE 8000
# The server drains on SIGTERM; the platform must allow it the time of its longest answer.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import os, urllib.request as r; r.urlopen('http://127.0.0.1:' + os.environ['PORT'] + '/health/live', timeout=2)"]
ENTRYPOINT ["acc"]
# Put your module into /app, in an image of your own or as a volume, and name it here.
CMD ["serve", "agent.py:agent", "--host", "0.0.0.0"]
