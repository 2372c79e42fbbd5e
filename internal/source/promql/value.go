package promql

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// Value returns what the query says now, which must be one finite number: a scalar,
// or a vector of one element. Anything else is an error that says what came
// instead; nothing at all is one too, and not 0.
//
// Of the result of an expression the store tells no other time than that of the
// question, so how old the samples behind it are is not checked here. A query over
// rates becomes empty, and thereby an error, once its window has no two samples; one
// of plain series goes on for five minutes after the last of them.
func (s *Source) Value(ctx context.Context, query string) (float64, error) {
	var value float64
	count := 0
	got, err := s.client.query(ctx, query, nil, func(one *series) error {
		value = one.value
		count++
		return nil
	})
	if err == nil {
		err = single(got, count, value)
	}
	if err != nil {
		return 0, fmt.Errorf("asking %s for %q: %w", s.name, bounded(query), err)
	}
	return value, nil
}

// single is an error when the result is not one number.
func single(got answer, count int, value float64) error {
	switch {
	case got.resultType != "vector" && got.resultType != "scalar":
		return fmt.Errorf("the answer is of type %q; want one number", bounded(got.resultType))
	case count == 0:
		return errors.New("the answer is empty; want one number. If that means none of something, end the query with: or vector(0)")
	case count > 1:
		return fmt.Errorf("the answer has %d series; want one number, such as the sum or the largest of them", count)
	case math.IsNaN(value):
		return errors.New("the answer is not a number (NaN), as 0/0 is; want one finite number")
	case math.IsInf(value, 0):
		return fmt.Errorf("the answer is infinite (%g), as a division by 0 is; want one finite number", value)
	}
	return nil
}
