// Package scenario reads what is to be simulated: a service, what happens to it, and the
// arms, which are the ways to balance that are compared. A scenario is a YAML file:
//
//	about: A slow endpoint beside a fast one.
//	proxies: 8
//	load: {rate: 100}
//	endpoints:
//	  - {kind: fast, cores: 2, demand: 5ms}
//	  - {kind: slow, cores: 2, demand: 9ms, discipline: first-come-first-served}
//	changes:
//	  - {endpoint: slow-1, at: 60s, until: 90s, demand: 2}
//	arms:
//	  - {name: least-request, policy: least-request}
//	  - {name: least-latency, policy: least-request, weights: least-latency}
//
// Some are shipped ([Shipped]); [Open] reads one of these or a file. document.go has all
// that a file may say, service.go and arms.go make a [Scenario] of it. [Scenario.Load] says
// whether the load can be served at all, [Scenario.Bytes] what memory a run takes, and
// [Scenario.Vary] makes one like it for a sweep.
package scenario

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"taper.dev/taper/internal/sim"
	"taper.dev/taper/internal/strictyaml"
)

// Scenario is a file, checked and ready to run.
type Scenario struct {
	// Name is the file's, without folder and ending.
	Name string
	// About says in a sentence or two what it shows.
	About   string
	Service sim.Service
	// Arms are the ways to balance; the first is what the others are compared with.
	Arms []Arm
	// Rounds is how often each arm is run, each time with another seed.
	Rounds int
	Seed   uint64
}

// Arm is a way to balance.
type Arm struct {
	Name string
	// Policy is the name of how proxies choose. Bound is one that knows what no proxy can.
	Policy    string
	Bound     bool
	NewPolicy sim.NewPolicy
	// Weigher is nil for equal weights. Fixed weights that come with what decides them
	// follow the service when it is varied.
	Weigher *sim.Weigher
}

//go:embed shipped/*.yaml
var shipped embed.FS

const (
	shippedFolder = "shipped"
	ending        = ".yaml"
	// maxBytes bounds what is read from a path that may be anything.
	maxBytes = 1 << 20
)

// Shipped lists the names of the scenarios that need no file.
func Shipped() []string {
	files, err := shipped.ReadDir(shippedFolder)
	if err != nil {
		panic(err) // it is part of the program
	}
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = strings.TrimSuffix(f.Name(), ending)
	}
	return names
}

// Open reads the shipped scenario of that name, or a file. Errors name the file and the
// line.
func Open(nameOrPath string) (*Scenario, error) {
	if slices.Contains(Shipped(), nameOrPath) {
		folder, err := fs.Sub(shipped, shippedFolder)
		if err != nil {
			return nil, err
		}
		file, err := folder.Open(nameOrPath + ending)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return parse(nameOrPath, file, folder)
	}
	// A pipe that nobody writes to would be waited for without end.
	if info, err := os.Stat(nameOrPath); err != nil || !info.Mode().IsRegular() {
		if err == nil {
			err = errors.New("it is no file")
		}
		return nil, fmt.Errorf("no scenario %q: %w; it is a file, or one of the shipped: %s", nameOrPath, err, strings.Join(Shipped(), ", "))
	}
	file, err := os.Open(nameOrPath)
	if err != nil {
		return nil, fmt.Errorf("reading the scenario: %w", err)
	}
	defer file.Close()
	return Parse(nameOrPath, file)
}

// Parse reads a scenario. Files that it names are looked for in the folder of the name, or
// below it.
func Parse(name string, r io.Reader) (*Scenario, error) {
	return parse(name, r, os.DirFS(filepath.Dir(name)))
}

func parse(name string, r io.Reader, folder fs.FS) (*Scenario, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the scenario: %w", err)
	}
	if len(text) > maxBytes {
		return nil, fmt.Errorf("%s: it has more than %d bytes: is it the right file?", name, maxBytes)
	}
	s, err := read(text, folder)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s.Name = strings.TrimSuffix(strings.TrimSuffix(filepath.Base(name), ending), ".yml")
	return s, nil
}

// reader makes a scenario of a document.
type reader struct {
	strictyaml.Lines
	document
	folder fs.FS
	// settled is how many endpoints static weights were worked out for.
	settled int
}

func read(text []byte, folder fs.FS) (*Scenario, error) {
	r := &reader{folder: folder, document: document{
		Rounds: defaultRounds, Seed: defaultSeed, WarmUp: defaultWarmUp, Measure: defaultMeasure,
	}}
	var err error
	if r.Lines, err = strictyaml.Decode(text, &r.document); err != nil {
		return nil, err
	}
	if err := r.within([]limit{
		{"rounds", float64(r.Rounds), 1, maxRounds},
		{"about", float64(len(r.About)), 0, maxAbout},
	}); err != nil {
		return nil, err
	}
	s := &Scenario{About: strings.Join(strings.Fields(r.About), " "), Rounds: r.Rounds, Seed: r.Seed}
	if s.Service, err = r.service(); err != nil {
		return nil, err
	}
	s.Arms, err = r.arms(&s.Service)
	return s, err
}
