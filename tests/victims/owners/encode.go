// Go's standard library does the work. Prints how much, by its own clock.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
	"sort"
	"syscall"
)

type row struct {
	Name  string
	Worth []float64
}

var rows []row
var used int

func cpuSeconds() float64 {
	var u syscall.Rusage
	syscall.Getrusage(1, &u) // of this thread
	return float64(u.Utime.Sec+u.Stime.Sec) + float64(u.Utime.Usec+u.Stime.Usec)/1e6
}

func encode() {
	text, _ := json.Marshal(rows)
	used += len(text)
}

func order() {
	names := make([]string, 0, len(rows))
	for _, r := range rows {
		names = append(names, r.Name)
	}
	sort.Strings(names)
	used += len(names[0])
}

func digest() {
	sum := sha256.Sum256(make([]byte, 200000))
	used += int(sum[0])
}

func spend(name string, work func(), seconds float64) {
	start := cpuSeconds()
	for cpuSeconds()-start < seconds {
		work()
	}
	fmt.Println("truth", name, cpuSeconds()-start)
}

func main() {
	runtime.LockOSThread()
	for i := 0; i < 1000; i++ {
		rows = append(rows, row{fmt.Sprint(i * 7919 % 1009), []float64{float64(i), 1.5 * float64(i)}})
	}
	spend("main.order", order, 0.24)
	spend("main.encode", encode, 0.6)
	spend("main.digest", digest, 0.12)
}
