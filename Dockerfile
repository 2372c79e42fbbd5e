# syntax=docker/dockerfile:1

# The images of taper-operator and, with --target taper, of taper, which agents of
# taper net run: one static binary and the certificates of public authorities each,
# nothing else.
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 .
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 --target taper .

# Always native: Go compiles for the other architecture without emulation.
FROM --platform=$BUILDPLATFORM golang:1.26.8-trixie AS build
WORKDIR /src

# Modules change less often than the code.
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

COPY api ./api
COPY cmd ./cmd
COPY internal ./internal

ARG TARGETOS=linux
ARG TARGETARCH
ARG VERSION=unknown
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH GOFLAGS=-mod=readonly \
    go build -trimpath -ldflags "-s -w -X taper.dev/taper/internal/cli.version=$VERSION -X taper.dev/taper/internal/operator.version=$VERSION" -o /out/ ./cmd/taper ./cmd/taper-operator

FROM scratch AS taper
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/taper /taper
COPY LICENSE /LICENSE

ARG VERSION=unknown
LABEL org.opencontainers.image.title="taper" \
      org.opencontainers.image.description="Takes the tail off latency on Kubernetes" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"

# An agent of taper net, TCP and UDP.
EXPOSE 4000/tcp 4000/udp
USER 65532:65532
ENTRYPOINT ["/taper"]

FROM scratch AS taper-operator
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/taper-operator /taper-operator
COPY LICENSE /LICENSE

ARG VERSION=unknown
LABEL org.opencontainers.image.title="taper-operator" \
      org.opencontainers.image.description="Balances Kubernetes services on an Istio mesh by what their pods can take" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION"

# Metrics and page, health.
EXPOSE 8080 8081
# A number, so that runAsNonRoot can be checked.
USER 65532:65532
ENTRYPOINT ["/taper-operator"]
