package operator

import (
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"testing"

	kubedra "github.com/kubedra/kubedra/clients/go"
)

var plane *kubedra.ControlPlane

func TestMain(m *testing.M) {
	var err error
	if plane, err = kubedra.Start("--nodes=1", "--devices=gpu.example.com"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	plane.Stop()
	os.Exit(code)
}

// With client-go: clientcmd.BuildConfigFromFlags("", plane.Kubeconfig), then kubernetes.NewForConfig as usual.
func TestANodePublishesItsDevices(t *testing.T) {
	response, err := http.Get(plane.URL + "/apis/resource.k8s.io/v1/resourceslices?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=5")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	event := make([]byte, 65536)
	read, err := io.ReadAtLeast(response.Body, event, 2)
	if err != nil || !strings.Contains(string(event[:read]), "resource.k8s.io/v1") {
		t.Fatalf("%v: %s", err, event[:read])
	}
}
