package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// RedisServer is a private redis-server, or a sentinel.
type RedisServer struct {
	*Process
	Addr string
	Port int

	t TB
}

// Redis starts a redis-server that keeps nothing on disk, and waits until it
// answers. options are further ones, as "--maxmemory", "10mb".
func Redis(t TB, options ...string) *RedisServer {
	t.Helper()
	r := startRedis(t, options...)
	r.Ready()
	return r
}

func startRedis(t TB, options ...string) *RedisServer {
	t.Helper()
	program := Command(t, "redis-server", "redis-server")
	port := Port(t)
	args := append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0", "--loglevel", "notice"}, options...)
	return &RedisServer{Process: Start(t, program, args...), Addr: Address(port), Port: port, t: t}
}

// Ready waits until the server answers, as after Restart.
func (r *RedisServer) Ready() {
	r.t.Helper()
	r.Await(func() error {
		reply, err := r.Do("PING")
		if err != nil && !strings.HasPrefix(err.Error(), "NOAUTH") {
			return err
		}
		if err == nil && reply != "PONG" {
			return fmt.Errorf("PING is answered by %q", reply)
		}
		return nil
	})
}

// Do runs one command on a connection of its own and returns the reply: of an array,
// its elements by lines.
func (r *RedisServer) Do(args ...string) (string, error) {
	c, err := net.DialTimeout("tcp", r.Addr, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return "", err
	}
	return readReply(bufio.NewReader(c))
}

// Must is Do for what cannot fail.
func (r *RedisServer) Must(args ...string) string {
	r.t.Helper()
	reply, err := r.Do(args...)
	if err != nil {
		r.t.Fatalf("%s of %s: %v", strings.Join(args, " "), r.Addr, err)
	}
	return reply
}

func readReply(b *bufio.Reader) (string, error) {
	line, err := b.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return "", errors.New("an empty line for a reply")
	}
	n, _ := strconv.Atoi(line[1:])
	switch line[0] {
	case '-':
		return "", errors.New(line[1:])
	case '$':
		if n < 0 {
			return "", nil
		}
		text := make([]byte, n+2)
		_, err := io.ReadFull(b, text)
		return string(text[:n]), err
	case '*':
		var all []string
		for range n {
			s, err := readReply(b)
			if err != nil {
				return "", err
			}
			all = append(all, s)
		}
		return strings.Join(all, "\n"), nil
	}
	return line[1:], nil
}

// Replica starts a server that follows primary, and waits until it is up to date.
func Replica(t TB, primary *RedisServer, options ...string) *RedisServer {
	t.Helper()
	host, port, _ := net.SplitHostPort(primary.Addr)
	r := Redis(t, append([]string{"--replicaof", host + " " + port}, options...)...)
	r.Await(func() error { return r.says("master_link_status:up", "INFO", "replication") })
	return r
}

// says returns an error unless the reply to a command has text.
func (r *RedisServer) says(text string, command ...string) error {
	reply, err := r.Do(command...)
	if err == nil && !strings.Contains(reply, text) {
		err = fmt.Errorf("%s has no %s:\n%s", strings.Join(command, " "), text, reply)
	}
	return err
}

// Sentinels starts three sentinels that watch primary under name, which they replace
// when it was not heard for down, and waits until they know each other and its
// replicas.
func Sentinels(t TB, name string, primary *RedisServer, replicas int, down time.Duration) []*RedisServer {
	t.Helper()
	program := Command(t, "redis-sentinel", "redis-sentinel")
	var all []*RedisServer
	for range 3 {
		port, dir := Port(t), t.TempDir()
		conf := fmt.Sprintf("bind 127.0.0.1\nport %d\nsentinel monitor %s 127.0.0.1 %d 2\n"+
			"sentinel down-after-milliseconds %[2]s %[4]d\nsentinel failover-timeout %[2]s %[5]d\n",
			port, name, primary.Port, down.Milliseconds(), 4*down.Milliseconds())
		if err := os.WriteFile(filepath.Join(dir, "sentinel.conf"), []byte(conf), 0o600); err != nil {
			t.Fatalf("%v", err)
		}
		all = append(all, &RedisServer{Process: In(t, dir, program, "sentinel.conf"), Addr: Address(port), Port: port, t: t})
	}
	for _, s := range all {
		s.Await(func() error {
			if err := s.says(fmt.Sprintf("slaves=%d,sentinels=3", replicas), "INFO", "sentinel"); err != nil {
				return err
			}
			return s.says("status=ok", "INFO", "sentinel")
		})
	}
	return all
}

// Cluster starts a Redis Cluster of three primaries, the first three, with a replica
// each, which replace one that was not heard for timeout, and waits until all agree.
func Cluster(t TB, timeout time.Duration, options ...string) []*RedisServer {
	t.Helper()
	var all []*RedisServer
	for range 6 {
		all = append(all, startRedis(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(Port(t)),
			"--cluster-node-timeout", strconv.FormatInt(timeout.Milliseconds(), 10), "--cluster-allow-replica-migration", "no"}, options...)...))
	}
	var ids []string
	for i, r := range all {
		r.Ready()
		ids = append(ids, r.Must("CLUSTER", "MYID"))
		r.Must("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for i, r := range all[:3] {
		r.Must("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*16384/3), strconv.Itoa((i+1)*16384/3-1))
	}
	for _, r := range all[1:] {
		bus := strings.TrimSpace(strings.Split(all[0].Must("CONFIG", "GET", "cluster-port"), "\n")[1])
		r.Must("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(all[0].Port), bus)
	}
	for _, r := range all {
		r.Await(func() error { return r.says("cluster_known_nodes:6", "CLUSTER", "INFO") })
	}
	for i, r := range all[3:] {
		r.Await(func() error { _, err := r.Do("CLUSTER", "REPLICATE", ids[i]); return err })
	}
	for i, r := range all {
		r.Await(func() error { return r.says("cluster_state:ok", "CLUSTER", "INFO") })
		if i >= 3 {
			r.Await(func() error { return r.says("master_link_status:up", "INFO", "replication") })
		}
		r.Await(func() error { // everybody knows whose replicas there are
			nodes, err := r.Do("CLUSTER", "NODES")
			if n := strings.Count(nodes, "slave "); err == nil && n != 3 {
				err = fmt.Errorf("%d replicas", n)
			}
			return err
		})
	}
	return all
}
