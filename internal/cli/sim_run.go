package cli

import (
	"io"

	"github.com/spf13/cobra"

	"taper.dev/taper/internal/command"
	"taper.dev/taper/internal/report"
	"taper.dev/taper/internal/report/html"
	"taper.dev/taper/internal/report/text"
	"taper.dev/taper/internal/sim/scenario"
	"taper.dev/taper/internal/sim/study"
	"taper.dev/taper/internal/terminal"
)

func newSimRun() *cobra.Command {
	c := &simulation{}
	cmd := &cobra.Command{
		Use:   "run [SCENARIO]",
		Short: "Simulate a scenario and compare its ways to balance",
		Long: `Simulates every arm of a scenario, as often as it has rounds, and compares them. All
arms of a round see the same requests: what differs between them is their doing. The
scenario is the name of a shipped one or a YAML file; without one, the shipped are
listed.

A load that asks for more than there is can be simulated, too: the output says so.`,
		Example: `  taper sim run
  taper sim run article
  taper sim run service.yaml --arms least-request,least-latency --rounds 1 --json
  taper sim run large --memory-limit 4Gi --report ""`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return listScenarios(cmd.OutOrStdout(), c.json)
			case 1:
				return c.run(cmd, args[0])
			}
			return command.Usagef("%d scenarios are given: run one at a time", len(args))
		},
	}
	c.flags(cmd, "sim.html")
	return cmd
}

func (c *simulation) run(cmd *cobra.Command, name string) error {
	s, err := c.open(cmd, name)
	if err != nil {
		return err
	}
	options, done, err := c.options(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	result, err := study.Run(cmd.Context(), s, options)
	done()
	if err != nil {
		return failed(cmd.Context(), err)
	}
	result.Simulation.Source, result.Simulation.Chosen = name, len(c.arms) > 0
	// The table first: it is there even if the page cannot be written.
	out := cmd.OutOrStdout()
	if c.json {
		err = result.WriteJSON(out)
	} else {
		err = text.Experiment(out, result, terminal.Of(out, plainWidth))
	}
	if err != nil {
		return err
	}
	return keepReport(out, c.report, c.json, func(w io.Writer) error { return html.Experiment(w, result) })
}

// shipped is a scenario that needs no file.
type shipped struct {
	Name  string `json:"name"`
	About string `json:"about"`
	// Endpoints, Proxies and Arms say how large it is.
	Endpoints int      `json:"endpoints"`
	Proxies   int      `json:"proxies"`
	Arms      []string `json:"arms"`
}

// listScenarios prints what can be run without a file.
func listScenarios(out io.Writer, asJSON bool) error {
	var all []shipped
	for _, name := range scenario.Shipped() {
		s, err := scenario.Open(name)
		if err != nil {
			return err
		}
		item := shipped{Name: name, About: s.About, Endpoints: len(s.Service.Servers), Proxies: s.Service.Proxies}
		for _, a := range s.Arms {
			item.Arms = append(item.Arms, a.Name)
		}
		all = append(all, item)
	}
	if asJSON {
		return writeJSON(out, all)
	}
	p := terminal.New(out, terminal.Of(out, plainWidth))
	var rows [][]terminal.Text
	for _, item := range all {
		rows = append(rows, []terminal.Text{
			terminal.Bold.Text(item.Name), terminal.Normal.Text(report.Count(uint64(item.Endpoints))),
			terminal.Normal.Text(report.Count(uint64(item.Proxies))), terminal.Normal.Text(item.About),
		})
	}
	p.Table([]terminal.Column{{Title: "scenario"}, {Title: "endpoints", Right: true, Spare: 1}, {Title: "proxies", Right: true, Spare: 2}, {Title: "shows", Wrap: true}}, rows)
	return p.Flush()
}
