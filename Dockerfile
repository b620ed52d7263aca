# The command with its kernels: docker build -t streamddcrp . && docker run --rm streamddcrp --help
FROM python:3.11-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends make
WORKDIR /src
COPY . .
RUN make wheel
FROM python:3.11-slim
COPY --from=build /src/dist/*-cp*.whl /tmp/
RUN pip install --no-cache-dir "$(ls /tmp/*.whl)[plot,live,nats,redis,kafka,mqtt,postgres,delta,metrics]" && rm /tmp/*.whl
ENV MPLCONFIGDIR=/tmp
RUN useradd --create-home user
USER user
WORKDIR /data
ENTRYPOINT ["streamddcrp"]
