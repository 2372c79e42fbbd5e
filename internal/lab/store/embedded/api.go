package embedded

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql"
)

const (
	// maxQuery bounds a request's body; maxQueryTime and maxSamples what it costs.
	maxQuery     = 1 << 20
	maxQueryTime = 10 * time.Second
	maxSamples   = 5_000_000
)

// api answers instant queries as Prometheus does.
type api struct {
	memory *memory
	engine *promql.Engine
}

func newAPI(kept *memory) *api {
	return &api{memory: kept, engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples:           maxSamples,
		Timeout:              maxQueryTime,
		EnableAtModifier:     true,
		EnableNegativeOffset: true,
	})}
}

func (a *api) close() error { return a.engine.Close() }

func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/healthy", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /api/v1/query", a.query)
	mux.HandleFunc("POST /api/v1/query", a.query)
	return http.MaxBytesHandler(mux, maxQuery)
}

// response is the form of every answer of the API.
type response struct {
	Status    string   `json:"status"`
	Data      *data    `json:"data,omitempty"`
	ErrorType string   `json:"errorType,omitempty"`
	Error     string   `json:"error,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	Infos     []string `json:"infos,omitempty"`
}

type data struct {
	ResultType string `json:"resultType"`
	Result     any    `json:"result"`
}

func (a *api) query(w http.ResponseWriter, r *http.Request) {
	at, err := parseTime(r.FormValue("time"))
	if err != nil {
		write(w, http.StatusBadRequest, response{ErrorType: "bad_data", Error: err.Error()})
		return
	}
	text := r.FormValue("query")
	query, err := a.engine.NewInstantQuery(r.Context(), a.memory, nil, text, at)
	if err != nil {
		write(w, http.StatusBadRequest, response{ErrorType: "bad_data", Error: err.Error()})
		return
	}
	defer query.Close()
	result := query.Exec(r.Context())
	if result.Err != nil {
		status, kind := classify(result.Err)
		write(w, status, response{ErrorType: kind, Error: result.Err.Error()})
		return
	}
	const most = 10
	answer := response{Status: "success", Data: &data{string(result.Value.Type()), result.Value}}
	answer.Warnings, answer.Infos = result.Warnings.AsStrings(text, most, most)
	if v, ok := result.Value.(promql.Vector); ok && v == nil {
		answer.Data.Result = promql.Vector{} // [] in JSON, not null
	}
	write(w, http.StatusOK, answer)
}

// classify gives an error the status and the type that Prometheus gives it.
func classify(err error) (status int, kind string) {
	if _, ok := errors.AsType[promql.ErrQueryTimeout](err); ok {
		return http.StatusServiceUnavailable, "timeout"
	}
	if _, ok := errors.AsType[promql.ErrQueryCanceled](err); ok {
		return http.StatusServiceUnavailable, "canceled"
	}
	return http.StatusUnprocessableEntity, "execution"
}

// parseTime reads Unix seconds or RFC 3339; empty is now.
func parseTime(text string) (time.Time, error) {
	if text == "" {
		return time.Now(), nil
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(seconds) < 1e12 {
		whole, part := math.Modf(seconds)
		return time.Unix(int64(whole), int64(part*1e9)), nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("invalid time %q; want Unix seconds or RFC 3339", text)
	}
	return t, nil
}

func write(w http.ResponseWriter, status int, answer response) {
	if answer.Status == "" {
		answer.Status = "error"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(answer) // a client that has left is not told
}
