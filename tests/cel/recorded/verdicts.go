// Tells what upstream's library makes of expressions about devices: a line of JSON each, in and out. Built in a checkout
// of Kubernetes (go build ./cmd/verdicts); tests/cel/recording.py asks it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/utils/ptr"
)

type in struct {
	Expression string             `json:"expression"`
	Stored     bool               `json:"stored"`
	Lists      bool               `json:"lists"`
	Device     resourceapi.Device `json:"device"`
	Driver     string             `json:"driver"`
}

type out struct {
	Error  string `json:"error,omitempty"`
	Type   string `json:"type,omitempty"`
	Max    uint64 `json:"max,omitempty"`
	Match  bool   `json:"match,omitempty"`
	Failed string `json:"failed,omitempty"`
	Cost   uint64 `json:"cost,omitempty"`
}

func main() {
	s := bufio.NewScanner(os.Stdin)
	s.Buffer(make([]byte, 1<<20), 1<<26)
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	for s.Scan() {
		var i in
		if err := json.Unmarshal(s.Bytes(), &i); err != nil {
			panic(err)
		}
		env := environment.NewExpressions
		if i.Stored {
			env = environment.StoredExpressions
		}
		r := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: i.Lists}).CompileCELExpression(i.Expression, cel.Options{EnvType: &env})
		o := out{Max: r.MaxCost}
		if r.Error != nil {
			o = out{Error: r.Error.Error()}
		} else {
			o.Type = r.OutputType.String()
			m, d, err := r.DeviceMatches(context.Background(), cel.Device{Driver: i.Driver, AllowMultipleAllocations: ptr.To(ptr.Deref(i.Device.AllowMultipleAllocations, false)), Attributes: i.Device.Attributes, Capacity: i.Device.Capacity})
			o.Match = m
			if err != nil {
				o.Failed = err.Error()
			}
			if d != nil && d.ActualCost() != nil {
				o.Cost = *d.ActualCost()
			}
		}
		b, _ := json.Marshal(o)
		fmt.Fprintln(w, string(b))
	}
}
