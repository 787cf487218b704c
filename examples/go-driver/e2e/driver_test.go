// Package e2e tests the driver as a process, on a node that is one, too. It needs only the standard library, so it is a
// module of its own and compiles in a moment.
package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kubedra "github.com/kubedra/kubedra/clients/go"
)

const (
	group = "/apis/resource.k8s.io/v1"
	class = `{"metadata": {"name": "fpga"}, "spec": {"selectors": [{"cel": {"expression": "device.driver == 'fpga.example.com'"}}]}}`
	claim = `{"metadata": {"name": "one"}, "spec": {"devices": {"requests": [{"name": "fpga", "exactly": {"deviceClassName": "fpga"}}]}}}`
	pod   = `{"metadata": {"name": "job"}, "spec": {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never",
		"resourceClaims": [{"name": "fpga", "resourceClaimName": "one"}],
		"containers": [{"name": "main", "image": "registry.example.com/job", "resources": {"claims": [{"name": "fpga"}]},
			"command": ["sh", "-c", "echo device $FPGA; exec sleep 3600"]}]}}`
)

func TestAPodSeesItsDeviceAndLeavesNothing(t *testing.T) {
	plane := kubedra.StartForTest(t)
	dir, err := os.MkdirTemp("", "fpga") // the path of a socket has at most 107 bytes
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	registry, cdi := filepath.Join(dir, "registry"), filepath.Join(dir, "cdi")
	check(t, os.MkdirAll(registry, 0o755))
	run(t, "kubedra", "node", "run", "n1", "--run", "--kubeconfig="+plane.Kubeconfig, "--plugin-dir="+dir, "--sync-frequency=1s")
	eventually(t, "the node is ready", func() bool {
		return strings.Contains(get(plane.URL+"/api/v1/nodes/n1"), "KubeletReady")
	})
	run(t, driver(t), "--node=n1", "--kubeconfig="+plane.Kubeconfig, "--plugin-dir="+dir, "--registry-dir="+registry, "--cdi-dir="+cdi)

	post(t, plane.URL+group+"/deviceclasses", class)
	post(t, plane.URL+group+"/namespaces/default/resourceclaims", claim)
	pods := plane.URL + "/api/v1/namespaces/default/pods"
	post(t, pods, pod)
	eventually(t, "the pod's process prints its device", func() bool {
		return strings.HasPrefix(get(pods+"/job/log"), "device fpga-")
	})
	if files, _ := filepath.Glob(cdi + "/*.json"); len(files) != 1 {
		t.Fatalf("CDI files of a prepared claim: %v", files)
	}

	request, err := http.NewRequest(http.MethodDelete, pods+"/job", nil)
	check(t, err)
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	response.Body.Close()
	eventually(t, "the claim is released with the pod", func() bool {
		files, _ := filepath.Glob(cdi + "/*.json")
		return len(files) == 0 && strings.Contains(get(pods+"/job"), `"NotFound"`)
	})
}

// driver returns the path of the binary: $DRIVER, or the driver beside this module, compiled now.
func driver(t *testing.T) string {
	if binary := os.Getenv("DRIVER"); binary != "" {
		return binary
	}
	binary := filepath.Join(t.TempDir(), "driver")
	built, err := exec.Command("go", "build", "-C", "..", "-o", binary, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, built)
	}
	return binary
}

// run starts a command that ends with the test.
func run(t *testing.T, name string, arguments ...string) {
	command := exec.Command(name, arguments...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	check(t, command.Start())
	t.Cleanup(func() {
		command.Process.Signal(os.Interrupt)
		command.Wait()
	})
}

func post(t *testing.T, url, body string) {
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	check(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		answer, _ := io.ReadAll(response.Body)
		t.Fatalf("%s: %s", url, answer)
	}
}

func get(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return fmt.Sprint(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return string(body)
}

func eventually(t *testing.T, what string, holds func() bool) {
	for deadline := time.Now().Add(90 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not in time: " + what)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
