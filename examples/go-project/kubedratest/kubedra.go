// Package kubedratest runs a control plane for the tests of a Go project. It needs only the `kubedra` command on the PATH.
package kubedratest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// ControlPlane is a running control plane.
type ControlPlane struct {
	URL        string `json:"url"`
	Kubeconfig string `json:"kubeconfig"`

	command *exec.Cmd
	stdin   io.WriteCloser
	dir     string
}

// Start runs `kubedra serve` with further flags and returns when it is ready.
func Start(flags ...string) (*ControlPlane, error) {
	dir, err := os.MkdirTemp("", "kubedra-")
	if err != nil {
		return nil, err
	}
	plane := &ControlPlane{dir: dir}
	arguments := append([]string{"serve", "--port=0", "--announce", "--attached", "--storage=memory", "--controllers=*", "--data-dir=" + dir}, flags...)
	plane.command = exec.Command("kubedra", arguments...)
	plane.command.Stderr = os.Stderr
	// The server ends when its standard input is closed, also when the tests are killed.
	if plane.stdin, err = plane.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := plane.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := plane.command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		plane.Stop()
		return nil, fmt.Errorf("kubedra ended before it was ready")
	}
	return plane, json.Unmarshal(line, plane)
}

// Stop ends the control plane and removes its data.
func (plane *ControlPlane) Stop() {
	plane.stdin.Close()
	plane.command.Wait()
	os.RemoveAll(plane.dir)
}
