# A static binary and nothing else: no shell, no package manager, no root.
#   docker build --build-arg VERSION=v0.1.0 -t cdc-relay .
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/cdc-relay ./cmd/cdc-relay

# It holds the certificates that TLS to Postgres and Kafka is checked against.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /out/cdc-relay /usr/local/bin/cdc-relay
COPY LICENSE /usr/share/doc/cdc-relay/LICENSE
USER 65532:65532
# Within a container, probes and scrapes come from outside.
ENV CDC_RELAY_ADMIN_LISTEN=0.0.0.0:9464
EXPOSE 9464
# SIGTERM lets it finish what is in flight: give it longer than shutdown.drain before you kill it.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/cdc-relay"]
CMD ["run"]
