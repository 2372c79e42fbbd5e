package pageload

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// mostText is how much of a document or a style sheet is read for what it references,
// uncompressed: a little that was sent may become very much.
const mostText = 8 << 20

// target is a way to the page, ready to be loaded.
type target struct {
	Target
	url *url.URL
	// home is the page's origin, address its host and port as they are dialled, unless
	// connect is in their place.
	home, address, connect string
	// device is known once there was a connection.
	device *device
	once   sync.Once
}

func newTarget(t Target) (*target, error) {
	u, err := t.parse()
	if err != nil {
		return nil, err
	}
	home := origin(u)
	return &target{Target: t, url: u, home: home, address: home[len(u.Scheme)+len("://"):], connect: t.Connect}, nil
}

// plan is what a user loads.
type plan struct {
	document *object
	// objects counts them, bytes is their size as sent.
	objects int
	bytes   int64
	// parallel is how many are loaded at once.
	parallel int
	// broken are objects that could not be loaded, foreign those of other origins, left
	// those beyond the bound: none is part of the plan.
	broken        []error
	foreign, left int
}

// object is something to load, and what is to be loaded once it is there.
type object struct {
	url  *url.URL
	then []*object
}

// notes are what a reader must know about what is not loaded.
func (p *plan) notes(name string) []string {
	var notes []string
	if n := len(p.broken); n > 0 {
		notes = append(notes, fmt.Sprintf("%s: %d objects of the page could not be loaded and are left out, the first is %v.", name, n, p.broken[0]))
	}
	if p.foreign > 0 {
		notes = append(notes, fmt.Sprintf("%s: %d objects of other origins are left out.", name, p.foreign))
	}
	if p.left > 0 {
		notes = append(notes, fmt.Sprintf("%s: %d objects are left out, since more are referenced than are loaded.", name, p.left))
	}
	return notes
}

// planner loads a page once, to see what it has.
type planner struct {
	*browser
	plan *plan
	// most is how many objects are loaded, timeout how long each may take.
	most    int
	timeout time.Duration
	seen    map[string]bool
}

// look finds out what a page references, and what its styles do.
func look(ctx context.Context, b *browser, start *url.URL, o *Options) (*plan, error) {
	p := &planner{browser: b, plan: &plan{document: &object{url: start}}, most: o.MaxObjects, timeout: o.Timeout, seen: map[string]bool{start.String(): true}}
	document, err := p.load(ctx, start)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(document.kind); kind != "text/html" && kind != "application/xhtml+xml" {
		return p.plan, nil // a file, by itself
	}
	found, err := document.references(documentReferences)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", start, err)
	}
	p.plan.document.then = p.follow(ctx, found, true)
	origins := map[string]bool{}
	for key := range p.seen {
		if u, err := url.Parse(key); err == nil {
			origins[origin(u)] = true
		}
	}
	p.plan.parallel *= len(origins)
	return p.plan, ctx.Err()
}

// follow loads what is referenced, and with deeper what style sheets among it reference.
func (p *planner) follow(ctx context.Context, found []reference, deeper bool) []*object {
	var objects []*object
	for _, r := range found {
		if ctx.Err() != nil || !p.wanted(r.url) {
			continue
		}
		got, err := p.load(ctx, r.url)
		if err != nil {
			p.plan.broken = append(p.plan.broken, err)
			continue
		}
		o := &object{url: r.url}
		objects = append(objects, o)
		if !r.style || !deeper {
			continue
		}
		further, err := got.references(styleReferences)
		if err != nil {
			p.plan.broken = append(p.plan.broken, fmt.Errorf("reading %s: %w", r.url, err))
			continue
		}
		o.then = p.follow(ctx, further, false)
	}
	return objects
}

// wanted says whether an object is to be loaded, and counts it if it is not.
func (p *planner) wanted(u *url.URL) bool {
	key := u.String()
	switch {
	case p.seen[key]:
		return false
	case !p.others && origin(u) != p.home:
		p.plan.foreign++
	case p.plan.objects >= p.most:
		p.plan.left++
	default:
		p.seen[key] = true
		return true
	}
	return false
}

// loaded is an object as it was sent, as far as it may be text worth reading.
type loaded struct {
	url            *url.URL
	kind, encoding string
	body           []byte
	cut            bool
	size           int64
}

// Write implements io.Writer.
func (l *loaded) Write(b []byte) (int, error) {
	l.size += int64(len(b))
	room := mostText - len(l.body)
	if l.cut = l.cut || len(b) > room; room > 0 {
		l.body = append(l.body, b[:min(len(b), room)]...)
	}
	return len(b), nil
}

func (p *planner) load(ctx context.Context, u *url.URL) (*loaded, error) {
	late := fmt.Errorf("%s was not there within %v", u, p.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, p.timeout, late)
	defer cancel()
	l := &loaded{}
	response, from, err := p.fetch(ctx, u, func(_ string, _ *http.Response) io.Writer { return l })
	switch {
	case errors.Is(context.Cause(ctx), late):
		return nil, late
	case err != nil:
		return nil, err
	}
	l.url, l.kind, l.encoding = from, response.Header.Get("Content-Type"), response.Header.Get("Content-Encoding")
	if p.plan.objects == 0 {
		p.plan.parallel = perHost
		if response.ProtoMajor == 2 {
			p.plan.parallel = perConnection
		}
	}
	p.plan.objects++
	p.plan.bytes += l.size
	return l, nil
}

// references reads them out of the text.
func (l *loaded) references(read func([]byte, *url.URL) []reference) ([]reference, error) {
	text, err := l.text()
	if err != nil {
		return nil, err
	}
	return read(text, l.url), nil
}

func (l *loaded) text() ([]byte, error) {
	tooLong := fmt.Errorf("it has more than %d bytes of text", mostText)
	if l.cut {
		return nil, tooLong
	}
	switch strings.ToLower(l.encoding) {
	case "", "identity":
		return l.body, nil
	case "gzip", "x-gzip":
	default:
		return nil, fmt.Errorf("it is encoded by %q, which nobody asked for", l.encoding)
	}
	z, err := gzip.NewReader(bytes.NewReader(l.body))
	if err != nil {
		return nil, fmt.Errorf("uncompressing: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(z, mostText+1))
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("uncompressing: %w", err)
	}
	if len(text) > mostText {
		return nil, tooLong
	}
	return text, nil
}
