package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/pprof"
	"time"

	"github.com/mcpwire/mcpwire/tools/bench/internal/processor"
)

// childFlag makes the program a child process. The next argument is its role, a JSON object.
const childFlag = "-child"

// role is the role of a child process: a node if Dir is set without Store, and a member otherwise.
type role struct {
	Dir    string   // of the files of a node or of a bolt store
	Routes []string // of a node: the other nodes that run
	Nodes  int      // of a node: the size of the cluster
	Number int      // of a node

	Store    string // of a member: "bolt", or the name of a store in JetStream
	URLs     string // of the nodes
	Replicas int
}

// command is a line of JSON that the parent sends to a child process.
type command struct {
	// Profile is the file to write a processor profile to, until a command with EndProfile.
	Profile    string `json:",omitempty"`
	EndProfile bool   `json:",omitempty"`
	// Floor makes a member publish.
	Floor *floor `json:",omitempty"`
}

// report is the response of a child process to a command, and the first line of its output.
type report struct {
	Error     string        `json:",omitempty"`
	URL       string        `json:",omitempty"` // at which it is reached
	Cluster   string        `json:",omitempty"` // address for the other nodes
	Processor time.Duration // since the process started
	Messages  uint64        // that a member has sent to the nodes
	Bytes     uint64        // the payloads of these messages
	Done      int           // floors that are done
}

// process is a child process, or this one in the role of a node.
type process struct {
	report // the first
	cmd    *exec.Cmd
	in     io.Closer
	send   *json.Encoder
	out    *json.Decoder
	end    func() // of a node in this process
}

// start starts a child process and returns when it is ready.
func start(ctx context.Context, r role) (*process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	arg, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, path, childFlag, string(arg))}
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.send = in, json.NewEncoder(in)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	if p.report, err = p.read(); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) read() (r report, err error) {
	if err := p.out.Decode(&r); err != nil {
		return r, fmt.Errorf("child process: %w", err)
	}
	if r.Error != "" {
		return r, errors.New(r.Error)
	}
	return r, nil
}

// do sends a command and returns the response. A node in this process uses the processor time of
// this process.
func (p *process) do(c command) (report, error) {
	if p.cmd == nil {
		return p.report, nil
	}
	if err := p.send.Encode(c); err != nil {
		return report{}, err
	}
	return p.read()
}

// stop ends the process.
func (p *process) stop() error {
	if p.cmd == nil {
		p.end()
		return nil
	}
	p.in.Close()
	return p.cmd.Wait()
}

// child runs a child process until in ends.
func child(ctx context.Context, arg string, in io.Reader, out io.Writer) error {
	var r role
	if err := json.Unmarshal([]byte(arg), &r); err != nil {
		return err
	}
	respond := json.NewEncoder(out)
	var first report
	var perform func(context.Context, command) (report, error)
	var end func() error
	var err error
	if r.Store == "" {
		first, end, err = startNode(r)
		perform = func(context.Context, command) (report, error) { return report{}, nil }
	} else {
		var m *member
		if m, err = startMember(ctx, r); err == nil {
			first, perform, end = report{URL: m.url}, m.perform, m.close
		}
	}
	if err != nil {
		return respond.Encode(report{Error: err.Error()})
	}
	if err := respond.Encode(first); err != nil {
		return errors.Join(err, end())
	}
	commands := json.NewDecoder(in)
	var profile *os.File
	for {
		var c command
		if err := commands.Decode(&c); err != nil {
			break
		}
		if c.EndProfile {
			pprof.StopCPUProfile()
			profile.Close()
		}
		answer, err := perform(ctx, c)
		if err == nil && c.Profile != "" {
			if profile, err = os.Create(c.Profile); err == nil {
				err = pprof.StartCPUProfile(profile)
			}
		}
		if err != nil {
			answer.Error = err.Error()
		}
		answer.Processor = processor.Time()
		if err := respond.Encode(answer); err != nil {
			return errors.Join(err, end())
		}
	}
	return end()
}
