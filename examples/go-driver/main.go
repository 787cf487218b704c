// A DRA driver in Go, on Kubernetes' own library: two devices, one CDI file per claim.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	driverName = "fpga.example.com"
	cdiKind    = "example.com/fpga"
)

// driver serves the kubelet of one node.
type driver struct {
	cdiDir string
}

// PrepareResourceClaims writes the CDI file of each claim. It may be called again for a claim that is prepared.
func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	var devices []kubeletplugin.Device
	var specs []map[string]any
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != driverName {
			continue
		}
		name := string(claim.UID) + "-" + result.Device
		specs = append(specs, map[string]any{
			"name":           name,
			"containerEdits": map[string]any{"env": []string{"FPGA=" + result.Device}},
		})
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{result.Request},
			PoolName:     result.Pool,
			DeviceName:   result.Device,
			CDIDeviceIDs: []string{cdiKind + "=" + name},
		})
	}
	spec, err := json.Marshal(map[string]any{"cdiVersion": "0.6.0", "kind": cdiKind, "devices": specs})
	if err != nil {
		return nil, err
	}
	draft := filepath.Join(d.cdiDir, "."+string(claim.UID))
	if err := os.WriteFile(draft, spec, 0o644); err != nil {
		return nil, err
	}
	return devices, os.Rename(draft, d.cdiFile(claim.UID))
}

// UnprepareResourceClaims removes the CDI files. It may be called again for a claim that is released.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(d.cdiFile(claim.UID))
		if os.IsNotExist(err) {
			err = nil
		}
		results[claim.UID] = err
	}
	return results, nil
}

func (d *driver) cdiFile(claim types.UID) string {
	return filepath.Join(d.cdiDir, driverName+"_"+string(claim)+".json")
}

// HandleError logs errors of the background, such as slices that the API server rejects.
func (d *driver) HandleError(_ context.Context, err error, message string) {
	log.Printf("%s: %v", message, err)
}

func main() {
	node := flag.String("node", "", "name of the node")
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig; empty in a cluster")
	plugins := flag.String("plugin-dir", "/var/lib/kubelet/plugins", "the kubelet's directory of plugins")
	registry := flag.String("registry-dir", "/var/lib/kubelet/plugins_registry", "the kubelet's directory of registrations")
	cdiDir := flag.String("cdi-dir", "/var/run/cdi", "directory of CDI files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	check(err)
	client, err := kubernetes.NewForConfig(config)
	check(err)
	data := filepath.Join(*plugins, driverName)
	check(os.MkdirAll(data, 0o755))
	check(os.MkdirAll(*cdiDir, 0o755))
	helper, err := kubeletplugin.Start(ctx, &driver{cdiDir: *cdiDir},
		kubeletplugin.DriverName(driverName),
		kubeletplugin.NodeName(*node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.PluginDataDirectoryPath(data),
		kubeletplugin.RegistrarDirectoryPath(*registry),
	)
	check(err)
	defer helper.Stop()
	devices := []resourceapi.Device{{Name: "fpga-0"}, {Name: "fpga-1"}}
	check(helper.PublishResources(ctx, resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{*node: {Slices: []resourceslice.Slice{{Devices: devices}}}},
	}))
	<-ctx.Done()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
