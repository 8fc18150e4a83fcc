# The image of the service; docs/image.md describes how to build, run and harden it.
# It does not need BuildKit: any builder of Dockerfiles works.
ARG BASE_IMAGE=python:3.11-slim-bookworm

# The dependencies of serving and indexing, in a virtual environment without pip.
FROM ${BASE_IMAGE} AS dependencies
# pip's own variables, for another package index than the public one.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_TRUSTED_HOST
ENV PIP_CONSTRAINT=/build/constraints.txt \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_NO_COMPILE=1 \
    PIP_QUIET=1
WORKDIR /build
COPY constraints.txt pyproject.toml deploy/image/requirements.py ./
# Extras with spaces between them, such as milvus.
ARG EXTRAS=
# hadolint ignore=SC2086
RUN python3 -m venv tools \
    && tools/bin/python requirements.py ${EXTRAS} > requirements.txt \
    && python3 -m venv --without-pip /opt/swiftlet/venv \
    && tools/bin/pip --python /opt/swiftlet/venv/bin/python3 install --requirement requirements.txt \
    && echo /opt/swiftlet/app > "$(echo /opt/swiftlet/venv/lib/python3*/site-packages)/swiftlet.pth" \
    && find /opt/swiftlet/venv/lib -depth -type d -name tests -exec rm -r {} + \
    && tools/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/swiftlet/venv/lib

# Swiftlet, the index and encoder that it serves without a volume, and the bill of materials.
FROM dependencies AS project
RUN tools/bin/pip install cyclonedx-bom hatchling
COPY README.md LICENSE ./
COPY export export
COPY deploy/image deploy/image
COPY service service
COPY swiftlet swiftlet
COPY training training
RUN tools/bin/pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
    && tools/bin/pip --python /opt/swiftlet/venv/bin/python3 install --no-deps \
        --target /opt/swiftlet/app dist/*.whl \
    && mkdir /opt/swiftlet/image \
    && cp deploy/image/start.py deploy/image/healthcheck.py /opt/swiftlet/image/ \
    && tools/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/swiftlet/app \
    && tools/bin/python deploy/image/sbom.py /opt/swiftlet/venv/bin/python3 /opt/swiftlet/sbom.cdx.json
# Folders in the build context: an index, and an encoder for queries, in place of the demo's.
ARG INDEX=deploy/image/none
ARG ENCODER=deploy/image/none
COPY ${INDEX} /build/given/${INDEX}/
COPY ${ENCODER} /build/given/${ENCODER}/
RUN /opt/swiftlet/venv/bin/python3 -I deploy/image/artefacts.py \
    "given/${INDEX}" "given/${ENCODER}" /opt/swiftlet/artefacts

FROM ${BASE_IMAGE}
# The image installs no packages, so pip and its like are removed. Bytecode is compiled here: some
# base images have none, and a read-only file system cannot take it later.
RUN library="$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
    && rm -rf "$library/ensurepip" /usr/share/python-wheels /usr/local/bin/pip* \
        "$library"/site-packages/pip* "$library"/site-packages/setuptools* \
        "$library"/site-packages/wheel* "$library"/site-packages/_distutils_hack \
        "$library"/site-packages/pkg_resources "$library"/site-packages/distutils-precedence.pth \
    && python3 -m compileall -q -x "/tests?/" "$library"
COPY --from=dependencies /opt/swiftlet/venv /opt/swiftlet/venv
COPY --from=project /opt/swiftlet/artefacts /opt/swiftlet/artefacts
COPY --from=project /opt/swiftlet/app /opt/swiftlet/app
COPY --from=project /opt/swiftlet/image /opt/swiftlet/image
COPY --from=project /opt/swiftlet/sbom.cdx.json /opt/swiftlet/sbom.cdx.json
ENV LANG=C.UTF-8 \
    PATH=/opt/swiftlet/app/bin:/opt/swiftlet/venv/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    SWIFTLET_HOST=0.0.0.0
# A number, so that `runAsNonRoot` of Kubernetes can check that it is not root.
USER 10001:10001
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=6s --start-period=5m --retries=3 \
    CMD ["/opt/swiftlet/venv/bin/python3", "-I", "-S", "/opt/swiftlet/image/healthcheck.py"]
ENTRYPOINT ["/opt/swiftlet/venv/bin/python3", "-I", "/opt/swiftlet/image/start.py"]
CMD ["serve"]
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="swiftlet" \
      org.opencontainers.image.description="Search by meaning and by words on ordinary CPUs" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
