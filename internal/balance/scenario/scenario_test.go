package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.scenario")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios found: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".scenario"), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			s, err := Parse(f)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if err := s.Run(); err != nil {
				t.Errorf("%s:\n%v", file, err)
			}
		})
	}
}

func TestWrongScenariosNameTheLine(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"unknown statement":  {"fly a", "line 1"},
		"unknown strategy":   {"policy strategy=fastest", "equal-load, least-latency"},
		"unknown setting":    {"policy speed=3", "speed"},
		"no endpoints":       {"eval at 1s", "no endpoint"},
		"expects nothing":    {"endpoint a", "expects nothing"},
		"demand alone":       {"endpoint a\ndemand a 2ms", "line 2"},
		"repeat too large":   {"load 1s\ncpu a 1x999999999", "line 2"},
		"backwards":          {"endpoint a\neval at 2m\neval at 1m", "line 3"},
		"bad expectation":    {"endpoint a\neval at 1m\nexpect share a == 1", "line 3"},
		"unknown quantity":   {"endpoint a\neval at 1m\nexpect speed a > speed b", "utilization"},
		"policy out of bond": {"policy utilization=3\nendpoint a\neval at 1m", "utilization limit is 3"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(strings.NewReader(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestAFailedExpectationIsReported(t *testing.T) {
	s, err := Parse(strings.NewReader("endpoint a\nendpoint b\nserve 10/s\n demand a 1ms\n demand b 9ms\neval at 1m\n expect weights equal\n expect share a < share b\n expect held Stale"))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Run()
	if err == nil {
		t.Fatal("three wrong expectations held")
	}
	for _, line := range []string{"line 7", "line 8", "line 9"} {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("%s is missing from:\n%v", line, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.scenario")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 2000 {
			t.Skip()
		}
		s, err := Parse(strings.NewReader(text))
		if err == nil && s.evals[len(s.evals)-1].at < 100*s.policy.Interval {
			_ = s.Run() // whatever it expects, it must not panic
		}
	})
}
