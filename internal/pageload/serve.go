package pageload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// How long a server of pages waits for slow clients, so that they cannot fill it, and for
// requests under way when it ends.
const (
	headerTimeout = 10 * time.Second
	writeTimeout  = 2 * time.Minute
	idleTimeout   = 2 * time.Minute
	closeGrace    = 2 * time.Second
	headerBytes   = 64 << 10
)

// Serve serves a page until the context ends, and closes the listener.
func Serve(ctx context.Context, l net.Listener, page http.Handler) error {
	server := &http.Server{
		Handler:           page,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: headerBytes,
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close() // who still reads is cut off
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-stopped
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page at %s: %w", l.Addr(), err)
	}
	return nil
}
