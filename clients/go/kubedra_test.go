package kubedra_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	kubedra "github.com/kubedra/kubedra/clients/go"
)

func ExampleStart() {
	plane, err := kubedra.Start("--emulated-version=1.35")
	if err != nil {
		panic(err)
	}
	defer plane.Stop()
	response, err := http.Get(plane.URL + "/version")
	if err != nil {
		panic(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	fmt.Println(strings.Contains(string(body), `"v1.35.`))
	// Output: true
}

func TestAResetDeletesWhatATestCreated(t *testing.T) {
	plane := kubedra.StartForTest(t)
	maps := plane.URL + "/api/v1/namespaces/default/configmaps"
	created, err := http.Post(maps, "application/json", strings.NewReader(`{"metadata": {"name": "one"}}`))
	if err != nil || created.StatusCode != 201 {
		t.Fatalf("%v %v", created, err)
	}
	if err := plane.Reset(); err != nil {
		t.Fatal(err)
	}
	if read, err := http.Get(maps + "/one"); err != nil || read.StatusCode != 404 {
		t.Fatalf("%v %v", read, err)
	}
	if kubeconfig, err := os.ReadFile(plane.Kubeconfig); err != nil || !strings.Contains(string(kubeconfig), plane.URL) {
		t.Fatalf("%s %v", kubeconfig, err)
	}
}

func TestAFailedStartNamesItsReason(t *testing.T) {
	_, err := kubedra.Start("--storage=nowhere")
	if err == nil || !strings.Contains(err.Error(), "--storage") {
		t.Fatal(err)
	}
}
