package report

// EndpointRow is what became of one endpoint from one arm to another, as people
// read it. A figure that was not measured is [Missing].
type EndpointRow struct {
	Address, Demand    string
	Requests, CPU, P99 BeforeAfter
	// Weight and Why belong to the later arm.
	Weight, Why string
}

// BeforeAfter is one figure in two arms.
type BeforeAfter struct{ Before, After string }

// EndpointRows follows the endpoints of arm after in their order, beside what
// they did in arm before.
func EndpointRows(before, after *Arm) []EndpointRow {
	earlier := make(map[string]Endpoint, len(before.Endpoints))
	for _, endpoint := range before.Endpoints {
		earlier[endpoint.Address] = endpoint
	}
	rows := make([]EndpointRow, 0, len(after.Endpoints))
	for _, endpoint := range after.Endpoints {
		row := EndpointRow{Address: endpoint.Address, Demand: endpoint.Demand, Weight: Missing, Why: endpoint.Why}
		if endpoint.Weight > 0 {
			row.Weight = Count(uint64(endpoint.Weight))
		}
		was, ok := earlier[endpoint.Address]
		row.Requests.Before, row.CPU.Before, row.P99.Before = before.figures(was, ok)
		row.Requests.After, row.CPU.After, row.P99.After = after.figures(endpoint, true)
		rows = append(rows, row)
	}
	return rows
}

// figures writes what an endpoint of this arm did; known tells whether it was in it.
func (a *Arm) figures(e Endpoint, known bool) (requests, cpu, p99 string) {
	requests, cpu, p99 = Missing, Missing, Missing
	if !known || a.Requests == 0 {
		return requests, cpu, p99
	}
	if rate(e.Requests) {
		requests = Number(e.Requests)
	}
	if rate(e.CPU) && measured(a.CPU) {
		cpu = fixed(e.CPU, 2)
	}
	if measured(e.P99) {
		p99 = Number(e.P99)
	}
	return requests, cpu, p99
}
