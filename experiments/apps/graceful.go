// A server that is replaced without losing a request, as Go servers classically are:
//
//	graceful ADDRESS FILE
//
// On SIGUSR2 it starts its own program again and passes the listening socket on as
// descriptor 3. The new process accepts connections from it and then sends SIGTERM to
// its parent. The parent stops accepting, says "Connection: close" in every further
// answer, waits until its connections are closed, idle ones for at most five seconds,
// and ends. FILE gets one byte per answered request.
package main

import (
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	inherited = "GRACEFUL_INHERITED"
	idleLimit = 5 * time.Second
)

func main() {
	address, file := os.Args[1], os.Args[2]
	served, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	check(err)
	listener, err := listen(address)
	check(err)

	var open sync.WaitGroup
	var leaving atomic.Bool
	answer := func(w http.ResponseWriter, _ *http.Request) {
		if leaving.Load() {
			w.Header().Set("Connection", "close")
		}
		w.Header().Set("Content-Type", "text/plain")
		_, err := w.Write([]byte("Hello World!"))
		check(err)
		_, err = served.Write([]byte{'.'})
		check(err)
	}
	server := &http.Server{
		Handler:           http.HandlerFunc(answer),
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      5 * time.Second,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed, http.StateHijacked:
				open.Done()
			}
		},
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR2, syscall.SIGTERM)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// It returns once the listener is closed.
		_ = server.Serve(listener)
	}()
	if os.Getenv(inherited) != "" {
		check(syscall.Kill(os.Getppid(), syscall.SIGTERM))
	}
	for received := range signals {
		if received == syscall.SIGTERM {
			break
		}
		replace(listener)
	}
	leaving.Store(true)
	check(listener.Close())
	<-ended
	wait(&open)
}

// listen takes the listening socket over from the parent, or opens it.
func listen(address string) (net.Listener, error) {
	if os.Getenv(inherited) == "" {
		return net.Listen("tcp", address)
	}
	return net.FileListener(os.NewFile(3, "listener"))
}

// replace starts this program again with the listening socket.
func replace(listener net.Listener) {
	socket, err := listener.(*net.TCPListener).File()
	check(err)
	defer socket.Close()
	program, err := os.Executable()
	check(err)
	child := exec.Command(program, os.Args[1:]...)
	child.Env = append(os.Environ(), inherited+"=1")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.ExtraFiles = []*os.File{socket}
	check(child.Start())
}

// wait waits until all connections are closed, at most for the limit.
func wait(open *sync.WaitGroup) {
	closed := make(chan struct{})
	go func() {
		open.Wait()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(idleLimit):
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
