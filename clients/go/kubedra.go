// Package kubedra runs a Kubernetes control plane for the tests of a Go project. It needs only the command `kubedra` on
// the PATH (pip install kubedra) and the standard library.
//
//	func TestOperator(t *testing.T) {
//		plane := kubedra.StartForTest(t, "--nodes=2")
//		config, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig)
//		…
//	}
//
// A suite that shares one control plane calls [Start] in TestMain, and [ControlPlane.Reset] before each test.
package kubedra

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// ControlPlane is a running control plane: API server, scheduler, controllers and emulated nodes.
type ControlPlane struct {
	// URL is the address of the API server.
	URL string `json:"url"`
	// Kubeconfig is the path of a kubeconfig for any client. It is a new file, never the user's own.
	Kubeconfig string `json:"kubeconfig"`

	command *exec.Cmd
	stdin   io.WriteCloser
	stderr  strings.Builder
	dir     string
}

// Start runs `kubedra serve` on a free port and returns when all components are ready. Further flags are those of
// `kubedra serve`, such as --nodes=2, --devices=gpu.example.com, --emulated-version=1.35 or --clock=virtual.
// The control plane ends with [ControlPlane.Stop], and also when the test process is killed.
func Start(flags ...string) (*ControlPlane, error) {
	dir, err := os.MkdirTemp("", "kubedra-")
	if err != nil {
		return nil, err
	}
	plane := &ControlPlane{dir: dir}
	arguments := append([]string{"serve", "--port=0", "--announce", "--attached", "--storage=memory", "--controllers=*", "--data-dir=" + dir}, flags...)
	plane.command = exec.Command("kubedra", arguments...)
	plane.command.Stderr = io.MultiWriter(os.Stderr, &plane.stderr)
	// The server ends when its standard input is closed.
	if plane.stdin, err = plane.command.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := plane.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := plane.command.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("%w; install it with: pip install kubedra", err)
	}
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		plane.Stop()
		return nil, fmt.Errorf("kubedra ended before it was ready: %s", strings.TrimSpace(plane.stderr.String()))
	}
	return plane, json.Unmarshal(line, plane)
}

// StartForTest is [Start] for one test: it fails the test if the start fails, and stops the control plane at its end.
func StartForTest(t testing.TB, flags ...string) *ControlPlane {
	t.Helper()
	plane, err := Start(flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Stop)
	return plane
}

// Reset deletes everything except the built-in objects and the nodes of --nodes, in milliseconds.
func (plane *ControlPlane) Reset() error {
	response, err := http.Post(plane.URL+"/-/reset", "application/json", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= 300 {
		body, _ := io.ReadAll(response.Body)
		return fmt.Errorf("reset: %s: %s", response.Status, body)
	}
	return nil
}

// Stop ends the control plane and removes its data.
func (plane *ControlPlane) Stop() {
	plane.stdin.Close()
	plane.command.Wait()
	os.RemoveAll(plane.dir)
}
