// Package chart holds the chart, the manifests and the image's Dockerfile to what
// they promise, without a cluster. It has tests only: start with render_test.go,
// which has helm render the chart; the other files look at what comes out. That a
// real API server takes it, and that the operator can live with exactly these
// permissions, is shown in test/e2e.
package chart
