// Runs many kubectl commands in one process: a start of kubectl costs 50 to 100 ms, a command about 5 ms.
//
// Build it in a checkout of Kubernetes: copy this file to cmd/kubectl-loop/main.go, then
// `go build -o kubectl-loop ./cmd/kubectl-loop`.
//
// Each line of standard input is a JSON array with the arguments of a command. Its output is appended to the files named by
// the two arguments, its exit code is a line of standard output. The process ends where kubectl itself calls os.Exit.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

type exit int

func open(name string, flags int) *os.File {
	file, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		panic(err)
	}
	return file
}

func run(arguments []string) (code exit) {
	defer func() {
		if found := recover(); found != nil {
			ended, ok := found.(exit)
			if !ok {
				panic(found)
			}
			code = ended
		}
	}()
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	command := cmd.NewDefaultKubectlCommandWithArgs(cmd.KubectlOptions{
		Arguments:   append([]string{"kubectl"}, arguments...),
		ConfigFlags: genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50.0).WithWarningPrinter(streams),
		IOStreams:   streams,
	})
	command.SetArgs(arguments)
	if err := cli.RunNoErrOutput(command); err != nil {
		util.CheckErr(err)
	}
	return 0
}

func main() {
	commands, answers := bufio.NewReader(os.Stdin), os.Stdout
	os.Stdin = open(os.DevNull, os.O_RDONLY)
	appending := os.O_WRONLY | os.O_APPEND | os.O_CREATE
	os.Stdout, os.Stderr = open(os.Args[1], appending), open(os.Args[2], appending)
	os.Args = []string{"kubectl"}
	util.BehaviorOnFatal(func(message string, code int) {
		if message != "" {
			fmt.Fprintln(os.Stderr, strings.TrimSuffix(message, "\n"))
		}
		panic(exit(code))
	})
	for {
		line, err := commands.ReadBytes('\n')
		if err != nil {
			return
		}
		var arguments []string
		if err := json.Unmarshal(line, &arguments); err != nil {
			panic(err)
		}
		fmt.Fprintln(answers, int(run(arguments)))
	}
}
