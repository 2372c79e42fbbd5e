package alarm_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"taper.dev/taper/internal/lab/alarm"
)

func newAlarm(t *testing.T) *alarm.Alarm {
	t.Helper()
	a, err := alarm.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// wait fails the test when the alarm does not go off within a deadline that
// only a broken alarm misses.
func wait(t *testing.T, a *alarm.Alarm) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- a.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the alarm did not go off within 10 s")
		return nil
	}
}

func TestNeverEarly(t *testing.T) {
	a := newAlarm(t)
	for _, ahead := range []time.Duration{0, time.Microsecond, 300 * time.Microsecond, 2 * time.Millisecond, 20 * time.Millisecond} {
		at := time.Now().Add(ahead)
		if err := a.Set(at); err != nil {
			t.Fatal(err)
		}
		if err := wait(t, a); err != nil {
			t.Fatal(err)
		}
		if early := time.Until(at); early > 0 {
			t.Errorf("set %v ahead, went off %v early", ahead, early)
		}
	}
}

func TestPastIsNow(t *testing.T) {
	a := newAlarm(t)
	if err := a.Set(time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
}

func TestSetReplaces(t *testing.T) {
	tests := []struct {
		name          string
		first, second time.Duration
	}{
		{"by an earlier time", time.Hour, 5 * time.Millisecond},
		{"by a later time", 5 * time.Millisecond, 60 * time.Millisecond},
		{"after it went off, before the wait", -time.Second, 40 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAlarm(t)
			start := time.Now()
			for _, ahead := range []time.Duration{tt.first, tt.second} {
				if err := a.Set(start.Add(ahead)); err != nil {
					t.Fatal(err)
				}
			}
			if err := wait(t, a); err != nil {
				t.Fatal(err)
			}
			if passed := time.Since(start); passed < tt.second {
				t.Errorf("went off after %v, want not before %v", passed, tt.second)
			}
		})
	}
}

func TestSetWhileWaiting(t *testing.T) {
	a := newAlarm(t)
	if err := a.Set(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(5*time.Millisecond, func() { a.Set(time.Now()) })
	if err := wait(t, a); err != nil {
		t.Fatal(err)
	}
}

func TestCloseEndsTheWait(t *testing.T) {
	a := newAlarm(t)
	time.AfterFunc(5*time.Millisecond, func() { a.Close() })
	if err := wait(t, a); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Wait = %v, want %v", err, os.ErrClosed)
	}
	if err := a.Set(time.Now()); err == nil {
		t.Error("Set on a closed alarm did not fail")
	}
	if err := wait(t, a); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Wait = %v, want %v", err, os.ErrClosed)
	}
}
