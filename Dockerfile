# The command with its kernels compiled: docker build -t streamddcrp . && docker run --rm streamddcrp --help
FROM python:3.11-slim
WORKDIR /src
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY streamddcrp streamddcrp
COPY connectors connectors
RUN pip install --no-cache-dir ".[plot]"
# Machine code for this processor, once, in the image; another kind of processor compiles again.
ENV NUMBA_CACHE_DIR=/var/cache/streamddcrp MPLCONFIGDIR=/tmp
RUN streamddcrp warmup --all --no-progress && chmod -R a+rX,a+w /var/cache/streamddcrp
RUN useradd --create-home user
USER user
WORKDIR /data
ENTRYPOINT ["streamddcrp"]
