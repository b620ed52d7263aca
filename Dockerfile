# The command with its kernels: docker build -t streamddcrp . && docker run --rm streamddcrp --help
FROM python:3.11.13-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends make
WORKDIR /src
COPY . .
RUN make wheel
FROM python:3.11.13-slim-bookworm
COPY --from=build /src/dist/*-cp*.whl /tmp/
RUN pip install --no-cache-dir "$(ls /tmp/*.whl)[plot,live,nats,redis,kafka,mqtt,postgres,delta,metrics]" && rm /tmp/*.whl
RUN useradd --uid 1000 --create-home user && install --directory --owner user /data
# with --read-only give --tmpfs /tmp, and a volume at /data
ENV MPLCONFIGDIR=/tmp
USER 1000
WORKDIR /data
# of a run with --metrics 0.0.0.0:9100; what does not listen there is not judged
HEALTHCHECK --start-period=2m --timeout=10s CMD ["python", "-c", "import urllib.request as u\ntry: u.urlopen('http://127.0.0.1:9100/healthz', timeout=5)\nexcept u.HTTPError: raise\nexcept u.URLError: pass"]
ENTRYPOINT ["streamddcrp"]
