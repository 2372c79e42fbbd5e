// Package uplot carries the chart library of the pages, as it was published, so
// that they open without a network. It does nothing.
package uplot

import _ "embed" // for the files below

var (
	// Script defines the global uPlot.
	//
	//go:embed third_party/uPlot.iife.min.js
	Script string

	// Styles are for its charts.
	//
	//go:embed third_party/uPlot.min.css
	Styles string

	// Licence is to be passed on with them.
	//
	//go:embed third_party/LICENSE
	Licence string
)
