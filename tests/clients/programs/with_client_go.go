// client-go, with bodies in $CONTENT_TYPE. What a step is stands in tests/clients/steps.py.
//
// It is built in a Go module that has client-go: `go build -o PROGRAM .../with_client_go.go`.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type object = map[string]any

var (
	all       = context.Background()
	namespace = os.Getenv("NAMESPACE")
	client    = connect(os.Getenv("KUBECONFIG"))
	maps      = client.CoreV1().ConfigMaps(namespace)
)

const name = "settings"

func must[T any](got T, err error) T {
	if err != nil {
		panic(err)
	}
	return got
}

func connect(file string) *kubernetes.Clientset {
	config := must(clientcmd.BuildConfigFromFlags("", file))
	if kind := os.Getenv("CONTENT_TYPE"); kind != "" {
		config.ContentType = kind
		config.AcceptContentTypes = kind + ",application/json"
	}
	return must(kubernetes.NewForConfig(config))
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

func patched(kind types.PatchType, body string) any {
	return must(maps.Patch(all, name, kind, []byte(body), metav1.PatchOptions{})).Data
}

// change makes, changes and deletes an object; next gives what has come of each.
func change(name string, next func() string) (seen []string) {
	must(maps.Create(all, configMap(name, nil), metav1.CreateOptions{}))
	seen = append(seen, next())
	must(maps.Patch(all, name, types.MergePatchType, []byte(`{"data":{"b":"2"}}`), metav1.PatchOptions{}))
	seen = append(seen, next())
	must(0, maps.Delete(all, name, metav1.DeleteOptions{}))
	return append(seen, next())
}

func watch() any {
	listed := must(maps.List(all, metav1.ListOptions{}))
	watching := must(maps.Watch(all, metav1.ListOptions{ResourceVersion: listed.ResourceVersion}))
	defer watching.Stop()
	return change("watched", func() string {
		for event := range watching.ResultChan() {
			if found, is := event.Object.(*corev1.ConfigMap); is && found.Name == "watched" {
				return string(event.Type)
			}
		}
		return "the watch has ended"
	})
}

func inform() any {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	came := make(chan string, 10)
	put := func(found any, event string) {
		if found, is := found.(*corev1.ConfigMap); is && found.Name == "followed" {
			came <- event
		}
	}
	must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(found any) { put(found, "ADDED") },
		UpdateFunc: func(_, found any) { put(found, "MODIFIED") },
		DeleteFunc: func(found any) { put(found, "DELETED") },
	}))
	factory.Start(all.Done())
	factory.WaitForCacheSync(all.Done())
	return change("followed", func() string { return <-came })
}

func apply() any {
	applied := applycore.ConfigMap(name, namespace).WithData(map[string]string{"a": "9"})
	_, err := maps.Apply(all, applied, metav1.ApplyOptions{FieldManager: "script"})
	status, is := err.(errors.APIStatus)
	if !is {
		panic(fmt.Sprint("no conflict: ", err))
	}
	forced := must(maps.Apply(all, applied, metav1.ApplyOptions{FieldManager: "script", Force: true}))
	return object{"refused": status.Status().Code, "forced": forced.Data}
}

func elect() any {
	leads := make(chan bool, 1)
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: "leader", Namespace: namespace},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
	}
	go leaderelection.RunOrDie(all, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { leads <- true },
			OnStoppedLeading: func() {},
		},
	})
	<-leads
	return *must(client.CoordinationV1().Leases(namespace).Get(all, "leader", metav1.GetOptions{})).Spec.HolderIdentity
}

func devices() any {
	asked := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "one-gpu"}}
	asked.Spec.Devices.Requests = []resourcev1.DeviceRequest{
		{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.example.com"}},
	}
	made := must(client.ResourceV1().ResourceClaims(namespace).Create(all, asked, metav1.CreateOptions{}))
	slices := must(client.ResourceV1().ResourceSlices().List(all, metav1.ListOptions{}))
	var names []string
	for _, device := range slices.Items[0].Spec.Devices {
		names = append(names, device.Name)
	}
	return object{"class": made.Spec.Devices.Requests[0].Exactly.DeviceClassName, "devices": names}
}

func list() any {
	var names []string
	for _, found := range must(maps.List(all, metav1.ListOptions{})).Items {
		names = append(names, found.Name)
	}
	return names
}

func gone() any {
	must(0, maps.Delete(all, name, metav1.DeleteOptions{}))
	_, err := maps.Get(all, name, metav1.GetOptions{})
	return err.(errors.APIStatus).Status().Code
}

func say(line object) { fmt.Println(string(must(json.Marshal(line)))) }

func play(step string, run func() any) {
	defer func() {
		if wrong := recover(); wrong != nil {
			say(object{"step": step, "error": fmt.Sprint(wrong)})
		}
	}()
	say(object{"step": step, "saw": run()})
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, module := range info.Deps {
		if module.Path == "k8s.io/client-go" && module.Version != "(devel)" {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return os.Getenv("CLIENT_GO_VERSION")
}

func main() {
	say(object{"version": version()})
	play("create", func() any {
		return must(maps.Create(all, configMap(name, map[string]string{"a": "1"}), metav1.CreateOptions{})).Data
	})
	play("list", list)
	play("watch", watch)
	play("merge", func() any { return patched(types.MergePatchType, `{"data":{"b":"2"}}`) })
	play("json", func() any { return patched(types.JSONPatchType, `[{"op":"add","path":"/data/c","value":"3"}]`) })
	play("strategic", func() any { return patched(types.StrategicMergePatchType, `{"data":{"d":"4"}}`) })
	play("apply", apply)
	play("informer", inform)
	play("election", elect)
	play("devices", devices)
	play("tls", func() any {
		other := connect(os.Getenv("SECURE_KUBECONFIG"))
		return must(other.CoreV1().Namespaces().Get(all, "default", metav1.GetOptions{})).Name
	})
	play("delete", gone)
}
