# The whole of kubedra: server, controllers, commands. About the size of python:slim and its dependencies; nothing runs as root.
#
#   docker build -t kubedra .
#   docker run -p 127.0.0.1:6443:6443 -v kubedra:/data kubedra
#   docker exec CONTAINER cat /data/credentials/kubeconfig > kubeconfig
#
# Versions are fixed in two places: the base image by the tag below (override it with --build-arg PYTHON=3.13.1-slim-bookworm, or a digest:
# PYTHON=3.13-slim@sha256:…), and every package by constraints.txt.
ARG PYTHON=3.13-slim

FROM python:${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
RUN python -m venv /opt/kubedra
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY kubedra kubedra
COPY apiserver apiserver
COPY controllers controllers
COPY migrations migrations
COPY openapi openapi
COPY docs docs
COPY tools/build_hook.py tools/build_hook.py
# pip compiles what it installs: a container has no time, and no right, to do it at every start.
# What builds the wheel is fixed as well, so it is not left to pip to fetch it.
RUN python -m venv /opt/build \
 && /opt/build/bin/python -m pip install --only-binary :all: --constraint constraints.txt hatchling \
 && /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
 && /opt/kubedra/bin/python -m pip install --only-binary :all: --constraint constraints.txt "$(ls /wheels/kubedra-*.whl)[all]" \
 && /opt/kubedra/bin/python -m pip uninstall --yes pip

FROM python:${PYTHON}
COPY --from=build /opt/kubedra /opt/kubedra
# Volumes that are mounted here for the first time get these directories' owner.
RUN mkdir -p /data /credentials /credentials-for/apiserver /credentials-for/balancer /credentials-for/controllers /credentials-for/postgres \
 && chown -R 65532:65532 /data /credentials /credentials-for
ENV PATH=/opt/kubedra/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
WORKDIR /data
EXPOSE 6443
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=30s --start-interval=500ms --retries=3 CMD ["kubedra", "health", "--kubeconfig", "/data/kubeconfig"]
ENTRYPOINT ["kubedra"]
CMD ["credentials", "--dir=/data/credentials", "--", "up", "--data-dir=/data", "--bind-address=0.0.0.0", "--port=6443", "--token-auth-file=/data/credentials/tokens.csv", "--tls-cert-file=/data/credentials/tls.crt", "--tls-private-key-file=/data/credentials/tls.key", "--authorization-mode=RBAC"]
