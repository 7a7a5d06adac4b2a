package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"lowertrace/internal/driver"
)

func newConfigCmd(d *driver.Deps, s *settings) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Look at settings"}
	var asJSON bool
	show := &cobra.Command{
		Use:   "show",
		Short: "Print every setting, its value and where it comes from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.load(cmd); err != nil {
				return err
			}
			type row struct {
				Key    string `json:"key"`
				Value  any    `json:"value"`
				Origin string `json:"origin"`
			}
			var rows []row
			for _, st := range settingTable {
				rows = append(rows, row{st.key, s.v.Get(st.key), s.origin(st.key)})
			}
			if asJSON {
				return json.NewEncoder(d.Stdout).Encode(map[string]any{"schema_version": 1, "settings": rows})
			}
			w := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
			for _, r := range rows {
				v := fmt.Sprint(r.Value)
				if list, ok := r.Value.([]string); ok {
					v = strings.Join(list, " ")
				}
				if v == "" {
					v = "-"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", r.Key, v, r.Origin)
			}
			return w.Flush()
		},
	}
	show.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.AddCommand(show)
	return cmd
}
